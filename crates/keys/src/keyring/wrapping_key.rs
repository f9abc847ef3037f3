//! The key that slots are a way to.

use std::fmt;

use secret::Key;

use crate::Result;

/// The key that wraps the generations of one or more keyrings.
///
/// It exists only because a slot was unlocked, or because it was just made. So its holder may change
/// slots without a passphrase.
pub struct WrappingKey {
    id: [u8; 16],
    key: Key,
}

impl WrappingKey {
    pub(crate) fn new(id: [u8; 16], key: Key) -> WrappingKey {
        WrappingKey { id, key }
    }

    /// Names the key, in this dataset and in those that inherit it. Random, and not a secret.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// A copy, on purpose.
    ///
    /// # Errors
    /// [`crate::Error::Secret`].
    pub fn try_clone(&self) -> Result<WrappingKey> {
        Ok(WrappingKey::new(self.id, self.key.try_clone()?))
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey([redacted])")
    }
}
