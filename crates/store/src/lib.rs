//! Where the bytes of a pool live.
//!
//! A [`Store`] offers a pool three kinds of places:
//! - *segments* hold records, which are never overwritten while they are live;
//! - the *superblock* names the root of everything, and each commit replaces it whole;
//! - *key blocks*, a small area, are overwritten in place, so that a replaced key is gone.
//!
//! It keeps them on block devices: mirrors and groups with parity. One copy or column
//! that fails costs nothing that the others hold. A store knows nothing of records, datasets or keys.
//!
//! Layers, lowest first:
//! - `helpers`: threads;
//! - `error`, `segment`, `membership`: numbers, and what is said about devices;
//! - `code`, `shape`, [`layout`], `geometry`: the code of parity, and where bytes lie;
//! - `debts`, `member`, `group`, `parity`: one device, what it did not take, the devices that share segments, reading without some;
//! - `batch`: writes to several members at the same time;
//! - `devices`, `headers`, `cache`: the devices of a pool together, and cache devices;
//! - `places`, `blocks`, `members`, `extend`: what a [`Store`] does with segments, superblocks and key blocks, its devices.

mod batch;
mod blocks;
mod cache;
mod code;
mod debts;
mod devices;
mod error;
mod extend;
mod geometry;
mod group;
mod headers;
mod helpers;
pub mod layout;
mod member;
mod members;
mod membership;
mod parity;
mod places;
mod segment;
mod shape;

pub use block::BlockDevice;
pub use cache::CacheRange;
pub use devices::{CreateOptions, Found, NewGroup, Store, probe};
pub use error::{Error, Result};
pub use membership::{
    Assigned, ErrorCounts, Fault, HeaderCheck, Joins, MemberInfo, MemberState, NewMember, Newest,
};
pub use parity::Parts;
pub use segment::{SegmentId, UNIT};
pub use shape::{COLUMNS_MAX, COLUMNS_MIN, Shape};
