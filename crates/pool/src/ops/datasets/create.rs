//! Creates and opens datasets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::datasets::keyarea;
use crate::engine::datasets::open_dataset::OpenDataset;
use crate::engine::datasets::table::DatasetTable;
use crate::engine::history::{Origin, log, log_internal};
use crate::error::{Error, Result};
use crate::format::datasets::entry::{DatasetKind, Entry, text_bytes};
use crate::format::records::pointer::RecordPtr;
use crate::format::superblock::features::FEATURE_VOLUMES;
use crate::names::DatasetName;
use crate::ops::datasets::keyrings::MakeKeyring;
use crate::ops::datasets::properties::check_props;
use crate::ops::pool::Pool;
use crate::storage::writer::txg::TxgWriter;

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

    /// Waits until none of these datasets is open, up to a time limit. True if none is open.
    pub fn wait_until_closed(&self, ids: &[u64], patience: Duration) -> bool {
        self.engine.wait_until_closed(ids, patience)
    }

    /// Opens a dataset or snapshot. A dataset is open once at a time.
    ///
    /// # Errors
    /// [`Error::Busy`] if the dataset is open;
    /// [`Error::Inconsistent`] if the id is unknown.
    pub fn open_dataset(&self, id: u64) -> Result<Arc<OpenDataset>> {
        self.engine.open_dataset(id)
    }
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
