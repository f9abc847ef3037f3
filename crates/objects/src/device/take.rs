//! Taking of the line: from then on no older writer can add an object.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};

use super::line::{Line, LineRule, LineWriter};
use super::scan::{LineScan, ListedNumbers};
use super::upload::Creator;
use crate::line::log_object::{LineEntry, LogKind};
use crate::line::names;
use crate::line::ranges::NumberSet;
use crate::{Error, Result};

/// A store that does not answer is waited for so long when a device is closed.
const RELEASE_MAX: Duration = Duration::from_secs(10);

/// A line that has been taken.
struct TakenLine {
    /// The first number of this writer.
    first: u64,
    /// The line as it is now. `None` if nothing is new but the own objects.
    scan: Option<LineScan>,
}

/// The expectation of a taker about the writer before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherWriter {
    /// Ended. What it wrote since this machine read the line is a reason to refuse.
    IsGone,
    /// Perhaps alive; it stops now. Nothing that was read before counts.
    MayWrite,
}

impl Line {
    /// Reads the line, for readers and for a later [`Line::take`]. `checkpoints` has those of a list of this moment.
    ///
    /// # Errors
    /// As [`Line::scan`].
    pub(super) async fn open(&self, checkpoints: Option<ListedNumbers>) -> Result<()> {
        let scan = self.scan(checkpoints).await?;
        *self.known.lock() = scan.entries;
        let mut state = self.state();
        state.history = scan.history;
        state.checkpoint = scan.checkpoint;
        state.is_outdated = false;
        Ok(())
    }

    /// Returns whether the line is as it was when it was read. A line with a writer is another one then.
    ///
    /// # Errors
    /// A request was refused.
    pub(super) async fn is_unchanged(&self) -> Result<bool> {
        let last = {
            let state = self.state();
            if state.writer.is_some() || state.failure.is_some() {
                return Ok(false);
            }
            state.history.last
        };
        Ok(self.list(names::LOG, last).await?.is_empty())
    }

    /// Becomes the writer of the line. It creates a TAKE object at the first free number, and fences at all numbers that the
    /// writer before may still use. So nothing of that writer can appear later.
    ///
    /// # Errors
    /// [`Error::Changed`] if another machine wrote since this one read the line.
    pub(super) async fn take(self: &Arc<Self>) -> Result<()> {
        let taken = self.take_from(OtherWriter::IsGone).await;
        taken.inspect_err(|error| self.fail(error.clone()))
    }

    /// Becomes the writer of a line whose last writer has ended, and that nothing was written to since this machine read it.
    ///
    /// # Errors
    /// [`Error::Changed`]: another machine has taken the line, or may have; a request was refused.
    pub(super) async fn take_released(self: &Arc<Self>) -> Result<()> {
        let is_released = self.state().history.is_released;
        match is_released {
            true => self.take().await,
            false => Err(self.changed_meanwhile()),
        }
    }

    /// Becomes the writer of the line also while another machine writes. What that wrote since this one read the line is read
    /// now, so nothing may have been read of the device.
    ///
    /// # Errors
    /// [`Error::Changed`] if a machine took the line at the same time, or deleted objects; as [`Line::scan`].
    pub(super) async fn take_over(self: &Arc<Self>) -> Result<()> {
        let taken = self.take_from(OtherWriter::MayWrite).await;
        taken.inspect_err(|error| self.fail(error.clone()))
    }

    async fn take_from(self: &Arc<Self>, other: OtherWriter) -> Result<()> {
        let _taking = self.taking.lock().await;
        if self.state().writer.is_some() {
            return self.state().check();
        }
        let taken = self.fence(other).await?;
        let mut state = self.state();
        if let Some(scan) = taken.scan {
            state.history = scan.history;
            state.checkpoint = scan.checkpoint;
        }
        let first = taken.first;
        state.history.last = first - 1;
        state.writer = Some(LineWriter {
            first,
            next: first,
            after: first - 1,
            ..LineWriter::default()
        });
        drop(state);
        self.known.lock().clear();
        self.tell();
        self.remove_doomed();
        Ok(())
    }

    /// Puts the TAKE object and the fences, and reads what is new on the line.
    async fn fence(&self, other: OtherWriter) -> Result<TakenLine> {
        let is_ended = self.state().history.is_released;
        if is_ended || !self.limits.keeps(LineRule::Fences) {
            return self.follow_release().await;
        }
        if other == OtherWriter::IsGone {
            self.refuse_newer_writer().await?;
        }
        let used_before = self.first_free();
        let number = self.put_take(used_before).await?;
        let window = self.limits.window;
        let fences = (number + 1..=number + window).map(|n| self.put_fence(n, number));
        future::try_join_all(fences).await?;
        let first = number + window + 1;
        let scan = match self.limits.keeps(LineRule::SecondList) {
            true => self.read_again(number, used_before, other).await?,
            false => None,
        };
        if scan.is_none() {
            self.enter_marks();
        }
        Ok(TakenLine { first, scan })
    }

    /// Reads the line again after the TAKE object `number` and its fences. Numbers before `used_before` were in use when
    /// the line was read. `None` if nothing is new but the own objects.
    ///
    /// # Errors
    /// [`Error::Changed`] if another machine has written since then, and that is no reason to go on; the list is an old one.
    async fn read_again(
        &self,
        number: u64,
        used_before: u64,
        other: OtherWriter,
    ) -> Result<Option<LineScan>> {
        let lists = future::try_join(
            self.list(names::MAP, 0),
            self.list(names::LOG, used_before - 1),
        );
        let (checkpoints, listed) = lists.await?;
        // A checkpoint of this number or a later one: collection made a hole, and the TAKE object is in it.
        if checkpoints.keys().next_back() >= Some(&number) {
            return Err(self.changed_meanwhile());
        }
        // A proxy that keeps an old list would hide what another machine wrote.
        if !listed.contains_key(&number) {
            let reason = "it was made just now, and a list of the store does not have it";
            return Err(self.damaged(names::log(number), reason));
        }
        let is_known = {
            let known = self.known.lock();
            listed.keys().all(|number| known.contains_key(number))
        };
        if is_known {
            return Ok(None);
        }
        let scan = self.scan(Some(checkpoints)).await?;
        let is_overtaken = scan.history.last > number + self.limits.window;
        let may_differ = other == OtherWriter::MayWrite;
        match is_overtaken || !(may_differ || scan.history.map.is_same(&self.state().history.map)) {
            true => Err(self.changed_meanwhile()),
            false => Ok(Some(scan)),
        }
    }

    /// Takes the line after a RELEASE object that is the last one.
    ///
    /// No fences are needed. The writer of the RELEASE object had an answer for each number that it used, and earlier writers
    /// cannot write any more. The next number belongs to the next TAKE object, or to a fence for it. Such numbers never
    /// become free. So while it is free, no machine has written since this one read the line.
    async fn follow_release(&self) -> Result<TakenLine> {
        let number = self.state().history.last + 1;
        let first = number + 1;
        match self.put_mark(LogKind::Take, number, first).await? {
            Creator::Own => {
                self.enter_marks();
                Ok(TakenLine { first, scan: None })
            }
            Creator::Other(_) => Err(self.changed_meanwhile()),
        }
    }

    /// Fails if another writer has taken the line since this one read it. Nothing has been changed then. If the store refused
    /// an earlier attempt midway, there are own objects, and this attempt goes on with them.
    async fn refuse_newer_writer(&self) -> Result<()> {
        let last = self.state().history.last;
        for (number, size) in self.list(names::LOG, last).await? {
            let is_known = {
                let known = self.known.lock();
                known
                    .get(&number)
                    .is_some_and(|(entry, _)| entry.writer == self.id)
            };
            if is_known {
                continue;
            }
            // The answer to an own request may be lost.
            match self.read_end_of(number, size).await? {
                Some((entry, size)) if entry.writer == self.id => {
                    self.known.lock().insert(number, (entry, size));
                }
                _ => return Err(self.changed_meanwhile()),
            }
        }
        Ok(())
    }

    fn changed_meanwhile(&self) -> Error {
        Error::Changed {
            store: self.store.address(),
        }
    }

    /// The first number that was free when the line was read.
    fn first_free(&self) -> u64 {
        let known = self.known.lock();
        let state = self.state();
        let mut free = state.checkpoint + 1;
        // Without checkpoints the numbers of deleted objects look free.
        loop {
            let skipped = state.history.deleted.first_missing(free);
            match known.contains_key(&skipped) {
                true => free = skipped + 1,
                false => return skipped,
            }
        }
    }

    /// Enters the own TAKE object and fences.
    fn enter_marks(&self) {
        let known = self.known.lock();
        let history = &mut self.state().history;
        for (entry, size) in known.values().filter(|(entry, _)| entry.writer == self.id) {
            history.enter(entry, *size);
        }
    }

    /// Creates the TAKE object at the first free number, which is `free` or a later one, and returns the number.
    ///
    /// A busy writer has sent its objects for the next numbers already. So after a number that was not free, fences go to
    /// the first free ones and the TAKE object behind them: no number before it is free then either.
    async fn put_take(&self, mut free: u64) -> Result<u64> {
        let window = self.limits.window;
        let mut ahead = 0;
        loop {
            let number = free + ahead;
            let first = number + window + 1;
            let fences = (free..number).map(|n| self.put_mark(LogKind::Fence, n, first));
            future::try_join_all(fences).await?;
            if let Creator::Own = self.put_mark(LogKind::Take, number, first).await? {
                return Ok(number);
            }
            ahead = (ahead * 2).max(window);
            let listed = self.list(names::LOG, free - 1).await?;
            let deleted = &self.state().history.deleted;
            free = deleted.first_missing(free);
            while listed.contains_key(&free) {
                free = deleted.first_missing(free + 1);
            }
        }
    }

    /// Makes sure that a number after a TAKE object is in use.
    async fn put_fence(&self, number: u64, take: u64) -> Result<()> {
        let first = take + self.limits.window + 1;
        match self.put_mark(LogKind::Fence, number, first).await? {
            // Another machine took the line at the same time, and was quicker.
            Creator::Other(LineEntry {
                kind: LogKind::Take,
                ..
            }) => Err(self.changed_meanwhile()),
            Creator::Own | Creator::Other(_) => Ok(()),
        }
    }

    async fn put_mark(&self, kind: LogKind, number: u64, first: u64) -> Result<Creator> {
        let entry = LineEntry {
            kind,
            first,
            after: 0,
            ..self.entry(&self.state(), number, &[])
        };
        let mut object = Vec::new();
        entry.seal(&mut object);
        let size = object.len() as u64;
        let creator = self.create(number, object.into()).await?;
        if let Creator::Own = creator {
            self.known.lock().insert(number, (entry, size));
        }
        Ok(creator)
    }

    /// Ends the writer: all is durable then, and a RELEASE object says so. A store that does not answer is not waited for
    /// long.
    pub(super) async fn close(self: &Arc<Self>) {
        let release = Box::pin(self.release());
        let patience = self.executor.sleep(RELEASE_MAX);
        match future::select(release, patience).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => {
                tracing::warn!(%error, "the end of a writer could not be written");
            }
            Either::Right(_) => {
                let store = self.store.address();
                tracing::warn!(
                    store,
                    "the store does not answer; the end of the writer is not written"
                );
            }
        }
        self.end();
    }

    /// Ends all requests. Nothing is sent any more.
    pub(super) fn end(&self) {
        self.state().failure.get_or_insert(Error::Fenced {
            store: self.store.address(),
        });
        self.tell();
    }

    /// Takes a line whose objects are about to be removed. A line that cannot be read is not taken.
    ///
    /// # Errors
    /// A request was refused, or another machine goes on writing.
    pub(super) async fn take_to_remove(
        self: &Arc<Self>,
        checkpoints: Option<ListedNumbers>,
    ) -> Result<()> {
        match self.open(checkpoints).await {
            Ok(()) => self.take().await,
            Err(error) if error.says_unreadable() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn release(self: &Arc<Self>) -> Result<()> {
        if self.state().writer.is_none() {
            return Ok(());
        }
        let open = {
            let mut state = self.state();
            state.is_ending = true;
            let open = state.batch.take();
            if open.is_some() {
                // What the batch overwrote counts still.
                state.purges = NumberSet::default();
            }
            open
        };
        // A batch without an end never counts. Its changes are in the state in memory, of which no checkpoint is made then.
        let has_open_batch = open.is_some();
        drop(open);
        self.flush().await?;
        // Nothing follows the RELEASE object, collection neither.
        let _collecting = self.collecting.lock().await;
        if !has_open_batch {
            self.checkpoint_before_end().await?;
        }
        self.when(|state| {
            self.send_mark(state, LogKind::Release, Vec::new())
                .map(drop)
        })
        .await?;
        self.wait_durable().await.map(drop)
    }
}
