//! The system's OpenSSL 3, if this program is built with the feature `openssl`. It is for systems that must use it,
//! and a check of the other providers.
//!
//! Through the crate `openssl`, without foreign code of our own.

#[cfg(not(feature = "openssl"))]
mod absent;
#[cfg(feature = "openssl")]
mod present;

#[cfg(not(feature = "openssl"))]
pub(crate) use absent::{hash, hmac, open, seal, sectors, version};
#[cfg(feature = "openssl")]
pub(crate) use present::{hash, hmac, open, seal, sectors, version};

use crate::Provider;

impl Provider {
    /// Returns a description of the provider, with its version where it has one.
    pub fn description(self) -> String {
        match self {
            Provider::Ring => {
                let here = if self.is_available() {
                    "as this"
                } else {
                    "unlike this"
                };
                format!("ring: C and assembly; for processors with VAES without AVX-512, {here}")
            }
            Provider::AwsLc => "AWS-LC: C and assembly".into(),
            Provider::OpenSsl => version(),
            Provider::Libgcrypt => crate::block::libgcrypt::description(),
            Provider::Portable => "RustCrypto and BLAKE3: Rust, of several crates".into(),
        }
    }
}
