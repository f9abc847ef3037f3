//! Known-answer tests, quick enough to run at every start.
//!
//! They catch a miscompiled or misloaded library, and a processor whose AES unit fails. They also catch a change of
//! this code that would make old records unreadable. One record of a size that reaches the widest code path of the
//! library is sealed with each suite. The BLAKE3 hash of ciphertext and tag must be the one compiled in. The record
//! must open, and with a flipped bit it must not.

use crate::provider::policy;
use crate::record::{NONCE_LEN, TAG_LEN};
use crate::{Error, Mechanism, Policy, Provider, RecordCipher, Suite};

/// The outcome of the known-answer test of one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// True if the result was right.
    pub ok: bool,
}

/// Tests every algorithm that pools need. One that is not `ok` must not be used.
pub fn selftest() -> Vec<SelfTest> {
    // What FIPS mode forbids is not used.
    let is_allowed = |known: &&KnownAnswer| {
        let mechanism = Mechanism::Record(known.suite);
        !Policy::current().is_fips() || mechanism.is_approved()
    };
    let suites = KNOWN.iter().filter(is_allowed).map(|known| SelfTest {
        algorithm: known.suite.name(),
        ok: policy::provider(Mechanism::Record(known.suite))
            .is_ok_and(|provider| known.holds(provider)),
    });
    let hashes = SelfTest {
        algorithm: "blake3",
        ok: blake3_holds(),
    };
    suites.chain([hashes]).collect()
}

/// A suite and the hash of what it makes of the test record.
pub(crate) struct KnownAnswer {
    pub(crate) suite: Suite,
    /// BLAKE3(ciphertext ‖ tag).
    pub(crate) blake3: &'static str,
}

/// Computed with other implementations, see the tests.
#[rustfmt::skip]
pub(crate) const KNOWN: [KnownAnswer; 8] = [
    KnownAnswer {
        suite: Suite::Xaes256Gcm,
        blake3: "f4e39c78501fb49249f633ed2fec836c08d3a65a69755e9854c7847f9a9d5b5a",
    },
    KnownAnswer { suite: Suite::Aes128Gcm, blake3: "5405e418a00d2dab24555ca61edf03777dbcabd31583de01d50d185cb03893bf" },
    KnownAnswer { suite: Suite::Aes192Gcm, blake3: "7411a632c2a54b02e4320d33a1c7b9d31908f48720c3f00c3fbd6792747f2f3c" },
    KnownAnswer { suite: Suite::Aes256Gcm, blake3: "789bb4c12e31c850a298625eae2b938c970047dfbd538bcd1ecb4ec26ecf94b1" },
    KnownAnswer { suite: Suite::Aes128Ccm, blake3: "9738c455466f32d341f8211b48da1086f8de1145cd529cade30cb2fb1a06c19d" },
    KnownAnswer { suite: Suite::Aes192Ccm, blake3: "9d65e651836aaa288cf03978161b9520e08c4ca5773db9e56fcfa9efa20fdf2e" },
    KnownAnswer { suite: Suite::Aes256Ccm, blake3: "f361f1f5e48817d5b3455ffe74bc51d141ce6ad22cc69bbad37710eec3b137d0" },
    KnownAnswer {
        suite: Suite::XChaCha20Poly1305,
        blake3: "c028fcbe1c088250fb3ad8c9eef20cafe94abcdbc53d3d734e46dd7301ffd8fa",
    },
];

pub(crate) struct TestRecord {
    pub(crate) key: [u8; 32],
    pub(crate) nonce: [u8; NONCE_LEN],
    pub(crate) aad: &'static [u8],
    pub(crate) plain: [u8; 4099],
}

impl TestRecord {
    pub(crate) fn new() -> TestRecord {
        TestRecord {
            key: std::array::from_fn(|i| i as u8),
            nonce: std::array::from_fn(|i| 0x40 + i as u8),
            aad: b"strongroom known-answer test",
            plain: std::array::from_fn(|i| (i % 251) as u8),
        }
    }
}

impl KnownAnswer {
    pub(crate) fn holds(&self, provider: Provider) -> bool {
        self.check(provider).is_ok_and(|holds| holds)
    }

    fn check(&self, provider: Provider) -> crate::Result<bool> {
        let input = TestRecord::new();
        let key = &input.key[..self.suite.key_len()];
        let cipher = RecordCipher::with_provider(provider, self.suite, key)?;
        let mut sealed = [0; 4099];
        let mut tag = cipher.seal(&input.nonce, input.aad, &input.plain, &mut sealed)?;
        let hash = blake3::Hasher::new()
            .update(&sealed)
            .update(&tag)
            .finalize();

        let mut opened = [0; 4099];
        cipher.open(&input.nonce, input.aad, &sealed, &tag, &mut opened)?;
        let opens = opened == input.plain;

        tag[TAG_LEN - 1] ^= 1;
        let forged = cipher.open(&input.nonce, input.aad, &sealed, &tag, &mut opened);
        let refuses = forged == Err(Error::Unauthentic) && opened == [0; 4099];
        Ok(hash.to_hex().as_str() == self.blake3 && opens && refuses)
    }
}

/// The key and one value each of BLAKE3's published test vectors: the input is 0, 1, ..., 250, 0, ...
pub(crate) fn blake3_holds() -> bool {
    let key = b"whats the Elvish word for friend";
    let input: [u8; 1024] = std::array::from_fn(|i| (i % 251) as u8);
    let keyed = blake3::keyed_hash(key, &input).to_hex();
    let plain = blake3::hash(&input).to_hex();
    keyed.as_str() == "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"
        && plain.as_str() == "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pass() {
        let results = selftest();
        assert_eq!(results.len(), Suite::ALL.len() + 1);
        for result in results {
            assert!(result.ok, "{}", result.algorithm);
        }
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        for known in &KNOWN {
            let other = KNOWN.iter().find(|other| other.suite != known.suite);
            let wrong = KnownAnswer {
                suite: known.suite,
                blake3: other.expect("several").blake3,
            };
            assert!(!wrong.holds(Provider::AwsLc));
        }
    }
}
