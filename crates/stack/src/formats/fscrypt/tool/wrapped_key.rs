//! A key under another: AES-256-CTR, then HMAC-SHA256.

use cipher::{Digest, Random, SectorCipher, SectorSpec};
use secret::{Key, Secret};

use super::error::{Error, Result, damaged};
use super::wire::{self, MessageWriter};

/// A wrapped key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKeyData {
    iv: [u8; 16],
    sealed: Vec<u8>,
    mac: [u8; 32],
    unknown: Vec<u8>,
}

impl WrappedKeyData {
    /// Wraps `secret` under `key`.
    ///
    /// # Errors
    /// [`Error::Cipher`], [`Error::Memory`].
    pub fn wrap(key: &Key, secret: &[u8], random: &dyn Random) -> Result<WrappedKeyData> {
        let mut iv = [0; 16];
        random.fill(&mut iv)?;
        let (encryption, authentication) = stretched(key)?;
        // In locked memory until it is sealed.
        let mut sealed = Secret::from_slice(secret)?;
        encryption.encrypt_with(&iv, sealed.expose_mut())?;
        let sealed = sealed.expose().to_vec();
        let mac = mac(&authentication, &iv, &sealed);
        Ok(WrappedKeyData {
            iv,
            sealed,
            mac,
            unknown: Vec::new(),
        })
    }

    /// The key within.
    ///
    /// # Errors
    /// [`Error::WrongKey`] for another key or changed bytes; [`Error::Cipher`], [`Error::Memory`].
    pub fn unwrap(&self, key: &Key) -> Result<Secret> {
        let (encryption, authentication) = stretched(key)?;
        if !cipher::eq(&mac(&authentication, &self.iv, &self.sealed), &self.mac) {
            return Err(Error::WrongKey);
        }
        let mut secret = Secret::from_slice(&self.sealed)?;
        encryption.decrypt_with(&self.iv, secret.expose_mut())?;
        Ok(secret)
    }

    /// Reads a message, whose key must have `len` bytes.
    pub(super) fn decode(message: &[u8], len: usize) -> Result<WrappedKeyData> {
        let (mut iv, mut sealed, mut mac) = (None, &[][..], None);
        let mut unknown = Vec::new();
        wire::read(message, |field| {
            match field.number {
                1 => iv = Some(field.array()?),
                2 => sealed = field.bytes()?,
                3 => mac = Some(field.array()?),
                _ => unknown.extend_from_slice(field.raw),
            }
            Ok(())
        })?;
        let missing = || damaged("a wrapped key is not complete");
        if sealed.len() != len {
            return Err(damaged(format!("a wrapped key does not have {len} bytes")));
        }
        Ok(WrappedKeyData {
            iv: iv.ok_or_else(missing)?,
            sealed: sealed.to_vec(),
            mac: mac.ok_or_else(missing)?,
            unknown,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        MessageWriter::default()
            .bytes(1, &self.iv)
            .bytes(2, &self.sealed)
            .bytes(3, &self.mac)
            .done(&self.unknown)
    }
}

/// The keys of encryption and of authentication.
fn stretched(key: &Key) -> Result<(SectorCipher, Secret)> {
    let mut keys = Secret::zeroed(64)?;
    Digest::Sha256.hkdf(&[], key.expose(), &[], keys.expose_mut())?;
    let (encryption, authentication) = keys.expose().split_at(32);
    let spec = SectorSpec::parse("aes-ctr-plain64")?;
    Ok((
        SectorCipher::new(spec, encryption)?,
        Secret::from_slice(authentication)?,
    ))
}

fn mac(key: &Secret, iv: &[u8; 16], sealed: &[u8]) -> [u8; 32] {
    let mac = Digest::Sha256.hmac(key.expose(), &[iv, sealed]);
    *mac.first_chunk().expect("32 bytes")
}
