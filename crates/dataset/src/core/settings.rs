//! The settings of an open dataset.

use pool::{DEDUP_SPACE, OpenDataset, SecondaryCache};

use super::log::SyncMode;
use crate::seal::Compression;

/// The rule by which reading a file changes its access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// Never.
    Off,
    /// Reading changes an access time that is older than the last change, or older than a day.
    #[default]
    Relative,
    /// Always.
    On,
}

/// The plaintext that stays in memory once it is clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryCache {
    /// Contents and metadata.
    #[default]
    All,
    /// Metadata only.
    Metadata,
    /// No caching: contents and metadata leave memory as soon as they are not in use.
    None,
}

/// Properties that an open dataset follows; they can change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The compression of records.
    pub compression: Compression,
    /// The bytes of a full record of new files: a power of two, 4 KiB to 1 MiB.
    pub record_size: u32,
    /// The rule by which reading changes the access time.
    pub atime: Atime,
    /// The plaintext that stays in memory.
    pub primary_cache: PrimaryCache,
    /// The sealed records that the cache devices of the pool may hold.
    pub secondary_cache: SecondaryCache,
    /// True if equal records are stored once, for new data.
    pub dedup: bool,
    /// The number of copies of new data in the pool: 1 or 2.
    pub copies: u8,
    /// Refuse changes.
    pub read_only: bool,
    /// The time at which changes are durable.
    pub sync: SyncMode,
    /// The location of an answered change of a served volume.
    pub write_cache: WriteCache,
    /// True if quotas or reservations of the pool limit the dataset.
    pub limited: bool,
    /// True if opening the dataset gives up the entries of its log that are not of its present state.
    pub gives_up_log: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            compression: Compression::default(),
            record_size: 128 << 10,
            atime: Atime::default(),
            primary_cache: PrimaryCache::default(),
            secondary_cache: SecondaryCache::default(),
            dedup: false,
            copies: 1,
            read_only: false,
            sync: SyncMode::default(),
            write_cache: WriteCache::default(),
            limited: false,
            gives_up_log: false,
        }
    }
}

/// The location of a change of a served volume when its client is told that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteCache {
    /// In the intent log on the devices, which may have it in their caches.
    #[default]
    On,
    /// Durable.
    Off,
    /// Perhaps only in the memory of this process.
    Volatile,
}

/// A larger record is stored once, because a gang map has no space for the pieces of two copies.
const COPIES_MAX: usize = (pool::RECORD_MAX / 2) as usize;

impl Settings {
    /// The number of copies of a record of `len` bytes. A record that may be shared is stored once.
    pub(crate) fn copies_of(&self, len: usize) -> usize {
        match self.copies > 1 && !self.dedup && len <= COPIES_MAX {
            true => 2,
            false => 1,
        }
    }

    /// The additional space of a record that may be shared.
    pub(crate) fn table_space(&self) -> u64 {
        if self.dedup { DEDUP_SPACE } else { 0 }
    }

    pub(super) fn keeps_metadata(&self) -> bool {
        self.primary_cache != PrimaryCache::None
    }

    /// Passes the cache settings on to the open dataset of the pool.
    pub(super) fn follow_caching(&self, open: &OpenDataset) {
        open.set_keeping(self.keeps_metadata(), self.secondary_cache);
    }
}
