//! CBC with ciphertext stealing (CS3), over any AES in CBC.

use crate::block::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::{Error, Provider, Result, SectorCipher, SectorSpec};

pub(super) struct Cts(SectorCipher);

impl Cts {
    pub(super) fn new(provider: Provider, key: &[u8]) -> Result<Cts> {
        let spec = SectorSpec::parse("aes-cbc-null")?;
        SectorCipher::with_provider(provider, spec, key).map(Cts)
    }

    /// Encrypts by CBC, with zeros behind the end. Then the bytes that fill the last block are left out, and the last
    /// two blocks exchanged.
    fn encrypt(&self, iv: &[u8; 16], data: &mut [u8]) -> Result<()> {
        let (whole, rest) = split(data);
        let (most, last) = whole.split_at_mut(whole.len() - 16);
        let mut end = [0; 32];
        end[..16].copy_from_slice(last);
        end[16..][..rest.len()].copy_from_slice(rest);
        self.0.encrypt_with(iv, most).or_else(none)?;
        let before = most.last_chunk().unwrap_or(iv);
        self.0.encrypt_with(before, &mut end)?;
        last.copy_from_slice(&end[16..]);
        rest.copy_from_slice(&end[..rest.len()]);
        Ok(())
    }

    fn decrypt(&self, iv: &[u8; 16], data: &mut [u8]) -> Result<()> {
        let (whole, rest) = split(data);
        let (most, last) = whole.split_at_mut(whole.len() - 16);
        let before = *most.last_chunk().unwrap_or(iv);
        // The last whole block, which is the one before the end of the data. Its plaintext, with zeros for an IV, is
        // the padded end, added to the block that was stolen from.
        let mut padded: [u8; 16] = last.try_into().map_err(|_| Error::Library)?;
        self.0.decrypt_with(&[0; 16], &mut padded)?;
        let mut stolen = padded;
        stolen[..rest.len()].copy_from_slice(rest);
        for (plain, (padded, sealed)) in rest.iter_mut().zip(padded.iter().zip(stolen)) {
            *plain = padded ^ sealed;
        }
        self.0.decrypt_with(&before, &mut stolen)?;
        last.copy_from_slice(&stolen);
        self.0.decrypt_with(iv, most).or_else(none)
    }
}

/// The blocks but the last, and the last, which has from 1 to 16 bytes.
fn split(data: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    data.split_at_mut((data.len() - 1) / 16 * 16)
}

/// Accepts an error because there are no blocks before the last two.
fn none(error: Error) -> Result<()> {
    match error {
        Error::SectorSize { data: 0, .. } => Ok(()),
        other => Err(other),
    }
}

impl TweakableCipher for Cts {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        let iv = tweak.try_into().map_err(|_| Error::Library)?;
        match direction {
            // One block has none to steal from.
            Direction::Encrypt if data.len() == 16 => self.0.encrypt_with(iv, data),
            Direction::Decrypt if data.len() == 16 => self.0.decrypt_with(iv, data),
            Direction::Encrypt => self.encrypt(iv, data),
            Direction::Decrypt => self.decrypt(iv, data),
        }
    }
}
