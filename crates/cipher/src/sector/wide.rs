//! Adiantum over sectors: the IV is the beginning of a tweak of 32 bytes, as in dm-crypt.

use super::engine::{SectorEngine, Sectors};
use crate::block::adiantum;
use crate::block::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::{Error, NameMode, Provider, Result};

pub(super) struct Wide(Box<dyn TweakableCipher>);

impl Wide {
    pub(super) fn new(provider: Provider, mode: NameMode, key: &[u8]) -> Result<Wide> {
        Ok(Wide(match mode {
            NameMode::Adiantum => adiantum::boxed::<chacha20::XChaCha12>(provider, key)?,
            NameMode::AdiantumXChaCha20 => adiantum::boxed::<chacha20::XChaCha20>(provider, key)?,
            _ => return Err(Error::Library),
        }))
    }
}

impl SectorEngine for Wide {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        sectors.each(|iv, sector| {
            let mut tweak = [0; 32];
            tweak[..16].copy_from_slice(iv);
            self.0.run(direction, &tweak, sector)
        })
    }
}
