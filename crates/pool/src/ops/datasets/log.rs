//! The parts of a log that can be read without a key, and the end of logs.

use std::sync::Weak;

use crate::engine::history::log_own;
use crate::engine::log::{LogEnd, LogReader};
use crate::error::Result;
use crate::format::logs::log_head::LogHead;
use crate::format::records::pointer::{Addr, RecordIdentity};
use crate::ops::pool::Pool;

/// The clear header of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownEntry {
    /// The number of the entry in the chain.
    pub sequence: u64,
    /// Entries up to this one were durable when it was written.
    pub flushed: u64,
    /// The address of the entry. With parity it takes more space than its size.
    pub place: Addr,
    /// The number of records that the entry points to.
    pub records: u32,
    /// The identity of the sealed payload.
    pub identity: RecordIdentity,
}

/// The parts of a log that can be read without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLog {
    /// The start of the log.
    pub head: LogHead,
    /// The first of its entries.
    pub entries: Vec<ShownEntry>,
    /// The end of the log.
    pub end: LogEnd,
}

impl Pool {
    /// The log of a dataset as the last commit left it, with what was written to it since; `None` if it has
    /// none. Up to `shown` entries are returned, all are read. No commit happens meanwhile.
    ///
    /// # Errors
    /// As [`Pool::entry`]. Where the log cannot be read, [`ShownLog`] says so.
    pub fn shown_log(&self, id: u64, shown: usize) -> Result<Option<ShownLog>> {
        let _committing = self.engine.lock_commits();
        let (guid, head) = {
            let state = self.engine.state.read();
            let entry = state.entry(id)?;
            (entry.guid, entry.log.clone())
        };
        if !head.exists() {
            return Ok(None);
        }
        let mut reader = LogReader::new(&self.engine.disk, &head, guid);
        let mut entries = Vec::new();
        while let Some(found) = reader.advance() {
            if entries.len() < shown {
                entries.push(ShownEntry {
                    sequence: found.head.sequence,
                    flushed: found.head.flushed,
                    place: Addr::new(found.segment, found.offset, found.head.len),
                    records: found.head.places,
                    identity: found.head.identity,
                });
            }
        }
        let end = reader.end();
        Ok(Some(ShownLog { head, entries, end }))
    }

    /// Commits, with a line in the history of the pool that is no command.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn commit_and_note(&self, what: &str) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            log_own(commit, state, what.into());
            Ok(())
        })
    }

    /// Makes the next commit free the logs of all open datasets. Their holders may ask for new ones.
    ///
    /// # Errors
    /// As [`Pool::enter`].
    pub fn give_up_logs(&self) -> Result<()> {
        let open = self.engine.open.lock();
        let mut given_up = false;
        for dataset in open.values().filter_map(Weak::upgrade) {
            let mut log = dataset.log.lock();
            given_up |= log.wanted() > 0;
            log.want(0, 0);
            drop(log);
            dataset.need_visit();
        }
        drop(open);
        if given_up {
            self.enter()?.mark_dirty();
        }
        Ok(())
    }
}
