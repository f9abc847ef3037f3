//! The TPM: its messages, its device, sessions and commands.
//!
//! Layers, lowest first: `refusal`; `wire`; `transport`, `session`; `device`.

pub(super) mod device;
pub(super) mod refusal;
pub(super) mod session;
pub(super) mod transport;
pub(super) mod wire;
