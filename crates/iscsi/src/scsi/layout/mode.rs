//! Mode parameters (SPC-4, section 7.5; SBC-3, section 6.5).

use zerocopy::byteorder::big_endian::{U16, U32};

/// The bits of the length of a block in its descriptor.
pub(in crate::scsi) const BLOCK_LEN: u32 = 0xff_ffff;

layouts! {
    /// The beginning for MODE SENSE (6) and MODE SELECT (6). `device` has flags of direct-access devices.
    ModeHeader6: 4 { len: u8, medium: u8, device: u8, blocks_len: u8, }
    /// The beginning for MODE SENSE (10) and MODE SELECT (10).
    ModeHeader10: 8 { len: U16, medium: u8, device: u8, reserved: U16, blocks_len: U16, }
    /// The short block descriptor. The first byte of the length is reserved.
    BlockDescriptor: 8 { count: U32, block_len: U32, }
    /// Caching (page 08h).
    CachingPage: 20 { code: u8, len: u8, flags: u8, rest: [u8; 17], }
    /// Control (page 0Ah).
    ControlPage: 12 { code: u8, len: u8, flags: u8, queuing: u8, rest: [u8; 8], }
    /// Informational Exceptions Control (page 1Ch).
    ExceptionsPage: 12 { code: u8, len: u8, rest: [u8; 10], }
    /// Logical Block Provisioning (page 1Ch, subpage 02h), with one threshold.
    ThresholdPage: 24 {
        code: u8, subpage: u8, len: U16, flags: u8, reserved: [u8; 11], arming: u8, resource: u8,
        reserved_threshold: U16, count: U32,
    }
}
