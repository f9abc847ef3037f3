//! The pin `tpm2`: the key of what is sealed is a JSON Web Key that a TPM sealed.

use cipher::SystemRandom;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::jose::{self, unusable};
use crate::Result;
use crate::source::Pcrs;
use crate::tpm::{Opens, Parent, SealedByTpm, unseal};

/// Reads a header, which anybody may have written.
pub(super) fn read(header: &Value) -> Result<SealedByTpm> {
    let algorithms = (header["alg"].as_str(), header["enc"].as_str());
    if algorithms != (Some("dir"), Some("A256GCM")) {
        return Err(unusable("it is not sealed with a key for A256GCM"));
    }
    let tpm2 = &header["clevis"]["tpm2"];
    let algorithms = (tpm2["hash"].as_str(), tpm2["key"].as_str());
    if algorithms != (Some("sha256"), Some("ecc")) {
        return Err(unusable(
            "the key of the TPM that protects it is not one of the curve P-256 with SHA-256",
        ));
    }
    let part = |name: &str| match tpm2[name].as_str() {
        Some(part) => jose::decode(part),
        None => Err(unusable("it lacks a part that the TPM sealed")),
    };
    let opens = match tpm2["pcr_ids"].as_str().filter(|ids| !ids.is_empty()) {
        None => Opens::Always,
        Some(ids) => {
            let bank = tpm2["pcr_bank"].as_str().unwrap_or("sha1");
            let numbers = ids.split(',').map(|id| id.trim().parse().ok());
            Opens::Policy {
                pcrs: Some(Pcrs::new(bank, numbers)?),
                pin: false,
            }
        }
    };
    SealedByTpm::new(&part("jwk_priv")?, &part("jwk_pub")?, Parent::Made, opens)
}

/// The key of A256GCM.
pub(super) fn key(sealed: &SealedByTpm) -> Result<Zeroizing<Vec<u8>>> {
    let text = unseal(None, sealed, &[], &SystemRandom)?;
    let mut json: Option<Map<String, Value>> = serde_json::from_slice(text.expose()).ok();
    let key = match json.as_mut().and_then(|json| json.remove("k")) {
        Some(Value::String(key)) => Zeroizing::new(key),
        _ => return Err(unusable("what the TPM sealed is no key")),
    };
    jose::decode(&key).map(Zeroizing::new)
}
