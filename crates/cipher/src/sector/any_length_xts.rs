//! XTS of any number of bytes, as pefs has it: what is shorter than a sector is sealed too.

use std::fmt;

use crate::block::blocks::{CipherBlock, xor};
use crate::block::field::double;
use crate::{BlockCipher, Result, SectorCipher, SectorSpec};

/// A key for sectors of any length.
///
/// From 16 bytes on this is XTS with ciphertext stealing (IEEE 1619, 5.3.2). Fewer bytes are masked with one
/// block, which depends on the tweak and on their number. So two ciphertexts of the same length under one tweak
/// show the difference of their plaintexts.
pub struct AnyLengthXts {
    whole: SectorCipher,
    data: SectorCipher,
    tweak: SectorCipher,
}

impl AnyLengthXts {
    /// Returns a cipher with the keys of the data and of the tweak, each of 16, 24 or 32 bytes.
    ///
    /// # Errors
    /// As for [`SectorCipher::new`].
    pub fn new(cipher: BlockCipher, data: &[u8], tweak: &[u8]) -> Result<AnyLengthXts> {
        let name = cipher.name();
        let xts = SectorSpec::parse(&format!("{name}-xts-plain64"))?;
        let block = SectorSpec::parse(&format!("{name}-ecb"))?;
        let both = zeroize::Zeroizing::new([data, tweak].concat());
        Ok(AnyLengthXts {
            whole: SectorCipher::new(xts, &both)?,
            data: SectorCipher::new(block, data)?,
            tweak: SectorCipher::new(block, tweak)?,
        })
    }

    /// Seals one sector where it is.
    ///
    /// # Errors
    /// [`Error::SectorSize`](crate::Error::SectorSize) for more than 16 MiB;
    /// [`Error::Library`](crate::Error::Library) when there is no memory.
    pub fn encrypt(&self, iv: &CipherBlock, sector: &mut [u8]) -> Result<()> {
        let (whole, rest) = match split(sector) {
            SectorParts::None => return Ok(()),
            SectorParts::Few(few) => return self.mask(iv, few),
            SectorParts::Blocks(blocks) => return self.whole.encrypt_with(iv, blocks),
            SectorParts::Stealing(whole, rest) => (whole, rest),
        };
        self.whole.encrypt_with(iv, whole)?;
        let tweak = self.tweak_after(iv, whole.len() / 16)?;
        let (_, last) = whole.split_last_chunk_mut::<16>().expect("a whole block");
        // The end of the data takes the place of what the last block has for it.
        last[..rest.len()].swap_with_slice(rest);
        self.data_block(&tweak, last, true)
    }

    /// Opens one sector where it is. Errors as for [`AnyLengthXts::encrypt`].
    pub fn decrypt(&self, iv: &CipherBlock, sector: &mut [u8]) -> Result<()> {
        let (whole, rest) = match split(sector) {
            SectorParts::None => return Ok(()),
            SectorParts::Few(few) => return self.mask(iv, few),
            SectorParts::Blocks(blocks) => return self.whole.decrypt_with(iv, blocks),
            SectorParts::Stealing(whole, rest) => (whole, rest),
        };
        let tweak = self.tweak_after(iv, whole.len() / 16)?;
        let (_, last) = whole.split_last_chunk_mut::<16>().expect("a whole block");
        self.data_block(&tweak, last, false)?;
        last[..rest.len()].swap_with_slice(rest);
        self.whole.decrypt_with(iv, whole)
    }

    fn mask(&self, iv: &CipherBlock, few: &mut [u8]) -> Result<()> {
        let mut mask = [few.len() as u8; 16];
        xor(&mut mask, &self.tweak_after(iv, 0)?);
        self.data.encrypt_with(&[0; 16], &mut mask)?;
        for (byte, mask) in few.iter_mut().zip(mask) {
            *byte ^= mask;
        }
        Ok(())
    }

    /// The tweak of the block with this number.
    fn tweak_after(&self, iv: &CipherBlock, blocks: usize) -> Result<CipherBlock> {
        let mut first = *iv;
        self.tweak.encrypt_with(&[0; 16], &mut first)?;
        let first = u128::from_le_bytes(first);
        Ok((0..blocks)
            .fold(first, |tweak, _| double(tweak))
            .to_le_bytes())
    }

    /// Encrypts or decrypts a block of XTS.
    fn data_block(
        &self,
        tweak: &CipherBlock,
        block: &mut CipherBlock,
        encrypt: bool,
    ) -> Result<()> {
        xor(block, tweak);
        match encrypt {
            true => self.data.encrypt_with(&[0; 16], block)?,
            false => self.data.decrypt_with(&[0; 16], block)?,
        }
        xor(block, tweak);
        Ok(())
    }
}

/// The parts of a sector that are sealed in different ways.
enum SectorParts<'a> {
    None,
    Few(&'a mut [u8]),
    Blocks(&'a mut [u8]),
    /// Whole blocks, and less than one.
    Stealing(&'a mut [u8], &'a mut [u8]),
}

fn split(sector: &mut [u8]) -> SectorParts<'_> {
    match (sector.len(), sector.len() % 16) {
        (0, _) => SectorParts::None,
        (..16, _) => SectorParts::Few(sector),
        (_, 0) => SectorParts::Blocks(sector),
        (len, rest) => {
            let (whole, rest) = sector.split_at_mut(len - rest);
            SectorParts::Stealing(whole, rest)
        }
    }
}

impl fmt::Debug for AnyLengthXts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyLengthXts({:?})", self.whole)
    }
}
