//! The reverse mode: ciphertext of plain files, which is the same each time.
//!
//! What is random in other directories comes of the encrypted path here, so an equal tree has equal
//! ciphertext. Only AES-SIV allows that.

use std::sync::Arc;

use base64::Engine as _;
use cipher::{Digest, Random};
use secret::Key;
use vfs::{Error, Result};

use super::attributes::CLEAR;
use super::config::Config;
use super::contents::{ContentKey, HEADER_LEN, header_of};
use super::error;
use super::features::ContentCipher;
use super::format::TARGET_MAX;
use super::names::{DIR_IV_NAME, DirIv, EntryName, GocryptfsNameKey, NAME_MAX};
use crate::formats::{FileLayout, LowerName};

/// The name of the configuration, in the root of the plain directory. The view has it by the other name.
pub const REVERSE_CONFIG_NAME: &str = ".gocryptfs.reverse.conf";

/// The encryption of a plain directory, with its master key.
pub struct Reverse {
    contents: ContentKey,
    /// None if names stay clear.
    names: Option<GocryptfsNameKey>,
    dir_iv: bool,
}

/// The IVs of a file, which make its ciphertext unlike others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileIvs {
    id: [u8; 16],
    first_nonce: [u8; 16],
}

/// The meaning of a name of the view.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReverseName {
    /// The file with the IV of the directory.
    DirIv,
    /// The entry of this plain name.
    Entry(Vec<u8>),
    /// The entry whose name has this hash.
    Long,
    /// The file with the name of such an entry.
    LongName,
}

impl Reverse {
    /// With the master key that [`Config::unlock`] gave.
    ///
    /// # Errors
    /// `Unsupported` without AES-SIV; those of the ciphers and of locked memory.
    pub fn new(
        config: &Config,
        master: &Key,
        random: Arc<dyn Random>,
    ) -> std::result::Result<Reverse, error::Error> {
        let features = config.features();
        if features.content != ContentCipher::AesSiv {
            let what = "the reverse mode without AES-SIV";
            return Err(error::Error::Unsupported(what.into()));
        }
        let key = config.content_key(master)?;
        let names = match features.names {
            Some(names) => Some(GocryptfsNameKey::new(names, &config.name_key(master)?)?),
            None => None,
        };
        Ok(Reverse {
            contents: ContentKey::new(features.content, &key, random)?,
            names,
            dir_iv: features.names.is_some_and(|names| names.dir_iv),
        })
    }

    /// Returns whether the view has this extended attribute of an entry: only what decides who may read it.
    pub(crate) fn shows_xattr(&self, name: &[u8]) -> bool {
        CLEAR.contains(&name)
    }

    pub(crate) fn layout(&self) -> FileLayout {
        self.contents.layout()
    }

    pub(crate) fn name_max(&self) -> u32 {
        NAME_MAX as u32
    }

    /// The file that has the IV of the directory with this path, if directories have one: its name and its
    /// contents.
    pub(crate) fn dir_iv_file(&self, dir: &[u8]) -> Option<(&'static [u8], Vec<u8>)> {
        let iv = self.dir_iv.then(|| self.iv(dir).to_vec())?;
        Some((DIR_IV_NAME.as_bytes(), iv))
    }

    fn iv(&self, dir: &[u8]) -> DirIv {
        match self.dir_iv {
            true => derive(dir, "DIRIV"),
            false => [0; 16],
        }
    }

    /// The name that the view has for a plain one, in the directory with this path.
    ///
    /// # Errors
    /// `NameTooLong`, `NotFound`.
    pub(crate) fn name(&self, dir: &[u8], plain: &[u8]) -> Result<LowerName> {
        match &self.names {
            Some(names) => names.seal(&self.iv(dir), plain),
            None => Ok(LowerName {
                name: plain.to_vec(),
                long: None,
            }),
        }
    }

    /// The meaning of a name of the view, in the directory with this path.
    ///
    /// # Errors
    /// `NotFound` if nothing can have it.
    pub(crate) fn shown(&self, dir: &[u8], name: &[u8]) -> Result<ReverseName> {
        let Some(names) = &self.names else {
            return Ok(ReverseName::Entry(name.to_vec()));
        };
        match names.stored(name) {
            EntryName::Own if name == DIR_IV_NAME.as_bytes() => Ok(ReverseName::DirIv),
            EntryName::Own => Ok(ReverseName::LongName),
            EntryName::Long(_) => Ok(ReverseName::Long),
            EntryName::Whole(whole) => {
                let plain = names.open(&self.iv(dir), whole);
                plain.map(ReverseName::Entry).map_err(|_| Error::NotFound)
            }
        }
    }

    /// The target of the symbolic link with this path.
    ///
    /// # Errors
    /// `NameTooLong`, `Io`.
    pub(crate) fn target(&self, path: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let Some(names) = &self.names else {
            return Ok(plain.to_vec());
        };
        // gocryptfs takes the name for one in the link.
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let nonce = derive(&[path, b"/", name].concat(), "SYMLINKIV");
        let sealed = self.contents.seal_value_again(&nonce, plain)?;
        match names.base64().encode(&sealed).into_bytes() {
            stored if stored.len() <= TARGET_MAX => Ok(stored),
            _ => Err(Error::NameTooLong),
        }
    }

    /// The header of a file that is not empty.
    pub(crate) fn header(&self, ivs: &FileIvs) -> [u8; HEADER_LEN] {
        header_of(&ivs.id)
    }

    /// Seals consecutive blocks of a file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn seal(&self, ivs: &FileIvs, first: u64, blocks: &mut [u8]) -> Result<()> {
        let header = self.header(ivs);
        (self.contents).seal_again(&ivs.first_nonce, &header, first, blocks)
    }
}

impl FileIvs {
    pub(crate) fn new(path: &[u8]) -> FileIvs {
        FileIvs {
            id: derive(path, "FILEID"),
            first_nonce: derive(path, "BLOCK0IV"),
        }
    }
}

/// The hash of an encrypted path for some purpose. The path of the root is empty.
fn derive(path: &[u8], purpose: &str) -> [u8; 16] {
    let hash = Digest::Sha256.hash(&[path, &[0], purpose.as_bytes()]);
    *hash.first_chunk().expect("16 bytes of 32")
}
