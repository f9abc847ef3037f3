//! Block ciphers, many blocks for each call: what the modes of this crate's own are built from.

use ::aes::cipher::array::Array;
use ::aes::cipher::consts::U16;
use ::aes::cipher::typenum::Unsigned;
use ::aes::cipher::{
    BlockCipherDecBackend, BlockCipherDecClosure, BlockCipherDecrypt, BlockCipherEncBackend,
    BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocksSizeUser,
};
use zeroize::Zeroizing;

use super::per_thread::PerThread;
pub(crate) use super::tweaks::CipherBlock;
use super::tweaks::{self, Tweaks};
use crate::BlockCipher;
use crate::ffi::{AesKey, Direction, Ecb};
use crate::{Error, Result};

/// The number of blocks in one call of a cipher. It is twice what the widest registers hold, and small enough for the
/// stack.
pub(crate) const BATCH: usize = 128;

/// An expanded key of a block cipher. (An error means that the library is out of memory.)
pub(crate) trait BlockEngine: Send + Sync {
    /// Encrypts each block where it is.
    fn encrypt(&self, blocks: &mut [CipherBlock]) -> Result<()>;

    /// Decrypts each block where it is.
    fn decrypt(&self, blocks: &mut [CipherBlock]) -> Result<()>;

    /// Adds its tweak to each block before and after the cipher (XEX). There are as many tweaks as blocks.
    fn run_tweaked(
        &self,
        direction: Direction,
        mut tweaks: Tweaks<'_>,
        blocks: &mut [CipherBlock],
    ) -> Result<()> {
        let mut buffer = [[0; 16]; BATCH];
        for blocks in blocks.chunks_mut(BATCH) {
            let buffer = &mut buffer[..blocks.len()];
            tweaks.fill(buffer, tweaks::narrow);
            xor_all(blocks, buffer);
            match direction {
                Direction::Encrypt => self.encrypt(blocks)?,
                Direction::Decrypt => self.decrypt(blocks)?,
            }
            xor_all(blocks, buffer);
        }
        Ok(())
    }
}

/// `cipher` of RustCrypto, with a key of 16, 24 or 32 bytes.
pub(crate) fn portable(cipher: BlockCipher, key: &[u8]) -> Result<Box<dyn BlockEngine>> {
    match (cipher, key.len()) {
        (BlockCipher::Aes, 16) => Portable::<::aes::Aes128>::boxed(key),
        (BlockCipher::Aes, 24) => Portable::<::aes::Aes192>::boxed(key),
        (BlockCipher::Aes, _) => Portable::<::aes::Aes256>::boxed(key),
        (BlockCipher::Camellia, 16) => Portable::<camellia::Camellia128>::boxed(key),
        (BlockCipher::Camellia, 24) => Portable::<camellia::Camellia192>::boxed(key),
        (BlockCipher::Camellia, _) => Portable::<camellia::Camellia256>::boxed(key),
        (BlockCipher::Serpent, _) => Portable::<serpent::Serpent>::boxed(key),
        (BlockCipher::Twofish, _) => Portable::<twofish::Twofish>::boxed(key),
    }
}

struct Portable<C>(C);

impl<C> Portable<C>
where
    C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt + KeyInit + Send + Sync + 'static,
{
    fn boxed(key: &[u8]) -> Result<Box<dyn BlockEngine>> {
        let cipher = C::new_from_slice(key).map_err(|_| Error::Library)?;
        Ok(Box::new(Portable(cipher)))
    }
}

impl<C> BlockEngine for Portable<C>
where
    C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt + Send + Sync,
{
    fn encrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        match blocks {
            [block] => self.0.encrypt_block(block.into()),
            _ => self
                .0
                .encrypt_blocks(Array::cast_slice_from_core_mut(blocks)),
        }
        Ok(())
    }

    fn decrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        self.0
            .decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        Ok(())
    }

    fn run_tweaked(
        &self,
        direction: Direction,
        tweaks: Tweaks<'_>,
        blocks: &mut [CipherBlock],
    ) -> Result<()> {
        let run = TweakedRun { tweaks, blocks };
        match direction {
            Direction::Encrypt => self.0.encrypt_with_backend(run),
            Direction::Decrypt => self.0.decrypt_with_backend(run),
        }
        Ok(())
    }
}

/// [`BlockEngine::run_tweaked`] in the code that a crate makes for the registers of its cipher. They are up to four
/// times as wide as those of other code. Tweaks and additions take the same ones.
struct TweakedRun<'a> {
    tweaks: Tweaks<'a>,
    blocks: &'a mut [CipherBlock],
}

impl BlockSizeUser for TweakedRun<'_> {
    type BlockSize = U16;
}

/// The most blocks that a cipher takes at once.
const WIDEST: usize = 64;

macro_rules! tweaked {
    ($closure:ident, $backend:ident, $wide:ident, $single:ident) => {
        impl $closure for TweakedRun<'_> {
            #[inline(always)]
            fn call<B: $backend<BlockSize = U16>>(mut self, backend: &B) {
                let mut buffer = [[0; 16]; WIDEST];
                let wide = <B as ParBlocksSizeUser>::ParBlocksSize::USIZE.min(WIDEST);
                for blocks in self.blocks.chunks_mut(WIDEST / wide * wide) {
                    let buffer = &mut buffer[..blocks.len()];
                    self.tweaks.fill(buffer, tweaks::wide);
                    let len = blocks.len() / wide * wide;
                    let (many, rest) = blocks.split_at_mut(len);
                    xor_all(many, &buffer[..len]);
                    for blocks in
                        Array::slice_as_chunks_mut(Array::cast_slice_from_core_mut(many)).0
                    {
                        backend.$wide(blocks.into());
                    }
                    xor_all(many, &buffer[..len]);
                    // One at a time in a register: what is stored in small pieces is loaded late in large ones.
                    for (block, tweak) in rest.iter_mut().zip(&buffer[len..]) {
                        let mut one = [*block];
                        xor_all(&mut one, &[*tweak]);
                        let single = &mut Array::cast_slice_from_core_mut(&mut one)[0];
                        backend.$single(single.into());
                        xor_all(&mut one, &[*tweak]);
                        *block = one[0];
                    }
                }
            }
        }
    };
}

tweaked!(
    BlockCipherEncClosure,
    BlockCipherEncBackend,
    encrypt_par_blocks,
    encrypt_block
);
tweaked!(
    BlockCipherDecClosure,
    BlockCipherDecBackend,
    decrypt_par_blocks,
    decrypt_block
);

/// AES of AWS-LC, with a key of 16, 24 or 32 bytes, for many blocks at once.
pub(crate) fn aws_lc(key: &[u8]) -> Result<Box<dyn BlockEngine>> {
    let mut single = AesKey::blank();
    single.set(key)?;
    Ok(Box::new(AwsLc {
        key: Zeroizing::new(key.to_vec()),
        single,
        contexts: PerThread::new(),
    }))
}

struct AwsLc {
    key: Zeroizing<Vec<u8>>,
    /// The key for single blocks, such as tweaks.
    single: AesKey,
    contexts: PerThread<Ecb>,
}

impl AwsLc {
    fn run(&self, direction: Direction, blocks: &mut [CipherBlock]) -> Result<()> {
        self.contexts
            .get(direction, || Ecb::new(&self.key, direction))?
            .blocks(blocks)
    }
}

impl BlockEngine for AwsLc {
    fn encrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        if let [block] = blocks {
            let input = *block;
            self.single.encrypt(&input, block);
            return Ok(());
        }
        self.run(Direction::Encrypt, blocks)
    }

    fn decrypt(&self, blocks: &mut [CipherBlock]) -> Result<()> {
        self.run(Direction::Decrypt, blocks)
    }
}

/// Adds `other` to `block`, bit by bit.
#[inline]
pub(crate) fn xor(block: &mut CipherBlock, other: &CipherBlock) {
    let sum = u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(*other);
    *block = sum.to_ne_bytes();
}

/// Adds each of `others` to the block in its place. (Over all the bytes, which the compiler puts into the
/// registers that there are.)
#[inline(always)]
pub(crate) fn xor_all(blocks: &mut [CipherBlock], others: &[CipherBlock]) {
    let others = others.as_flattened();
    for (byte, other) in blocks.as_flattened_mut().iter_mut().zip(others) {
        *byte ^= other;
    }
}
