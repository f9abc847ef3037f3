//! Reports about devices that a pool and its store exchange.

use std::sync::Arc;

use block::{BlockDevice, IoMode};

use crate::Error;

/// The state of a device of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// The device holds all segments of its group.
    Online = 0,
    /// The device gets new writes, and lacks some of the earlier ones.
    Resilvering = 1,
    /// The device failed. It is neither written nor read.
    Faulted = 2,
    /// The administrator took it offline.
    Offline = 3,
}

impl MemberState {
    pub(crate) fn from_number(number: u8) -> MemberState {
        match number {
            0 => MemberState::Online,
            1 => MemberState::Resilvering,
            2 => MemberState::Faulted,
            _ => MemberState::Offline,
        }
    }
}

/// The numbers of failures of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Copies that were not what they should be.
    pub checksum: u64,
}

/// A device of a pool that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// The guid of the device.
    pub guid: u64,
    /// The path of the device.
    pub name: String,
    /// The group it belongs to, by its label.
    pub group: u16,
    /// The column that the device holds in a group with parity; else 0.
    pub column: u16,
    /// Bytes that the pool uses of it.
    pub size: u64,
    /// Bytes that it has, as of [`crate::Store::refresh_sizes`].
    pub present: u64,
    /// The number of segments in the bytes that the pool uses.
    pub segments: u32,
    /// The number of segments after [`crate::Store::extend`].
    pub segments_extended: u32,
    /// True if it is labelled as a spare.
    pub is_spare: bool,
    /// The state of the device.
    pub state: MemberState,
    /// The failures of the device.
    pub errors: ErrorCounts,
    /// See [`BlockDevice::io_mode`].
    pub io_mode: Option<IoMode>,
    /// True if it has not answered requests that were given up.
    pub is_slow: bool,
    /// The number of requests that were given up since the pool was opened.
    pub given_up: u64,
}

/// The newest superblock of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The guid of the device.
    pub guid: u64,
    /// The path of the device.
    pub name: String,
    /// The superblock, if one is whole.
    pub superblock: Option<(u64, Vec<u8>)>,
}

/// A device that failed and is not used any more.
#[derive(Debug)]
pub struct DeviceFault {
    /// The guid of the device.
    pub guid: u64,
    /// The path of the device.
    pub name: String,
    /// The error.
    pub error: Error,
}

/// The state that the pool assigns to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAssignment {
    /// The guid of the device.
    pub guid: u64,
    /// The state of the device.
    pub state: MemberState,
    /// The earlier failures of the device.
    pub errors: ErrorCounts,
}

/// The position at which a device joins a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// Another member of a group.
    Group {
        /// The number of the group.
        group: u16,
        /// The column that the device is to hold; 0 without parity.
        column: u16,
    },
    /// A spare.
    Spares,
}

/// The result of a check of the headers of a pool's devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderCheck {
    /// Bytes read.
    pub examined: u64,
    /// Copies rewritten.
    pub repaired: u64,
    /// Blocks of which no copy is whole.
    pub lost: u64,
}

/// A device that is to join a pool.
pub struct NewMember {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Names it for ever.
    pub guid: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// Overwrite what it holds.
    pub force: bool,
}
