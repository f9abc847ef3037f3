//! AES for other keys: key wrap (RFC 3394, RFC 5649, NIST SP 800-38F), and CMAC (NIST SP 800-38B) to derive and to
//! check them.

use aws_lc_rs::cmac;
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap, KeyWrapPadded};
use zeroize::Zeroizing;

use crate::{Error, Result};

/// The padding of a key to a multiple of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// KW: keys of 16, 24, 32, ... bytes.
    None,
    /// KWP: keys of any length but 0.
    Zeros,
}

/// Wraps `key` under `wrapping_key`, of 16 or 32 bytes.
///
/// # Errors
/// [`Error::Library`] for lengths that there are not.
pub fn wrap_key(wrapping_key: &[u8], padding: Padding, key: &[u8]) -> Result<Vec<u8>> {
    let kek = kek(wrapping_key)?;
    let mut wrapped = vec![0; key.len().next_multiple_of(8) + 8];
    let len = match padding {
        Padding::None => kek.wrap(key, &mut wrapped).map(|out| out.len()),
        Padding::Zeros => kek
            .wrap_with_padding(key, &mut wrapped)
            .map(|out| out.len()),
    };
    wrapped.truncate(len.map_err(|_| Error::Library)?);
    Ok(wrapped)
}

/// Unwraps what [`wrap_key`] wrapped.
///
/// # Errors
/// [`Error::Unauthentic`] if it did not, under this key and with this padding.
pub fn unwrap_key(
    wrapping_key: &[u8],
    padding: Padding,
    wrapped: &[u8],
) -> Result<Zeroizing<Vec<u8>>> {
    let kek = kek(wrapping_key)?;
    let mut key = Zeroizing::new(vec![0; wrapped.len()]);
    let len = match padding {
        Padding::None => kek.unwrap(wrapped, &mut key).map(|out| out.len()),
        Padding::Zeros => kek
            .unwrap_with_padding(wrapped, &mut key)
            .map(|out| out.len()),
    };
    key.truncate(len.map_err(|_| Error::Unauthentic)?);
    Ok(key)
}

fn kek(key: &[u8]) -> Result<AesKek> {
    let cipher = match key.len() {
        16 => &AES_128,
        32 => &AES_256,
        _ => return Err(Error::Library),
    };
    AesKek::new(cipher, key).map_err(|_| Error::Library)
}

/// AES-CMAC of the parts, one after the other, under a key of 16, 24 or 32 bytes. Compare with
/// [`crate::eq`].
///
/// # Errors
/// [`Error::Library`] for a key of another length.
pub fn cmac(key: &[u8], parts: &[&[u8]]) -> Result<[u8; 16]> {
    let algorithm = match key.len() {
        16 => cmac::AES_128,
        24 => cmac::AES_192,
        32 => cmac::AES_256,
        _ => return Err(Error::Library),
    };
    let key = cmac::Key::new(algorithm, key).map_err(|_| Error::Library)?;
    let mut context = cmac::Context::with_key(&key);
    for part in parts {
        context.update(part).map_err(|_| Error::Library)?;
    }
    let tag = context.sign().map_err(|_| Error::Library)?;
    tag.as_ref().try_into().map_err(|_| Error::Library)
}
