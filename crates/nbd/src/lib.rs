//! Serves block devices to the network by the NBD protocol, and uses exports of other servers.
//!
//! [`Exports`] are devices with names. A [`ExportService`] offers them to the clients of its socket. A client
//! first negotiates options and an export (`serve::negotiate`), and then sends requests (`serve::connection`).
//!
//! What it guarantees:
//! - Clients are not trusted: their data is checked, and their use of memory and time is limited.
//! - One client cannot slow down or end the connection of another one.
//! - A server with [`Tls`] serves only clients with a certificate that it accepts.
//!
//! A [`RemoteExport`] is a client: it makes an export of any NBD server a `BlockDevice`. The server is not trusted
//! either.
//!
//! An [`Attachment`] makes an export the block device `/dev/nbdN` of this kernel.
//!
//! The protocol is that of `doc/proto.md` in the NBD project: fixed newstyle negotiation, simple and
//! structured answers, `base:allocation`, and TLS. Extended headers are missing.
//!
//! Layers, lowest first:
//! - `error`: failures;
//! - `wire`: bytes from and to the other end, and the numbers of the protocol;
//! - `client`: an export of another server;
//! - `serve`: exports, negotiation with a client, requests and replies;
//! - `kernel`: makes the kernel of this machine a client.

#![forbid(unsafe_code)]

mod client;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod kernel;
mod serve;
mod wire;

pub use client::{Address, ClientTimeouts, ClientTls, Remote, RemoteExport};
pub use error::{Error, Result};
pub use kernel::{Attachment, KernelDevice};
pub use serve::export::{Export, Exports};
pub use serve::server::{ExportService, Listener};
pub use wire::tls::Tls;
