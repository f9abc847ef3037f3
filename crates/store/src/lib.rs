//! The devices of a pool, and the places for its bytes.
//!
//! A [`Store`] offers a pool three kinds of places:
//! - *segments* hold records, which are never overwritten while they are live;
//! - the *superblock* points to the root of the pool; each commit writes a new one;
//! - *key blocks* are a small area. They are overwritten in place, so that a replaced key is gone.
//!
//! The places are on mirrors and on groups with parity. If one copy or column fails, the others still have the data.
//! The store knows no records, datasets or keys.
//!
//! Layers, lowest first:
//! - `helpers`, `pace`: threads, and requests that they make for callers that do not wait for ever;
//! - `error`, `segment`, `membership`: numbers of segments, reports about devices;
//! - `code`, `shape`, [`layout`], `geometry`: the parity code, and the layout of bytes;
//! - `debts`, `member`, `change`, `group`, `parity`: refused writes, one device, its move to another pool, the
//!   devices of a group, reads with some of them missing;
//! - `prompt`, `deadline`, `batch`: reads, and operations on several members at the same time, that do without members
//!   that do not answer;
//! - `devices`, `headers`, `cache`, `clear`: the devices of a pool together, and cache devices;
//! - `claims`: reservations of devices;
//! - `places`, `blocks`, `relabel`, `members`, `extend`: the operations of a [`Store`] on segments, on superblocks and
//!   key blocks, and on its devices.

mod batch;
mod blocks;
mod cache;
mod change;
mod claims;
mod clear;
mod code;
mod deadline;
mod debts;
mod devices;
mod error;
mod extend;
mod geometry;
mod group;
mod headers;
mod heartbeat;
mod helpers;
pub mod layout;
mod member;
mod members;
mod membership;
mod pace;
mod parity;
mod places;
mod prompt;
mod relabel;
mod segment;
mod shape;

pub use block::{BlockDevice, Claimant, IoMode, human_size};
pub use cache::CacheRange;
pub use clear::clear_label;
pub use devices::{CreateOptions, Found, NewGroup, Store, probe};
pub use error::{Error, Result};
pub use membership::{
    Assigned, ErrorCounts, Fault, HeaderCheck, Joins, MemberInfo, MemberState, NewMember, Newest,
};
pub use pace::LateDevice;
pub use parity::Parts;
pub use relabel::by_pool;
pub use segment::{SegmentId, UNIT};
pub use shape::{COLUMNS_MAX, COLUMNS_MIN, Shape, columns_min};
