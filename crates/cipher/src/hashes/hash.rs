//! BLAKE3, plain and in its keyed and key-derivation modes, over encodings that cannot be confused.
//!
//! Where several values enter one hash, each is preceded by its length (8 bytes, little-endian). So no two different
//! lists of values give the same input. [`Mac`] is the same, for values that come one at a time.

use zeroize::Zeroize;

/// A MAC of a list of values under a key, computed as the values come. See [`mac`].
pub struct Mac(blake3::Hasher);

impl Mac {
    /// Starts with no values.
    pub fn new(key: &[u8; 32]) -> Mac {
        Mac(blake3::Hasher::new_keyed(key))
    }

    /// Adds one value to the list.
    pub fn update(&mut self, part: &[u8]) -> &mut Mac {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// The MAC of the list so far, 32 bytes.
    pub fn finish(&self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl Drop for Mac {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mac([redacted])")
    }
}

/// The BLAKE3 hash of `data`, 32 bytes: a checksum, which anyone can compute.
pub fn hash(data: &[u8]) -> [u8; 32] {
    blake3::hash(data).into()
}

/// The BLAKE3 keyed hash of a list of values.
///
/// Each value is preceded by its length as 8 bytes, little-endian, so `[b"ab"]`, `[b"a", b"b"]` and
/// `[b"ab", b""]` have different MACs. Compare MACs with [`eq`].
pub fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Mac::new(key);
    for part in parts {
        mac.update(part);
    }
    mac.finish()
}

/// A key derived from `material` for one purpose: BLAKE3 `derive_key`.
///
/// `context` names the purpose. It must be globally unique and fixed in the program: "strongroom 2026-11 what it is
/// for v1".
pub fn derive_key(context: &'static str, material: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(material);
    let key = hasher.finalize().into();
    hasher.zeroize();
    key
}

/// A key derived from a list of values, written to its place.
///
/// As [`derive_key`], over the values each preceded by its length as 8 bytes, little-endian.
pub fn derive_key_into(context: &'static str, parts: &[&[u8]], key: &mut [u8; 32]) {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut output = hasher.finalize_xof();
    output.fill(key);
    output.zeroize();
    hasher.zeroize();
}

/// The first 8 bytes of the BLAKE3 keyed hash of `data`, as a little-endian number. It is for tables that an outsider
/// must not be able to fill with collisions, or to read. Too short to authenticate.
pub fn keyed_hash64(key: &[u8; 32], data: &[u8]) -> u64 {
    let hash = blake3::keyed_hash(key, data);
    let first = hash.as_bytes().first_chunk().expect("32 bytes");
    u64::from_le_bytes(*first)
}

/// SipHash-2-4 (Aumasson and Bernstein, 2012), which fscrypt uses to spread the numbers of inodes.
pub fn siphash24(key: &[u8; 16], data: &[u8]) -> u64 {
    use std::hash::Hasher as _;
    let half = |at: usize| u64::from_le_bytes(*key[at..].first_chunk().expect("8 bytes"));
    // Deprecated as the hasher of tables: it is this function by its documentation.
    #[expect(deprecated)]
    let mut hasher = std::hash::SipHasher::new_with_keys(half(0), half(8));
    hasher.write(data);
    hasher.finish()
}

/// Returns whether two secrets are equal, in a time that depends on their lengths only.
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// The key and the context of BLAKE3's own `test_vectors.json`; input 0, 1, ..., 250, 0, 1, ...
    const KEY: &[u8; 32] = b"whats the Elvish word for friend";
    const CONTEXT: &str = "BLAKE3 2019-12-27 16:29:52 test vectors context";

    #[test]
    fn derive_key_is_blake3() {
        assert_eq!(
            derive_key(CONTEXT, &[])[..],
            hex("2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d")
        );
        assert_eq!(
            derive_key(CONTEXT, &[0])[..],
            hex("b3e2e340a117a499c6cf2398a19ee0d29cca2bb7404c73063382693bf66cb06c")
        );
    }

    #[test]
    fn hash_is_blake3() {
        assert_eq!(
            hash(&[])[..],
            hex("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
        );
    }

    #[test]
    fn keyed_hash64_is_blake3() {
        let hash = hex("92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26");
        assert_eq!(keyed_hash64(KEY, &[]).to_le_bytes(), hash[..8]);
    }

    #[test]
    fn mac_is_the_keyed_hash_of_the_encoding() {
        let encoding = [&2u64.to_le_bytes()[..], b"ab", &0u64.to_le_bytes()].concat();
        let expected = blake3::keyed_hash(KEY, &encoding);
        assert_eq!(&mac(KEY, &[b"ab", b""]), expected.as_bytes());
        assert_eq!(
            Mac::new(KEY).update(b"ab").update(b"").finish(),
            *expected.as_bytes()
        );
    }

    #[test]
    fn derive_key_into_is_derive_key_of_the_encoding() {
        let encoding = [&1u64.to_le_bytes()[..], b"k", &2u64.to_le_bytes(), b"rs"].concat();
        let mut key = [0; 32];
        derive_key_into(CONTEXT, &[b"k", b"rs"], &mut key);
        assert_eq!(key, derive_key(CONTEXT, &encoding));
    }

    #[test]
    fn lists_are_not_confused() {
        let lists: [&[&[u8]]; 7] = [
            &[],
            &[b""],
            &[b"", b""],
            &[b"ab"],
            &[b"a", b"b"],
            &[b"ab", b""],
            &[b"", b"ab"],
        ];
        for (i, a) in lists.iter().enumerate() {
            for b in &lists[..i] {
                assert_ne!(mac(KEY, a), mac(KEY, b), "{a:?} and {b:?}");
            }
        }
        assert_ne!(mac(KEY, &[b"ab"]), mac(&[0; 32], &[b"ab"]));
    }

    /// The example of the article's appendix A.
    #[test]
    fn siphash24_of_the_article() {
        let key = std::array::from_fn(|i| i as u8);
        let data: [u8; 15] = std::array::from_fn(|i| i as u8);
        assert_eq!(siphash24(&key, &data), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn equality() {
        assert!(eq(b"", b""));
        assert!(eq(b"same", b"same"));
        assert!(!eq(b"same", b"some"));
        assert!(!eq(b"same", b"same "));
    }

    #[test]
    fn debug_is_redacted() {
        assert_eq!(format!("{:?}", Mac::new(KEY)), "Mac([redacted])");
    }
}
