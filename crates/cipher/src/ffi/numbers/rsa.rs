//! The numbers of a public key of RSA.

use aws_lc_sys as sys;

use crate::ffi::library::check;
use crate::{Error, Result};

/// A key of the library.
struct RsaKey(*mut sys::RSA);

/// The modulus and the exponent of `RSAPublicKey` in DER, big-endian, without zeros before them.
pub(crate) fn rsa_numbers(der: &[u8]) -> Result<[Vec<u8>; 2]> {
    let key = RsaKey::read(der)?;
    // SAFETY: the key lives.
    let (modulus, exponent) = unsafe { (sys::RSA_get0_n(key.0), sys::RSA_get0_e(key.0)) };
    let bytes = |number: *const sys::BIGNUM| {
        check(i32::from(!number.is_null()), Error::RsaKey)?;
        // SAFETY: the number is not null, and lives as long as the key; the library writes as many bytes as it says.
        unsafe {
            let mut bytes = vec![0; sys::BN_num_bytes(number) as usize];
            sys::BN_bn2bin(number, bytes.as_mut_ptr());
            Ok(bytes)
        }
    };
    Ok([bytes(modulus)?, bytes(exponent)?])
}

impl RsaKey {
    fn read(der: &[u8]) -> Result<RsaKey> {
        // SAFETY: the bytes are readable for their length.
        let raw = unsafe { sys::RSA_public_key_from_bytes(der.as_ptr(), der.len()) };
        check(i32::from(!raw.is_null()), Error::RsaKey)?;
        Ok(RsaKey(raw))
    }
}

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nothing else has it.
        unsafe { sys::RSA_free(self.0) }
    }
}
