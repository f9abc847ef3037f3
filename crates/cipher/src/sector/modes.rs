//! XTS, LRW, CBC, ECB and CTR over any block cipher, many blocks at a time.
//!
//! This provider serves ciphers that AWS-LC does not have, and AES-128-XTS. Also it is the second implementation of everything.

use super::engine::{SectorEngine, Sectors};
use super::lrw::Lrw;
use crate::block::blocks::{BATCH, BlockEngine, CipherBlock, xor, xor_all};
use crate::block::tweaks::Tweaks;
use crate::ffi::Direction;
use crate::{Result, SectorMode};

/// `mode` with `key`; `expand` makes a block cipher of a key.
pub(super) fn engine(
    mode: SectorMode,
    key: &[u8],
    expand: impl Fn(&[u8]) -> Result<Box<dyn BlockEngine>>,
) -> Result<Box<dyn SectorEngine>> {
    Ok(match mode {
        SectorMode::Xts => {
            let (data, tweak) = key.split_at(key.len() / 2);
            Box::new(TwoKeyXts {
                data: expand(data)?,
                tweak: expand(tweak)?,
            })
        }
        SectorMode::Lrw => {
            let (data, tweak) = key.split_at(key.len() - 16);
            Box::new(Lrw::new(expand(data)?, tweak))
        }
        _ => Box::new(SerialMode {
            mode,
            cipher: expand(key)?,
        }),
    })
}

struct TwoKeyXts {
    data: Box<dyn BlockEngine>,
    tweak: Box<dyn BlockEngine>,
}

impl SectorEngine for TwoKeyXts {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        let Sectors {
            mut ivs,
            size,
            data,
        } = sectors;
        // The tweaks of many sectors are encrypted at once: one alone would leave the cipher's registers empty.
        let (mut one, mut many);
        let firsts: &mut [CipherBlock] = if data.len() == size {
            one = [[0; 16]];
            &mut one
        } else {
            many = [[0; 16]; BATCH];
            &mut many
        };
        for sectors in data.chunks_mut(firsts.len() * size) {
            let firsts = &mut firsts[..sectors.len() / size];
            for iv in firsts.iter_mut() {
                *iv = ivs.next()?;
            }
            self.tweak.encrypt(firsts)?;
            let tweaks = Tweaks::new(firsts, size / 16);
            self.data
                .run_tweaked(direction, tweaks, sectors.as_chunks_mut().0)?;
        }
        Ok(())
    }
}

/// CBC, ECB or CTR.
struct SerialMode {
    mode: SectorMode,
    cipher: Box<dyn BlockEngine>,
}

impl SectorEngine for SerialMode {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        sectors.each(|iv, sector| {
            let blocks = sector.as_chunks_mut().0;
            match (self.mode, direction) {
                (SectorMode::Ctr, _) => self.counter(*iv, blocks),
                (SectorMode::Cbc, Direction::Encrypt) => self.chain(*iv, blocks),
                (SectorMode::Cbc, Direction::Decrypt) => self.unchain(*iv, blocks),
                (_, Direction::Encrypt) => self.cipher.encrypt(blocks),
                (_, Direction::Decrypt) => self.cipher.decrypt(blocks),
            }
        })
    }
}

impl SerialMode {
    fn chain(&self, iv: CipherBlock, blocks: &mut [CipherBlock]) -> Result<()> {
        let mut before = iv;
        for block in blocks {
            xor(block, &before);
            self.cipher.encrypt(std::slice::from_mut(block))?;
            before = *block;
        }
        Ok(())
    }

    fn unchain(&self, iv: CipherBlock, blocks: &mut [CipherBlock]) -> Result<()> {
        let mut before = iv;
        for blocks in blocks.chunks_mut(BATCH) {
            let mut sealed = [[0; 16]; BATCH];
            let sealed = &mut sealed[..blocks.len()];
            sealed.copy_from_slice(blocks);
            self.cipher.decrypt(blocks)?;
            let (first, rest) = blocks.split_at_mut(1);
            let (last, most) = sealed.split_last().expect("no chunk is empty");
            xor_all(first, &[before]);
            xor_all(rest, most);
            before = *last;
        }
        Ok(())
    }

    fn counter(&self, iv: CipherBlock, blocks: &mut [CipherBlock]) -> Result<()> {
        let mut counter = u128::from_be_bytes(iv);
        for blocks in blocks.chunks_mut(BATCH) {
            let mut stream = [[0; 16]; BATCH];
            let stream = &mut stream[..blocks.len()];
            for block in stream.iter_mut() {
                *block = counter.to_be_bytes();
                counter = counter.wrapping_add(1);
            }
            self.cipher.encrypt(stream)?;
            xor_all(blocks, stream);
        }
        Ok(())
    }
}
