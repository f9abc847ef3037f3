//! Keys and policies of Linux's fscrypt, in the kernel.
//!
//! All structures of `linux/fscrypt.h` are written as bytes. The kernel copies as many as the number of
//! the call says, and the key that follows one of them.

#![allow(unsafe_code)]

use std::os::fd::AsFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use secret::Secret;

/// The group of the calls.
const GROUP: u8 = b'f';

const SET_POLICY: Opcode = opcode::read::<[u8; 12]>(GROUP, 19);
const GET_POLICY: Opcode = opcode::read_write::<[u8; 9]>(GROUP, 22);
const ADD_KEY: Opcode = opcode::read_write::<[u8; ADD_LEN]>(GROUP, 23);
const REMOVE_KEY: Opcode = opcode::read_write::<[u8; REMOVE_LEN]>(GROUP, 24);
const REMOVE_KEY_ALL_USERS: Opcode = opcode::read_write::<[u8; REMOVE_LEN]>(GROUP, 25);
const KEY_STATUS: Opcode = opcode::read_write::<[u8; STATUS_LEN]>(GROUP, 26);

/// `struct fscrypt_add_key_arg`, without the key that follows it.
const ADD_LEN: usize = 80;
/// `struct fscrypt_remove_key_arg`.
const REMOVE_LEN: usize = 64;
/// `struct fscrypt_get_key_status_arg`.
const STATUS_LEN: usize = 128;
/// `struct fscrypt_key_specifier`.
const SPECIFIER_LEN: usize = 40;
/// The longest master key.
const KEY_MAX: usize = 64;

/// The name of a master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specifier {
    /// The name in policies of version 1. Only root may add and remove such keys.
    Descriptor([u8; 8]),
    /// The name in policies of version 2, derived from the key.
    Identifier([u8; 16]),
}

impl Specifier {
    fn encode(&self) -> [u8; SPECIFIER_LEN] {
        let mut bytes = [0; SPECIFIER_LEN];
        let (kind, name): (u32, &[u8]) = match self {
            Specifier::Descriptor(name) => (1, name),
            Specifier::Identifier(name) => (2, name),
        };
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[8..8 + name.len()].copy_from_slice(name);
        bytes
    }
}

/// The state of a key in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKeyStatus {
    /// No.
    Absent,
    /// Yes.
    Present {
        /// True if this user added the key, perhaps besides others.
        is_own: bool,
    },
    /// The key was removed while files were open; these are still readable.
    FilesBusy,
}

/// The outcome of a key's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRemoval {
    /// The key is gone.
    Whole,
    /// The key is gone, but files are still open.
    FilesBusy,
    /// Other users have added it too.
    OtherUsers,
}

/// The policy of an open file or directory: `struct fscrypt_policy_v1` or `_v2`.
///
/// # Errors
/// `NODATA` if it is not encrypted; `OPNOTSUPP`, `NOTTY` if its file system does not take part.
pub fn policy(file: impl AsFd) -> Result<Vec<u8>> {
    let mut argument = [0; 32];
    argument[..8].copy_from_slice(&24u64.to_ne_bytes());
    call::<GET_POLICY, 32>(file, &mut argument)?;
    let size = u64::from_ne_bytes(*argument.first_chunk().expect("8 bytes"));
    let size = usize::try_from(size).ok().filter(|size| *size <= 24);
    Ok(argument[8..][..size.ok_or(Errno::INVAL)?].to_vec())
}

/// Gives an empty directory a policy: `struct fscrypt_policy_v1` or `_v2`.
///
/// # Errors
/// `EXIST` if it has another one, `NOTEMPTY`, `INVAL` for a policy that the kernel does not know; `NOKEY`
/// if the caller is not root and has not added the key.
pub fn set_policy(directory: impl AsFd, policy: &[u8]) -> Result<()> {
    let mut argument = [0; 24];
    let bytes = argument.get_mut(..policy.len()).ok_or(Errno::INVAL)?;
    bytes.copy_from_slice(policy);
    call::<SET_POLICY, 24>(directory, &mut argument)
}

/// Adds a master key to the file system of `directory`.
///
/// # Errors
/// `INVAL` for a key that is not the one of the identifier, or of no possible length; `ACCES` for a
/// descriptor without being root.
pub fn add_key(directory: impl AsFd, specifier: &Specifier, key: &Secret) -> Result<()> {
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(Errno::INVAL);
    }
    let locked = Secret::zeroed(ADD_LEN + KEY_MAX);
    let mut locked = locked.map_err(|_| Errno::NOMEM)?;
    let argument: &mut [u8; ADD_LEN + KEY_MAX] = locked.expose_mut().try_into().expect("so many");
    argument[..SPECIFIER_LEN].copy_from_slice(&specifier.encode());
    argument[SPECIFIER_LEN..][..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
    argument[ADD_LEN..][..key.len()].copy_from_slice(key.expose());
    call::<ADD_KEY, { ADD_LEN + KEY_MAX }>(&directory, argument)?;
    // The kernel derives the identifier itself, and says what it is.
    if argument[..SPECIFIER_LEN] == specifier.encode() {
        return Ok(());
    }
    let mut name = [0; 16];
    name.copy_from_slice(&argument[8..24]);
    remove_key(directory, &Specifier::Identifier(name), false)?;
    Err(Errno::INVAL)
}

/// Removes a master key from the file system of `directory`.
///
/// # Errors
/// `NOKEY` if it is not there, or was added only by others; `ACCES` without being root, for a descriptor
/// or for all users.
pub fn remove_key(
    directory: impl AsFd,
    specifier: &Specifier,
    all_users: bool,
) -> Result<KeyRemoval> {
    let mut argument = [0; REMOVE_LEN];
    argument[..SPECIFIER_LEN].copy_from_slice(&specifier.encode());
    match all_users {
        true => call::<REMOVE_KEY_ALL_USERS, REMOVE_LEN>(directory, &mut argument)?,
        false => call::<REMOVE_KEY, REMOVE_LEN>(directory, &mut argument)?,
    }
    let flags = number(&argument, SPECIFIER_LEN);
    Ok(match flags {
        _ if flags & 2 != 0 => KeyRemoval::OtherUsers,
        _ if flags & 1 != 0 => KeyRemoval::FilesBusy,
        _ => KeyRemoval::Whole,
    })
}

/// Returns whether the file system of `directory` has a master key.
///
/// # Errors
/// `NOTTY`, `OPNOTSUPP` if the file system does not take part.
pub fn key_status(directory: impl AsFd, specifier: &Specifier) -> Result<KernelKeyStatus> {
    let mut argument = [0; STATUS_LEN];
    argument[..SPECIFIER_LEN].copy_from_slice(&specifier.encode());
    call::<KEY_STATUS, STATUS_LEN>(directory, &mut argument)?;
    let (status, flags) = (number(&argument, 64), number(&argument, 68));
    match status {
        1 => Ok(KernelKeyStatus::Absent),
        2 => Ok(KernelKeyStatus::Present {
            is_own: flags & 1 != 0 || matches!(specifier, Specifier::Descriptor(_)),
        }),
        3 => Ok(KernelKeyStatus::FilesBusy),
        _ => Err(Errno::INVAL),
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("within"))
}

fn call<const OPCODE: Opcode, const LEN: usize>(
    file: impl AsFd,
    argument: &mut [u8; LEN],
) -> Result<()> {
    // SAFETY: for each of these calls the kernel reads and writes the structure that this file names
    // beside its number, and behind the first also the key, of the length that the structure says. Each
    // caller gives at least so many bytes. Any bytes are a valid array.
    unsafe { ioctl(file, Updater::<OPCODE, [u8; LEN]>::new(argument)) }
}
