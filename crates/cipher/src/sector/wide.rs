//! Adiantum over sectors: the IV is the beginning of a tweak of 32 bytes, as in dm-crypt.

use super::engine::{Engine, Sectors};
use crate::ffi::Direction;
use crate::{NameCipher, NameMode, Provider, Result};

pub(super) struct Wide(NameCipher);

impl Wide {
    pub(super) fn new(provider: Provider, mode: NameMode, key: &[u8]) -> Result<Wide> {
        Ok(Wide(NameCipher::with_provider(provider, mode, key)?))
    }
}

impl Engine for Wide {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        sectors.each(|iv, sector| {
            let mut tweak = [0; 32];
            tweak[..16].copy_from_slice(iv);
            match direction {
                Direction::Encrypt => self.0.encrypt(&tweak, sector),
                Direction::Decrypt => self.0.decrypt(&tweak, sector),
            }
        })
    }
}
