//! Tokens of the type `systemd-tpm2`, which `systemd-cryptenroll` puts into a LUKS2 header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cipher::Random;
use secret::Secret;
use serde_json::Value;

use super::sealed::{Name, Opens, Parent, SealedByTpm, unusable};
use super::unseal::unseal;
use super::wire::{Bytes, Reader};
use crate::Result;
use crate::source::Pcrs;

/// A passphrase, which is that of a key slot in base64.
#[derive(Debug)]
pub struct TpmToken(SealedByTpm);

impl TpmToken {
    /// Reads a token, which anybody may have written.
    ///
    /// # Errors
    /// [`Error::Tpm`](crate::Error::Tpm) for what systemd does not make, or makes with what is not known here.
    pub fn read(token: &Value) -> Result<TpmToken> {
        let is_set = |name: &str| !matches!(&token[name], Value::Null | Value::Bool(false));
        let has_some = |name: &str| token[name].as_array().is_some_and(|list| !list.is_empty());
        if is_set("tpm2_pcrlock") || has_some("tpm2_pubkey_pcrs") {
            return Err(unusable("a token with a signed policy is not known here"));
        }
        if is_set("tpm2_salt") {
            return Err(unusable("a token with a salted PIN is not known here"));
        }
        if !matches!(token["tpm2-primary-alg"].as_str(), None | Some("ecc")) {
            return Err(unusable(
                "the key that protects it is not one of the curve P-256",
            ));
        }
        let blob = token["tpm2-blob"].as_str().unwrap_or_default();
        let blob = STANDARD.decode(blob).ok();
        let blob = blob.ok_or_else(|| unusable("what the TPM sealed is not base64"))?;
        // The private part comes before the public one, each with its length.
        let mut rest = Reader(&blob);
        let private = rest
            .sized()
            .map(|private| Bytes::default().sized(private).0);
        let private = private.map_err(|_| unusable("what the TPM sealed is cut off"))?;
        let numbers = token["tpm2-pcrs"].as_array().map_or(&[][..], Vec::as_slice);
        let bank = token["tpm2-pcr-bank"].as_str().unwrap_or("sha256");
        let pcrs = match numbers {
            [] => None,
            numbers => Some(Pcrs::new(bank, numbers.iter().map(Value::as_u64))?),
        };
        let opens = Opens::Policy {
            pcrs,
            pin: is_set("tpm2-pin"),
        };
        // Later versions protect it by the key that the TPM keeps for all.
        if !is_set("tpm2_srk") {
            let sealed = SealedByTpm::new(&private, rest.0, Parent::Made, opens)?;
            return Ok(TpmToken(sealed));
        }
        let (parent, name) = kept(token["tpm2_srk"].as_str().unwrap_or_default())?;
        let sealed = SealedByTpm::new(&private, rest.0, parent, opens)?;
        Ok(TpmToken(sealed.under(name)))
    }

    /// Whether a person has to give a PIN.
    pub fn has_pin(&self) -> bool {
        self.0.has_pin()
    }

    /// The passphrase of the key slot. `pin` is empty if none is needed.
    ///
    /// # Errors
    /// [`Error::Tpm`](crate::Error::Tpm); [`Error::TpmPin`](crate::Error::TpmPin) for a wrong PIN.
    pub fn passphrase(&self, pin: &[u8], random: &dyn Random) -> Result<Secret> {
        let sealed = unseal(None, &self.0, pin, random)?;
        let mut passphrase = Secret::zeroed(sealed.len().div_ceil(3) * 4)?;
        let encoded = STANDARD.encode_slice(sealed.expose(), passphrase.expose_mut());
        encoded.map_err(|_| unusable("what the TPM sealed is too long"))?;
        Ok(passphrase)
    }
}

/// A key that the TPM keeps, and its name, as `Esys_TR_Serialize` of tpm2-tss writes them.
fn kept(text: &str) -> Result<(Parent, Name)> {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let mut fields = Reader(&bytes);
    let (handle, name) = (fields.u32(), fields.sized());
    let (Ok(handle), Some(name)) = (handle, name.ok().and_then(|name| name.try_into().ok())) else {
        return Err(unusable("the token does not name the key that protects it"));
    };
    match handle >> 24 {
        PERSISTENT => Ok((Parent::Kept(handle), name)),
        _ => Err(unusable(
            "the key that protects it is none that the TPM keeps",
        )),
    }
}

/// The first byte of handles that a TPM keeps.
const PERSISTENT: u32 = 0x81;
