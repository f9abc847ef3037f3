//! A device of a pool, for reports.

use store::{ErrorCounts, IoMode, MemberInfo, MemberState, Shape};

use crate::format::superblock::config::{Config, ConfigDevice, DeviceState, Purpose};

/// A device of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The guid of the device.
    pub guid: u64,
    /// The path of the device, or its last known path.
    pub path: String,
    /// The size of the device, in bytes.
    pub size: u64,
    /// The group it belongs to; a spare to none.
    pub group: Option<u16>,
    /// The role of its group.
    pub purpose: Purpose,
    /// The layout of its group.
    pub shape: Shape,
    /// The column of the device in a group with columns.
    pub column: u16,
    /// The state of the device.
    pub state: DeviceState,
    /// The device whose place it takes, or 0.
    pub replaces: u64,
    /// True if the device was a spare before.
    pub was_spare: bool,
    /// The number of its failures.
    pub errors: ErrorCounts,
    /// The way in which it is read and written, if it is a file or a disk of this system that is there.
    pub io_mode: Option<IoMode>,
    /// True if the device has not answered requests that the pool did without.
    pub is_slow: bool,
    /// The number of such requests since the device was opened.
    pub given_up: u64,
}

impl DeviceInfo {
    /// `failed` is the name of the device that suspended the pool.
    pub(super) fn new(
        config: &Config,
        device: &ConfigDevice,
        present: &[MemberInfo],
        failed: Option<&str>,
    ) -> DeviceInfo {
        let member = present.iter().find(|member| member.guid == device.guid);
        let has_failed = member.is_some_and(|member| {
            member.state == MemberState::Faulted || Some(member.name.as_str()) == failed
        });
        DeviceInfo {
            guid: device.guid,
            path: member.map_or_else(|| device.path.clone(), |member| member.name.clone()),
            size: device.size,
            group: device.is_member().then_some(device.group),
            purpose: config.purpose(device.group),
            shape: config.shape(device.group),
            column: device.column,
            state: match has_failed && device.is_member() {
                true => DeviceState::Faulted,
                false => device.state,
            },
            replaces: device.replaces,
            was_spare: device.was_spare,
            errors: member.map_or(device.errors, |member| member.errors),
            io_mode: member.and_then(|member| member.io_mode),
            is_slow: member.is_some_and(|member| member.is_slow),
            given_up: member.map_or(0, |member| member.given_up),
        }
    }
}
