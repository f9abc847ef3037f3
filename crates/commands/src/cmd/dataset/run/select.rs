//! The datasets and snapshots that `list` and `get` select.
//!
//! As for `zfs`: a snapshot counts as one level below its dataset, so `-d 1` takes a dataset's own
//! snapshots and not those of its children; and a dataset with `-t snapshot` stands for its snapshots.

use std::collections::HashSet;

use console::outcome::Result;
use console::session::{Session, answer};
use protocol::api::{DatasetRow, command};

use crate::cmd::dataset::args::DatasetType;

pub(super) struct Selection {
    names: Vec<String>,
    /// The number of levels below the names; `None` is all.
    depth: Option<u32>,
    filesystems: bool,
    volumes: bool,
    snapshots: bool,
    bookmarks: bool,
    /// True if types were chosen, so that they hold for what is named too.
    typed: bool,
}

impl Selection {
    /// The selection by the options of a command; `default` are the types without `-t`.
    pub(super) fn new(
        names: Vec<String>,
        recursive: bool,
        depth: Option<u32>,
        types: &[DatasetType],
        default: DatasetType,
    ) -> Selection {
        let has = |wanted: DatasetType| {
            let of = |kind: &DatasetType| *kind == wanted || *kind == DatasetType::All;
            match types {
                [] => of(&default),
                types => types.iter().any(of),
            }
        };
        let (filesystems, snapshots) = (has(DatasetType::Filesystem), has(DatasetType::Snapshot));
        let bookmarks = has(DatasetType::Bookmark);
        let volumes = has(DatasetType::Volume) || types.is_empty() && filesystems;
        let depth = match depth {
            Some(depth) => Some(depth),
            None if recursive || names.is_empty() => None,
            None if (snapshots || bookmarks) && !filesystems && !volumes => Some(1),
            None => Some(0),
        };
        Selection {
            names,
            depth,
            filesystems,
            volumes,
            snapshots,
            bookmarks,
            typed: !types.is_empty(),
        }
    }

    /// Asks for these properties of what is selected; all properties if none is named.
    pub(super) fn fetch(
        &self,
        session: &mut Session,
        props: Vec<String>,
    ) -> Result<Vec<DatasetRow>> {
        let command = command::Get {
            names: self.names.clone(),
            depth: self.depth,
            snapshots: self.snapshots && self.depth != Some(0),
            bookmarks: self.bookmarks && self.depth != Some(0),
            props,
        };
        let rows = answer!(session.call(command)?, Datasets)?;
        let mut seen = HashSet::new();
        let mut rows: Vec<DatasetRow> = rows.into_iter().filter(|row| self.holds(row)).collect();
        rows.retain(|row| seen.insert(row.name.clone()));
        Ok(rows)
    }

    fn holds(&self, row: &DatasetRow) -> bool {
        let is_named = self.names.contains(&row.name);
        let of_type = match row.kind.as_str() {
            "snapshot" => self.snapshots,
            "bookmark" => self.bookmarks,
            "volume" => self.volumes,
            _ => self.filesystems,
        };
        if is_named && !self.typed {
            return true;
        }
        of_type
            && self
                .level(&row.name)
                .is_some_and(|level| self.depth.is_none_or(|depth| level <= depth))
    }

    /// The number of levels that a name is below the nearest that was given, or below its pool if none was.
    fn level(&self, name: &str) -> Option<u32> {
        let below = |top: &str| -> Option<u32> {
            let rest = name.strip_prefix(top)?;
            let is_below = rest.is_empty() || rest.starts_with(['/', '@', '#']);
            is_below.then(|| rest.matches(['/', '@', '#']).count() as u32)
        };
        match self.names.is_empty() {
            true => Some(name.matches(['/', '@', '#']).count() as u32),
            false => self.names.iter().filter_map(|top| below(top)).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 7] = [
        "tank",
        "tank@a",
        "tank/home",
        "tank/home@a",
        "tank/home/ann",
        "tank/homes",
        "tank/vol",
    ];

    fn selected(
        names: &[&str],
        recursive: bool,
        depth: Option<u32>,
        types: &[DatasetType],
    ) -> Vec<String> {
        let names = names.iter().map(ToString::to_string).collect();
        let selection = Selection::new(names, recursive, depth, types, DatasetType::Filesystem);
        let row = |name: &str| DatasetRow {
            name: name.into(),
            kind: match name {
                name if name.contains('@') => "snapshot",
                "tank/vol" => "volume",
                _ => "filesystem",
            }
            .into(),
            props: Vec::new(),
        };
        let rows = ALL.map(row);
        let held = rows.iter().filter(|row| selection.holds(row));
        held.map(|row| row.name.clone()).collect()
    }

    #[test]
    fn names_depth_and_types() {
        use DatasetType::{All, Filesystem, Snapshot, Volume};
        let all = [
            "tank",
            "tank/home",
            "tank/home/ann",
            "tank/homes",
            "tank/vol",
        ];
        assert_eq!(selected(&[], false, None, &[]), all);
        assert_eq!(selected(&[], false, None, &[Filesystem]), all[..4]);
        assert_eq!(selected(&[], false, None, &[Volume]), all[4..]);
        assert_eq!(
            selected(&[], false, None, &[Snapshot, Volume]),
            ["tank@a", "tank/home@a", "tank/vol"]
        );
        assert_eq!(
            selected(&[], false, Some(1), &[]),
            ["tank", "tank/home", "tank/homes", "tank/vol"]
        );
        assert_eq!(selected(&["tank/home"], false, None, &[]), ["tank/home"]);
        assert_eq!(
            selected(&["tank/home"], true, None, &[]),
            ["tank/home", "tank/home/ann"]
        );
        assert_eq!(
            selected(&["tank/home"], true, None, &[All]),
            ["tank/home", "tank/home@a", "tank/home/ann"]
        );
        assert_eq!(selected(&["tank/home"], false, None, &[All]), ["tank/home"]);
        assert_eq!(selected(&["tank"], false, None, &[Snapshot]), ["tank@a"]);
        assert_eq!(
            selected(&["tank"], true, None, &[Snapshot]),
            ["tank@a", "tank/home@a"]
        );
        assert_eq!(selected(&["tank@a"], false, None, &[]), ["tank@a"]);
        assert_eq!(selected(&["tank@a"], false, None, &[Filesystem]), [""; 0]);
        assert_eq!(
            selected(&["tank"], false, Some(1), &[Filesystem, Snapshot]),
            ["tank", "tank@a", "tank/home", "tank/homes"]
        );
    }
}
