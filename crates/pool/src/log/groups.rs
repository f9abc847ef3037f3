//! Logs and the groups of devices that are there for them: leaving such a group, and doing without one
//! that is lost.

use std::sync::Weak;

use store::UNIT;

use super::scan::LogReader;
use super::{CHUNKS_MAX, LogHead, capacity};
use crate::commit::Commit;
use crate::config::{ConfigDevice, DeviceState, Purpose};
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::faults::log_internal;
use crate::layout::Addr;
use crate::pool::{Pool, Shared};
use crate::space::{Class, Extent, ReserveFor};
use crate::state::State;

/// A log that is in use has left a group after so many commits, whatever is written to it meanwhile.
const COMMITS_MAX: usize = 8;

impl LogHead {
    /// Whether a part of it lies in a group.
    fn is_in(&self, group: u16) -> bool {
        let mut chunks = self.chunks.iter();
        chunks.any(|chunk| chunk.segment().group() == u32::from(group))
    }
}

/// The group of a chunk.
fn group_of(chunk: &Addr) -> u16 {
    u16::try_from(chunk.segment().group()).unwrap_or(u16::MAX)
}

impl State {
    /// How many chunks of a log come before one that nobody can read.
    fn known_chunks(&self, log: &LogHead) -> usize {
        let known = |chunk: &&Addr| self.config.knows_logs(group_of(chunk));
        log.chunks.iter().take_while(known).count()
    }

    /// The datasets whose logs lie in groups that are lost.
    fn with_lost_logs(&self) -> impl Iterator<Item = &Entry> {
        self.all()
            .map(AsRef::as_ref)
            .filter(|entry: &&Entry| self.known_chunks(&entry.log) < entry.log.chunks.len())
    }

    /// Refuses a pool of which logs are lost that wait to be replayed.
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

    /// Refuses one whose log nobody knows all of.
    pub(crate) fn refuse_unknown_log(&self, entry: &Entry) -> Result<()> {
        let chunks = entry.log.chunks.get(self.known_chunks(&entry.log));
        chunks.map_or(Ok(()), |chunk| {
            Err(self.logs_lost(&[entry], |device| device.group == group_of(chunk)))
        })
    }

    /// The logs of these datasets cannot be read, for want of these devices.
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

    /// Refuses to take the end of what can be read of a log for its end.
    pub(crate) fn refuse_unreadable(&self, entry: &Entry, log: &LogReader<'_>) -> Result<()> {
        log.unreadable().map_or(Ok(()), |group| {
            Err(self.logs_lost(&[entry], |device| u32::from(device.group) == group))
        })
    }
}

impl Pool {
    /// Cuts logs off where they are lost, and says so. What comes before is still there to be replayed.
    pub(crate) fn give_up_lost_logs(&self) -> Result<Vec<String>> {
        self.shared.commit_with(|commit, state| {
            let mut said = Vec::new();
            let lost: Vec<u64> = state.with_lost_logs().map(|entry| entry.id).collect();
            for id in lost {
                let known = state.known_chunks(&state.entry(id)?.log);
                say_given_up(commit, state, id, &mut said)?;
                let log = &mut state.edit(id)?.log;
                let given_up = log.chunks.split_off(known);
                commit.free_extents(given_up.iter().map(Extent::of));
                if log.chunks.is_empty() {
                    *log = log.without_chunks();
                }
            }
            let disk = &commit.shared.disk;
            let is_unreadable = |entry: &&Entry| {
                let mut log = LogReader::new(disk, &entry.log, entry.guid);
                log.raw().for_each(drop);
                log.unreadable().is_some()
            };
            let all = state.all().map(AsRef::as_ref);
            let waiting = all.filter(|entry: &&Entry| entry.log.exists());
            let unreadable: Vec<u64> = waiting.filter(is_unreadable).map(|e| e.id).collect();
            for id in unreadable {
                say_given_up(commit, state, id, &mut said)?;
                let (readable, _) = copy_log(commit, state.entry(id)?)?;
                state.edit(id)?.log = readable;
            }
            Ok(said)
        })
    }

    /// Has every log leave a group in which nothing is placed any more.
    pub(crate) fn leave_logs(&self, group: u16) -> Result<()> {
        let shared = &self.shared;
        for _ in 0..COMMITS_MAX {
            if !shared
                .state
                .read()
                .all()
                .any(|entry| entry.log.is_in(group))
            {
                return Ok(());
            }
            shared.commit_with(|commit, state| move_waiting(commit, state, group))?;
        }
        let state = shared.state.read();
        let entry = state.all().find(|entry| entry.log.is_in(group));
        entry.map_or(Ok(()), |entry| {
            Err(Error::Refused {
                name: state.name_of(entry),
                reason: "its log is being replayed from there; try again when that is done".into(),
            })
        })
    }
}

fn say_given_up(
    commit: &Commit<'_>,
    state: &mut State,
    id: u64,
    said: &mut Vec<String>,
) -> Result<()> {
    let entry = state.entry(id)?;
    let text = format!(
        "gave up what was synced to {} after txg {}: the log device is lost",
        state.name_of(entry),
        entry.log.base
    );
    tracing::warn!("{text}");
    said.push(text.clone());
    log_internal(commit, state, text);
    Ok(())
}

/// Moves the logs of datasets that are not in use. Those of others move with their commits.
fn move_waiting(commit: &Commit<'_>, state: &mut State, group: u16) -> Result<()> {
    let shared = commit.shared;
    let open = shared.open.lock();
    let is_closed = |id: u64| open.get(&id).and_then(Weak::upgrade).is_none();
    let waiting = state
        .all()
        .filter(|entry| entry.log.is_in(group) && is_closed(entry.id));
    let waiting: Vec<u64> = waiting.map(|entry| entry.id).collect();
    for id in waiting {
        let entry = state.entry(id)?;
        if !state.config.knows_logs(group) {
            return Err(Error::Refused {
                name: state.name_of(entry),
                reason:
                    "its log waits on the device, which failed; bring it back with 'pool online', \
                         or export the pool and give up what was synced last with 'pool import -m'"
                        .into(),
            });
        }
        let (moved, log) = copy_log(commit, entry)?;
        state.refuse_unreadable(entry, &log)?;
        state.edit(id)?.log = moved;
    }
    Ok(())
}

/// Copies the entries of a log to other places, as they are: no key is needed for that. Returns where the
/// copy is, and the log read to its end.
fn copy_log<'a>(commit: &Commit<'a>, entry: &'a Entry) -> Result<(LogHead, LogReader<'a>)> {
    let disk = &commit.shared.disk;
    let reader = || LogReader::new(disk, &entry.log, entry.guid);
    let lengths = |mut log: LogReader<'_>| log.raw().map(|found| found.bytes.len() as u64).sum();
    let mut copy = Copy {
        commit,
        chunks: Vec::new(),
        offset: 0,
        left: lengths(reader()),
    };
    let mut entries = reader();
    while let Some(found) = entries.advance() {
        copy.append(&found.bytes)?;
    }
    // Whoever replays it is to know that something was lost.
    if let Some(proof) = entries.proof_of_loss() {
        copy.append(&proof.bytes)?;
    }
    commit.free_extents(entry.log.extents());
    let copied = LogHead {
        offset: 0,
        chunks: copy.chunks,
        ..entry.log.clone()
    };
    Ok((copied, entries))
}

/// A log that is being copied.
struct Copy<'a> {
    commit: &'a Commit<'a>,
    chunks: Vec<Addr>,
    /// In the last chunk.
    offset: u32,
    /// Bytes of entries that are still to come.
    left: u64,
}

impl Copy<'_> {
    fn append(&mut self, entry: &[u8]) -> Result<()> {
        let store = &self.commit.shared.disk.store;
        let len = entry.len() as u32;
        let room = |chunk: &Addr| capacity(chunk, store.shape(chunk.segment().group()));
        if self
            .chunks
            .last()
            .is_none_or(|chunk| room(chunk) - self.offset < len)
        {
            let chunk = self.new_chunk(len)?;
            self.chunks.push(chunk);
            self.offset = 0;
        }
        let chunk = self.chunks.last().expect("one that has room");
        let cell = store.shape(chunk.segment().group()).cell();
        let units: Vec<&[u8]> = entry.chunks(UNIT as usize).collect();
        store.write_each(chunk.segment(), chunk.offset() + self.offset * cell, &units)?;
        self.offset += len;
        self.left = self.left.saturating_sub(len.into());
        Ok(())
    }

    /// A chunk with room for `len` bytes at least, and for all that is left if there is such a run.
    fn new_chunk(&self, len: u32) -> Result<Addr> {
        let shared = self.commit.shared;
        let store = &shared.disk.store;
        let largest = u64::from(store.segment_size());
        let cell = u64::from(shared.space.largest_cell());
        let mut size = (self.left * cell).clamp(len.into(), largest) as u32;
        size = size.next_multiple_of(UNIT);
        while self.chunks.len() < CHUNKS_MAX {
            match allocate_chunk(shared, size / UNIT) {
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

fn allocate_chunk(shared: &Shared, units: u32) -> Result<Extent> {
    if let Some(found) = shared.space.allocate_log(units)? {
        return Ok(found);
    }
    let bytes = u64::from(units) * u64::from(UNIT);
    let _room = shared.space.reserve(bytes, ReserveFor::Writing)?;
    shared.space.allocate(Class::Data, units, None)
}

/// A group that is for logs, of which no more is used until this is dropped.
pub(crate) struct Barred<'a> {
    shared: &'a Shared,
    group: u16,
}

impl<'a> Barred<'a> {
    pub(crate) fn new(shared: &'a Shared, group: u16) -> Barred<'a> {
        shared.space.bar(group, true);
        Barred { shared, group }
    }
}

impl Drop for Barred<'_> {
    fn drop(&mut self) {
        let is_there = self.shared.state.read().config.purpose(self.group) == Purpose::Logs;
        if is_there {
            self.shared.space.bar(self.group, false);
        }
    }
}
