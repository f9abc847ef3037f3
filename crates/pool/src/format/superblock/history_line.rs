//! The lines of the history: what was done to the pool, by whom and when.
//!
//! Each line has a number and a hash, which is over the line and the hash of the line before. So a line that is removed,
//! changed or moved gives all later lines other hashes. A record begins with the number of its first line and the hash
//! before it: the records between the first and the newest ones are dropped after some time. The hash at the end of the
//! first records is in all later ones, and so are their slots: the first ones cannot be changed, and others not dropped
//! earlier.

use crate::format::codec::{ValueReader, ValueWriter};

/// The number of first records that are never dropped.
pub(crate) const KEPT_FIRST: u64 = 4;
/// A user and a text are cut at this many bytes: a record has space for one line.
const TEXT_MAX: usize = 1900;

/// A line without a number and a hash, of an earlier version.
const UNCHAINED: u8 = 1;
/// A line with a number and a hash.
const CHAINED: u8 = 2;
/// The begin of a record with chained lines.
const HEAD: u8 = 3;

/// The uid of a line without a user.
const NO_UID: u32 = u32::MAX;

/// The place of the end of the history in the chain: the number of lines before it, and the hash of the last of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryHead {
    /// The number that the next line gets. The first line has the number 0.
    pub sequence: u64,
    /// The hash of the line before; zeros before the first one.
    pub hash: [u8; 32],
    /// The slot of the record.
    pub slot: u64,
    /// The hash at the end of the records that are never dropped; zeros in these.
    pub kept: [u8; 32],
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group that did it.
    pub txg: u64,
    /// True if it is what the pool did by itself, and not a command.
    pub internal: bool,
    /// The user of the command, if there is one.
    pub uid: Option<u32>,
    /// The guid of the dataset or snapshot that it is about; 0 if it is about several, or the pool.
    pub object: u64,
    /// The user, as `user on host`.
    pub who: String,
    /// The text of the line.
    pub text: String,
}

/// The lines of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistoryRecord {
    /// The place of its first line in the chain; `None` if an earlier version wrote the record.
    pub(crate) head: Option<HistoryHead>,
    pub(crate) lines: Vec<HistoryLine>,
}

impl HistoryHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u8(HEAD).u64(self.sequence).value(&self.hash);
        w.u64(self.slot).value(&self.kept);
        w.bytes
    }

    /// The same place, at the begin of the record in a slot.
    pub(crate) fn in_slot(self, slot: u64) -> HistoryHead {
        HistoryHead {
            slot,
            kept: match slot == KEPT_FIRST {
                true => self.hash,
                false => self.kept,
            },
            ..self
        }
    }

    /// The place after a line.
    pub(crate) fn after(&self, line: &HistoryLine) -> HistoryHead {
        let mut hasher = blake3::Hasher::new_derive_key("strongroom 2026-11 history line v1");
        hasher.update(&self.sequence.to_le_bytes());
        hasher.update(&self.hash);
        hasher.update(&self.slot.to_le_bytes());
        hasher.update(&self.kept).update(&line.encode());
        HistoryHead {
            sequence: self.sequence.saturating_add(1),
            hash: hasher.finalize().into(),
            ..*self
        }
    }
}

impl HistoryLine {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u8(CHAINED).u64(self.time).u64(self.txg);
        w.u8(self.internal.into());
        w.u32(self.uid.unwrap_or(NO_UID)).u64(self.object);
        w.text(cut(&self.who)).text(cut(&self.text));
        w.bytes
    }

    fn decode(r: &mut ValueReader<'_>, is_chained: bool) -> Option<HistoryLine> {
        let (time, txg) = (r.u64()?, r.u64()?);
        let internal = match (r.u8()?, is_chained) {
            // Another value would not give the same hash when it is written again.
            (2.., true) => return None,
            (value, _) => value != 0,
        };
        let (uid, object) = match is_chained {
            true => (Some(r.u32()?), r.u64()?),
            false => (None, 0),
        };
        Some(HistoryLine {
            time,
            txg,
            internal,
            uid: uid.filter(|uid| *uid != NO_UID),
            object,
            who: r.text()?,
            text: r.text()?,
        })
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

impl HistoryRecord {
    /// Decodes a record. The first 0 ends it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<HistoryRecord> {
        let mut r = ValueReader::new(bytes);
        let mut record = HistoryRecord {
            head: None,
            lines: Vec::new(),
        };
        while !r.is_at_end() {
            match (r.u8()?, &record.head) {
                (0, _) => break,
                (UNCHAINED, None) => record.lines.push(HistoryLine::decode(&mut r, false)?),
                (CHAINED, Some(_)) => record.lines.push(HistoryLine::decode(&mut r, true)?),
                (HEAD, None) if record.lines.is_empty() => {
                    record.head = Some(HistoryHead {
                        sequence: r.u64()?,
                        hash: r.value()?,
                        slot: r.u64()?,
                        kept: r.value()?,
                    });
                }
                _ => return None,
            }
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> HistoryLine {
        HistoryLine {
            time: 1,
            txg: 2,
            internal: true,
            uid: Some(1000),
            object: 7,
            who: "root on host".into(),
            text: text.into(),
        }
    }

    #[test]
    fn lines_round_trip_and_decoding_is_total() {
        let head = HistoryHead {
            sequence: 3,
            hash: [9; 32],
            slot: 5,
            kept: [8; 32],
        };
        let mut bytes = head.encode();
        bytes.extend(line("create").encode());
        bytes.extend(line("snapshot").encode());
        let len = bytes.len();
        bytes.resize(4096, 0);
        let whole = HistoryRecord {
            head: Some(head),
            lines: vec![line("create"), line("snapshot")],
        };
        assert_eq!(HistoryRecord::decode(&bytes), Some(whole));
        for cut in 1..len {
            let _ = HistoryRecord::decode(&bytes[..cut]);
            let mut bad = bytes.clone();
            bad[cut] ^= 0x55;
            let _ = HistoryRecord::decode(&bad);
        }
        assert_eq!(cut(&"é".repeat(2000)).len(), TEXT_MAX);
        // The longest line has space in a record.
        let mut longest = line(&"x".repeat(TEXT_MAX));
        longest.who = "x".repeat(TEXT_MAX);
        assert!(head.encode().len() + longest.encode().len() < store::UNIT as usize);
    }

    #[test]
    fn lines_of_the_first_version_are_read() {
        let mut w = ValueWriter::default();
        w.u8(1)
            .u64(5)
            .u64(6)
            .u8(0)
            .text("ann on host")
            .text("create");
        let record = HistoryRecord::decode(&w.bytes).unwrap();
        assert_eq!(record.head, None);
        let read = &record.lines[0];
        assert_eq!(
            (read.uid, &*read.who, &*read.text),
            (None, "ann on host", "create")
        );
        // Lines of both kinds are not in one record.
        w.bytes.extend(line("x").encode());
        assert_eq!(HistoryRecord::decode(&w.bytes), None);
        assert_eq!(HistoryRecord::decode(&line("x").encode()), None);
    }

    #[test]
    fn each_part_of_a_line_and_its_place_are_in_its_hash() {
        let head = HistoryHead::default();
        let hash = head.after(&line("create")).hash;
        let change = |change: fn(&mut HistoryLine)| {
            let mut other = line("create");
            change(&mut other);
            head.after(&other).hash
        };
        let changes: [fn(&mut HistoryLine); 7] = [
            |line| line.time = 0,
            |line| line.txg = 0,
            |line| line.internal = false,
            |line| line.uid = None,
            |line| line.object = 0,
            |line| line.who.push('x'),
            |line| line.text.push('x'),
        ];
        for (number, each) in changes.into_iter().enumerate() {
            assert_ne!(change(each), hash, "{number}");
        }
        let (other, zeros) = ([1; 32], [0; 32]);
        for (sequence, before, slot, kept) in [
            (1, zeros, 0, zeros),
            (0, other, 0, zeros),
            (0, zeros, 1, zeros),
            (0, zeros, 0, other),
        ] {
            let moved = HistoryHead {
                sequence,
                hash: before,
                slot,
                kept,
            };
            assert_ne!(moved.after(&line("create")).hash, hash, "{moved:?}");
        }
        assert_ne!(head.after(&line("x")).after(&line("create")).hash, hash);
    }
}
