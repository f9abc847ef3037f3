//! Reading of a line: the newest checkpoint, and the objects after it.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::stream;

use super::line::Line;
use crate::line::history::LineHistory;
use crate::line::{checkpoint, names, replay};
use crate::{Error, Result};

/// The most names in a list.
const LIST_MAX: usize = 1000;
/// The number of objects that are read at the same time.
const READS: usize = 64;
/// The line is read again so often while its writer deletes objects.
const SCANS: usize = 16;
/// A part of a checkpoint that is read at once, in bytes.
const CHECKPOINT_READ: u64 = 8 << 20;

/// The state of a line at a moment.
pub(super) struct LineScan {
    pub(super) history: LineHistory,
    /// The number of the checkpoint that it began with, 0 if there was none.
    pub(super) checkpoint: u64,
}

impl Line {
    /// Reads the line.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Missing`], or a request was refused.
    pub(super) async fn scan(&self) -> Result<LineScan> {
        let mut attempts = 0;
        loop {
            match self.scan_once().await {
                // A writer that goes on has deleted it meanwhile, or made it behind a list.
                Err(Error::Missing { .. }) if attempts < SCANS => {
                    attempts += 1;
                    self.executor.sleep(super::line::FIRST_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Reads the line, unless objects are deleted at the same time.
    async fn scan_once(&self) -> Result<LineScan> {
        let (history, checkpoint) = self.newest_checkpoint().await?;
        let listed = self.list(names::LOG, checkpoint.saturating_sub(1)).await?;
        // The object of the newest checkpoint is never deleted, so a checkpoint without it is from another line.
        let mut missing = Vec::new();
        if checkpoint > 0 && !listed.contains_key(&checkpoint) {
            missing.push(checkpoint);
        }
        let after = listed
            .into_iter()
            .filter(|(number, _)| *number > checkpoint);
        let mut entries = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let known = self.known.lock();
            for (number, size) in after {
                match known.get(&number).filter(|(_, is)| *is == size) {
                    Some(entry) => drop(entries.insert(number, entry.clone())),
                    None => unknown.push((number, size)),
                }
            }
        }
        let mut reads = stream::iter(unknown)
            .map(|(number, size)| async move { (number, self.read_end_of(number, size).await) })
            .buffer_unordered(READS);
        while let Some((number, read)) = reads.next().await {
            match read? {
                Some(entry) => drop(entries.insert(number, entry)),
                None => missing.push(number),
            }
        }
        drop(reads);
        *self.known.lock() = entries.clone();
        let history = replay::replay(history, self.facts.guid, &entries, self.limits.window)
            .map_err(|(number, reason)| match reason {
                replay::MISSING => Error::Missing {
                    store: self.store.address(),
                    object: names::log(number),
                },
                reason => self.damaged(names::log(number), reason),
            })?;
        // Objects that a writer deletes stand on the line before. A reader that did not see that has to read again.
        if let Some(number) = missing.iter().find(|n| !history.deleted.contains(**n)) {
            return Err(Error::Missing {
                store: self.store.address(),
                object: names::log(*number),
            });
        }
        Ok(LineScan {
            history,
            checkpoint,
        })
    }

    /// The numbers of the checkpoints, in order.
    pub(super) async fn checkpoints(&self) -> Result<Vec<u64>> {
        let listed = self.list(names::MAP, 0).await?;
        Ok(listed.into_keys().collect())
    }

    /// Reads the newest checkpoint that is whole. Without one, the history begins with the first object.
    async fn newest_checkpoint(&self) -> Result<(LineHistory, u64)> {
        for number in self.checkpoints().await?.into_iter().rev() {
            let name = names::checkpoint(number);
            let Some(bytes) = self.read_whole(&name).await? else {
                continue;
            };
            match checkpoint::decode(&bytes, self.facts.guid, number) {
                Ok(history) => return Ok((history, number)),
                Err(reason) => {
                    let error = self.damaged(name, reason);
                    tracing::warn!(%error, "an older checkpoint is used");
                }
            }
        }
        Ok((LineHistory::default(), 0))
    }

    /// Reads an object.
    async fn read_whole(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut whole = Vec::new();
        loop {
            let from = whole.len() as u64;
            let range = from..from + CHECKPOINT_READ;
            let Some(part) = self
                .patiently(|| self.store.get(name, range.clone()))
                .await?
            else {
                return Ok(None);
            };
            whole.extend_from_slice(&part.bytes);
            if whole.len() as u64 >= part.size {
                return Ok(Some(whole));
            }
            if part.bytes.is_empty() {
                return Err(self.damaged(name, "its size changed while it was read"));
            }
        }
    }

    /// Lists the numbers of a folder after one, with sizes.
    pub(super) async fn list(&self, folder: &str, after: u64) -> Result<BTreeMap<u64, u64>> {
        let mut listed = BTreeMap::new();
        let mut last = (after > 0).then(|| names::numbered(folder, after));
        loop {
            let request = || self.store.list(folder, last.as_deref(), LIST_MAX);
            let page = self.patiently(request).await?;
            let is_last = page.len() < LIST_MAX;
            for object in page {
                let number = names::number(folder, &object.name);
                let number = number.ok_or_else(|| {
                    self.damaged(object.name.clone(), "its name is none that a pool gives")
                })?;
                listed.insert(number, object.size);
                last = Some(object.name);
            }
            if is_last {
                return Ok(listed);
            }
        }
    }
}
