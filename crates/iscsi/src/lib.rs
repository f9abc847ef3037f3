//! Serves block devices to the network by the iSCSI protocol.
//!
//! A [`LogicalUnit`] is a device. A [`IscsiTarget`] shows units to initiators, each under a number ([`LunView`]). A [`PortalServer`]
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
//! - `error`: failures;
//! - `wire`: PDUs, text keys, and responses with their numbers;
//! - `scsi`: a logical unit, which knows nothing of iSCSI;
//! - `targets`: the targets of a portal, with their logical units and sessions;
//! - `login`, `session`: the two phases of a connection;
//! - `server`: accepts connections.

#![forbid(unsafe_code)]

mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod login;
mod scsi;
mod server;
mod session;
mod targets;
mod wire;

pub use error::{Error, Result};
pub use login::chap::{Chap, ChapQuestion};
pub use scsi::unit::ReservationStore;
pub use server::PortalServer;
pub use targets::logical_unit::{LogicalUnit, LunView, ReservedNow};
pub use targets::portal::{LoginRedirect, Targets};
pub use targets::san_identity::SanIdentity;
pub use targets::target::{CommandCounts, IscsiTarget, SessionNow, TargetAccess};
