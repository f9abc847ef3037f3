//! Seals over a dataset in a commit. The key holder makes them, because the pool has no key.

use crate::engine::datasets::facts;
use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::seal_input::SealInput;
use crate::format::superblock::features::FEATURE_SEAL_HISTORY;

/// Makes the seal for a snapshot that moves to another dataset. Gets the old entry, and the data that the new seal
/// covers.
pub type Reseal =
    Box<dyn FnMut(&Entry, &SealInput) -> std::result::Result<[u8; 32], String> + Send>;

/// Gives a dataset a new seal over its present state in transaction group `txg`. `before` has the old seal.
pub(crate) fn seal_again(
    state: &mut DatasetTable,
    before: &Entry,
    (id, txg): (u64, u64),
    reseal: &mut Option<Reseal>,
) -> Result<()> {
    if !state.entry(id)?.was_written() {
        return Ok(());
    }
    facts::renew(state, id, txg)?;
    let entry = state.edit(id)?;
    entry.let_seal_wait(before);
    entry.sequence = entry.sequence.max(entry.sequence_past).saturating_add(1);
    entry.set_sealed_guid(None);
    seal_anew(entry, before, entry.guid, reseal)?;
    note_waiting(state, id)
}

/// Notes that the entry of a dataset may have seals that wait.
pub(crate) fn note_waiting(state: &mut DatasetTable, id: u64) -> Result<()> {
    if state.entry(id)?.waiting_mark().is_some() {
        state.root.features_required |= FEATURE_SEAL_HISTORY;
    }
    Ok(())
}

/// Gives an entry a seal over another dataset's guid. A dataset that was never written has no seal.
pub(crate) fn seal_anew(
    entry: &mut Entry,
    before: &Entry,
    guid: u64,
    reseal: &mut Option<Reseal>,
) -> Result<()> {
    entry.seal = match reseal {
        Some(reseal) if entry.was_written() => {
            let input = SealInput::of(entry, guid);
            reseal(before, &input).map_err(|detail| Error::inconsistent("seal", detail))?
        }
        _ => [0; 32],
    };
    Ok(())
}
