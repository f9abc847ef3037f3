//! A master key, and the keys that are derived from it.

use cipher::Digest;
use secret::Secret;

use super::context::KeyName;
use super::mode::EncryptionMode;

/// The purpose of a derived key.
#[derive(Clone, Copy)]
pub(super) enum DerivationPurpose {
    Identifier = 1,
    PerFile = 2,
    DirectKey = 3,
    InoLblk64 = 4,
    InoLblk32 = 6,
    InodeHash = 7,
}

/// A master key, in locked memory.
#[derive(Debug)]
pub struct FscryptMasterKey(Secret);

impl FscryptMasterKey {
    /// A key of 16 to 64 bytes; nothing for another length.
    pub fn new(key: Secret) -> Option<FscryptMasterKey> {
        (16..=64)
            .contains(&key.len())
            .then_some(FscryptMasterKey(key))
    }

    /// Returns whether it is long enough for a cipher: of 16 bytes for AES-128, and of 32 for the others, as in
    /// Linux.
    pub fn suits(&self, mode: EncryptionMode) -> bool {
        self.0.len() >= mode.key_len().min(32)
    }

    /// Returns whether it is of the greatest length.
    pub fn is_whole(&self) -> bool {
        self.0.len() == 64
    }

    /// The same key again.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn try_clone(&self) -> vfs::Result<FscryptMasterKey> {
        let key = Secret::from_slice(self.0.expose());
        key.map(FscryptMasterKey).map_err(|_| vfs::Error::NoMemory)
    }

    /// The name by which policies of version 2 know it.
    ///
    /// # Errors
    /// Those of the cipher and of locked memory.
    pub fn identifier(&self) -> vfs::Result<KeyName> {
        let mut identifier = [0; 16];
        self.derive_into(DerivationPurpose::Identifier, &[], &mut identifier)?;
        Ok(KeyName::Identifier(identifier))
    }

    /// The name by which the tool `fscrypt` has policies of version 1 know it.
    pub fn descriptor(&self) -> KeyName {
        let once = Digest::Sha512.hash(&[self.0.expose()]);
        let twice = Digest::Sha512.hash(&[&once]);
        KeyName::Descriptor(*twice.first_chunk().expect("64 bytes"))
    }

    /// The first bytes of the key itself, if it has so many.
    pub(super) fn raw(&self, len: usize) -> Option<&[u8]> {
        self.0.expose().get(..len)
    }

    /// A key of `len` bytes.
    pub(super) fn derive(
        &self,
        purpose: DerivationPurpose,
        info: &[&[u8]],
        len: usize,
    ) -> vfs::Result<Secret> {
        let mut key = Secret::zeroed(len).map_err(|_| vfs::Error::NoMemory)?;
        self.derive_into(purpose, info, key.expose_mut())?;
        Ok(key)
    }

    /// HKDF-SHA512 without salt.
    fn derive_into(
        &self,
        purpose: DerivationPurpose,
        info: &[&[u8]],
        key: &mut [u8],
    ) -> vfs::Result<()> {
        let purpose = [purpose as u8];
        let info: Vec<&[u8]> = [b"fscrypt\0", &purpose[..]]
            .into_iter()
            .chain(info.iter().copied())
            .collect();
        Digest::Sha512
            .hkdf(&[], self.0.expose(), &info, key)
            .map_err(|_| vfs::Error::Io)
    }
}
