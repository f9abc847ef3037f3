//! An attacker without keys who has the devices of every moment, and makes all hashes right that need no key.

#[path = "../common/mod.rs"]
mod common;
mod image;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use block::fault::{FaultClock, FaultDevice};
use cipher::Suite;
use common::look::look;
use common::model::{Picture, Seen};
use common::*;
use dataset::{Dataset, Settings};
use image::{ROOTS, UNIT, children, entry, level, load, number, run_of, store};
use vfs::{FileSystem, Ino, SetAttr};

const SUITE: Suite = Suite::Xaes256Gcm;
const SIZE: usize = 8832 << 10;

/// The positions of parts of a dataset's entry.
const SEQUENCE: Range<usize> = 64..72;
const SEAL: Range<usize> = 144..176;
const LOG: Range<usize> = 560..816;

/// The bytes on the device at a moment, and the durable files then.
struct Moment {
    image: Vec<u8>,
    durable: Picture,
    entry: Vec<u8>,
}

fn moment(device: &FaultDevice, files: &Dataset) -> Moment {
    let mut image = device.to_bytes();
    Moment {
        durable: look(files).unwrap(),
        entry: entry(&mut image, &mut |_, _| {}),
        image,
    }
}

fn change(files: &Dataset, ino: Ino, mode: u16, offset: u64, bytes: &[u8]) {
    let set = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    files.setattr(&ROOT_USER, ino, &set).unwrap();
    files.write(ino, offset, bytes, false).unwrap();
}

/// The moments after each commit and each sync of a dataset of three files. Snapshots keep all records.
fn moments() -> Vec<Moment> {
    let device = fault_device(SIZE, &FaultClock::new());
    let pool = create_pool(&device, Some(SUITE));
    let files = open_files(&pool, Some(SUITE), Settings::default(), 0);
    let inos = ["a", "b", "c"].map(|name| {
        let ino = create_file(&files, name).unwrap();
        files.write(ino, 0, &[1; 9000], false).unwrap();
        ino
    });
    // The second sync in a short time sets the log up.
    files.fsync(inos[0], false).unwrap();
    files.fsync(inos[0], false).unwrap();
    let mut all = Vec::new();
    for round in 0..4u8 {
        let file = |after: u8| inos[usize::from(round + after) % 3];
        let mode = 0o600 + u16::from(round);
        change(&files, file(0), mode, 0, &[round + 2; 5000]);
        snapshot(&pool, &format!("tank@{round}"));
        all.push(moment(&device, &files));
        change(&files, file(1), mode, 100, &[round + 20; 700]);
        files.fsync(file(1), false).unwrap();
        all.push(moment(&device, &files));
    }
    all
}

/// Returns the files that a program with the key shows.
fn open(image: Vec<u8>) -> Option<Picture> {
    let pool = open_image(image).ok()?;
    let id = pool.top().ok()?.id;
    let (keys, settings) = (data_keys(SUITE), Settings::default());
    let files = Dataset::open(&engine(7, 0), &pool, id, Some(keys), settings, &ROOT_USER).ok()?;
    look(files.as_ref()).ok()
}

/// Counts what was tried, and panics if a program shows what never was.
struct Judge {
    durable: Vec<Picture>,
    shown: usize,
    refused: usize,
}

impl Judge {
    fn new(moments: &[Moment]) -> Judge {
        Judge {
            durable: moments.iter().map(|m| m.durable.clone()).collect(),
            shown: 0,
            refused: 0,
        }
    }

    fn try_it(&mut self, what: &str, image: Vec<u8>) {
        match open(image) {
            None => self.refused += 1,
            Some(picture) => {
                assert!(
                    self.durable.contains(&picture),
                    "{what}: {}",
                    brief(&picture)
                );
                self.shown += 1;
            }
        }
    }
}

/// Modes, and contents as runs of equal bytes.
fn brief(picture: &Picture) -> String {
    let of = |(path, seen): (&Vec<u8>, &Seen)| {
        let runs = seen.contents.chunk_by(u8::eq);
        let runs: Vec<_> = runs.map(|run| (run[0], run.len())).collect();
        format!("{} {:o} {runs:?}", String::from_utf8_lossy(path), seen.mode)
    };
    picture.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// The newest image with parts of the entry from other moments.
fn mixed(moments: &[Moment], parts: &[(usize, Range<usize>)]) -> Vec<u8> {
    let mut image = moments.last().unwrap().image.clone();
    entry(&mut image, &mut |_, entry| {
        for (from, part) in parts {
            entry[part.clone()].copy_from_slice(&moments[*from].entry[part.clone()]);
        }
    });
    image
}

/// The parts of an entry that say what the present state is: both roots, the seal with its sequence, the log. Every
/// choice from all moments is tried.
#[test]
fn entries_of_several_moments_are_refused() {
    let moments = moments();
    let mut judge = Judge::new(&moments);
    let newest = moments.last().unwrap();
    assert_eq!(open(newest.image.clone()).as_ref(), Some(&newest.durable));
    // A sync changes no entry, so every second moment has one of its own.
    let own: Vec<usize> = (0..moments.len()).step_by(2).collect();
    let pairs = || own.iter().flat_map(|a| own.iter().map(|b| (*a, *b)));
    for ((pages, data), (seal, log)) in pairs().flat_map(|a| pairs().map(move |b| (a, b))) {
        let parts = [
            (pages, ROOTS[0].clone()),
            (data, ROOTS[1].clone()),
            (seal, SEQUENCE),
            (seal, SEAL),
            (log, LOG),
        ];
        let what = format!("pages {pages}, data {data}, seal {seal}, log {log}");
        judge.try_it(&what, mixed(&moments, &parts));
    }
    assert!(judge.shown > 0, "the newest entry opens");
    eprintln!("{} refused, {} shown", judge.refused, judge.shown);
}

/// The units of all logs that differ between moments, and what each ever held.
fn log_units(moments: &[Moment]) -> BTreeMap<usize, BTreeSet<&[u8]>> {
    let mut units: BTreeMap<usize, BTreeSet<&[u8]>> = BTreeMap::new();
    for Moment { image, entry, .. } in moments {
        for chunk in 0..number(&entry[LOG], 28, 4) {
            let run = run_of(image, &entry[LOG][64 + 16 * chunk..]);
            for at in run.step_by(UNIT) {
                let held = moments.iter().map(|moment| &moment.image[at..at + UNIT]);
                units.entry(at).or_default().extend(held);
            }
        }
    }
    units.retain(|_, held| held.len() > 1);
    units
}

/// Each state with each log that can be put together from what its units ever held.
#[test]
fn logs_of_several_moments_are_refused_or_cut() {
    let moments = moments();
    let mut judge = Judge::new(&moments);
    let units = log_units(&moments);
    let all = units.values().map(BTreeSet::len).product::<usize>();
    assert!(all > 1);
    for at in (0..moments.len()).step_by(2) {
        let parts = [ROOTS[0].clone(), ROOTS[1].clone(), SEQUENCE, SEAL, LOG];
        let image = mixed(&moments, &parts.map(|part| (at, part)));
        for choice in 0..all {
            let (mut image, mut rest) = (image.clone(), choice);
            for (unit, held) in &units {
                let held: Vec<&&[u8]> = held.iter().collect();
                image[*unit..unit + UNIT].copy_from_slice(held[rest % held.len()]);
                rest /= held.len();
            }
            judge.try_it(&format!("moment {at}, log {choice} of {all}"), image);
        }
    }
    let Judge { refused, shown, .. } = judge;
    eprintln!(
        "{all} logs of {} units: {refused} refused, {shown} shown",
        units.len()
    );
}

/// Changes a random byte of a random record or node of the dataset, its entry or its log, and makes all hashes fit.
fn forge(image: &mut [u8], dice: &mut Dice) -> String {
    let mut what = String::new();
    let flip = |bytes: &mut [u8], dice: &mut Dice| {
        let at = dice.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << dice.below(8);
        at
    };
    entry(image, &mut |image, entry| {
        let array = dice.below(3) as usize;
        let Some(root) = ROOTS.get(array) else {
            what = format!("byte {} of the entry", flip(&mut entry[..816], dice));
            return;
        };
        let mut pointer = entry[root.clone()].to_vec();
        let depth = dice.below(u64::from(level(&pointer)) + 1) as u8;
        forge_below(image, &mut pointer, depth, dice, &mut |bytes, dice| {
            what = format!(
                "byte {} at level {depth} of array {array}",
                flip(bytes, dice)
            );
        });
        entry[root.clone()].copy_from_slice(&pointer);
    });
    what
}

fn forge_below(
    image: &mut [u8],
    pointer: &mut [u8],
    depth: u8,
    dice: &mut Dice,
    change: &mut dyn FnMut(&mut [u8], &mut Dice),
) {
    let mut bytes = load(image, pointer).to_vec();
    if level(pointer) == depth {
        change(&mut bytes, dice);
    } else {
        let used = children(&bytes);
        let child = used[dice.below(used.len() as u64) as usize] * 128;
        forge_below(image, &mut bytes[child..child + 128], depth, dice, change);
    }
    store(image, pointer, &bytes);
}

#[test]
fn changes_with_fitting_hashes_are_refused_or_change_nothing() {
    let moments = moments();
    let newest = &moments[moments.len() - 1..];
    let mut judge = Judge::new(newest);
    for seed in seeds(0, 300) {
        let mut image = newest[0].image.clone();
        let what = forge(&mut image, &mut Dice(seed));
        judge.try_it(&format!("seed {seed}: {what}"), image);
    }
    let Judge { refused, shown, .. } = judge;
    assert!(refused > 0 && shown > 0);
    eprintln!("{refused} refused, {shown} shown");
}

/// All hashes fit: what the functions above compute is what the program computes.
#[test]
fn what_is_stored_again_is_as_before() {
    let moments = moments();
    let image = &moments.last().unwrap().image;
    for seed in 0..40 {
        let mut again = image.clone();
        let mut dice = Dice(seed);
        entry(&mut again, &mut |image, entry| {
            for root in ROOTS {
                let mut pointer = entry[root.clone()].to_vec();
                forge_below(image, &mut pointer, 0, &mut dice, &mut |_, _| {});
                entry[root].copy_from_slice(&pointer);
            }
        });
        assert!(again == *image, "seed {seed}");
    }
}
