//! The plaintext side of a pool: files and directories on two arrays of sealed records, and volumes on one.
//!
//! [`Dataset`] is an open dataset. [`SnapshotDirFs`] makes it a [`vfs::FileSystem`]. A [`Volume`] is a
//! [`block::BlockDevice`] on the same machinery.
//!
//! What it guarantees:
//! - The pool gets only compressed, encrypted and authenticated records: no plaintext, no keys.
//! - It returns only data that the key holder sealed. Replaced or mixed data is an error.
//! - Each operation is in one transaction group: after a power cut it has happened completely or not at all.
//! - When `fsync` returns, the changes are durable, by the log or by a commit.
//! - Space and quotas are checked before anything changes, so that a commit never runs out of space.
//!
//! Layers, lowest first:
//! - `error`, `layout`, `buffer`: errors, bytes on the devices, plaintext of a record;
//! - `seal`: compression, encryption, seals;
//! - `tree`: the metadata tree, and the space of users and groups;
//! - `core`: the open dataset: admission, records, the log, settings;
//! - `fs`: names, attributes, directories;
//! - `mount`, `volume`, `reseal`, `diff`, `measure`: the interface for callers.

mod buffer;
mod core;
mod diff;
mod error;
mod fs;
#[cfg(fuzzing)]
pub mod fuzzing;
mod layout;
mod measure;
mod mount;
mod reseal;
mod seal;
mod tree;
mod volume;

#[doc(hidden)]
pub use self::core::WrongBlocks;
pub use self::core::{
    Ancestry, Atime, Clock, Dataset, Engine, EngineOptions, PrimaryCache, ReencryptionReport,
    SealChecker, SealedState, Settings, SyncMode, WriteCache, ancestry, verify_seal,
};
pub use diff::{
    Difference, DifferenceKind, FoundFiles, RecordFile, RecordSearch, diff, files_with,
};
pub use error::{Error, LostEntries, Result};
pub use fs::Miscount;
#[doc(hidden)]
pub use measure::SealPipeline;
pub use mount::closed_dirs::ClosedCheck;
pub use mount::snapshot_dir::{OpenSnapshot, SnapshotDirFs};
pub use reseal::resealer::Resealer;
pub use reseal::transfer::{RecordOpener, RecordSealer};
pub use seal::{Compression, NewGeneration};
pub use tree::owners::{Owner, OwnerAccount, Usage};
pub use volume::Volume;
