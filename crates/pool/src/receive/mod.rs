//! Receiving a stream: without any key, unless it is in the clear and someone seals what comes.
//!
//! What comes is put into a dataset that nobody sees, a new one or a clone of the snapshot that the stream
//! goes on from, as it is: sealed. When all of it is there its roots must be what the stream said at the
//! beginning; then one commit makes it a snapshot. What is interrupted before is thrown away, or kept to
//! go on later; how far it came is in the arrays themselves, since records come in their order.

mod allowance;
mod finish;
mod partial;
mod plan;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::layout::Identity;
use crate::lifecycle::Origin;
use crate::open::{ArrayKind, OpenDataset, Placed, SealInput};
use crate::pool::Pool;
use crate::space::{Reservation, ReserveFor};
use crate::stream::{Begin, Frame, FrameReader};

pub(crate) use partial::discard_broken;

use allowance::Allowance;

/// So many slots are changed before a commit makes them durable, and their memory is free again.
const CHANGES_MAX: usize = 32 << 10;

/// Where a stream goes.
pub struct ReceiveInto<'a> {
    /// A dataset, or `dataset@snapshot` to give the snapshot another name.
    pub target: &'a str,
    /// Take the dataset back to the snapshot that the stream goes on from, if it went on since.
    pub force: bool,
    /// Keep what came, if it is interrupted.
    pub resumable: bool,
    /// The dataset is open until [`Reception::finish`] closes it. What was changed in it by then counts.
    pub is_open: bool,
}

/// What whoever knows keys and properties has to say to a stream.
pub trait Reception {
    /// The keyring that the dataset is to have, of what the stream brings and what is there; `None` if it
    /// keeps what it has. Refuses what would leave keys that nobody can unwrap.
    fn keyring(
        &self,
        begin: &Begin,
        current: Option<&[u8]>,
    ) -> std::result::Result<Option<Vec<u8>>, String>;

    /// What seals the records of a stream in the clear: for the dataset that it adds to, or for a new one of
    /// this `family`, whose keys are made in `txg`.
    fn sealing(
        &self,
        _begin: &Begin,
        _family: u64,
        _txg: u64,
    ) -> std::result::Result<Sealing, String> {
        Err("nobody is here to seal a stream in the clear".into())
    }

    /// The properties of a new dataset.
    fn props(&self, begin: &Begin) -> std::result::Result<BTreeMap<String, String>, String>;

    /// Whether a new dataset may be a clone of this snapshot, which another dataset has: a stream goes on from it.
    fn may_clone(&self, _base: &Entry) -> bool {
        true
    }

    /// Calls `finish`, which may replace a keyring, when nobody else does that.
    fn finish(&self, finish: &mut dyn FnMut() -> Result<String>) -> Result<String> {
        finish()
    }

    /// A snapshot has been received.
    fn received(&self, name: &str);
}

/// How a dataset seals what comes in the clear.
pub struct Sealing {
    /// Seals its records, and the whole.
    pub records: Box<dyn SealRecords>,
    /// The suite of its records, 0 if they stay clear.
    pub suite: u8,
    /// The keyring of a new dataset.
    pub keyring: Option<Vec<u8>>,
    /// Whether that has slots of its own.
    pub is_key_root: bool,
}

/// Seals records that come in the clear.
pub trait SealRecords {
    /// Compresses and seals a record, which is whole units.
    fn seal(&self, array: ArrayKind, plain: &[u8]) -> std::result::Result<SealedRecord, String>;

    /// The seal over a dataset.
    fn dataset_seal(&self, input: &SealInput) -> [u8; 32];
}

/// A record as it is stored.
pub struct SealedRecord {
    /// What its pointer says.
    pub identity: Identity,
    /// Whole units.
    pub bytes: Vec<u8>,
    /// Equal records have equal nonces: it may be shared.
    pub may_be_shared: bool,
}

impl Pool {
    /// Receives what comes: one stream, or several that go on from each other.
    pub fn receive(
        &self,
        input: &mut dyn Read,
        into: &ReceiveInto<'_>,
        reception: &dyn Reception,
        origin: &Origin,
    ) -> Result<()> {
        let mut frames = FrameReader::new(input);
        let mut count = 0;
        while let Some(frame) = frames.next()? {
            let Frame::Begin(begin) = frame else {
                return Err(Error::stream("does not begin"));
            };
            let name = self.receive_one(&begin, &mut frames, into, reception, origin)?;
            reception.received(&name);
            count += 1;
        }
        match count {
            0 => Err(Error::stream("is empty")),
            _ => Ok(()),
        }
    }

    fn receive_one(
        &self,
        begin: &Begin,
        frames: &mut FrameReader<'_>,
        into: &ReceiveInto<'_>,
        reception: &dyn Reception,
        origin: &Origin,
    ) -> Result<String> {
        if begin.plain.is_some() && into.resumable {
            return Err(Error::refused(
                into.target,
                "what comes in the clear cannot go on after an interruption; receive it without -s",
            ));
        }
        let (dataset, is_resumable) = self.begin_receive(begin, into, reception)?;
        let id = dataset.id();
        let sealing = self.sealing(id, begin, into, reception);
        let done = sealing.and_then(|sealing| {
            let sealing = sealing.as_ref();
            let mut allowance = Allowance::new(self, id, begin, into, reception)?;
            self.fill(&dataset, frames, sealing, &mut allowance)?;
            reception
                .finish(&mut || self.finish_receive(id, begin, into, reception, sealing, origin))
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
        reception: &dyn Reception,
    ) -> Result<Option<Sealing>> {
        if begin.plain.is_none() {
            return Ok(None);
        }
        let partial = self.entry(id)?;
        let sealing = reception.sealing(begin, partial.family, partial.created_txg);
        let sealing = sealing.map_err(|reason| Error::refused(into.target, reason))?;
        match self.entry(partial.origin) {
            Ok(base) if base.suite != sealing.suite => Err(Error::refused(
                into.target,
                format!(
                    "it shares records with {}, and so is encrypted as that or not at all; receive it below a \
                     dataset that is, or with -o encryption=off",
                    self.name_of(base.id)?
                ),
            )),
            _ => Ok(Some(sealing)),
        }
    }

    /// Puts what comes into a dataset.
    fn fill(
        &self,
        dataset: &OpenDataset,
        frames: &mut FrameReader<'_>,
        sealing: Option<&Sealing>,
        allowance: &mut Option<Allowance>,
    ) -> Result<()> {
        let mut changes = 0;
        loop {
            match frames.next()? {
                Some(Frame::End) => return Ok(()),
                Some(Frame::Record {
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
                Some(Frame::Plain { array, slot }) => {
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
                Some(Frame::Empty { array, slot, count }) => {
                    self.empty_received(dataset, array, slot, count, &mut changes)?;
                }
                Some(Frame::Begin(_)) | None => return Err(Error::stream("ends too early")),
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
        place: &mut dyn FnMut() -> Result<Placed>,
    ) -> Result<()> {
        let room = dataset.record_room(array, len);
        let _room = self.room_to_receive(dataset, room, ReserveFor::Writing)?;
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
            let room = dataset.punch_room(array, &[found]);
            let room = self.room_to_receive(dataset, room, ReserveFor::Freeing)?;
            let hold = self.enter()?;
            dataset.punch(&hold, array, found);
            drop((hold, room));
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

    /// Sets room aside. A commit may give back some.
    fn room_to_receive(
        &self,
        dataset: &OpenDataset,
        bytes: u64,
        why: ReserveFor,
    ) -> Result<Reservation> {
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
            room => room,
        }
    }

    /// After a failure: keeps what came, or throws it away.
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

/// Whether it makes no sense to go on after this.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Stream { reason } if reason == finish::NOT_WHAT_WAS_SAID)
}
