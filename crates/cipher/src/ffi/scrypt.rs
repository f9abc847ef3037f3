//! scrypt (RFC 7914). The library wipes what it works in.

use aws_lc_sys as sys;

use super::library::check;
use crate::{Error, Result};

/// The most memory that one hash may take.
const MEMORY_MAX: usize = 4 << 30;

/// Writes the hash to `key`. `parameters` are N, r and p.
pub(crate) fn scrypt(
    password: &[u8],
    salt: &[u8],
    parameters: (u64, u32, u32),
    key: &mut [u8],
) -> Result<()> {
    let (n, r, p) = parameters;
    // SAFETY: each pointer is that of a slice with the length beside it. The library checks the numbers.
    let done = unsafe {
        sys::EVP_PBE_scrypt(
            password.as_ptr().cast(),
            password.len(),
            salt.as_ptr(),
            salt.len(),
            n,
            r.into(),
            p.into(),
            MEMORY_MAX,
            key.as_mut_ptr(),
            key.len(),
        )
    };
    let refused =
        "scrypt does not have these parameters, or there is not the memory that they take";
    check(done, Error::PasswordHash(refused))
}
