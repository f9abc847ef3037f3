//! LRW: to each block its number is added, times a second key, before and after the cipher.
//!
//! Numbers and keys are elements of GF(2^128) in big-endian order. The product is linear, so from one block to the next only
//! those powers of x count whose bits change.

use zeroize::Zeroizing;

use super::engine::{SectorEngine, Sectors};
use crate::Result;
use crate::block::blocks::{BATCH, BlockEngine, CipherBlock, xor_all};
use crate::block::field::double;
use crate::ffi::Direction;

pub(super) struct Lrw {
    cipher: Box<dyn BlockEngine>,
    /// The second key times x^n.
    powers: Zeroizing<[u128; 128]>,
    /// The sum of the powers up to x^n.
    sums: Zeroizing<[u128; 128]>,
}

impl Lrw {
    /// `tweak_key` has 16 bytes.
    pub(super) fn new(cipher: Box<dyn BlockEngine>, tweak_key: &[u8]) -> Lrw {
        let mut key = Zeroizing::new([0; 16]);
        key.copy_from_slice(tweak_key);
        let (mut powers, mut sums) = (Zeroizing::new([0; 128]), Zeroizing::new([0; 128]));
        let (mut power, mut sum) = (u128::from_be_bytes(*key), 0);
        for (to, sum_to) in powers.iter_mut().zip(sums.iter_mut()) {
            sum ^= power;
            (*to, *sum_to) = (power, sum);
            power = double(power);
        }
        Lrw {
            cipher,
            powers,
            sums,
        }
    }

    /// The second key times a number. Numbers are no secrets.
    fn times(&self, number: u128) -> u128 {
        let set = |n: &usize| number >> n & 1 == 1;
        (0..128).filter(set).fold(0, |sum, n| sum ^ self.powers[n])
    }
}

impl SectorEngine for Lrw {
    fn run(&self, direction: Direction, sectors: Sectors<'_>) -> Result<()> {
        sectors.each(|iv, sector| {
            let mut number = u128::from_be_bytes(*iv);
            let mut tweak = self.times(number);
            let blocks: &mut [CipherBlock] = sector.as_chunks_mut().0;
            for blocks in blocks.chunks_mut(BATCH) {
                let mut tweaks = [[0; 16]; BATCH];
                let tweaks = &mut tweaks[..blocks.len()];
                for to in tweaks.iter_mut() {
                    *to = tweak.to_be_bytes();
                    // These bits change with one more.
                    tweak ^= self.sums[number.trailing_ones().min(127) as usize];
                    number = number.wrapping_add(1);
                }
                xor_all(blocks, tweaks);
                match direction {
                    Direction::Encrypt => self.cipher.encrypt(blocks)?,
                    Direction::Decrypt => self.cipher.decrypt(blocks)?,
                }
                xor_all(blocks, tweaks);
            }
            Ok(())
        })
    }
}
