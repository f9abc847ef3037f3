//! Intent logs on log devices: moves logs out of a group, and gives up a group that is lost.

use store::UNIT;

use super::scan::LogReader;
use crate::engine::context::PoolContext;
use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::logs::log_head::{CHUNKS_MAX, LogHead, capacity};
use crate::format::records::extent::{Class, StoredExtent};
use crate::format::records::pointer::Addr;
use crate::format::superblock::config::{ConfigDevice, DeviceState, Purpose};
use crate::storage::core::Core;
use crate::storage::space::ReserveFor;
use crate::storage::writer::txg::TxgWriter;

impl LogHead {
    /// Returns whether a part of the log lies in a group.
    pub(crate) fn is_in(&self, group: u16) -> bool {
        let mut chunks = self.chunks.iter();
        chunks.any(|chunk| chunk.segment().group() == u32::from(group))
    }
}

fn group_of(chunk: &Addr) -> u16 {
    u16::try_from(chunk.segment().group()).unwrap_or(u16::MAX)
}

impl DatasetTable {
    /// The number of chunks of a log before the first one that cannot be read.
    pub(crate) fn known_chunks(&self, log: &LogHead) -> usize {
        let known = |chunk: &&Addr| self.config.knows_logs(group_of(chunk));
        log.chunks.iter().take_while(known).count()
    }

    pub(crate) fn with_lost_logs(&self) -> impl Iterator<Item = &Entry> {
        self.all()
            .map(AsRef::as_ref)
            .filter(|entry: &&Entry| self.known_chunks(&entry.log) < entry.log.chunks.len())
    }

    /// Refuses a pool that has lost a log that waits to be replayed.
    pub(crate) fn refuse_lost_logs(&self) -> Result<()> {
        let lost: Vec<&Entry> = self.with_lost_logs().collect();
        if lost.is_empty() {
            return Ok(());
        }
        let is_lost = |device: &ConfigDevice| {
            device.state != DeviceState::Online && !self.config.knows_logs(device.group)
        };
        Err(self.logs_lost(&lost, is_lost))
    }

    /// Refuses a dataset if a part of its log is lost.
    pub(crate) fn refuse_unknown_log(&self, entry: &Entry) -> Result<()> {
        let chunks = entry.log.chunks.get(self.known_chunks(&entry.log));
        chunks.map_or(Ok(()), |chunk| {
            Err(self.logs_lost(&[entry], |device| device.group == group_of(chunk)))
        })
    }

    /// The error for datasets whose logs are on missing devices.
    fn logs_lost(&self, datasets: &[&Entry], is_lost: impl Fn(&ConfigDevice) -> bool) -> Error {
        let members = self.config.devices.iter().filter(|d| d.is_member());
        let devices = members.filter(|device| is_lost(device));
        let devices: Vec<&str> = devices.map(|device| device.path.as_str()).collect();
        let datasets: Vec<String> = datasets.iter().map(|entry| self.name_of(entry)).collect();
        Error::LogsLost {
            devices: devices.join(", "),
            datasets: datasets.join(", "),
        }
    }

    /// Refuses a log whose end is unknown because a place in it cannot be read.
    pub(crate) fn refuse_unreadable(&self, entry: &Entry, log: &LogReader<'_>) -> Result<()> {
        log.unreadable().map_or(Ok(()), |group| {
            Err(self.logs_lost(&[entry], |device| u32::from(device.group) == group))
        })
    }
}

/// Copies the entries of a log to other places without a key. Returns the place of the copy, and the log read to
/// its end.
pub(crate) fn copy_log<'a>(
    commit: &TxgWriter<'a>,
    entry: &'a Entry,
) -> Result<(LogHead, LogReader<'a>)> {
    let disk = &commit.core.disk;
    let reader = || LogReader::new(disk, &entry.log, entry.guid);
    let lengths = |mut log: LogReader<'_>| log.raw().map(|found| found.bytes.len() as u64).sum();
    let mut copy = LogCopy {
        commit,
        chunks: Vec::new(),
        offset: 0,
        left: lengths(reader()),
    };
    let mut entries = reader();
    while let Some(found) = entries.advance() {
        copy.append(&found.bytes)?;
    }
    // The replay must learn that a part is lost.
    if let Some(proof) = entries.proof_of_loss() {
        copy.append(&proof.bytes)?;
    }
    // The commit that frees the old chunks also makes the head point to the copy.
    commit.free_extents(entry.log.extents());
    let copied = LogHead {
        offset: 0,
        chunks: copy.chunks,
        ..entry.log.clone()
    };
    Ok((copied, entries))
}

/// The copy of a log, while it is written.
struct LogCopy<'a> {
    commit: &'a TxgWriter<'a>,
    chunks: Vec<Addr>,
    /// The offset in the last chunk.
    offset: u32,
    /// The bytes of entries that are not copied yet.
    left: u64,
}

impl LogCopy<'_> {
    fn append(&mut self, entry: &[u8]) -> Result<()> {
        let store = &self.commit.core.disk.store;
        let len = entry.len() as u32;
        let size = |chunk: &Addr| capacity(chunk, store.shape(chunk.segment().group()));
        if self
            .chunks
            .last()
            .is_none_or(|chunk| size(chunk) - self.offset < len)
        {
            let chunk = self.new_chunk(len)?;
            self.chunks.push(chunk);
            self.offset = 0;
        }
        let chunk = self.chunks.last().expect("one that has space");
        let cell = store.shape(chunk.segment().group()).cell();
        let units: Vec<&[u8]> = entry.chunks(UNIT as usize).collect();
        store.write_each(chunk.segment(), chunk.offset() + self.offset * cell, &units)?;
        self.offset += len;
        // Later chunks need to hold only the rest.
        self.left = self.left.saturating_sub(len.into());
        Ok(())
    }

    /// Allocates a chunk for at least `len` bytes, and for all remaining bytes if there is such a run.
    fn new_chunk(&self, len: u32) -> Result<Addr> {
        let core = self.commit.core;
        let store = &core.disk.store;
        let largest = u64::from(store.segment_size());
        let cell = u64::from(core.space.largest_cell());
        let mut size = (self.left * cell).clamp(len.into(), largest) as u32;
        size = size.next_multiple_of(UNIT);
        while self.chunks.len() < CHUNKS_MAX {
            match allocate_chunk(core, size / UNIT) {
                Ok(extent) => {
                    self.commit.note_allocated(extent);
                    let chunk = extent.addr();
                    let shape = store.shape(chunk.segment().group());
                    match capacity(&chunk, shape) >= len {
                        true => return Ok(chunk),
                        false => break,
                    }
                }
                Err(Error::NoSpace) if size / 2 >= len => size = (size / 2).next_multiple_of(UNIT),
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoSpace)
    }
}

fn allocate_chunk(core: &Core, units: u32) -> Result<StoredExtent> {
    if let Some(found) = core.space.allocate_log(units)? {
        return Ok(found);
    }
    let bytes = u64::from(units) * u64::from(UNIT);
    let _reserved = core.space.reserve(bytes, ReserveFor::Writing)?;
    core.space.allocate(Class::Data, units, None)
}

/// Stops allocation in a log group until this is dropped.
pub(crate) struct GroupBar<'a> {
    context: &'a PoolContext,
    group: u16,
}

impl<'a> GroupBar<'a> {
    pub(crate) fn new(context: &'a PoolContext, group: u16) -> GroupBar<'a> {
        context.space.bar(group, true);
        GroupBar { context, group }
    }
}

impl Drop for GroupBar<'_> {
    fn drop(&mut self) {
        let is_there = self.context.state.read().config.purpose(self.group) == Purpose::Logs;
        if is_there {
            self.context.space.bar(self.group, false);
        }
    }
}
