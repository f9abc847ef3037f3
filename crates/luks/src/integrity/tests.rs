//! Power and devices fail while blocks are written with their tags. The next open finds each block with
//! its own tag, and no block older than its last durable state.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::fault::{Fault, FaultClock, FaultDevice, images};
use block::{BlockDevice, MemoryDevice};

use super::superblock::{SUPERBLOCK_LEN, TagLayout, TagSuperblock};
use super::tagged_device::{TagMode, TaggedDevice};
use crate::{Error, Result};

const BLOCKS: u64 = 40;
const START: u64 = 4096;

/// Small sections (8 blocks) and areas (8 blocks), with tags that lie across sectors.
const TAG_LEN: usize = 420;
const BLOCK: usize = 512;

fn device(sections: u32) -> Vec<u8> {
    let superblock = TagSuperblock {
        interleave_log2: 3,
        tag_len: TAG_LEN as u16,
        journal_sections: sections,
        data_len: BLOCKS,
        fixed_padding: true,
        block_log2: 0,
    };
    let len = START as usize + SUPERBLOCK_LEN + sections as usize * 8192 + 5 * (4096 + 4096);
    let layout = TagLayout::new(&superblock, START, len as u64).unwrap();
    let mut bytes = vec![0xaa; len];
    bytes[START as usize..START as usize + SUPERBLOCK_LEN].copy_from_slice(&superblock.encode());
    for section in 0..sections {
        let mut empty = Vec::new();
        layout
            .section
            .encode(section, 0, std::iter::empty(), &mut empty);
        let at = layout.section_at(section) as usize;
        bytes[at..at + empty.len()].copy_from_slice(&empty);
    }
    bytes
}

fn open(device: &Arc<FaultDevice>, mode: TagMode) -> Result<TaggedDevice> {
    let device = Arc::clone(device) as Arc<dyn BlockDevice>;
    TaggedDevice::open(device, START, TAG_LEN, BLOCK, mode)
}

fn reopen(image: Vec<u8>) -> Arc<FaultDevice> {
    Arc::new(FaultDevice::from_bytes(image, &FaultClock::new()))
}

/// Returns the contents of a block and its tag in a version; all bytes of both name the version.
fn content(block: u64, version: u8) -> (Vec<u8>, Vec<u8>) {
    let byte = version ^ (block as u8) << 3;
    (vec![byte; BLOCK], vec![byte ^ 0xff; TAG_LEN])
}

fn write(tagged: &TaggedDevice, first: u64, count: u64, version: u8) -> block::Result<()> {
    let blocks = (first..first + count).map(|block| content(block, version));
    let (data, tags): (Vec<_>, Vec<_>) = blocks.unzip();
    tagged.write(first, &data.concat(), &tags.concat())
}

/// The version in which each block is found; a block whose parts are of different versions is a failure.
fn versions(tagged: &TaggedDevice, when: &str) -> Vec<u8> {
    let (mut data, mut tags) = (vec![0; BLOCKS as usize * BLOCK], Vec::new());
    tagged.read(0, &mut data, &mut tags).unwrap();
    let parts = data.chunks_exact(BLOCK).zip(tags.chunks_exact(TAG_LEN));
    let found = (0..).zip(parts).map(|(block, (data, tag))| {
        let version = data[0] ^ (block as u8) << 3;
        let whole = content(block, version) == (data.to_vec(), tag.to_vec());
        assert!(whole, "block {block} is torn {when}");
        version
    });
    found.collect()
}

/// The versions that were written and that were durable, by time.
#[derive(Default)]
struct History {
    /// By the time before which it was done: each block's version.
    written: BTreeMap<u64, Vec<u8>>,
    durable: BTreeMap<u64, Vec<u8>>,
}

/// Writes everything once, then here and there in pieces, with flushes now and then.
fn run(tagged: &TaggedDevice, clock: &FaultClock, history: &mut History) -> block::Result<()> {
    let mut now = vec![1; BLOCKS as usize];
    write(tagged, 0, BLOCKS, 1)?;
    tagged.flush()?;
    history.durable.insert(clock.now(), now.clone());
    for version in 2..24u8 {
        let first = u64::from(version) * 7 % BLOCKS;
        let count = (1 + u64::from(version) * 5 % 13).min(BLOCKS - first);
        now[first as usize..(first + count) as usize].fill(version);
        history.written.insert(clock.now(), now.clone());
        write(tagged, first, count, version)?;
        if version % 3 == 0 {
            tagged.flush()?;
            history.durable.insert(clock.now(), now.clone());
        }
    }
    tagged.flush()
}

#[test]
fn blocks_are_not_torn_from_their_tags() {
    for sections in [1, 2, 5] {
        let clock = FaultClock::new();
        let device = Arc::new(FaultDevice::from_bytes(device(sections), &clock));
        let mut history = History::default();
        let tagged = open(&device, TagMode::Journal).unwrap();
        run(&tagged, &clock, &mut history).unwrap();
        drop(tagged);
        let journal = device.take_journal();
        let first_flush = *history.durable.keys().next().unwrap();
        for cut in first_flush..=clock.now() {
            let (_, oldest) = history.durable.range(..=cut).next_back().unwrap();
            let newest = history.written.range(..cut).next_back();
            let newest = newest.map_or(oldest, |(_, versions)| versions);
            for (seed, image) in images(&journal, cut, 0..6).into_iter().enumerate() {
                let when = format!("{sections} sections, cut before {cut}, seed {seed}");
                let after = reopen(image);
                let opened =
                    open(&after, TagMode::Journal).unwrap_or_else(|e| panic!("{when}: {e}"));
                let found = versions(&opened, &when);
                for (block, version) in found.iter().enumerate() {
                    let range = oldest[block]..=newest[block];
                    assert!(range.contains(version), "block {block}, {when}: {version}");
                }
                drop(opened);
                let again = open(&after, TagMode::ReadOnly).expect("the journal is empty");
                assert_eq!(versions(&again, &when), found, "{when}");
            }
        }
    }
}

/// The power fails again while the journal is being carried out or emptied.
#[test]
fn carrying_out_may_be_interrupted() {
    let clock = FaultClock::new();
    let base = device(5);
    let written = Arc::new(FaultDevice::from_bytes(base, &clock));
    let mut history = History::default();
    let tagged = open(&written, TagMode::Journal).unwrap();
    run(&tagged, &clock, &mut history).unwrap();
    let end = clock.now();
    std::mem::forget(tagged);
    let journal = written.take_journal();
    // Of the last commit only the journal has arrived, or not all of it.
    for back in [2, 6, 14] {
        for image in images(&journal, end - back, 0..4) {
            let clock = FaultClock::new();
            let device = Arc::new(FaultDevice::from_bytes(image, &clock));
            let opened = open(&device, TagMode::Journal).unwrap();
            let expected = versions(&opened, "at first");
            drop(opened);
            let journal = device.take_journal();
            for cut in 0..=clock.now() {
                for image in images(&journal, cut, 0..3) {
                    let opened = open(&reopen(image), TagMode::Journal).unwrap();
                    let when = format!("cut before {cut} of what is {back} back");
                    assert_eq!(versions(&opened, &when), expected, "{when}");
                }
            }
        }
    }
}

/// A device that fails from some event on: what was durable is there when it works again, and what waits
/// is written then if the device is still open.
#[test]
fn a_device_that_fails_loses_nothing_that_was_durable() {
    for at in (0..400).step_by(3) {
        let clock = FaultClock::new();
        let device = Arc::new(FaultDevice::from_bytes(device(5), &clock));
        let mut history = History::default();
        let tagged = open(&device, TagMode::Journal).unwrap();
        device.inject(Fault::DeadFrom(at));
        let ran = run(&tagged, &clock, &mut history);
        device.heal();
        let when = format!("dead from {at}");
        let found = match history.durable.values().next_back() {
            None => continue,
            Some(durable) if at % 2 == 0 => {
                std::mem::forget(tagged);
                let opened = open(&device, TagMode::Journal).unwrap();
                let found = versions(&opened, &when);
                assert!(found.iter().zip(durable).all(|(f, d)| f >= d), "{when}");
                found
            }
            Some(durable) => {
                tagged.flush().unwrap();
                let found = versions(&tagged, &when);
                assert!(found.iter().zip(durable).all(|(f, d)| f >= d), "{when}");
                drop(tagged);
                let opened = open(&device, TagMode::ReadOnly).unwrap();
                assert_eq!(versions(&opened, &when), found, "{when}");
                found
            }
        };
        let all = history.written.values().next_back();
        assert!(ran.is_err() || Some(&found) == all, "{when}");
    }
}

/// A section that arrived and was said to have failed is not written again with something else in it: half
/// of either would look whole.
#[test]
fn a_commit_that_failed_is_tried_again_as_it_was() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::from_bytes(device(5), &clock));
    let tagged = open(&device, TagMode::Journal).unwrap();
    write(&tagged, 0, BLOCKS, 1).unwrap();
    tagged.flush().unwrap();
    write(&tagged, 0, 8, 2).unwrap();
    // The ring is flushed before it begins again, the section is written, and not flushed.
    let before = clock.now();
    device.inject(Fault::DeadFrom(before + 2));
    tagged.flush().expect_err("the journal is not durable");
    assert_eq!(clock.now(), before + 3, "the section has arrived");
    device.heal();
    device.take_journal();
    let begin = clock.now();
    write(&tagged, 0, 8, 3).unwrap();
    assert_eq!(versions(&tagged, "while it waits")[..8], [3; 8]);
    tagged.flush().unwrap();
    drop(tagged);
    let journal = device.take_journal();
    for cut in begin..=clock.now() {
        for image in images(&journal, cut, 0..12) {
            let opened = open(&reopen(image), TagMode::Journal).unwrap();
            let found = versions(&opened, &format!("cut before {cut}"));
            assert!(found[..8].iter().all(|v| (2..=3).contains(v)), "{found:?}");
        }
    }
}

/// A journal of earlier writes does not undo later writes in place.
#[test]
fn a_journal_is_emptied_before_it_is_gone_around() {
    let device = reopen(device(5));
    let journaled = open(&device, TagMode::Journal).unwrap();
    write(&journaled, 0, BLOCKS, 1).unwrap();
    journaled.flush().unwrap();
    std::mem::forget(journaled);
    let direct = open(&device, TagMode::Direct).unwrap();
    write(&direct, 3, 20, 2).unwrap();
    direct.flush().unwrap();
    drop(direct);
    let found = versions(&open(&device, TagMode::Journal).unwrap(), "afterwards");
    assert_eq!(found[2..24], [vec![1], vec![2; 20], vec![1]].concat());
}

#[test]
fn a_journal_that_is_not_empty_is_not_passed_over() {
    let device = reopen(device(5));
    let tagged = open(&device, TagMode::Journal).unwrap();
    write(&tagged, 0, 1, 1).unwrap();
    tagged.flush().unwrap();
    std::mem::forget(tagged);
    let refused = open(&device, TagMode::ReadOnly).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    assert!(refused.to_string().contains("for writing"), "{refused}");
}

#[test]
fn damage_is_told_from_everything_else() {
    let damaged = |at: usize| {
        let mut bytes = device(2);
        bytes[at] ^= 1;
        open(&reopen(bytes), TagMode::Journal).map(drop)
    };
    let start = START as usize;
    for at in [start, start + 13, start + SUPERBLOCK_LEN + 511] {
        let refused = damaged(at).unwrap_err();
        assert!(
            matches!(refused, Error::Integrity { .. }),
            "{at}: {refused}"
        );
    }
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(device(2)));
    for (tag_len, block) in [(TAG_LEN, 4096), (32, BLOCK)] {
        let other =
            TaggedDevice::open(Arc::clone(&device), START, tag_len, block, TagMode::Journal);
        let refused = other.map(drop).unwrap_err();
        assert!(matches!(refused, Error::Integrity { .. }), "{refused}");
    }
    let late = TaggedDevice::open(device, 1 << 40, TAG_LEN, BLOCK, TagMode::Journal);
    assert!(matches!(late, Err(Error::TooSmall { .. })));
}
