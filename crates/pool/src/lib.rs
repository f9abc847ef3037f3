//! A pool stores, versions, checks, counts and moves sealed records that it cannot open.
//!
//! The crate keeps datasets on a set of devices (`store`). It commits changes, makes snapshots and
//! clones, sends and receives them, checks and repairs what is stored, and adds and removes devices.
//!
//! # What it guarantees
//!
//! - **It needs no key.** The crate does not depend on the crates with keys and ciphers. So commit, snapshot,
//!   destroy, scrub and check need no key.
//! - **After a power cut the pool has the complete state of one commit:** the last one that was durable, or the next
//!   one. A commit never overwrites data that the last commit points to.
//! - **It trusts no bytes that it reads.** Checksums verify nodes and the pool's own records. For any bytes, a decoder
//!   returns a value or an error.
//! - **Space is never lost or used twice.** [`Pool::check`] compares the bitmaps with everything
//!   that the superblock reaches.
//!
//! # Terms
//!
//! - An *array* is a sparse row of records: a copy-on-write radix tree of nodes.
//! - A *dataset* is two arrays: pages of metadata, and data. Its [`Entry`] is in the dataset table.
//! - A *transaction group* is a set of changes that become durable together. [`Pool::enter`] joins the open group.
//!   [`Pool::commit`] makes it durable.
//! - The *key holder* of an open dataset seals its records. Commits call it through [`DatasetHooks`].
//!
//! # Layers, the lowest first
//!
//! Each layer is a folder. A module imports modules of its own layer and of the layers below it. No
//! modules import each other in a circle (`scripts/circles`).
//!
//! | layer | holds |
//! |---|---|
//! | `error`, `env`, `names` | errors, time and random numbers, rules for names |
//! | `format` | the bytes of a pool and their types: pointers, nodes, entries, the configuration, streams |
//! | `storage` | records on the devices: reading, allocating, freeing and writing them, removed groups, cache devices |
//! | `engine` | transaction groups and the parts that a commit updates: the dataset table, deadlists, dedup, logs, quotas, the history, keys |
//! | `ops` | the operations of a [`Pool`]: one file or folder for each kind |

mod engine;
mod env;
mod error;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod names;
mod ops;
mod storage;

pub use engine::context::Hold;
pub use engine::counts::Counts;
pub use engine::dataset::{DatasetHooks, OpenDataset};
pub use engine::dedup::SPACE as DEDUP_SPACE;
pub use engine::facts::Unsealed;
pub use engine::history::Origin;
pub use engine::log::{Durability, LogEnd, LogEntry, LogReader};
pub use engine::placed::Placed;
pub use engine::quota::Limits;
pub use engine::quota::{Quota, QuotaKind};
pub use engine::reseal::Reseal;
pub use engine::stored::Stored;
pub use env::{CacheHash, Env};
pub use error::{Error, Result, Until};
pub use format::array_kind::ArrayKind;
pub use format::bookmark::Bookmark;
pub use format::config::{DeviceState, Purpose};
pub use format::entry::{DatasetKind, Entry, KeyringRef, PROPERTY_MAX};
pub use format::extent::Class;
pub use format::features::{FEATURES, Feature};
pub use format::history_line::HistoryLine;
pub use format::log_entry::{EntryPlace, LOG_HEADER, LOG_PLACE, LOG_PLACES_MAX};
pub use format::log_head::LogHead;
pub use format::node::FANOUT;
pub use format::past_seal::PastSeal;
pub use format::pointer::{Addr, Identity, Place, RECORD_MAX, RecordPtr, SLOT_LIMIT};
pub use format::removal_status::{RemovalPhase, RemovalStatus};
pub use format::resilver_status::ResilverStatus;
pub use format::root::{DedupInfo, Host, PoolState};
pub use format::scrub_status::{Damage, ScrubPhase, ScrubStatus};
pub use format::seal_input::SealInput;
pub use format::sealed_facts::PROTECTIVE;
pub use format::stream::{Begin, Lineage, Package, PackedDataset, Position, ResumeToken, Sender};
pub use format::volume_shape::VolumeShape;
pub use names::{DatasetName, NAME_MAX, check_pool_name};
pub use ops::bookmarks::Marked;
pub use ops::check::{CheckReport, Finding};
pub use ops::checkpoint::CheckpointInfo;
pub use ops::clones::NewClone;
pub use ops::create::{MakeKeyring, NewDataset, NewKeyring, NewKeys};
pub use ops::deferral::Deferral;
pub use ops::destroy::Reach;
pub use ops::devices::caches::{CacheInfo, CacheState};
pub use ops::devices::{DeviceInfo, Expandable, Gained};
pub use ops::holds::Hold as SnapshotHold;
pub use ops::import::{AtCheckpoint, strangers};
pub use ops::info::{Listed, SpaceInfo, Superblock};
pub use ops::log::{ShownEntry, ShownLog};
pub use ops::multihost::{INTERVAL as HEARTBEAT_INTERVAL, Passing, await_no_other, watch_other};
pub use ops::pool::Pool;
pub use ops::prune::DatasetWith;
pub use ops::receive::{
    DryRun, Incoming, ReceiveInto, ReceivePolicy, SealRecords, SealedRecord, Sealing,
};
pub use ops::send::{OpenRecords, SendOf, Sending};
pub use ops::split::NewPool;
pub use ops::sweep::{Sweep, SweepStatus};
pub use storage::cache_device::SecondaryCache;
pub use storage::space::{Reservation, ReserveFor, TurnToFree};
pub use storage::writer::txg::TxgWriter;
