//! Creates and renames datasets, and sets their properties and keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::reseal::{Reseal, seal_again};
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal, log_rekey};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{DatasetKind, Entry, PROPERTY_MAX, text_bytes};
use crate::format::datasets::entry_flags::PARTIAL;
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::features::{FEATURE_ROTATED, FEATURE_VOLUMES};
use crate::names::{DatasetName, NAME_MAX, check_pool_name};
use crate::ops::pool::Pool;
use crate::ops::snapshots::name_ranges;
use crate::storage::writer::txg::TxgWriter;

/// The largest size of the properties that one command sets, for all its datasets together, in bytes.
const TEXTS_MAX: usize = 16 << 20;

/// Makes the keyring of a new dataset, for the transaction group that makes the dataset.
pub type MakeKeyring = Box<dyn FnOnce(u64) -> std::result::Result<Vec<u8>, String> + Send>;

/// A dataset to make.
pub struct NewDataset {
    /// The kind of the dataset; not a snapshot.
    pub kind: DatasetKind,
    /// The guid of the dataset, and its family.
    pub guid: u64,
    /// The suite of its records, 0 for none.
    pub suite: u8,
    /// The keyring of the dataset, if it has a suite.
    pub keyring: Option<MakeKeyring>,
    /// True if the keyring has its own slots. Otherwise it has the key root of its parent.
    pub is_key_root: bool,
    /// Properties to set.
    pub props: BTreeMap<String, String>,
}

/// Makes the root dataset of a new pool.
pub(crate) fn create_top(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    new: NewDataset,
) -> Result<u64> {
    insert(commit, state, new, (0, ""), commit.txg)
}

/// Makes an entry. `keys_txg` is the transaction group of a generation that its keyring begins.
pub(crate) fn insert(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    new: NewDataset,
    (parent, name): (u64, &str),
    keys_txg: u64,
) -> Result<u64> {
    let id = state.new_id();
    let key_root = match (new.suite, new.is_key_root) {
        (0, _) => 0,
        (_, true) => id,
        (_, false) => state.entry(parent)?.key_root,
    };
    let keyring = match new.keyring {
        Some(make) => {
            let keyring = make(keys_txg).map_err(|reason| Error::Refused {
                name: name.into(),
                reason,
            })?;
            Some(keyarea::write(commit, state, new.guid, &keyring)?)
        }
        None => None,
    };
    if new.kind == DatasetKind::Volume {
        state.root.features_required |= FEATURE_VOLUMES;
    }
    state.insert(Entry {
        id,
        guid: new.guid,
        family: new.guid,
        parent,
        name: name.into(),
        kind: new.kind,
        created_txg: commit.txg,
        created: commit.core.env.now(),
        suite: new.suite,
        key_root,
        keyring,
        roots: [RecordPtr::EMPTY; 2],
        sequence: 0,
        sequence_past: 0,
        seal: [0; 32],
        prev_snap: 0,
        prev_snap_txg: 0,
        next: 0,
        origin: 0,
        deadlist: RecordPtr::EMPTY,
        dead_bytes: 0,
        referenced: 0,
        used: 0,
        logical: 0,
        log: Default::default(),
        props: new.props,
    });
    Ok(id)
}

fn create_one(
    commit: &TxgWriter<'_>,
    state: &mut DatasetTable,
    name: &str,
    new: NewDataset,
    origin: &Origin,
) -> Result<Arc<Entry>> {
    let (parent, last) = free_name(state, name)?;
    check_props(name, &new.props)?;
    if new.suite != 0 && !new.is_key_root && state.entry(parent)?.key_root == 0 {
        return Err(Error::Refused {
            name: name.into(),
            reason: "there is no key above it to inherit".into(),
        });
    }
    let id = insert(commit, state, new, (parent, &last), commit.txg)?;
    let entry = Arc::clone(state.entry(id)?);
    if !entry.volume_fits() {
        return Err(Error::refused(
            name,
            "a volume, and nothing else, says how large it is",
        ));
    }
    log_internal(commit, state, origin, "create", &entry);
    if entry.keyring.is_some() {
        log_internal(commit, state, origin, "keyring created", &entry);
    }
    Ok(entry)
}

impl Pool {
    /// Writes a line into the history.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn record(&self, origin: &Origin) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Makes a dataset. Its parent must exist.
    ///
    /// # Errors
    /// As [`Pool::create_datasets`].
    pub fn create_dataset(
        &self,
        name: &str,
        new: NewDataset,
        origin: &Origin,
    ) -> Result<Arc<Entry>> {
        let mut made = self.create_datasets(vec![(name.into(), new)], origin)?;
        Ok(made.pop().expect("one is made"))
    }

    /// Creates datasets, all or none. The parent of each exists already, or comes earlier in the list.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`] if a parent is missing;
    /// [`Error::Exists`] and [`Error::BadName`] for a name;
    /// [`Error::Refused`] if the keys or properties do not fit;
    /// [`Error::Limit`], [`Error::NoSpace`],
    /// [`Error::KeyAreaFull`]; as [`Pool::commit`].
    pub fn create_datasets(
        &self,
        all: Vec<(String, NewDataset)>,
        origin: &Origin,
    ) -> Result<Vec<Arc<Entry>>> {
        self.engine.commit_within_limits(|commit, state| {
            log(commit, state, origin, None);
            let texts = all.iter().map(|(_, new)| text_bytes(&new.props)).sum();
            let _reserved = commit.reserve_entries(all.len(), texts)?;
            let create = |(name, new): (String, _)| create_one(commit, state, &name, new, origin);
            all.into_iter().map(create).collect()
        })
    }

    /// Gives a dataset, or a snapshot within its dataset, another name.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Exists`] and
    /// [`Error::BadName`] for the new name, or a name below it that gets too long;
    /// [`Error::Refused`] if it cannot move there; [`Error::Limit`];
    /// as [`Pool::commit`].
    pub fn rename(&self, from: &str, to: &str, origin: &Origin) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let entry = Arc::clone(state.find(from)?);
            if entry.parent == 0 {
                return Err(Error::Refused {
                    name: from.into(),
                    reason: "a pool is renamed by importing it under another name".into(),
                });
            }
            let (parent, last) = if entry.is_snapshot() {
                name_ranges::free_name(state, to, entry.parent)?
            } else {
                free_name(state, to)?
            };
            check_move(state, &entry, from, parent)?;
            let partial = state.partial_of(entry.parent, &entry.name).cloned();
            if let Some(partial) = partial.filter(|_| !entry.is_snapshot()) {
                if state.partial_of(parent, &last).is_some() {
                    let reason = "an interrupted receive into it waits; throw it away (receive -A)";
                    return Err(Error::refused(to, reason));
                }
                state.rename(partial.id, parent, &format!("{PARTIAL}{last}"))?;
            }
            state.rename(entry.id, parent, &last)?;
            check_name_lengths(state, entry.id, &state.pool_name())?;
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Gives the pool another name.
    ///
    /// # Errors
    /// [`Error::BadName`], also for the name of a dataset that gets too long; as
    /// [`Pool::commit`].
    pub fn rename_pool(&self, name: &str, origin: &Origin) -> Result<()> {
        check_pool_name(name)?;
        self.engine.commit_with(|commit, state| {
            state.root.set_name(name);
            check_name_lengths(state, state.top()?.id, name)?;
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Gives the pool another name as long as it is imported. The name on the devices stays.
    ///
    /// # Errors
    /// [`Error::BadName`], also for the name of a dataset that gets too long.
    pub fn name_temporarily(&self, name: &str) -> Result<()> {
        check_pool_name(name)?;
        let mut state = self.engine.state.write();
        let before = state.temporary_name.replace(name.to_owned());
        let checked = state
            .top()
            .map(|top| top.id)
            .and_then(|id| check_name_lengths(&state, id, name));
        if checked.is_err() {
            state.temporary_name = before;
        }
        checked
    }

    /// Waits until none of these datasets is open, up to a time limit. True if none is open.
    pub fn wait_until_closed(&self, ids: &[u64], patience: Duration) -> bool {
        /// The longest wait. It is short because not every release of a dataset wakes the waiting thread.
        const SLICE: Duration = Duration::from_millis(20);
        let mut open = self.engine.open.lock();
        let mut left = patience;
        loop {
            let is_open = |id| {
                let found: Option<&Weak<OpenDataset>> = open.get(id);
                found.is_some_and(|weak| weak.strong_count() > 0)
            };
            if !ids.iter().any(is_open) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            left = left.saturating_sub(SLICE);
            self.engine.closed.wait_for(&mut open, SLICE);
        }
    }

    pub(crate) fn check_closed(&self, state: &DatasetTable, entries: &[Arc<Entry>]) -> Result<()> {
        let open = self.engine.open.lock();
        let busy = entries.iter().find(|entry| {
            open.get(&entry.id)
                .is_some_and(|weak| weak.strong_count() > 0)
        });
        match busy {
            None => Ok(()),
            Some(entry) => Err(Error::Busy {
                name: state.name_of(entry),
            }),
        }
    }

    /// Sets and, where the value is `None`, unsets properties of datasets, all or none.
    ///
    /// # Errors
    /// [`Error::NoSuchDataset`]; [`Error::Refused`] if the
    /// properties are too long; [`Error::Limit`],
    /// [`Error::NoSpace`]; as [`Pool::commit`].
    pub fn set_props(
        &self,
        names: &[String],
        changes: &[(String, Option<String>)],
        origin: &Origin,
    ) -> Result<()> {
        let lens = changes
            .iter()
            .map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len));
        if lens.sum::<usize>().saturating_mul(names.len()) > TEXTS_MAX {
            let why = "the command would set too many properties; set fewer at a time";
            return Err(Error::refused(
                names.first().map_or("", String::as_str),
                why,
            ));
        }
        self.engine.commit_within_limits(|commit, state| {
            let mut texts = 0;
            for name in names {
                let id = state.find(name)?.id;
                let entry = state.edit(id)?;
                change_props(entry, changes);
                check_props(name, &entry.props)?;
                texts += text_bytes(&entry.props);
            }
            let _reserved = commit.reserve_entries(names.len(), texts)?;
            log(commit, state, origin, None);
            Ok(())
        })
    }

    /// Sets or unsets a property of a dataset that the caller keeps for itself. It is not in the history: frequent
    /// changes by others must not displace the lines about administrators.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if the id is unknown; otherwise as [`Pool::set_props`].
    pub fn keep_prop(&self, id: u64, key: &str, value: Option<String>) -> Result<()> {
        self.engine.commit_within_limits(|commit, state| {
            let entry = state.edit(id)?;
            change_props(entry, &[(key.to_owned(), value)]);
            let props = entry.props.clone();
            check_props(&state.name_of(state.entry(id)?), &props)?;
            let _reserved = commit.reserve_entries(1, text_bytes(&props))?;
            Ok(())
        })
    }

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
            log(commit, state, origin, None);
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
        let open = self.engine.open.lock();
        match open.get(&entry.id).and_then(Weak::upgrade) {
            Some(dataset) => dataset.waiting_log().is_some(),
            None => entry.log.exists(),
        }
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

    /// Opens a dataset or snapshot. A dataset is open once at a time.
    ///
    /// # Errors
    /// [`Error::Busy`] if the dataset is open;
    /// [`Error::Inconsistent`] if the id is unknown.
    pub fn open_dataset(&self, id: u64) -> Result<Arc<OpenDataset>> {
        // A commit in between would leave the roots behind.
        let _committing = self.engine.lock_commits();
        let state = self.engine.state.read();
        let entry = state.entry(id)?;
        let writable = !entry.is_snapshot() && !self.engine.read_only;
        let mut open = self.engine.open.lock();
        open.retain(|_, dataset| dataset.strong_count() > 0);
        if let Some(dataset) = open.get(&id).and_then(Weak::upgrade) {
            if entry.is_snapshot() {
                return Ok(dataset);
            }
            return Err(Error::Busy {
                name: state.name_of(entry),
            });
        }
        let dataset = Arc::new(OpenDataset::new(
            Arc::clone(&self.engine.context),
            entry,
            writable,
        ));
        open.insert(id, Arc::downgrade(&dataset));
        Ok(dataset)
    }
}

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

/// Sets and, where the value is `None`, unsets properties of an entry.
pub(crate) fn change_props(entry: &mut Entry, changes: &[(String, Option<String>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => entry.props.insert(key.clone(), value.clone()),
            None => entry.props.remove(key),
        };
    }
}

/// Refuses properties that are too long for an entry.
pub(crate) fn check_props(name: &str, props: &BTreeMap<String, String>) -> Result<()> {
    let bytes = text_bytes(props);
    let longest = props
        .iter()
        .map(|(key, value)| key.len().max(value.len()))
        .max();
    if longest.unwrap_or(0) > PROPERTY_MAX || bytes > 256 << 10 {
        return Err(Error::Refused {
            name: name.into(),
            reason: "its properties are too long".into(),
        });
    }
    Ok(())
}

/// The parent of a dataset that does not exist yet, and the last part of its name.
pub(crate) fn free_name(state: &DatasetTable, name: &str) -> Result<(u64, String)> {
    if state.find(name).is_ok() {
        return Err(Error::Exists { name: name.into() });
    }
    let parsed = DatasetName::parse(name)?;
    let bad = |reason| Error::BadName {
        name: name.into(),
        reason,
    };
    if parsed.snapshot.is_some() {
        return Err(bad("a dataset's name has no '@'"));
    }
    let Some((above, last)) = name.rsplit_once('/') else {
        return Err(Error::NoSuchDataset { name: name.into() });
    };
    let parent = state.find(above)?;
    if parent.kind != DatasetKind::FileSystem {
        return Err(bad("only a file system can have datasets below it"));
    }
    Ok((parent.id, last.to_owned()))
}

/// Refuses a new name if the name of a dataset or snapshot below becomes too long, in a pool of this name.
pub(crate) fn check_name_lengths(state: &DatasetTable, id: u64, pool: &str) -> Result<()> {
    let own = state.pool_name().len();
    for entry in state.subtree(id) {
        for entry in state.snapshots(&entry).iter().chain([&entry]) {
            let name = state.name_of(entry);
            let name = format!("{pool}{}", name.get(own..).unwrap_or_default());
            if name.len() > NAME_MAX {
                return Err(Error::BadName {
                    name,
                    reason: "it is longer than 255 bytes",
                });
            }
        }
    }
    Ok(())
}

/// Refuses to move a dataset below itself, or away from its key root.
fn check_move(state: &DatasetTable, entry: &Entry, name: &str, parent: u64) -> Result<()> {
    let subtree = state.subtree(entry.id);
    if subtree.iter().any(|below| below.id == parent) {
        return Err(Error::Refused {
            name: name.into(),
            reason: "it cannot be moved below itself".into(),
        });
    }
    let inherits = entry.key_root != 0 && entry.key_root != entry.id && !entry.is_snapshot();
    if inherits && state.entry(parent)?.key_root != entry.key_root {
        return Err(Error::Refused {
            name: name.into(),
            reason: "its key is inherited from a dataset that would no longer be above it; \
                     give it a key of its own first (key change)"
                .into(),
        });
    }
    Ok(())
}
