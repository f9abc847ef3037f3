//! Re-encryption of a container that is open: requests at each of its steps, in an order that the test forces.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::common::online::{Stepped, begin, format, how, open};
use crate::common::reencryption::{HERE, Judge, is_in_reencryption};
use crate::common::{RANDOM, secret};
use block::fault::{Dice, Fault, FaultClock, FaultDevice};
use block::{BlockDevice, MemoryDevice};
use luks::{
    BothKeys, Container, Error, Mapping, MappingFlags, Protection, ReencryptionEnd,
    ReencryptionPace, ReencryptionProgress,
};

const DATA: u64 = 2 << 20;
const LEN: u64 = 1 << 20;
const ZONE: u64 = 128 << 10;
const SECTOR: u64 = 4096;

const ZONES: ReencryptionPace = ReencryptionPace {
    zone: Some(ZONE),
    device_size: None,
};

const QUEUED: MappingFlags = MappingFlags {
    read_workqueue: true,
    write_workqueue: true,
    ..HERE
};

fn checksum() -> Protection {
    Protection::Checksum("sha256".into())
}

fn noise(dice: &mut Dice, len: u64) -> Vec<u8> {
    let words = (0..len / 8).map(|_| dice.below(u64::MAX));
    words.flat_map(u64::to_le_bytes).collect()
}

fn read(mapping: &Mapping, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    mapping.read_at(offset, &mut bytes).unwrap();
    bytes
}

/// A container that is open, and what it should hold.
struct Opened {
    device: Arc<Stepped>,
    container: Container,
    mapping: Arc<Mapping>,
    holds: Vec<u8>,
}

fn opened(inner: Arc<dyn BlockDevice>, sector_size: u32) -> Opened {
    let device = Stepped::new(inner);
    let (container, key) = format(&(Arc::clone(&device) as _), DATA, sector_size);
    let mapping = Mapping::open(&container, Arc::clone(&device) as _, &key, HERE).unwrap();
    let holds = noise(&mut Dice(1), LEN);
    mapping.write_at(0, &[IoSlice::new(&holds)]).unwrap();
    Opened {
        device,
        container,
        mapping: Arc::new(mapping),
        holds,
    }
}

fn memory(sector_size: u32) -> Opened {
    opened(
        Arc::new(MemoryDevice::new((DATA + LEN) as usize)),
        sector_size,
    )
}

impl Opened {
    fn begin(&mut self, protection: Protection) -> BothKeys {
        begin(&mut self.container, &*self.device, &how(protection)).unwrap()
    }

    fn run(
        &mut self,
        keys: &BothKeys,
        mut go_on: impl FnMut(ReencryptionProgress) -> bool,
    ) -> luks::Result<ReencryptionEnd> {
        let mapping = Arc::clone(&self.mapping);
        mapping.reencrypt(&mut self.container, keys, ZONES, &RANDOM, &mut go_on)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.device.size() as usize];
        self.device.read_at(0, &mut bytes).unwrap();
        bytes
    }

    /// Returns the data as another open finds it.
    fn found(&self) -> Vec<u8> {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(self.bytes()));
        let (_, mapping, _) = open(Arc::clone(&device), device).unwrap();
        read(&mapping, 0, LEN)
    }
}

/// Requests at each step of a re-encryption. Where the hot zone is being written they wait for that; a write waits until
/// the place is new, or until the hot zone is over.
struct Users {
    mapping: Arc<Mapping>,
    device: Arc<Stepped>,
    dice: Dice,
    holds: Arc<Mutex<Vec<u8>>>,
    /// The address of the hot zone.
    hot: Arc<AtomicU64>,
    /// True if writes continue in the new part of the hot zone.
    writes_go_on: bool,
    /// The ranges that were written; the last one may not be complete.
    written: Vec<std::ops::Range<u64>>,
    /// The request that may wait.
    waits: Option<Waiting>,
    waited: Arc<AtomicU64>,
    went_on: Arc<AtomicU64>,
}

struct Waiting {
    range: std::ops::Range<u64>,
    /// True if the request waits for the end of the hot zone.
    until_end: bool,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

fn touch(one: &std::ops::Range<u64>, other: &std::ops::Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Users {
    fn step(&mut self) {
        let hot = self.hot.load(Ordering::SeqCst);
        let hot = hot..hot + ZONE;
        let last = self.device.last_write();
        let last = last.start.saturating_sub(DATA)..last.end.saturating_sub(DATA);
        if touch(&last, &hot) && self.written.last() != Some(&last) {
            self.written.push(last);
        }
        if let Some(waiting) = self.waits.as_ref().filter(|it| it.until_end) {
            assert!(!waiting.is_over.load(Ordering::SeqCst), "it did not wait");
            assert!(self.would_wait(&waiting.range, true));
        }
        for _ in 0..2 {
            let offset = self.dice.below(LEN / SECTOR) * SECTOR;
            let longest = 16.min((LEN - offset) / SECTOR);
            let range = offset..offset + (1 + self.dice.below(longest)) * SECTOR;
            if self
                .waits
                .as_ref()
                .is_some_and(|it| touch(&it.range, &range))
            {
                continue;
            }
            let writes = self.dice.below(2) == 0;
            let goes_on = self.goes_on(&hot, &range, writes);
            if goes_on {
                assert!(!self.would_wait(&range, writes));
                self.request(range.clone(), writes).1.join().unwrap();
                let is_hot = u64::from(touch(&hot, &range));
                self.went_on.fetch_add(is_hot, Ordering::SeqCst);
            } else if self.waits.is_none() {
                let (is_over, thread) = self.request(range.clone(), writes);
                self.waits = Some(Waiting {
                    range,
                    until_end: writes && !self.writes_go_on,
                    is_over,
                    thread,
                });
            }
        }
    }

    fn would_wait(&self, range: &std::ops::Range<u64>, writes: bool) -> bool {
        let len = range.end - range.start;
        self.mapping.would_wait(range.start, len, writes)
    }

    /// Returns whether a request certainly need not wait.
    fn goes_on(
        &self,
        hot: &std::ops::Range<u64>,
        range: &std::ops::Range<u64>,
        writes: bool,
    ) -> bool {
        let (last, new) = match self.written.split_last() {
            Some((last, new)) => (last.clone(), new),
            None => (0..0, &[][..]),
        };
        if !touch(hot, range) || touch(&last, range) {
            return !touch(hot, range);
        }
        let is_new = |at: u64| new.iter().any(|of| of.contains(&at));
        let mut sectors = (range.start.max(hot.start)..range.end.min(hot.end)).step_by(512);
        !writes || self.writes_go_on && sectors.all(is_new)
    }

    /// Lets the request end that waits, after the hot zone.
    fn end_zone(&mut self) {
        if let Some(waiting) = self.waits.take() {
            waiting.thread.join().unwrap();
            self.waited.fetch_add(1, Ordering::SeqCst);
        }
        self.written.clear();
    }

    fn request(
        &mut self,
        range: std::ops::Range<u64>,
        writes: bool,
    ) -> (Arc<AtomicBool>, JoinHandle<()>) {
        let len = range.end - range.start;
        let new = writes.then(|| noise(&mut self.dice, len));
        let (mapping, holds) = (Arc::clone(&self.mapping), Arc::clone(&self.holds));
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let in_place = self.dice.below(2) == 0;
        let thread = std::thread::spawn(move || {
            let (from, to) = (range.start as usize, range.end as usize);
            match new {
                None => {
                    let found = read(&mapping, range.start, len);
                    over.store(true, Ordering::SeqCst);
                    assert!(found == holds.lock().unwrap()[from..to], "{range:?}");
                }
                Some(new) => {
                    let mut bytes = new.clone();
                    match in_place {
                        true => mapping.write_in_place(range.start, &mut bytes).unwrap(),
                        false => mapping
                            .write_at(range.start, &[IoSlice::new(&new)])
                            .unwrap(),
                    }
                    over.store(true, Ordering::SeqCst);
                    holds.lock().unwrap()[from..to].copy_from_slice(&new);
                }
            }
        });
        (is_over, thread)
    }
}

#[test]
fn requests_at_each_step_see_what_was_written_and_wait_only_where_the_hot_zone_is_written() {
    for (n, protection) in [checksum(), Protection::Journal, Protection::None]
        .into_iter()
        .enumerate()
    {
        let (flags, sector_size) = if n == 1 { (QUEUED, 512) } else { (HERE, 4096) };
        let mut it = memory(sector_size);
        it.mapping.set_flags(flags);
        let keys = it.begin(protection);
        let holds = Arc::new(Mutex::new(it.holds.clone()));
        let [hot, waited, went_on] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let users = Arc::new(Mutex::new(Users {
            mapping: Arc::clone(&it.mapping),
            device: Arc::clone(&it.device),
            dice: Dice(n as u64),
            holds: Arc::clone(&holds),
            hot: Arc::clone(&hot),
            writes_go_on: n == 0,
            written: Vec::new(),
            waits: None,
            waited: Arc::clone(&waited),
            went_on: Arc::clone(&went_on),
        }));
        let each = Arc::clone(&users);
        it.device
            .each(Box::new(move || each.lock().unwrap().step()));
        let ended = it.run(&keys, |progress| {
            users.lock().unwrap().end_zone();
            hot.store(progress.done, Ordering::SeqCst);
            true
        });
        assert_eq!(ended.unwrap(), ReencryptionEnd::All, "{n}");
        it.device.no_more();
        users.lock().unwrap().end_zone();
        assert!(waited.load(Ordering::SeqCst) > 2, "{n}");
        assert!(went_on.load(Ordering::SeqCst) > 2, "{n}");
        let holds = holds.lock().unwrap();
        assert!(read(&it.mapping, 0, LEN) == *holds, "{n}");
        assert!(!is_in_reencryption(&it.bytes()));
        assert!(it.found() == *holds, "{n}");
        let key = it.container.unlock(&secret("first"), None).unwrap().key;
        assert!(key.expose() == keys.new.as_ref().unwrap().expose());
    }
}

/// A re-encryption that was paused continues later, here or by cryptsetup, and requests are served between.
#[test]
fn what_is_paused_goes_on_under_the_same_mapping_or_after_it() {
    let mut it = memory(4096);
    let old = it.container.unlock(&secret("first"), None).unwrap().key;
    let keys = it.begin(Protection::Journal);
    let mut zones = 0;
    let paused = it.run(&keys, |_| {
        zones += 1;
        zones < 4
    });
    let (done, total) = (3 * ZONE, LEN);
    assert_eq!(
        paused.unwrap(),
        ReencryptionEnd::Paused(ReencryptionProgress { done, total })
    );
    assert!(it.mapping.resize(None).is_err());
    let sector = vec![7; 8192];
    for at in [0, 3 * ZONE - 4096, LEN - 8192] {
        it.mapping.write_at(at, &[IoSlice::new(&sector)]).unwrap();
        it.holds[at as usize..][..8192].copy_from_slice(&sector);
    }
    assert!(read(&it.mapping, 0, LEN) == it.holds && it.found() == it.holds);
    if let Some(judge) = Judge::new() {
        let ended = judge.run(&it.bytes(), "--resume-only").unwrap();
        let ended: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(ended));
        let (container, mapping, _) = open(Arc::clone(&ended), ended).unwrap();
        assert!(!container.is_in_reencryption());
        assert!(read(&mapping, 0, LEN) == it.holds);
    }
    // Another passphrase entry, as a second command makes it.
    let keys = it.container.unlock_both(&secret("first")).unwrap();
    assert_eq!(it.run(&keys, |_| true).unwrap(), ReencryptionEnd::All);
    assert!(read(&it.mapping, 0, LEN) == it.holds && it.found() == it.holds);
    assert!(!it.container.is_volume_key(&old).unwrap());
    it.mapping.resize(None).unwrap();
    // Once more, with another cipher.
    let how = luks::ReencryptionChoice {
        cipher: Some("serpent-xts-plain64".into()),
        ..how(checksum())
    };
    let keys = begin(&mut it.container, &*it.device, &how).unwrap();
    assert_eq!(it.run(&keys, |_| true).unwrap(), ReencryptionEnd::All);
    assert_eq!(it.mapping.cipher(), "serpent-xts-plain64");
    assert!(read(&it.mapping, 0, LEN) == it.holds && it.found() == it.holds);
}

/// A container that was opened in re-encryption goes on too, also with smaller sectors.
#[test]
fn what_was_opened_in_reencryption_goes_on_while_it_is_open() {
    let mut it = memory(4096);
    let smaller = luks::ReencryptionChoice {
        sector_size: Some(512),
        ..how(checksum())
    };
    begin(&mut it.container, &*it.device, &smaller).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(it.bytes()));
    let (mut container, mapping, keys) = open(Arc::clone(&device), device).unwrap();
    let keys = keys.unwrap();
    let ended = mapping.reencrypt(&mut container, &keys, ZONES, &RANDOM, &mut |_| true);
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    assert_eq!(mapping.sector_sizes().logical, 4096);
    assert!(read(&mapping, 0, LEN) == it.holds);
    assert_eq!(container.segment().unwrap().sector_size, 512);
}

/// A device that fails in a hot zone: requests there fail, and others do not. It is recovered when it is opened again.
#[test]
fn a_hot_zone_that_fails_is_lost_for_requests_until_the_container_is_opened_again() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new((DATA + LEN) as usize, &clock));
    for protection in [checksum(), Protection::Journal] {
        for later in [1, 2, 3, 5, 7, 8, 10, 12] {
            device.heal();
            let mut it = opened(Arc::clone(&device) as _, 4096);
            let keys = it.begin(protection.clone());
            let failed = it.run(&keys, |progress| {
                if progress.done == 2 * ZONE {
                    device.inject(Fault::DeadFrom(clock.now() + later));
                }
                true
            });
            let what = format!("{protection:?}, {later}: {:?}", failed.err());
            device.heal();
            let mut bytes = vec![0; ZONE as usize];
            let hot = it.mapping.read_at(2 * ZONE, &mut bytes);
            let is_lost = hot.is_err();
            if let Err(error) = &hot {
                assert!(error.to_string().contains("which recovers"), "{error}");
            }
            assert!(is_lost || bytes == it.holds[2 * ZONE as usize..][..ZONE as usize]);
            for (from, len) in [(0, 2 * ZONE), (3 * ZONE, LEN - 3 * ZONE)] {
                let expected = &it.holds[from as usize..][..len as usize];
                assert!(read(&it.mapping, from, len) == expected, "{what}");
            }
            if is_lost {
                let again = it.run(&keys, |_| true);
                assert!(matches!(again, Err(Error::Usage(_))), "{what}");
            }
            assert!(it.found() == it.holds, "{what}");
        }
    }
}

/// Without protection of the hot zone, no error promises a recovery.
#[test]
fn what_was_not_kept_is_not_promised() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new((DATA + LEN) as usize, &clock));
    let mut it = opened(Arc::clone(&device) as _, 4096);
    let keys = it.begin(Protection::None);
    let failed = it.run(&keys, |_| {
        // After the flush before the zone.
        device.inject(Fault::DeadFrom(clock.now() + 1));
        true
    });
    assert!(failed.is_err());
    device.heal();
    let error = it.mapping.read_at(0, &mut [0; 4096]).unwrap_err();
    assert!(error.to_string().contains("with a backup"), "{error}");
    read(&it.mapping, ZONE, LEN - ZONE);
}

/// A panic of the thread that re-encrypts leaves no request waiting.
#[test]
fn requests_do_not_wait_for_a_thread_that_panicked() {
    for steps in 1..8 {
        let mut it = memory(4096);
        let keys = it.begin(Protection::Journal);
        let mut left = steps;
        it.device.each(Box::new(move || {
            left -= 1;
            assert!(left > 0, "the panic of this test");
        }));
        let run = std::panic::AssertUnwindSafe(|| it.run(&keys, |progress| progress.done == 0));
        assert!(std::panic::catch_unwind(run).is_err(), "{steps}");
        let mut bytes = vec![0; ZONE as usize];
        assert!(it.mapping.read_at(0, &mut bytes).is_err(), "{steps}");
        assert!(it.found() == it.holds, "{steps}");
    }
}

#[test]
fn what_would_change_what_users_see_is_refused() {
    let refused = |it: &mut Opened, keys: &BothKeys, pace: ReencryptionPace| {
        let mapping = Arc::clone(&it.mapping);
        let before = it.bytes();
        let error = mapping.reencrypt(&mut it.container, keys, pace, &RANDOM, &mut |_| true);
        assert!(it.bytes() == before);
        assert!(read(&it.mapping, 0, it.mapping.size()) == it.holds[..it.mapping.size() as usize]);
        error.unwrap_err().to_string()
    };
    let mut it = memory(512);
    let larger = luks::ReencryptionChoice {
        sector_size: Some(4096),
        ..how(checksum())
    };
    let keys = begin(&mut it.container, &*it.device, &larger).unwrap();
    assert!(refused(&mut it, &keys, ZONES).contains("larger sectors"));
    let mut it = memory(4096);
    it.mapping.resize(Some(LEN / 2)).unwrap();
    let keys = it.begin(checksum());
    assert!(refused(&mut it, &keys, ZONES).contains("luks resize"));
    it.mapping.resize(None).unwrap();
    let part = ReencryptionPace {
        device_size: Some(LEN / 2),
        ..ZONES
    };
    assert!(refused(&mut it, &keys, part).contains("re-encrypted whole"));
    // The header of another container, in place of its own.
    let mut other = memory(4096);
    let keys = other.begin(checksum());
    std::mem::swap(&mut it.container, &mut other.container);
    assert!(refused(&mut it, &keys, ZONES).contains("not what the header says"));
}
