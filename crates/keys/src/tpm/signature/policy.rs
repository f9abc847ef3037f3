//! Signed policies (systemd-cryptenroll(1), `--tpm2-public-key`): the holder of a key signs the values of PCRs under
//! which a TPM opens what it sealed. So other kernels can open it later without a new token.

use std::path::{Path, PathBuf};

use cipher::{Digest, RsaPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::file::{self, Signature};
use crate::source::Pcrs;
use crate::tpm::chip::session::SHA256;
use crate::tpm::chip::wire::TpmBytes;
use crate::{Error, Result};

const RSA: u16 = 0x0001;
/// No cipher, and no scheme.
const NULL: u16 = 0x0010;
/// The attributes of a key that signs and decrypts, and is used with its password, as systemd writes them.
const ATTRIBUTES: u32 = 0x0006_0040;
/// The number that stands for 65,537, the exponent of nearly all keys.
const DEFAULT_EXPONENT: u32 = 0;
/// 4,096 bits.
const MODULUS_MAX: usize = 512;

/// A policy that a key signs for PCRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedPolicy {
    key: RsaPublicKey,
    exponent: u32,
    pub(crate) pcrs: Pcrs,
    /// The signatures by the key for these PCRs, and the file with them.
    signatures: Vec<Signature>,
    pub(crate) file: PathBuf,
}

impl SignedPolicy {
    /// Takes a public key in PEM.
    pub(crate) fn new(pem: &[u8], pcrs: Pcrs) -> Result<SignedPolicy> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok();
        let key = der.and_then(|der| RsaPublicKey::from_der(der.as_ref()).ok());
        let key = key.ok_or_else(|| {
            Error::Tpm("the public key of the token is not a key of RSA in PEM".into())
        })?;
        // No TPM has more than 4,096 bits, or a longer exponent.
        let number = |sum: u32, byte: &u8| sum.checked_mul(256)?.checked_add(u32::from(*byte));
        let exponent = key.exponent.iter().try_fold(0, number);
        let exponent = exponent.filter(|_| key.modulus.len() <= MODULUS_MAX);
        let exponent = exponent.ok_or_else(|| {
            Error::Tpm("the public key of the token is larger than a TPM takes".into())
        })?;
        Ok(SignedPolicy {
            key,
            exponent,
            pcrs,
            signatures: Vec::new(),
            file: PathBuf::new(),
        })
    }

    /// Looks for signatures in this file, or in the one that the system has.
    pub(crate) fn find_signatures(&mut self, named: Option<&Path>) -> Result<()> {
        let (file, mut signatures) = file::read(named, self.pcrs.bank_name())?;
        let fingerprint = Digest::Sha256.hash(&[&self.key.der]);
        signatures.retain(|found| found.pcrs == self.pcrs && found.key == *fingerprint);
        if signatures.is_empty() {
            let digits = encoding::hex(&fingerprint);
            return Err(Error::Tpm(format!(
                "the signature file {} has no signature of PCRs {} ({}) by the key of the token, which has the \
                 fingerprint {}; sign with this key ('systemd-measure sign'), or name another file with \
                 --tpm2-signature",
                file.display(),
                self.pcrs,
                self.pcrs.bank_name(),
                digits,
            )));
        }
        let len = self.key.modulus.len();
        if signatures.iter().any(|found| found.bytes.len() != len) {
            let reason = "a signature does not have the length of the key".into();
            return Err(Error::SignatureFile { path: file, reason });
        }
        (self.signatures, self.file) = (signatures, file);
        Ok(())
    }

    /// The signature of this policy, which is that of the present values of the PCRs.
    pub(crate) fn signature(&self, policy: &[u8]) -> Result<&[u8]> {
        let found = self.signatures.iter().find(|found| found.policy == policy);
        match found {
            Some(found) => Ok(&found.bytes),
            None => Err(Error::Tpm(format!(
                "the machine is not in a signed state: the signature file {} has no signature of the present \
                 values of PCRs {} ({}); start a signed kernel, sign these values ('systemd-measure sign'), or \
                 use a passphrase",
                self.file.display(),
                self.pcrs,
                self.pcrs.bank_name(),
            ))),
        }
    }

    /// `TPMT_PUBLIC` of the key, which gives its name. systemd 255 wrote the usual exponent in another way.
    pub(crate) fn publics(&self) -> Vec<Vec<u8>> {
        let bits = 8 * self.key.modulus.len() as u16;
        let mut exponents = vec![self.exponent];
        if self.exponent == 65_537 {
            exponents.push(DEFAULT_EXPONENT);
        }
        let public = |exponent: u32| {
            let bytes = TpmBytes::default().u16(RSA).u16(SHA256).u32(ATTRIBUTES);
            let bytes = bytes.sized(&[]).u16(NULL).u16(NULL).u16(bits);
            bytes.u32(exponent).sized(&self.key.modulus).0
        };
        exponents.into_iter().map(public).collect()
    }

    pub(crate) fn key_in_words(&self) -> String {
        match 8 * self.key.modulus.len() {
            2048 => "the public key of the token".into(),
            bits => format!(
                "the public key of the token has {bits} bits, and every TPM takes 2048; make a token with such a key"
            ),
        }
    }
}
