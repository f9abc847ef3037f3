//! Makes, imports, exports and destroys pools.

use std::sync::{Arc, Weak};

use store::{MemberInfo, MemberState, Store};

use crate::engine::datasets::keyarea;
use crate::engine::datasets::table::{DatasetTable, load_checkpoint};
use crate::engine::devices::membership::{self, DeviceSearch, shapes};
use crate::engine::gate::CommitEngine;
use crate::engine::history::log_own;
use crate::engine::log::Claims;
use crate::env::{CacheHash, Env};
use crate::error::{Error, Result};
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::config::{Config, ConfigDevice, Epoch};
use crate::format::superblock::root::{Host, PoolRoot, PoolState};
use crate::names::check_pool_name;
use crate::ops::datasets::create;
use crate::ops::lifecycle::pool_division::become_own;
use crate::ops::pool::Pool;
use crate::ops::streams::receive;
use crate::storage::core::Core;
use crate::storage::reader::PoolReader;
use crate::storage::space::Space;

/// The treatment of the checkpoint of a pool during an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtCheckpoint {
    /// The import leaves the checkpoint as it is.
    #[default]
    Keep,
    /// Goes back to it. Later changes are lost.
    Rewind,
    /// Discards it, unread.
    Discard,
}

/// The numbers of transaction groups are below this.
const TXG_LIMIT: u64 = 1 << 62;

/// The most commits of an export to list the space that could not be freed.
const LISTING_COMMITS: usize = 4;

/// Nodes kept in memory: 64 MiB of them.
pub(crate) const CACHED_NODES: usize = 16_384;

impl Pool {
    /// Makes a pool with one dataset, its root. `entry` describes this dataset.
    ///
    /// # Errors
    /// [`Error::BadName`]; as [`Pool::commit`].
    pub fn create(
        store: Arc<Store>,
        env: Arc<dyn Env>,
        name: &str,
        top: crate::NewDataset,
    ) -> Result<Pool> {
        check_pool_name(name)?;
        let disk = Arc::new(PoolReader::new(store, CACHED_NODES, CacheHash(env.guid())));
        let groups = disk.store.groups().len() as u32;
        let root = PoolRoot::new(name, groups, env.now());
        let config = first_config(disk.store.as_ref(), env.as_ref());
        let mut state = DatasetTable::new(root, 0, config);
        state.note_redundancy();
        state.config_dirty = true;
        let space = Space::create(Arc::clone(&disk));
        let pool = assemble((disk, space, env), state, Claims::default(), false);
        pool.engine
            .commit_locked(|commit, state| create::create_top(commit, state, top))?;
        Ok(pool)
    }

    /// Imports the pool on a store.
    ///
    /// # Errors
    /// [`Error::LogsLost`] if logs that wait to be replayed are on devices that are not there.
    pub fn open(store: Arc<Store>, env: Arc<dyn Env>, read_only: bool) -> Result<Pool> {
        Pool::open_at(store, env, read_only, AtCheckpoint::Keep)
    }

    /// Imports the pool on a store. `at` says what to do with its checkpoint.
    ///
    /// # Errors
    /// As [`Pool::open`]; [`Error::Refused`] to go back to a checkpoint if there is none.
    pub fn open_at(
        store: Arc<Store>,
        env: Arc<dyn Env>,
        read_only: bool,
        at: AtCheckpoint,
    ) -> Result<Pool> {
        match at {
            AtCheckpoint::Rewind => Pool::rewind(store, env, read_only),
            at => Pool::open_as(store, env, (read_only, false), at),
        }
    }

    /// Imports the pool on a store without the entries in logs on missing devices. Returns a description of the lost
    /// entries.
    ///
    /// # Errors
    /// As [`Pool::open`] without [`Error::LogsLost`]; as [`Pool::commit`].
    pub fn open_without_logs(store: Arc<Store>, env: Arc<dyn Env>) -> Result<(Pool, Vec<String>)> {
        let pool = Pool::open_as(store, env, (false, true), AtCheckpoint::Keep)?;
        let given_up = pool.log_devices().give_up_lost()?;
        Ok((pool, given_up))
    }

    fn open_as(
        store: Arc<Store>,
        env: Arc<dyn Env>,
        (read_only, gives_up_logs): (bool, bool),
        at: AtCheckpoint,
    ) -> Result<Pool> {
        let store = without_strangers(store)?;
        let (txg, superblock, mut root) = newest_root(store.as_ref())?;
        let config = members_of(&store, &mut root, txg)?;
        let disk = Arc::new(PoolReader::new(store, CACHED_NODES, CacheHash(env.guid())));
        let newest = root.clone();
        let given_up =
            newest.ends_checkpoint() || at == AtCheckpoint::Discard && newest.has_checkpoint();
        // For a read-only import a damaged one does no harm.
        if given_up || read_only && load_checkpoint(&disk, &newest.checkpoint, txg).is_err() {
            root.set_checkpoint(RecordPtr::EMPTY);
        }
        let state = DatasetTable::load(&disk, root, txg, config)?;
        // A read-only import replays nothing, so nothing is lost.
        if !read_only && !gives_up_logs {
            state.refuse_lost_logs()?;
        }
        let space = Space::open(
            Arc::clone(&disk),
            &state.config,
            &state.root.table,
            &state.root.bitmaps,
        )?;
        if let Some(checkpoint) = &state.checkpoint {
            let kept = space.keep(checkpoint.root.space());
            kept.or_else(|error| if read_only { Ok(()) } else { Err(error) })?;
        }
        let claims = match read_only {
            true => Claims::default(),
            false => Claims::take(&disk, &space, &state, gives_up_logs)?,
        };
        let was_active = state.root.state() == Some(PoolState::Active);
        let pool = assemble((disk, space, env), state, claims, read_only);
        if !read_only {
            pool.begin_writing(txg, &superblock)?;
            if given_up && !newest.ends_checkpoint() {
                pool.end_checkpoint(txg, newest)?;
                let (store, env) = (Arc::clone(&pool.engine.disk.store), pool.engine.env.clone());
                drop(pool);
                return Pool::open_as(store, env, (read_only, gives_up_logs), at);
            }
            pool.take_over(was_active || given_up)?;
        }
        if given_up && !read_only {
            pool.engine.commit_with(|commit, state| {
                state.root.set_checkpoint(newest.checkpoint);
                state.discard_checkpoint(commit);
                log_own(commit, state, "the checkpoint was discarded unread".into());
                Ok(())
            })?;
        }
        Ok(pool)
    }

    /// Before the first write: makes all labels name the pool, and writes its newest superblock to all devices. Later
    /// writes may overwrite space that only an earlier state uses.
    pub(crate) fn begin_writing(&self, txg: u64, superblock: &[u8]) -> Result<()> {
        let store = &self.engine.disk.store;
        self.confirm_labels()?;
        // That of a pool which was split off is durable, and names the devices of the pool before.
        if store.name_of_split().is_none() {
            store.confirm_superblock(txg, superblock)?;
        }
        self.settle_splits()
    }

    /// Marks the pool as imported by this host. The next commit then completes changes of keys that a crash
    /// interrupted.
    pub(crate) fn take_over(&self, was_active: bool) -> Result<()> {
        let store = self.engine.disk.store.as_ref();
        {
            let mut state = self.engine.state.write();
            if was_active {
                keyarea::discard_strays(store, &mut state)?;
            }
            if leave_image(store, &mut state.config) {
                self.engine.follow.progress.lock().imported = Some(state.root.time.get());
            }
            wipe_ends(store, &state.config);
            name_devices(store, &mut state.config);
            state.config_dirty = true;
            if state.config.is_redundant {
                let epoch = Epoch {
                    guid: self.engine.env.guid(),
                    start: state.txg + 1,
                };
                membership::begin_epoch(&mut state.config, epoch);
                state.note_redundancy();
            }
        }
        Ok(())
    }

    /// Marks the pool as imported by `host`.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn claim(&self, host: impl Into<Host>) -> Result<()> {
        let host = host.into();
        self.engine.commit_with(|commit, state| {
            receive::discard_broken(commit, state)?;
            state.root.set_state(PoolState::Active);
            state.root.set_host(&host);
            Ok(())
        })?;
        self.finish_change()?;
        self.engine.dismiss_returned_spares()
    }

    /// Commits all changes, and marks the pool as exported. Nothing in it may be open.
    ///
    /// # Errors
    /// [`Error::Busy`] if a dataset is open; as [`Pool::commit`].
    pub fn export(&self) -> Result<()> {
        self.check_idle()?;
        if self.engine.read_only {
            return Ok(());
        }
        // Space that a commit could not free is only in memory, until the next commit lists it.
        for _ in 0..LISTING_COMMITS {
            self.commit()?;
            if !self.engine.has_unread() {
                break;
            }
        }
        // The last commit may take long.
        self.multihost().beat()?;
        self.engine.commit_with(|_, state| {
            state.root.set_state(PoolState::Exported);
            Ok(())
        })?;
        self.multihost().release_devices();
        Ok(())
    }

    /// Destroys the pool: its keys are overwritten, its devices belong to no pool.
    ///
    /// # Errors
    /// [`Error::Busy`] if a dataset is open; as [`Pool::commit`];
    /// [`Error::Store`] if a device could not be erased: the pool is destroyed all the
    /// same.
    pub fn destroy(&self) -> Result<()> {
        self.check_idle()?;
        self.engine.commit_with(|_, state| {
            state.root.set_state(PoolState::Destroyed);
            Ok(())
        })?;
        self.cache_devices().erase();
        let erased = self.engine.disk.store.erase();
        self.multihost().release_devices();
        Ok(erased?)
    }

    fn check_idle(&self) -> Result<()> {
        let busy = {
            let open = self.engine.open.lock();
            open.values().find_map(Weak::upgrade)
        };
        match busy {
            None => Ok(()),
            Some(dataset) => {
                let state = self.engine.state.read();
                Err(Error::Busy {
                    name: state.name_of(state.entry(dataset.id)?),
                })
            }
        }
    }
}

pub(crate) fn assemble(
    (disk, space, env): (Arc<PoolReader>, Space, Arc<dyn Env>),
    state: DatasetTable,
    claims: Claims,
    read_only: bool,
) -> Pool {
    let core = Core::new(disk, Arc::new(space), env);
    Pool::new(CommitEngine::new(core, state, claims, read_only))
}

/// The newest root of a pool that this program can open, with its transaction group and its bytes.
pub(crate) fn newest_root(store: &Store) -> Result<(u64, Vec<u8>, PoolRoot)> {
    let mut superblocks = store.superblocks()?.into_iter();
    let (txg, payload) = superblocks.next().ok_or(store::Error::NoSuperblock)?;
    let root = PoolRoot::decode(&payload)?;
    if txg >= TXG_LIMIT {
        let detail = "its transaction group is impossible";
        return Err(Error::inconsistent("superblock", detail));
    }
    if root.state() == Some(PoolState::Destroyed) {
        return Err(Error::Destroyed { name: root.name() });
    }
    Ok((txg, payload, root))
}

/// The devices that do not belong to the pool, although their labels say that it was split or got another guid. Only
/// its own devices are believed. The configuration lists these, and each has a superblock of the pool, unless it is a
/// spare.
pub fn strangers(store: &Arc<Store>) -> Vec<MemberInfo> {
    let mut changing = store.changing();
    let listed = || -> Result<(PoolRoot, Config)> {
        let (_, _, root) = newest_root(store)?;
        let disk = PoolReader::new(Arc::clone(store), 0, CacheHash(0));
        let config = load_config(&disk, &root.config)?;
        Ok((root, config))
    };
    if changing.is_empty() {
        return changing;
    }
    let Ok((root, config)) = listed() else {
        // The import says why.
        return Vec::new();
    };
    let newest = store.newest_superblocks();
    let is_of_pool = |guid: u64| {
        let own = newest.iter().find(|own| own.guid == guid);
        let last = own.and_then(|own| own.superblock.as_ref());
        let last = last.and_then(|(_, payload)| PoolRoot::decode(payload).ok());
        last.is_some_and(|last| last.created == root.created)
    };
    changing.retain(|member| {
        let mut listed = config.devices.iter();
        let listed = listed.find(|device| device.guid == member.guid);
        let is_member = |device: &ConfigDevice| device.is_member() || !member.is_spare;
        listed.is_none_or(|device| is_member(device) && !is_of_pool(member.guid))
    });
    changing
}

/// A store without its [`strangers`]. The guid of the pool may be another one then.
pub(crate) fn without_strangers(mut store: Arc<Store>) -> Result<Arc<Store>> {
    loop {
        let strangers = strangers(&store);
        if strangers.is_empty() {
            return Ok(store);
        }
        for stranger in &strangers {
            let device = &stranger.name;
            tracing::warn!(device, "a device names this pool, and is none of it");
        }
        let guids: Vec<u64> = strangers.iter().map(|stranger| stranger.guid).collect();
        store = Arc::new(store.without(&guids)?);
    }
}

/// The configuration of a pool, with its devices at their present paths. The store uses it from now on.
pub(crate) fn members_of(store: &Arc<Store>, root: &mut PoolRoot, txg: u64) -> Result<Config> {
    let found = DeviceSearch {
        store: store.as_ref(),
        root,
        txg,
    };
    found.refuse_empty()?;
    let disk = PoolReader::new(Arc::clone(store), 0, CacheHash(0));
    let mut config = load_config(&disk, &root.config).map_err(|error| found.explain(error))?;
    root.groups = found.recognize(&mut config)?.into();
    if let Some(name) = store.name_of_split() {
        become_own(&mut config, root, &name);
    }
    Ok(config)
}

fn load_config(disk: &PoolReader, ptr: &RecordPtr) -> Result<Config> {
    Config::decode(&disk.clear_record(ptr)?)
        .ok_or_else(|| Error::inconsistent("configuration", "it cannot be read"))
}

/// The configuration of a new pool.
fn first_config(store: &Store, env: &dyn Env) -> Config {
    let devices: Vec<ConfigDevice> = store.members().iter().map(ConfigDevice::new).collect();
    let mut config = Config {
        is_redundant: devices.len() > store.groups().len(),
        devices,
        shapes: shapes(store),
        ..Config::default()
    };
    if config.is_redundant {
        config.epochs.push(Epoch {
            guid: env.guid(),
            start: 1,
        });
    }
    config
}

/// A pool that was imported from its image has no image any more. Returns whether it was.
fn leave_image(store: &Store, config: &mut Config) -> bool {
    let members = store.members();
    let is_own = |path: &str| members.iter().any(|member| member.name == path);
    let own = config.follower.take_if(|follower| is_own(&follower.path));
    own.is_some()
}

/// Overwrites headers that a power cut left while a device grew: they have keys.
fn wipe_ends(store: &Store, config: &Config) {
    for member in store.members() {
        let listed = config.devices.iter().find(|d| d.guid == member.guid);
        let Some(device) = listed.filter(|_| member.state == MemberState::Online) else {
            continue;
        };
        if let Err(error) = store.wipe_end(member.guid, device.size) {
            tracing::warn!(%error, "what is left where {} once ended was not overwritten", member.name);
        }
    }
}

/// Stores the present paths and sizes of the devices in the configuration.
fn name_devices(store: &Store, config: &mut Config) {
    for member in store.members() {
        if let Some(device) = config.device(member.guid) {
            device.path = member.name;
            device.size = member.size;
        }
    }
}
