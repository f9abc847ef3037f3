//! The structures and numbers of the driver: `linux/ublk_cmd.h`. All are in the byte order of the machine.

use std::mem::{offset_of, size_of};

use rustix::ioctl::{Opcode, opcode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A request to the driver, in an entry of a ring (`ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    /// [`NO_QUEUE`] if the request is not about a queue.
    pub(crate) queue: u16,
    pub(crate) len: u16,
    /// The address of `len` bytes, which the driver reads or fills.
    pub(crate) address: u64,
    pub(crate) data: u64,
    pub(crate) path_len: u16,
    pub(crate) pad: u16,
    pub(crate) reserved: u32,
}

/// The facts about a device (`ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct UblkInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: u16,
    pub(crate) pad: u16,
    pub(crate) buffer_len: u32,
    /// The number of the device; [`ANY_DEVICE`] for a free one.
    pub(crate) device: u32,
    pub(crate) process: i32,
    pub(crate) pad_more: u32,
    pub(crate) flags: u64,
    /// A number that the driver keeps for the process and does not use: the identity of the device.
    pub(crate) identity: u64,
    pub(crate) owner_user: u32,
    pub(crate) owner_group: u32,
    pub(crate) reserved: [u64; 2],
}

/// The parameters of a device (`ublk_params`), without those of zones.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct UblkParameters {
    pub(crate) len: u32,
    pub(crate) kinds: u32,
    pub(crate) basic: BasicParameters,
    pub(crate) discard: DiscardParameters,
    /// The numbers of the block device, and the parameters of zones.
    pub(crate) rest: [u32; 13],
}

/// The parameters that each device has (`ublk_param_basic`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct BasicParameters {
    pub(crate) attributes: u32,
    pub(crate) logical_shift: u8,
    pub(crate) physical_shift: u8,
    pub(crate) best_io_shift: u8,
    pub(crate) least_io_shift: u8,
    pub(crate) sectors_max: u32,
    pub(crate) chunk_sectors: u32,
    pub(crate) sectors: u64,
    pub(crate) boundary_mask: u64,
}

/// The parameters of discard and zeroing (`ublk_param_discard`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct DiscardParameters {
    pub(crate) alignment: u32,
    pub(crate) granularity: u32,
    pub(crate) discard_sectors_max: u32,
    pub(crate) zero_sectors_max: u32,
    pub(crate) segments_max: u16,
    pub(crate) reserved: u16,
}

/// A request of a queue, in memory that the driver shares (`ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct RequestDescriptor {
    /// The operation in the low byte, and flags.
    pub(crate) operation: u32,
    pub(crate) sectors: u32,
    pub(crate) start: u64,
    pub(crate) address: u64,
}

/// A command for a request of a queue, in an entry of a ring (`ublksrv_io_cmd`).
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(crate) struct QueueCommand {
    pub(crate) queue: u16,
    pub(crate) tag: u16,
    /// The bytes that were read or written, or an error.
    pub(crate) result: i32,
    /// The address of the buffer of the tag.
    pub(crate) address: u64,
}

const _: () = {
    assert!(size_of::<ControlCommand>() == 32);
    assert!(size_of::<UblkInfo>() == 64);
    assert!(offset_of!(UblkInfo, identity) == 32);
    assert!(size_of::<BasicParameters>() == 32);
    assert!(size_of::<DiscardParameters>() == 20);
    assert!(offset_of!(UblkParameters, discard) == 40);
    assert!(size_of::<UblkParameters>() == 112);
    assert!(size_of::<RequestDescriptor>() == 24);
    assert!(size_of::<QueueCommand>() == 16);
};

pub(crate) const NO_QUEUE: u16 = u16::MAX;
pub(crate) const ANY_DEVICE: u32 = u32::MAX;
/// Sectors of the kernel have so many bytes, whatever the sectors of a device are.
pub(crate) const SECTOR: u64 = 512;
/// The most requests of a queue that the driver has.
pub(crate) const DEPTH_MAX: usize = 4096;

/// A code of a request, as ioctl has it.
const fn encode<T>(number: u8) -> Opcode {
    opcode::read_write::<T>(b'u', number)
}

const fn encode_read(number: u8) -> Opcode {
    opcode::read::<ControlCommand>(b'u', number)
}

/// Requests to the driver.
pub(crate) mod control {
    use super::{ControlCommand, Opcode, encode, encode_read};

    pub(crate) const DEVICE_INFO: Opcode = encode_read(0x02);
    pub(crate) const ADD: Opcode = encode::<ControlCommand>(0x04);
    pub(crate) const DELETE: Opcode = encode::<ControlCommand>(0x05);
    pub(crate) const START: Opcode = encode::<ControlCommand>(0x06);
    pub(crate) const STOP: Opcode = encode::<ControlCommand>(0x07);
    pub(crate) const SET_PARAMETERS: Opcode = encode::<ControlCommand>(0x08);
    pub(crate) const PARAMETERS: Opcode = encode_read(0x09);
    pub(crate) const START_RECOVERY: Opcode = encode::<ControlCommand>(0x10);
    pub(crate) const END_RECOVERY: Opcode = encode::<ControlCommand>(0x11);
    pub(crate) const FEATURES: Opcode = encode_read(0x13);
    /// Deletes without waiting for programs that have the device open. Linux 6.9 and newer.
    pub(crate) const DELETE_LATER: Opcode = encode_read(0x14);
    /// Linux 6.16 and newer.
    pub(crate) const UPDATE_SIZE: Opcode = encode::<ControlCommand>(0x15);
}

/// Commands for requests of a queue.
pub(crate) mod queue {
    use super::{Opcode, QueueCommand, encode};

    /// Waits for a request.
    pub(crate) const FETCH: Opcode = encode::<QueueCommand>(0x20);
    /// Answers a request, and waits for the next one.
    pub(crate) const COMMIT_AND_FETCH: Opcode = encode::<QueueCommand>(0x21);
}

/// Flags of a device.
pub(crate) mod feature {
    /// The device outlives its process.
    pub(crate) const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that a process did not answer are given to the next one.
    pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Codes of requests are those of ioctl.
    pub(crate) const IOCTL_CODES: u64 = 1 << 6;
    pub(crate) const UPDATE_SIZE: u64 = 1 << 10;
}

/// States of a device.
pub(crate) mod state {
    /// A device that has not begun, or has ended.
    pub(crate) const DEAD: u16 = 0;
}

/// Kinds of parameters.
pub(crate) mod parameter {
    pub(crate) const BASIC: u32 = 1 << 0;
    pub(crate) const DISCARD: u32 = 1 << 1;
}

/// Attributes in [`BasicParameters`].
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 1 << 0;
    pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(crate) const FUA: u32 = 1 << 3;
}

/// Operations of requests, in the low byte of [`RequestDescriptor::operation`].
pub(crate) mod operation {
    pub(crate) const READ: u32 = 0;
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const FLUSH: u32 = 2;
    pub(crate) const DISCARD: u32 = 3;
    pub(crate) const WRITE_ZEROES: u32 = 5;
    pub(crate) const MASK: u32 = 0xff;
    /// A write that is durable when it is answered.
    pub(crate) const FUA: u32 = 1 << 13;
    /// Zeroing that keeps the space.
    pub(crate) const NO_UNMAP: u32 = 1 << 15;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `linux/ublk_cmd.h`, as a C compiler computes them for x86 and ARM.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn codes_are_those_of_the_header() {
        assert_eq!(control::ADD, 0xc020_7504);
        assert_eq!(control::DEVICE_INFO, 0x8020_7502);
        assert_eq!(control::FEATURES, 0x8020_7513);
        assert_eq!(queue::FETCH, 0xc010_7520);
        assert_eq!(queue::COMMIT_AND_FETCH, 0xc010_7521);
    }
}
