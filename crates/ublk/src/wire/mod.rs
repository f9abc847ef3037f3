//! The structures and numbers of the driver (`linux/ublk_cmd.h`), and rings.

pub(crate) mod abi;
pub(crate) mod ring;
