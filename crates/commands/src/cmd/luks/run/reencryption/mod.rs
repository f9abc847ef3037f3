//! Encryption of a device with data, and re-encryption: of a device that is closed or open, with reports of progress.

pub(super) mod encrypt;
pub(super) mod progress;
pub(super) mod reencrypt;
pub(super) mod reencrypt_open;
pub(super) mod reencrypt_options;
