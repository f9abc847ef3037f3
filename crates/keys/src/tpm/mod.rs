//! Keys that the TPM of this machine sealed: the few commands of TPM 2.0 that open them, over the kernel's device.
//!
//! The sealed data comes from the person who made the container. The answers may come from a device between the TPM and
//! this machine. So both are decoded with a check of every length. Session keys and answers are wiped.

mod refusal;
mod sealed;
mod session;
mod token;
mod transport;
mod unseal;
mod wire;

pub(crate) use sealed::{Opens, Parent, Pcrs, SealedByTpm};
pub use token::TpmToken;
#[cfg(fuzzing)]
pub(crate) use unseal::look;
pub(crate) use unseal::unseal;
