//! Key wrapping: XAES-256-GCM with a commitment.
//!
//! GCM does not commit to its key: a ciphertext of an attacker's making can open under two keys. So each wrapped
//! key carries a hash of wrapping key, nonce and associated data, which is compared first. That also tells the two
//! ways to fail apart. Another commitment means another key (or header). The right commitment with a wrong tag
//! means that the ciphertext was changed.
//!
//! ```text
//! commitment = BLAKE3 derive_key("strongroom 2026-11 key wrapping commitment v1",
//!                                len(key) key len(nonce) nonce len(aad) aad)      len: 8 bytes, LE
//! sealed,tag = XAES-256-GCM(key, nonce, aad, keys)
//! ```

use cipher::{Random, RecordCipher, Suite};
use secret::{Key, LockedBox};

use crate::layout::WrappedKey;
use crate::{Error, Result};

const COMMITMENT: &str = "strongroom 2026-11 key wrapping commitment v1";

/// Wraps `keys` under `key`, bound to `aad`, with a new nonce.
pub(crate) fn wrap<const LEN: usize>(
    key: &Key,
    aad: &[u8],
    keys: &[u8; LEN],
    random: &dyn Random,
) -> Result<WrappedKey<LEN>> {
    wrap_with(random.nonce()?, key, aad, keys)
}

/// Wraps `keys` under `key`, bound to `aad`. Under one key a nonce is for these `keys` and this `aad` only.
pub(crate) fn wrap_with<const LEN: usize>(
    nonce: [u8; 24],
    key: &Key,
    aad: &[u8],
    keys: &[u8; LEN],
) -> Result<WrappedKey<LEN>> {
    let mut sealed = [0; LEN];
    let tag = cipher(key)?.seal(&nonce, aad, keys, &mut sealed)?;
    Ok(WrappedKey {
        nonce,
        commitment: commitment(key, &nonce, aad),
        sealed,
        tag,
    })
}

/// Unwraps into `keys`, which is zeroed on failure.
///
/// # Errors
/// [`Error::WrongKey`] for another key, nonce or `aad`; [`Error::Damaged`] for another ciphertext.
pub(crate) fn unwrap<const LEN: usize>(
    wrapped: &WrappedKey<LEN>,
    key: &Key,
    aad: &[u8],
    keys: &mut [u8; LEN],
) -> Result<()> {
    keys.fill(0);
    let WrappedKey {
        nonce,
        commitment: expected,
        sealed,
        tag,
    } = wrapped;
    if !cipher::eq(&commitment(key, nonce, aad), expected) {
        return Err(Error::WrongKey);
    }
    let opened = cipher(key)?.open(nonce, aad, sealed, tag, keys);
    opened.map_err(|error| match error {
        cipher::Error::Unauthentic => Error::Damaged("a wrapped key"),
        other => other.into(),
    })
}

fn cipher(key: &Key) -> Result<LockedBox<RecordCipher>> {
    LockedBox::init(|place| {
        Ok(RecordCipher::new_in(
            place,
            Suite::Xaes256Gcm,
            key.expose(),
        )?)
    })
}

fn commitment(key: &Key, nonce: &[u8; 24], aad: &[u8]) -> [u8; 32] {
    let mut commitment = [0; 32];
    cipher::derive_key_into(COMMITMENT, &[key.expose(), nonce, aad], &mut commitment);
    commitment
}

#[cfg(test)]
mod tests {
    use cipher::SeededRandom;

    use super::*;
    use crate::key::random_key;

    #[test]
    fn each_part_fails_in_its_own_way() {
        let random = SeededRandom::new(1);
        let key = random_key(&random).expect("memory");
        let other = random_key(&random).expect("memory");
        let keys = [7; 48];
        let wrapped = wrap(&key, b"aad", &keys, &random).expect("wrap");
        assert_ne!(wrapped.sealed, keys);

        let attempt = |wrapped: &WrappedKey<48>, key: &Key, aad: &[u8]| {
            let mut out = [0xaa; 48];
            let result = unwrap(wrapped, key, aad, &mut out);
            assert_eq!(out, if result.is_ok() { keys } else { [0; 48] });
            result
        };
        attempt(&wrapped, &key, b"aad").expect("unchanged");
        let wrong = |result| assert!(matches!(result, Err(Error::WrongKey)));
        let damaged = |result| assert!(matches!(result, Err(Error::Damaged(_))));
        wrong(attempt(&wrapped, &other, b"aad"));
        wrong(attempt(&wrapped, &key, b"aae"));
        let change = |change: fn(&mut WrappedKey<48>)| {
            let mut changed = wrapped;
            change(&mut changed);
            changed
        };
        wrong(attempt(&change(|w| w.nonce[23] ^= 1), &key, b"aad"));
        wrong(attempt(&change(|w| w.commitment[0] ^= 1), &key, b"aad"));
        damaged(attempt(&change(|w| w.sealed[47] ^= 1), &key, b"aad"));
        damaged(attempt(&change(|w| w.tag[0] ^= 1), &key, b"aad"));
    }

    #[test]
    fn nonces_are_new_each_time() {
        let random = cipher::SystemRandom;
        let key = random_key(&random).expect("memory");
        let wrap = || wrap(&key, b"", &[7; 32], &random).expect("wrap");
        let (a, b) = (wrap(), wrap());
        assert_ne!(a.nonce, b.nonce);
        assert_ne!(a.sealed, b.sealed);
        assert_ne!(a.commitment, b.commitment);
    }
}
