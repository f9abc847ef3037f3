//! Decides what to send of one dataset, from the listings of both sides.
//!
//! The sides are compared by the guids of snapshots, which a stream carries. So names and clocks do not matter. The
//! listing of the target may come from a hostile host: it can make this side send more of this dataset, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use pool::ResumeToken;

use crate::failure::{Failure, Result};
use crate::serve::replication::listing::{ListedDataset, SavePoint};
use crate::state::replication::job::PENDING;

/// The most snapshots of a part of a step.
const PART: usize = 16;

/// A step of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyStep {
    /// Send the rest of an interrupted receive, with its token.
    Rest(String),
    /// Throw away what an interrupted receive left. Then look at both sides again.
    Abandon,
    /// Send a snapshot.
    Send {
        /// The snapshot, as `@name`.
        to: String,
        /// The earlier snapshot or bookmark; `@name` and `#name` are of the same dataset.
        from: Option<String>,
        /// True if the snapshots between the two are sent as well.
        all: bool,
    },
}

/// Decides what to send. `origin` is the whole name of the snapshot that a new copy becomes a clone of. `marks` is the begin
/// of the names of the job's bookmarks, with `#`.
///
/// # Errors
/// The target has diverged, or is another dataset. An interrupted receive that the job did not begin cannot go on.
pub(super) fn steps(
    source: &ListedDataset,
    target: Option<&ListedDataset>,
    origin: Option<&str>,
    marks: &str,
) -> Result<Vec<CopyStep>> {
    if let Some((target, token)) = target.and_then(|it| Some((it, it.token.as_ref()?))) {
        return match rest_of(source, target, token) {
            None if began(source, token, marks) => Ok(vec![CopyStep::Abandon]),
            None => Err(Failure::usage(format!(
                "'{0}' has an interrupted receive that this job did not begin and cannot go on; finish it, or throw it away: \
                 strongroom receive -A '{0}'",
                target.name
            ))),
            Some(received) => {
                let mut after = ListedDataset {
                    token: None,
                    is_partial: false,
                    ..target.clone()
                };
                after.snapshots.push(received.clone());
                let rest = CopyStep::Rest(token.clone());
                Ok([vec![rest], steps(source, Some(&after), None, marks)?].concat())
            }
        };
    }
    let Some(target) = target.filter(|target| !target.is_partial) else {
        let mut new = source.snapshots.iter();
        let Some(first) = new.next() else {
            return Ok(Vec::new());
        };
        let mut steps = vec![CopyStep::Send {
            to: first.name.clone(),
            from: origin.map(str::to_owned),
            all: false,
        }];
        steps.extend(between(first, new.next_back()));
        return Ok(steps);
    };
    let base = base(source, target)?;
    let mut new = source.snapshots.iter().filter(|one| one.txg > base.txg);
    let Some(first) = new.next() else {
        return Ok(Vec::new());
    };
    let last = new.next_back();
    if base.name.starts_with('@') {
        let last = last.unwrap_or(first);
        return Ok(between(base, Some(last)).into_iter().collect());
    }
    let mut steps = vec![CopyStep::Send {
        to: first.name.clone(),
        from: Some(base.name.clone()),
        all: false,
    }];
    steps.extend(between(first, last));
    Ok(steps)
}

/// A part of a step, with the snapshots that it brings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CopyPart<'a> {
    pub(super) step: CopyStep,
    pub(super) brings: Vec<&'a SavePoint>,
}

/// Divides a step of a plan into parts with few snapshots each. Each of these gets a bookmark before it is sent, and the
/// bookmarks of a dataset have limited space.
pub(super) fn parts<'a>(source: &'a ListedDataset, step: &CopyStep) -> Vec<CopyPart<'a>> {
    let all = &source.snapshots;
    let find = |name: &str| all.iter().position(|point| point.name == name);
    if let CopyStep::Send {
        to,
        from: Some(from),
        all: true,
    } = step
        && let (Some(first), Some(last)) = (find(from), find(to))
        && first < last
    {
        let part = |from: usize| {
            let to = last.min(from + PART);
            CopyPart {
                step: CopyStep::Send {
                    to: all[to].name.clone(),
                    from: Some(all[from].name.clone()),
                    all: true,
                },
                brings: all[from + 1..=to].iter().collect(),
            }
        };
        return (first..last).step_by(PART).map(part).collect();
    }
    let brought = match step {
        CopyStep::Abandon => None,
        CopyStep::Rest(token) => ResumeToken::parse(token)
            .and_then(|token| all.iter().find(|point| point.guid == token.to_guid)),
        CopyStep::Send { to, .. } => find(to).map(|at| &all[at]),
    };
    vec![CopyPart {
        step: step.clone(),
        brings: brought.into_iter().collect(),
    }]
}

/// Finds a copy whose source was renamed: it has the name of no dataset of the source, and its newest snapshot is one of
/// a dataset without a copy. Returns its name, and the name that it should have. The copy above has to exist.
pub(super) fn renamed(
    source: &[ListedDataset],
    target: &[ListedDataset],
    copy_name: impl Fn(&ListedDataset) -> String,
) -> Option<(String, String)> {
    let wanted: BTreeSet<String> = source.iter().map(&copy_name).collect();
    let names: BTreeSet<&str> = target.iter().map(|copy| copy.name.as_str()).collect();
    // The copies without a source of their name, by the newest snapshot of each.
    let left = target.iter().filter(|copy| !wanted.contains(&copy.name));
    let left = left.filter_map(|copy| Some((copy.snapshots.last()?.guid, copy)));
    let left: BTreeMap<u64, &ListedDataset> = left.collect();
    source.iter().find_map(|one| {
        let name = copy_name(one);
        let (above, _) = name.rsplit_once('/')?;
        if names.contains(name.as_str()) || !names.contains(above) {
            return None;
        }
        let mut points = one.snapshots.iter().chain(&one.bookmarks);
        let copy = points.find_map(|point| left.get(&point.guid))?;
        Some((copy.name.clone(), name))
    })
}

/// The step that sends all snapshots after one of them.
fn between(from: &SavePoint, to: Option<&SavePoint>) -> Option<CopyStep> {
    to.map(|to| CopyStep::Send {
        to: to.name.clone(),
        from: Some(from.name.clone()),
        all: true,
    })
}

/// The snapshot that an interrupted receive brings when it goes on. `None` if it cannot: its snapshot is not one of the
/// source, or that from which it started is not.
fn rest_of<'a>(
    source: &'a ListedDataset,
    target: &ListedDataset,
    token: &str,
) -> Option<&'a SavePoint> {
    // A job sends what is sealed.
    let token = ResumeToken::parse(token).filter(|token| !token.plain)?;
    let find = |points: &'a [SavePoint], guid| points.iter().find(|point| point.guid == guid);
    let from = token.from_guid;
    let begins = from == 0
        || find(&source.snapshots, from).is_some()
        || find(&source.bookmarks, from).is_some()
        || target.is_partial;
    find(&source.snapshots, token.to_guid).filter(|_| begins)
}

/// Returns whether the job began the receive with this token: the snapshot has a pending bookmark of the job.
fn began(source: &ListedDataset, token: &str, marks: &str) -> bool {
    let is_of_job = |token: ResumeToken| {
        let mut own = source.bookmarks.iter();
        !token.plain
            && own.any(|mark| {
                let name = mark.name.strip_prefix(marks);
                mark.guid == token.to_guid && name.is_some_and(|name| name.ends_with(PENDING))
            })
    };
    ResumeToken::parse(token).is_some_and(is_of_job)
}

/// The newest state that both sides have. It has to be the newest one of the target.
fn base<'a>(source: &'a ListedDataset, target: &ListedDataset) -> Result<&'a SavePoint> {
    let (name, copy) = (&source.name, &target.name);
    // A snapshot is better than a bookmark of it.
    let points = source.bookmarks.iter().chain(&source.snapshots);
    let copied: BTreeSet<u64> = target.snapshots.iter().map(|it| it.guid).collect();
    let common = points.filter(|point| copied.contains(&point.guid));
    let common = common.max_by_key(|point| point.txg);
    let Some(common) = common else {
        return Err(Failure::usage(match target.snapshots.is_empty() {
            true => format!(
                "'{copy}' exists, and is no copy of '{name}': it has no snapshot; choose another target, or destroy \
                 '{copy}'"
            ),
            false => format!(
                "'{copy}' has diverged: it has no snapshot that '{name}' has too, or a bookmark of; choose another \
                 target, or destroy '{copy}' to copy everything again"
            ),
        }));
    };
    match target.snapshots.last() {
        Some(last) if last.guid != common.guid => {
            let same = target.snapshots.iter().find(|it| it.guid == common.guid);
            let same = same.map_or("", |same| &same.name);
            let last = &last.name;
            Err(Failure::usage(format!(
                "'{copy}' has diverged: '{copy}{last}' is not in '{name}', and newer than the last common snapshot; to \
                 give it up: strongroom rollback -r '{copy}{same}'"
            )))
        }
        _ => Ok(common),
    }
}

#[cfg(test)]
mod tests {
    use pool::StreamPosition;
    use protocol::api::FailureKind;

    use super::*;

    const MARKS: &str = "#replicate.j.";

    fn points(mark: char, guids: &[u64]) -> Vec<SavePoint> {
        let point = |guid: &u64| SavePoint {
            name: format!("{mark}{guid}"),
            guid: *guid,
            txg: *guid * 10,
        };
        guids.iter().map(point).collect()
    }

    fn listed(name: &str, snapshots: &[u64], bookmarks: &[u64]) -> ListedDataset {
        ListedDataset {
            name: name.into(),
            snapshots: points('@', snapshots),
            bookmarks: points('#', bookmarks),
            ..ListedDataset::default()
        }
    }

    fn send(to: &str, from: Option<&str>, all: bool) -> CopyStep {
        CopyStep::Send {
            to: to.into(),
            from: from.map(str::to_owned),
            all,
        }
    }

    #[test]
    fn the_newest_common_state_is_the_base() {
        /// Snapshots and bookmarks of the source, snapshots of the target, and the steps.
        type Case = (
            &'static [u64],
            &'static [u64],
            Option<&'static [u64]>,
            Vec<CopyStep>,
        );
        let table: [Case; 8] = [
            (&[], &[], None, vec![]),
            (&[1], &[], None, vec![send("@1", None, false)]),
            (
                &[1, 2, 3],
                &[],
                None,
                vec![send("@1", None, false), send("@3", Some("@1"), true)],
            ),
            (&[1, 2], &[], Some(&[1, 2]), vec![]),
            (
                &[1, 2, 3],
                &[],
                Some(&[1]),
                vec![send("@3", Some("@1"), true)],
            ),
            // The target has pruned.
            (
                &[1, 2, 3],
                &[2],
                Some(&[2]),
                vec![send("@3", Some("@2"), true)],
            ),
            // The source has pruned; the bookmark is left.
            (
                &[4],
                &[1, 3],
                Some(&[1, 3]),
                vec![send("@4", Some("#3"), false)],
            ),
            (
                &[4, 5, 6],
                &[3],
                Some(&[2, 3]),
                vec![send("@4", Some("#3"), false), send("@6", Some("@4"), true)],
            ),
        ];
        for (snapshots, bookmarks, target, expected) in table {
            let source = listed("tank/a", snapshots, bookmarks);
            let target = target.map(|guids| listed("backup/a", guids, &[]));
            let found = steps(&source, target.as_ref(), None, MARKS).unwrap();
            assert_eq!(found, expected, "{snapshots:?} {bookmarks:?}");
        }
        let clone = steps(&listed("tank/c", &[1], &[]), None, Some("tank/a@9"), MARKS).unwrap();
        assert_eq!(clone, [send("@1", Some("tank/a@9"), false)]);
    }

    #[test]
    fn a_target_that_has_diverged_is_named_with_the_way_out() {
        for (snapshots, bookmarks, target, way_out) in [
            (&[1, 2][..], &[][..], &[][..], "destroy 'backup/a'"),
            (&[1, 2], &[], &[7], "destroy 'backup/a'"),
            (&[1, 2], &[], &[1, 7], "rollback -r 'backup/a@1'"),
            (&[2], &[1], &[1, 7], "rollback -r 'backup/a@1'"),
        ] {
            let source = listed("tank/a", snapshots, bookmarks);
            let target = listed("backup/a", target, &[]);
            let failure = steps(&source, Some(&target), None, MARKS).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.message.contains(way_out), "{}", failure.message);
        }
    }

    #[test]
    fn a_long_step_has_parts_that_follow_each_other() {
        let guids: Vec<u64> = (1..=40).collect();
        let source = listed("tank/a", &guids, &[]);
        let found = parts(&source, &send("@40", Some("@2"), true));
        let steps: Vec<CopyStep> = found.iter().map(|part| part.step.clone()).collect();
        let expected = [("@2", "@18"), ("@18", "@34"), ("@34", "@40")];
        assert_eq!(
            steps,
            expected.map(|(from, to)| send(to, Some(from), true)),
            "{steps:?}"
        );
        let brought = found.iter().flat_map(|part| &part.brings);
        assert!(brought.map(|point| point.guid).eq(3..=40));
        let one = parts(&source, &send("@3", Some("#2"), false));
        assert_eq!((one.len(), one[0].brings[0].guid), (1, 3));
        assert!(parts(&source, &CopyStep::Abandon)[0].brings.is_empty());
    }

    #[test]
    fn copies_follow_renamed_datasets() {
        let copy_name = |one: &ListedDataset| one.name.replace("tank", "backup");
        let of = |name: &str, guids: &[u64]| listed(name, guids, &[]);
        let source = [
            of("tank/a", &[1]),
            of("tank/a/new", &[2, 3]),
            of("tank/a/other", &[4]),
        ];
        let top = of("backup/a", &[1]);
        let found = |copy: ListedDataset| renamed(&source, &[top.clone(), copy], copy_name);
        let moved = ("backup/a/old".to_owned(), "backup/a/new".to_owned());
        assert_eq!(found(of("backup/a/old", &[2])), Some(moved));
        // It has diverged, it has its name, or it is of nothing here.
        assert_eq!(found(of("backup/a/old", &[2, 9])), None);
        assert_eq!(found(of("backup/a/new", &[2])), None);
        assert_eq!(found(of("backup/a/other", &[2])), None);
        assert_eq!(found(of("backup/a/old", &[])), None);
        // Without the copy above it there is no place for it.
        assert_eq!(renamed(&source, &[of("backup/x", &[2])], copy_name), None);
    }

    #[test]
    fn a_token_sends_nothing_but_a_snapshot_of_the_source() {
        let token = |to_guid, from_guid, plain| {
            let token = ResumeToken {
                to_guid,
                from_guid,
                name: "tank/secret@1".into(),
                next: StreamPosition::START,
                plain,
            };
            Some(token.to_string())
        };
        let mut source = listed("tank/a", &[2, 3], &[1]);
        // The source has destroyed what the job was sending.
        source.bookmarks.push(SavePoint {
            name: format!("{MARKS}0007{PENDING}"),
            guid: 7,
            txg: 70,
        });
        let (rest, abandon) = (Some(false), Some(true));
        for (token, outcome) in [
            (token(2, 0, false), rest),
            (token(3, 2, false), rest),
            (token(3, 1, false), rest),
            (token(7, 1, false), abandon),
            // The receive of another sender is not thrown away.
            (token(7, 1, true), None),
            (token(2, 0, true), None),
            (token(1, 0, false), None),
            (token(9, 0, false), None),
            (token(3, 9, false), None),
            (Some("nonsense".into()), None),
        ] {
            let target = ListedDataset {
                token: token.clone(),
                ..listed("backup/a", &[1], &[])
            };
            let found = steps(&source, Some(&target), None, MARKS);
            let found = found.map(|mut steps| steps.remove(0) == CopyStep::Abandon);
            if let Err(failure) = &found {
                assert!(failure.message.contains("receive -A 'backup/a'"));
            }
            assert_eq!(found.ok(), outcome, "{token:?}");
        }
    }
}
