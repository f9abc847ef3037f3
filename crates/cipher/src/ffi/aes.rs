//! The AES block function (FIPS 197), for key derivation only.

use aws_lc_sys as sys;

use super::check;
use crate::{Error, Result};

/// An expanded AES encryption key: 240 bytes of round keys, no pointers. Wiped on drop.
pub(crate) struct AesKey(sys::AES_KEY);

impl AesKey {
    /// A place for a key, all zeros. It must be [set](AesKey::set) before use.
    pub(crate) const fn blank() -> AesKey {
        AesKey(sys::AES_KEY {
            rd_key: [0; 60],
            rounds: 0,
        })
    }

    /// Expands `key`, of 16, 24 or 32 bytes, in place.
    pub(crate) fn set(&mut self, key: &[u8]) -> Result<()> {
        let bits = match key.len() {
            16 => 128,
            24 => 192,
            32 => 256,
            _ => return Err(Error::Library),
        };
        // SAFETY: `key` is readable for `bits` bits, as just matched, and the structure is ours.
        let failed = unsafe { sys::AES_set_encrypt_key(key.as_ptr(), bits, &mut self.0) };
        if failed == 0 {
            Ok(())
        } else {
            check(0, Error::Library)
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
