//! IVs from the numbers of sectors.

use crate::blocks::{self, Blocks};
use crate::{BlockCipher, IvMode, Provider, Result, SectorSpec};

/// Makes the IVs of one device.
pub(super) enum IvGenerator {
    /// The number alone decides.
    Plain(IvMode),
    /// The caller's.
    Given([u8; 16]),
    /// The number is encrypted.
    Essiv(Box<dyn Blocks>),
}

impl IvGenerator {
    /// `key` is the whole key of the device.
    pub(super) fn new(provider: Provider, spec: SectorSpec, key: &[u8]) -> Result<IvGenerator> {
        let IvMode::Essiv(digest) = spec.iv() else {
            return Ok(IvGenerator::Plain(spec.iv()));
        };
        let salt = digest.hash(&[key]);
        Ok(IvGenerator::Essiv(match (provider, spec.cipher()) {
            (Provider::AwsLc, BlockCipher::Aes) => blocks::aws_lc(&salt)?,
            (_, cipher) => blocks::portable(cipher, &salt)?,
        }))
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
            IvGenerator::Plain(IvMode::Benbi) => {
                // 32 blocks to the unit of 512 bytes.
                let block = (number << 5).wrapping_add(1);
                iv[8..].copy_from_slice(&block.to_be_bytes());
            }
            IvGenerator::Plain(IvMode::Plain64 | IvMode::Essiv(_)) => {
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
