//! Extended attributes: their names as names of files under an IV of their own, their values as blocks.

use base64::Engine as _;
use secret::Secret;
use vfs::{Error, Result};

use super::contents::ContentKey;
use super::names::{DirIv, NameText};

/// The prefix of the names of encrypted attributes. Every user can set such attributes.
const PREFIX: &[u8] = b"user.gocryptfs.";

const IV: DirIv = *b"xattr_name_iv_xx";

/// The kernel asks for it at each write. What it has is for programs of other mounts: an encrypted value
/// could be that of another file.
const CAPABILITY: &[u8] = b"security.capability";

/// ACLs pass through: the lower file system obeys them.
pub(super) const CLEAR: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

pub(super) struct AttributeKey(NameText);

impl AttributeKey {
    /// `raw64`: base64 without padding.
    pub(super) fn new(raw64: bool, key: &Secret) -> cipher::Result<AttributeKey> {
        NameText::new(raw64, key).map(AttributeKey)
    }

    /// The attribute of the lower file that has this one of the view.
    pub(super) fn lower(&self, name: &[u8]) -> Result<Vec<u8>> {
        if CLEAR.contains(&name) {
            return Ok(name.to_vec());
        }
        if name == CAPABILITY {
            return Err(Error::NotSupported);
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Error::Invalid);
        }
        Ok([PREFIX, &self.0.seal(&IV, name)?].concat())
    }

    /// The view's name for an attribute of the lower file, if the view shows it.
    pub(super) fn plain(&self, lower: &[u8]) -> Option<Vec<u8>> {
        if CLEAR.contains(&lower) {
            return Some(lower.to_vec());
        }
        let name = self.0.open(&IV, lower.strip_prefix(PREFIX)?).ok()?;
        // Only what is found again by its name.
        let is_shown = !name.is_empty() && !name.contains(&0) && name != CAPABILITY;
        (is_shown && !CLEAR.contains(&&name[..])).then_some(name)
    }

    /// The value in the lower file. An empty one stays empty.
    pub(super) fn seal(&self, key: &ContentKey, name: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        match value.is_empty() || CLEAR.contains(&name) {
            true => Ok(value.to_vec()),
            false => key.seal_value(value),
        }
    }

    /// The value that the view shows.
    pub(super) fn open(&self, key: &ContentKey, name: &[u8], stored: Vec<u8>) -> Result<Vec<u8>> {
        if stored.is_empty() || CLEAR.contains(&name) {
            return Ok(stored);
        }
        key.open_value(stored.clone()).or_else(|error| {
            // Old versions of gocryptfs wrote base64.
            let sealed = self.0.base64().decode(&stored).map_err(|_| error)?;
            key.open_value(sealed)
        })
    }
}
