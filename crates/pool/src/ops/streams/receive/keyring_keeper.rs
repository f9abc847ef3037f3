//! Keeps the received part of an interrupted stream in the clear: records that the receiver has sealed.
//!
//! The keyring of a new dataset is stored with the first records. Each commit seals the arrays like those of a dataset,
//! but over a guid that no dataset has. So a partial receive is never taken for a dataset. A receive continues only
//! from a part with this seal, so the finished dataset has nothing else in it.

use std::sync::Arc;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::open_dataset::{DatasetHooks, OpenDataset};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::datasets::seal_input::SealInput;
use crate::ops::pool::Pool;
use crate::ops::streams::receive::policy::{ReceiveInto, SealRecords, StreamSealer};
use crate::storage::writer::txg::TxgWriter;

/// Seals the partial dataset while it exists.
pub(super) struct Keeper(Arc<dyn SealRecords>);

impl DatasetHooks for Keeper {
    fn freeze(&self, _: u64) {}

    fn sync(&self, _: &TxgWriter<'_>) -> Result<()> {
        Ok(())
    }

    fn seal(&self, input: &SealInput) -> [u8; 32] {
        self.0.dataset_seal(&in_part(*input))
    }

    fn synced(&self, _: u64) {}
}

/// The input of the seal of the partial dataset.
fn in_part(input: SealInput) -> SealInput {
    SealInput {
        guid: !input.guid,
        ..input
    }
}

/// The keyring that was stored for the partial dataset.
pub(super) fn keyring(pool: &Pool, partial: &Entry) -> Result<Option<Vec<u8>>> {
    let store = pool.engine.disk.store.as_ref();
    let read = |at| keyarea::read(store, partial.guid, at);
    partial.keyring.as_ref().map(read).transpose()
}

/// Checks the seal of the part from before, and makes each commit seal the partial dataset.
pub(super) fn keep(
    pool: &Pool,
    dataset: &Arc<OpenDataset>,
    into: &ReceiveInto<'_>,
    sealing: &StreamSealer,
) -> Result<Arc<dyn DatasetHooks>> {
    let partial = pool.entry(dataset.id())?;
    let base = pool.entry(partial.origin).ok();
    let began = base.map_or_else(Default::default, |base| base.roots.map(Some));
    let is_new = (partial.roots.iter().zip(began))
        .all(|(root, began)| began.map_or(root.is_empty(), |began| began == *root));
    let input = in_part(SealInput::of(&partial, partial.guid));
    if !is_new && !sealing.records.is_seal(&input, &partial.seal) {
        return Err(Error::refused(
            into.target,
            "what was received of it does not have the seal of its keys: these were changed or rotated meanwhile, or it \
             is damaged; throw it away (receive -A), and receive it again",
        ));
    }
    if let (Some(keyring), None) = (&sealing.keyring, &partial.keyring) {
        pool.engine.commit_with(|commit, state| {
            let _reserved = commit.reserve_entries(1, 0)?;
            let new = keyarea::write(commit, state, partial.guid, keyring)?;
            state.edit(partial.id)?.keyring = Some(new);
            Ok(())
        })?;
    }
    let keeper: Arc<dyn DatasetHooks> = Arc::new(Keeper(Arc::clone(&sealing.records)));
    dataset.attach(Arc::downgrade(&keeper));
    Ok(keeper)
}
