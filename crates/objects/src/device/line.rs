//! A line: the state of the log, and who waits for changes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedMutexGuard};

use super::read_ahead::{ObjectReadAhead, ReadStreams};
use crate::line::history::LineHistory;
use crate::line::log_object::{BatchPart, Run, WriterId};
use crate::line::pool_object::DeviceFacts;
use crate::line::ranges::NumberSet;
use crate::line::replay::EntryMap;
use crate::store::waits::RequestWaits;
use crate::store::{Executor, ObjectStore};
use crate::{Error, Result};

/// The limits of a line. Tests have smaller ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLimits {
    /// The most numbers that are without an answer. All writers of a line must have the same.
    pub(crate) window: u64,
    /// The most bytes that are without an answer.
    pub(crate) pending: usize,
    /// The data of an object in bytes.
    pub(crate) data: usize,
    /// A checkpoint is written after so many objects.
    pub(crate) checkpoint: u64,
    /// An object is removed so long after it is known that no import needs it. Readers may need it until then.
    pub(crate) removal: Duration,
    /// The most bytes that are copied after each checkpoint.
    pub(crate) copies: u64,
    /// The bytes that the first reads after the opening may take beyond what was asked for. If 0, small objects are not kept
    /// in memory either.
    pub(crate) opening: u64,
    /// A rule that is left out.
    #[cfg(test)]
    pub(crate) without: Option<LineRule>,
}

/// A rule without which something is lost. Tests leave out one at a time, and see the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineRule {
    /// A writer has at most a window of numbers without an answer.
    Window,
    /// A taker puts fences at all numbers of the window, unless the last object is a RELEASE.
    Fences,
    /// A taker that has put fences reads the line again: another machine may have written since it read the line first.
    SecondList,
    /// Numbers in the window of a TAKE object never become free.
    UsedNumbers,
    /// An object is removed only after the line has the record of it.
    Record,
    /// An object does not count without those before its order point.
    After,
    /// An object that exists already is read: it may be the own one.
    ReadBack,
    /// Numbers that a list leaves out are listed again: it may have passed them before their objects were made.
    WholeList,
    /// After a second list, the line is read again if there is a newer checkpoint: collection may have made the gap.
    SameCheckpoint,
    /// The objects of a batch do not count without its end.
    Batch,
}

impl LineLimits {
    /// The limits of a device. Those that are not in its object are of this version.
    pub(super) fn of(facts: &DeviceFacts) -> LineLimits {
        LineLimits {
            window: facts.window.into(),
            pending: 128 << 20,
            data: facts.data as usize,
            checkpoint: 256,
            removal: Duration::from_secs(facts.removal.into()),
            copies: 256 << 20,
            opening: 16 << 20,
            #[cfg(test)]
            without: None,
        }
    }

    /// Returns whether a rule holds. All do, except in tests.
    #[cfg_attr(
        not(test),
        expect(clippy::unused_self, reason = "tests leave out rules")
    )]
    pub(crate) fn keeps(&self, rule: LineRule) -> bool {
        #[cfg(test)]
        return self.without != Some(rule);
        #[cfg(not(test))]
        return {
            let _ = rule;
            true
        };
    }
}

/// A line of objects.
pub(crate) struct Line {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) facts: DeviceFacts,
    pub(super) limits: LineLimits,
    /// The identity that this process has as a writer.
    pub(super) id: WriterId,
    state: Mutex<LineState>,
    changed: Notify,
    pub(super) waits: RequestWaits,
    pub(super) streams: Mutex<ReadStreams>,
    pub(super) ahead: ObjectReadAhead,
    /// The objects that were read, until the line is taken. Objects do not change.
    pub(super) known: Mutex<EntryMap>,
    /// Held while the line is taken.
    pub(super) taking: tokio::sync::Mutex<()>,
    /// Held while a checkpoint is made, and objects are collected with it.
    pub(super) collecting: Arc<tokio::sync::Mutex<()>>,
}

/// The state of a line.
pub(super) struct LineState {
    pub(super) history: LineHistory,
    /// The writer. `None` before the first write.
    pub(super) writer: Option<LineWriter>,
    /// The reason for which nothing is written any more.
    pub(super) failure: Option<Error>,
    /// True if objects of the state that was read are known to be removed.
    pub(super) is_outdated: bool,
    /// The number of the newest checkpoint.
    pub(super) checkpoint: u64,
    /// True when the writer is about to end. Collection ends then.
    pub(super) is_ending: bool,
    /// True while objects wait for their removal.
    pub(super) is_removing: bool,
    /// The lock of collection while a batch is open. The state in memory has changes then that perhaps never count.
    pub(super) batch: Option<OwnedMutexGuard<()>>,
    /// Ranges that were overwritten. No object may keep what they held.
    pub(super) purges: NumberSet,
    /// The bytes that reads after the opening may take beyond what was asked for.
    pub(super) opening_bytes: u64,
}

/// The writer of a line.
#[derive(Default)]
pub(super) struct LineWriter {
    /// The first number of this writer.
    pub(super) first: u64,
    /// The next free number.
    pub(super) next: u64,
    /// The number up to which all must be there, so that what is written from now on counts.
    pub(super) after: u64,
    /// The object that is being filled.
    pub(super) open: Option<OpenObject>,
    /// The objects without an answer.
    pub(super) pending: BTreeMap<u64, Bytes>,
    /// Their bytes.
    pub(super) pending_bytes: usize,
}

/// An object that is being filled. It has its number already.
pub(super) struct OpenObject {
    pub(super) number: u64,
    pub(super) is_header: bool,
    pub(super) batch: BatchPart,
    pub(super) after: u64,
    pub(super) runs: Vec<Run>,
    pub(super) data: Vec<u8>,
}

impl Line {
    /// A line that nothing has been read of.
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        executor: Arc<dyn Executor>,
        facts: DeviceFacts,
        (limits, id): (LineLimits, WriterId),
    ) -> Line {
        Line {
            store,
            executor,
            facts,
            limits,
            id,
            state: Mutex::new(LineState {
                history: LineHistory::default(),
                writer: None,
                failure: None,
                is_outdated: false,
                checkpoint: 0,
                is_ending: false,
                is_removing: false,
                batch: None,
                purges: NumberSet::default(),
                opening_bytes: limits.opening,
            }),
            changed: Notify::new(),
            waits: RequestWaits::default(),
            streams: Mutex::default(),
            ahead: ObjectReadAhead::default(),
            known: Mutex::default(),
            taking: tokio::sync::Mutex::new(()),
            collecting: Arc::default(),
        }
    }

    /// The state. The lock is never held over a request.
    pub(super) fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock()
    }

    /// Tells all that wait for a change of the state.
    pub(super) fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until the state lets `attempt` succeed.
    ///
    /// # Errors
    /// The failure of the line.
    pub(super) async fn when<T>(
        &self,
        mut attempt: impl FnMut(&mut LineState) -> Option<T>,
    ) -> Result<T> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let mut state = self.state();
                state.check()?;
                if let Some(done) = attempt(&mut state) {
                    return Ok(done);
                }
            }
            changed.await;
        }
    }

    /// Ends all writing.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.state();
        if state.failure.is_none() {
            let address = self.store.address();
            tracing::warn!(store = address, %error, "writing to an object store ends");
            state.failure = Some(error);
        }
        drop(state);
        self.tell();
    }

    /// The error for an object that is not what was written.
    pub(super) fn damaged(&self, object: impl Into<String>, reason: &'static str) -> Error {
        Error::Damaged {
            store: self.store.address(),
            object: object.into(),
            reason,
        }
    }
}

impl LineState {
    /// Fails if nothing is written any more.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}
