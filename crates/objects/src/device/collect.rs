//! Checkpoints, and removal of objects that no import needs.
//!
//! The order is: a checkpoint is durable; a list of deletions is durable on the line; time passes, for readers; the objects
//! are removed. A writer that has lost the line cannot put the list there, so it removes nothing.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::line::{Line, LineRule};
use crate::line::extent_map::MapSource;
use crate::line::history::{DOOMED_MAX, LineHistory};
use crate::line::log_object::{LineEntry, LogKind, Run, RunKind};
use crate::line::ranges::NumberSet;
use crate::line::{checkpoint, names};
use crate::{Error, Result};

/// The most objects that a writer leaves without a checkpoint when it ends.
const UNREAD_MAX: u64 = 16;
/// The number of checkpoints that stay.
const CHECKPOINTS: usize = 2;
/// Headers are copied to one object if they lie in more than so many.
const HEADER_OBJECTS: usize = 4;
/// The number of ranges that are read at the same time for copies.
const READS: usize = 32;
/// The most runs of an object of copies. All extents of an object that a writer filled fit.
const COPIED_RUNS: usize = 1 << 15;

impl Line {
    /// Begins a checkpoint if there are many objects since the last one.
    pub(super) fn checkpoint_if_due(self: &Arc<Self>) {
        {
            let state = self.state();
            let Some(writer) = &state.writer else {
                return;
            };
            let is_due = writer.next > state.checkpoint + self.limits.checkpoint;
            if !is_due || state.is_ending || state.failure.is_some() {
                return;
            }
        }
        let Ok(guard) = Arc::clone(&self.collecting).try_lock_owned() else {
            return;
        };
        let line = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            if let Err(error) = line.collect().await {
                tracing::warn!(%error, "objects could not be collected");
            }
            drop(guard);
        }));
    }

    /// Writes a checkpoint at the end of a writer, so that the next import has little to read. The caller holds
    /// `collecting`.
    pub(super) async fn checkpoint_before_end(self: &Arc<Self>) -> Result<()> {
        let objects = {
            let state = self.state();
            state.history.last - state.checkpoint
        };
        match objects > UNREAD_MAX {
            true => {
                self.gather_headers().await?;
                self.checkpoint().await.map(drop)
            }
            false => Ok(()),
        }
    }

    /// Writes a checkpoint, removes what it shows to be dead, and copies what lives in objects that are mostly dead.
    async fn collect(self: &Arc<Self>) -> Result<()> {
        self.gather_headers().await?;
        let dead = self.checkpoint().await?;
        let is_removing = self.state().is_removing;
        if !dead.is_empty() && !is_removing {
            self.list_deletions(&dead).await?;
            self.remove_doomed();
        }
        for objects in self.mostly_dead() {
            if self.state().is_ending {
                return Ok(());
            }
            self.copy_forward(&objects).await?;
        }
        Ok(())
    }

    /// Writes a checkpoint. Returns the dead objects before it.
    ///
    /// Writers go on meanwhile: the checkpoint has the state of this moment, and is made when all up to it is durable.
    async fn checkpoint(self: &Arc<Self>) -> Result<Vec<u64>> {
        let (number, bytes, dead) = {
            let mut state = self.state();
            self.seal(&mut state);
            let number = state.history.last;
            let bytes = checkpoint::encode(&state.history, self.facts.guid);
            let mut dead = state.history.dead(number);
            if !self.limits.keeps(LineRule::UsedNumbers) {
                dead.extend(state.history.marks(number));
            }
            (number, bytes::Bytes::from(bytes), dead)
        };
        let name = names::checkpoint(number);
        if bytes.len() as u64 > checkpoint::SIZE_MAX {
            let error = self.damaged(name, "it would be larger than an import reads");
            tracing::warn!(%error, "no checkpoint is written, and no object is collected");
            return Ok(Vec::new());
        }
        self.wait_durable_up_to(number).await?;
        // If there is one already, an answer was lost.
        self.patiently(|| self.store.create(&name, bytes.clone()))
            .await?;
        self.state().checkpoint = number;
        let checkpoints = self.checkpoints().await?;
        let old = checkpoints.len().saturating_sub(CHECKPOINTS);
        for number in &checkpoints[..old] {
            let name = names::checkpoint(*number);
            self.patiently(|| self.store.delete(&name)).await?;
        }
        Ok(dead)
    }

    /// Puts a list of all deletions on the line, durably: those before, and dead objects. If very many wait for their
    /// removal, the others stay dead, and the next list has them.
    async fn list_deletions(self: &Arc<Self>, dead: &[u64]) -> Result<()> {
        let space = DOOMED_MAX.saturating_sub(self.state().history.doomed.count());
        let mut added = NumberSet::default();
        let dead = dead.iter().take(space as usize);
        dead.for_each(|n| added.insert(*n..n + 1));
        if !self.limits.keeps(LineRule::Record) {
            self.state().history.doomed.extend(&added);
            return Ok(());
        }
        self.when(|state| {
            let mut doomed = state.history.doomed.clone();
            doomed.extend(&added);
            let done = runs(&state.history.deleted, RunKind::Zeros);
            let runs = done.chain(runs(&doomed, RunKind::Discard)).collect();
            self.send_mark(state, LogKind::Deletions, runs)
        })
        .await?;
        self.wait_durable().await.map(drop)
    }

    /// Waits until all that was written is durable. Returns the number of its last object.
    pub(super) async fn wait_durable(self: &Arc<Self>) -> Result<u64> {
        let last = {
            let mut state = self.state();
            self.seal(&mut state);
            state.history.last
        };
        self.wait_durable_up_to(last).await?;
        Ok(last)
    }

    async fn wait_durable_up_to(&self, last: u64) -> Result<()> {
        self.when(|state| {
            let mut before = state.writer.as_ref()?.pending.range(..=last);
            before.next().is_none().then_some(())
        })
        .await
    }

    /// Removes objects on the newest list of deletions, after a while.
    fn remove_later(self: &Arc<Self>, numbers: NumberSet) {
        self.state().is_removing = true;
        let line = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            line.executor.sleep(line.limits.removal).await;
            if let Err(error) = line.remove(&numbers).await {
                tracing::warn!(%error, "objects could not be removed");
            }
            line.state().is_removing = false;
        }));
    }

    /// Removes what this writer or the one before listed, and perhaps did not remove, after a while.
    pub(super) fn remove_doomed(self: &Arc<Self>) {
        let (doomed, is_removing) = {
            let state = self.state();
            (state.history.doomed.clone(), state.is_removing)
        };
        if !doomed.is_empty() && !is_removing {
            self.remove_later(doomed);
        }
    }

    /// Removes objects. Those in the window of a TAKE object are emptied: their numbers must not become free.
    async fn remove(&self, numbers: &NumberSet) -> Result<()> {
        for number in numbers.iter().flatten() {
            let is_in_window = {
                let state = self.state();
                state.check()?;
                state.history.windows.contains(number) && self.limits.keeps(LineRule::UsedNumbers)
            };
            let name = names::log(number);
            if is_in_window {
                let emptied = bytes::Bytes::from(self.emptied(number));
                self.patiently(|| self.store.replace(&name, emptied.clone()))
                    .await?;
            } else {
                self.patiently(|| self.store.delete(&name)).await?;
            }
            self.ahead.forget(number);
            self.state().history.doomed.remove(number);
        }
        Ok(())
    }

    /// The bytes of an object whose contents were removed.
    fn emptied(&self, number: u64) -> Vec<u8> {
        let entry = LineEntry {
            kind: LogKind::Emptied,
            after: 0,
            ..self.entry(&self.state(), number, &[])
        };
        let mut object = Vec::new();
        entry.seal(&mut object);
        object
    }

    /// Groups of objects to copy: those of which the map needs less than half, the emptiest first, up to the limit of
    /// copies. Objects without data that is needed are one group, if there are several: their zeros fit into one object.
    fn mostly_dead(&self) -> Vec<Vec<u64>> {
        let state = self.state();
        let until = state.history.objects.range(..state.checkpoint);
        let needed = until.filter(|(_, is)| !is.is_mark && (is.live > 0 || is.zeros > 0));
        let (mut zeros, mut chosen) = (Vec::new(), Vec::new());
        for (number, is) in needed.filter(|(_, is)| is.live * 2 < is.size) {
            match is.live {
                0 => zeros.push(*number),
                live => chosen.push((live, *number)),
            }
        }
        chosen.sort_unstable();
        let mut budget = self.limits.copies;
        let within = chosen.into_iter().take_while(|(live, _)| {
            let fits = *live <= budget;
            budget = budget.saturating_sub(*live);
            fits
        });
        let mut groups: Vec<Vec<u64>> = within.map(|(_, number)| vec![number]).collect();
        if zeros.len() > 1 {
            groups.push(zeros);
        }
        groups
    }

    /// Copies what the map needs of a group of objects to a new one. The runs keep their origin, so a write that comes in
    /// between wins.
    async fn copy_forward(self: &Arc<Self>, group: &[u64]) -> Result<()> {
        let extents: Vec<(u64, u64, MapSource)> = {
            let state = self.state();
            let extents = state.history.map.iter();
            extents
                .filter(|(_, _, is)| group.contains(&is.object))
                .collect()
        };
        for extents in extents.chunks(COPIED_RUNS) {
            let copied = extents.iter().map(|(offset, len, is)| Run {
                kind: match is.at {
                    Some(_) => RunKind::Bytes,
                    None => RunKind::Zeros,
                },
                offset: *offset,
                len: *len,
                origin: is.origin,
            });
            let copied: Vec<Run> = copied.collect();
            let stored = extents.iter().filter_map(|(_, len, is)| {
                let at = u64::from(is.at?);
                Some((is.object, at..at + len))
            });
            let stored: Vec<_> = stored.collect();
            let mut reads = stream::iter(stored)
                .map(|(object, range)| self.read_kept(object, range))
                .buffered(READS);
            let mut data = Vec::new();
            while let Some(bytes) = reads.next().await {
                data.extend_from_slice(&bytes?);
            }
            self.when(|state| self.send_copies(state, &copied, &data))
                .await?;
        }
        Ok(())
    }

    /// Copies the headers to one object, if they lie in many: each commit leaves an object with a superblock, and an import
    /// reads all of them.
    async fn gather_headers(self: &Arc<Self>) -> Result<()> {
        let small: Vec<u64> = {
            let state = self.state();
            let Some(writer) = &state.writer else {
                return Ok(());
            };
            // A copy counts by itself, so what it is of must be durable, with all before it.
            let objects = state.history.objects.range(..writer.first_pending());
            let headers = objects.filter(|(_, is)| is.live > 0 && !is.held.is_empty());
            let mut sum = 0;
            let small = headers.take_while(|(_, is)| {
                sum += is.live;
                sum <= self.limits.data as u64 / 2
            });
            small.map(|(number, _)| *number).collect()
        };
        match small.len() > HEADER_OBJECTS {
            true => self.copy_forward(&small).await,
            false => Ok(()),
        }
    }

    /// Removes every object that held what was overwritten, and reads back that it is gone.
    pub(super) async fn purge(self: &Arc<Self>) -> Result<()> {
        let _collecting = self.collecting.lock().await;
        let purges = self.state().purges.clone();
        // The writes that replace it must be durable first, and so must copies of the rest.
        let last = self.wait_durable().await?;
        let holders = holders(&self.state().history, &purges, last);
        for holder in &holders {
            self.copy_forward(&[*holder]).await?;
        }
        let last = self.wait_durable().await?;
        if holders.last() == Some(&last) {
            // The object of a checkpoint itself stays, so one without effect follows.
            self.when(|state| self.send_mark(state, LogKind::Data, Vec::new()))
                .await?;
        }
        {
            // They are emptied and not deleted: a request that was repeated may arrive late, and must find the number in use.
            let windows = &mut self.state().history.windows;
            holders.iter().for_each(|n| windows.insert(*n..n + 1));
        }
        let dead = self.checkpoint().await?;
        self.list_deletions(&dead).await?;
        // Others of a header may have held the bytes too: older ones that wait for their removal, and those that never counted.
        let headers = self.doomed_headers().await?;
        self.remove(&headers).await?;
        self.remove_revived().await?;
        self.remove_doomed();
        for number in holders {
            self.check_removed(number).await?;
        }
        let mut state = self.state();
        if state.purges == purges {
            state.purges = NumberSet::default();
        }
        Ok(())
    }

    /// The objects of headers that wait for their removal.
    async fn doomed_headers(&self) -> Result<NumberSet> {
        let doomed = self.state().history.doomed.clone();
        let mut headers = NumberSet::default();
        for number in doomed.iter().flatten() {
            if let Some((entry, _)) = self.read_end(number).await?
                && entry.is_header
            {
                headers.insert(number..number + 1);
            }
        }
        Ok(headers)
    }

    /// Removes objects that were deleted, and that a request came back with which was late.
    async fn remove_revived(&self) -> Result<()> {
        let listed = self.list(names::LOG, 0).await?;
        let emptied = self.emptied(1).len() as u64;
        let mut revived = NumberSet::default();
        {
            let history = &self.state().history;
            for (number, size) in listed {
                let is_gone = history.deleted.contains(number) && !history.doomed.contains(number);
                if is_gone && size != emptied {
                    revived.insert(number..number + 1);
                }
            }
        }
        self.remove(&revived).await
    }

    async fn check_removed(&self, number: u64) -> Result<()> {
        let name = names::log(number);
        match self.read_end(number).await? {
            None => Ok(()),
            Some((entry, _)) if entry.kind == LogKind::Emptied => Ok(()),
            Some(_) => Err(Error::Damaged {
                store: self.store.address(),
                object: name,
                reason: "it was deleted, and is still there",
            }),
        }
    }
}

/// The objects up to a number that ever held bytes of some ranges.
fn holders(history: &LineHistory, ranges: &NumberSet, last: u64) -> Vec<u64> {
    let objects = history.objects.range(..=last);
    objects
        .filter(|(_, is)| ranges.iter().any(|range| is.held.intersects(&range)))
        .map(|(number, _)| *number)
        .collect()
}

fn runs(numbers: &NumberSet, kind: RunKind) -> impl Iterator<Item = Run> + '_ {
    numbers.iter().map(move |range| Run {
        kind,
        offset: range.start,
        len: range.end - range.start,
        origin: 0,
    })
}
