//! XTS, CBC, ECB and CTR over any block cipher, many blocks at a time.
//!
//! For ciphers that AWS-LC does not have, for AES-128-XTS, which it has not either, and as the
//! second implementation of everything.

use super::{Engine, Ivs, SectorMode};
use crate::Result;
use crate::blocks::{Block, Blocks, xor};
use crate::ffi::Direction;

/// How many blocks go to the cipher in one call: enough for its widest registers, and few enough for
/// the stack.
const BATCH: usize = 32;

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
    fn run(
        &self,
        direction: Direction,
        mut ivs: Ivs<'_>,
        sector_size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        for sector in data.chunks_exact_mut(sector_size) {
            let mut first = ivs.next()?;
            self.tweak.encrypt(std::slice::from_mut(&mut first))?;
            let mut tweak = u128::from_le_bytes(first);
            for blocks in sector.as_chunks_mut().0.chunks_mut(BATCH) {
                tweak = self.batch(direction, tweak, blocks)?;
            }
        }
        Ok(())
    }
}

impl Xts {
    /// Runs over some blocks, of which the first has the tweak given, and returns that of the next.
    fn batch(&self, direction: Direction, tweak: u128, blocks: &mut [Block]) -> Result<u128> {
        let mut tweaks = [0; BATCH];
        let mut next = tweak;
        for (tweak, block) in tweaks.iter_mut().zip(blocks.iter_mut()) {
            *tweak = next;
            next = double(next);
            xor(block, &tweak.to_le_bytes());
        }
        match direction {
            Direction::Encrypt => self.data.encrypt(blocks)?,
            Direction::Decrypt => self.data.decrypt(blocks)?,
        }
        for (tweak, block) in tweaks.iter().zip(blocks) {
            xor(block, &tweak.to_le_bytes());
        }
        Ok(next)
    }
}

/// Multiplies by x in GF(2^128) of IEEE 1619, in constant time.
fn double(tweak: u128) -> u128 {
    let carry = (tweak as i128 >> 127) as u128;
    tweak << 1 ^ carry & 0x87
}

/// CBC, ECB or CTR.
struct Chained {
    mode: SectorMode,
    cipher: Box<dyn Blocks>,
}

impl Engine for Chained {
    fn run(
        &self,
        direction: Direction,
        mut ivs: Ivs<'_>,
        sector_size: usize,
        data: &mut [u8],
    ) -> Result<()> {
        for sector in data.chunks_exact_mut(sector_size) {
            let blocks = sector.as_chunks_mut().0;
            match (self.mode, direction) {
                (SectorMode::Ctr, _) => self.counter(ivs.next()?, blocks)?,
                (SectorMode::Cbc, Direction::Encrypt) => self.chain(ivs.next()?, blocks)?,
                (SectorMode::Cbc, Direction::Decrypt) => self.unchain(ivs.next()?, blocks)?,
                (_, Direction::Encrypt) => self.cipher.encrypt(blocks)?,
                (_, Direction::Decrypt) => self.cipher.decrypt(blocks)?,
            }
        }
        Ok(())
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
            for (block, sealed) in blocks.iter_mut().zip(sealed) {
                xor(block, &before);
                before = *sealed;
            }
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
            for (block, stream) in blocks.iter_mut().zip(stream) {
                xor(block, stream);
            }
        }
        Ok(())
    }
}
