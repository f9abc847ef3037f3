//! The parts of JOSE that clevis uses: JSON Web Keys (RFC 7517) and their thumbprints (RFC 7638). Also JSON Web
//! Encryption (RFC 7516) and Signature (RFC 7515), and the key derivation of ECDH-ES (RFC 7518, 4.6).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cipher::{AeadAlgorithm, AeadCipher, Curve, Digest, Point, Random, TAG_LEN};
use secret::Secret;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// The longest secret that clevis sealed, in bytes.
const SEALED_MAX: usize = 64 << 10;
/// The length of a thumbprint by SHA-1.
const SHA1_LEN: usize = 27;
/// The length of a nonce of A256GCM.
const NONCE_LEN: usize = 12;
/// The most signatures that are checked.
const SIGNATURES_MAX: usize = 16;
/// The most keys that are checked.
pub(super) const KEYS_MAX: usize = 64;

/// A sealed passphrase.
pub(super) struct Jwe {
    /// The header as it was sealed, which is authenticated.
    pub(super) protected: String,
    pub(super) header: Value,
    pub(super) nonce: Vec<u8>,
    pub(super) ciphertext: Vec<u8>,
    pub(super) tag: [u8; TAG_LEN],
}

impl Jwe {
    /// Reads the form of an object, or the compact one.
    pub(super) fn read(jwe: &Value) -> Result<Jwe> {
        let [protected, key, nonce, ciphertext, tag] = match jwe {
            Value::String(compact) => {
                let parts: Vec<&str> = compact.splitn(6, '.').collect();
                <[&str; 5]>::try_from(parts).map_err(|_| unusable("it has not five parts"))?
            }
            _ => ["protected", "encrypted_key", "iv", "ciphertext", "tag"]
                .map(|part| jwe[part].as_str().unwrap_or_default()),
        };
        if protected.is_empty() || !key.is_empty() {
            return Err(unusable("it is not a passphrase that was sealed directly"));
        }
        if protected.len() + ciphertext.len() > SEALED_MAX {
            return Err(unusable("it is too long"));
        }
        let header = serde_json::from_slice(&decode(protected)?);
        let tag = decode(tag)?.try_into();
        Ok(Jwe {
            header: header.map_err(|_| unusable("its header is not JSON"))?,
            protected: protected.into(),
            nonce: decode(nonce)?,
            ciphertext: decode(ciphertext)?,
            tag: tag.map_err(|_| unusable("its tag does not have 16 bytes"))?,
        })
    }

    /// The plaintext; `None` if it was not sealed with this key, or was changed.
    pub(super) fn open(&self, key: &[u8]) -> Result<Option<Secret>> {
        if self.nonce.len() != NONCE_LEN {
            return Err(unusable("its nonce does not have 12 bytes"));
        }
        let cipher = AeadCipher::new(AeadAlgorithm::Aes256Gcm, key)?;
        let mut text = Secret::from_slice(&self.ciphertext)?;
        let aad = self.protected.as_bytes();
        let opened = cipher.open(&self.nonce, aad, text.expose_mut(), &self.tag);
        Ok(opened.is_ok().then_some(text))
    }
}

/// Seals a text with a key of A256GCM, in the compact form.
pub(super) fn seal(
    header: &Value,
    key: &[u8],
    text: &Secret,
    random: &dyn Random,
) -> Result<String> {
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    let mut nonce = [0; NONCE_LEN];
    random.fill(&mut nonce)?;
    let mut sealed = text.try_clone()?;
    let cipher = AeadCipher::new(AeadAlgorithm::Aes256Gcm, key)?;
    let tag = cipher.seal(&nonce, protected.as_bytes(), sealed.expose_mut())?;
    let [nonce, sealed, tag] =
        [&nonce[..], sealed.expose(), &tag].map(|part| URL_SAFE_NO_PAD.encode(part));
    Ok(format!("{protected}..{nonce}.{sealed}.{tag}"))
}

#[cfg(fuzzing)]
pub(super) fn with_header(header: &Value) -> Value {
    let protected = URL_SAFE_NO_PAD.encode(header.to_string());
    json!(format!("{protected}..AAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA"))
}

/// Returns whether the holder of this key signed the payload.
pub(super) fn is_signed(jws: &Value, key: &Value) -> bool {
    // One signature can stand beside the payload.
    let alone = std::slice::from_ref(jws);
    let signatures = jws["signatures"].as_array().map_or(alone, Vec::as_slice);
    let mut signatures = signatures.iter().take(SIGNATURES_MAX);
    signatures.any(|signature| is_signature(jws, signature, key).is_some())
}

fn is_signature(jws: &Value, signature: &Value, key: &Value) -> Option<()> {
    let curve = Curve::from_name(key["crv"].as_str()?)?;
    let (protected, payload) = (signature["protected"].as_str()?, jws["payload"].as_str()?);
    let header: Value = serde_json::from_slice(&decode(protected).ok()?).ok()?;
    let algorithm = match curve {
        Curve::P256 => "ES256",
        Curve::P384 => "ES384",
        Curve::P521 => "ES512",
    };
    if header["alg"] != algorithm {
        return None;
    }
    let message = format!("{protected}.{payload}");
    let signature = decode(signature["signature"].as_str()?).ok()?;
    let key = point(key, curve).ok()?;
    cipher::verify_ecdsa(curve, &key, message.as_bytes(), &signature).ok()
}

pub(super) fn payload_keys(jws: &Value) -> Option<Vec<Value>> {
    let payload = decode(jws["payload"].as_str()?).ok()?;
    let payload: Value = serde_json::from_slice(&payload).ok()?;
    let keys = payload["keys"].as_array()?;
    (keys.len() <= KEYS_MAX).then(|| keys.clone())
}

/// Returns whether a key says that it is for this operation.
pub(super) fn is_for(key: &Value, operation: &str) -> bool {
    let operations = key["key_ops"].as_array();
    operations.is_some_and(|operations| operations.iter().any(|one| one == operation))
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| unusable("a part of it is not base64url"))
}

pub(super) fn point(key: &Value, curve: Curve) -> Result<Point> {
    if (key["kty"].as_str(), key["crv"].as_str()) != (Some("EC"), Some(curve.name())) {
        return Err(unusable("a key is not one of its curve"));
    }
    let coordinate = |name: &str| match key[name].as_str() {
        Some(text) => decode(text),
        None => Err(unusable("a key lacks a coordinate")),
    };
    Ok(Point {
        x: coordinate("x")?,
        y: coordinate("y")?,
    })
}

pub(super) fn key(curve: Curve, point: &Point) -> Value {
    json!({
        "alg": "ECMR",
        "crv": curve.name(),
        "kty": "EC",
        "x": URL_SAFE_NO_PAD.encode(&point.x),
        "y": URL_SAFE_NO_PAD.encode(&point.y),
    })
}

/// The thumbprint of a key by SHA-256.
pub(super) fn thumbprint(key: &Value) -> Option<String> {
    thumbprint_by(Digest::Sha256, key)
}

/// Returns whether a key has this stored thumbprint. Old versions of clevis stored thumbprints by SHA-1.
pub(super) fn has_stored_thumbprint(key: &Value, stored: &str) -> bool {
    let digest = match stored.len() {
        SHA1_LEN => Digest::Sha1,
        _ => Digest::Sha256,
    };
    thumbprint_by(digest, key).is_some_and(|print| print == stored)
}

fn thumbprint_by(digest: Digest, key: &Value) -> Option<String> {
    let members = ["crv", "kty", "x", "y"].map(|name| key[name].as_str());
    let [Some(crv), Some(kty), Some(x), Some(y)] = members else {
        return None;
    };
    // In the order of their names, without spaces.
    let text = json!({"crv": crv, "kty": kty, "x": x, "y": y}).to_string();
    Some(URL_SAFE_NO_PAD.encode(&*digest.hash(&[text.as_bytes()])))
}

/// The key of A256GCM out of a shared secret.
pub(super) fn derive(shared: &[u8], header: &Value) -> Result<Zeroizing<Vec<u8>>> {
    let party = |name: &str| match header[name].as_str() {
        Some(text) => decode(text),
        None => Ok(Vec::new()),
    };
    let (one, other) = (party("apu")?, party("apv")?);
    let len = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    let name = b"A256GCM";
    let hash = Digest::Sha256.hash(&[
        &1_u32.to_be_bytes(),
        shared,
        &len(name),
        name,
        &len(&one),
        &one,
        &len(&other),
        &other,
        &256_u32.to_be_bytes(),
    ]);
    Ok(Zeroizing::new(hash.to_vec()))
}

pub(super) fn unusable(reason: impl Into<String>) -> Error {
    Error::Clevis(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7518, appendix C, but for the length and the name of the algorithm, which are A128GCM there.
    #[test]
    fn thumbprints_are_those_of_the_standard_form() {
        // RFC 7638 orders members by their names: what is added does not count.
        let key = json!({"y": "b", "x": "a", "kty": "EC", "crv": "P-256", "alg": "ECMR", "d": "c"});
        let text = br#"{"crv":"P-256","kty":"EC","x":"a","y":"b"}"#;
        let expected = URL_SAFE_NO_PAD.encode(&*Digest::Sha256.hash(&[text]));
        assert_eq!(thumbprint(&key), Some(expected.clone()));
        assert_eq!(thumbprint(&json!({"x": 1})), None);
        assert!(has_stored_thumbprint(&key, &expected));
        let by = |digest: Digest| URL_SAFE_NO_PAD.encode(&*digest.hash(&[text]));
        assert!(has_stored_thumbprint(&key, &by(Digest::Sha1)));
        for other in [&by(Digest::Sha512), "short", ""] {
            assert!(!has_stored_thumbprint(&key, other), "{other}");
        }
    }

    #[test]
    fn a_payload_without_keys_is_refused() {
        let keys =
            |payload: &str| payload_keys(&json!({"payload": URL_SAFE_NO_PAD.encode(payload)}));
        assert_eq!(keys(r#"{"keys": [{}]}"#), Some(vec![json!({})]));
        for wrong in [
            "4",
            "null",
            "[]",
            r#""keys""#,
            "{}",
            r#"{"keys": 1}"#,
            "no JSON",
        ] {
            assert_eq!(keys(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_sealed_so_is_refused() {
        let part = URL_SAFE_NO_PAD.encode("{}");
        let tag = URL_SAFE_NO_PAD.encode([0; 16]);
        let whole = format!("{part}..AAAA.AAAA.{tag}");
        assert!(Jwe::read(&json!(whole)).is_ok());
        for wrong in [
            json!(null),
            json!({}),
            json!(""),
            json!("a.b.c.d"),
            json!(format!("{whole}.x")),
            json!(format!("{part}.AAAA.AAAA.AAAA.{tag}")),
            json!(format!("{part}..AAAA.AAAA.AAAA")),
            json!(format!("!!..AAAA.AAAA.{tag}")),
            json!(format!("AAAA..AAAA.AAAA.{tag}")),
            json!(format!("{part}..AAAA.{}.{tag}", "A".repeat(70_000))),
        ] {
            assert!(Jwe::read(&wrong).is_err(), "{wrong}");
        }
    }
}
