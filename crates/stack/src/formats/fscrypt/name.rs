//! Names and targets of links: padded, encrypted, and as they are shown without the key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use cipher::Digest;
use vfs::{Error, Result};

use super::inode_key::InodeKey;

/// The longest name in bytes, plain and encrypted.
pub(super) const NAME_MAX: usize = 255;

/// The number of bytes of the ciphertext in a no-key name; the rest is in a digest.
const NOKEY_BYTES: usize = 149;

/// The first bytes of a no-key name: the two hashes of the file system, which are 0 here.
const NOKEY_HASHES: [u8; 8] = [0; 8];

/// The prefix of the name of an entry with a long name. A dot is in no base64url.
const LONG: &str = "long.";

/// The suffix of the name of the file with the long name.
const LONG_FILE: &str = ".name";

/// The length of the ciphertext of a name of `len` bytes, of at most `max`.
pub fn padded_len(len: usize, padding: usize, max: usize) -> Option<usize> {
    (len <= max).then(|| len.max(16).next_multiple_of(padding).min(max))
}

/// Encrypts a name or target into at most `max` bytes.
pub(super) fn seal(key: &InodeKey, plain: &[u8], padding: usize, max: usize) -> Result<Vec<u8>> {
    let len = padded_len(plain.len(), padding, max).ok_or(Error::NameTooLong)?;
    let mut name = plain.to_vec();
    name.resize(len, 0);
    key.seal_name(&mut name)?;
    Ok(name)
}

/// Decrypts a name or target. Padding goes.
pub(super) fn open(key: &InodeKey, sealed: &[u8]) -> Result<Vec<u8>> {
    let mut name = sealed.to_vec();
    key.open_name(&mut name)?;
    Ok(unpadded(name))
}

pub(super) fn unpadded(mut name: Vec<u8>) -> Vec<u8> {
    let len = name.iter().position(|byte| *byte == 0);
    name.truncate(len.unwrap_or(name.len()));
    name
}

/// The name that is shown for a ciphertext without the key: base64url of Linux's `struct fscrypt_nokey_name`.
pub fn nokey_name(sealed: &[u8]) -> Vec<u8> {
    let mut bytes = NOKEY_HASHES.to_vec();
    match sealed.split_at_checked(NOKEY_BYTES) {
        Some((start, rest)) if !rest.is_empty() => {
            bytes.extend_from_slice(start);
            bytes.extend_from_slice(&Digest::Sha256.hash(&[rest]));
        }
        _ => bytes.extend_from_slice(sealed),
    }
    BASE64.encode(bytes).into_bytes()
}

/// The part of the ciphertext that a no-key name has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NokeyName {
    /// All of it.
    Whole(Vec<u8>),
    /// The start of the ciphertext and a digest.
    Digest,
}

impl NokeyName {
    /// Reads a no-key name.
    pub(super) fn decode(name: &[u8]) -> Option<NokeyName> {
        let bytes = BASE64.decode(name).ok()?;
        let sealed = bytes.strip_prefix(&NOKEY_HASHES)?;
        match sealed.len() {
            16..=NOKEY_BYTES => Some(NokeyName::Whole(sealed.to_vec())),
            len if len == NOKEY_BYTES + 32 => Some(NokeyName::Digest),
            _ => None,
        }
    }
}

/// The name of the entry for a ciphertext in the lower directory, and of the file with a long name.
pub(super) fn stored_name(sealed: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let name = BASE64.encode(sealed);
    if name.len() <= NAME_MAX {
        return (name.into_bytes(), None);
    }
    let digest = BASE64.encode(&Digest::Sha256.hash(&[sealed])[..]);
    let name = format!("{LONG}{digest}");
    let file = format!("{name}{LONG_FILE}");
    (name.into_bytes(), Some(file.into_bytes()))
}

/// The meaning of an entry's name in the lower directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoredName {
    /// The ciphertext.
    Whole(Vec<u8>),
    /// The ciphertext is in this file.
    Long(Vec<u8>),
}

impl StoredName {
    /// Reads the name of an entry; nothing for what no name of the view can have.
    pub(super) fn decode(name: &[u8]) -> Option<StoredName> {
        if let Some(digest) = name.strip_prefix(LONG.as_bytes()) {
            let is_digest = BASE64.decode(digest).is_ok_and(|bytes| bytes.len() == 32);
            return is_digest.then(|| StoredName::Long([name, LONG_FILE.as_bytes()].concat()));
        }
        let sealed = BASE64.decode(name).ok()?;
        (16..=NAME_MAX)
            .contains(&sealed.len())
            .then_some(StoredName::Whole(sealed))
    }
}
