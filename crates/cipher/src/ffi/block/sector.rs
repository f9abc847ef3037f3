//! AES for sectors: XTS and ECB in contexts that are kept, CBC and CTR from a flat key.
//!
//! A context is for one thread at a time. Setting a key costs as much as 1 KiB of data. So a caller with many sectors
//! keeps the context and sets only the IV.

use aws_lc_sys as sys;
use zeroize::Zeroize;

use super::aes::AesKey;
use crate::ffi::evp::{CipherContext, Direction};
use crate::{Error, Result};

/// AES-256-XTS (IEEE 1619; two keys of 256 bits) in one direction.
pub(crate) struct Xts256(CipherContext);

impl Xts256 {
    /// `key` has 64 bytes, of which the halves differ: the library refuses others.
    pub(crate) fn new(key: &[u8], direction: Direction) -> Result<Xts256> {
        // SAFETY: takes nothing and returns a pointer to a static table.
        let mut context = CipherContext::new(unsafe { sys::EVP_aes_256_xts() }, direction)?;
        context.set_key(key, None)?;
        Ok(Xts256(context))
    }

    /// Runs over one sector, in place.
    #[inline]
    pub(crate) fn sector(&mut self, tweak: &[u8; 16], sector: &mut [u8]) -> Result<()> {
        self.0.set_iv(tweak)?;
        // The library refuses less than a block and more than 2^20; it steals ciphertext from the
        // last two if the length is odd.
        self.0.blocks(sector)
    }
}

/// AES in ECB, many blocks for each call, in one direction.
pub(crate) struct Ecb(CipherContext);

impl Ecb {
    /// `key` has 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8], direction: Direction) -> Result<Ecb> {
        // SAFETY: these take nothing and return pointers to static tables.
        let cipher = unsafe {
            match key.len() {
                16 => sys::EVP_aes_128_ecb(),
                24 => sys::EVP_aes_192_ecb(),
                32 => sys::EVP_aes_256_ecb(),
                _ => return Err(Error::Library),
            }
        };
        let mut context = CipherContext::new(cipher, direction)?;
        context.set_key(key, None)?;
        Ok(Ecb(context))
    }

    /// Runs over the blocks, in place.
    #[inline]
    pub(crate) fn blocks(&mut self, blocks: &mut [[u8; 16]]) -> Result<()> {
        self.0.blocks(blocks.as_flattened_mut())
    }
}

/// AES keys for CBC in both directions: flat, so that threads share them without contexts.
pub(crate) struct CbcKey {
    encrypt: AesKey,
    decrypt: AesKey,
}

impl CbcKey {
    /// `key` has 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<CbcKey> {
        let (mut encrypt, mut decrypt) = (AesKey::blank(), AesKey::blank());
        encrypt.set(key)?;
        decrypt.set_decrypt(key)?;
        Ok(CbcKey { encrypt, decrypt })
    }

    /// Runs over whole blocks, in place. `iv` becomes what the next blocks need.
    pub(crate) fn run(
        &self,
        direction: Direction,
        iv: &mut [u8; 16],
        data: &mut [u8],
    ) -> Result<()> {
        if !data.len().is_multiple_of(16) {
            return Err(Error::Library);
        }
        let (key, encrypt) = match direction {
            Direction::Encrypt => (&self.encrypt, sys::AES_ENCRYPT),
            Direction::Decrypt => (&self.decrypt, sys::AES_DECRYPT),
        };
        let pointer = data.as_mut_ptr();
        // SAFETY: input and output are the same memory, valid for its length, a multiple of 16; the
        // key was expanded for this direction; the IV has 16 bytes.
        unsafe {
            sys::AES_cbc_encrypt(
                pointer,
                pointer,
                data.len(),
                key.schedule(),
                iv.as_mut_ptr(),
                encrypt,
            );
        }
        Ok(())
    }

    /// CTR with a 128-bit big-endian counter, over any number of bytes, in place.
    pub(crate) fn counter(&self, counter: &[u8; 16], data: &mut [u8]) {
        let (mut counter, mut stream, mut used) = (*counter, [0; 16], 0);
        let pointer = data.as_mut_ptr();
        // SAFETY: input and output are the same memory, valid for its length; the key is one for
        // encryption; counter and stream have 16 bytes, of which 0 are used.
        unsafe {
            sys::AES_ctr128_encrypt(
                pointer,
                pointer,
                data.len(),
                self.encrypt.schedule(),
                counter.as_mut_ptr(),
                stream.as_mut_ptr(),
                &mut used,
            );
        }
        stream.zeroize();
    }
}
