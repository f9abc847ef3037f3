//! Keys: a master key, its id, and what is derived from it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use cipher::{AnyLengthXts, Digest, PasswordHash};
use secret::Secret;

use super::algorithm::Algorithm;
use super::error::Error;
use super::names::PefsNameKey;

/// The length of a master key, in bytes.
pub(super) const MASTER_LEN: usize = 64;

/// The number of hashes of a passphrase unless something else is said.
pub const DEFAULT_ITERATIONS: u32 = 50_000;

/// The id of a key. Shown as hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 8]);

/// A master key, in locked memory.
#[derive(Debug)]
pub struct PefsMasterKey(Secret);

impl PefsMasterKey {
    /// From the contents of key files and a passphrase. Without iterations the passphrase is taken as it
    /// is; an empty one is none.
    ///
    /// # Errors
    /// [`Error::NoInput`], [`Error::Cipher`], [`Error::Memory`].
    pub fn from_parts(
        key_files: &[Secret],
        passphrase: Option<(&Secret, u32)>,
    ) -> Result<PefsMasterKey, Error> {
        let passphrase = passphrase.filter(|(passphrase, _)| !passphrase.is_empty());
        if key_files.is_empty() && passphrase.is_none() {
            return Err(Error::NoInput);
        }
        let mut hashed = Secret::new();
        match passphrase {
            None => {}
            Some((passphrase, 0)) => hashed.push_slice(passphrase.expose())?,
            Some((passphrase, iterations)) => {
                hashed = Secret::zeroed(MASTER_LEN)?;
                let digest = Digest::Sha512;
                let hash = PasswordHash::Pbkdf2 { digest, iterations };
                hash.derive(passphrase.expose(), &[], hashed.expose_mut())?;
            }
        }
        let files = key_files.iter().map(Secret::expose);
        let parts: Vec<&[u8]> = files.chain([hashed.expose()]).collect();
        let hash = Digest::Sha512.hmac(&[], &parts);
        Ok(PefsMasterKey(Secret::from_slice(&hash)?))
    }

    /// A key of 64 bytes; nothing for another length.
    pub fn new(key: Secret) -> Option<PefsMasterKey> {
        (key.len() == MASTER_LEN).then_some(PefsMasterKey(key))
    }

    /// The same key again.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn try_clone(&self) -> Result<PefsMasterKey, Error> {
        Ok(PefsMasterKey(self.0.try_clone()?))
    }

    /// The 64 bytes of the key.
    pub(super) fn expose(&self) -> &[u8] {
        self.0.expose()
    }

    /// The 64 bytes of the key, to be given to [`PefsMasterKey::new`] in another process.
    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// By what it is known. It does not depend on the algorithm.
    pub fn id(&self) -> KeyId {
        let hash = Digest::Sha512.hmac(self.0.expose(), &[b"<KEY ID>\0"]);
        KeyId(*hash.first_chunk().expect("64 bytes"))
    }

    /// The key that seals the record of this key in a chain.
    pub(super) fn record_key(&self) -> cipher::DigestOutput {
        Digest::Sha512.hmac(self.0.expose(), &[b"<ENCRYPTED KEY>\0"])
    }

    /// The keys of data, tweaks, names and checksums.
    fn derive(&self) -> Result<[Secret; 4], Error> {
        let mut before = Secret::zeroed(MASTER_LEN)?;
        let mut next = |number: u8| -> Result<Secret, Error> {
            let parts = [before.expose(), b"PEFSKEY-V1\0", &[number]];
            let key = Secret::from_slice(&Digest::Sha512.hmac(self.0.expose(), &parts))?;
            before = key.try_clone()?;
            Ok(key)
        };
        Ok([next(1)?, next(2)?, next(3)?, next(4)?])
    }
}

/// A key that is ready for use.
pub struct PefsKey {
    id: KeyId,
    algorithm: Algorithm,
    pub(super) names: PefsNameKey,
    pub(super) contents: AnyLengthXts,
    is_removed: AtomicBool,
}

impl PefsKey {
    /// Derives and expands the keys.
    ///
    /// # Errors
    /// [`Error::Cipher`], [`Error::Memory`].
    pub fn new(master: &PefsMasterKey, algorithm: Algorithm) -> Result<PefsKey, Error> {
        let [data, tweak, name, checksum] = master.derive()?;
        let len = algorithm.key_len();
        let (data, tweak) = (&data.expose()[..len], &tweak.expose()[..len]);
        Ok(PefsKey {
            id: master.id(),
            algorithm,
            names: PefsNameKey::new(&name, &checksum)?,
            contents: AnyLengthXts::new(algorithm.cipher(), data, tweak)?,
            is_removed: AtomicBool::new(false),
        })
    }

    /// By what it is known.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The algorithm for contents.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// From now on every use of it gives `NoKey`.
    pub(super) fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// # Errors
    /// `NoKey` if it was removed.
    pub(super) fn check(&self) -> vfs::Result<&PefsKey> {
        match self.is_removed.load(Ordering::Acquire) {
            true => Err(vfs::Error::NoKey),
            false => Ok(self),
        }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl fmt::Debug for PefsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} {}, [redacted])", self.id, self.algorithm)
    }
}
