//! Serves block devices to the network by the NBD protocol.
//!
//! [`Exports`] are devices under names; a [`Server`] offers them to whoever connects to its socket. A client
//! first says what it wants (`negotiate`), then sends requests, which `connection` has carried out. Clients
//! are not trusted: what they send is bounded, and what one of them does another does not notice.
//!
//! The protocol is that of `doc/proto.md` in the NBD project: fixed newstyle negotiation, simple and
//! structured answers, `base:allocation`, and TLS. Extended headers are not there.

#![forbid(unsafe_code)]

mod carry;
mod connection;
mod desk;
mod error;
mod export;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod input;
mod link;
mod negotiate;
mod places;
mod proto;
mod server;
mod tls;

pub use error::{Error, Result};
pub use export::{Export, Exports};
pub use server::{Listener, Server};
pub use tls::Tls;
