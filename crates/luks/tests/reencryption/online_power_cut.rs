//! The power fails at any write of a re-encryption under requests: what was written and flushed is there afterwards,
//! and the re-encryption comes to its end.

use std::io::IoSlice;
use std::sync::{Arc, Mutex};

use crate::common::RANDOM;
use crate::common::online::{Stepped, begin, format, how, open};
use crate::common::reencryption::{Disks, HERE, Judge};
use block::fault::{Dice, FaultClock, FaultDevice, Journal, Survival};
use block::{BlockDevice, MemoryDevice};
use luks::{Container, Mapping, Protection, ReencryptionEnd, ReencryptionPace};

const DATA: u64 = 2 << 20;
const LEN: u64 = 256 << 10;
const ZONE: u64 = 64 << 10;
const SECTOR: u64 = 512;

const ZONES: ReencryptionPace = ReencryptionPace {
    zone: Some(ZONE),
    device_size: None,
};

/// A sector that was written.
struct Written {
    value: u64,
    /// The events before which it was written, and was durable.
    begun: u64,
    durable: u64,
}

/// The writes to each sector, in order.
struct History {
    sectors: Vec<Vec<Written>>,
    next: u64,
    dice: Dice,
    /// The address of the hot zone.
    hot: u64,
    /// True if writes continue where the zone is new, with the number of those that did.
    goes_on: bool,
    wrote_hot: usize,
}

fn sector(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(SECTOR as usize / 8)
}

impl History {
    /// Writes sectors somewhere outside of the hot zone, and in it where it is new, which is up to `new`; and flushes now
    /// and then.
    fn step(&mut self, mapping: &Mapping, clock: &FaultClock, new: u64) {
        let n = 1 + self.dice.below(12);
        let first = self.dice.below(LEN / SECTOR - n);
        let (from, to) = (first * SECTOR, (first + n) * SECTOR);
        if from >= self.hot + ZONE || self.hot >= to {
            self.write(first, n, mapping, clock);
        }
        if self.goes_on && (self.hot..self.hot + ZONE).contains(&new) && self.hot < new {
            let there = (new - self.hot) / SECTOR;
            let n = n.min(there);
            let first = self.hot / SECTOR + self.dice.below(there - n + 1);
            self.write(first, n, mapping, clock);
            self.wrote_hot += 1;
        }
        if self.dice.below(6) == 0 {
            mapping.flush().unwrap();
            let all = self.sectors.iter_mut().flatten();
            all.for_each(|it| it.durable = it.durable.min(clock.now()));
        }
    }

    fn write(&mut self, first: u64, n: u64, mapping: &Mapping, clock: &FaultClock) {
        let mut bytes = Vec::new();
        for at in first..first + n {
            self.next += 1;
            bytes.extend(sector(self.next));
            let (value, begun, durable) = (self.next, clock.now(), u64::MAX);
            self.sectors[at as usize].push(Written {
                value,
                begun,
                durable,
            });
        }
        mapping
            .write_at(first * SECTOR, &[IoSlice::new(&bytes)])
            .unwrap();
    }

    /// Each sector is what was durable before the cut, or was written later, as a whole.
    fn check(&self, mapping: &Mapping, cut: u64, what: &str) {
        let mut bytes = vec![0; LEN as usize];
        mapping.read_at(0, &mut bytes).unwrap();
        let found = bytes.chunks(SECTOR as usize);
        for (n, (found, history)) in found.zip(&self.sectors).enumerate() {
            let safe = history.iter().rposition(|it| it.durable <= cut);
            let mut may_be = history[safe.unwrap_or(0)..].iter();
            let is_one = may_be.any(|it| it.begun < cut.max(1) && found == sector(it.value));
            assert!(is_one, "{what}: sector {n}");
        }
    }
}

/// The header and the data, which are on one device or two.
type Devices = (Arc<FaultDevice>, Arc<FaultDevice>);

fn cut_everywhere(protection: Protection, (header, data): Devices, clock: &FaultClock) {
    let is_one = Arc::ptr_eq(&header, &data);
    let stepped = [&header, &data].map(|device| Stepped::new(Arc::clone(device) as _));
    let [header_steps, data_steps] = match is_one {
        true => [Arc::clone(&stepped[0]), Arc::clone(&stepped[0])],
        false => stepped,
    };
    let offset = if is_one { DATA } else { 0 };
    let (mut container, key) = format(&(Arc::clone(&header_steps) as _), offset, 512);
    let under = Arc::clone(&data_steps) as Arc<dyn BlockDevice>;
    let mapping = Arc::new(Mapping::open(&container, under, &key, HERE).unwrap());
    let initial: Vec<u8> = (0..LEN / SECTOR).flat_map(sector).collect();
    mapping.write_at(0, &[IoSlice::new(&initial)]).unwrap();
    mapping.flush().unwrap();
    let first = |value| {
        vec![Written {
            value,
            begun: 0,
            durable: 0,
        }]
    };
    let history = Arc::new(Mutex::new(History {
        sectors: (0..LEN / SECTOR).map(first).collect(),
        next: LEN,
        dice: Dice(7),
        hot: u64::MAX / 2,
        goes_on: matches!(protection, Protection::Checksum(_)),
        wrote_hot: 0,
    }));
    let begun = clock.now();
    let keys = begin(&mut container, &*data_steps, &how(protection.clone())).unwrap();
    for steps in [&header_steps, &data_steps] {
        let (history, mapping, clock) = (Arc::clone(&history), Arc::clone(&mapping), clock.clone());
        let written = Arc::clone(&data_steps);
        steps.each(Box::new(move || {
            // What is before the piece that is being written is new.
            let new = written.last_write().start.saturating_sub(offset);
            let step = || history.lock().unwrap().step(&mapping, &clock, new);
            std::thread::scope(|scope| scope.spawn(step).join().unwrap());
        }));
    }
    let ended = mapping.reencrypt(&mut container, &keys, ZONES, &RANDOM, &mut |progress| {
        let before = || {
            let mut history = history.lock().unwrap();
            // What will be in the hot zone is not durable yet.
            history.write(progress.done / SECTOR + 3, 9, &mapping, clock);
            history.hot = progress.done;
        };
        std::thread::scope(|scope| scope.spawn(before).join().unwrap());
        true
    });
    assert_eq!(ended.unwrap(), ReencryptionEnd::All);
    [header_steps, data_steps]
        .iter()
        .for_each(|of| of.no_more());
    let end = clock.now();
    let wrote_hot = history.lock().unwrap().wrote_hot;
    assert_eq!(wrote_hot > 8, matches!(protection, Protection::Checksum(_)));
    let journals = match is_one {
        true => (header.take_journal(), None),
        false => (header.take_journal(), Some(data.take_journal())),
    };
    check_cuts(
        &history.lock().unwrap(),
        &journals,
        begun..=end,
        &protection,
    );
}

fn check_cuts(
    history: &History,
    (header, data): &(Journal, Option<Journal>),
    cuts: std::ops::RangeInclusive<u64>,
    protection: &Protection,
) {
    let judge = Judge::new();
    let (mut asked, mut hot) = (0, 0);
    for cut in cuts {
        // In turn: each takes a while.
        let survival = match cut % 2 {
            0 => Survival::None,
            _ => Survival::Seeded(cut),
        };
        let what = format!("{protection:?}, cut before {cut}, {survival:?}");
        let (first, second) = (header.image(cut, survival), data.as_ref());
        let disks = match second.map(|data| data.image(cut, survival)) {
            None => Disks {
                data: first,
                header: None,
            },
            Some(second) => Disks {
                data: second,
                header: Some(first),
            },
        };
        let is_hot = check(history, &disks, cut, &what);
        hot += usize::from(is_hot);
        let Some(judge) = judge.as_ref().filter(|_| is_hot && hot % 12 == 7) else {
            continue;
        };
        asked += 1;
        let options = match &disks.header {
            Some(_) => "--resume-only --header header",
            None => "--resume-only",
        };
        let ended = judge.recovered_on(&disks).and_then(|disks| {
            match opened(&disks).0.is_in_reencryption() {
                true => judge.run_on(&disks, options),
                false => Ok(disks),
            }
        });
        let ended = ended.unwrap_or_else(|error| panic!("{what}: {error}"));
        history.check(&opened(&ended).1, cut, &format!("{what}, by cryptsetup"));
    }
    assert!(hot > 8, "{hot} with a hot zone");
    assert!(judge.is_none() || asked > 0, "cryptsetup was asked");
}

fn opened(disks: &Disks) -> (Container, Mapping) {
    let device = |bytes: &Vec<u8>| Arc::new(MemoryDevice::from_bytes(bytes.clone()));
    let data: Arc<dyn BlockDevice> = device(&disks.data);
    let header = match &disks.header {
        Some(bytes) => device(bytes),
        None => Arc::clone(&data),
    };
    let (container, mapping, _) = open(header, data).unwrap();
    (container, mapping)
}

/// Opens what a power cut left, and goes on while it is open. Says whether there was a hot zone.
fn check(history: &History, disks: &Disks, cut: u64, what: &str) -> bool {
    let device = |bytes: &Vec<u8>| Arc::new(MemoryDevice::from_bytes(bytes.clone()));
    let data: Arc<dyn BlockDevice> = device(&disks.data);
    let header: Arc<dyn BlockDevice> = match &disks.header {
        Some(bytes) => device(bytes),
        None => Arc::clone(&data),
    };
    let found = Container::look(Arc::clone(&header)).unwrap();
    let is_hot = found.dump().contains("in-reencryption");
    let (mut container, mapping, keys) =
        open(header, data).unwrap_or_else(|error| panic!("{what}: {error}"));
    history.check(&mapping, cut, what);
    if let Some(keys) = keys.filter(|_| container.is_in_reencryption()) {
        let ended = mapping.reencrypt(&mut container, &keys, ZONES, &RANDOM, &mut |_| true);
        assert_eq!(ended.unwrap(), ReencryptionEnd::All, "{what}");
        history.check(&mapping, cut, &format!("{what}, ended"));
    }
    is_hot
}

fn one() -> (Devices, FaultClock) {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new((DATA + LEN) as usize, &clock));
    ((Arc::clone(&device), device), clock)
}

fn two() -> (Devices, FaultClock) {
    let clock = FaultClock::new();
    let device = |len: u64| Arc::new(FaultDevice::new(len as usize, &clock));
    ((device(DATA), device(LEN)), clock)
}

#[test]
fn what_was_flushed_survives_with_a_journal() {
    let (devices, clock) = one();
    cut_everywhere(Protection::Journal, devices, &clock);
}

/// The header is on another device: what is kept in it is kept of what is durable in the data.
#[test]
fn what_was_flushed_survives_with_checksums_in_a_header_elsewhere() {
    let (devices, clock) = two();
    cut_everywhere(Protection::Checksum("sha256".into()), devices, &clock);
}
