//! The seals of clevis: JSON Web Encryption (RFC 7516) whose key a Tang server helps to recover. The server learns
//! neither the key nor which of its clients asks. [`clevis`] opens tokens of clevis, also those with several
//! servers of which some have to help. [`TangKey`] seals and opens the keys of slots.
//!
//! What is sealed is in a header that an attacker may have written. It makes this program ask a server of the
//! attacker's choice, or several, with random points. The result is a passphrase of the attacker's choice.

mod jose;
mod key;
mod pin;
mod server;
mod tang;
mod tpm2;

use std::time::{Duration, Instant};

use secret::Secret;
use serde_json::Value;

use crate::Result;
pub use key::TangKey;
pub(crate) use key::is_for_server;
use pin::ClevisSecret;

/// The passphrase in the token of clevis, recovered within `time_max`.
///
/// # Errors
/// [`Error::Clevis`](crate::Error::Clevis) for what clevis does not make, or makes with other servers or hardware,
/// and for Tang servers in FIPS mode; [`Error::KeyServer`](crate::Error::KeyServer) if the server does not help.
pub fn clevis(token: &Value, time_max: Duration) -> Result<Secret> {
    ClevisSecret::read(&token["jwe"])?.open(Instant::now() + time_max)
}

/// Reads a token, also one whose header this is, and the keys of a server. Asks nobody.
#[cfg(fuzzing)]
pub(crate) fn look(json: &Value) {
    tang::look(json);
    let _ = ClevisSecret::read(&json["jwe"]);
    let _ = ClevisSecret::read(&jose::with_header(json));
}
