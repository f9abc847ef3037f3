//! The AES key schedule and block function (FIPS 197).

use std::ffi::{c_int, c_uint};

use aws_lc_sys as sys;

use crate::ffi::evp::Direction;
use crate::ffi::library::check;
use crate::{Error, Result};

/// An expanded AES key: 240 bytes of round keys, no pointers. Wiped on drop.
pub(crate) struct AesKey(sys::AES_KEY);

impl AesKey {
    /// A place for a key, all zeros. It must be [set](AesKey::set) before use.
    pub(crate) const fn blank() -> AesKey {
        AesKey(sys::AES_KEY {
            rd_key: [0; 60],
            rounds: 0,
        })
    }

    /// Expands `key`, of 16, 24 or 32 bytes, in place, to encrypt.
    pub(crate) fn set(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: `expand` passes a key that is readable for its bits, and our own structure.
        self.expand(key, |key, bits, schedule| unsafe {
            sys::AES_set_encrypt_key(key, bits, schedule)
        })
    }

    /// Expands `key`, of 16, 24 or 32 bytes, in place, to decrypt.
    pub(super) fn set_decrypt(&mut self, key: &[u8]) -> Result<()> {
        // SAFETY: as above.
        self.expand(key, |key, bits, schedule| unsafe {
            sys::AES_set_decrypt_key(key, bits, schedule)
        })
    }

    fn expand(
        &mut self,
        key: &[u8],
        set: impl Fn(*const u8, c_uint, *mut sys::AES_KEY) -> c_int,
    ) -> Result<()> {
        let bits = match key.len() {
            16 => 128,
            24 => 192,
            32 => 256,
            _ => return Err(Error::Library),
        };
        // 0 is success here.
        match set(key.as_ptr(), bits, &mut self.0) {
            0 => Ok(()),
            _ => check(0, Error::Library),
        }
    }

    /// The expanded key, for modes that take it whole.
    pub(super) fn schedule(&self) -> *const sys::AES_KEY {
        assert_ne!(self.0.rounds, 0, "the AES key was not set");
        &raw const self.0
    }

    /// Encrypts or decrypts in cipher feedback mode. The key is one to encrypt, in both directions.
    pub(crate) fn cfb(&self, vector: &mut [u8; 16], data: &mut [u8], direction: Direction) {
        let mut used = 0;
        let encrypt = c_int::from(direction == Direction::Encrypt);
        // SAFETY: input and output are the same bytes, of this length; the vector has 16 bytes; the key was expanded.
        unsafe {
            sys::AES_cfb128_encrypt(
                data.as_ptr(),
                data.as_mut_ptr(),
                data.len(),
                self.schedule(),
                vector.as_mut_ptr(),
                &mut used,
                encrypt,
            );
        }
    }

    /// Encrypts one block into `output`.
    pub(crate) fn encrypt(&self, input: &[u8; 16], output: &mut [u8; 16]) {
        // Without a schedule the library would index outside of it.
        assert_ne!(self.0.rounds, 0, "the AES key was not set");
        // SAFETY: both blocks have 16 bytes, and the key was expanded by the library (rounds != 0).
        unsafe { sys::AES_encrypt(input.as_ptr(), output.as_mut_ptr(), &self.0) }
    }
}

impl Drop for AesKey {
    fn drop(&mut self) {
        // SAFETY: the pointer and the length are those of our own field; zeros are valid for it.
        unsafe {
            sys::OPENSSL_cleanse((&raw mut self.0).cast(), size_of::<sys::AES_KEY>());
        }
    }
}
