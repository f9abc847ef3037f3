//! The log of an open dataset, as its key holder uses it.

use std::io::IoSlice;

use store::UNIT;
use zerocopy::IntoBytes;

use super::LogReader;
use crate::engine::datasets::open_dataset::OpenDataset;
use crate::error::Result;
use crate::format::logs::log_entry::{EntryHead, LOG_HEADER, LOG_PLACE, LogPosition};
use crate::format::logs::log_head::LogHead;
use crate::format::records::pointer::{Addr, RecordIdentity, RecordLocation, RecordPtr};

/// The safety of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The devices have it, perhaps in their caches. It survives the end of this process.
    Written,
    /// The entry survives a power cut.
    Flushed,
}

impl OpenDataset {
    /// The log that waits to be replayed, if there is one.
    pub fn waiting_log(&self) -> Option<LogHead> {
        self.log.lock().waiting()
    }

    /// The entries of the waiting log. The arrays may have the changes of some of them already.
    pub fn read_log<'a>(&'a self, head: &'a LogHead) -> LogReader<'a> {
        LogReader::new(&self.context.disk, head, self.guid())
    }

    /// Checks that the end of a log is its real end, and not a place that cannot be read.
    ///
    /// # Errors
    /// [`Error::LogsLost`](crate::Error::LogsLost) if the next place cannot be read now.
    pub fn refuse_unreadable_log(&self, log: &LogReader<'_>) -> Result<()> {
        let state = self.context.state.read();
        state.refuse_unreadable(state.entry(self.id)?, log)
    }

    /// Called when the waiting log is replayed into the open transaction group and earlier ones. Before this call
    /// the head stays, so that a crash restarts the replay.
    pub fn log_replayed(&self) {
        self.log.lock().replayed();
        self.need_visit();
    }

    /// Requests a log of about `bytes` bytes. The next commit of this dataset makes it, with the random name
    /// `chain`. 0 requests its removal.
    pub fn want_log(&self, bytes: u64, chain: u64) {
        self.log.lock().want(bytes, chain);
        self.need_visit();
    }

    /// The requested size of the log.
    pub fn wanted_log(&self) -> u64 {
        self.log.lock().wanted()
    }

    /// The bytes that can be appended before a commit has to free space, and the size of the log.
    pub fn log_space(&self) -> (u64, u64) {
        self.log.lock().space()
    }

    /// Appends an entry with a payload of `len` bytes. The payload, [`LOG_HEADER`] and one [`LOG_PLACE`] for each
    /// record must add up to whole units. Returns when the entry and the records that it points to are as safe as
    /// `durability` says; with [`Durability::Flushed`] earlier entries are durable too. False if a commit is needed instead: the
    /// log is full, a replay would not have enough space, or a device failed. `seal` gets the place, which it must bind,
    /// and a buffer of zeros for the payload. One call at a time, also of [`OpenDataset::flush_log`].
    ///
    /// # Errors
    /// The error of `seal`, or the failure of a device. The latter suspends the pool.
    pub fn append_log<E: From<crate::Error>>(
        &self,
        places: &[RecordLocation],
        len: usize,
        durability: Durability,
        seal: impl FnOnce(&LogPosition, &mut [u8]) -> std::result::Result<RecordIdentity, E>,
    ) -> std::result::Result<bool, E> {
        let _flushing = self.context.flushing.read();
        self.context.check_writable()?;
        let clear = LOG_HEADER + places.len() * LOG_PLACE;
        let whole = (clear + len) as u32;
        let reserved = {
            let mut log = self.log.lock();
            let has_space = log.pointed.add(places, &self.context.space);
            has_space.then(|| log.reserve(whole, &self.may_use()))
        };
        let Some(reserved) = reserved.flatten() else {
            return Ok(false);
        };
        let mut entry = vec![0; whole as usize];
        entry[LOG_HEADER..clear].copy_from_slice(places.as_bytes());
        let mut head = EntryHead {
            pool: self.context.disk.store.pool_guid(),
            dataset: self.guid(),
            chain: reserved.chain,
            sequence: reserved.sequence,
            flushed: reserved.flushed,
            len: whole,
            places: places.len() as u32,
            identity: RecordPtr::EMPTY.identity,
            bound: Some(reserved.bound),
        };
        let sealed = seal(&LogPosition::of(&head, places), &mut entry[clear..]);
        head.identity = sealed.inspect_err(|_| self.log.lock().abandon())?;
        let header = head.encode(&entry[LOG_HEADER..]);
        entry[..LOG_HEADER].copy_from_slice(&header);
        let group = reserved.place.segment().group();
        // With nothing before it that is not durable, the entry need not wait for other writes. A device for logs may hang,
        // and is done without: only a flush gives up waiting for it.
        let is_alone = durability == Durability::Flushed
            && places.is_empty()
            && !self.context.space.is_for_logs(group)
            && self.log.lock().unflushed().is_empty();
        let written = self.write_entry(&reserved.place, &entry, is_alone);
        let is_durable = *written.as_ref().unwrap_or(&false);
        if !self.is_done(group, written.map(drop))? {
            return Ok(false);
        }
        let records = places.iter().flat_map(RecordLocation::copies);
        let groups = records.map(|addr| addr.segment().group()).chain([group]);
        let groups = groups.filter(|_| !is_durable);
        self.log.lock().written(*head.identity.tag(), groups);
        if durability == Durability::Flushed && !self.flush_entries()? {
            return Ok(false);
        }
        // A failed device lacks the entry. Only a commit can record this in the configuration.
        Ok(!self.context.has_faults())
    }

    /// Makes all entries durable, and the records that they point to. False if a commit is needed instead.
    ///
    /// # Errors
    /// A device failed. The pool is suspended.
    pub fn flush_log(&self) -> Result<bool> {
        let _flushing = self.context.flushing.read();
        self.context.check_writable()?;
        Ok(self.flush_entries()? && !self.context.has_faults())
    }

    /// Flushes the devices of all entries that were written since the last call.
    fn flush_entries(&self) -> Result<bool> {
        let groups = self.log.lock().unflushed();
        for group in groups {
            let flushed = self.context.disk.store.flush_group(group);
            if !self.is_done(group, flushed.map_err(Into::into))? {
                return Ok(false);
            }
        }
        self.context.check_lease().map_err(|error| {
            self.log.lock().tear();
            self.context.suspend(error)
        })?;
        self.log.lock().flushed();
        Ok(true)
    }

    /// Returns whether a write or a flush of a group succeeded. The pool can do without a group for logs; the failure
    /// of another group suspends it.
    fn is_done(&self, group: u32, outcome: Result<()>) -> Result<bool> {
        let is_for_logs = self.context.space.is_for_logs(group);
        let is_done = outcome.is_ok() && (!is_for_logs || self.context.disk.store.works(group));
        if !is_done {
            self.log.lock().tear();
        }
        match outcome {
            Err(error) if !is_for_logs => Err(self.context.suspend(error)),
            _ => Ok(is_done),
        }
    }

    /// Writes an entry. True if it is durable already, which may be so only if `is_alone`.
    fn write_entry(&self, place: &Addr, entry: &[u8], is_alone: bool) -> Result<bool> {
        let store = &self.context.disk.store;
        let at = (place.segment(), place.offset());
        if is_alone && store.write_durably(at.0, at.1, entry)? {
            return self.context.check_lease().map(|()| true);
        }
        match store.shape(at.0.group()).has_parity() {
            true => {
                let units: Vec<&[u8]> = entry.chunks(UNIT as usize).collect();
                store.write_each(at.0, at.1, &units)?;
            }
            false => store.write(at.0, at.1, &[IoSlice::new(entry)])?,
        }
        // The entry, or a record that it points to, may be in memory only, without an error.
        match store.stall() {
            Some(stall) => Err(stall.into()),
            None => self.context.check_lease().map(|()| false),
        }
    }

    /// Returns whether an entry can point to a record: the record is no gang, is not shared, and was put after
    /// transaction group `base`.
    pub fn can_point_to(&self, ptr: &RecordPtr, base: u64) -> bool {
        ptr.place.is_plain() && ptr.place.birth() > base
    }

    /// Reads a record that the log points to, one copy after the other until `accept` accepts one.
    ///
    /// # Errors
    /// The record is damaged, or a device failed.
    pub fn read_logged(
        &self,
        ptr: &RecordPtr,
        accept: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.context.disk.record(ptr, None, &mut Vec::new(), accept)
    }

    fn may_use(&self) -> impl Fn(u32) -> bool {
        |group| self.context.space.takes_logs(group)
    }

    /// Called when the transaction group closes.
    pub(crate) fn freeze_log(&self) {
        self.log.lock().freeze(&self.may_use());
    }
}
