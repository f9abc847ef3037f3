//! Tokens of the type `systemd-tpm2`, which `systemd-cryptenroll` puts into a LUKS2 header.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cipher::Random;
use secret::Secret;
use serde_json::Value;

use super::blob::{ObjectName, Opens, Parent, SealedByTpm, unusable};
use super::chip::wire::{ResponseReader, TpmBytes};
use super::signature::policy::SignedPolicy;
use super::unseal::unseal;
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
        if is_set("tpm2_pcrlock") {
            return Err(unusable(
                "a token with a policy of pcrlock is not known here",
            ));
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
        let mut rest = ResponseReader(&blob);
        let private = rest
            .sized()
            .map(|private| TpmBytes::default().sized(private).0);
        let private = private.map_err(|_| unusable("what the TPM sealed is cut off"))?;
        let opens = Opens::Policy {
            pcrs: pcrs(token, "tpm2-pcrs")?,
            pin: is_set("tpm2-pin"),
        };
        let signed = signed_policy(token)?;
        // Later versions protect it by the key that the TPM keeps for all.
        if !is_set("tpm2_srk") {
            let sealed = SealedByTpm::new(&private, rest.0, Parent::Made, opens)?;
            return Ok(TpmToken(sealed.signed_by(signed)));
        }
        let (parent, name) = kept(token["tpm2_srk"].as_str().unwrap_or_default())?;
        let sealed = SealedByTpm::new(&private, rest.0, parent, opens)?;
        Ok(TpmToken(sealed.signed_by(signed).under(name)))
    }

    /// Looks for the signatures that a signed policy wants, in this file or in the one that the system has.
    ///
    /// # Errors
    /// [`Error::Tpm`](crate::Error::Tpm) if there is no file, or it has none by the key of the token;
    /// [`Error::SignatureFile`](crate::Error::SignatureFile).
    pub fn find_signatures(&mut self, file: Option<&Path>) -> Result<()> {
        match &mut self.0.signed {
            Some(signed) => signed.find_signatures(file),
            None => Ok(()),
        }
    }

    /// Returns whether a person has to give a PIN.
    pub fn has_pin(&self) -> bool {
        self.0.has_pin()
    }

    /// The passphrase of the key slot. `pin` is empty if none is needed. A signed policy needs
    /// [`TpmToken::find_signatures`] before.
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

/// The PCRs of a list of the token; `None` if it is empty.
fn pcrs(token: &Value, list: &str) -> Result<Option<Pcrs>> {
    let bank = token["tpm2-pcr-bank"].as_str().unwrap_or("sha256");
    match &token[list] {
        Value::Null => Ok(None),
        Value::Array(numbers) if numbers.is_empty() => Ok(None),
        Value::Array(numbers) => Pcrs::new(bank, numbers.iter().map(Value::as_u64)).map(Some),
        _ => Err(unusable("the token has no list of PCRs where it has to be")),
    }
}

/// The signed policy of PCRs, if the token has one.
fn signed_policy(token: &Value) -> Result<Option<SignedPolicy>> {
    let Some(pcrs) = pcrs(token, "tpm2_pubkey_pcrs")? else {
        return Ok(None);
    };
    let pem = token["tpm2_pubkey"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(pem).ok();
    let pem = pem.ok_or_else(|| unusable("the public key of the token is not base64"))?;
    SignedPolicy::new(&pem, pcrs).map(Some)
}

/// A key that the TPM keeps, and its name, as `Esys_TR_Serialize` of tpm2-tss writes them.
fn kept(text: &str) -> Result<(Parent, ObjectName)> {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let mut fields = ResponseReader(&bytes);
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
