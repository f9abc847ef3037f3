//! XTS, LRW, CBC, ECB and CTR over any block cipher, many blocks at a time.
//!
//! For ciphers that AWS-LC does not have, for AES-128-XTS, which it has not either, and as the
//! second implementation of everything.

use super::engine::{BATCH, Engine, Sectors};
use super::lrw::Lrw;
use crate::blocks::{Block, Blocks, double, xor, xor_all};
use crate::ffi::Direction;
use crate::{Result, SectorMode};

/// `mode` with `key`; `expand` makes a block cipher of a key.
pub(super) fn engine(
    mode: SectorMode,
    key: &[u8],
    expand: impl Fn(&[u8]) -> Result<Box<dyn Blocks>>,
) -> Result<Box<dyn Engine>> {
    Ok(match mode {
        SectorMode::Xts => {
            let (data, tweak) = key.split_at(key.len() / 2);
            Box::new(Xts {
                data: expand(data)?,
                tweak: expand(tweak)?,
            })
        }
        SectorMode::Lrw => {
            let (data, tweak) = key.split_at(key.len() - 16);
            Box::new(Lrw::new(expand(data)?, tweak))
        }
        _ => Box::new(Chained {
            mode,
            cipher: expand(key)?,
        }),
    })
}

struct Xts {
    data: Box<dyn Blocks>,
    tweak: Box<dyn Blocks>,
}

impl Engine for Xts {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        let Sectors {
            mut ivs,
            size,
            data,
        } = sectors;
        // As many sectors at a time as fill a batch: short ones alone would leave the cipher's registers
        // empty. A long one takes several batches.
        let sectors_in_batch = (16 * BATCH / size).max(1);
        for sectors in data.chunks_mut(sectors_in_batch * size) {
            let mut first = [[0; 16]; BATCH];
            let first = &mut first[..sectors.len() / size];
            for iv in first.iter_mut() {
                *iv = ivs.next()?;
            }
            self.tweak.encrypt(first)?;
            for blocks in sectors.as_chunks_mut().0.chunks_mut(BATCH) {
                self.batch(direction, first, size / 16, blocks)?;
            }
        }
        Ok(())
    }
}

impl Xts {
    /// Runs over whole sectors, or over a part of one. `next` has the tweak of the first block of each, and
    /// then of the block after the last.
    fn batch(
        &self,
        direction: Direction,
        next: &mut [Block],
        blocks_in_sector: usize,
        blocks: &mut [Block],
    ) -> Result<()> {
        let mut tweaks = [[0; 16]; BATCH];
        let tweaks = &mut tweaks[..blocks.len()];
        let sectors = blocks.chunks_mut(blocks_in_sector);
        for (next, (blocks, tweaks)) in next
            .iter_mut()
            .zip(sectors.zip(tweaks.chunks_mut(blocks_in_sector)))
        {
            *next = add_tweaks(*next, blocks, tweaks);
        }
        match direction {
            Direction::Encrypt => self.data.encrypt(blocks)?,
            Direction::Decrypt => self.data.decrypt(blocks)?,
        }
        xor_all(blocks, tweaks);
        Ok(())
    }
}

/// Adds the tweaks of consecutive blocks to them, from that of the first, keeps them in `tweaks`, and
/// returns the one of the block after them.
fn add_tweaks(first: Block, blocks: &mut [Block], tweaks: &mut [Block]) -> Block {
    let mut next = u128::from_le_bytes(first);
    for (block, tweak) in blocks.iter_mut().zip(tweaks) {
        *tweak = next.to_le_bytes();
        xor(block, tweak);
        next = double(next);
    }
    next.to_le_bytes()
}

/// CBC, ECB or CTR.
struct Chained {
    mode: SectorMode,
    cipher: Box<dyn Blocks>,
}

impl Engine for Chained {
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

impl Chained {
    fn chain(&self, iv: Block, blocks: &mut [Block]) -> Result<()> {
        let mut before = iv;
        for block in blocks {
            xor(block, &before);
            self.cipher.encrypt(std::slice::from_mut(block))?;
            before = *block;
        }
        Ok(())
    }

    fn unchain(&self, iv: Block, blocks: &mut [Block]) -> Result<()> {
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

    fn counter(&self, iv: Block, blocks: &mut [Block]) -> Result<()> {
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
