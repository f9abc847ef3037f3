//! Writes the log: `fsync`, where one thread writes the entries of several threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::{
    ArrayKind, Durability, LOG_HEADER, LOG_PLACE, LOG_PLACES_MAX, LogPosition, RecordLocation,
};
use vfs::Ino;

use super::SyncMode;
use super::journal::ChangedRange;
use super::steps::{
    ContentsStep, LoggedRecord, PREAMBLE, preamble, put_contents, put_empty, put_record,
};
use super::writer::{ENTRY_STEPS_MAX, LogRequest};
use crate::core::Dataset;
use crate::core::io::memory::inode::Inode;
use crate::error::Result;

/// The largest number of changed bytes that go into the log. Beyond it, records get their final places, and the log
/// only points
/// to them.
const LARGE: usize = 64 << 10;
/// The largest number of bytes of an entry, besides pointers. Beyond it, a commit writes the changes instead.
const STEPS_MAX: usize = 256 << 10;
const _: () = assert!(STEPS_MAX < ENTRY_STEPS_MAX && ENTRY_STEPS_MAX < pool::RECORD_MAX as usize);

/// The size of a new log, in bytes. The first `fsync` waits until all of it is written once, and a dataset with few of
/// them needs no more.
const LOG_MIN: u64 = 4 << 20;
/// The largest size of a log. It grows while commits are too slow and the pool has free space.
const LOG_MAX: u64 = 1 << 30;

/// The changed part of a record.
#[derive(Default)]
struct ChangedPart {
    bytes: usize,
    /// The last transaction group that changed it.
    txg: u64,
}

/// The changed records, if so much changed that the log should point to them; otherwise none.
fn large_parts(ranges: &[ChangedRange]) -> BTreeMap<u64, ChangedPart> {
    let mut parts = BTreeMap::<u64, ChangedPart>::new();
    let bytes = |range: &ChangedRange| range.end - range.start;
    if ranges.iter().map(bytes).sum::<usize>() > LARGE {
        for range in ranges {
            let part = parts.entry(range.record).or_default();
            part.bytes += bytes(range);
            part.txg = part.txg.max(range.txg);
        }
    }
    parts
}

impl Dataset {
    /// Makes the data of a file durable, and all earlier changes of names.
    pub(crate) fn sync_file(&self, ino: Ino) -> Result<()> {
        self.sync_as(ino, Durability::Flushed)
    }

    /// Makes the data of a file and all earlier changes of names as safe as `durability` says.
    pub(crate) fn sync_as(&self, ino: Ino, durability: Durability) -> Result<()> {
        if self.settings().sync == SyncMode::Disabled {
            return Ok(());
        }
        let write = |requests: &[Arc<LogRequest>]| match requests {
            [] => self.flush_log(),
            _ => self.append(requests, durability),
        };
        match self.log_file(ino)? {
            Some(ticket) => self.log.wait(ticket, durability, &write),
            None => {
                self.ask_for_log()?;
                self.sync_all()
            }
        }
    }

    /// Calls `act` while nothing is written to the log. A rotation uses this, so that after the commit with the new
    /// keys all entries are sealed with these keys.
    pub fn with_log_held<R>(&self, act: impl FnOnce() -> R) -> R {
        let _held = self.log.hold();
        act()
    }

    /// Hands the changes of a file to the writer of the log, as a request. `None` if `fsync` has to commit.
    fn log_file(&self, ino: Ino) -> Result<Option<u64>> {
        // Without a log, a commit makes the change durable.
        if self.open.wanted_log() == 0 {
            return Ok(None);
        }
        self.inodes.with(ino, |inode| {
            self.place_ahead(inode);
            // No other thread may write between reading the entries and taking them.
            match self.volume {
                None => {
                    let _io = inode.io.read();
                    self.log_steps(inode)
                }
                // Several threads write to a volume at the same time.
                Some(_) => {
                    let _io = inode.io.write();
                    self.log_steps(inode)
                }
            }
        })
    }

    /// Writes the records of a file to their final places, if so much changed that its entry should only point to
    /// them. Leaves out records of which less than half changed.
    fn place_ahead(&self, inode: &Arc<Inode>) {
        let committed = self.pool.committed_txg();
        let ranges = self.journal.ranges(inode.ino, committed);
        let parts = large_parts(&ranges.unwrap_or_default());
        if parts.len() > LOG_PLACES_MAX {
            return;
        }
        let records = parts.iter().map(|(record, part)| (*record, part.bytes));
        let begun = self.seal_ahead(inode, records, |changed, dirty| {
            2 * changed >= dirty.buffer.len()
        });
        self.engine.workers.finish(self.pool.guid(), &begun);
    }

    fn log_steps(&self, inode: &Inode) -> Result<Option<u64>> {
        // Read once: a commit that ends meanwhile only makes the entry longer than it has to be.
        let committed = self.pool.committed_txg();
        let Some(ranges) = self.journal.ranges(inode.ino, committed) else {
            return Ok(None);
        };
        let Some(mut contents) = self.contents_of(inode, &ranges, committed)? else {
            return Ok(None);
        };
        Ok(self
            .journal
            .take(inode.ino, committed, |names, has_contents| {
                let contents = has_contents.then(|| std::mem::take(&mut contents));
                self.log.add(LogRequest {
                    names,
                    ..contents.unwrap_or_default()
                })
            }))
    }

    /// The request for the changed contents of a file; `None` if it is too large.
    fn contents_of(
        &self,
        inode: &Inode,
        ranges: &[ChangedRange],
        committed: u64,
    ) -> Result<Option<LogRequest>> {
        let mut parts = large_parts(ranges);
        let is_large = !parts.is_empty();
        let mut request = LogRequest::default();
        let mut pointers = 0;
        for range in ranges {
            if is_large {
                let Some(part) = parts.get(&range.record) else {
                    // The entry already points to the record.
                    continue;
                };
                if let Some(logged) = self.logged(inode, range.record, committed)? {
                    let before = request.contents.len();
                    put_record(&mut request.contents, part.txg, &logged);
                    pointers += request.contents.len() - before;
                    request.places.push(logged.ptr.place);
                    // Further ranges of the record are in it already.
                    parts.remove(&range.record);
                    continue;
                }
            }
            self.put_range(&mut request.contents, inode.ino, range)?;
            if request.contents.len() - pointers > STEPS_MAX {
                return Ok(None);
            }
        }
        Ok((request.places.len() <= LOG_PLACES_MAX).then_some(request))
    }

    /// A record that no commit has made durable, if the log can point to it.
    fn logged(&self, inode: &Inode, record: u64, committed: u64) -> Result<Option<LoggedRecord>> {
        if inode.records.lock().contains_key(&record) {
            return Ok(None);
        }
        let Some(slot) = self.slot_of(inode.ino, record)? else {
            return Ok(None);
        };
        let ptr = self.open.get(ArrayKind::Data, slot)?;
        Ok(self
            .open
            .can_point_to(&ptr, committed)
            .then_some(LoggedRecord {
                ino: inode.ino,
                record,
                ptr,
            }))
    }

    /// Adds the present contents of a range, if it still exists.
    fn put_range(&self, steps: &mut Vec<u8>, ino: Ino, range: &ChangedRange) -> Result<()> {
        let Some(buffer) = self.record(ino, range.record, false)? else {
            // For a file, the tree shows this.
            if range.is_whole && self.volume.is_some() {
                put_empty(steps, range.txg, ino, range.record);
            }
            return Ok(());
        };
        let (start, end) = if range.is_whole {
            (0, buffer.len())
        } else {
            (range.start, range.end.min(buffer.len()))
        };
        if start < end {
            let contents = ContentsStep {
                ino,
                record: range.record,
                start,
                is_whole: range.is_whole,
                bytes: &buffer[start..end],
            };
            put_contents(steps, range.txg, &contents);
        }
        Ok(())
    }

    /// Flushes the log, or commits if a device failed.
    fn flush_log(&self) -> Result<()> {
        match self.open.flush_log()? {
            true => Ok(()),
            false => self.commit_all(),
        }
    }

    /// Writes an entry, or commits if it is too long for one or there is no free space.
    fn append(&self, requests: &[Arc<LogRequest>], durability: Durability) -> Result<()> {
        let steps: usize = requests.iter().map(|request| request.len()).sum();
        if steps > ENTRY_STEPS_MAX {
            return self.commit_all();
        }
        let places: Vec<RecordLocation> = requests.iter().flat_map(|r| r.places.clone()).collect();
        debug_assert!(!requests.is_empty(), "an entry has steps");
        let clear = LOG_HEADER + places.len() * LOG_PLACE;
        let len = (clear + PREAMBLE + steps).next_multiple_of(4096) - clear;
        let seal = |place: &LogPosition, payload: &mut [u8]| {
            let preamble = preamble(place.chain, place.sequence, steps);
            let parts = requests
                .iter()
                .flat_map(|r| [&r.names[..], &r.contents[..]]);
            let mut at = 0;
            for part in std::iter::once(&preamble[..]).chain(parts) {
                payload[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            let associated = place.associated.as_deref().unwrap_or_default();
            let random = self.engine.random.as_ref();
            let sealed = self.sealer.seal_log(associated, payload, random);
            sealed.map_err(|error| self.not_sealed(&error))
        };
        // A commit frees chunks of the ring. So it is waited for once, if one runs.
        if self.open.append_log(&places, len, durability, seal)?
            || self.append_after_commit(&places, len, durability, seal)?
        {
            let (left, size) = self.open.log_space();
            if left < size / 2 {
                self.enlarge_log(size);
                // Half of the ring is full, and only a commit frees it.
                self.engine.wake();
            }
            return Ok(());
        }
        self.enlarge_log(self.open.log_space().1);
        self.commit_all()
    }

    /// Waits for the running commit, which may free space in the log, and appends the entry.
    fn append_after_commit<S>(
        &self,
        places: &[RecordLocation],
        len: usize,
        durability: Durability,
        seal: S,
    ) -> Result<bool>
    where
        S: FnOnce(&LogPosition, &mut [u8]) -> Result<pool::RecordIdentity>,
    {
        // The group before the open one is the one that a running commit closes.
        let ended = self.pool.enter()?.txg() - 1;
        if self.pool.committed_txg() >= ended {
            return Ok(false);
        }
        self.pool.commit_through(ended)?;
        self.open.append_log(places, len, durability, seal)
    }

    /// Commits all changes whose steps were taken out of the journal. This includes a change that another thread is
    /// still making. That thread would find nothing left to sync.
    fn commit_all(&self) -> Result<()> {
        let txg = self.pool.enter()?.txg();
        Ok(self.pool.commit_through(txg)?)
    }

    /// Starts noting changes, and requests a log, with the next transaction group.
    fn ask_for_log(&self) -> Result<()> {
        if !self.open.is_writable() {
            return Ok(());
        }
        // The changes up to now were not noted. This `fsync` commits, and later ones can use the log.
        self.journal.want();
        if self.open.wanted_log() == 0 {
            let mut chain = [0; 8];
            let random = self.engine.random.fill(&mut chain);
            // The name of the log must differ from earlier ones: entries of these may still be in the ring.
            random.map_err(|_| vfs::Error::Io)?;
            self.open
                .want_log(LOG_MIN, u64::from_le_bytes(chain).max(1));
        }
        Ok(())
    }

    /// Requests a larger log, if the log has reached its requested size.
    fn enlarge_log(&self, size: u64) {
        if size < self.open.wanted_log() {
            return;
        }
        let wanted = (4 * self.open.wanted_log()).min(LOG_MAX);
        self.open.want_log(wanted, 0);
    }

    /// Gives up the log. The next commit frees it.
    pub(crate) fn give_up_log(&self) -> Result<()> {
        self.journal.stop();
        if self.open.wanted_log() > 0 {
            self.open.want_log(0, 0);
            self.open.mark_changed(&self.pool.enter()?);
        }
        Ok(())
    }
}
