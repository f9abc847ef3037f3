//! A session with a TPM (TPM 2.0 Library, part 1, 17 to 21): both sides prove in each command that they know a
//! salt, which is sealed to a key of the TPM. The resulting key is encrypted. So an attacker who only listens at
//! the bus learns nothing, and a changed message in a session is noticed. An attacker who is between both from the
//! beginning can show another key as that of the TPM. This program does not know the TPM's key before.

use cipher::{Curve, Digest, Point, Random};
use secret::Secret;
use zeroize::Zeroizing;

use super::wire::{ResponseReader, TpmBytes, TpmCommand, TpmResponse, not_understood};
use crate::{Error, Result};

const AES: u16 = 0x0006;
const CFB: u16 = 0x0043;
pub(crate) const SHA256: u16 = 0x000b;
pub(crate) const NULL_HANDLE: u32 = 0x4000_0007;
const NONCE_LEN: usize = 32;
const KEY_BITS: u16 = 128;

/// The attribute of a session that continues after the command.
const CONTINUES: u8 = 0x01;
/// The first parameter of the command is encrypted.
pub(crate) const COMMAND_ENCRYPTED: u8 = 0x20;
/// The first parameter of the answer is encrypted.
pub(crate) const ANSWER_ENCRYPTED: u8 = 0x40;

/// The kind of authorization that a session gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Proves the knowledge of an object's password.
    Password = 0,
    /// Fulfils the policy of an object.
    Policy = 1,
}

pub(crate) struct TpmSession {
    pub(crate) handle: u32,
    key: Zeroizing<Vec<u8>>,
    nonce_tpm: Vec<u8>,
    nonce_caller: [u8; NONCE_LEN],
}

/// A session that was asked for.
pub(crate) struct SessionRequest {
    pub(crate) params: Vec<u8>,
    nonce_caller: [u8; NONCE_LEN],
    salt: Zeroizing<Vec<u8>>,
}

impl SessionRequest {
    /// With a salt for this key of the TPM.
    pub(crate) fn new(kind: Kind, parent: &Point, random: &dyn Random) -> Result<SessionRequest> {
        let shared = cipher::share(Curve::P256, parent, random);
        let (ours, shared) = shared.map_err(|error| match error {
            cipher::Error::Point => not_understood(),
            other => other.into(),
        })?;
        // KDFe.
        let salt = Digest::Sha256.hash(&[&[0, 0, 0, 1], &shared, b"SECRET\0", &ours.x, &parent.x]);
        let mut nonce_caller = [0; NONCE_LEN];
        random.fill(&mut nonce_caller)?;
        let point = TpmBytes::default().sized(&ours.x).sized(&ours.y).0;
        let params = TpmBytes::default()
            .sized(&nonce_caller)
            .sized(&point)
            .u8(kind as u8)
            .u16(AES)
            .u16(KEY_BITS)
            .u16(CFB)
            .u16(SHA256)
            .0;
        Ok(SessionRequest {
            params,
            nonce_caller,
            salt: Zeroizing::new(salt.to_vec()),
        })
    }

    pub(crate) fn begun(self, answer: &TpmResponse<'_>) -> Result<TpmSession> {
        let nonce_tpm = ResponseReader(answer.params).sized()?.to_vec();
        if !(16..=NONCE_LEN).contains(&nonce_tpm.len()) {
            return Err(not_understood());
        }
        let SessionRequest {
            nonce_caller, salt, ..
        } = self;
        let key = derive(&salt, b"ATH\0", &nonce_tpm, &nonce_caller, 256);
        Ok(TpmSession {
            handle: answer.handle,
            key,
            nonce_tpm,
            nonce_caller,
        })
    }
}

/// KDFa, for no more bits than a hash has.
fn derive(key: &[u8], label: &[u8], one: &[u8], other: &[u8], bits: u32) -> Zeroizing<Vec<u8>> {
    let bits = bits.to_be_bytes();
    let derived = Digest::Sha256.hmac(key, &[&[0, 0, 0, 1], label, one, other, &bits]);
    Zeroizing::new(derived.to_vec())
}

/// The subject of a command.
pub(crate) struct About<'a> {
    pub(crate) code: TpmCommand,
    /// The names of its handles.
    pub(crate) names: &'a [&'a [u8]],
    /// The password of the object.
    pub(crate) password: &'a [u8],
    /// True if the proof needs the password, and not only the encryption.
    pub(crate) proves_password: bool,
}

impl TpmSession {
    /// Proves a command, and encrypts its first parameter if `flags` say so. Returns what stands between handles and
    /// parameters. The session ends with the command if that succeeds.
    pub(crate) fn prove(
        &mut self,
        about: &About<'_>,
        params: &mut [u8],
        flags: u8,
        random: &dyn Random,
    ) -> Result<Vec<u8>> {
        random.fill(&mut self.nonce_caller)?;
        if flags & COMMAND_ENCRYPTED != 0 {
            let (key, vector) = self.encryption(about, &self.nonce_caller, &self.nonce_tpm)?;
            cipher::cfb_encrypt(&key, vector, first(params)?)?;
        }
        let code = (about.code as u32).to_be_bytes();
        let mut parts: Vec<&[u8]> = vec![&code];
        parts.extend_from_slice(about.names);
        parts.push(params);
        let hash = Digest::Sha256.hash(&parts);
        let proof = self.proof(
            about,
            &[&*hash, &self.nonce_caller, &self.nonce_tpm, &[flags]],
        )?;
        Ok(TpmBytes::default()
            .u32(self.handle)
            .sized(&self.nonce_caller)
            .u8(flags)
            .sized(&proof)
            .0)
    }

    /// Checks the proof of the answer, and decrypts its first parameter if `flags` of the command said so.
    pub(crate) fn check(
        &mut self,
        about: &About<'_>,
        flags: u8,
        answer: &TpmResponse<'_>,
    ) -> Result<Secret> {
        let mut auth = ResponseReader(answer.auth);
        let (nonce, answered, proof) = (auth.sized()?, auth.u8()?, auth.sized()?);
        self.nonce_tpm = nonce.to_vec();
        let code = (about.code as u32).to_be_bytes();
        let hash = Digest::Sha256.hash(&[&[0; 4], &code, answer.params]);
        let nonces = [&self.nonce_tpm[..], &self.nonce_caller];
        let expected = self.proof(about, &[&*hash, nonces[0], nonces[1], &[answered]])?;
        if !cipher::eq(&expected, proof) || answered & !CONTINUES != flags & !CONTINUES {
            return Err(Error::Tpm(
                "its answer is not authentic; another device may be between it and this machine"
                    .into(),
            ));
        }
        let mut params = Secret::from_slice(answer.params)?;
        if flags & ANSWER_ENCRYPTED != 0 {
            let (key, vector) = self.encryption(about, nonces[0], nonces[1])?;
            cipher::cfb_decrypt(&key, vector, first(params.expose_mut())?)?;
        }
        Ok(params)
    }

    fn proof(&self, about: &About<'_>, parts: &[&[u8]]) -> Result<cipher::DigestOutput> {
        let password = if about.proves_password {
            about.password
        } else {
            &[]
        };
        let key = self.key_with(password)?;
        Ok(Digest::Sha256.hmac(key.expose(), parts))
    }

    fn key_with(&self, password: &[u8]) -> Result<Secret> {
        let mut key = Secret::from_slice(&self.key)?;
        key.push_slice(password)?;
        Ok(key)
    }

    fn encryption(
        &self,
        about: &About<'_>,
        newer: &[u8],
        older: &[u8],
    ) -> Result<(Zeroizing<Vec<u8>>, [u8; 16])> {
        let value = self.key_with(about.password)?;
        let mut derived = derive(value.expose(), b"CFB\0", newer, older, 256);
        let vector = derived[16..32].try_into().expect("16 bytes");
        derived.truncate(16);
        Ok((derived, vector))
    }
}

/// The first parameter, behind its length.
fn first(params: &mut [u8]) -> Result<&mut [u8]> {
    let len = usize::from(ResponseReader(params).u16()?);
    params.get_mut(2..2 + len).ok_or_else(not_understood)
}

/// Reads what may be the answer to a command of a session.
#[cfg(fuzzing)]
pub(crate) fn look(answer: &TpmResponse<'_>) {
    let mut session = TpmSession {
        handle: 0,
        key: Zeroizing::default(),
        nonce_tpm: vec![0; NONCE_LEN],
        nonce_caller: [0; NONCE_LEN],
    };
    let about = About {
        code: TpmCommand::Unseal,
        names: &[],
        password: &[],
        proves_password: false,
    };
    let _ = session.check(&about, ANSWER_ENCRYPTED, answer);
}
