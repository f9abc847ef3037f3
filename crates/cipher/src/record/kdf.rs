//! The key of a record, from the data key and the nonce.
//!
//! NIST SP 800-108r1 counter mode with AES-CMAC as the pseudorandom function, in the shape of C2SP XAES-256-GCM. The
//! input is a 16-bit big-endian counter, a label of one byte, and the zero separator. The first 12 bytes of the nonce
//! follow as the context. There is no length field. The input of each CMAC is then one whole block, so that a key
//! costs one block encryption per 16 bytes:
//!
//! ```text
//! byte   0    1    2       3    4 .. 16
//!        00   i    label   00   nonce[0..12]          i = 1, 2, ...
//!
//! K1          = 2 · AES(data key, 0^128)              in GF(2^128), as CMAC (SP 800-38B, 6.1)
//! record key  = AES(data key, block 1 ⊕ K1) ‖ AES(data key, block 2 ⊕ K1), cut to the key length
//! ```
//!
//! Labels: `58` (`X`) is XAES-256-GCM. The other suites use their id on disk, `02` to `07`.
//!
//! Two suites never derive the same key, even from the same data key and nonce. With the same AES key, inputs with
//! different labels encrypt to different blocks, because AES is a permutation. So the keys differ in their first 16
//! bytes. Keys of different AES key lengths differ in length.

use zeroize::{Zeroize, Zeroizing};

use crate::ffi::AesKey;
use crate::{Result, Suite};

/// A data key, expanded, with its CMAC subkey. No pointers; wiped on drop.
pub(crate) struct RecordKdf {
    aes: AesKey,
    k1: [u8; 16],
    label: u8,
}

impl RecordKdf {
    /// A place for a key of `suite`. It must be [set](RecordKdf::set) before use.
    pub(crate) const fn blank(suite: Suite) -> RecordKdf {
        RecordKdf {
            aes: AesKey::blank(),
            k1: [0; 16],
            label: label(suite),
        }
    }

    /// Expands the data key in place.
    pub(crate) fn set(&mut self, key: &[u8]) -> Result<()> {
        self.aes.set(key)?;
        self.aes.encrypt(&[0; 16], &mut self.k1);
        double(&mut self.k1);
        Ok(())
    }

    /// Writes the key for the records whose nonce begins with `context`; up to 32 bytes.
    #[inline]
    pub(crate) fn derive(&self, context: &[u8; 12], key: &mut [u8]) {
        let mut block = Zeroizing::new([0; 16]);
        for (counter, part) in (1..).zip(key.chunks_mut(16)) {
            // Wiped too: less what is public, it is K1.
            let mut input = Zeroizing::new([0; 16]);
            input[1] = counter;
            input[2] = self.label;
            input[4..].copy_from_slice(context);
            for (byte, k1) in input.iter_mut().zip(&self.k1) {
                *byte ^= k1;
            }
            self.aes.encrypt(&input, &mut block);
            part.copy_from_slice(&block[..part.len()]);
        }
    }
}

impl Drop for RecordKdf {
    fn drop(&mut self) {
        self.k1.zeroize();
    }
}

// The label of XAES-256-GCM is no suite id, and never may be.
const _: () = {
    let mut i = 0;
    while i < Suite::ALL.len() {
        assert!(Suite::ALL[i].id() != b'X');
        i += 1;
    }
};

/// Returns the byte that tells the suites apart.
const fn label(suite: Suite) -> u8 {
    match suite {
        Suite::Xaes256Gcm => b'X',
        other => other.id(),
    }
}

/// Multiplies by x in GF(2^128) modulo x^128 + x^7 + x^2 + x + 1, without branching on the value.
fn double(block: &mut [u8; 16]) {
    let value = u128::from_be_bytes(*block);
    let carry = 0u128.wrapping_sub(value >> 127);
    *block = ((value << 1) ^ (carry & 0x87)).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    fn kdf(suite: Suite, key: &[u8]) -> RecordKdf {
        let mut kdf = RecordKdf::blank(suite);
        kdf.set(key).expect("key length");
        kdf
    }

    /// RFC 4493, section 4, and SP 800-38B, appendix D (its AES-192 and AES-256 examples). Tested are the subkey and
    /// the CMAC of a message of one block, as in a derivation.
    #[test]
    fn cmac_of_rfc_4493_and_sp_800_38b() {
        let examples = [
            (
                Suite::Aes128Gcm,
                "2b7e151628aed2a6abf7158809cf4f3c",
                "fbeed618357133667c85e08f7236a8de",
                "070a16b46b4d4144f79bdd9dd04a287c",
            ),
            (
                Suite::Aes192Gcm,
                "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
                "448a5b1c93514b273ee6439dd4daa296",
                "9e99a7bf31e710900662f65e617c5184",
            ),
            (
                Suite::Aes256Gcm,
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "cad1ed03299eedac2e9a99808621502f",
                "28a7023f452e8f82bd4bf28d8c37c35c",
            ),
        ];
        let message = hex("6bc1bee22e409f96e93d7e117393172a");
        for (suite, key, k1, cmac) in examples {
            let kdf = kdf(suite, &hex(key));
            assert_eq!(kdf.k1[..], hex(k1));
            let input = std::array::from_fn(|i| message[i] ^ kdf.k1[i]);
            let mut output = [0; 16];
            kdf.aes.encrypt(&input, &mut output);
            assert_eq!(output[..], hex(cmac));
        }
    }

    /// C2SP XAES-256-GCM, the intermediate values of both test vectors.
    #[test]
    fn keys_of_xaes_256_gcm() {
        let context = b"ABCDEFGHIJKL";
        let mut key = [0; 32];

        let low = kdf(Suite::Xaes256Gcm, &[1; 32]);
        assert_eq!(low.k1[..], hex("e531954aca063d5b8d9c47a47d4cc6f0"));
        low.derive(context, &mut key);
        assert_eq!(
            key[..],
            hex("c8612c9ed53fe43e8e005b828a1631a0bbcb6ab2f46514ec4f439fcfd0fa969b")
        );

        let high = kdf(Suite::Xaes256Gcm, &[3; 32]);
        assert_eq!(high.k1[..], hex("23810ec50edb99f374409466ed1f4b7b"));
        high.derive(context, &mut key);
        assert_eq!(
            key[..],
            hex("e9c621d4cdd9b11b00a6427ad7e559aeedd66b3857646677748f8ca796cb3fd8")
        );
    }

    /// Without a length field the shorter key is the beginning of the longer one.
    #[test]
    fn a_shorter_key_is_a_prefix() {
        let kdf = kdf(Suite::Aes192Ccm, &[9; 24]);
        let (mut long, mut short) = ([0; 32], [0; 24]);
        kdf.derive(b"twelve bytes", &mut long);
        kdf.derive(b"twelve bytes", &mut short);
        assert_eq!(long[..24], short);
        assert_ne!(long[..16], long[16..]);
    }

    #[test]
    fn suites_never_share_a_key() {
        let data_key = [7; 32];
        let mut seen = std::collections::HashSet::new();
        let suites = Suite::ALL
            .into_iter()
            .filter(|s| *s != Suite::XChaCha20Poly1305);
        for suite in suites {
            let mut key = vec![0; suite.key_len()];
            kdf(suite, &data_key[..suite.key_len()]).derive(&[5; 12], &mut key);
            assert!(seen.insert(key), "{suite} repeats a key");
        }
        assert_eq!(seen.len(), 7);
    }
}
