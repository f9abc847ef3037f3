//! The bookmarks that a job makes in its source, so that the source may destroy what was copied.
//!
//! A bookmark exists before its snapshot is sent. So a run that is interrupted at any time leaves a bookmark of each
//! snapshot that may have arrived. The name of such a bookmark says that it is pending: it is no proof of a copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::api::command;

use crate::failure::Result;
use crate::serve::replication::listing::{ListedDataset, SavePoint, datasets_in, listing_of};
use crate::serve::replication::owner::JobOwner;
use crate::serve::replication::side::dataset_rows;
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::replication::job::PENDING;
use crate::state::replication::progress::RunProgress;

/// The most old pending bookmarks of a job without a common snapshot, in each dataset.
const PENDING_MAX: usize = 64;

/// The bookmarks of a job in one dataset of its source.
pub(super) struct SourceMarks<'a> {
    pub(super) daemon: &'a Arc<Daemon>,
    pub(super) owner: &'a JobOwner,
    pub(super) progress: &'a RunProgress,
    /// The name of the dataset.
    pub(super) dataset: &'a str,
    /// The begin of the names of the job's bookmarks, with `#`.
    pub(super) prefix: String,
}

/// A bookmark that has to exist.
struct WantedMark {
    /// The name, as `#name`.
    name: String,
    guid: u64,
    /// The snapshot or bookmark of which it is made, as `@name` or `#name`.
    of: String,
}

/// The bookmarks that a job does not need any more, of its old ones, which begin with the oldest. Without a common snapshot
/// an old one may be of a copy that the owner cannot see now. So only the oldest pending ones go: each failed attempt at a
/// first copy may leave one.
fn needless<'a>(old: &[&'a str], has_base: bool) -> Vec<&'a str> {
    if has_base {
        return old.to_vec();
    }
    let pending = old.iter().copied().filter(|name| name.ends_with(PENDING));
    let pending: Vec<&str> = pending.collect();
    let excess = pending.len().saturating_sub(PENDING_MAX);
    pending[..excess].to_vec()
}

impl SourceMarks<'_> {
    /// Makes a bookmark of the newest snapshot that both sides have, and of each snapshot that comes next. The other
    /// bookmarks of the job go.
    pub(super) fn keep(&self, last: Option<u64>, coming: &[&SavePoint]) -> Result<()> {
        let listed = self.listed()?;
        let last = last.and_then(|guid| self.copied(&listed, guid));
        let has_base = last.is_some();
        let coming = coming.iter().map(|point| WantedMark {
            name: format!("{}{:016x}{PENDING}", self.prefix, point.guid),
            guid: point.guid,
            of: point.name.clone(),
        });
        let wanted: Vec<WantedMark> = last.into_iter().chain(coming).collect();
        for mark in &wanted {
            self.make(&listed, mark)?;
        }
        let names: BTreeSet<&str> = wanted.iter().map(|mark| mark.name.as_str()).collect();
        let old = listed.bookmarks.iter().map(|mark| mark.name.as_str());
        let old = old.filter(|name| name.starts_with(&self.prefix) && !names.contains(name));
        let old: Vec<&str> = old.collect();
        let needless = needless(&old, has_base);
        needless.into_iter().try_for_each(|name| self.destroy(name))
    }

    /// The dataset as it is now.
    fn listed(&self) -> Result<ListedDataset> {
        let rows = dataset_rows(self.owner.call(listing_of(self.dataset, false))?)?;
        let mut listed = datasets_in(rows, self.dataset, false);
        Ok(listed.pop().unwrap_or_default())
    }

    /// The bookmark of a snapshot that was copied. `None` if the source has neither the snapshot nor a bookmark of it.
    fn copied(&self, listed: &ListedDataset, guid: u64) -> Option<WantedMark> {
        let mut points = listed.snapshots.iter().chain(&listed.bookmarks);
        let of = points.find(|point| point.guid == guid)?;
        Some(WantedMark {
            name: format!("{}{guid:016x}", self.prefix),
            guid,
            of: of.name.clone(),
        })
    }

    fn make(&self, listed: &ListedDataset, mark: &WantedMark) -> Result<()> {
        let mut known = listed.bookmarks.iter();
        match known.find(|known| known.name == mark.name) {
            Some(known) if known.guid == mark.guid => return Ok(()),
            // A user gave this name to a bookmark of another snapshot.
            Some(known) => self.destroy(&known.name)?,
            None => self.progress.check()?,
        }
        let made = self.owner.call(command::Bookmark {
            of: format!("{}{}", self.dataset, mark.of),
            name: format!("{}{}", self.dataset, mark.name),
        });
        made.map(drop)
    }

    /// Destroys a bookmark of the job. It is the job's own, so that no permission to destroy is needed.
    fn destroy(&self, mark: &str) -> Result<()> {
        self.progress.check()?;
        let mut silent = NonInteractive::default();
        let name = format!("{}{mark}", self.dataset);
        let what = format!("a job destroys its older bookmark {name}");
        let context = &mut CallerContext::internal(&what, &mut silent);
        self.daemon.destroy_bookmark(&name, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_at_a_first_copy_leave_few_bookmarks() {
        let names: Vec<String> = (0..PENDING_MAX + 2)
            .map(|number| format!("#m.{number:03}{PENDING}"))
            .collect();
        let mut old: Vec<&str> = names.iter().map(String::as_str).collect();
        old.insert(0, "#m.base");
        assert_eq!(needless(&old, true), old);
        assert_eq!(
            needless(&old, false),
            [names[0].as_str(), names[1].as_str()]
        );
        assert!(needless(&old[..PENDING_MAX], false).is_empty());
    }
}
