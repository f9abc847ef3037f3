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
//! | `utc`, `error`, `env`, `names` | dates, errors, time and random numbers, rules for names |
//! | `format` | the bytes of a pool and their types: `records`, `superblock`, `datasets`, `logs`, `jobs`, `stream` |
//! | `storage` | records on the devices: reading, allocating, freeing and writing them, removed groups, cache devices |
//! | `engine` | transaction groups and the parts that a commit updates: the dataset table, deadlists, dedup, logs, quotas, the history, keys |
//! | `ops` | the operations of a [`Pool`]: `datasets`, `snapshots`, `devices`, `lifecycle`, `streams`, `scrub` |

mod engine;
mod env;
mod error;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod names;
mod ops;
mod storage;
mod utc;

pub use engine::context::TxgHold;
pub use engine::datasets::facts::UnsealedFacts;
pub use engine::datasets::open_dataset::{DatasetHooks, OpenDataset};
pub use engine::datasets::placed_record::PlacedRecord;
pub use engine::datasets::reseal::Reseal;
pub use engine::datasets::stored_space::StoredSpace;
pub use engine::dedup::SPACE as DEDUP_SPACE;
pub use engine::history::{ChainedLine, HistoryChain, Origin};
pub use engine::limits::counts::DatasetCounts;
pub use engine::limits::quota::Limits;
pub use engine::limits::quota::{Quota, QuotaKind};
pub use engine::log::{Durability, LogEnd, LogEntry, LogReader};
pub use engine::retention::device_retention::DeviceRetention;
pub use engine::retention::length::retention_length;
pub use env::{CacheHash, Env};
pub use error::{Error, Result, SuspensionEnd};
pub use format::datasets::bookmark::SnapshotBookmark;
pub use format::datasets::entry::{DatasetKind, Entry, KeyringRef, PROPERTY_MAX};
pub use format::datasets::past_seal::PastSeal;
pub use format::datasets::seal_input::SealInput;
pub use format::datasets::sealed_facts::PROTECTIVE;
pub use format::datasets::volume_shape::VolumeShape;
pub use format::jobs::removal_status::{RemovalPhase, RemovalStatus};
pub use format::jobs::resilver_status::ResilverStatus;
pub use format::jobs::scrub_status::{Damage, ScrubPhase, ScrubStatus};
pub use format::logs::log_entry::{LOG_HEADER, LOG_PLACE, LOG_PLACES_MAX, LogPosition};
pub use format::logs::log_head::LogHead;
pub use format::records::array_kind::ArrayKind;
pub use format::records::extent::Class;
pub use format::records::node::FANOUT;
pub use format::records::pointer::{
    Addr, RECORD_MAX, RecordIdentity, RecordLocation, RecordPtr, SLOT_LIMIT,
};
pub use format::stream::{
    Begin, Lineage, Package, PackedDataset, ResumeToken, Sender, StreamPosition,
};
pub use format::superblock::config::{DeviceState, Purpose};
pub use format::superblock::features::{FEATURES, Feature};
pub use format::superblock::history_line::{HistoryHead, HistoryLine};
pub use format::superblock::root::{DedupInfo, Host, PoolState};
pub use names::{DatasetName, NAME_MAX, check_pool_name};
pub use ops::check::{CheckReport, Finding};
pub use ops::datasets::clones::NewClone;
pub use ops::datasets::create::NewDataset;
pub use ops::datasets::destroy::Reach;
pub use ops::datasets::keyrings::{MakeKeyring, NewKeyring, NewKeys};
pub use ops::datasets::log::{ShownEntry, ShownLog};
pub use ops::devices::caches::CacheMembership;
pub use ops::devices::caches::{CacheInfo, CacheState};
pub use ops::devices::logs::LogDevices;
pub use ops::devices::removal::GroupRemoval;
pub use ops::devices::resilver::Resilverer;
pub use ops::devices::sweep::Sweeper;
pub use ops::devices::sweep::{SweepKind, SweepStatus};
pub use ops::devices::{DeviceInfo, Expandable, PoolGrowth};
pub use ops::follow::{Follower, FollowerInfo};
pub use ops::info::{DatasetListing, SpaceInfo, Superblock};
pub use ops::lifecycle::checkpoint::CheckpointInfo;
pub use ops::lifecycle::import::{AtCheckpoint, strangers};
pub use ops::lifecycle::multihost::Multihost;
pub use ops::lifecycle::multihost::{
    INTERVAL as HEARTBEAT_INTERVAL, ImportWait, await_no_other, watch_other,
};
pub use ops::lifecycle::pool_division::NewPool;
pub use ops::pool::Pool;
pub use ops::scrub::Scrubber;
pub use ops::snapshots::bookmarks::NamedBookmark;
pub use ops::snapshots::deferral::Deferral;
pub use ops::snapshots::holds::SnapshotHold;
pub use ops::snapshots::prune::DatasetWith;
pub use ops::streams::proof::{EarlierSnapshot, LostPart, ProofReader, SnapshotProof};
pub use ops::streams::receive::{
    DryRun, IncomingStreams, ReceiveInto, ReceivePolicy, SealRecords, SealedRecord, StreamSealer,
};
pub use ops::streams::send::{OpenRecords, OutgoingStream, SendOf};
pub use storage::cache_device::SecondaryCache;
pub use storage::space::{FreeingTurn, ReserveFor, SpaceReservation};
pub use storage::writer::txg::TxgWriter;
