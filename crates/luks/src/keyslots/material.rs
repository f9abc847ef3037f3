//! Key material: the volume key, split so that every bit of it is needed. It is encrypted with a key made of a
//! passphrase.
//!
//! Nothing in LUKS says whether key material is what was written: with damaged material every passphrase looks wrong.
//! Encrypted bytes look random. So a sector with few different bytes was overwritten by something else, and that is
//! reported then.

use std::io::IoSlice;

use block::BlockDevice;
use cipher::{Random, SectorCipher, af};
use secret::Secret;

use super::kdf;
use crate::model::{KeyDigest, Keyslot, SECTOR, STRIPES, material_len};
use crate::{Error, Result, crypto};

/// The smallest number of different bytes in a sector that counts as encrypted. Of 512 random bytes, 221 different
/// ones are expected, and fewer than this never.
const DIFFERENT_BYTES_MIN: usize = 150;

/// Key material is numbered from zero, in sectors of 512 bytes.
struct MaterialCipher(SectorCipher);

impl MaterialCipher {
    fn new(name: &str, key: &[u8], device: &str) -> Result<MaterialCipher> {
        Ok(MaterialCipher(SectorCipher::new(
            crypto::spec(name, device)?,
            key,
        )?))
    }

    fn encrypt(&self, data: &mut [u8]) -> Result<()> {
        Ok(self.0.encrypt(0, 1, SECTOR as usize, data)?)
    }

    fn decrypt(&self, data: &mut [u8]) -> Result<()> {
        Ok(self.0.decrypt(0, 1, SECTOR as usize, data)?)
    }
}

/// The key that a slot protects, if the passphrase is that of the slot.
///
/// # Errors
/// [`Error::KeyMaterial`] if the material is damaged.
pub(crate) fn open(
    device: &dyn BlockDevice,
    slot: &Keyslot,
    digest: &KeyDigest,
    passphrase: &Secret,
) -> Result<Option<Secret>> {
    let key = slot
        .kdf
        .derive(passphrase, &slot.salt, slot.cipher_key_len)?;
    let mut material = Secret::zeroed(slot.material_len() as usize)?;
    device.read_at(slot.offset, material.expose_mut())?;
    let damage = find_plain(material.expose());
    let cipher = MaterialCipher::new(&slot.cipher, key.expose(), &device.name())?;
    cipher.decrypt(material.expose_mut())?;
    let mut volume_key = Secret::zeroed(slot.key_len)?;
    let split = &material.expose()[..slot.key_len * STRIPES as usize];
    af::merge(
        crypto::digest(&slot.af_hash)?,
        split,
        volume_key.expose_mut(),
    )?;
    match (is_key_of(digest, &volume_key)?, damage) {
        (true, _) => Ok(Some(volume_key)),
        (false, None) => Ok(None),
        (false, Some(sector)) => Err(Error::KeyMaterial {
            device: device.name(),
            slot: slot.id,
            offset: slot.offset + sector * SECTOR,
            advice: "try another slot, or restore it with 'luks header-restore'",
        }),
    }
}

/// Returns whether the digest was made of this key.
pub(crate) fn is_key_of(digest: &KeyDigest, key: &Secret) -> Result<bool> {
    let mut computed = vec![0; digest.digest.len()];
    kdf::pbkdf2(&digest.hash, digest.iterations)?.derive(
        key.expose(),
        &digest.salt,
        &mut computed,
    )?;
    Ok(cipher::eq(&computed, &digest.digest))
}

/// Writes the key material of a slot, and makes it durable.
pub(crate) fn write(
    device: &dyn BlockDevice,
    slot: &Keyslot,
    volume_key: &Secret,
    passphrase: &Secret,
    random: &dyn Random,
) -> Result<()> {
    if volume_key.len() != slot.key_len {
        let what = format!("key slot {} takes a key of {} bytes", slot.id, slot.key_len);
        return Err(Error::Usage(what));
    }
    let key = slot
        .kdf
        .derive(passphrase, &slot.salt, slot.cipher_key_len)?;
    let mut material = Secret::zeroed(slot.material_len() as usize)?;
    let split = &mut material.expose_mut()[..slot.key_len * STRIPES as usize];
    af::split(
        crypto::digest(&slot.af_hash)?,
        volume_key.expose(),
        random,
        split,
    )?;
    let cipher = MaterialCipher::new(&slot.cipher, key.expose(), &device.name())?;
    cipher.encrypt(material.expose_mut())?;
    device.write_at(slot.offset, &[IoSlice::new(material.expose())])?;
    Ok(device.flush()?)
}

/// Overwrites an area with random bytes, and makes that durable. How far the device overwrites what
/// is written is the device's.
pub(crate) fn wipe(
    device: &dyn BlockDevice,
    offset: u64,
    len: u64,
    random: &dyn Random,
) -> Result<()> {
    const CHUNK: u64 = 1 << 20;
    let mut noise = vec![0; CHUNK.min(len) as usize];
    let (mut done, mut wiped) = (0, Ok(()));
    while done < len {
        let piece = &mut noise[..CHUNK.min(len - done) as usize];
        random.fill(piece)?;
        let written = overwrite(device, offset + done, piece);
        wiped = wiped.and(written);
        done += piece.len() as u64;
    }
    Ok(wiped.and(device.flush())?)
}

/// Writes as much of a piece as the device takes.
fn overwrite(device: &dyn BlockDevice, offset: u64, piece: &[u8]) -> block::Result<()> {
    const PART: usize = 4096;
    let written = device.write_at(offset, &[IoSlice::new(piece)]);
    if written.is_err() {
        for (n, part) in piece.chunks(PART).enumerate() {
            // What is reported is that the whole piece was not written.
            let _ = device.write_at(offset + (n * PART) as u64, &[IoSlice::new(part)]);
        }
    }
    written
}

/// The first sector that does not look encrypted.
fn find_plain(material: &[u8]) -> Option<u64> {
    let mut sectors = material.chunks_exact(SECTOR as usize);
    let found = sectors.position(|sector| {
        let mut seen = [false; 256];
        sector
            .iter()
            .for_each(|byte| seen[usize::from(*byte)] = true);
        seen.iter().filter(|seen| **seen).count() < DIFFERENT_BYTES_MIN
    });
    found.map(|sector| sector as u64)
}

/// Returns the space that a key takes in the header, in bytes.
pub(crate) fn area_len(key_len: usize, align: u64) -> u64 {
    material_len(key_len).next_multiple_of(align)
}
