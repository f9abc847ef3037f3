//! The space that a destruction would free.

use std::collections::BTreeSet;

use protocol::api::{DatasetRow, Value, command};

use crate::outcome::Result;
use crate::session::{Session, answer};
use crate::show::size;

/// A line with the space that these datasets and snapshots would free together. `clones`: some of them may be clones
/// of others.
pub(super) fn space(names: &[String], clones: bool, session: &mut Session) -> Result<String> {
    let parts = parts(names);
    if parts.counted.is_empty() {
        return Ok(String::new());
    }
    let command = command::Get {
        names: parts.counted.into_iter().map(str::to_owned).collect(),
        depth: Some(0),
        snapshots: false,
        bookmarks: false,
        props: vec!["used".into()],
    };
    let rows = answer!(session.call(command)?, Datasets)?;
    let bytes = size::human(rows.iter().map(used).sum());
    Ok(match parts.share || clones {
        true => format!("would free at least {bytes}\n"),
        false => format!("would free {bytes}\n"),
    })
}

fn used(row: &DatasetRow) -> u64 {
    let sizes = row.props.iter().map(|prop| match prop.value {
        Value::Bytes(bytes) => bytes,
        _ => 0,
    });
    sizes.sum()
}

#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    /// The highest datasets, whose `used` has what is below and their snapshots, and the snapshots of other datasets.
    counted: Vec<&'a str>,
    /// Whether two of these snapshots may have data that no other one has. No `used` counts it.
    share: bool,
}

fn parts(names: &[String]) -> Parts<'_> {
    let heads: BTreeSet<&str> = names
        .iter()
        .filter(|name| !name.contains('@'))
        .map(String::as_str)
        .collect();
    let is_below_another = |name: &str| {
        let above = name.match_indices(['/', '@']);
        above.into_iter().any(|(at, _)| heads.contains(&name[..at]))
    };
    let all = names.iter().map(String::as_str);
    let counted: Vec<&str> = all.filter(|name| !is_below_another(name)).collect();
    let datasets = counted.iter().filter_map(|name| name.split_once('@'));
    let mut seen = BTreeSet::new();
    let share = datasets.fold(false, |share, (dataset, _)| !seen.insert(dataset) || share);
    Parts { counted, share }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(names: &[&str]) -> (Vec<String>, bool) {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let Parts { counted, share } = parts(&names);
        (counted.into_iter().map(str::to_owned).collect(), share)
    }

    #[test]
    fn each_thing_is_counted_once() {
        let strings = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            counted(&["t/a/b@1", "t/a/b", "t/a@1", "t/a@2", "t/a", "t/ab@1"]),
            (strings(&["t/a", "t/ab@1"]), false)
        );
        assert_eq!(
            counted(&["t@1", "t/a@1"]),
            (strings(&["t@1", "t/a@1"]), false)
        );
        assert!(counted(&["t/a@1", "t/a@2"]).1);
    }
}
