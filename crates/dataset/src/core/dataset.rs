//! An open dataset, with files or a volume: its shared state, and the steps of a change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use keys::DataKeys;
use parking_lot::{Mutex, RwLock};
use pool::{
    ArrayKind, DatasetHooks, Entry, OpenDataset, Pool, RecordPtr, ReserveFor, SpaceReservation,
    TxgHold, VolumeShape,
};
use vfs::{Caller, Ino, Time};

use super::admission::{KnownLimits, OrphanFiles};
use super::engine::{DirtyMeter, Engine};
use super::history::end::SealHistory;
use super::history::pages::SealPages;
use super::io::memory::frozen::FrozenFiles;
use super::io::memory::inode::Inodes;
use super::io::slots::extents;
use super::io::workers::RunningJobs;
use super::log::Scope;
use super::log::journal::ChangeJournal;
use super::log::writer::LogWriter;
use super::reencryption::DatasetReencryption;
use super::sealed_state::{check_seal, read_header, read_record};
use super::settings::{PrimaryCache, Settings};
use crate::buffer::RecordBuffer;
use crate::error::{Error, Result};
use crate::layout::{AttrValue, attr_key};
use crate::seal::{NewGeneration, Sealer};
use crate::tree::Header;
use crate::tree::{
    MetadataTree, PAGE, PageSource, TreeAttempt, TreePage, TreeReader, TreeStep, TreeView,
    TreeWriter,
};

/// The largest space of a page in the pool: two copies, with gang maps, and the nodes above.
pub(crate) const PAGE_SPACE: u64 = (2 * (PAGE + 4096) + 6 * 4096) as u64;

/// A snapshot may keep 1 / this of the pages that a dataset may keep.
const SNAPSHOT_SHARE: usize = 8;

/// A dataset of files, or a snapshot of one, open with its keys. A [`Volume`](crate::Volume) uses a `Dataset` too:
/// then there is no tree, and one inode, whose records are the blocks.
pub struct Dataset {
    this: Weak<Dataset>,
    name: String,
    pub(crate) engine: Arc<Engine>,
    pub(crate) pool: Pool,
    /// The count of dirty bytes of this pool.
    pub(crate) dirty: DirtyMeter,
    pub(crate) open: Arc<OpenDataset>,
    pub(crate) sealer: Sealer,
    pub(crate) tree: MetadataTree,
    /// The size of a volume when it was opened.
    pub(crate) volume: Option<VolumeShape>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) unlinked: OrphanFiles,
    /// Space in the pool for the dirty pages.
    pub(crate) page_reservations: Mutex<Vec<SpaceReservation>>,
    pub(crate) frozen: Mutex<FrozenFiles>,
    pub(crate) history: Mutex<SealHistory>,
    /// Records that workers are sealing.
    pub(crate) pending: RunningJobs,
    settings: RwLock<Settings>,
    /// The last transaction group that has a change of this dataset.
    last_change: AtomicU64,
    pub(crate) journal: ChangeJournal,
    pub(crate) log: LogWriter,
    pub(crate) reencryption: DatasetReencryption,
    pub(crate) limits: KnownLimits,
    /// Held while the use of users and groups is counted: one count at a time.
    pub(crate) counting: Mutex<()>,
}

impl Dataset {
    /// Opens a dataset or snapshot with the keys of its keyring, or without keys if it is clear. An empty
    /// dataset gets a root directory that belongs to `owner`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the seal over the dataset, or a record that is needed to open it, does not come from the
    /// key holder; [`Error::Keys`] if there is no locked memory for the keys; [`pool::Error::Suspended`] in a
    /// suspended pool, because its state in memory may be unfinished.
    pub fn open(
        engine: &Arc<Engine>,
        pool: &Pool,
        id: u64,
        keys: Option<Vec<DataKeys>>,
        settings: Settings,
        owner: &Caller,
    ) -> Result<Arc<Dataset>> {
        let entry = pool.entry(id)?;
        let opened = Dataset::open_entry(engine, pool, &entry, keys, settings, owner);
        unless_suspended(pool, &entry, opened)
    }

    fn open_entry(
        engine: &Arc<Engine>,
        pool: &Pool,
        entry: &Entry,
        keys: Option<Vec<DataKeys>>,
        settings: Settings,
        owner: &Caller,
    ) -> Result<Arc<Dataset>> {
        if entry.volume().is_some() {
            return Err(pool::Error::Refused {
                name: pool.name_of(entry.id)?,
                reason: "it is a volume, and has no files".into(),
            }
            .into());
        }
        let (dataset, is_new) = Dataset::assemble(engine, pool, entry, keys, settings)?;
        if dataset.tree.counts_owners() {
            // The dataset may have arrived in a stream.
            pool.note_owners();
        }
        if dataset.tree.header().has_file_flags {
            pool.note_file_flags();
        }
        dataset.replay_log()?;
        if is_new {
            dataset.make_root(owner)?;
        }
        if dataset.open.is_writable() {
            // Files that cannot be removed now stay on the list.
            if let Err(error) = dataset.remove_orphans() {
                let name = dataset.name();
                tracing::warn!(%error, dataset = name, "unlinked files could not be removed yet");
            }
        }
        Ok(dataset)
    }

    /// Opens a dataset of any kind in the state of its last commit, and attaches it to later commits. Also returns
    /// whether it has no tree yet.
    pub(crate) fn assemble(
        engine: &Arc<Engine>,
        pool: &Pool,
        entry: &Entry,
        keys: Option<Vec<DataKeys>>,
        settings: Settings,
    ) -> Result<(Arc<Dataset>, bool)> {
        let name = pool.name_of(entry.id)?;
        let sealer = Sealer::of(entry.family, keys)?;
        if sealer.is_encrypted() != (entry.suite != 0) {
            return Err(Error::Damaged {
                dataset: name,
                what: "whether it is encrypted; its entry and its keys disagree:".into(),
            });
        }
        check_seal(pool, entry, &sealer, &name)?;
        let open = pool.open_dataset(entry.id)?;
        settings.follow_caching(&open);
        let header = match entry.volume() {
            None => read_header(&open, &sealer, &name)?,
            // The tree of a volume stays empty.
            Some(_) => Some(Header::new([0; 32])),
        };
        let is_new = header.is_none();
        let history = open_history(pool, (entry, &open), &sealer, header.as_ref(), &name)?;
        let tree = match header {
            Some(header) => MetadataTree::open(header, pages_of(engine, entry)),
            None => {
                let mut name_key = [0; 32];
                engine
                    .random
                    .fill(&mut name_key)
                    .map_err(|_| vfs::Error::Io)?;
                MetadataTree::create(Header::new(name_key), engine.tree_pages)
            }
        };
        let dataset = Arc::new_cyclic(|this| Dataset {
            this: Weak::clone(this),
            name,
            engine: Arc::clone(engine),
            pool: pool.clone(),
            dirty: engine.dirty_of(pool.guid()),
            open,
            sealer,
            tree,
            volume: entry.volume(),
            inodes: Arc::new(Inodes::new()),
            unlinked: OrphanFiles::default(),
            page_reservations: Mutex::default(),
            frozen: Mutex::default(),
            history: Mutex::new(history),
            pending: RunningJobs::default(),
            settings: RwLock::new(settings),
            last_change: AtomicU64::new(0),
            journal: ChangeJournal::default(),
            log: LogWriter::default(),
            reencryption: DatasetReencryption::default(),
            limits: KnownLimits::default(),
            counting: Mutex::default(),
        });
        dataset.tree.set_uncached(!settings.keeps_metadata());
        if dataset.open.is_writable() {
            let hooks: Weak<Dataset> = Arc::downgrade(&dataset);
            dataset.open.attach(hooks as Weak<dyn DatasetHooks>);
        }
        Ok((dataset, is_new))
    }

    pub(crate) fn this(&self) -> Arc<Dataset> {
        self.this.upgrade().expect("it is being used")
    }

    /// Returns the full name at the time of opening.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id in the pool.
    pub fn id(&self) -> u64 {
        self.open.id()
    }

    /// Returns whether it can be changed: it is not a snapshot, and its pool is not read-only.
    pub fn is_writable(&self) -> bool {
        self.open.is_writable()
    }

    /// Returns the present settings.
    pub fn settings(&self) -> Settings {
        *self.settings.read()
    }

    /// Changes its settings.
    pub fn set_settings(&self, settings: Settings) {
        *self.settings.write() = settings;
        if settings.primary_cache != PrimaryCache::All {
            self.engine.cache.wipe(self.open.guid());
        }
        settings.follow_caching(&self.open);
        self.tree.set_uncached(!settings.keeps_metadata());
    }

    /// Seals with another generation from now on. The stored keyring of the dataset must already have it.
    pub fn use_generation(&self, generation: NewGeneration) {
        self.sealer.use_generation(generation);
    }

    /// Makes everything durable.
    pub fn sync_all(&self) -> Result<()> {
        Ok(self
            .pool
            .commit_through(self.last_change.load(Ordering::Acquire))?)
    }

    /// Makes everything durable, and waits until no thread works on the dataset. The dataset is closed when the last
    /// reference to it is dropped.
    pub fn close(&self) -> Result<()> {
        let result = self.sync_all();
        let own = std::slice::from_ref(&self.pending);
        self.engine.workers.finish(self.pool.guid(), own);
        self.give_up_log()?;
        self.pool.commit()?;
        result
    }

    pub(crate) fn now(&self) -> Time {
        self.engine.clock.now()
    }

    /// Returns the present settings, if the dataset can be changed.
    pub(crate) fn check_writable(&self) -> Result<Settings> {
        let settings = self.settings();
        if !self.open.is_writable() || settings.read_only {
            return Err(vfs::Error::ReadOnly.into());
        }
        Ok(settings)
    }

    pub(crate) fn read_tree<T>(
        &self,
        operation: impl FnMut(&TreeReader<'_>) -> TreeStep<T>,
    ) -> Result<T> {
        self.tree.read(self, operation)
    }

    /// Changes the tree: completely, or not at all.
    pub(crate) fn change<T>(
        &self,
        why: ReserveFor,
        operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
    ) -> Result<T> {
        self.change_in(Scope::Names, why, operation, |_, value| value)
    }

    /// Changes the part of a file's contents that is in the tree.
    pub(crate) fn change_contents<T>(
        &self,
        ino: Ino,
        why: ReserveFor,
        operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
    ) -> Result<T> {
        self.change_in(Scope::Contents(ino), why, operation, |_, value| value)
    }

    /// Changes the tree, and calls `then` in the same transaction group.
    pub(crate) fn change_and<T, R>(
        &self,
        why: ReserveFor,
        operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
        then: impl FnOnce(&TxgHold<'_>, T) -> R,
    ) -> Result<R> {
        self.change_in(Scope::Names, why, operation, then)
    }

    /// Does the same as [`Dataset::change_and`]. `scope` determines how the change reaches the log.
    pub(crate) fn change_in<T, R>(
        &self,
        scope: Scope,
        why: ReserveFor,
        operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
        then: impl FnOnce(&TxgHold<'_>, T) -> R,
    ) -> Result<R> {
        let settings = self.check_writable()?;
        let reserved = self.reserve_operation(&settings, why)?;
        self.change_within(reserved, scope, operation, then)
    }

    /// Does the same as [`Dataset::change_in`], even if the settings of the dataset refuse changes.
    pub(crate) fn change_always<T, R>(
        &self,
        scope: Scope,
        why: ReserveFor,
        operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
        then: impl FnOnce(&TxgHold<'_>, T) -> R,
    ) -> Result<R> {
        let reserved = self.reserve_operation(&self.settings(), why)?;
        self.change_within(reserved, scope, operation, then)
    }

    /// Does the same as [`Dataset::change_always`], with space that the caller has reserved.
    pub(crate) fn change_within<T, R>(
        &self,
        reserved: SpaceReservation,
        scope: Scope,
        mut operation: impl FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
        then: impl FnOnce(&TxgHold<'_>, T) -> R,
    ) -> Result<R> {
        let _use = self.tree.begin_use();
        loop {
            let hold = self.pool.enter()?;
            match self.try_change(&hold, scope, &mut operation)? {
                Ok((value, dirtied)) => {
                    self.keep_reserved(reserved, dirtied);
                    return Ok(then(&hold, value));
                }
                Err((slot, evictions)) => {
                    drop(hold);
                    self.tree.fetch(self, slot, evictions)?;
                }
            }
        }
    }

    /// A try under a hold. Returns the value and the number of pages that became dirty, or the page to fetch.
    pub(crate) fn try_change<T>(
        &self,
        hold: &TxgHold<'_>,
        scope: Scope,
        operation: &mut dyn FnMut(&mut TreeWriter<'_>) -> TreeStep<T>,
    ) -> Result<std::result::Result<(T, usize), (u64, u64)>> {
        let txg = hold.txg();
        let note = |header: &Header, edits: &_| self.journal.note(txg, scope, header, edits);
        // Quotas allowed the changes of a replay when they were made.
        let is_free = scope == Scope::Upkeep;
        Ok(match self.tree.try_write(txg, is_free, operation, &note)? {
            TreeAttempt::Done {
                value,
                changed,
                dirtied,
            } => {
                if changed {
                    self.mark_changed(hold);
                }
                Ok((value, dirtied))
            }
            TreeAttempt::Miss { slot, evictions } => Err((slot, evictions)),
        })
    }

    pub(crate) fn mark_changed(&self, hold: &TxgHold<'_>) {
        self.open.mark_changed(hold);
        self.last_change.fetch_max(hold.txg(), Ordering::AcqRel);
    }

    /// Makes writers wait for a commit if there are too many dirty bytes.
    pub(crate) fn throttle(&self) -> Result<()> {
        if self.has_to_wait() {
            self.pool.commit()?;
        }
        Ok(())
    }

    /// Returns whether there are too many dirty bytes.
    pub(crate) fn has_to_wait(&self) -> bool {
        self.dirty.is_full() || self.tree.dirty_pages() > self.engine.tree_pages
    }

    /// The slot of a record in `data`, if it has one.
    pub(crate) fn slot_of(&self, ino: Ino, record: u64) -> Result<Option<u64>> {
        if self.volume.is_some() {
            return Ok(Some(record));
        }
        let extent = self.read_tree(|r| extents::find(r, ino, record))?;
        Ok(extent.map(|extent| extent.slot_of(record)))
    }

    /// The attributes of an inode.
    pub(crate) fn attr(&self, ino: Ino) -> Result<AttrValue> {
        self.read_tree(|r| attr_of(r, ino))
    }

    /// Reads and opens the record in a slot that had `ptr` a moment ago.
    pub(crate) fn read_record(
        &self,
        array: ArrayKind,
        slot: u64,
        ptr: RecordPtr,
    ) -> Result<Option<(RecordPtr, RecordBuffer)>> {
        read_record(&self.open, &self.sealer, &self.name, array, (slot, ptr))
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged {
            dataset: self.name.clone(),
            what: what.into(),
        }
    }
}

/// Replaces an error of opening by that of a suspended pool, if the pool is suspended. Its state in memory may be
/// unfinished, and this is not damage.
pub(crate) fn unless_suspended<T>(pool: &Pool, entry: &Entry, opened: Result<T>) -> Result<T> {
    if opened.is_err() && !entry.is_snapshot() && pool.suspended().is_some() {
        pool.check_writable()?;
    }
    opened
}

/// The number of clean pages that a tree may keep. Many snapshots of a dataset may be open at a time.
fn pages_of(engine: &Engine, entry: &Entry) -> usize {
    match entry.is_snapshot() {
        true => (engine.tree_pages / SNAPSHOT_SHARE).max(64),
        false => engine.tree_pages,
    }
}

impl PageSource for Dataset {
    fn load(&self, slot: u64) -> Result<TreePage> {
        let ptr = self.open.get(ArrayKind::Pages, slot)?;
        let (_, buffer) = self
            .read_record(ArrayKind::Pages, slot, ptr)?
            .ok_or_else(|| self.damaged(format!("its tree: there is no page {slot}")))?;
        TreePage::from_bytes(&buffer)
            .ok_or_else(|| self.damaged(format!("page {slot} of its tree")))
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        // There are dirty records only if the pool failed.
        for inode in self.inodes.dirty.lock().values() {
            let records = inode.records.lock();
            let left: usize = records.values().map(|record| record.buffer.len()).sum();
            self.dirty.sub(left);
        }
        self.engine.cache.wipe(self.open.guid());
    }
}

/// The attributes of an inode. Fails if it does not exist.
pub(crate) fn attr_of(view: &dyn TreeView, ino: Ino) -> TreeStep<AttrValue> {
    let value = view.get(&attr_key(ino))?.ok_or(vfs::Error::Stale)?;
    Ok(AttrValue::decode(value).ok_or(vfs::Error::Io)?)
}

/// The history of the seals of a dataset that commits will change.
fn open_history(
    pool: &Pool,
    (entry, open): (&Entry, &OpenDataset),
    sealer: &Sealer,
    header: Option<&Header>,
    name: &str,
) -> Result<SealHistory> {
    let Some(header) = header.filter(|_| sealer.is_encrypted() && open.is_writable()) else {
        return Ok(SealHistory::default());
    };
    let runs = entry.volume().is_none().then_some(header.seal_runs);
    let pages = SealPages {
        open,
        sealer,
        name,
        runs,
    };
    let history = SealHistory::open(&pages)?;
    if !history.is_empty() {
        // The dataset may have arrived in a stream.
        pool.note_seal_history();
    }
    Ok(history)
}
