//! Persistent reservations: a disk that several machines reach refuses the writes of all but one.
//!
//! Layers, lowest first: `registrar` (the requests that a disk accepts), `claim` (how a machine takes a disk with them)
//! and `disk` (the kernel's interface).

mod claim;
mod disk;
mod registrar;

pub(crate) use claim::left_over;
pub use claim::{Claim, Claimant};
pub(crate) use disk::Disk;
pub use registrar::{Registrar, RegistrarAnswer, Registrations};
