//! Imports that end a checkpoint: one returns to its state, the other abandons it.

use std::sync::Arc;

use store::{MemberState, Store};
use zerocopy::IntoBytes;

use crate::engine::datasets::table::{DatasetTable, load_checkpoint};
use crate::engine::devices::membership;
use crate::engine::history::log_own;
use crate::engine::log::Claims;
use crate::env::{CacheHash, Env};
use crate::error::{Error, Result};
use crate::format::records::extent::StoredExtent;
use crate::format::superblock::config::Config;
use crate::format::superblock::root::PoolRoot;
use crate::ops::lifecycle::import::{
    CACHED_NODES, assemble, members_of, newest_root, without_strangers,
};
use crate::ops::pool::Pool;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

impl Pool {
    /// Imports the state of the checkpoint. Unless the import is read-only, its first commit abandons the later state.
    /// Until this commit is durable, the space of the later state is kept. If the later state is damaged, only its
    /// configuration and the record of the checkpoint are kept: from these another import can go back again. Unless the
    /// import is read-only, no retained snapshot may be lost.
    pub(crate) fn rewind(store: Arc<Store>, env: Arc<dyn Env>, read_only: bool) -> Result<Pool> {
        let store = without_strangers(store)?;
        let (txg, superblock, mut root) = newest_root(store.as_ref())?;
        let config = members_of(&store, &mut root, txg)?;
        let disk = Arc::new(PoolReader::new(store, CACHED_NODES, CacheHash(env.guid())));
        let checkpoint = match root.ends_checkpoint() {
            true => None,
            false => load_checkpoint(&disk, &root.checkpoint, txg)?,
        };
        let Some(checkpoint) = checkpoint else {
            return Err(Error::refused(root.name(), "it has no checkpoint"));
        };
        let (at, received) = (checkpoint.txg, root.received_sequence());
        let rewound = root.rewound(&checkpoint.root);
        let state = DatasetTable::load(&disk, rewound, txg, config.clone())?;
        let (table, bitmaps) = state.root.space();
        let open_space = || Space::open(Arc::clone(&disk), &config, &table, &bitmaps);
        let mut space = open_space()?;
        if read_only {
            let claims = Claims::default();
            return Ok(assemble((disk, space, env), state, claims, read_only));
        }
        // With a reader of its own, because the later state may map removed groups in another way.
        let other = PoolReader::new(Arc::clone(&disk.store), 0, CacheHash(env.guid()));
        let mut way_back = Vec::new();
        let (given_up, claims) = match keep_later(&other, &space, (&root, txg, &config)) {
            Ok((given_up, claims)) => (Some(given_up), claims),
            Err(error) if error.is_loss() => {
                tracing::warn!(%error, "what is later than the checkpoint is damaged, and given up unread");
                space = open_space()?;
                way_back = keep_way_back(&space, &root)?;
                (None, Claims::default())
            }
            Err(error) => return Err(error),
        };
        match &given_up {
            Some(later) => later.check_kept_in(&state)?,
            // It is unknown which snapshots it had.
            None => state.check_all_ended()?,
        }
        let pool = assemble((disk, space, env), state, claims, read_only);
        pool.begin_writing(txg, &superblock)?;
        // Keyrings that were made later belong to no dataset.
        pool.take_over(true)?;
        pool.engine.commit_with(|commit, state| {
            state.settle_rewound(commit, given_up.as_ref(), (at, received))?;
            let unread = match given_up {
                Some(_) => "",
                None => "; what was later is damaged, and was given up unread",
            };
            let what = format!("went back to the checkpoint, transaction group {at}{unread}");
            log_own(commit, state, what);
            Ok(())
        })?;
        pool.engine.space.release(way_back.drain(..));
        Ok(pool)
    }

    /// Makes the end of the checkpoint durable, before anything is written to its space. This writes only a superblock:
    /// the checkpoint need not be read, and can be damaged.
    pub(crate) fn end_checkpoint(&self, txg: u64, mut root: PoolRoot) -> Result<()> {
        self.engine.check_lease()?;
        let store = &self.engine.disk.store;
        root.end_checkpoint();
        {
            let state = self.engine.state.read();
            if state.config.is_redundant {
                // A member in a resilver does not get it: the configuration may still list the member as complete.
                let get_it = [MemberState::Online];
                root.missed = membership::missed(&state.config, store.as_ref(), &get_it);
            }
        }
        Ok(store.confirm_superblock(txg + 1, root.as_bytes())?)
    }
}

/// Keeps the space of the abandoned state, and of the records that only its logs point to.
fn keep_later(
    disk: &PoolReader,
    space: &Space,
    (root, txg, config): (&PoolRoot, u64, &Config),
) -> Result<(DatasetTable, Claims)> {
    space.keep(root.space())?;
    let later = DatasetTable::load(disk, root.clone(), txg, config.clone())?;
    let claims = Claims::take(disk, space, &later, true)?;
    Ok((later, claims))
}

/// Keeps the records that an import needs to go back again: those of the configuration and of the checkpoint.
fn keep_way_back(space: &Space, root: &PoolRoot) -> Result<Vec<StoredExtent>> {
    let mut kept = Vec::new();
    for record in [root.config, root.checkpoint] {
        for extent in StoredExtent::of_whole(&record.place) {
            if space.claim(&extent)? {
                kept.push(extent);
            }
        }
    }
    Ok(kept)
}
