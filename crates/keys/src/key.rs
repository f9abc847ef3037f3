//! New keys, made where they stay.

use cipher::Random;
use secret::Key;

use crate::Result;

/// A new random key.
///
/// # Errors
/// [`crate::Error::Cipher`] if there are no random numbers; [`crate::Error::Secret`] without memory for it.
pub fn random_key(random: &dyn Random) -> Result<Key> {
    Key::fill_with(|key| Ok(random.fill(key)?))
}

/// A key derived from a list of values for one purpose; see [`cipher::derive_key_into`].
///
/// # Errors
/// [`crate::Error::Secret`].
pub(crate) fn derived_key(context: &'static str, parts: &[&[u8]]) -> Result<Key> {
    Key::fill_with(|key| {
        cipher::derive_key_into(context, parts, key);
        Ok(())
    })
}
