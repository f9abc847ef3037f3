//! AES in cipher feedback mode (SP 800-38A), for what is said to a TPM.

use zeroize::Zeroizing;

use crate::Result;
use crate::ffi::{AesKey, Direction};

/// Encrypts data where it is. A key (16, 24 or 32 bytes) and vector are for one message only.
///
/// # Errors
/// [`Error::Library`](crate::Error::Library) for a key of another length.
pub fn cfb_encrypt(key: &[u8], vector: [u8; 16], data: &mut [u8]) -> Result<()> {
    cfb(key, vector, data, Direction::Encrypt)
}

/// Decrypts data where it is. Nothing is authenticated.
///
/// # Errors
/// As [`cfb_encrypt`].
pub fn cfb_decrypt(key: &[u8], vector: [u8; 16], data: &mut [u8]) -> Result<()> {
    cfb(key, vector, data, Direction::Decrypt)
}

fn cfb(key: &[u8], vector: [u8; 16], data: &mut [u8], direction: Direction) -> Result<()> {
    let mut schedule = AesKey::blank();
    schedule.set(key)?;
    schedule.cfb(&mut Zeroizing::new(vector), data, direction);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// SP 800-38A, F.3.13, and a part of a block.
    #[test]
    fn known_answers() {
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
        let vector = hex("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let sealed = hex("3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b");
        for len in [32, 20, 1, 0] {
            let mut data = plain[..len].to_vec();
            cfb_encrypt(&key, vector, &mut data).unwrap();
            assert_eq!(data, sealed[..len]);
            cfb_decrypt(&key, vector, &mut data).unwrap();
            assert_eq!(data, plain[..len]);
        }
        assert!(cfb_encrypt(&key[..15], vector, &mut []).is_err());
    }
}
