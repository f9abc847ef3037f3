//! The hashes of CHAP (RFC 1994), by which the two sides of iSCSI prove that they know a secret.

use crate::{Digest, DigestOutput, Policy, ffi};

/// A hash that is registered for CHAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChapHash {
    /// The one that each implementation has.
    Md5,
    /// SHA-1, SHA-256 or SHA3-256.
    Digest(Digest),
}

impl ChapHash {
    /// The hash with this number in the registry of PPP.
    pub fn from_number(number: u8) -> Option<ChapHash> {
        match number {
            5 => Some(ChapHash::Md5),
            6 => Some(ChapHash::Digest(Digest::Sha1)),
            7 => Some(ChapHash::Digest(Digest::Sha256)),
            8 => Some(ChapHash::Digest(Digest::Sha3_256)),
            _ => None,
        }
    }

    /// The answer to a challenge. Absent if the policy of the process does not let this hash protect anything.
    /// Compare answers with [`crate::eq`].
    pub fn answer(self, id: u8, secret: &[u8], challenge: &[u8]) -> Option<DigestOutput> {
        let parts = [&[id][..], secret, challenge];
        match self {
            ChapHash::Md5 => {
                let may = !Policy::current().is_fips();
                may.then(|| DigestOutput::new(&ffi::md5(&parts)))
            }
            ChapHash::Digest(digest) => digest.check().is_ok().then(|| digest.hash(&parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// Computed by Python's `hashlib` over the same bytes.
    #[test]
    fn answers_are_those_of_another_implementation() {
        let expected = [
            (5, "7d0a0482fea0eae1f086266a2be727f9"),
            (6, "c9ae92845d53c9cbb189df6d0b96ed6c2fb5e721"),
            (
                7,
                "c25e010a565c976cb6fef215cf008ee24f6fb6f1768e0c513f5a6ab97b841d0f",
            ),
            (
                8,
                "767b52ada93c59c54cdf99ca74099b05ca3847ff6db4390d7d33ef3bd92ece8f",
            ),
        ];
        for (number, answer) in expected {
            let hash = ChapHash::from_number(number).unwrap();
            let made = hash.answer(7, b"twelve bytes", &[1; 16]).unwrap();
            assert_eq!(made[..], hex(answer), "{number}");
        }
        assert_eq!(ChapHash::from_number(4), None);
        assert_eq!(ChapHash::from_number(9), None);
    }
}
