//! A logical unit: SCSI commands of SPC-4 and SBC-3 to a block device. It knows nothing of iSCSI.
//!
//! `sense` is why a command fails, `table` which commands there are, `reserve` who may use the unit, `cdb` parses a
//! command, `seat` is an initiator, `unit` the device with its limits, `reading` reads pieces of it, `shortage` looks at its
//! space, `inquiry`, `mode` and `log` describe it, `held` has reservations change, `execute` carries commands out.

pub(crate) mod cdb;
pub(crate) mod execute;
mod held;
mod inquiry;
mod log;
mod mode;
pub(crate) mod reading;
pub(crate) mod reserve;
pub(crate) mod seat;
pub(crate) mod sense;
mod shortage;
pub(crate) mod table;
pub(crate) mod unit;

/// The operation codes that there are.
#[cfg(test)]
pub(crate) fn opcodes() -> impl Iterator<Item = u8> {
    table::COMMANDS.iter().map(table::CommandFormat::opcode)
}

/// A big-endian number of the bytes from `at`; 0 where there are none.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(len);
    bytes.fold(0, |n, byte| n << 8 | u64::from(*byte))
}
