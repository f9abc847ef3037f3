//! The pin `tang`: the sealing key is an exchange with the key of a Tang server, which helps to recover it.

use cipher::{Curve, KeyRecovery, Point, Random};
use secret::Secret;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::jose::{self, Jwe, thumbprint, unusable};
use super::server::TangServer;
use crate::Result;
use crate::source::tang_address;

/// The reason for a server that does not have the pinned key.
pub(super) const OTHER_SERVER: &str = "it does not sign with the key of this thumbprint: it is another server, or has \
                                       other keys now and deleted the old ones";

/// The server that helps, and its part.
pub(super) struct Tang {
    pub(super) url: String,
    curve: Curve,
    /// The name of its key.
    id: String,
    key: Point,
    /// The point that clevis kept.
    kept: Point,
}

impl Tang {
    /// Reads a header, which anybody may have written.
    pub(super) fn read(header: &Value) -> Result<Tang> {
        let algorithms = (header["alg"].as_str(), header["enc"].as_str());
        if algorithms != (Some("ECDH-ES"), Some("A256GCM")) {
            return Err(unusable("it is not sealed with ECDH-ES and A256GCM"));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let missing = |what: &str| unusable(format!("its header has no {what}"));
        let curve = header["epk"]["crv"].as_str().and_then(Curve::from_name);
        let curve = curve.ok_or_else(|| missing("known curve"))?;
        let id = text(&header["kid"]).ok_or_else(|| missing("name of the key"))?;
        let url = header["clevis"]["tang"]["url"].as_str();
        let url = url.ok_or_else(|| missing("address of the server"))?;
        let url = tang_address(url)
            .ok_or_else(|| unusable("the address of its server is not one of http or https"))?;
        let is_named = |key: &&Value| jose::has_stored_thumbprint(key, &id);
        let named = known_keys(header).iter().find(is_named);
        let key = jose::point(named.ok_or_else(|| missing("key of that name"))?, curve)?;
        let kept = jose::point(&header["epk"], curve)?;
        Ok(Tang {
            url,
            curve,
            id,
            key,
            kept,
        })
    }

    /// The shared secret, with the help of a server; `None` if that does not have the key.
    pub(super) fn recover(
        &self,
        server: &TangServer<'_>,
        random: &dyn Random,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let curve = self.curve;
        let begun = KeyRecovery::begin(curve, &self.kept, random);
        let (recovery, blinded) =
            begun.map_err(|_| unusable("its key is no point of the curve"))?;
        let asked = jose::key(curve, &blinded);
        let Some(answer) = server.recover(&self.id, &asked)? else {
            return Ok(None);
        };
        let no_point = || server.failed("its answer is no point of the curve");
        let answer = jose::point(&answer, curve).map_err(|_| no_point())?;
        let shared = recovery.finish(&answer, &self.key);
        shared.map(Some).map_err(|_| no_point())
    }
}

/// The keys of a server that a header has.
fn known_keys(header: &Value) -> &[Value] {
    let keys = header["clevis"]["tang"]["adv"]["keys"].as_array();
    let keys = keys.map_or(&[][..], Vec::as_slice);
    &keys[..keys.len().min(jose::KEYS_MAX)]
}

/// The key with this thumbprint by SHA-256.
fn named<'a>(keys: &'a [Value], pinned: &str) -> Option<&'a Value> {
    let is_named = |key: &&Value| thumbprint(key).is_some_and(|print| print == pinned);
    keys.iter().find(is_named)
}

/// Returns whether the secret was sealed to the server that signs with this key.
pub(super) fn is_of(sealed: &Jwe, thumbprint: &str) -> bool {
    let kept = sealed.header["clevis"]["tang"]["thp"].as_str();
    kept == Some(thumbprint) || named(known_keys(&sealed.header), thumbprint).is_some()
}

/// The keys of a server: that which it signs with, and that which it exchanges.
#[derive(Debug)]
pub(super) struct ServerKeys {
    signing: Value,
    exchange: Value,
}

impl ServerKeys {
    /// Asks a server for them.
    pub(super) fn ask(server: &TangServer<'_>, pinned: &str) -> Result<ServerKeys> {
        let Some(jws) = server.advertisement(pinned)? else {
            return Err(server.failed(OTHER_SERVER));
        };
        ServerKeys::read(&jws, pinned).map_err(|reason| server.failed(reason))
    }

    fn read(jws: &Value, pinned: &str) -> std::result::Result<ServerKeys, &'static str> {
        let keys = jose::payload_keys(jws).ok_or("its answer has no keys")?;
        let known = named(&keys, pinned).filter(|key| jose::is_for(key, "verify"));
        let known = known.ok_or(
            "it has another signing key now: it is another server, or its keys were rotated; 'tang-show-keys' \
             on the server prints the new thumbprint",
        )?;
        let signing = Some(known).filter(|key| jose::is_signed(jws, key));
        let signing = signing.ok_or(
            "its keys are not signed with the key of this thumbprint: its answer was changed on the way, or \
             it lies",
        )?;
        let can_exchange = |key: &&Value| {
            let curve = key["crv"].as_str().and_then(Curve::from_name);
            jose::is_for(key, "deriveKey")
                && curve.is_some_and(|curve| jose::point(key, curve).is_ok())
        };
        let exchange = keys.iter().find(can_exchange);
        let exchange = exchange.ok_or("it has no key for an exchange")?;
        Ok(ServerKeys {
            signing: plain(signing),
            exchange: plain(exchange),
        })
    }
}

/// Reads what a server may answer.
#[cfg(fuzzing)]
pub(super) fn look(jws: &Value) {
    let pinned = jws["thp"].as_str().unwrap_or_default();
    let _ = ServerKeys::read(jws, pinned);
}

/// A key without what is not needed.
fn plain(key: &Value) -> Value {
    let mut plain = json!({});
    for name in ["alg", "crv", "key_ops", "kty", "x", "y"] {
        plain[name] = key[name].clone();
    }
    plain
}

/// Seals a text to a server, as clevis does. The key that the server signs with is kept, or its thumbprint if that is
/// given.
pub(super) fn seal(
    url: &str,
    to: &ServerKeys,
    signer: Option<&str>,
    text: &Secret,
    random: &dyn Random,
) -> Result<String> {
    let missing = || unusable("the key of the server is not one of its curve");
    let exchange = &to.exchange;
    let curve = exchange["crv"].as_str().and_then(Curve::from_name);
    let curve = curve.ok_or_else(missing)?;
    let id = thumbprint(exchange).ok_or_else(missing)?;
    let shared = cipher::share(curve, &jose::point(exchange, curve)?, random);
    let (kept, shared) = shared.map_err(|_| missing())?;
    let mut kept = jose::key(curve, &kept);
    kept.as_object_mut().map(|kept| kept.remove("alg"));
    let tang = match signer {
        None => json!({"adv": {"keys": [to.signing, to.exchange]}, "url": url}),
        Some(signer) => json!({"adv": {"keys": [to.exchange]}, "thp": signer, "url": url}),
    };
    let header = json!({
        "alg": "ECDH-ES",
        "clevis": {"pin": "tang", "tang": tang},
        "enc": "A256GCM",
        "epk": kept,
        "kid": id,
    });
    jose::seal(&header, &jose::derive(&shared, &header)?, text, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The generator of P-256 (SEC 2).
    fn key(operation: &str) -> Value {
        json!({
            "crv": "P-256",
            "key_ops": [operation],
            "kty": "EC",
            "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
            "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
        })
    }

    const BY_SHA1: usize = 27;

    #[test]
    fn sha1_names_the_key_of_what_is_stored_and_no_server() {
        let exchange = key("deriveKey");
        let text = r#"{"crv":"P-256","kty":"EC","x":"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY","y":"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}"#;
        let sha1 = cipher::Digest::Sha1.hash(&[text.as_bytes()]);
        let sha1 = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, &*sha1);
        assert_eq!(sha1.len(), BY_SHA1);
        let header = |kid: &str| {
            json!({
                "alg": "ECDH-ES",
                "clevis": {"pin": "tang", "tang": {"adv": {"keys": [exchange]}, "url": "http://a"}},
                "enc": "A256GCM",
                "epk": exchange,
                "kid": kid,
            })
        };
        let sha256 = thumbprint(&exchange).unwrap();
        assert_eq!(Tang::read(&header(&sha1)).unwrap().id, sha1);
        assert_eq!(Tang::read(&header(&sha256)).unwrap().id, sha256);
        assert!(Tang::read(&header("other")).is_err());

        assert!(named(&[key("verify")], &sha256).is_some());
        assert!(named(&[key("verify")], &sha1).is_none());
    }
}
