//! Passphrases that clevis sealed to a Tang server: JSON Web Encryption (RFC 7516) whose key the server helps to
//! recover. The server learns neither the key nor which of its clients asks.
//!
//! What is sealed is in a header that an attacker may have written. It makes this program ask a server of the attacker's
//! choice, with a random point; what comes out then is a passphrase of the attacker's choice.

mod jose;
mod server;

use std::time::Duration;

use cipher::{AeadAlgorithm, AeadCipher, Curve, Point, Policy, Random, Recovery};
use secret::Secret;
use serde_json::Value;

use crate::Result;
use jose::{Sealed, unusable};

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
    let (sealed, helper) = read(token)?;
    let shared = recover(&helper, random, time_max)?;
    let key = jose::derive(&shared, &sealed.header)?;
    let cipher = AeadCipher::new(AeadAlgorithm::Aes256Gcm, &key)?;
    let mut passphrase = Secret::from_slice(&sealed.ciphertext)?;
    let opened = cipher.open(
        &sealed.nonce,
        sealed.protected.as_bytes(),
        passphrase.expose_mut(),
        &sealed.tag,
    );
    opened.map_err(|_| unusable("what the server answered does not open it"))?;
    Ok(passphrase)
}

/// The server that helps, and its part.
struct Helper {
    url: String,
    curve: Curve,
    /// The name of its key.
    id: String,
    key: Point,
    /// The point that clevis kept.
    kept: Point,
}

/// Reads a token, which anybody may have written.
fn read(token: &Value) -> Result<(Sealed, Helper)> {
    let sealed = Sealed::read(&token["jwe"])?;
    let header = &sealed.header;
    match header["clevis"]["pin"].as_str() {
        Some("tang") => {}
        Some(pin) => {
            let pin: String = pin.chars().filter(char::is_ascii_alphanumeric).collect();
            return Err(unusable(format!(
                "it is of the kind '{pin}', and only 'tang' is known here"
            )));
        }
        None => return Err(unusable("it does not say how it was sealed")),
    }
    let algorithms = (header["alg"].as_str(), header["enc"].as_str());
    if algorithms != (Some("ECDH-ES"), Some("A256GCM")) {
        return Err(unusable("it is not sealed with ECDH-ES and A256GCM"));
    }
    let helper = helper(header)?;
    Ok((sealed, helper))
}

/// Reads a token, and asks nobody.
#[cfg(fuzzing)]
pub(crate) fn look(token: &Value) -> Result<()> {
    read(token).map(drop)
}

fn helper(header: &Value) -> Result<Helper> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let missing = |what: &str| unusable(format!("its header has no {what}"));
    let curve = header["epk"]["crv"].as_str().and_then(Curve::from_name);
    let curve = curve.ok_or_else(|| missing("known curve"))?;
    let id = text(&header["kid"]).ok_or_else(|| missing("name of the key"))?;
    let tang = &header["clevis"]["tang"];
    let url = text(&tang["url"]).ok_or_else(|| missing("address of the server"))?;
    let keys = tang["adv"]["keys"].as_array();
    let keys = keys.ok_or_else(|| missing("keys of the server"))?;
    let is_named = |key: &&Value| jose::thumbprint(key, &id).is_some_and(|print| print == id);
    let named = keys.iter().find(is_named);
    let key = jose::point(named.ok_or_else(|| missing("key of that name"))?, curve)?;
    let kept = jose::point(&header["epk"], curve)?;
    Ok(Helper {
        url,
        curve,
        id,
        key,
        kept,
    })
}

/// The shared secret, with the help of the server.
fn recover(
    helper: &Helper,
    random: &dyn Random,
    time_max: Duration,
) -> Result<zeroize::Zeroizing<Vec<u8>>> {
    let curve = helper.curve;
    let begun = Recovery::begin(curve, &helper.kept, random);
    let (recovery, blinded) = begun.map_err(|_| unusable("its key is no point of the curve"))?;
    let asked = jose::key(curve, &blinded);
    let answer = server::ask(&helper.url, &helper.id, &asked, time_max)?;
    let answer = jose::point(&answer, curve)?;
    let shared = recovery.finish(&answer, &helper.key);
    shared.map_err(|_| unusable("the answer of the server is no point of the curve"))
}
