//! Paths in URLs.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Replaces `%XX` by its byte.
pub(crate) fn decode(path: &str) -> Result<PathBuf> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let byte = match first {
            b'%' => {
                let digits = rest.split_first_chunk::<2>();
                let Some((byte, tail)) = digits.and_then(|(d, tail)| Some((byte(*d)?, tail)))
                else {
                    return refuse(
                        "% is followed by two hexadecimal digits; write % itself as %25",
                    );
                };
                rest = tail;
                byte
            }
            b'?' => return refuse("write ? in a path as %3F"),
            b'#' => return refuse("write # in a path as %23"),
            other => other,
        };
        bytes.push(byte);
    }
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

/// The byte that two hexadecimal digits stand for.
fn byte(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}

/// Writes a path, with `%XX` for every byte that RFC 3986 does not allow in one.
pub(crate) fn encode_path(path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            write!(f, "{}", char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::KeySource(reason.into()))
}
