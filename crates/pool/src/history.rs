//! What was done to the pool, by whom and when.
//!
//! Lines are appended to records of one unit. The first records are kept for ever, so that the
//! pool's creation can be read; of the others, the last ones.

use crate::array::{Overlay, walk};
use crate::commit::Commit;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::layout::RecordPtr;
use crate::space::Class;
use crate::state::State;
use crate::wire::{Reader, Writer};

/// Records kept from the beginning,
const KEPT_FIRST: u64 = 4;
/// and from the end.
const KEPT_LAST: u64 = 4096;
/// A line is cut at this many bytes.
const TEXT_MAX: usize = 2000;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLine {
    /// Seconds since 1970.
    pub time: u64,
    /// The transaction group that did it.
    pub txg: u64,
    /// Whether it is what someone typed, or what the pool did to carry it out.
    pub internal: bool,
    /// Who, as `user on host`.
    pub who: String,
    /// What.
    pub text: String,
}

impl HistoryLine {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(1)
            .u64(self.time)
            .u64(self.txg)
            .u8(self.internal.into());
        w.text(cut(&self.who)).text(cut(&self.text));
        w.bytes
    }

    fn decode(r: &mut Reader<'_>) -> Option<HistoryLine> {
        Some(HistoryLine {
            time: r.u64()?,
            txg: r.u64()?,
            internal: r.u8()? != 0,
            who: r.text()?,
            text: r.text()?,
        })
    }
}

fn cut(text: &str) -> &str {
    let mut len = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// The lines of a record: each begins with a 1, the first 0 ends them.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<HistoryLine>> {
    let mut r = Reader::new(bytes);
    let mut lines = Vec::new();
    while !r.is_at_end() {
        match r.u8()? {
            0 => break,
            1 => lines.push(HistoryLine::decode(&mut r)?),
            _ => return None,
        }
    }
    Some(lines)
}

/// Writes the lines that wait.
pub(crate) fn sync(commit: &Commit<'_>, state: &mut State) -> Result<()> {
    let lines = std::mem::take(&mut state.history_waiting);
    if lines.is_empty() {
        return Ok(());
    }
    let disk = &commit.shared.disk;
    let root = state.root.history;
    let mut slot = state.root.history_slot.get();
    let mut overlay = Overlay::default();
    let last = walk::get(disk, &root, slot)?;
    let mut bytes = Vec::new();
    if !last.is_empty() {
        for line in decode_record(disk, &last)? {
            bytes.extend(line.encode());
        }
    }
    for line in lines {
        let line = line.encode();
        if bytes.len() + line.len() > store::UNIT as usize {
            let full = std::mem::take(&mut bytes);
            overlay.put(slot, commit.place_record(Class::Meta, full)?);
            slot += 1;
            if slot >= KEPT_FIRST + KEPT_LAST {
                overlay.put(slot - KEPT_LAST, RecordPtr::EMPTY);
            }
        }
        bytes.extend(line);
    }
    overlay.put(slot, commit.place_record(Class::Meta, bytes)?);
    state.root.history_slot = slot.into();
    state.root.history = commit.update_pool_array(Class::Meta, &root, &overlay)?;
    Ok(())
}

fn decode_record(disk: &Disk, ptr: &RecordPtr) -> Result<Vec<HistoryLine>> {
    decode(&disk.clear_record(ptr)?)
        .ok_or_else(|| Error::inconsistent("history", "a record cannot be read"))
}

/// All lines, the oldest first.
pub(crate) fn read(disk: &Disk, root: &RecordPtr) -> Result<Vec<HistoryLine>> {
    let mut all = Vec::new();
    walk::each_record(disk, root, &mut |_, ptr| {
        all.extend(decode_record(disk, ptr)?);
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_and_decoding_is_total() {
        let line = |text: &str| HistoryLine {
            time: 1,
            txg: 2,
            internal: true,
            who: "root on host".into(),
            text: text.into(),
        };
        let mut bytes = line("create").encode();
        bytes.extend(line("snapshot").encode());
        let len = bytes.len();
        bytes.resize(4096, 0);
        assert_eq!(decode(&bytes), Some(vec![line("create"), line("snapshot")]));
        for cut in 1..len {
            let _ = decode(&bytes[..cut]);
            let mut bad = bytes.clone();
            bad[cut] ^= 0x55;
            let _ = decode(&bad);
        }
        assert_eq!(cut(&"é".repeat(2000)).len(), TEXT_MAX);
    }
}
