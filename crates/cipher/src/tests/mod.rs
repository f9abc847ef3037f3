//! Tests of what leaves this crate, and of the primitives below it, against published vectors and
//! other implementations.
//!
//! Published are vectors of AES (FIPS 197) in ECB, CBC and CTR (NIST SP 800-38A) and XTS (IEEE 1619). So are those of
//! Camellia (RFC 5528 for CTR), Serpent and Twofish (cryptsetup's). Standards have vectors of GCM, CCM and the ChaCha
//! family, XAES-256-GCM (C2SP) and CTS (RFC 3962). Authors published HCTR2 and Adiantum. RFCs, drafts and FIPS have
//! hashes, HMAC, VMAC, HKDF, PBKDF2, Argon2 and scrypt. Linux wrote names with fscrypt. Where Project Wycheproof has
//! a set, it is run. The response files of NIST's CAVP are not here: they have more of the same.
//!
//! Nothing is published of these, which another implementation judges:
//! - the record suites but XAES and XChaCha20, whose key derivation is this project's: composed of RustCrypto's
//!   crates in `judges`;
//! - CTR with Serpent and Twofish: composed of their ECB in `sectors`;
//! - AES-192-XTS, which NIST does not have, and keys of 24 bytes of HCTR2 and CTS: AWS-LC and RustCrypto,
//!   each the other's judge;
//! - IVs of sectors but with CBC, for which cryptsetup has them: the same two;
//! - HMAC with hashes that only RustCrypto has (RIPEMD-160, Whirlpool): the hashes are judged, and HMAC with
//!   others is. With BLAKE2, OpenSSL if it is built in;
//! - EME: a second program over OpenSSL's AES; in the crate `stack` also names that gocryptfs made;
//! - the anti-forensic splitter: a second reading of its article in `digests`, and containers of cryptsetup's
//!   in the crate `luks`.

mod digests;
mod judges;
mod keys;
mod messages;
mod names;
mod pieces;
mod primitives;
mod sectors;
mod sizes;
mod tamper;
mod xaes;

use crate::{Mechanism, RecordCipher, Suite};

/// A key with each provider that has the suite, also with those that this processor has no use for.
fn ciphers(suite: Suite, key: &[u8]) -> Vec<RecordCipher> {
    let providers = Mechanism::Record(suite).providers().iter();
    let ciphers = providers.map(|provider| RecordCipher::with_provider(*provider, suite, key));
    ciphers.map(|cipher| cipher.expect("key length")).collect()
}

/// Bytes from hexadecimal digits; spaces are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("hexadecimal"))
        .collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

/// `len` bytes that are no pattern a cipher could have.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    use crate::Random;
    let mut bytes = vec![0; len];
    crate::SeededRandom::new(seed)
        .fill(&mut bytes)
        .expect("never fails");
    bytes
}

/// Cuts `data` at odd places: into pieces of no byte, of some, of blocks, of some sectors.
fn cut(data: &mut [u8], seed: u64) -> Vec<&mut [u8]> {
    let mut pieces = Vec::new();
    let mut rest = data;
    for random in bytes(seed, 4096).as_chunks::<2>().0 {
        let len = match random[0] % 5 {
            0 => 0,
            1 => random[1] as usize % 16,
            2 => random[1] as usize % 4 * 16,
            3 => random[1] as usize,
            _ => random[1] as usize * 41,
        };
        let (piece, after) = rest.split_at_mut(len.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The lines of a file of vectors that begin with `kind`, without it, as fields between spaces; `-` is
/// an empty one.
fn vectors<'a>(file: &'a str, kind: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let fields = move |line: &'a str| {
        let mut fields = line.split(' ');
        (fields.next() == Some(kind)).then(|| {
            fields
                .map(|field| if field == "-" { "" } else { field })
                .collect()
        })
    };
    file.lines().filter_map(fields)
}

/// Vectors of cryptsetup's, whose sources the file names.
const CRYPTSETUP: &str = include_str!("vectors/cryptsetup.txt");
