//! A pool: sealed records, versioned, checked, counted and moved by someone who cannot open them.
//!
//! This crate knows no keys and no ciphers, and does not depend on the crates that do. So whatever
//! it does (commit, snapshot, destroy, scrub, check) needs no key; that is a fact of compilation,
//! not a promise.
//!
//! - An *array* is a sparse row of records: a copy-on-write radix tree of nodes ([`mod@layout`]).
//! - A *dataset* is two arrays: pages of metadata, and data. Its [`Entry`] is in the dataset table.
//! - A *transaction group* is what becomes durable together. [`Pool::enter`] joins the open one;
//!   [`Pool::commit`] makes it durable.
//! - The key holder of an open dataset is its [`Participant`].

mod array;
mod batch;
mod check;
mod clones;
mod commit;
mod compare;
mod config;
mod deadlist;
mod dedup;
mod destroy;
mod devices;
mod disk;
mod entry;
mod env;
mod error;
mod faults;
mod features;
#[cfg(fuzzing)]
pub mod fuzzing;
mod history;
mod holds;
mod info;
mod keyarea;
pub mod layout;
mod lifecycle;
mod log;
mod logdevices;
mod marks;
mod membership;
mod names;
mod open;
mod placing;
mod pool;
mod quota;
mod reap;
mod receive;
mod remap;
mod removal;
mod reservation;
mod resilver;
mod room;
mod root;
mod scatter;
mod scrub;
mod second;
mod send;
mod snapshot;
mod space;
mod state;
mod stream;
mod suspects;
mod variants;
mod volume;
mod wire;

pub use check::{CheckReport, Finding};
pub use clones::{NewClone, Reseal};
pub use commit::Commit;
pub use config::{DeviceState, Purpose};
pub use dedup::{DedupInfo, ROOM as DEDUP_ROOM};
pub use destroy::Reach;
pub use devices::{DeviceInfo, Expandable, Gained};
pub use entry::{DatasetKind, Entry, KeyringRef, PROPERTY_MAX};
pub use env::Env;
pub use error::{Error, Result};
pub use features::{FEATURES, Feature};
pub use history::HistoryLine;
pub use holds::Hold as SnapshotHold;
pub use info::{Listed, SpaceInfo, Superblock};
pub use layout::{Identity, Place, RECORD_MAX, RecordPtr, SLOT_LIMIT};
pub use lifecycle::{MakeKeyring, NewDataset, NewKeyring, Origin};
pub use log::{
    LOG_HEADER, LOG_PLACE, LOG_PLACES_MAX, LogEnd, LogEntry, LogHead, LogReader, ShownEntry,
    ShownLog,
};
pub use names::{DatasetName, NAME_MAX, check_pool_name};
pub use open::{ArrayKind, OpenDataset, Participant, Placed, SealInput};
pub use pool::{Hold, Pool};
pub use quota::{Quota, QuotaKind};
pub use receive::{ReceiveInto, Reception, SealRecords, SealedRecord, Sealing};
pub use removal::{RemovalPhase, RemovalStatus};
pub use reservation::Limits;
pub use resilver::ResilverStatus;
pub use root::PoolState;
pub use scrub::{Damage, ScrubPhase, ScrubStatus};
pub use second::{CacheInfo, CacheState, SecondaryCache};
pub use send::{OpenRecords, SendOf, Sending};
pub use space::{Class, Reservation, ReserveFor, TurnToFree};
pub use stream::{Begin, Lineage, Position, ResumeToken, Sender};
pub use volume::VolumeShape;
