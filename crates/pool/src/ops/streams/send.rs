//! Sends a snapshot: the records that are new in it, as they are stored and without any key, or in the clear.
//!
//! The trees show the new records: subtrees that two snapshots share are not visited. Several threads read and verify
//! records ahead of the thread that writes them in order. With no such threads, the writing thread does it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::gate::CommitEngine;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::past_seal::PAST;
use crate::format::datasets::seal_input::SealInput;
use crate::format::datasets::sealed_facts::FACTS;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::{RecordIdentity, RecordPtr};
use crate::format::stream::{Begin, FRAME_HEAD, FrameWriter, ResumeToken, Sender, StreamPosition};
use crate::format::superblock::features::FEATURE_CHECKED_RECORDS;
use crate::ops::pool::Pool;
use crate::ops::snapshots::bookmarks::{self, NamedBookmark};
use crate::storage::array::diff::{SlotDifference, diff};
use crate::storage::array::since::since;

/// The most records that are read ahead.
const AHEAD: usize = 32;

/// The request to send a stream.
pub struct SendOf {
    /// The snapshot.
    pub to: u64,
    /// The snapshot that the receiver has, if any.
    pub from: Option<u64>,
    /// The start: the receiver has everything before it.
    pub start: StreamPosition,
    /// Wrapped keys for the receiver, with slots; empty if the records are clear.
    pub keyring: Vec<u8>,
    /// The transaction group up to which the receiver needs generations of keys: [`Entry::keys_txg`] of the snapshot,
    /// or that of a later generation which is sent too.
    pub keys_txg: u64,
    /// Properties for the receiver.
    pub props: BTreeMap<String, String>,
    /// Opens the records, to send their content.
    pub open: Option<Box<dyn OpenRecords>>,
    /// The threads that read records ahead of the caller, which writes. With 0 the caller reads each record itself: one
    /// thread then reads the devices, in one order.
    pub readers: usize,
}

/// Opens the records of a snapshot, for a stream in the clear.
pub trait OpenRecords: Send + Sync {
    /// The plaintext of a record, in whole units; `None` if these bytes were not sealed as this record.
    fn open(&self, array: ArrayKind, ptr: &RecordPtr, sealed: &[u8]) -> Option<Vec<u8>>;
}

/// A snapshot that is being sent. It cannot be destroyed meanwhile.
pub struct OutgoingStream {
    engine: Arc<CommitEngine>,
    begin: Begin,
    older: Older,
    newer: [RecordPtr; 2],
    opener: Option<Box<dyn OpenRecords>>,
    readers: usize,
    _open: Vec<Arc<OpenDataset>>,
}

/// The state that a stream starts from.
enum Older {
    /// A state that exists, with these roots.
    Roots([RecordPtr; 2]),
    /// A state that existed in this transaction group, with roots of these identities.
    Gone(u64, [RecordIdentity; 2]),
}

impl Pool {
    /// Prepares to send.
    ///
    /// # Errors
    /// As [`Pool::open_dataset`]; [`Error::Refused`] if `to` is not a snapshot, or `from`
    /// is not an earlier one of the same line.
    pub fn send(&self, what: SendOf) -> Result<OutgoingStream> {
        self.send_since(what, None)
    }

    /// Does the same as [`Pool::send`]. If there is a bookmark, the stream starts from it, and `what.from` is ignored.
    ///
    /// # Errors
    /// As [`Pool::send`]; [`Error::Refused`] if the bookmark is not of an earlier state of `to`, or if records would be
    /// sent in the clear that are sealed: whether all that is new is sent follows from births, which no seal is over.
    pub fn send_since(
        &self,
        what: SendOf,
        marked: Option<&NamedBookmark>,
    ) -> Result<OutgoingStream> {
        let mut open = vec![self.open_dataset(what.to)?];
        let to = self.entry(what.to)?;
        let from = what.from.filter(|_| marked.is_none());
        let from = from.map(|from| self.checked_from(&to, from));
        let from = from.transpose()?;
        if let Some(from) = &from {
            open.push(self.open_dataset(from.id)?);
        }
        if !to.is_snapshot() {
            let name = self.name_of(to.id)?;
            return Err(Error::refused(name, "it is not a snapshot"));
        }
        if let Some(marked) = marked {
            bookmarks::check_before(&self.engine.state.read(), marked, &to)?;
            if what.open.is_some() && to.suite != 0 {
                return Err(Error::refused(
                    marked.name.as_str(),
                    "an encrypted dataset is sent from a bookmark only as it is sealed; send it with -w, or from a \
                     snapshot",
                ));
            }
        }
        let mark = marked.map(|marked| &marked.bookmark);
        let owner = self.entry(to.parent)?;
        let seal = SealInput::of(&to, owner.guid);
        let older = match (mark, &from) {
            (Some(mark), _) => Older::Gone(mark.created_txg, mark.roots),
            (None, Some(from)) => Older::Roots(from.roots),
            (None, None) => Older::Roots([RecordPtr::EMPTY; 2]),
        };
        let (from_guid, from_lineage) = match (mark, &from) {
            (Some(mark), _) => (mark.guid, mark.lineage),
            (None, Some(from)) => (from.guid, from.lineage()),
            (None, None) => (0, [0; 32]),
        };
        let begin = Begin {
            sender: Sender {
                pool_guid: self.guid(),
                name: self.name_of(to.id)?,
                referenced: to.referenced,
            },
            to_guid: to.guid,
            from_guid,
            from_roots: match &older {
                Older::Roots(roots) => roots.map(|root| root.identity),
                Older::Gone(_, identities) => *identities,
            },
            start: what.start,
            family: to.family,
            suite: to.suite,
            plain: None,
            is_checked: self.has_checked_records() || seal.log_states != [[0; 16]; 2],
            volume: to.volume(),
            created: to.created,
            keys_txg: what.keys_txg,
            needed_txg: to.keys_txg().min(what.keys_txg),
            sealed_guid: seal.guid,
            sequence: seal.sequence,
            seal: to.seal,
            log: seal.log,
            log_states: seal.log_states,
            roots: seal.roots,
            props: match what.open {
                None => with_sealed_marks(what.props, &to),
                Some(_) => what.props,
            },
            keyring: what.keyring,
        };
        let begin = match &what.open {
            None => begin,
            Some(_) => begin.in_the_clear([from_lineage, to.lineage()]),
        };
        Ok(OutgoingStream {
            engine: Arc::clone(&self.engine),
            begin,
            older,
            newer: to.roots,
            opener: what.open,
            readers: what.readers,
            _open: open,
        })
    }

    /// Returns whether records in snapshots may have the hash of their ciphertext in their identity.
    fn has_checked_records(&self) -> bool {
        let state = self.engine.state.read();
        state.root.features_required.get() & FEATURE_CHECKED_RECORDS != 0
    }

    /// The snapshot that a stream is to begin at, if it is an earlier one of the same line.
    pub(super) fn checked_from(&self, to: &Entry, from: u64) -> Result<Arc<Entry>> {
        let state = self.engine.state.read();
        let from = Arc::clone(state.entry(from)?);
        match state.line(to).iter().any(|entry| entry.id == from.id) {
            true => Ok(from),
            false => Err(Error::refused(
                state.name_of(&from),
                format!("it is not an earlier snapshot of {}", state.name_of(to)),
            )),
        }
    }

    /// The snapshots in a token, if this pool has them: the one that is sent, and the one that the stream starts from.
    pub fn snapshots_of(&self, token: &ResumeToken) -> Option<(u64, Option<u64>)> {
        let state = self.engine.state.read();
        let named = state.find(&token.name).ok().into_iter();
        let mut all = named.chain(state.all());
        all.find_map(|to| {
            if !to.is_snapshot() || to.guid != token.to_guid {
                return None;
            }
            match token.from_guid {
                0 => Some((to.id, None)),
                guid => {
                    let line = state.line(to);
                    let from = line.iter().find(|from| from.guid == guid)?;
                    Some((to.id, Some(from.id)))
                }
            }
        })
    }

    /// Does the same as [`Pool::snapshots_of`], for a stream that starts from a bookmark.
    pub fn bookmark_of(&self, token: &ResumeToken) -> Option<(u64, NamedBookmark)> {
        let named = self.find(&token.name).ok();
        let is_meant = |to: &Arc<Entry>| to.is_snapshot() && to.guid == token.to_guid;
        let to = named.filter(is_meant).or_else(|| {
            let state = self.engine.state.read();
            state.all().find(|to| is_meant(to)).cloned()
        })?;
        let state = self.engine.state.read();
        let heads = state
            .all()
            .filter(|head| head.family == to.family && !head.is_snapshot());
        let heads: Vec<u64> = heads.map(|head| head.id).collect();
        drop(state);
        let marks = heads
            .into_iter()
            .filter_map(|head| self.bookmarks(head).ok())
            .flatten();
        let mut marks = marks.filter(|marked| marked.bookmark.guid == token.from_guid);
        let state = self.engine.state.read();
        let marked = marks.find(|marked| bookmarks::check_before(&state, marked, &to).is_ok())?;
        Some((to.id, marked))
    }

    /// The snapshots of a line after one and before another, the oldest first.
    pub fn between(&self, from: &Entry, to: &Entry) -> Vec<Arc<Entry>> {
        let state = self.engine.state.read();
        let mut line = state.line(to);
        line.retain(|entry| entry.created_txg > from.created_txg);
        line.reverse();
        line
    }
}

/// The messages from the thread that walks the trees to the thread that writes, in order.
enum SendMessage {
    Record(ReadJob, Receiver<Result<RecordBytes>>),
    Empty(ArrayKind, u64, u64),
    Failed(Error),
}

/// The bytes of a record and their hash.
struct RecordBytes {
    bytes: Vec<u8>,
    hash: [u8; 32],
}

#[derive(Clone, Copy)]
struct ReadJob {
    array: ArrayKind,
    slot: u64,
    ptr: RecordPtr,
}

/// A record to read, and where to send its bytes.
type ReadRequest = (ReadJob, SyncSender<Result<RecordBytes>>);

impl OutgoingStream {
    /// The first frame of the stream.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The bytes that [`OutgoingStream::write`] is going to write. It reads the nodes that differ, and no records.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a node cannot be read.
    pub fn size(&self) -> Result<u64> {
        // The first frame and the last.
        let mut bytes = 2 * FRAME_HEAD + self.begin.encode().len() as u64;
        self.walk(&mut |_, change| {
            let payload = match (change, &self.opener) {
                (SlotDifference::Empty(..), _) => 0,
                (SlotDifference::Record(_, ptr), None) => ptr.place.disk_size(),
                (SlotDifference::Record(_, ptr), Some(_)) => ptr.identity.logical_size(),
            };
            bytes = bytes.saturating_add(FRAME_HEAD + u64::from(payload));
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes the stream.
    ///
    /// # Errors
    /// [`Error::StreamIo`] if `out` fails; [`Error::Damaged`] if
    /// a record or node cannot be read; [`Error::Stream`] if a record cannot be opened.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        let mut frames = FrameWriter::begin(out, &self.begin)?;
        match self.readers {
            0 => self.walk(&mut |array, change| match change {
                SlotDifference::Empty(slot, count) => frames.empty(array, slot, count),
                SlotDifference::Record(slot, ptr) => {
                    let ptr = *ptr;
                    let job = ReadJob { array, slot, ptr };
                    self.write_record(&mut frames, &job, &self.read(&job)?)
                }
            })?,
            _ => self.write_ahead(&mut frames)?,
        }
        frames.end()
    }

    fn write_record(
        &self,
        frames: &mut FrameWriter<'_>,
        job: &ReadJob,
        read: &RecordBytes,
    ) -> Result<()> {
        let ReadJob { array, slot, ptr } = *job;
        let RecordBytes { bytes, hash } = read;
        match &self.opener {
            None => frames.record(array, slot, ptr.identity, bytes, *hash),
            Some(_) => frames.plain(array, slot, bytes, *hash),
        }
    }

    /// Writes the records that other threads find and read.
    fn write_ahead(&self, frames: &mut FrameWriter<'_>) -> Result<()> {
        let (item_sender, items) = sync_channel(AHEAD);
        let (job_sender, jobs) = sync_channel(AHEAD);
        let jobs = Mutex::new(jobs);
        std::thread::scope(|scope| {
            scope.spawn(move || self.find(&item_sender, &job_sender));
            for _ in 0..self.readers {
                scope.spawn(|| self.read_all(&jobs));
            }
            for item in items {
                match item {
                    SendMessage::Failed(error) => return Err(error),
                    SendMessage::Empty(array, slot, count) => frames.empty(array, slot, count)?,
                    SendMessage::Record(job, read) => {
                        let gone =
                            |_| Error::stream("could not be made: a thread that reads is gone");
                        let read = read.recv().map_err(gone)??;
                        self.write_record(frames, &job, &read)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Visits the new records, in order.
    fn walk(
        &self,
        each: &mut dyn FnMut(ArrayKind, SlotDifference<'_>) -> Result<()>,
    ) -> Result<()> {
        for array in ArrayKind::ALL {
            let Some(from) = self.begin.start.slot_in(array) else {
                continue;
            };
            let (disk, at) = (&self.engine.disk, array as usize);
            let newer = &self.newer[at];
            let each = &mut |change: SlotDifference<'_>| each(array, change);
            match &self.older {
                Older::Roots(older) => diff(disk, &older[at], newer, from, each)?,
                Older::Gone(txg, older) => since(disk, &older[at], newer, (from, *txg), each)?,
            }
        }
        Ok(())
    }

    /// Finds the new records, until the writer has ended.
    fn find(&self, items: &SyncSender<SendMessage>, jobs: &SyncSender<ReadRequest>) {
        let found = self.walk(&mut |array, change| {
            let item = match change {
                SlotDifference::Empty(slot, count) => SendMessage::Empty(array, slot, count),
                SlotDifference::Record(slot, ptr) => {
                    let (done, read) = sync_channel(1);
                    let ptr = *ptr;
                    let job = ReadJob { array, slot, ptr };
                    jobs.send((job, done)).map_err(|_| unwanted())?;
                    SendMessage::Record(job, read)
                }
            };
            items.send(item).map_err(|_| unwanted())
        });
        if let Err(error) = found {
            // If the writer has ended, the error is not needed.
            let _ = items.send(SendMessage::Failed(error));
        }
    }

    fn read_all(&self, jobs: &Mutex<Receiver<ReadRequest>>) {
        loop {
            let asked = jobs.lock().recv();
            let Ok((job, done)) = asked else { return };
            let _ = done.send(self.read(&job));
        }
    }

    fn read(&self, job: &ReadJob) -> Result<RecordBytes> {
        match &self.opener {
            None => self.read_sealed(job),
            Some(opener) => self.read_open(job, opener.as_ref()),
        }
    }

    /// Reads a record from any good copy.
    fn read_sealed(&self, ReadJob { slot, ptr, .. }: &ReadJob) -> Result<RecordBytes> {
        let (mut bytes, mut hash) = (Vec::new(), [0; 32]);
        let disk = &self.engine.disk;
        disk.record(ptr, Some(*slot), &mut bytes, &mut |bytes| {
            hash = *blake3::hash(bytes).as_bytes();
            ptr.names_hash(&hash)
        })?;
        Ok(RecordBytes { bytes, hash })
    }

    /// Reads the content of a record from any copy that opens.
    fn read_open(
        &self,
        ReadJob { array, slot, ptr }: &ReadJob,
        opener: &dyn OpenRecords,
    ) -> Result<RecordBytes> {
        let (mut sealed, mut plain) = (Vec::new(), None);
        let disk = &self.engine.disk;
        disk.record(ptr, Some(*slot), &mut sealed, &mut |sealed| {
            plain = opener.open(*array, ptr, sealed);
            plain.is_some()
        })?;
        let bytes = plain.unwrap_or_default();
        let hash = *blake3::hash(&bytes).as_bytes();
        Ok(RecordBytes { bytes, hash })
    }
}

/// Properties, and the marks of the entry that a raw stream needs for its seal.
fn with_sealed_marks(mut props: BTreeMap<String, String>, to: &Entry) -> BTreeMap<String, String> {
    let marks = [(PAST, to.waiting_mark()), (FACTS, to.facts_mark())];
    let marks = marks
        .into_iter()
        .filter_map(|(key, mark)| Some((key.into(), mark?.clone())));
    props.extend(marks);
    props
}

fn unwanted() -> Error {
    Error::stream("is no longer wanted")
}
