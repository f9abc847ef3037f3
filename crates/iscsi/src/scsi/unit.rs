//! A logical unit: a device with its limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use block::{BlockDevice, SectorSizes};
use parking_lot::RwLock;

use super::cdb::{Blocks, Compared, Operation};
use super::sense::Sense;

/// One command reads or writes at most so many bytes.
pub(crate) const TRANSFER_MAX: u64 = 1 << 20;
/// One command unmaps or fills at most so many bytes.
pub(super) const RANGE_MAX: u64 = 512 << 20;
/// WRITE SAME takes so many blocks: the most that its short form can say.
pub(super) const SAME_MAX: u64 = 0xffff;
/// UNMAP takes so many ranges.
pub(super) const RANGES_MAX: usize = 256;
/// COMPARE AND WRITE takes so many blocks.
pub(super) const COMPARED_MAX: u64 = 128;

/// What a unit is called.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its name in the log.
    pub(crate) name: String,
    /// A number that no other unit has, and that stays when the target gets another name.
    pub(crate) number: u64,
    /// The number as text.
    pub(crate) serial: String,
}

/// Through what a command came to a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port<'a> {
    /// The name of the target.
    pub(crate) target: &'a str,
    /// The numbers that the initiator sees there.
    pub(crate) luns: &'a [u16],
    /// Whether the initiator cannot change the unit.
    pub(crate) is_read_only: bool,
}

/// A device with an identity.
pub(crate) struct Unit {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) identity: Identity,
    pub(crate) is_read_only: bool,
    sectors: SectorSizes,
    /// Held for writing by what reads and then writes as one.
    pub(super) atomic: RwLock<()>,
    /// How often it was reset.
    resets: AtomicU64,
    /// Dropped after the device.
    _end: Sender<Infallible>,
}

/// What a command answers besides its status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    Data(Vec<u8>),
    /// So many bytes of the device from this offset.
    Read(u64, u64),
}

impl Unit {
    /// A unit, and what tells that nothing uses it any more, by being disconnected.
    pub(crate) fn new(
        device: Arc<dyn BlockDevice>,
        identity: Identity,
        is_read_only: bool,
    ) -> (Unit, Receiver<Infallible>) {
        let sectors = device.sector_sizes();
        let (end, ended) = channel();
        let unit = Unit {
            device,
            identity,
            is_read_only,
            sectors,
            atomic: RwLock::new(()),
            resets: AtomicU64::new(0),
            _end: end,
        };
        (unit, ended)
    }

    /// Has all sessions forget their tasks for it.
    pub(crate) fn reset(&self) {
        self.resets.fetch_add(1, Relaxed);
    }

    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(Relaxed)
    }

    /// The size of a block, in bytes.
    pub(crate) fn block(&self) -> u32 {
        self.sectors.logical
    }

    /// How many there are.
    pub(crate) fn blocks(&self) -> u64 {
        self.device.size() / u64::from(self.block())
    }

    /// Blocks in a physical one.
    pub(super) fn physical_blocks(&self) -> u64 {
        u64::from((self.sectors.physical / self.block()).max(1))
    }

    /// Refuses what cannot be meant, and says how many bytes the initiator has to send.
    pub(crate) fn check(&self, operation: &Operation, port: &Port<'_>) -> Result<usize, Sense> {
        use Operation as O;
        let block = u64::from(self.block());
        let (blocks, most) = match *operation {
            O::Read { blocks } | O::Write { blocks, .. } => (blocks, TRANSFER_MAX / block),
            O::Verify {
                blocks,
                compared: Compared::All,
            } => (blocks, TRANSFER_MAX / block),
            O::Verify { blocks, .. } => (blocks, RANGE_MAX / block),
            O::Flush { blocks } => (blocks, u64::MAX),
            O::WriteSame { blocks, .. } => (blocks, SAME_MAX),
            O::CompareAndWrite { blocks, .. } => (blocks, COMPARED_MAX),
            _ => (Blocks { first: 0, count: 0 }, 0),
        };
        let end = blocks.first.checked_add(blocks.count);
        if end.is_none_or(|end| end > self.blocks()) {
            return Err(Sense::OUT_OF_RANGE);
        }
        if blocks.count > most {
            return Err(Sense::FIELD_IN_CDB);
        }
        let len = (blocks.count * block) as usize;
        let changes = matches!(
            operation,
            O::Write { .. } | O::Unmap { .. } | O::WriteSame { .. } | O::CompareAndWrite { .. }
        );
        if changes && (self.is_read_only || port.is_read_only) {
            return Err(Sense::PROTECTED);
        }
        Ok(match *operation {
            O::Write { .. } => len,
            O::Verify { compared, .. } => match compared {
                Compared::Nothing => 0,
                Compared::All => len,
                Compared::One => block as usize,
            },
            O::WriteSame { blocks, .. } if blocks.count == 0 => return Err(Sense::FIELD_IN_CDB),
            O::WriteSame { zeros, .. } if !zeros => block as usize,
            O::CompareAndWrite { .. } => 2 * len,
            O::Unmap { len } | O::ModeSelect { len, .. } => len,
            _ => 0,
        })
    }

    /// Reads a part of what [`Answer::Read`] says.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Sense> {
        let _shared = self.atomic.read();
        let read = self.device.read_at(offset, out);
        read.map_err(|error| self.failed(&error, false))
    }

    /// What a failure of the device is for an initiator. The log has more.
    pub(super) fn failed(&self, error: &block::Error, is_write: bool) -> Sense {
        tracing::warn!(unit = self.identity.name, %error, "a command failed");
        Sense::of(error, is_write)
    }
}
