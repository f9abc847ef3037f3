//! What a pool and its store tell each other about devices.

use std::sync::Arc;

use block::{BlockDevice, IoMode};

use crate::Error;

/// What a device of a pool is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    /// It holds everything that its group does.
    Online = 0,
    /// It gets what is written, and lacks some of what was written before.
    Resilvering = 1,
    /// It failed. It is neither written nor read.
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

/// How often a device failed.
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
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// The group it belongs to, by its label.
    pub group: u16,
    /// Which column of a group with parity it holds; else 0.
    pub column: u16,
    /// Bytes that the pool uses of it.
    pub size: u64,
    /// Bytes that it has, as of [`crate::Store::refresh_sizes`].
    pub present: u64,
    /// How many segments there is space for in the bytes that the pool uses.
    pub segments: u32,
    /// How many there would be space for after [`crate::Store::extend`].
    pub segments_extended: u32,
    /// Whether it is labelled as a spare.
    pub is_spare: bool,
    /// What it is good for.
    pub state: MemberState,
    /// How often it failed.
    pub errors: ErrorCounts,
    /// See [`BlockDevice::io_mode`].
    pub io_mode: Option<IoMode>,
    /// Whether it has not answered requests that were given up.
    pub is_slow: bool,
    /// How many requests were given up since the pool was opened.
    pub given_up: u64,
}

/// The newest superblock of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// The superblock, if one is whole.
    pub superblock: Option<(u64, Vec<u8>)>,
}

/// A device that failed and is not used any more.
#[derive(Debug)]
pub struct DeviceFault {
    /// Which device.
    pub guid: u64,
    /// Its path.
    pub name: String,
    /// What failed.
    pub error: Error,
}

/// What a device is, as the pool says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAssignment {
    /// Which device.
    pub guid: u64,
    /// What it is good for.
    pub state: MemberState,
    /// How often it failed before.
    pub errors: ErrorCounts,
}

/// Where a device joins a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joins {
    /// As one more member of a group.
    Group {
        /// Which group.
        group: u16,
        /// Which of its columns it is to hold; 0 without parity.
        column: u16,
    },
    /// As a spare.
    Spares,
}

/// What was found in the headers of a pool's devices.
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
