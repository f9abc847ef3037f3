//! A device in memory that fails as disks fail.
//!
//! [`FaultDevice`] keeps a journal of every write and flush, numbered by a [`FaultClock`] that
//! several devices may share. From the journal [`Journal::image`] builds what the medium holds after
//! a power cut at any of those moments: flushed writes for certain, the others kept, lost, reordered
//! or torn as a seed decides. Read, write and flush errors, short writes, a store without free space and
//! flipped bits are asked for with [`FaultDevice::inject`] and [`FaultDevice::flip`].

mod medium;

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use medium::Medium;

use crate::{BlockDevice, Error, Result, SectorSizes, check_range, total};

/// Sectors tear at this size.
const SECTOR: usize = 512;

/// Numbers the events of one or more devices in the order in which they happened.
#[derive(Clone, Default)]
pub struct FaultClock(Arc<AtomicU64>);

impl FaultClock {
    /// A clock at zero.
    pub fn new() -> FaultClock {
        FaultClock::default()
    }

    /// The number that the next event will get.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// A fault to produce. Event numbers are the clock's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All events from this one on fail, as if the device had been pulled.
    DeadFrom(u64),
    /// The write with this number fails after its first `written` bytes.
    ShortWrite {
        /// The number of the event.
        event: u64,
        /// The number of bytes that arrive.
        written: usize,
    },
    /// The flush with this number fails, and all later ones until [`BlockDevice::begin_anew`].
    FailFlush(u64),
    /// The same as [`Fault::FailFlush`], and what was written since the last one is not on the medium. Reads
    /// see it until [`BlockDevice::drop_cached`], as they do in the cache of a system.
    LoseFlush(u64),
    /// Reads that touch these bytes fail.
    BadBytes {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
    },
    /// Writes beyond this many bytes in all fail for lack of space.
    FullAfter(u64),
}

/// The fate of writes that were not flushed before a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All arrive.
    All,
    /// None arrives.
    None,
    /// Each arrives, is lost or is torn by sectors, in an order of its own, as this seed decides.
    Seeded(u64),
}

impl Survival {
    /// The fates in turn: one cut loses all, the next one nothing, and the third one what the seed decides.
    pub fn in_turn(cut: u64, seed: u64) -> Survival {
        match cut % 3 {
            0 => Survival::None,
            1 => Survival::All,
            _ => Survival::Seeded(seed),
        }
    }
}

enum Event {
    Write { offset: u64, data: Vec<u8> },
    Flush,
}

/// The history of a device since it was made.
pub struct Journal {
    base: Medium,
    events: Vec<(u64, Event)>,
}

impl Journal {
    fn new(base: Medium) -> Journal {
        let events = Vec::new();
        Journal { base, events }
    }

    /// The numbers of the events, in order.
    pub fn times(&self) -> Vec<u64> {
        self.events.iter().map(|(time, _)| *time).collect()
    }

    /// Returns the bytes of the medium after a power cut just before event `cut`.
    pub fn image(&self, cut: u64, survival: Survival) -> Vec<u8> {
        self.medium(cut, survival).to_bytes()
    }

    /// Returns the device after a power cut just before event `cut`.
    pub fn device(&self, cut: u64, survival: Survival, clock: &FaultClock) -> FaultDevice {
        FaultDevice::of(self.medium(cut, survival), clock)
    }

    fn medium(&self, cut: u64, survival: Survival) -> Medium {
        let mut image = self.base.clone();
        let past: Vec<&Event> = self
            .events
            .iter()
            .take_while(|(time, _)| *time < cut)
            .map(|(_, event)| event)
            .collect();
        let flushed = past
            .iter()
            .rposition(|event| matches!(event, Event::Flush))
            .map_or(0, |index| index + 1);
        for event in &past[..flushed] {
            if let Event::Write { offset, data } = event {
                image.write(*offset as usize, data);
            }
        }
        let pending: Vec<(u64, &[u8])> = past[flushed..]
            .iter()
            .filter_map(|event| match event {
                Event::Write { offset, data } => Some((*offset, data.as_slice())),
                Event::Flush => None,
            })
            .collect();
        fates(pending, survival, &mut |offset, data| {
            image.write(offset as usize, data);
        });
        image
    }
}

impl Journal {
    /// Removes the changes that were not flushed.
    fn lose_unflushed(&mut self) {
        let is_flush = |(_, event): &(u64, Event)| matches!(event, Event::Flush);
        let flushed = self.events.iter().rposition(is_flush);
        self.events.truncate(flushed.map_or(0, |index| index + 1));
    }
}

/// Changes an image as a power cut does before these writes, offsets and bytes in the order
/// in which they were made, are flushed.
pub fn survive(image: &mut [u8], pending: Vec<(u64, &[u8])>, survival: Survival) {
    fates(pending, survival, &mut |offset, data| {
        image[offset as usize..][..data.len()].copy_from_slice(data);
    });
}

/// Calls `put` with what arrives of these writes, in the order in which it does.
fn fates(mut pending: Vec<(u64, &[u8])>, survival: Survival, put: &mut dyn FnMut(u64, &[u8])) {
    let seed = match survival {
        Survival::None => return,
        Survival::All => return pending.iter().for_each(|(offset, data)| put(*offset, data)),
        Survival::Seeded(seed) => seed,
    };
    let mut dice = Dice(seed);
    for last in (1..pending.len()).rev() {
        pending.swap(last, dice.below(last as u64 + 1) as usize);
    }
    for (offset, data) in pending {
        match dice.below(3) {
            0 => {}
            1 => put(offset, data),
            _ => tear(offset, data, &mut dice, put),
        }
    }
}

fn tear(offset: u64, data: &[u8], dice: &mut Dice, put: &mut dyn FnMut(u64, &[u8])) {
    let mut at = 0;
    while at < data.len() {
        let into_sector = (offset as usize + at) % SECTOR;
        let n = (SECTOR - into_sector).min(data.len() - at);
        if dice.below(2) == 0 {
            put(offset + at as u64, &data[at..at + n]);
        }
        at += n;
    }
}

/// Numbers that a seed decides, by SplitMix64: what a power cut leaves here, and what tests do.
pub struct Dice(pub u64);

impl Dice {
    /// The next number, below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

struct State {
    current: Medium,
    journal: Journal,
    faults: Vec<Fault>,
    /// A flush has failed.
    has_lost: bool,
    written: u64,
    discarded: u64,
}

/// A device in memory that records what is done to it and fails on demand.
pub struct FaultDevice {
    clock: FaultClock,
    size: AtomicU64,
    state: Mutex<State>,
}

impl FaultDevice {
    /// A device of `size` zero bytes.
    pub fn new(size: usize, clock: &FaultClock) -> FaultDevice {
        FaultDevice::of(Medium::new(size), clock)
    }

    /// A device that holds `bytes`, as after a power cut.
    pub fn from_bytes(bytes: Vec<u8>, clock: &FaultClock) -> FaultDevice {
        FaultDevice::of(Medium::from_bytes(&bytes), clock)
    }

    /// Returns a device with the bytes that reads see now.
    pub fn copy(&self, clock: &FaultClock) -> FaultDevice {
        FaultDevice::of(self.lock().current.clone(), clock)
    }

    fn of(medium: Medium, clock: &FaultClock) -> FaultDevice {
        FaultDevice {
            clock: clock.clone(),
            size: AtomicU64::new(medium.len() as u64),
            state: Mutex::new(State {
                current: medium.clone(),
                journal: Journal::new(medium),
                faults: Vec::new(),
                has_lost: false,
                written: 0,
                discarded: 0,
            }),
        }
    }

    /// Asks for a fault.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Takes all faults back. A flush that failed stays failed.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Returns whether it fails, or is going to.
    pub fn has_faults(&self) -> bool {
        !self.lock().faults.is_empty()
    }

    /// Flips bits of one byte, on the medium, behind everyone's back.
    pub fn flip(&self, offset: u64, mask: u8) {
        let (mut state, at) = (self.lock(), offset as usize);
        let mut byte = [0];
        state.current.read(at, &mut byte);
        state.current.write(at, &[byte[0] ^ mask]);
    }

    /// Returns the bytes that reads see now.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lock().current.to_bytes()
    }

    /// Returns the number of bytes that were written in all.
    pub fn written(&self) -> u64 {
        self.lock().written
    }

    /// Returns the number of bytes that were discarded in all.
    pub fn discarded(&self) -> u64 {
        self.lock().discarded
    }

    /// Makes the device this large: with zeros at its end, or without what was there. The journal starts
    /// here.
    pub fn resize(&self, size: usize) {
        let mut state = self.lock();
        state.current.resize(size);
        state.journal = Journal::new(state.current.clone());
        self.size.store(size as u64, Ordering::SeqCst);
    }

    /// Takes the journal, leaving one that starts here.
    pub fn take_journal(&self) -> Journal {
        let mut state = self.lock();
        let fresh = Journal::new(state.current.clone());
        std::mem::replace(&mut state.journal, fresh)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn error(&self, operation: &'static str, offset: u64, len: u64, kind: io::ErrorKind) -> Error {
        Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source: kind.into(),
        }
    }

    fn is_dead(&self, faults: &[Fault]) -> bool {
        let now = self.clock.now();
        faults
            .iter()
            .any(|fault| matches!(fault, Fault::DeadFrom(from) if *from <= now))
    }
}

impl State {
    /// Returns the number of bytes of a write of `len` that arrive, and the reason if fewer do.
    fn admit(&self, event: u64, len: usize) -> (usize, Option<io::ErrorKind>) {
        for fault in &self.faults {
            match fault {
                Fault::ShortWrite { event: at, written } if *at == event => {
                    return ((*written).min(len), Some(io::ErrorKind::WriteZero));
                }
                Fault::FullAfter(limit) if self.written + len as u64 > *limit => {
                    return (0, Some(io::ErrorKind::StorageFull));
                }
                _ => {}
            }
        }
        (len, None)
    }
}

impl BlockDevice for FaultDevice {
    plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode settle);
    plain_methods!(zero_fast is_blank status_at overwrite);

    fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes {
            logical: SECTOR as u32,
            physical: 4096,
        }
    }

    fn name(&self) -> String {
        "fault device".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        check_range(self, offset, len)?;
        let state = self.lock();
        let bad = state.faults.iter().any(|fault| {
            matches!(fault, Fault::BadBytes { offset: o, len: l }
                if offset < o + l && *o < offset + len)
        });
        if bad || self.is_dead(&state.faults) {
            return Err(self.error("read", offset, len, io::ErrorKind::Other));
        }
        state.current.read(offset as usize, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        let len = total(pieces);
        check_range(self, offset, len)?;
        let mut state = self.lock();
        if self.is_dead(&state.faults) {
            return Err(self.error("write", offset, len, io::ErrorKind::Other));
        }
        let event = self.clock.tick();
        let mut data: Vec<u8> = pieces.iter().flat_map(|p| p.iter().copied()).collect();
        let (admitted, failure) = state.admit(event, data.len());
        data.truncate(admitted);
        state.current.write(offset as usize, &data);
        state.written += data.len() as u64;
        state
            .journal
            .events
            .push((event, Event::Write { offset, data }));
        match failure {
            None => Ok(()),
            Some(kind) => Err(self.error("write", offset, len, kind)),
        }
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.lock();
        let dead = self.is_dead(&state.faults);
        let event = self.clock.tick();
        let loses = state.faults.contains(&Fault::LoseFlush(event));
        if loses {
            state.journal.lose_unflushed();
        }
        state.has_lost |= loses || state.faults.contains(&Fault::FailFlush(event));
        if dead || state.has_lost {
            return Err(self.error("flush", 0, self.size(), io::ErrorKind::Other));
        }
        state.journal.events.push((event, Event::Flush));
        Ok(())
    }

    fn drop_cached(&self) -> Result<()> {
        let mut state = self.lock();
        if self.is_dead(&state.faults) {
            return Err(self.error("drop", 0, self.size(), io::ErrorKind::Other));
        }
        state.current = state.journal.medium(u64::MAX, Survival::All);
        Ok(())
    }

    fn begin_anew(&self) -> Result<()> {
        self.drop_cached()?;
        self.lock().has_lost = false;
        Ok(())
    }

    /// Overwrites the range with noise, so that a later use of it is noticed.
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        check_range(self, offset, len)?;
        let mut state = self.lock();
        if self.is_dead(&state.faults) {
            return Err(self.error("discard", offset, len, io::ErrorKind::Other));
        }
        let event = self.clock.tick();
        let data = vec![0xdd; len as usize];
        state.current.write(offset as usize, &data);
        state.discarded += len;
        let event = (event, Event::Write { offset, data });
        state.journal.events.push(event);
        Ok(())
    }
}

/// The devices after a power cut just before event `cut`, on a clock of their own.
pub fn after_cut<'a>(
    journals: impl IntoIterator<Item = &'a Journal>,
    cut: u64,
    survival: Survival,
) -> Vec<Arc<FaultDevice>> {
    let clock = FaultClock::new();
    let device = |journal: &Journal| Arc::new(journal.device(cut, survival, &clock));
    journals.into_iter().map(device).collect()
}

/// Devices with the bytes of these, on a clock of their own.
pub fn copies<'a>(
    devices: impl IntoIterator<Item = &'a Arc<FaultDevice>>,
) -> Vec<Arc<FaultDevice>> {
    let clock = FaultClock::new();
    let copy = |device: &Arc<FaultDevice>| Arc::new(device.copy(&clock));
    devices.into_iter().map(copy).collect()
}

/// Every distinct image that a cut just before `cut` may leave, as far as `seeds` reach.
pub fn images(journal: &Journal, cut: u64, seeds: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    let mut seen: Vec<Medium> = Vec::new();
    let fates = [Survival::None, Survival::All].into_iter();
    for survival in fates.chain(seeds.map(Survival::Seeded)) {
        let medium = journal.medium(cut, survival);
        if !seen.contains(&medium) {
            seen.push(medium);
        }
    }
    seen.iter().map(Medium::to_bytes).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn write(device: &FaultDevice, offset: u64, data: &[u8]) -> Result<()> {
        device.write_at(offset, &[IoSlice::new(data)])
    }

    #[test]
    fn flushed_writes_survive_and_others_may_not() {
        let clock = FaultClock::new();
        let device = FaultDevice::new(4096, &clock);
        write(&device, 0, &[1; 1024]).unwrap();
        device.flush().unwrap();
        write(&device, 1024, &[2; 1024]).unwrap();
        let journal = device.take_journal();
        let end = clock.now();
        let none = journal.image(end, Survival::None);
        assert_eq!((none[0], none[1024]), (1, 0));
        let all = journal.image(end, Survival::All);
        assert_eq!((all[0], all[1024]), (1, 2));
        assert_eq!(journal.image(0, Survival::All), vec![0; 4096]);
        let mut fates = BTreeSet::new();
        for seed in 0..64 {
            let image = journal.image(end, Survival::Seeded(seed));
            assert_eq!(&image[..1024], &[1; 1024]);
            fates.insert((image[1024], image[1536]));
        }
        assert_eq!(fates.len(), 4, "kept, lost, and torn both ways");
    }

    #[test]
    fn two_devices_share_one_time() {
        let clock = FaultClock::new();
        let (a, b) = (FaultDevice::new(512, &clock), FaultDevice::new(512, &clock));
        write(&a, 0, b"a").unwrap();
        write(&b, 0, b"b").unwrap();
        let (a, b) = (a.take_journal(), b.take_journal());
        assert_eq!((a.times(), b.times()), (vec![0], vec![1]));
        assert_eq!(a.image(1, Survival::All)[0], b'a');
        assert_eq!(b.image(1, Survival::All)[0], 0);
    }

    #[test]
    fn faults_come_when_asked_for() {
        let clock = FaultClock::new();
        let device = FaultDevice::new(4096, &clock);
        device.inject(Fault::ShortWrite {
            event: 0,
            written: 2,
        });
        assert!(write(&device, 0, b"abcd").is_err());
        assert_eq!(&device.to_bytes()[..4], b"ab\0\0");
        device.inject(Fault::BadBytes {
            offset: 100,
            len: 1,
        });
        assert!(device.read_at(0, &mut [0; 101]).is_err());
        device.read_at(0, &mut [0; 100]).unwrap();
        device.inject(Fault::FullAfter(10));
        assert!(write(&device, 0, &[0; 9]).unwrap_err().is_no_space());
        device.inject(Fault::FailFlush(clock.now()));
        assert!(device.flush().is_err());
        assert!(device.flush().is_err(), "it is not tried again");
        device.drop_cached().unwrap();
        assert!(device.flush().is_err(), "nothing was written again");
        device.begin_anew().unwrap();
        device.flush().unwrap();
        device.inject(Fault::DeadFrom(clock.now()));
        assert!(write(&device, 0, b"x").is_err());
        assert!(device.read_at(0, &mut [0]).is_err());
        device.heal();
        write(&device, 0, b"x").unwrap();
    }
}
