//! Other answers and lists: the capacity, ranges of blocks, units, commands and log pages.

use zerocopy::byteorder::big_endian::{U16, U32, U64};

layouts! {
    /// READ CAPACITY (10).
    Capacity10: 8 { last: U32, block_len: U32, }
    /// READ CAPACITY (16). `provisioning` has the first bits of the alignment.
    Capacity16: 32 {
        last: U64, block_len: U32, protection: u8, physical_exponent: u8, provisioning: u8, alignment: u8,
        reserved: [u8; 16],
    }
    /// The beginning of the answers to REPORT LUNS and GET LBA STATUS.
    ListHeader: 8 { len: U32, reserved: U32, }
    /// A range of blocks with the same state, for GET LBA STATUS.
    LbaStatus: 16 { first: U64, count: U32, status: u8, reserved: [u8; 3], }
    /// The beginning of the parameter list of UNMAP.
    UnmapHeader: 8 { len: U16, ranges_len: U16, reserved: U32, }
    /// A range of blocks to unmap.
    UnmapRange: 16 { first: U64, count: U32, reserved: U32, }
    /// The beginning of a list of all commands.
    CommandsHeader: 4 { len: U32, }
    /// A command in the list of all.
    CommandRow: 8 { opcode: u8, reserved: u8, action: U16, reserved_end: u8, flags: u8, usage_len: U16, }
    /// The beginning of the answer about one command.
    CommandUsageHeader: 4 { reserved: u8, support: u8, usage_len: U16, }
    /// The timeouts of a command, all unknown if they are 0.
    CommandTimeouts: 12 { len: U16, reserved: u8, specific: u8, nominal_seconds: U32, recommended_seconds: U32, }
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS. The last fields are only in the long form.
    TaskFunctions: 16 { functions: u8, nexus_functions: u8, reserved: u8, additional_len: u8, timeouts: [U32; 3], }
    /// The beginning of a log page.
    LogHeader: 4 { page: u8, subpage: u8, len: U16, }
    /// The parameter of the log page Logical Block Provisioning with the available storage.
    AvailableParameter: 12 { code: U16, control: u8, len: u8, count: U32, scope: u8, reserved: [u8; 3], }
}
