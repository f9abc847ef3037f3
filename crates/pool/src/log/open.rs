//! The log of an open dataset, as its key holder uses it.

use std::io::IoSlice;
use std::sync::Weak;

use store::UNIT;

use super::entry::{EntryHead, LOG_HEADER};
use super::{LogHead, LogReader};
use crate::error::Result;
use crate::layout::Identity;
use crate::open::OpenDataset;
use crate::pool::Pool;

impl Pool {
    /// Has the next commit free the logs of all open datasets, whose holders may ask for new ones.
    pub fn give_up_logs(&self) -> Result<()> {
        let open = self.shared.open.lock();
        let mut given_up = false;
        for dataset in open.values().filter_map(Weak::upgrade) {
            let mut log = dataset.log.lock();
            given_up |= log.wanted() > 0;
            log.want(0, 0);
        }
        drop(open);
        if given_up {
            self.enter()?.mark_dirty();
        }
        Ok(())
    }
}

impl OpenDataset {
    /// The log that waits to be replayed, if there is one.
    pub fn waiting_log(&self) -> Option<LogHead> {
        self.log.lock().waiting()
    }

    /// The entries of the log that waits. They may be of transaction groups that the arrays have
    /// already.
    pub fn read_log<'a>(&'a self, head: &'a LogHead) -> LogReader<'a> {
        LogReader::new(&self.shared.disk, head, self.guid())
    }

    /// Says that everything in the log that waited is in the open transaction group and those before
    /// it. Until then its head stays, and a crash makes the replay begin anew.
    pub fn log_replayed(&self) {
        self.log.lock().replayed();
    }

    /// Asks for a log of about so many bytes, which the next commit that has something of this
    /// dataset sets up under the name `chain`, which is random. 0 asks to give it up.
    pub fn want_log(&self, bytes: u64, chain: u64) {
        self.log.lock().want(bytes, chain);
    }

    /// How large the log was asked to be.
    pub fn wanted_log(&self) -> u64 {
        self.log.lock().wanted()
    }

    /// Bytes that may be appended before a commit has to make room, and of the whole log.
    pub fn log_room(&self) -> (u64, u64) {
        self.log.lock().room()
    }

    /// Appends an entry with a payload of `len` bytes, which with [`LOG_HEADER`] are whole units, and
    /// returns once it is durable; false if only a commit will do: there is no room before it, or a
    /// device failed. `seal`
    /// gets chain and sequence, which the payload has to bind. One call at a time.
    ///
    /// # Errors
    /// What `seal` returned; or the device failed, and the pool is suspended.
    pub fn append_log<E: From<crate::Error>>(
        &self,
        len: usize,
        seal: impl FnOnce(u64, u64) -> std::result::Result<(Identity, Vec<u8>), E>,
    ) -> std::result::Result<bool, E> {
        self.shared.check_writable()?;
        let whole = (LOG_HEADER + len) as u32;
        let Some(reserved) = self.log.lock().reserve(whole, &self.may_use()) else {
            return Ok(false);
        };
        let sealed = seal(reserved.chain, reserved.sequence);
        let (identity, payload) = sealed.inspect_err(|_| self.log.lock().abandon())?;
        assert_eq!(payload.len(), len);
        let head = EntryHead {
            pool: self.shared.disk.store.pool_guid(),
            dataset: self.guid(),
            chain: reserved.chain,
            sequence: reserved.sequence,
            flushed: reserved.flushed,
            len: whole,
            identity,
        };
        let written = self.write_entry(&reserved.place, &head.encode(&payload), &payload);
        let group = reserved.place.segment().group();
        if self.shared.space.is_for_logs(group) {
            if written.is_err() || !self.shared.disk.store.works(group) {
                self.log.lock().tear();
                return Ok(false);
            }
        } else {
            written.map_err(|error| self.shared.suspend(error))?;
        }
        self.log.lock().written();
        // A device that has failed lacks the entry, and only a commit can say so.
        Ok(!self.shared.has_faults())
    }

    fn write_entry(&self, place: &crate::layout::Addr, head: &[u8], payload: &[u8]) -> Result<()> {
        let store = &self.shared.disk.store;
        let at = (place.segment(), place.offset());
        match store.shape(at.0.group()).has_parity() {
            true => {
                let entry = [head, payload].concat();
                let units: Vec<&[u8]> = entry.chunks(UNIT as usize).collect();
                store.write_each(at.0, at.1, &units)?;
            }
            false => store.write(at.0, at.1, &[IoSlice::new(head), IoSlice::new(payload)])?,
        }
        Ok(store.flush_group(at.0.group())?)
    }

    fn may_use(&self) -> impl Fn(u32) -> bool {
        |group| self.shared.space.takes_logs(group)
    }

    /// As the transaction group closes.
    pub(crate) fn freeze_log(&self) {
        self.log.lock().freeze(&self.may_use());
    }
}
