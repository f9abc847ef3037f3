//! Protectors: the secrets that open them, recovery passphrases, and the questions about them.

pub(super) mod questions;
pub(super) mod recovery;
pub(super) mod secrets;
