//! Serves block devices to the network by the iSCSI protocol.
//!
//! A [`LogicalUnit`] is a device. A [`Target`] shows units to initiators, each under a number ([`View`]). A [`Server`]
//! is a portal: it offers [`Targets`]. Its initiators log in (`login`), and then send commands (`session`).
//!
//! What it guarantees:
//! - Initiators are not trusted: their data is checked, and their use of memory and time is limited.
//! - One initiator cannot slow down or end the session of another one.
//!
//! The protocol is that of RFC 7143 with one connection for each session and error recovery level 0. It is not
//! encrypted.
//!
//! Layers, lowest first:
//! - `error`, `link`: failures; bytes from and to an initiator;
//! - `pdu`, `keys`: the units of the protocol, and its text keys;
//! - `output`: answers on their way, with their numbers;
//! - `chap`: authentication of initiators;
//! - `san_identity`: the identity by which initiators find a unit again;
//! - `scsi`: a logical unit, which knows nothing of iSCSI;
//! - `target`: the offered devices, and their sessions; `targets`: those of a portal;
//! - `login`, `session`: the two phases of a connection;
//! - `server`: accepts connections.

#![forbid(unsafe_code)]

mod chap;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod keys;
mod link;
mod logical_unit;
mod login;
mod output;
mod pdu;
mod san_identity;
mod scsi;
mod server;
mod session;
mod target;
mod targets;

pub use chap::{Chap, Question};
pub use error::{Error, Result};
pub use logical_unit::{LogicalUnit, ReservedNow, View};
pub use san_identity::SanIdentity;
pub use scsi::unit::Keeper;
pub use server::Server;
pub use target::{Access, Counts, SessionNow, Target};
pub use targets::{Moved, Targets};
