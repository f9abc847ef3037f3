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
        assert_eq!(checkpoint::decode(&again, device, number), Ok(history));
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
    let history = LineHistory::default();
    let mut log = vec![7; 64];
    LineEntry::sample(64).seal(&mut log);
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
