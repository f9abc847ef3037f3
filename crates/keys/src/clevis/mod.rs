//! What clevis seals: JSON Web Encryption (RFC 7516) whose key a Tang server helps to recover. The server learns neither
//! the key nor which of its clients asks. [`clevis`] opens tokens of clevis, [`TangKey`] seals and opens the keys of slots.
//!
//! What is sealed is in a header that an attacker may have written. It makes this program ask a server of the attacker's
//! choice, with a random point; what comes out then is a passphrase of the attacker's choice.

mod jose;
mod key;
mod server;
mod tang;

use std::time::{Duration, Instant};

use cipher::{Policy, Random};
use secret::Secret;
use serde_json::Value;

use crate::Result;
use jose::{Sealed, unusable};
pub use key::TangKey;
pub(crate) use key::is_for_server;
use server::Server;
use tang::Tang;

/// The passphrase in the token of clevis, recovered within `time_max`.
///
/// # Errors
/// [`Error::Clevis`](crate::Error::Clevis) for what clevis does not make, or makes with other servers or hardware, and
/// in FIPS mode;
/// [`Error::KeyServer`](crate::Error::KeyServer) if the server does not help.
pub fn clevis(token: &Value, random: &dyn Random, time_max: Duration) -> Result<Secret> {
    if Policy::current().is_fips() {
        return Err(unusable("its key exchange is not approved in FIPS mode"));
    }
    let (sealed, tang) = read(token)?;
    let server = Server {
        url: &tang.url,
        until: Instant::now() + time_max,
    };
    let shared = tang.recover(&server, random)?;
    let shared = shared.ok_or_else(|| server.failed("it does not have the key any more"))?;
    let key = jose::derive(&shared, &sealed.header)?;
    let opened = sealed.open(&key)?;
    opened.ok_or_else(|| unusable("what the server answered does not open it"))
}

/// Reads a token, which anybody may have written.
fn read(token: &Value) -> Result<(Sealed, Tang)> {
    let sealed = Sealed::read(&token["jwe"])?;
    match sealed.header["clevis"]["pin"].as_str() {
        Some("tang") => {}
        Some(pin) => {
            let pin: String = pin.chars().filter(char::is_ascii_alphanumeric).collect();
            return Err(unusable(format!(
                "it is of the kind '{pin}', and only 'tang' is known here"
            )));
        }
        None => return Err(unusable("it does not say how it was sealed")),
    }
    let tang = Tang::read(&sealed.header)?;
    Ok((sealed, tang))
}

/// Reads a token, and asks nobody.
#[cfg(fuzzing)]
pub(crate) fn look(token: &Value) -> Result<()> {
    read(token).map(drop)
}
