//! The settings of an open dataset.

use pool::{DEDUP_SPACE, OpenDataset, SecondaryCache};

use super::log::SyncMode;
use crate::seal::Compression;

/// When reading a file changes its access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atime {
    /// Never.
    Off,
    /// When it is older than the last change, or a day.
    #[default]
    Relative,
    /// Always.
    On,
}

/// Which plaintext stays in memory once it is clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryCache {
    /// Contents and metadata.
    #[default]
    All,
    /// Metadata only.
    Metadata,
    /// Nothing: contents and metadata go as soon as they are not in use.
    None,
}

/// Properties that an open dataset follows; they can change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How records are compressed.
    pub compression: Compression,
    /// Bytes of a full record of files made from now on: a power of two, 4 KiB to 1 MiB.
    pub record_size: u32,
    /// When reading changes the access time.
    pub atime: Atime,
    /// What stays in memory.
    pub primary_cache: PrimaryCache,
    /// What the pool's cache devices may hold, sealed.
    pub secondary_cache: SecondaryCache,
    /// Whether what is written from now on is stored once if it is equal.
    pub dedup: bool,
    /// How often what is written from now on is stored, in the devices of the pool: once or twice.
    pub copies: u8,
    /// Refuse changes.
    pub read_only: bool,
    /// When changes are durable.
    pub sync: SyncMode,
    /// Whether quotas or reservations of the pool limit it.
    pub limited: bool,
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
            limited: false,
        }
    }
}

/// A record of more bytes is stored once: a gang map lists no more pieces of two copies.
const COPIES_MAX: usize = (pool::RECORD_MAX / 2) as usize;

impl Settings {
    /// How often a record of `len` bytes is stored. One that may be shared is stored once.
    pub(crate) fn copies_of(&self, len: usize) -> usize {
        match self.copies > 1 && !self.dedup && len <= COPIES_MAX {
            true => 2,
            false => 1,
        }
    }

    /// What a record takes besides if it may be shared.
    pub(crate) fn table_space(&self) -> u64 {
        if self.dedup { DEDUP_SPACE } else { 0 }
    }

    pub(super) fn keeps_metadata(&self) -> bool {
        self.primary_cache != PrimaryCache::None
    }

    /// Says below what may be kept there.
    pub(super) fn follow_caching(&self, open: &OpenDataset) {
        open.set_keeping(self.keeps_metadata(), self.secondary_cache);
    }
}
