//! Reading of a line: the newest checkpoint, and the objects after it.

use std::collections::BTreeMap;

use futures_util::{StreamExt, future, stream};

use super::line::{Line, LineRule};
use crate::line::history::LineHistory;
use crate::line::replay::{self, EntryMap};
use crate::line::{checkpoint, names};
use crate::{Error, Result};

/// The most names in a list.
const LIST_MAX: usize = 1000;
/// The number of objects that are read at the same time.
const READS: usize = 128;
/// The number of parts of a checkpoint that are read at the same time.
const PARTS: usize = 8;
/// The line is read again so often while its writer deletes objects.
const SCANS: usize = 16;
/// A part of a checkpoint that is read at once, in bytes.
const CHECKPOINT_READ: u64 = 8 << 20;

/// The objects on a list: numbers, and sizes in bytes.
pub(super) type ListedNumbers = BTreeMap<u64, u64>;

/// The state of a line at a moment.
pub(super) struct LineScan {
    pub(super) history: LineHistory,
    /// The objects after the checkpoint.
    pub(super) entries: EntryMap,
    /// The number of the checkpoint that it began with, 0 if there was none.
    pub(super) checkpoint: u64,
}

impl Line {
    /// Reads the line. `checkpoints` has those of a list of this moment, if there is one. The objects that were read before
    /// are not read again, and stay those of the state that this device has.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Missing`], or a request was refused.
    pub(super) async fn scan(&self, mut checkpoints: Option<ListedNumbers>) -> Result<LineScan> {
        let mut attempts = 0;
        let mut known = self.known.lock().clone();
        loop {
            match self.scan_once(checkpoints.take(), &mut known).await {
                // A writer that goes on has deleted it meanwhile, or made it behind a list.
                Err(Error::Missing { .. }) if attempts < SCANS => {
                    attempts += 1;
                    self.executor.sleep(super::outage::FIRST_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Returns whether no object has come to the line since it was read.
    pub(super) async fn is_current(&self) -> Result<bool> {
        let checkpoint = {
            let state = self.state();
            if state.is_outdated {
                return Ok(false);
            }
            state.checkpoint
        };
        // From the checkpoint on: an object that was on its way may have a number before others.
        let listed = self.list(names::LOG, checkpoint).await?;
        let known = self.known.lock();
        Ok(listed.keys().all(|number| known.contains_key(number)))
    }

    /// Reads the newest checkpoint that is whole, and the objects after it, unless objects are deleted at the same time.
    /// Without a checkpoint, the history begins with the first object.
    async fn scan_once(
        &self,
        checkpoints: Option<ListedNumbers>,
        known: &mut EntryMap,
    ) -> Result<LineScan> {
        let checkpoints = match checkpoints {
            Some(listed) => listed,
            None => self.list(names::MAP, 0).await?,
        };
        let newest = checkpoints.keys().next_back().copied();
        for (number, size) in checkpoints.into_iter().rev() {
            let checkpoint = self.read_checkpoint(number, size);
            // The object of a checkpoint is never deleted, so it is on the list.
            let listed = self.list(names::LOG, number - 1);
            let (history, listed) = future::try_join(checkpoint, listed).await?;
            if let Some(history) = history {
                let numbers = (number, newest);
                return self.replay_after(history, numbers, listed, known).await;
            }
        }
        let listed = self.list(names::LOG, 0).await?;
        self.replay_after(LineHistory::default(), (0, newest), listed, known)
            .await
    }

    /// Completes a list of the log from the object of a checkpoint on.
    ///
    /// No list is of one moment: a writer makes objects meanwhile. It may have an object, and not an earlier one that was
    /// durable when the writer began that one. A second list has it. Returns whether there was a second list.
    async fn complete(
        &self,
        history: &LineHistory,
        checkpoint: u64,
        mut listed: ListedNumbers,
    ) -> Result<(ListedNumbers, bool)> {
        let Some(last) = listed.keys().next_back().copied() else {
            return Ok((listed, false));
        };
        let is_gap = |n: &u64| !listed.contains_key(n) && !history.deleted.contains(*n);
        let Some(gap) = (checkpoint + 1..last).find(is_gap) else {
            return Ok((listed, false));
        };
        if !self.limits.keeps(LineRule::WholeList) {
            return Ok((listed, false));
        }
        let again = self.list(names::LOG, gap - 1).await?;
        listed.extend(again.into_iter().take_while(|(number, _)| *number < last));
        Ok((listed, true))
    }

    /// Continues the history of a checkpoint with objects on a list. `newest` is the newest checkpoint before the list.
    /// `known` has objects that were read before, and gets those that are read.
    async fn replay_after(
        &self,
        history: LineHistory,
        (checkpoint, newest): (u64, Option<u64>),
        listed: ListedNumbers,
        known: &mut EntryMap,
    ) -> Result<LineScan> {
        let (listed, has_gap) = self.complete(&history, checkpoint, listed).await?;
        // A checkpoint without its object is from another line.
        let mut missing = Vec::new();
        if checkpoint > 0 && !listed.contains_key(&checkpoint) {
            missing.push(checkpoint);
        }
        let after = listed
            .into_iter()
            .filter(|(number, _)| *number > checkpoint);
        let mut entries = BTreeMap::new();
        let mut unknown = Vec::new();
        for (number, size) in after {
            match known.get(&number).filter(|(_, is)| *is == size) {
                Some(entry) => drop(entries.insert(number, entry.clone())),
                None => unknown.push((number, size)),
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
        known.clone_from(&entries);
        let history = replay::replay(history, self.facts.guid, &entries, self.limits.window)
            .map_err(|(number, reason)| match reason {
                replay::MISSING => Error::Missing {
                    store: self.store.address(),
                    object: names::log(number),
                },
                reason => self.damaged(names::log(number), reason),
            })?;
        // Between the lists, an object that the first one left out may have been made, and removed by collection.
        if has_gap
            && self.limits.keeps(LineRule::SameCheckpoint)
            && self.checkpoints().await?.last().copied() != newest
        {
            return Err(Error::Missing {
                store: self.store.address(),
                object: names::checkpoint(newest.unwrap_or(0)),
            });
        }
        // Objects that a writer deletes stand on the line before. A reader that did not see that has to read again.
        if let Some(number) = missing.iter().find(|n| !history.deleted.contains(**n)) {
            return Err(Error::Missing {
                store: self.store.address(),
                object: names::log(*number),
            });
        }
        Ok(LineScan {
            history,
            entries,
            checkpoint,
        })
    }

    /// The numbers of the checkpoints, in order.
    pub(super) async fn checkpoints(&self) -> Result<Vec<u64>> {
        let listed = self.list(names::MAP, 0).await?;
        Ok(listed.into_keys().collect())
    }

    /// Reads a checkpoint. `None` if it is damaged, or not there any more.
    async fn read_checkpoint(&self, number: u64, size: u64) -> Result<Option<LineHistory>> {
        let name = names::checkpoint(number);
        let decoded = match size > checkpoint::SIZE_MAX {
            true => Err("it is larger than any"),
            false => {
                let Some(bytes) = self.read_whole(&name, size).await? else {
                    return Ok(None);
                };
                checkpoint::decode(&bytes, self.facts.guid, number)
            }
        };
        match decoded {
            Ok(history) => Ok(Some(history)),
            Err(reason) => {
                let error = self.damaged(name, reason);
                tracing::warn!(%error, "an older checkpoint is used");
                Ok(None)
            }
        }
    }

    /// Reads an object of this size, its parts at the same time. `None` if there is no such object.
    async fn read_whole(&self, name: &str, size: u64) -> Result<Option<Vec<u8>>> {
        let starts = (0..size).step_by(CHECKPOINT_READ as usize);
        let mut parts = stream::iter(starts)
            .map(|start| {
                let range = start..(start + CHECKPOINT_READ).min(size);
                self.patiently(move || self.store.get(name, range.clone()))
            })
            .buffered(PARTS);
        let mut whole = Vec::new();
        while let Some(part) = parts.next().await {
            match part? {
                Some(part) => whole.extend_from_slice(&part.bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(whole))
    }

    /// Lists the numbers of a folder after one, with sizes.
    pub(super) async fn list(&self, folder: &str, after: u64) -> Result<ListedNumbers> {
        let mut listed = ListedNumbers::new();
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
