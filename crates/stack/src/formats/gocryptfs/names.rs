//! Names: padded, encrypted with EME under the IV of their directory, and written in base64.

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use cipher::{Digest, NameCipher, NameMode};
use secret::Secret;
use vfs::{Error, Result};

use super::features::NameFeatures;
use crate::formats::{LongName, LowerName};

/// The longest name of the view, and of the lower directory, in bytes.
pub(super) const NAME_MAX: usize = 255;

/// The file with the IV of its directory.
pub(super) const DIR_IV_NAME: &str = "gocryptfs.diriv";

/// The prefix of the names of entries with long names.
const LONG_PREFIX: &[u8] = b"gocryptfs.longname.";

/// The suffix of the names of the files with long names.
const LONG_SUFFIX: &[u8] = b".name";

/// The most bytes that a file with a long name has: 256 in base64.
const LONG_MAX: usize = 344;

/// The IV of a directory.
pub(super) type DirIv = [u8; 16];

/// The cipher that pads and encrypts names of files and of attributes.
pub(super) struct NameText {
    cipher: NameCipher,
    base64: &'static GeneralPurpose,
}

impl NameText {
    /// `raw64`: base64 without padding.
    pub(super) fn new(raw64: bool, key: &Secret) -> cipher::Result<NameText> {
        Ok(NameText {
            cipher: NameCipher::new(NameMode::Eme, key.expose())?,
            base64: if raw64 { &URL_SAFE_NO_PAD } else { &URL_SAFE },
        })
    }

    pub(super) fn base64(&self) -> &'static GeneralPurpose {
        self.base64
    }

    /// The text that stands for a name.
    pub(super) fn seal(&self, iv: &DirIv, plain: &[u8]) -> Result<Vec<u8>> {
        let padding = 16 - plain.len() % 16;
        let mut bytes = plain.to_vec();
        bytes.resize(plain.len() + padding, padding as u8);
        self.cipher.encrypt(iv, &mut bytes).map_err(|_| Error::Io)?;
        Ok(self.base64.encode(bytes).into_bytes())
    }

    /// Decrypts this text, which may not be a name.
    pub(super) fn open(&self, iv: &DirIv, text: &[u8]) -> Result<Vec<u8>> {
        if text.len() > LONG_MAX {
            return Err(Error::Io);
        }
        let mut bytes = self.base64.decode(text).map_err(|_| Error::Io)?;
        self.cipher.decrypt(iv, &mut bytes).map_err(|_| Error::Io)?;
        let padding = usize::from(*bytes.last().ok_or(Error::Io)?);
        let len = bytes.len().checked_sub(padding).ok_or(Error::Io)?;
        let is_padded = bytes[len..]
            .iter()
            .all(|byte| usize::from(*byte) == padding);
        if !(1..=16).contains(&padding) || !is_padded {
            return Err(Error::Io);
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// The key of names of files.
pub(super) struct GocryptfsNameKey {
    names: NameFeatures,
    text: NameText,
}

/// The meaning of the name of a lower entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryName<'a> {
    /// The IV of the directory, or the file with a long name.
    Own,
    /// An entry whose encrypted name is in this file.
    Long(Vec<u8>),
    /// An entry whose encrypted name this is.
    Whole(&'a [u8]),
}

impl GocryptfsNameKey {
    pub(super) fn new(names: NameFeatures, key: &Secret) -> cipher::Result<GocryptfsNameKey> {
        let text = NameText::new(names.raw64, key)?;
        Ok(GocryptfsNameKey { names, text })
    }

    pub(super) fn base64(&self) -> &'static GeneralPurpose {
        self.text.base64()
    }

    /// Encrypts the name `plain` for the lower directory.
    pub(super) fn seal(&self, iv: &DirIv, plain: &[u8]) -> Result<LowerName> {
        if plain.len() > NAME_MAX {
            return Err(Error::NameTooLong);
        }
        if !is_name(plain) {
            return Err(Error::NotFound);
        }
        let whole = self.text.seal(iv, plain)?;
        if whole.len() <= usize::from(self.names.long_max) {
            return Ok(LowerName {
                name: whole,
                long: None,
            });
        }
        if !self.names.long {
            return Err(Error::NameTooLong);
        }
        let name = self.hashed(&whole);
        let long = LongName {
            name: [&name[..], LONG_SUFFIX].concat(),
            contents: whole,
        };
        Ok(LowerName {
            name,
            long: Some(long),
        })
    }

    /// The meaning of the lower name `name`.
    pub(super) fn stored<'a>(&self, name: &'a [u8]) -> EntryName<'a> {
        if self.names.dir_iv && name == DIR_IV_NAME.as_bytes() {
            return EntryName::Own;
        }
        match name.starts_with(LONG_PREFIX) {
            true if name.ends_with(LONG_SUFFIX) => EntryName::Own,
            true => EntryName::Long([name, LONG_SUFFIX].concat()),
            false => EntryName::Whole(name),
        }
    }

    /// Returns whether `whole` is the encrypted name of the entry `name`.
    pub(super) fn is_long(&self, name: &[u8], whole: &[u8]) -> bool {
        whole.len() <= LONG_MAX && self.hashed(whole) == name
    }

    fn hashed(&self, whole: &[u8]) -> Vec<u8> {
        let hash = self.base64().encode(&*Digest::Sha256.hash(&[whole]));
        [LONG_PREFIX, hash.as_bytes()].concat()
    }

    /// The name of which this is the encrypted one.
    pub(super) fn open(&self, iv: &DirIv, whole: &[u8]) -> Result<Vec<u8>> {
        let bytes = self.text.open(iv, whole)?;
        match is_name(&bytes) {
            true => Ok(bytes),
            false => Err(Error::Io),
        }
    }
}

/// Returns whether a file can have this name.
fn is_name(name: &[u8]) -> bool {
    let is_plain = !name.contains(&b'/') && !name.contains(&0);
    (1..=NAME_MAX).contains(&name.len()) && name != b"." && name != b".." && is_plain
}
