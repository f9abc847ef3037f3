//! Keys that the TPM of this machine sealed: the few commands of TPM 2.0 that seal and open them, over the kernel's device.
//!
//! The sealed data comes from the person who made the container. The answers may come from a device between the TPM and
//! this machine. So both are decoded with a check of every length. Session keys and answers are wiped.

mod approve;
mod device;
mod key;
mod refusal;
mod seal;
mod sealed;
mod session;
mod signatures;
mod signed;
mod token;
mod transport;
mod unseal;
mod wire;

#[cfg(fuzzing)]
pub(crate) use approve::look as look_at_approval;
#[cfg(fuzzing)]
pub(crate) use device::look;
pub use key::TpmKey;
pub(crate) use key::is_for_tpm;
pub(crate) use sealed::{Opens, Parent, SealedByTpm};
#[cfg(fuzzing)]
pub(crate) use signatures::look as look_at_signatures;
pub use token::TpmToken;
pub(crate) use unseal::unseal;
