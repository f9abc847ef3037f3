//! IVs from the numbers of sectors.

use crate::block::blocks::{self, BlockEngine};
use crate::block::libgcrypt;
use crate::{BlockCipher, IvMode, Provider, Result, SectorMode, SectorSpec};

/// Makes the IVs of one device.
pub(super) enum IvGenerator {
    /// The number alone decides.
    Plain(IvMode),
    /// The number of the first block of the sector, big-endian, counted from 1.
    Benbi {
        /// The number of bits by which a sector is longer than a block.
        shift: u32,
    },
    /// The caller's.
    Given([u8; 16]),
    /// The number is encrypted.
    Essiv(Box<dyn BlockEngine>),
}

impl IvGenerator {
    /// `key` is the whole key of the device.
    pub(super) fn new(provider: Provider, spec: SectorSpec, key: &[u8]) -> Result<IvGenerator> {
        let digest = match spec.iv() {
            IvMode::Essiv(digest) => digest,
            IvMode::Benbi => return Ok(IvGenerator::benbi(spec.mode())),
            iv => return Ok(IvGenerator::Plain(iv)),
        };
        let salt = digest.hash(&[key]);
        Ok(IvGenerator::Essiv(match (provider, spec.cipher()) {
            (Provider::AwsLc, BlockCipher::Aes) => blocks::aws_lc(&salt)?,
            (Provider::Libgcrypt, BlockCipher::Twofish) => libgcrypt::twofish(&salt)?,
            (_, cipher) => blocks::portable(cipher, &salt)?,
        }))
    }

    /// Counts as dm-crypt does: in blocks of the mode. For the kernel, the block of a stream cipher is one byte.
    fn benbi(mode: SectorMode) -> IvGenerator {
        let shift = if mode == SectorMode::Ctr { 9 } else { 5 };
        IvGenerator::Benbi { shift }
    }

    #[inline]
    pub(super) fn iv(&self, number: u64) -> Result<[u8; 16]> {
        let mut iv = [0; 16];
        match self {
            IvGenerator::Plain(IvMode::Null) => {}
            IvGenerator::Given(given) => iv = *given,
            IvGenerator::Plain(IvMode::Plain) => {
                iv[..4].copy_from_slice(&(number as u32).to_le_bytes());
            }
            IvGenerator::Plain(IvMode::Plain64Be) => {
                iv[8..].copy_from_slice(&number.to_be_bytes());
            }
            IvGenerator::Benbi { shift } => {
                let block = (number << shift).wrapping_add(1);
                iv[8..].copy_from_slice(&block.to_be_bytes());
            }
            IvGenerator::Plain(IvMode::Plain64 | IvMode::Benbi | IvMode::Essiv(_)) => {
                iv[..8].copy_from_slice(&number.to_le_bytes());
            }
            IvGenerator::Essiv(cipher) => {
                iv[..8].copy_from_slice(&number.to_le_bytes());
                cipher.encrypt(std::slice::from_mut(&mut iv))?;
            }
        }
        Ok(iv)
    }
}
