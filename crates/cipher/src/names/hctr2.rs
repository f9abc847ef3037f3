//! HCTR2 (Crowley, Huckleberry and Biggers, "Length-preserving encryption with HCTR2", 2021).
//!
//! A hash, a block, a hash. The first block is masked with a hash of all that follows, and encrypted. Its input and
//! output give the key stream of the rest. The result is masked with a hash of the new rest. The names of the values
//! are those of the article.

use polyval::Polyval;
use polyval::universal_hash::UniversalHash;
use zeroize::Zeroizing;

use crate::block::blocks::{self, BlockEngine, CipherBlock, xor};
use crate::block::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::{BlockCipher, Error, Provider, Result};

/// The number of blocks of the key stream that are made in one call.
const BATCH: usize = 32;

pub(super) struct Hctr2 {
    cipher: Box<dyn BlockEngine>,
    /// The hash, with its key.
    hash: Polyval,
    /// L: what separates the key stream from the block in the middle.
    l: Zeroizing<CipherBlock>,
}

impl Hctr2 {
    pub(super) fn new(provider: Provider, key: &[u8]) -> Result<Hctr2> {
        let cipher = match provider {
            Provider::AwsLc => blocks::aws_lc(key)?,
            _ => blocks::portable(BlockCipher::Aes, key)?,
        };
        let mut derived = Zeroizing::new([0u128.to_le_bytes(), 1u128.to_le_bytes()]);
        cipher.encrypt(&mut derived[..])?;
        Ok(Hctr2 {
            cipher,
            hash: Polyval::new(&derived[0].into()),
            l: Zeroizing::new(derived[1]),
        })
    }

    /// H(T, M): the tweak with its length, and the message, padded where it ends inside of a block.
    fn hash(&self, tweak: &[u8], message: &[u8]) -> CipherBlock {
        let is_odd = !message.len().is_multiple_of(16);
        let bits = 8 * tweak.len() as u128;
        let mut hash = self.hash.clone();
        hash.update(&[(2 * bits + 2 + u128::from(is_odd)).to_le_bytes().into()]);
        hash.update_padded(tweak);
        if is_odd {
            let (whole, rest) = message.split_at(message.len() / 16 * 16);
            hash.update_padded(whole);
            let mut end = [0; 16];
            end[..rest.len()].copy_from_slice(rest);
            end[rest.len()] = 1;
            hash.update(&[end.into()]);
        } else {
            hash.update_padded(message);
        }
        hash.finalize().into()
    }

    /// XCTR: adds the blocks E(S ^ 1), E(S ^ 2), ... to the data.
    fn stream(&self, s: &CipherBlock, data: &mut [u8]) -> Result<()> {
        let s = u128::from_le_bytes(*s);
        let mut counter = 0u128;
        for data in data.chunks_mut(16 * BATCH) {
            let mut stream = Zeroizing::new([[0; 16]; BATCH]);
            let stream = &mut stream[..data.len().div_ceil(16)];
            for block in stream.iter_mut() {
                counter += 1;
                *block = (s ^ counter).to_le_bytes();
            }
            self.cipher.encrypt(stream)?;
            for (byte, stream) in data.iter_mut().zip(stream.as_flattened()) {
                *byte ^= stream;
            }
        }
        Ok(())
    }
}

impl TweakableCipher for Hctr2 {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        let (first, rest) = data.split_first_chunk_mut().ok_or(Error::Library)?;
        xor(first, &self.hash(tweak, rest));
        let before = *first;
        match direction {
            Direction::Encrypt => self.cipher.encrypt(std::slice::from_mut(first))?,
            Direction::Decrypt => self.cipher.decrypt(std::slice::from_mut(first))?,
        }
        let mut s = *first;
        xor(&mut s, &before);
        xor(&mut s, &self.l);
        self.stream(&s, rest)?;
        xor(first, &self.hash(tweak, rest));
        Ok(())
    }
}
