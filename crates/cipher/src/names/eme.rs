//! EME (Halevi and Rogaway, "A parallelizable enciphering mode", 2003), as gocryptfs uses it.
//!
//! A layer of block encryptions, a mask that depends on all of them and on the tweak, a second layer. The
//! names of the values are those of the article. The names of files are short: all of it fits the stack.

use zeroize::Zeroizing;

use crate::block::blocks::{self, BlockEngine, CipherBlock, xor, xor_all};
use crate::block::field::double;
use crate::block::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::{BlockCipher, Error, Provider, Result};

/// The largest number of blocks: the masks of more would repeat (section 4 of the article).
const BLOCKS_MAX: usize = 128;

pub(super) struct Eme {
    cipher: Box<dyn BlockEngine>,
    /// L, 2L, 4L, ...: the masks of the first layer and of the last.
    masks: Zeroizing<[CipherBlock; BLOCKS_MAX]>,
}

impl Eme {
    pub(super) fn new(provider: Provider, key: &[u8]) -> Result<Eme> {
        let cipher = match provider {
            Provider::AwsLc => blocks::aws_lc(key)?,
            _ => blocks::portable(BlockCipher::Aes, key)?,
        };
        let mut masks = Zeroizing::new([[0; 16]; BLOCKS_MAX]);
        cipher.encrypt(&mut masks[..1])?;
        let mut next = u128::from_le_bytes(masks[0]);
        for mask in masks.iter_mut() {
            next = double(next);
            *mask = next.to_le_bytes();
        }
        Ok(Eme { cipher, masks })
    }

    fn layer(&self, direction: Direction, blocks: &mut [CipherBlock]) -> Result<()> {
        match direction {
            Direction::Encrypt => self.cipher.encrypt(blocks),
            Direction::Decrypt => self.cipher.decrypt(blocks),
        }
    }
}

impl TweakableCipher for Eme {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        let tweak: &CipherBlock = tweak.try_into().map_err(|_| Error::Library)?;
        let (data, []) = data.as_chunks_mut() else {
            return Err(Error::Library);
        };
        let masks = &self.masks[..data.len()];
        xor_all(data, masks);
        self.layer(direction, data)?;

        let mut mp = *tweak;
        data.iter().for_each(|block| xor(&mut mp, block));
        let mut mc = mp;
        self.layer(direction, std::slice::from_mut(&mut mc))?;
        let mut m = u128::from_le_bytes(mp) ^ u128::from_le_bytes(mc);
        let (first, rest) = data.split_first_mut().ok_or(Error::Library)?;
        *first = mc;
        xor(first, tweak);
        for block in rest {
            m = double(m);
            xor(block, &m.to_le_bytes());
            xor(first, block);
        }

        self.layer(direction, data)?;
        xor_all(data, masks);
        Ok(())
    }
}
