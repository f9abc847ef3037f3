//! Keys of one length.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::{Error, LockedBox, Result};

/// A key of 256 bits, in locked memory.
///
/// Compared in constant time; printed as `[redacted]`; not `Clone`.
pub struct Key(LockedBox<[u8; Key::LEN]>);

impl Key {
    /// The length of a key, in bytes.
    pub const LEN: usize = 32;

    /// A key that `fill` writes, where it will stay.
    ///
    /// # Errors
    /// [`Error::LockLimit`] or [`Error::Memory`], here and wherever a key is made; or the error of
    /// `fill`.
    pub fn fill_with<E: From<Error>>(
        fill: impl FnOnce(&mut [u8; Key::LEN]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Key, E> {
        let key = LockedBox::init(|place| {
            let key = place.write([0; Key::LEN]);
            fill(key).map(|()| key)
        });
        key.map(Key)
    }

    /// A copy of `bytes`. The original is the caller's to wipe.
    ///
    /// # Errors
    /// [`Error::LockLimit`], [`Error::SecretsFull`] and [`Error::Memory`] if there is no locked memory.
    pub fn from_bytes(bytes: &[u8; Key::LEN]) -> Result<Key> {
        Key::fill_with(|key| {
            key.copy_from_slice(bytes);
            Ok(())
        })
    }

    /// A copy, on purpose.
    ///
    /// # Errors
    /// As [`Key::from_bytes`].
    pub fn try_clone(&self) -> Result<Key> {
        Key::from_bytes(self.expose())
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8; Key::LEN] {
        &self.0
    }
}

impl PartialEq for Key {
    /// Compares in constant time.
    fn eq(&self, other: &Key) -> bool {
        self.expose().ct_eq(other.expose()).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_and_prints_nothing() {
        let key = Key::from_bytes(&[7; 32]).expect("memory");
        assert_eq!(key, key.try_clone().expect("memory"));
        assert_ne!(key, Key::from_bytes(&[8; 32]).expect("memory"));
        assert_eq!(format!("{key:?} {key}"), "[redacted] [redacted]");
    }

    #[test]
    fn thousands_of_keys_share_pages() {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
        assert!(
            limit.current.is_none_or(|limit| limit >= 1 << 20),
            "{limit:?}"
        );
        // 8,000 keys are 256,000 bytes, but would be 32 MB at a page each.
        let keys: Vec<Key> = (0..8000u16)
            .map(|n| {
                let mut bytes = [0; Key::LEN];
                bytes[..2].copy_from_slice(&n.to_le_bytes());
                Key::from_bytes(&bytes).expect("memory")
            })
            .collect();
        let unique: std::collections::HashSet<_> = keys.iter().map(Key::expose).collect();
        assert_eq!(unique.len(), 8000);
    }
}
