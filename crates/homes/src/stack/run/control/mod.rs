//! The control channel of a mount: its keys are changed while it is mounted.
//!
//! The process of a mount listens at a socket whose directory only the user who mounted can reach, and asks
//! the kernel who connects: it answers that user and root with a welcome, and all others with a refusal. After
//! that a connection carries one request. Messages are bounded, both sides give up after a while, and keys travel as secrets, in locked memory on both sides.
//!
//! Layers, lowest first: `messages`; `server` and `client`.

mod client;
mod messages;
mod server;

pub(crate) use client::{StackedMount, is_credible};
pub(crate) use messages::{ControlAnswer, KeyLine, MasterState, Request};
pub(super) use server::{Control, KeyOwner};
