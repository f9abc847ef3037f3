//! Bookmarks of snapshots.

use pool::NamedBookmark;
use protocol::api::{DatasetRow, PropertyRow, PropertyValue, ValueSource};

use crate::failure::Result;
use crate::state::callers::context::{CallerContext, ENTRY_TEXTS};
use crate::state::daemon::Daemon;

impl Daemon {
    pub(crate) fn bookmark(
        &self,
        of: &str,
        name: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool_of(dataset_of(name))?;
        let _admin = active.lock(context.decision)?;
        context.check_texts(&active, ENTRY_TEXTS)?;
        Ok(active.pool.bookmark(of, name, &context.origin())?)
    }

    pub(crate) fn destroy_bookmark(
        &self,
        name: &str,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool_of(dataset_of(name))?;
        let _admin = active.lock(context.decision)?;
        Ok(active.pool.destroy_bookmark(name, &context.origin())?)
    }

    /// The row for the bookmark with this name.
    pub(crate) fn row_of_bookmark(&self, name: &str, props: &[String]) -> Result<DatasetRow> {
        let active = self.pool_of(dataset_of(name))?;
        Ok(row(&active.pool.find_bookmark(name)?, props))
    }
}

/// The row for a bookmark, with all its properties if `props` is empty.
pub(crate) fn row(marked: &NamedBookmark, props: &[String]) -> DatasetRow {
    let all = ["type", "creation", "guid", "createtxg"].map(str::to_owned);
    let props = match props {
        [] => &all[..],
        props => props,
    };
    let value = |name: &str| match name {
        "name" => PropertyValue::Text(marked.name.clone()),
        "type" => PropertyValue::Text("bookmark".into()),
        "creation" => PropertyValue::Time(marked.bookmark.created),
        "guid" => PropertyValue::Number(marked.bookmark.guid),
        "createtxg" => PropertyValue::Number(marked.bookmark.created_txg),
        _ => PropertyValue::None,
    };
    let prop = |name: &String| PropertyRow {
        property: name.clone(),
        value: value(name),
        source: ValueSource::None,
    };
    DatasetRow {
        name: marked.name.clone(),
        kind: "bookmark".into(),
        props: props.iter().map(prop).collect(),
    }
}

fn dataset_of(name: &str) -> &str {
    name.split(['@', '#']).next().unwrap_or(name)
}
