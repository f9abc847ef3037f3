//! Devices in memory with a power supply in common.
//!
//! What was written and not flushed is kept apart, so that a power cut can keep, lose, reorder and
//! tear it, on each device as if it were as fast or as slow as it likes.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use block::fault::{Survival, survive};
use block::{BlockDevice, Error, Result, SectorSizes};

use crate::common::Dice;

/// The power supply of all devices of a machine.
pub struct Power {
    writes: AtomicU64,
    /// The write at which it fails.
    cut: AtomicU64,
    off: AtomicBool,
}

impl Power {
    pub fn new() -> Arc<Power> {
        Arc::new(Power {
            writes: AtomicU64::new(0),
            cut: AtomicU64::new(u64::MAX),
            off: AtomicBool::new(false),
        })
    }

    /// Fails at the write after so many.
    pub fn cut_after(&self, writes: u64) {
        self.cut.store(
            self.writes.load(Ordering::SeqCst) + writes,
            Ordering::SeqCst,
        );
    }

    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    pub fn restore(&self) {
        self.cut.store(u64::MAX, Ordering::SeqCst);
        self.off.store(false, Ordering::SeqCst);
    }

    fn count_write(&self) {
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        if number >= self.cut.load(Ordering::SeqCst) {
            self.off.store(true, Ordering::SeqCst);
        }
    }
}

/// The faults of a device.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The number of writes after which all requests fail.
    pub dead_after: Option<u64>,
    /// A write fails after so many; half of it arrives.
    pub short_after: Option<u64>,
    /// A flush fails after so many. What was not durable may never be, although it can be read for
    /// now.
    pub bad_flush_after: Option<u64>,
    /// Reads that touch these bytes fail.
    pub bad_reads: Vec<Range<u64>>,
}

impl Faults {
    pub fn is_none(&self) -> bool {
        self.dead_after.is_none()
            && self.short_after.is_none()
            && self.bad_flush_after.is_none()
            && self.bad_reads.is_empty()
    }
}

struct State {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// Written since the last flush.
    pending: Vec<(u64, Vec<u8>)>,
    faults: Faults,
    dice: Dice,
    /// The hash of all bytes that were ever written.
    hash: blake3::Hasher,
}

impl State {
    fn size(&self) -> u64 {
        self.current.len() as u64
    }
}

pub struct SimDevice {
    pub guid: u64,
    power: Arc<Power>,
    state: Mutex<State>,
}

impl SimDevice {
    pub fn new(guid: u64, size: usize, power: &Arc<Power>) -> Arc<SimDevice> {
        SimDevice::holding(guid, vec![0; size], power)
    }

    pub fn holding(guid: u64, bytes: Vec<u8>, power: &Arc<Power>) -> Arc<SimDevice> {
        Arc::new(SimDevice {
            guid,
            power: Arc::clone(power),
            state: Mutex::new(State {
                current: bytes.clone(),
                durable: bytes,
                pending: Vec::new(),
                faults: Faults::default(),
                dice: Dice(guid),
                hash: blake3::Hasher::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Changes how it fails.
    pub fn fail(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
    }

    pub fn repair(&self) {
        self.lock().faults = Faults::default();
    }

    pub fn has_faults(&self) -> bool {
        !self.lock().faults.is_none()
    }

    /// The power comes back after a cut.
    pub fn restart(&self, survival: Survival) {
        let mut state = self.lock();
        let pending = std::mem::take(&mut state.pending);
        let pending = pending
            .iter()
            .map(|(offset, data)| (*offset, data.as_slice()));
        survive(&mut state.durable, pending.collect(), survival);
        state.current = state.durable.clone();
    }

    /// Flips bits on the medium, behind everyone's back.
    pub fn flip(&self, offset: u64, mask: u8) {
        let mut state = self.lock();
        state.current[offset as usize] ^= mask;
        state.durable[offset as usize] ^= mask;
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().current.clone()
    }

    pub fn hash(&self) -> blake3::Hash {
        self.lock().hash.finalize()
    }

    fn error(&self, operation: &'static str, offset: u64, len: u64) -> Error {
        Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source: io::ErrorKind::Other.into(),
        }
    }

    /// Adds so many bytes to the device.
    pub fn grow(&self, bytes: usize) {
        let mut state = self.lock();
        let size = state.current.len() + bytes;
        state.current.resize(size, 0);
        state.durable.resize(size, 0);
    }

    fn check(&self, state: &State, operation: &'static str, range: &Range<u64>) -> Result<()> {
        let is_dead = state.faults.dead_after == Some(0);
        match self.power.is_off() || is_dead {
            true => Err(self.error(operation, range.start, range.end - range.start)),
            false => Ok(()),
        }
    }

    /// Returns whether something that fails after so many writes fails now.
    fn is_due(after: &mut Option<u64>) -> bool {
        match after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    fn write(&self, offset: u64, mut data: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        let range = offset..offset + data.len() as u64;
        assert!(range.end <= state.size(), "a write beyond the end");
        self.check(&state, "write", &range)?;
        self.power.count_write();
        SimDevice::is_due(&mut state.faults.dead_after);
        let is_short = SimDevice::is_due(&mut state.faults.short_after);
        if is_short {
            state.faults.short_after = None;
            data.truncate(data.len() / 2);
        }
        state.hash.update(&offset.to_le_bytes());
        state.hash.update(&data);
        state.current[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        state.pending.push((offset, data));
        match is_short || self.power.is_off() {
            true => Err(self.error("write", offset, range.end - offset)),
            false => Ok(()),
        }
    }
}

impl BlockDevice for SimDevice {
    block::plain_device!();

    fn size(&self) -> u64 {
        self.lock().size()
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        format!("device {}", self.guid)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let state = self.lock();
        let range = offset..offset + buf.len() as u64;
        assert!(range.end <= state.size(), "a read beyond the end");
        self.check(&state, "read", &range)?;
        let mut bad = state.faults.bad_reads.iter();
        if bad.any(|bad| bad.start < range.end && range.start < bad.end) {
            return Err(self.error("read", offset, range.end - offset));
        }
        buf.copy_from_slice(&state.current[offset as usize..range.end as usize]);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let data = pieces.iter().flat_map(|piece| piece.iter().copied());
        self.write(offset, data.collect())
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.lock();
        self.check(&state, "flush", &(0..state.size()))?;
        let size = state.size();
        let State {
            durable,
            pending,
            faults,
            dice,
            ..
        } = &mut *state;
        if SimDevice::is_due(&mut faults.bad_flush_after) {
            faults.bad_flush_after = None;
            pending.retain(|_| dice.below(2) == 0);
            return Err(self.error("flush", 0, size));
        }
        for (offset, data) in pending.drain(..) {
            durable[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    /// Replaces the range by noise, so that a later use of it fails.
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.write(offset, vec![0xdd; len as usize])
    }
}
