//! Passphrases in the kernel's keyring: keys of the type `user`, found by their description (keyrings(7)).
//!
//! The calling thread finds what is in the keyrings of its session and user. Nothing is started to get a key that is
//! not there.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};

use rustix::io::Errno;
use secret::Secret;

use crate::{Error, Result};

/// `KEYCTL_READ`.
const READ: libc::c_int = 11;
/// The kernel keeps no longer key of this type.
const LEN_MAX: usize = 32767;

/// The passphrase that is kept in the keyring by this description.
///
/// # Errors
/// [`Error::UserKey`] if there is no such key, or it may not be read; [`Error::Secret`] without memory.
pub fn user_key(description: &str) -> Result<Secret> {
    let failed = |reason: String| Error::UserKey {
        // It may come from a header: no escape sequences for terminals.
        description: description.escape_debug().to_string(),
        reason,
    };
    let name = CString::new(description).map_err(|_| failed("the name has a zero byte".into()))?;
    let refused = |error: Errno| {
        failed(match error {
            Errno::NOKEY => "it is not there; add it with 'keyctl padd user DESCRIPTION @s'".into(),
            Errno::KEYEXPIRED => "it has expired".into(),
            Errno::KEYREVOKED => "it was revoked".into(),
            Errno::ACCESS => "this user may not read it".into(),
            other => std::io::Error::from(other).to_string(),
        })
    };
    let id = request(&name).map_err(refused)?;
    let mut key = Secret::zeroed(LEN_MAX)?;
    let len = read(id, key.expose_mut()).map_err(refused)?;
    key.truncate(len);
    Ok(key)
}

fn request(name: &CStr) -> rustix::io::Result<libc::c_long> {
    let none: *const libc::c_char = std::ptr::null();
    // SAFETY: both names end with a zero byte and live; without further information nothing is started.
    let id = unsafe {
        libc::syscall(
            libc::SYS_request_key,
            c"user".as_ptr(),
            name.as_ptr(),
            none,
            0,
        )
    };
    number(id)
}

fn read(id: libc::c_long, into: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: the bytes are writable for their length; the kernel writes nothing if the key is longer.
    let len = unsafe { libc::syscall(libc::SYS_keyctl, READ, id, into.as_mut_ptr(), into.len()) };
    match usize::try_from(number(len)?) {
        Ok(len) if len <= into.len() => Ok(len),
        _ => Err(Errno::FBIG),
    }
}

fn number(returned: libc::c_long) -> rustix::io::Result<libc::c_long> {
    match returned {
        -1 => {
            let error = std::io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
        number => Ok(number),
    }
}
