//! Keys of mappings without a header, made of passphrases as cryptsetup makes them.

use secret::Secret;

use crate::{Result, crypto};

/// The key of a passphrase without a header: its hash. Where the key is longer, the hashes of the passphrase with one
/// `A` before it follow, then with two, and so on. There is no salt and no cost: a passphrase has to be as good as a
/// key.
///
/// # Errors
/// [`crate::Error::Usage`] for a hash that is not known.
pub fn plain_key(passphrase: &Secret, hash: &str, len: usize) -> Result<Secret> {
    let digest = crypto::digest(hash)?;
    let mut key = Secret::zeroed(len)?;
    for (round, piece) in key.expose_mut().chunks_mut(digest.output_len()).enumerate() {
        let before = vec![b'A'; round];
        let hash = digest.hash(&[&before, passphrase.expose()]);
        piece.copy_from_slice(&hash[..piece.len()]);
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_hashed_piece_by_piece() {
        let passphrase = Secret::from_slice(b"secret").unwrap();
        let key = plain_key(&passphrase, "sha256", 40).unwrap();
        let first = cipher::Digest::Sha256.hash(&[b"secret"]);
        let second = cipher::Digest::Sha256.hash(&[b"Asecret"]);
        assert_eq!(key.expose()[..32], *first);
        assert_eq!(key.expose()[32..], second[..8]);
        assert!(plain_key(&passphrase, "md5", 16).is_err());
    }
}
