//! Block ciphers, many blocks for each call: what the modes of this crate's own are built from.

use ::aes::cipher::array::Array;
use ::aes::cipher::consts::U16;
use ::aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use zeroize::Zeroizing;

use crate::BlockCipher;
use crate::ffi::{AesKey, Direction, Ecb};
use crate::per_thread::PerThread;
use crate::{Error, Result};

/// A block.
pub(crate) type Block = [u8; 16];

/// An expanded key of a block cipher. (An error means that the library is out of memory.)
pub(crate) trait Blocks: Send + Sync {
    /// Encrypts each block where it is.
    fn encrypt(&self, blocks: &mut [Block]) -> Result<()>;

    /// Decrypts each block where it is.
    fn decrypt(&self, blocks: &mut [Block]) -> Result<()>;
}

/// `cipher` of RustCrypto, with a key of 16, 24 or 32 bytes.
pub(crate) fn portable(cipher: BlockCipher, key: &[u8]) -> Result<Box<dyn Blocks>> {
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
    fn boxed(key: &[u8]) -> Result<Box<dyn Blocks>> {
        let cipher = C::new_from_slice(key).map_err(|_| Error::Library)?;
        Ok(Box::new(Portable(cipher)))
    }
}

impl<C> Blocks for Portable<C>
where
    C: BlockCipherEncrypt<BlockSize = U16> + BlockCipherDecrypt + Send + Sync,
{
    fn encrypt(&self, blocks: &mut [Block]) -> Result<()> {
        self.0
            .encrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        Ok(())
    }

    fn decrypt(&self, blocks: &mut [Block]) -> Result<()> {
        self.0
            .decrypt_blocks(Array::cast_slice_from_core_mut(blocks));
        Ok(())
    }
}

/// AES of AWS-LC, with a key of 16, 24 or 32 bytes, for many blocks at once.
pub(crate) fn aws_lc(key: &[u8]) -> Result<Box<dyn Blocks>> {
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
    /// For single blocks, as tweaks are.
    single: AesKey,
    contexts: PerThread<Ecb>,
}

impl AwsLc {
    fn run(&self, direction: Direction, blocks: &mut [Block]) -> Result<()> {
        self.contexts
            .get(direction, || Ecb::new(&self.key, direction))?
            .blocks(blocks)
    }
}

impl Blocks for AwsLc {
    fn encrypt(&self, blocks: &mut [Block]) -> Result<()> {
        if let [block] = blocks {
            let input = *block;
            self.single.encrypt(&input, block);
            return Ok(());
        }
        self.run(Direction::Encrypt, blocks)
    }

    fn decrypt(&self, blocks: &mut [Block]) -> Result<()> {
        self.run(Direction::Decrypt, blocks)
    }
}

/// Adds `other` to `block`, bit by bit.
#[inline]
pub(crate) fn xor(block: &mut Block, other: &Block) {
    let sum = u128::from_ne_bytes(*block) ^ u128::from_ne_bytes(*other);
    *block = sum.to_ne_bytes();
}

/// Adds each of `others` to the block in its place. (Over all the bytes, which the compiler puts into the
/// registers that there are.)
#[inline]
pub(crate) fn xor_all(blocks: &mut [Block], others: &[Block]) {
    let others = others.as_flattened();
    for (byte, other) in blocks.as_flattened_mut().iter_mut().zip(others) {
        *byte ^= other;
    }
}

/// Multiplies by x in GF(2^128) of IEEE 1619, in constant time. The first byte of a block is the lowest.
pub(crate) fn double(tweak: u128) -> u128 {
    let carry = (tweak as i128 >> 127) as u128;
    tweak << 1 ^ carry & 0x87
}
