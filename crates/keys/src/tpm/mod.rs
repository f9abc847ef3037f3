//! Keys that the TPM of this machine sealed. The few commands of TPM 2.0 that seal and open them go over the
//! kernel's device.
//!
//! The sealed data comes from the person who made the container. The answers may come from a device between the TPM
//! and this machine. So both are decoded with a check of every length. Session keys and answers are wiped.

mod blob;
mod chip;
mod key;
mod seal;
mod signature;
mod token;
mod unseal;

pub(crate) use blob::{Opens, Parent, SealedByTpm};
#[cfg(fuzzing)]
pub(crate) use chip::device::look;
pub use key::TpmKey;
pub(crate) use key::is_for_tpm;
#[cfg(fuzzing)]
pub(crate) use signature::{approval::look as look_at_approval, file::look as look_at_signatures};
pub use token::TpmToken;
pub(crate) use unseal::unseal;
