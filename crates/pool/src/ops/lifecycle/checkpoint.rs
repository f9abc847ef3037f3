//! Checkpoints: keeps a state of the whole pool, discards it, and opens it beside the current one.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::gate::CommitEngine;
use crate::engine::history::{Origin, log};
use crate::engine::log::Claims;
use crate::env::CacheHash;
use crate::error::{Error, Result};
use crate::format::datasets::entry::Entry;
use crate::format::records::extent::Class;
use crate::format::superblock::checkpoint::Checkpoint;
use crate::ops::lifecycle::import::assemble;
use crate::ops::pool::Pool;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

/// The nodes of a kept state that stay in memory: 4 MiB.
const KEPT_NODES: usize = 1024;

/// The earlier state that a pool keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// The transaction group of the checkpoint.
    pub txg: u64,
    /// The time when the checkpoint was made, in seconds since 1970.
    pub time: u64,
    /// The bytes that only the checkpoint has, parity included.
    pub bytes: u64,
}

impl Pool {
    /// The earlier state that is kept, if there is one.
    pub fn checkpoint_info(&self) -> Option<CheckpointInfo> {
        let kept = self.engine.state.read().checkpoint.clone()?;
        Some(CheckpointInfo {
            txg: kept.txg,
            time: kept.root.time.get(),
            bytes: self.engine.space.kept_bytes(),
        })
    }

    /// Keeps the present state, with all earlier writes.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is a checkpoint already, if a group is being removed, if a device lacks data, or if
    /// a log waits to be replayed; [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn make_checkpoint(&self, origin: &Origin) -> Result<()> {
        let engine = &self.engine;
        let committing = engine.lock_commits();
        let waits = |entry: &Entry| self.has_waiting_log(entry);
        engine.commit_holding(&committing, |commit, state| {
            state.check_can_keep(waits)?;
            commit.core.space.grow_system()
        })?;
        if engine.has_unread() {
            let reason =
                "a device fails to read what is needed to free space; try again when it works";
            return Err(Error::refused(self.name(), reason));
        }
        // The state of that commit, and of no other.
        let checkpoint = {
            let state = engine.state.read();
            Checkpoint {
                txg: state.txg,
                root: state.root.clone(),
                key_blocks: keyarea::blocks(&state).collect(),
            }
        };
        engine.commit_holding(&committing, |commit, state| {
            // A device may have failed meanwhile.
            state.check_can_keep(waits)?;
            let record = commit.place_record(Class::Meta, checkpoint.encode())?;
            state.root.set_checkpoint(record);
            state.checkpoint = Some(Arc::new(checkpoint));
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Discards the checkpoint. The space that only it has is free when this returns, and the keyrings that only it has
    /// are overwritten.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none; as [`Pool::commit`].
    pub fn discard_checkpoint(&self, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            if state.checkpoint.is_none() {
                return Err(Error::refused(state.pool_name(), "it has no checkpoint"));
            }
            state.discard_checkpoint(commit);
            log(commit, state, origin, None);
            Ok(())
        })?;
        *self.engine.kept.lock() = None;
        Ok(())
    }

    /// Returns whether the checkpoint has the keyring of this dataset, so that it cannot be overwritten, or a keyring
    /// that can have the same data keys.
    ///
    /// # Errors
    /// Those of reading the checkpoint.
    pub fn checkpoint_has_keys(&self, id: u64) -> Result<bool> {
        let committing = self.engine.lock_commits();
        let state = self.engine.state.read();
        let entry = state.entry(id)?;
        let keyring = entry.keyring.as_ref();
        if keyring.is_some_and(|keyring| keyarea::is_kept(&state, keyring)) {
            return Ok(true);
        }
        let family = entry.family;
        drop(state);
        // Another keyring there can have the same data keys.
        let kept = kept_state(&self.engine, &committing)?;
        Ok(kept.is_some_and(|kept| {
            let state = kept.state.read();
            state.all().any(|entry| entry.family == family)
        }))
    }
}

/// The kept state as a pool beside this one, to check and repair it. It must not commit. The caller keeps the pool
/// from commits, because a commit could discard the checkpoint.
pub(crate) fn kept_state(
    engine: &CommitEngine,
    _committing: &MutexGuard<'_, ()>,
) -> Result<Option<Arc<CommitEngine>>> {
    let (kept, root, config) = {
        let state = engine.state.read();
        let Some(kept) = state.checkpoint.clone() else {
            return Ok(None);
        };
        (kept, state.root.clone(), state.config.clone())
    };
    let mut known = engine.kept.lock();
    let is_it = |engine: &&Arc<CommitEngine>| engine.state.read().txg == kept.txg;
    if let Some(engine) = known.as_ref().filter(is_it) {
        return Ok(Some(Arc::clone(engine)));
    }
    let env = Arc::clone(&engine.env);
    let store = Arc::clone(&engine.disk.store);
    let disk = PoolReader::new(store, KEPT_NODES, CacheHash(env.guid()));
    let disk = Arc::new(disk);
    let root = root.rewound(&kept.root);
    let state = DatasetTable::load(&disk, root, kept.txg, config)?;
    let (table, bitmaps) = kept.root.space();
    let space = Space::open(Arc::clone(&disk), &state.config, &table, &bitmaps)?;
    let kept = assemble((disk, space, env), state, Claims::default(), false).engine;
    *known = Some(Arc::clone(&kept));
    Ok(Some(kept))
}
