//! A logical unit: SCSI commands of SPC-4 and SBC-3 to a block device. It knows nothing of iSCSI.
//!
//! `table` and `cdb` are the commands, and `execute` carries them out.
//! `reservation` decides who may use the unit, and `reservation_changes` changes that. `unit` is the device with its
//! limits, `seat` the state of an initiator. `inquiry`, `mode` and `log` describe the unit, and `sense` its failures.
//! `layout` has the structures of all of them. `reading` reads pieces of the device, and `shortage` watches its space.

pub(crate) mod cdb;
pub(crate) mod execute;
mod inquiry;
mod layout;
mod log;
mod mode;
pub(crate) mod reading;
pub(crate) mod reservation;
mod reservation_changes;
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
