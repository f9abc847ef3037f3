//! The streams of one receive: applies their frames to a dataset.

use std::io::Read;
use std::sync::Arc;

use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::placed_record::PlacedRecord;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::Origin;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::format::stream::{Begin, FrameReader, Package, StreamFrame};
use crate::ops::pool::Pool;
use crate::ops::streams::receive::policy::{
    ReceiveInto, ReceivePolicy, SealedRecord, StreamSealer,
};
use crate::storage::space::{ReserveFor, SpaceReservation};

use super::allowance::Allowance;
use super::partial::ReceiveStart;
use super::{finish, keyring_keeper};

/// The changed slots after which a commit makes them durable and frees their memory.
const CHANGES_MAX: usize = 32 << 10;

/// The incoming streams, one after the other.
pub struct IncomingStreams<'a> {
    pub(super) frames: FrameReader<'a>,
    count: usize,
    package: Option<Package>,
}

impl<'a> IncomingStreams<'a> {
    /// The streams in `input`.
    pub fn new(input: &'a mut dyn Read) -> IncomingStreams<'a> {
        IncomingStreams {
            frames: FrameReader::new(input),
            count: 0,
            package: None,
        }
    }

    /// The package before the first stream, after that stream has begun.
    pub fn package(&self) -> Option<&Package> {
        self.package.as_ref()
    }

    /// The first frame of the next stream; `None` after the last stream. A stream must be received or checked before
    /// the next one is read.
    ///
    /// # Errors
    /// [`Error::Stream`] and [`Error::StreamIo`], also if there is no stream at all.
    pub fn next_begin(&mut self) -> Result<Option<Box<Begin>>> {
        match self.frames.next()? {
            Some(StreamFrame::Begin(begin)) => {
                self.count += 1;
                Ok(Some(begin))
            }
            Some(StreamFrame::Package(package)) if self.count == 0 && self.package.is_none() => {
                self.package = Some(*package);
                self.next_begin()
            }
            Some(_) => Err(Error::stream("does not begin")),
            None if self.count == 0 => Err(Error::stream("is empty")),
            None => Ok(None),
        }
    }
}

impl Pool {
    /// Receives the streams for one dataset: one, or several in a sequence.
    ///
    /// # Errors
    /// As [`IncomingStreams::next_begin`] and [`Pool::receive_stream`].
    pub fn receive(
        &self,
        input: &mut dyn Read,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
        origin: &Origin,
    ) -> Result<()> {
        let mut incoming = IncomingStreams::new(input);
        while let Some(begin) = incoming.next_begin()? {
            self.receive_stream(&begin, &mut incoming, into, policy, origin)?;
        }
        Ok(())
    }

    /// Receives the stream that begins with `begin`, the last that `incoming` gave.
    ///
    /// # Errors
    /// [`Error::Stream`] and [`Error::StreamIo`] for the stream;
    /// [`Error::Refused`] if it does not fit the target, or `policy` refuses it;
    /// [`Error::NoSuchDataset`], [`Error::BadName`] and
    /// [`Error::Exists`] for the target; [`Error::Limit`],
    /// [`Error::NoSpace`], [`Error::KeyAreaFull`]; as
    /// [`Pool::commit`].
    pub fn receive_stream(
        &self,
        begin: &Begin,
        incoming: &mut IncomingStreams<'_>,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
        origin: &Origin,
    ) -> Result<()> {
        let name = self.receive_one(begin, &mut incoming.frames, into, policy, origin)?;
        policy.received(&name);
        Ok(())
    }

    fn receive_one(
        &self,
        begin: &Begin,
        frames: &mut FrameReader<'_>,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
        origin: &Origin,
    ) -> Result<String> {
        let ReceiveStart {
            dataset,
            head,
            is_resumable,
        } = self.begin_receive(begin, into, policy)?;
        let id = dataset.id();
        // It seals the received records with each commit, even with the last commit after a failure.
        let mut keeper = None;
        let sealing = self.sealing(id, begin, into, policy);
        let done = sealing.and_then(|sealing| {
            let sealing = sealing.as_ref();
            if let Some(sealing) = sealing.filter(|_| is_resumable) {
                keeper = Some(keyring_keeper::keep(self, &dataset, into, sealing)?);
            }
            let mut allowance = Allowance::new(self, id, begin, into, policy)?;
            self.fill(&dataset, frames, sealing, &mut allowance)?;
            policy.finish(&mut || {
                self.finish_receive((id, head), begin, into, policy, sealing, origin)
            })
        });
        if let Err(error) = &done {
            self.give_up(dataset, is_resumable && !is_final(error));
        }
        done
    }

    fn sealing(
        &self,
        id: u64,
        begin: &Begin,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
    ) -> Result<Option<StreamSealer>> {
        if begin.plain.is_none() {
            return Ok(None);
        }
        let partial = self.entry(id)?;
        let kept = keyring_keeper::keyring(self, &partial)?;
        let (family, txg) = (partial.family, partial.created_txg);
        let sealing = policy.sealing(begin, family, txg, kept.as_deref());
        let sealing = sealing.map_err(|reason| Error::refused(into.target, reason))?;
        if let Ok(base) = self.entry(partial.origin) {
            check_shares(&self.engine.state.read(), &base, into, &sealing)?;
        }
        Ok(Some(sealing))
    }

    /// Stores the incoming records in a dataset.
    fn fill(
        &self,
        dataset: &OpenDataset,
        frames: &mut FrameReader<'_>,
        sealing: Option<&StreamSealer>,
        allowance: &mut Option<Allowance>,
    ) -> Result<()> {
        let mut changes = 0;
        loop {
            match frames.next()? {
                Some(StreamFrame::End) => return Ok(()),
                Some(StreamFrame::Record {
                    array,
                    slot,
                    identity,
                    hash,
                }) => {
                    let len = frames.payload.len();
                    self.put_received(dataset, array, slot, len, &mut || {
                        dataset.place_hashed(array, identity, &frames.payload, hash)
                    })?;
                    self.charge(allowance, array, len)?;
                    changes += 1;
                }
                Some(StreamFrame::Plain { array, slot }) => {
                    let sealing = sealing.ok_or_else(|| Error::stream("is damaged"))?;
                    let sealed = sealing.records.seal(array, &frames.payload);
                    let sealed = sealed.map_err(|reason| Error::Sealing { reason })?;
                    let SealedRecord {
                        identity, bytes, ..
                    } = &sealed;
                    self.put_received(dataset, array, slot, bytes.len(), &mut || match sealed
                        .may_be_shared
                        && array == ArrayKind::Data
                    {
                        true => dataset.place_shared(*identity, bytes),
                        false => dataset.place(array, *identity, bytes),
                    })?;
                    self.charge(allowance, array, bytes.len())?;
                    changes += 1;
                }
                Some(StreamFrame::Empty { array, slot, count }) => {
                    self.empty_received(dataset, array, slot, count, &mut changes)?;
                }
                Some(StreamFrame::Begin(_) | StreamFrame::Package(_)) | None => {
                    return Err(Error::stream("ends too early"));
                }
            }
            self.commit_some(&mut changes)?;
        }
    }

    fn charge(
        &self,
        allowance: &mut Option<Allowance>,
        array: ArrayKind,
        len: usize,
    ) -> Result<()> {
        match allowance {
            Some(allowance) => allowance.charge(self, (len * array.copies()) as u64),
            None => Ok(()),
        }
    }

    fn put_received(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        len: usize,
        place: &mut dyn FnMut() -> Result<PlacedRecord>,
    ) -> Result<()> {
        let bytes = dataset.record_space(array, len);
        let _reserved = self.reserve_to_receive(dataset, bytes, ReserveFor::Writing)?;
        let placed = place()?;
        let hold = self.enter()?;
        dataset.put(&hold, array, slot, placed);
        Ok(())
    }

    fn empty_received(
        &self,
        dataset: &OpenDataset,
        array: ArrayKind,
        slot: u64,
        count: u64,
        changes: &mut usize,
    ) -> Result<()> {
        let mut from = slot;
        while let Some(found) = dataset.next(array, from, slot + count)? {
            let bytes = dataset.punch_space(array, &[found]);
            let reserved = self.reserve_to_receive(dataset, bytes, ReserveFor::Freeing)?;
            let hold = self.enter()?;
            dataset.punch(&hold, array, found);
            drop((hold, reserved));
            from = found + 1;
            *changes += 1;
            self.commit_some(changes)?;
        }
        Ok(())
    }

    fn commit_some(&self, changes: &mut usize) -> Result<()> {
        if *changes >= CHANGES_MAX {
            *changes = 0;
            self.commit()?;
        }
        Ok(())
    }

    /// Reserves space. A commit may give back some.
    fn reserve_to_receive(
        &self,
        dataset: &OpenDataset,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<SpaceReservation> {
        let reserve = || {
            let kept = match why {
                ReserveFor::Writing => self.limits(dataset.id())?.kept,
                ReserveFor::Freeing | ReserveFor::FreeingAlone => 0,
            };
            self.reserve_besides(bytes, why, kept)
        };
        match reserve() {
            Err(Error::NoSpace) => {
                self.commit()?;
                reserve()
            }
            reserved => reserved,
        }
    }

    /// After a failure, keeps the received part or destroys it.
    fn give_up(&self, dataset: Arc<OpenDataset>, keep: bool) {
        let id = dataset.id();
        let kept = match keep {
            true => self.commit(),
            false => Ok(()),
        };
        drop(dataset);
        let thrown = match keep {
            true => Ok(()),
            false => self.discard_partial(id),
        };
        if let Err(error) = kept.and(thrown) {
            tracing::warn!(%error, "what was received in part is thrown away by the next import");
        }
    }
}

/// Refuses a dataset whose own records and shared records would be sealed in two ways.
pub(super) fn check_shares(
    state: &DatasetTable,
    base: &Entry,
    into: &ReceiveInto<'_>,
    sealing: &StreamSealer,
) -> Result<()> {
    match base.suite == sealing.suite {
        true => Ok(()),
        false => Err(Error::refused(
            into.target,
            format!(
                "it shares records with {}, and so is encrypted as that or not at all; receive it below a \
                 dataset that is, or with -o encryption=off",
                state.name_of(base)
            ),
        )),
    }
}

/// Returns whether a receive cannot continue after this error.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Stream { reason } if reason == finish::NOT_WHAT_WAS_SAID)
}
