//! Taking of the line: from then on no older writer can add an object.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};

use super::line::{Line, LineRule, LineWriter};
use super::scan::LineScan;
use super::upload::Creator;
use crate::line::log_object::{LineEntry, LogKind};
use crate::{Error, Result};

/// A store that does not answer is waited for so long when a device is closed.
const RELEASE_MAX: Duration = Duration::from_secs(10);

impl Line {
    /// Reads the line, for readers and for a later [`Line::take`].
    ///
    /// # Errors
    /// As [`Line::scan`].
    pub(super) async fn open(&self) -> Result<()> {
        let scan = self.scan().await?;
        let mut state = self.state();
        state.history = scan.history;
        state.checkpoint = scan.checkpoint;
        Ok(())
    }

    /// Becomes the writer of the line. It creates a TAKE object at the first free number, and fences at all numbers that the
    /// writer before may still use. So nothing of that writer can appear later.
    ///
    /// # Errors
    /// [`Error::Changed`] if another machine wrote since this one read the line.
    pub(super) async fn take(self: &Arc<Self>) -> Result<()> {
        let _taking = self.taking.lock().await;
        if self.state().writer.is_some() {
            return self.state().check();
        }
        let taken = self.fence().await;
        let (scan, first) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.fail(error.clone());
                return Err(error);
            }
        };
        let mut state = self.state();
        let is_overtaken = scan.history.last >= first && self.limits.keeps(LineRule::SecondList);
        if is_overtaken || !scan.history.map.is_same(&state.history.map) {
            let store = self.store.address();
            drop(state);
            self.fail(Error::Changed {
                store: store.clone(),
            });
            return Err(Error::Changed { store });
        }
        state.history = scan.history;
        state.history.last = first - 1;
        state.checkpoint = scan.checkpoint;
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

    /// Puts the TAKE object and the fences, and reads the line. Returns the first number of this writer.
    async fn fence(&self) -> Result<(LineScan, u64)> {
        self.refuse_newer_writer().await?;
        let number = self.put_take().await?;
        let window = self.limits.window;
        let fences = (number + 1..=number + window).map(|n| self.put_fence(n, number));
        if self.limits.keeps(LineRule::Fences) {
            future::try_join_all(fences).await?;
        }
        let newest = self.checkpoints().await?.last().copied().unwrap_or(0);
        // A checkpoint of this number or a later one: collection made the hole, so a writer is further on. It wrote since
        // this machine read the line.
        if newest >= number && self.limits.keeps(LineRule::SecondList) {
            return Err(Error::Changed {
                store: self.store.address(),
            });
        }
        let scan = self.scan().await?;
        Ok((scan, number + window + 1))
    }

    /// Fails if another writer has taken the line since this one read it. Nothing has been changed then.
    async fn refuse_newer_writer(&self) -> Result<()> {
        let last = self.state().history.last;
        let listed = self.list(crate::line::names::LOG, last).await?;
        match listed.is_empty() {
            true => Ok(()),
            false => Err(Error::Changed {
                store: self.store.address(),
            }),
        }
    }

    /// Creates the TAKE object at the first free number, and returns the number.
    ///
    /// A busy writer has sent its objects for the next numbers already. So after a number that was not free, fences go to
    /// the first free ones and the TAKE object behind them: no number before it is free then either.
    async fn put_take(&self) -> Result<u64> {
        let newest = self.checkpoints().await?.last().copied().unwrap_or(0);
        let mut ahead = 0;
        loop {
            let listed = self.list(crate::line::names::LOG, newest).await?;
            let mut free = newest + 1;
            {
                // Without checkpoints the numbers of deleted objects look free.
                let deleted = &self.state().history.deleted;
                while listed.contains_key(&free) || deleted.contains(free) {
                    free += 1;
                }
            }
            let number = free + ahead;
            let fences = (free..number).map(|n| self.put_mark(LogKind::Fence, n, number));
            future::try_join_all(fences).await?;
            if let Creator::Own = self.put_mark(LogKind::Take, number, number).await? {
                return Ok(number);
            }
            ahead = (ahead * 2).max(self.limits.window);
        }
    }

    /// Makes sure that a number after a TAKE object is in use.
    async fn put_fence(&self, number: u64, take: u64) -> Result<()> {
        match self.put_mark(LogKind::Fence, number, take).await? {
            // Another machine took the line at the same time, and was quicker.
            Creator::Other(LineEntry {
                kind: LogKind::Take,
                ..
            }) => Err(Error::Changed {
                store: self.store.address(),
            }),
            Creator::Own | Creator::Other(_) => Ok(()),
        }
    }

    async fn put_mark(&self, kind: LogKind, number: u64, take: u64) -> Result<Creator> {
        let entry = LineEntry {
            kind,
            first: take + self.limits.window + 1,
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
        // Nothing is sent any more.
        self.state().failure.get_or_insert(Error::Fenced {
            store: self.store.address(),
        });
        self.tell();
    }

    async fn release(self: &Arc<Self>) -> Result<()> {
        if self.state().writer.is_none() {
            return Ok(());
        }
        self.state().is_ending = true;
        self.flush().await?;
        // Nothing follows the RELEASE object, collection neither.
        let _collecting = self.collecting.lock().await;
        self.checkpoint_before_end().await?;
        self.when(|state| {
            self.send_mark(state, LogKind::Release, Vec::new())
                .map(drop)
        })
        .await?;
        self.wait_durable().await.map(drop)
    }
}
