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
//! - `error`, `membership`: errors, and reports about devices;
//! - [`layout`]: the bytes on a device, and the parity code;
//! - `group`: one device, the devices of a group, and requests to them;
//! - `store`: the devices of a pool together: segments, superblocks, key blocks, cache devices, reservations;
//! - `image`: a copy of a member on another device.

mod error;
mod group;
mod image;
pub mod layout;
mod membership;
mod store;

pub use block::{AtomicDevice, BlockDevice, Claimant, IoMode, human_size};
pub use error::{Error, Result};
pub use group::pace::LateDevice;
pub use group::parity::ColumnParts;
pub use image::{ImageHeader, PoolImage};
pub use layout::geometry::header_size;
pub use layout::segment::{SegmentId, UNIT};
pub use layout::shape::{COLUMNS_MAX, COLUMNS_MIN, Shape, columns_min};
pub use membership::{
    DeviceAssignment, DeviceFault, ErrorCounts, HeaderCheck, Joins, MemberInfo, MemberState,
    NewMember, Newest,
};
pub use store::cache::CacheRange;
pub use store::clear::clear_label;
pub use store::devices::{CreateOptions, DeviceIdentity, NewGroup, Store, probe};
pub use store::relabel::by_pool;
