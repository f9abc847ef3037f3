//! The modes of AES that AWS-LC has whole.

use zeroize::Zeroizing;

use super::engine::{SectorEngine, Sectors};
use super::modes;
use crate::block::blocks;
use crate::block::per_thread::PerThread;
use crate::ffi::{CbcKey, Direction, Xts256};
use crate::{Result, SectorMode, eq};

/// `mode` with `key`, as fast as the library can.
pub(super) fn engine(mode: SectorMode, key: &[u8]) -> Result<Box<dyn SectorEngine>> {
    Ok(match mode {
        SectorMode::Cbc | SectorMode::Ctr => Box::new(Flat {
            mode,
            key: CbcKey::new(key)?,
        }),
        SectorMode::Xts if AesXts::has(key) => Box::new(AesXts::new(key)),
        _ => modes::engine(mode, key, blocks::aws_lc)?,
    })
}

/// AES-256-XTS: one context for each thread and direction, of which only the IV changes.
struct AesXts {
    key: Zeroizing<Vec<u8>>,
    contexts: PerThread<Xts256>,
}

impl AesXts {
    /// Returns whether the library takes the key: it has no AES-128-XTS, and refuses equal halves, which dm-crypt
    /// allows.
    fn has(key: &[u8]) -> bool {
        let (data, tweak) = key.split_at(key.len() / 2);
        key.len() == 64 && !eq(data, tweak)
    }

    fn new(key: &[u8]) -> AesXts {
        AesXts {
            key: Zeroizing::new(key.to_vec()),
            contexts: PerThread::new(),
        }
    }
}

impl SectorEngine for AesXts {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        let new = || Xts256::new(&self.key, direction);
        let mut context = self.contexts.get(direction, new)?;
        sectors.each(|iv, sector| context.sector(iv, sector))
    }
}

/// CBC or CTR, from a key that all threads share.
struct Flat {
    mode: SectorMode,
    key: CbcKey,
}

impl SectorEngine for Flat {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        sectors.each(|iv, sector| {
            match self.mode {
                SectorMode::Ctr => self.key.counter(iv, sector),
                _ => self.key.run(direction, iv, sector)?,
            }
            Ok(())
        })
    }
}
