//! Entries for fuzz targets: the decoders of objects.

use std::collections::BTreeMap;

use crate::line::checkpoint;
use crate::line::history::LineHistory;
use crate::line::log_object::{self, EndOf, LineEntry};
use crate::line::pool_object::DeviceFacts;
use crate::line::replay::replay;

/// Reads bytes as an object, whose kind and repairs `how` gives: checksums and magic numbers are made right, or not.
///
/// # Panics
/// A decoder and its encoder do not agree.
pub fn read(how: u8, bytes: &[u8]) {
    let is_repaired = how & 4 == 0;
    let mut bytes = bytes.to_vec();
    match how & 3 {
        0 => {
            if is_repaired {
                checkpoint::repair(&mut bytes);
            }
            read_checkpoint(&bytes);
        }
        1 => {
            if is_repaired {
                DeviceFacts::repair(&mut bytes);
            }
            if let Ok(facts) = DeviceFacts::decode(&bytes) {
                assert_eq!(facts.encode(), bytes);
            }
        }
        _ => {
            let size = match is_repaired {
                true => log_object::repair(&mut bytes),
                false => bytes.len() as u64,
            };
            if let Ok(EndOf::Entry(entry)) = LineEntry::read(&bytes, size) {
                continue_line(entry, size);
            }
        }
    }
}

fn read_checkpoint(bytes: &[u8]) {
    let Some((device, number)) = checkpoint::identity(bytes) else {
        return;
    };
    if let Ok(history) = checkpoint::decode(bytes, device, number) {
        let again = checkpoint::encode(&history, device);
        assert_eq!(
            checkpoint::decode(&again, device, number),
            Ok(history.clone())
        );
        overwrite_extent(history, device);
    }
}

/// Continues the state of a checkpoint with an object that overwrites the beginning of its first extent.
fn overwrite_extent(history: LineHistory, device: [u8; 16]) {
    check_pieces(&history);
    let number = history.last + 1;
    let mut entry = LineEntry {
        number,
        device,
        first: number,
        after: number - 1,
        ..LineEntry::sample(64)
    };
    entry.runs.iter_mut().for_each(|run| run.origin = number);
    if let (Some(run), Some((offset, ..))) = (entry.runs.first_mut(), history.map.iter().next()) {
        run.offset = offset.min(u64::MAX - run.len);
    }
    let size = log_object::OBJECT_MAX;
    let entries = BTreeMap::from([(number, (entry, size))]);
    if let Ok(history) = replay(history, device, &entries, 64) {
        check_pieces(&history);
    }
}

/// Checks that each piece of the map lies in its object, if that is there.
fn check_pieces(history: &LineHistory) {
    for piece in history.map.pieces(0..u64::MAX) {
        let stored = piece.source.and_then(|is| Some((is.object, is.at?)));
        if let Some((object, at)) = stored {
            assert!(object <= history.last, "no writer makes it later");
            let size = history.objects.get(&object).map(|is| is.size);
            assert!(size.is_none_or(|size| u64::from(at) + piece.len <= size));
        }
    }
}

/// Continues an empty line with an object twice.
fn continue_line(entry: LineEntry, size: u64) {
    let number = entry.number.clamp(1, 1 << 40);
    let first = LineEntry { number, ..entry };
    let second = LineEntry {
        number: number + 1,
        ..first.clone()
    };
    let device = first.device;
    let entries: BTreeMap<_, _> = [first, second]
        .into_iter()
        .map(|entry| (entry.number, (entry, size)))
        .collect();
    let _ = replay(LineHistory::default(), device, &entries, 64);
}

/// Real objects, each with a first byte for [`read`].
pub fn samples() -> Vec<Vec<u8>> {
    let mut log = vec![7; 64];
    let entry = LineEntry::sample(64);
    entry.seal(&mut log);
    let mut history = LineHistory::default();
    history.enter(&entry, log.len() as u64);
    let facts = DeviceFacts::new([7; 16], 1 << 44, 1 << 20);
    [
        (0, checkpoint::encode(&history, [7; 16])),
        (1, facts.encode()),
        (2, log),
    ]
    .into_iter()
    .map(|(how, bytes)| [&[how], &bytes[..]].concat())
    .collect()
}
