//! The keyrings of datasets: new ones, and rotation.

use std::sync::{Arc, Weak};

use crate::engine::datasets::keyarea;
use crate::engine::datasets::reseal::{Reseal, seal_again};
use crate::engine::datasets::table::DatasetTable;
use crate::engine::gate::CommitEngine;
use crate::engine::history::{Origin, log, log_about, log_internal, log_rekey};
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::superblock::features::FEATURE_ROTATED;
use crate::ops::datasets::properties::change_props;
use crate::ops::pool::Pool;
use crate::storage::writer::txg::TxgWriter;

/// Makes the keyring of a new dataset, for the transaction group that makes the dataset.
pub type MakeKeyring = Box<dyn FnOnce(u64) -> std::result::Result<Vec<u8>, String> + Send>;

/// New data keys for a dataset.
pub struct NewKeys {
    /// Makes the keyring that has them.
    pub make: MakeKeyring,
    /// Makes the seal over the dataset with them. Called after `make`; refuses a state whose seal is not right.
    pub reseal: Reseal,
    /// Called when the commit is durable: the dataset uses the keys from now on.
    pub done: Box<dyn FnOnce() + Send>,
}

/// A keyring that replaces another one.
#[derive(Clone, Debug)]
pub struct NewKeyring {
    /// The dataset.
    pub id: u64,
    /// The bytes.
    pub keyring: Vec<u8>,
    /// The key root whose slots unwrap it.
    pub key_root: u64,
    /// Properties to set, or to unset.
    pub props: Vec<(String, Option<String>)>,
    /// The change, for the history.
    pub done: String,
}

impl CommitEngine {
    /// Returns whether the log of a dataset has entries that wait for its key.
    pub(crate) fn has_waiting_log(&self, entry: &Entry) -> bool {
        let open = self.open.lock();
        match open.get(&entry.id).and_then(Weak::upgrade) {
            Some(dataset) => dataset.waiting_log().is_some(),
            None => entry.log.exists(),
        }
    }
}

impl Pool {
    /// Replaces the keyrings of datasets, in one commit, with the properties that say where keys
    /// come from. The blocks of the old keyrings are overwritten before this returns.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if an id is unknown;
    /// [`Error::KeyAreaFull`]; as [`Pool::commit`].
    pub fn replace_keyrings(&self, changes: &[NewKeyring], origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            log(commit, state, origin, None);
            for change in changes {
                let guid = state.entry(change.id)?.guid;
                let new = keyarea::write(commit, state, guid, &change.keyring)?;
                let entry = state.edit(change.id)?;
                entry.key_root = change.key_root;
                change_props(entry, &change.props);
                let old = entry.keyring.replace(new);
                keyarea::replaced(state, change.id, old)?;
                let entry = Arc::clone(state.entry(change.id)?);
                log_internal(commit, state, origin, &change.done, &entry);
            }
            Ok(())
        })
    }

    /// Replaces the keyring of a dataset by one with a new generation, and gives the dataset the seal of that
    /// generation. The generation begins with the transaction group of this commit. The blocks of the old keyring
    /// are overwritten before this returns. `rotation.done` is called before any other commit.
    ///
    /// # Errors
    /// [`Error::Refused`] if a log waits to be replayed, whose entries have the older seals, or a function of the
    /// rotation refuses.
    pub fn rotate_keyring(&self, id: u64, rotation: NewKeys, origin: &Origin) -> Result<()> {
        let committing = self.engine.lock_commits();
        let done = self.engine.commit_holding(&committing, |commit, state| {
            let guid = state.entry(id)?.guid;
            log_about(commit, state, origin, guid);
            self.rotate_in(commit, state, id, rotation, origin)
        })?;
        done();
        Ok(())
    }

    /// Rotates the keys of a dataset in a commit. The caller holds the commits until it has called what this returns.
    pub(crate) fn rotate_in(
        &self,
        commit: &TxgWriter<'_>,
        state: &mut DatasetTable,
        id: u64,
        rotation: NewKeys,
        origin: &Origin,
    ) -> Result<Box<dyn FnOnce() + Send>> {
        let NewKeys { make, reseal, done } = rotation;
        let entry = Arc::clone(state.entry(id)?);
        let refused = |reason| Error::Refused {
            name: state.name_of(&entry),
            reason,
        };
        if self.has_waiting_log(&entry) {
            return Err(refused(
                "its log waits to be replayed; mount it before".into(),
            ));
        }
        let keys_txg = entry.next_keys_txg(commit.txg);
        let keyring = make(keys_txg).map_err(refused)?;
        let new = keyarea::write(commit, state, entry.guid, &keyring)?;
        let edited = state.edit(id)?;
        let old = edited.keyring.replace(new);
        if edited.foreign_txg().is_some() {
            edited.set_keys_txg(keys_txg);
        }
        seal_again(state, &entry, (id, commit.txg), &mut Some(reseal))?;
        keyarea::replaced(state, id, old)?;
        state.root.features_required |= FEATURE_ROTATED;
        log_rekey(commit, state, origin, entry.id, None);
        Ok(done)
    }

    pub(crate) fn has_waiting_log(&self, entry: &Entry) -> bool {
        self.engine.has_waiting_log(entry)
    }

    /// The keyring of a dataset; of a snapshot, its dataset's.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is not encrypted;
    /// [`Error::Inconsistent`] if the id is unknown, or the key area holds another
    /// keyring; [`Error::Store`] if no copy can be read.
    pub fn keyring(&self, id: u64) -> Result<Vec<u8>> {
        let state = self.engine.state.read();
        let head = state.entry(crate::engine::datasets::table::head_id(state.entry(id)?))?;
        let at = head.keyring.as_ref().ok_or_else(|| Error::Refused {
            name: state.name_of(head),
            reason: "it is not encrypted".into(),
        })?;
        keyarea::read(self.engine.disk.store.as_ref(), head.guid, at)
    }

    /// Returns whether a key block reads as zeros in every copy on every device that the pool uses.
    ///
    /// # Errors
    /// [`Error::Store`] if a device fails.
    pub fn key_block_is_blank(&self, block: u32) -> Result<bool> {
        Ok(self.engine.disk.store.key_block_is_blank(block)?)
    }
}
