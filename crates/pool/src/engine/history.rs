//! The history of a pool: each command that changed it, with its user and time, in a chain of hashes.
//!
//! Lines are appended to records of one unit. The first records stay, so that the creation of the pool can be read.
//! Of the others, only the newest stay.

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::extent::Class;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::features::FEATURE_AUDIT;
use crate::format::superblock::history_line::{
    HistoryHead, HistoryLine, HistoryRecord, KEPT_FIRST,
};
use crate::storage::array::{Overlay, walk};
use crate::storage::reader::PoolReader;
use crate::storage::writer::txg::TxgWriter;

/// The number of newest records that stay.
const KEPT_LAST: u64 = 4096;

/// The caller of a change and the command line, for the history.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// `user on host`.
    pub who: String,
    /// The user, if it is a command of one.
    pub uid: Option<u32>,
    /// The command.
    pub text: String,
}

/// Writes a line of the history with the next commit.
pub(crate) fn log(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    origin: &Origin,
    internal: Option<String>,
) {
    push(commit, state, origin, internal, 0);
}

/// Writes the line of a command that is about one dataset or snapshot, with this guid.
pub(crate) fn log_about(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    origin: &Origin,
    object: u64,
) {
    push(commit, state, origin, None, object);
}

/// Writes an internal line: an event, and its dataset.
pub(crate) fn log_internal(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    origin: &Origin,
    what: &str,
    entry: &Entry,
) {
    let line = format!("{what} {} (id {})", state.name_of(entry), entry.id);
    push(commit, state, origin, Some(line), entry.guid);
}

fn push(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    origin: &Origin,
    internal: Option<String>,
    object: u64,
) {
    let line = HistoryLine {
        time: commit.core.env.now(),
        txg: commit.txg,
        internal: internal.is_some(),
        uid: origin.uid,
        object,
        who: origin.who.clone(),
        text: internal.unwrap_or_else(|| origin.text.clone()),
    };
    state.history_waiting.push(line);
}

/// Writes a line: a dataset has a new generation of keys. For a clone, `from` is the dataset from which it has its
/// older generations.
pub(crate) fn log_rekey(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    origin: &Origin,
    dataset: u64,
    from: Option<u64>,
) {
    let mut line = format!("encryption key create: rekey succeeded dataset = {dataset}");
    if let Some(from) = from {
        line += &format!(" from dataset = {from}");
    }
    let object = state.get(dataset).map_or(0, |entry| entry.guid);
    push(commit, state, origin, Some(line), object);
}

/// Writes a line that is not a command.
pub(crate) fn log_own(commit: &TxgWriter<'_>, state: &mut DatasetTable, text: String) {
    let pool = Origin {
        who: "pool".into(),
        ..Origin::default()
    };
    log(commit, state, &pool, Some(text));
}

/// Writes the waiting lines.
pub(crate) fn sync(commit: &TxgWriter<'_>, state: &mut DatasetTable) -> Result<()> {
    let lines = std::mem::take(&mut state.history_waiting);
    if lines.is_empty() {
        return Ok(());
    }
    let disk = &commit.core.disk;
    let root = state.root.history;
    let mut slot = state.root.history_slot.get();
    let mut overlay = Overlay::default();
    let last = walk::get(disk, &root, slot)?;
    // The last record has space for more lines: it is written again with them. A record of an earlier version stays as it
    // is, and the chain begins behind it.
    let mut head = HistoryHead::default().in_slot(slot);
    let mut bytes = head.encode();
    if !last.is_empty() {
        let record = decode_record(disk, &last)?;
        match record.head {
            Some(first) => {
                (head, bytes) = (first, first.encode());
                for line in &record.lines {
                    head = head.after(line);
                    bytes.extend(line.encode());
                }
            }
            None => {
                next_slot(&mut slot, &mut overlay);
                head = head.in_slot(slot);
                bytes = head.encode();
            }
        }
    }
    for line in lines {
        let encoded = line.encode();
        if bytes.len() + encoded.len() > store::UNIT as usize {
            let full = std::mem::take(&mut bytes);
            overlay.put(slot, commit.place_record(Class::Meta, full)?);
            next_slot(&mut slot, &mut overlay);
            head = head.in_slot(slot);
            bytes = head.encode();
        }
        head = head.after(&line);
        bytes.extend(encoded);
    }
    overlay.put(slot, commit.place_record(Class::Meta, bytes)?);
    state.root.history_slot = slot.into();
    state.root.history = commit.update_pool_array(Class::Meta, &root, &overlay)?;
    state.root.features_required |= FEATURE_AUDIT;
    Ok(())
}

fn next_slot(slot: &mut u64, overlay: &mut Overlay) {
    *slot += 1;
    // The oldest record that need not stay goes for each new one.
    if let Some(oldest) = oldest_newest(*slot) {
        overlay.put(oldest - 1, RecordPtr::EMPTY);
    }
}

/// The first of the newest records that stay, if some before it were dropped. `last` is the newest one.
fn oldest_newest(last: u64) -> Option<u64> {
    let first = (last + 1).checked_sub(KEPT_LAST)?;
    (first > KEPT_FIRST).then_some(first)
}

fn decode_record(disk: &PoolReader, ptr: &RecordPtr) -> Result<HistoryRecord> {
    HistoryRecord::decode(&disk.clear_record(ptr)?)
        .ok_or_else(|| Error::inconsistent("history", "a record cannot be read"))
}

/// A line, and its place in the chain of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainedLine {
    /// The line.
    pub line: HistoryLine,
    /// The number and the hash of the line; `None` if an earlier version wrote it.
    pub place: Option<(u64, [u8; 32])>,
}

/// The history with its chain of hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryChain {
    /// All lines, the oldest first.
    pub lines: Vec<ChainedLine>,
    /// The place of the end: of the next line.
    pub head: HistoryHead,
    /// The numbers of lines that were dropped because of their age: the first one, and the first that is there again.
    pub dropped: Option<(u64, u64)>,
    /// The first contradiction. Lines after it prove nothing.
    pub fault: Option<String>,
}

/// Reads all lines, and checks their chain. `last` is the slot of the newest record.
pub(crate) fn read(disk: &PoolReader, root: &RecordPtr, last: u64) -> Result<HistoryChain> {
    let mut reader = ChainReader::new(last);
    walk::each_record(disk, root, &mut |slot, ptr| {
        reader.add(slot, decode_record(disk, ptr)?);
        Ok(())
    })?;
    Ok(reader.finish())
}

/// Checks the chain of one record after the other.
struct ChainReader {
    chain: HistoryChain,
    /// The slot of the newest record.
    last: u64,
    /// The slot of the next record.
    next: u64,
    has_begun: bool,
}

impl ChainReader {
    fn new(last: u64) -> ChainReader {
        ChainReader {
            chain: HistoryChain::default(),
            last,
            next: 0,
            has_begun: false,
        }
    }

    fn add(&mut self, slot: u64, record: HistoryRecord) {
        let may_skip = self.next == KEPT_FIRST && oldest_newest(self.last) == Some(slot);
        if slot != self.next && !may_skip {
            self.fault(format!("records {} to {} are missing", self.next, slot - 1));
        }
        self.next = slot + 1;
        let Some(head) = record.head else {
            if self.has_begun {
                self.fault(format!(
                    "record {slot} has lines without a hash after lines with one"
                ));
            }
            let lines = record.lines.into_iter();
            let lines = lines.map(|line| ChainedLine { line, place: None });
            self.chain.lines.extend(lines);
            return;
        };
        let before = self.chain.head;
        let mut expected = before.in_slot(slot);
        if may_skip {
            // The hash at the end of the first records is known across those that were dropped.
            expected.kept = before.in_slot(KEPT_FIRST).kept;
            if head.sequence > before.sequence {
                self.chain.dropped = Some((before.sequence, head.sequence));
                (expected.sequence, expected.hash) = (head.sequence, head.hash);
            }
        }
        if record.lines.is_empty() {
            self.fault(format!("record {slot} has no lines"));
        }
        if head != expected {
            self.fault(format!(
                "line {} is not the one that follows line {}",
                head.sequence,
                before.sequence.saturating_sub(1)
            ));
        }
        self.has_begun = true;
        let mut at = head;
        for line in record.lines {
            let next = at.after(&line);
            let place = Some((at.sequence, next.hash));
            self.chain.lines.push(ChainedLine { line, place });
            at = next;
        }
        self.chain.head = at;
    }

    fn fault(&mut self, text: String) {
        self.chain.fault.get_or_insert(text);
    }

    fn finish(mut self) -> HistoryChain {
        if self.next <= self.last && self.last > 0 {
            self.fault(format!(
                "records {} to {} are missing",
                self.next, self.last
            ));
        }
        self.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> HistoryLine {
        HistoryLine {
            time: number,
            txg: number,
            internal: false,
            uid: Some(1000),
            object: 7,
            who: "ann on host".into(),
            text: format!("strongroom set note:n={number} tank"),
        }
    }

    /// The record of a slot with lines behind the end of a chain, as it is on a device.
    fn record(head: &mut HistoryHead, slot: u64, lines: &[HistoryLine]) -> Vec<u8> {
        *head = head.in_slot(slot);
        let mut bytes = head.encode();
        for line in lines {
            *head = head.after(line);
            bytes.extend(line.encode());
        }
        bytes
    }

    /// Records of three lines each, from a slot on.
    fn records_from(first: u64, count: u64) -> Vec<Vec<u8>> {
        let mut head = HistoryHead::default();
        let lines = |slot: u64| [0, 1, 2].map(|at| line(3 * (slot - first) + at));
        (first..first + count)
            .map(|slot| record(&mut head, slot, &lines(slot)))
            .collect()
    }

    fn records(count: u64) -> Vec<Vec<u8>> {
        records_from(0, count)
    }

    fn read(records: &[(u64, Vec<u8>)], last: u64) -> HistoryChain {
        let mut reader = ChainReader::new(last);
        for (slot, bytes) in records {
            reader.add(*slot, HistoryRecord::decode(bytes).unwrap());
        }
        reader.finish()
    }

    fn numbered(records: Vec<Vec<u8>>) -> Vec<(u64, Vec<u8>)> {
        (0..).zip(records).collect()
    }

    #[test]
    fn a_whole_chain_has_no_fault() {
        let whole = read(&numbered(records(4)), 3);
        assert_eq!((whole.fault, whole.dropped), (None, None));
        assert_eq!((whole.lines.len(), whole.head.sequence), (12, 12));
        assert_eq!(whole.lines[11].place.unwrap().1, whole.head.hash);
        assert_eq!(read(&[], 0).fault, None);
    }

    #[test]
    fn lines_that_are_removed_or_moved_are_found() {
        let fault = |change: fn(&mut Vec<(u64, Vec<u8>)>)| {
            let mut all = numbered(records(4));
            change(&mut all);
            read(&all, 3).fault.unwrap_or_default()
        };
        assert!(fault(|all| drop(all.remove(1))).contains("records 1 to 1 are missing"));
        assert!(fault(|all| drop(all.remove(3))).contains("records 3 to 3 are missing"));
        assert!(fault(|all| drop(all.remove(0))).contains("records 0 to 0 are missing"));
        let swap = |all: &mut Vec<(u64, Vec<u8>)>| {
            let other = all[1].1.clone();
            all[1].1 = std::mem::replace(&mut all[2].1, other);
        };
        assert!(fault(swap).contains("line 6 is not the one that follows line 2"));
        // A line at the end of a record, of which the next record knows.
        let cut = |all: &mut Vec<(u64, Vec<u8>)>| {
            let len = all[1].1.len() - line(5).encode().len();
            all[1].1.truncate(len);
        };
        assert!(fault(cut).contains("line 6 is not the one that follows line 4"));
        // One without a hash.
        let unchained = |all: &mut Vec<(u64, Vec<u8>)>| all[2].1 = Vec::new();
        assert!(fault(unchained).contains("without a hash"));
    }

    #[test]
    fn each_flipped_bit_is_found_or_gives_another_hash() {
        let whole = read(&numbered(records(2)), 1);
        for slot in 0..2 {
            for at in 0..8 * records(2)[slot].len() {
                let mut all = numbered(records(2));
                all[slot].1[at / 8] ^= 1 << (at % 8);
                let mut reader = ChainReader::new(1);
                let decoded = all.iter().map(|(_, bytes)| HistoryRecord::decode(bytes));
                let Some(decoded) = decoded.collect::<Option<Vec<_>>>() else {
                    continue;
                };
                (0..)
                    .zip(decoded)
                    .for_each(|(slot, record)| reader.add(slot, record));
                let found = reader.finish();
                let is_same = found.fault.is_none() && found.head == whole.head;
                assert!(!is_same, "bit {at} of record {slot}");
            }
        }
    }

    /// Records of an earlier version come first, and old records are dropped.
    #[test]
    fn a_chain_may_begin_late_and_lack_its_middle() {
        let earlier = [&[1; 1][..], &[0; 17], &[2, 0], b"up", &[2, 0], b"to"].concat();
        let mut later: Vec<(u64, Vec<u8>)> = vec![(0, earlier)];
        later.extend((1..).zip(records_from(1, 2)));
        let found = read(&later, 2);
        assert_eq!((found.fault, found.lines.len()), (None, 7));
        assert_eq!((found.lines[0].place, found.head.sequence), (None, 6));

        let all = numbered(records(KEPT_FIRST + KEPT_LAST + 9));
        let last = all.len() as u64 - 1;
        let is_kept = |slot: u64| slot < KEPT_FIRST || slot > last - KEPT_LAST;
        let mut kept = all.clone();
        kept.retain(|(slot, _)| is_kept(*slot));
        let found = read(&kept, last);
        let first = 3 * (last + 1 - KEPT_LAST);
        assert_eq!(
            (found.fault, found.dropped),
            (None, Some((3 * KEPT_FIRST, first)))
        );
        assert_eq!(found.head, read(&all, last).head);
        // One more is missing than may be.
        let mut fewer = kept.clone();
        fewer.remove(KEPT_FIRST as usize);
        assert!(read(&fewer, last).fault.is_some());

        // The first records are changed, with right hashes; or an earlier version seems to have written them.
        let mut head = HistoryHead::default();
        for slot in 0..KEPT_FIRST {
            kept[slot as usize].1 = record(&mut head, slot, &[line(slot), line(99), line(7)]);
        }
        assert!(read(&kept, last).fault.unwrap().contains("not the one"));
        (0..KEPT_FIRST as usize).for_each(|slot| kept[slot].1 = later[0].1.clone());
        assert!(read(&kept, last).fault.unwrap().contains("not the one"));
    }

    /// Lines of a young history that are moved behind the records that are dropped, to hide others.
    #[test]
    fn lines_cannot_be_made_to_seem_old() {
        let young = numbered(records(KEPT_FIRST + 2));
        let newest = read(&young, KEPT_FIRST + 1).lines.pop().unwrap();
        let last = KEPT_FIRST + KEPT_LAST + 5;
        let first = oldest_newest(last).unwrap();
        let moved = |in_place: bool, lines: &[HistoryLine]| {
            let mut all = young[..KEPT_FIRST as usize].to_vec();
            let record_of = |bytes: &[u8]| HistoryRecord::decode(bytes).unwrap();
            let hidden = record_of(&young[KEPT_FIRST as usize + 1].1);
            let mut head = hidden.head.unwrap();
            let bytes = record(&mut head, first, &hidden.lines);
            all.push((first, bytes));
            if !in_place {
                all.last_mut().unwrap().1 = young[KEPT_FIRST as usize + 1].1.clone();
            }
            all.extend((first + 1..=last).map(|slot| (slot, record(&mut head, slot, lines))));
            read(&all, last)
        };
        let found = moved(true, &[line(1)]);
        assert_eq!(found.fault, None);
        let has_newest = found.lines.iter().any(|line| line.place == newest.place);
        assert!(!has_newest, "its hash says where it was");
        assert!(
            moved(false, &[line(1)])
                .fault
                .unwrap()
                .contains("not the one")
        );
        assert!(moved(true, &[]).fault.unwrap().contains("has no lines"));
    }
}
