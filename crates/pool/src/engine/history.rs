//! The history of a pool: each command that changed it, with its user and time.
//!
//! Lines are appended to records of one unit. The first records stay, so that the creation of the pool can be read.
//! Of the others, only the newest stay.

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::extent::Class;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::history_line::{HistoryLine, decode};
use crate::storage::array::{Overlay, walk};
use crate::storage::reader::PoolReader;
use crate::storage::writer::txg::TxgWriter;

/// The number of first records that stay.
const KEPT_FIRST: u64 = 4;
/// The number of newest records that stay.
const KEPT_LAST: u64 = 4096;

/// The caller of a change and the command line, for the history.
#[derive(Clone, Debug)]
pub struct Origin {
    /// `user on host`.
    pub who: String,
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
    let line = HistoryLine {
        time: commit.core.env.now(),
        txg: commit.txg,
        internal: internal.is_some(),
        who: origin.who.clone(),
        text: internal.unwrap_or_else(|| origin.text.clone()),
    };
    state.history_waiting.push(line);
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
    log(commit, state, origin, Some(line));
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
    log(commit, state, origin, Some(line));
}

/// Writes a line that is not a command.
pub(crate) fn log_own(commit: &TxgWriter<'_>, state: &mut DatasetTable, text: String) {
    let pool = Origin {
        who: "pool".into(),
        text: String::new(),
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
    // The last record has space for more lines: it is written again with them.
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
                // The oldest record that need not stay goes for each new one.
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

fn decode_record(disk: &PoolReader, ptr: &RecordPtr) -> Result<Vec<HistoryLine>> {
    decode(&disk.clear_record(ptr)?)
        .ok_or_else(|| Error::inconsistent("history", "a record cannot be read"))
}

/// All lines, the oldest first.
pub(crate) fn read(disk: &PoolReader, root: &RecordPtr) -> Result<Vec<HistoryLine>> {
    let mut all = Vec::new();
    walk::each_record(disk, root, &mut |_, ptr| {
        all.extend(decode_record(disk, ptr)?);
        Ok(())
    })?;
    Ok(all)
}
