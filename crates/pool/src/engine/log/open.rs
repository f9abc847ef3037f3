//! The log of an open dataset, as its key holder uses it.

use std::io::IoSlice;

use store::UNIT;
use zerocopy::IntoBytes;

use super::LogReader;
use crate::engine::dataset::OpenDataset;
use crate::error::Result;
use crate::format::log_entry::{EntryHead, LOG_HEADER, LOG_PLACE};
use crate::format::log_head::LogHead;
use crate::format::pointer::{Addr, Identity, Place, RecordPtr};

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
    /// record must add up to whole units. Returns when the entry and the records that it points to are durable. False
    /// if a commit is needed instead: the log is full, a replay would not have enough space, or a device failed. `seal`
    /// gets the chain, the sequence number and a buffer of zeros for the payload. It must bind the chain and the
    /// number. One call at a time.
    ///
    /// # Errors
    /// The error of `seal`, or the failure of a device. The latter suspends the pool.
    pub fn append_log<E: From<crate::Error>>(
        &self,
        places: &[Place],
        len: usize,
        seal: impl FnOnce(u64, u64, &mut [u8]) -> std::result::Result<Identity, E>,
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
        let sealed = seal(reserved.chain, reserved.sequence, &mut entry[clear..]);
        let identity = sealed.inspect_err(|_| self.log.lock().abandon())?;
        let head = EntryHead {
            pool: self.context.disk.store.pool_guid(),
            dataset: self.guid(),
            chain: reserved.chain,
            sequence: reserved.sequence,
            flushed: reserved.flushed,
            len: whole,
            places: places.len() as u32,
            identity,
        };
        let header = head.encode(&entry[LOG_HEADER..]);
        entry[..LOG_HEADER].copy_from_slice(&header);
        let flushed = self.flush_records(places, reserved.place.segment().group());
        flushed.inspect_err(|_| self.log.lock().tear())?;
        let written = self.write_entry(&reserved.place, &entry);
        let group = reserved.place.segment().group();
        if self.context.space.is_for_logs(group) {
            if written.is_err() || !self.context.disk.store.works(group) {
                self.log.lock().tear();
                return Ok(false);
            }
        } else {
            written.map_err(|error| {
                self.log.lock().tear();
                self.context.suspend(error)
            })?;
        }
        self.log.lock().written();
        // A failed device lacks the entry. Only a commit can record this in the configuration.
        Ok(!self.context.has_faults())
    }

    fn write_entry(&self, place: &Addr, entry: &[u8]) -> Result<()> {
        let store = &self.context.disk.store;
        let at = (place.segment(), place.offset());
        match store.shape(at.0.group()).has_parity() {
            true => {
                let units: Vec<&[u8]> = entry.chunks(UNIT as usize).collect();
                store.write_each(at.0, at.1, &units)?;
            }
            false => store.write(at.0, at.1, &[IoSlice::new(entry)])?,
        }
        store.flush_group(at.0.group())?;
        self.context.check_lease()
    }

    /// Flushes the devices of records that are not on the devices of the entry.
    fn flush_records(&self, places: &[Place], entry: u32) -> Result<()> {
        let addresses = places.iter().flat_map(Place::copies);
        let mut groups: Vec<u32> = addresses.map(|addr| addr.segment().group()).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups.into_iter().filter(|group| *group != entry) {
            let flushed = self.context.disk.store.flush_group(group);
            flushed.map_err(|error| self.context.suspend(error.into()))?;
        }
        Ok(())
    }

    /// Whether an entry can point to a record: the record is no gang, is not shared, and was put after transaction
    /// group `base`.
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
