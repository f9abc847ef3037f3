//! A logical unit: a device with its limits.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use block::{BlockDevice, SectorSizes};
use meter::LogCount;
use parking_lot::{Mutex, RwLock};

use super::cdb::{BlockRange, Request, ScsiCommand, VerifySource};
use super::reservation::{LIST_LEN, Need, Reservations};
use super::seat::NexusState;
use super::sense::Sense;
use super::shortage::{EXPONENT, PART, Shortage};
use super::table::Right;

/// The largest number of bytes that one command reads or writes.
pub(crate) const TRANSFER_MAX: u64 = 1 << 20;
/// The largest number of bytes that one command unmaps or fills.
pub(super) const RANGE_MAX: u64 = 512 << 20;
/// WRITE SAME takes so many blocks: the most that its short form can say.
pub(super) const SAME_MAX: u64 = 0xffff;
/// UNMAP takes so many ranges.
pub(super) const RANGES_MAX: usize = 256;
/// COMPARE AND WRITE takes so many blocks.
pub(super) const COMPARED_MAX: u64 = 128;

/// The names and numbers of a unit.
#[derive(Clone, Debug)]
pub(crate) struct UnitIdentity {
    /// The name of the unit in the log.
    pub(crate) name: String,
    /// A serial number that no other unit has, and that stays when the target gets another name.
    pub(crate) serial: String,
    /// The same as a NAA designator.
    pub(crate) naa: Vec<u8>,
    /// The size of a block, in bytes.
    pub(crate) block: u32,
}

/// Through what a command came to a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port<'a> {
    /// The name of the target.
    pub(crate) target: &'a str,
    /// The numbers that the initiator sees there.
    pub(crate) luns: &'a [u16],
    /// True if the initiator cannot change the unit.
    pub(crate) is_read_only: bool,
}

impl Port<'_> {
    /// Refuses a command that needs a right which the view does not give.
    ///
    /// # Errors
    /// [`Sense::PROTECTED`]
    pub(crate) fn authorize(&self, request: &Request) -> Result<(), Sense> {
        match request.right {
            Right::Change if self.is_read_only => Err(Sense::PROTECTED),
            Right::Change | Right::Read => Ok(()),
        }
    }
}

/// Keeps what a unit has beside its blocks.
pub trait ReservationStore: Debug + Send + Sync {
    /// The reservations that were saved last; none if there are none.
    ///
    /// # Errors
    /// If they cannot be read.
    fn load(&self) -> io::Result<Option<String>>;

    /// Saves reservations in place of the last ones, or that there are none. They are durable when this returns.
    ///
    /// # Errors
    /// If they are not saved. Then the last ones are still there.
    fn save(&self, text: Option<&str>) -> io::Result<()>;

    /// Returns the bytes that can still be stored where the device has holes. None if that is not known.
    fn room(&self) -> Option<u64>;

    /// Returns whether an answered change may be in caches until the next flush.
    fn has_write_cache(&self) -> bool;

    /// Returns whether an initiator has to be told now that answered changes may be lost.
    fn tell_of_loss(&self, initiator: &str) -> bool;
}

/// A device with an identity.
pub(crate) struct ScsiUnit {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) identity: UnitIdentity,
    pub(crate) is_read_only: bool,
    sectors: SectorSizes,
    /// The reservations. Changes of blocks hold the lock for reading. Changes of reservations, and commands that read
    /// and write as one, hold it for writing. So a change of reservations waits for commands that it would refuse.
    pub(super) held: RwLock<Reservations>,
    /// The same, which nothing holds for long: not even a command on a device that does not answer.
    pub(super) shown: RwLock<Arc<Reservations>>,
    /// The storage of persistent reservations.
    pub(super) keeper: Option<Arc<dyn ReservationStore>>,
    pub(super) shortage: Shortage,
    /// True if an initiator turned the write cache off.
    writes_through: AtomicBool,
    pub(super) failures: LogCount,
    /// The initiators that use it.
    pub(super) seats: Mutex<Vec<Arc<NexusState>>>,
    /// Dropped after the device.
    _end: Sender<Infallible>,
}

/// The data of a command, besides its status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandData {
    Nothing,
    /// A change is done, and has to be settled before that is said.
    Changed,
    Data(Vec<u8>),
    /// A range of the device: offset and length in bytes.
    Read(u64, u64),
}

impl ScsiUnit {
    /// Returns the space that can still be stored, in the unit of thresholds. None if that is not known.
    pub(super) fn available(&self) -> Option<u32> {
        let room = self.keeper.as_ref()?.room()?;
        Some(self.counted(room))
    }

    /// Below what space is short.
    pub(super) fn threshold(&self) -> u32 {
        self.counted(self.device.size() / PART)
    }

    fn counted(&self, bytes: u64) -> u32 {
        let count = (bytes / u64::from(self.block())) >> EXPONENT;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Tells all initiators once that space has become short, after so many bytes were written.
    pub(super) fn look_for_shortage(&self, len: u64) {
        let space = || Some((self.available()?, self.threshold()));
        if self.shortage.begins(len, space) {
            tracing::warn!(
                unit = self.identity.name,
                "the space for the unit runs short: initiators are told"
            );
            let seats = self.seats.lock();
            seats.iter().for_each(|seat| seat.tell(Sense::SHORT));
        }
    }

    /// A unit, and what tells that nothing uses it any more, by being disconnected.
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        identity: UnitIdentity,
        is_read_only: bool,
        keeper: Option<Arc<dyn ReservationStore>>,
        reservations: Reservations,
    ) -> (ScsiUnit, Receiver<Infallible>) {
        let sectors = SectorSizes {
            logical: identity.block,
            ..device.sector_sizes()
        };
        let (end, ended) = channel();
        let unit = ScsiUnit {
            device,
            identity,
            is_read_only,
            sectors,
            shown: RwLock::new(Arc::new(reservations.clone())),
            held: RwLock::new(reservations),
            keeper,
            shortage: Shortage::default(),
            writes_through: AtomicBool::new(false),
            failures: LogCount::default(),
            seats: Mutex::default(),
            _end: end,
        };
        (unit, ended)
    }

    /// The size of a block, in bytes.
    pub(crate) fn block(&self) -> u32 {
        self.sectors.logical
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.device.size() / u64::from(self.block())
    }

    /// Blocks in a physical one.
    pub(super) fn physical_blocks(&self) -> u64 {
        u64::from((self.sectors.physical / self.block()).max(1))
    }

    /// Refuses what cannot be meant, and says how many bytes the initiator has to send.
    pub(crate) fn check(&self, operation: &ScsiCommand) -> Result<usize, Sense> {
        use ScsiCommand as O;
        let block = u64::from(self.block());
        let (blocks, most) = match *operation {
            O::Read { blocks }
            | O::Write { blocks, .. }
            | O::OrWrite { blocks, .. }
            | O::WriteAndVerify { blocks, .. } => (blocks, TRANSFER_MAX / block),
            O::Verify {
                blocks,
                compared: VerifySource::All,
            } => (blocks, TRANSFER_MAX / block),
            O::Verify { blocks, .. } => (blocks, RANGE_MAX / block),
            O::Flush { blocks } | O::PreFetch { blocks } => (blocks, u64::MAX),
            O::WriteSame { blocks, .. } => (blocks, SAME_MAX),
            O::CompareAndWrite { blocks, .. } => (blocks, COMPARED_MAX),
            _ => (BlockRange { first: 0, count: 0 }, 0),
        };
        let end = blocks.first.checked_add(blocks.count);
        if end.is_none_or(|end| end > self.blocks()) {
            return Err(Sense::OUT_OF_RANGE);
        }
        if blocks.count > most {
            return Err(Sense::FIELD_IN_CDB);
        }
        let len = (blocks.count * block) as usize;
        if changes_blocks(operation) && self.is_read_only {
            return Err(Sense::PROTECTED);
        }
        Ok(match *operation {
            O::Write { .. } | O::OrWrite { .. } | O::WriteAndVerify { .. } => len,
            O::Reserve { len, .. } if len != LIST_LEN => return Err(Sense::LIST_LENGTH),
            O::Reserve { len, .. } => len,
            O::Verify { compared, .. } => match compared {
                VerifySource::Nothing => 0,
                VerifySource::All => len,
                VerifySource::One => block as usize,
            },
            O::WriteSame { blocks, .. } if blocks.count == 0 => return Err(Sense::FIELD_IN_CDB),
            O::WriteSame { zeros, .. } if !zeros => block as usize,
            O::CompareAndWrite { .. } => 2 * len,
            O::Unmap { len } | O::ModeSelect { len, .. } => len,
            _ => 0,
        })
    }

    /// Reads whole blocks.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Sense> {
        let _shared = self.held.read();
        self.read_alone(offset, out)
    }

    /// Reads where [`ScsiUnit::held`] is locked already.
    pub(super) fn read_alone(&self, offset: u64, out: &mut [u8]) -> Result<(), Sense> {
        let read = self.device.read_at(offset, out);
        read.map_err(|error| self.failed(&error, false))
    }

    /// Makes all changes outlive this process, and durable if the write cache is off.
    pub(crate) fn settle(&self) -> Result<(), Sense> {
        // A device without a cache flushes when it settles.
        let settled = match self.writes_through.load(SeqCst) {
            false => self.device.settle(),
            true => self.device.flush(),
        };
        settled.map_err(|error| self.failed(&error, true))
    }

    /// Makes everything durable. The first flush of an initiator after a loss fails: it would vouch for what is gone.
    pub(super) fn flush(&self, seat: &NexusState) -> Result<(), Sense> {
        let flushed = self.device.flush();
        flushed.map_err(|error| self.failed(&error, true))?;
        // Some initiators give each session another number.
        let initiator = &seat.nexus.initiator;
        let keeper = self.keeper.as_ref();
        if keeper.is_some_and(|keeper| keeper.tell_of_loss(initiator)) {
            let unit = &self.identity.name;
            tracing::warn!(
                unit,
                initiator,
                "a flush fails: changes from before may be lost"
            );
            return Err(Sense::UNWRITABLE);
        }
        Ok(())
    }

    /// Returns whether an answered change may be in caches until the next flush.
    pub(super) fn has_write_cache(&self) -> bool {
        !self.writes_through.load(SeqCst) && self.may_have_write_cache()
    }

    fn may_have_write_cache(&self) -> bool {
        self.keeper.as_ref().is_none_or(|it| it.has_write_cache())
    }

    /// Turns the write cache on or off, for all initiators. The others are told.
    pub(super) fn set_write_cache(&self, seat: &NexusState, is_on: bool) -> Result<(), Sense> {
        if is_on && !self.may_have_write_cache() {
            return Err(Sense::FIELD_IN_LIST);
        }
        if self.writes_through.swap(!is_on, SeqCst) == is_on {
            let seats = self.seats.lock();
            let others = seats.iter().filter(|other| other.nexus != seat.nexus);
            others.for_each(|other| other.tell(Sense::MODE));
        }
        match is_on {
            true => Ok(()),
            false => self.flush(seat),
        }
    }

    /// Returns the sense for a failure of the device. The log has more.
    pub(super) fn failed(&self, error: &block::Error, is_write: bool) -> Sense {
        if let Some(failures) = self.failures.next_line() {
            tracing::warn!(unit = self.identity.name, %error, failures, "a command failed");
        }
        Sense::of(error, is_write)
    }
}

/// Returns whether the command writes to the device.
fn changes_blocks(operation: &ScsiCommand) -> bool {
    use ScsiCommand as O;
    matches!(
        operation,
        O::Write { .. }
            | O::OrWrite { .. }
            | O::WriteAndVerify { .. }
            | O::Unmap { .. }
            | O::WriteSame { .. }
            | O::CompareAndWrite { .. }
    )
}

/// Returns the right that a command needs under reservations (SPC-4, table 66; SBC-3, table 13).
pub(super) fn need(operation: &ScsiCommand) -> Need {
    use ScsiCommand as O;
    match operation {
        O::Inquiry { .. }
        | O::ReportLuns { .. }
        | O::RequestSense { .. }
        | O::LogSense { .. }
        // These look themselves.
        | O::Simply { .. }
        | O::Reserve { .. } => Need::Nothing,
        O::TestUnitReady
        | O::ReadCapacity10
        | O::ReadCapacity16
        | O::AskReservations { .. }
        | O::StartStop { start: true } => Need::Presence,
        O::Read { .. }
        | O::Verify { .. }
        | O::PreFetch { .. }
        | O::LbaStatus { .. }
        | O::ModeSense { .. }
        | O::Opcodes { .. }
        | O::TaskFunctions { .. } => Need::Read,
        O::StartStop { start: false }
        | O::ModeSelect { .. }
        | O::Flush { .. }
        | O::Write { .. }
        | O::OrWrite { .. }
        | O::WriteAndVerify { .. }
        | O::Unmap { .. }
        | O::WriteSame { .. }
        | O::CompareAndWrite { .. } => Need::Write,
    }
}
