//! Records of every size that could be special, and the lengths that are refused.

use std::mem::MaybeUninit;

use super::{bytes, ciphers};
use crate::{Error, RecordCipher, Suite};

fn cipher(suite: Suite) -> RecordCipher {
    RecordCipher::new(suite, &bytes(1, suite.key_len())).expect("key length")
}

#[test]
fn every_size_comes_back() {
    let boundary = |at: usize| at - 1..=at + 1;
    let around = [128, 256, 512, 4096, 16 << 10, 64 << 10, 128 << 10].map(boundary);
    let sizes: Vec<usize> = (0..=66).chain(around.into_iter().flatten()).collect();
    let plain = bytes(2, (128 << 10) + 1);
    for suite in Suite::ALL {
        for cipher in ciphers(suite, &bytes(1, suite.key_len())) {
            for &len in &sizes {
                comes_back(&cipher, &plain[..len]);
            }
        }
    }
}

fn comes_back(cipher: &RecordCipher, plain: &[u8]) {
    let (suite, len) = (cipher.suite(), plain.len());
    let nonce = bytes(len as u64, 24).try_into().expect("24 bytes");
    let aad = &plain[..len % 97];
    let mut sealed = vec![0; len];
    let tag = cipher.seal(&nonce, aad, plain, &mut sealed).expect("seal");
    assert!(len < 16 || sealed != plain, "{suite}, {len}");

    let mut in_place = plain.to_vec();
    let same = cipher.seal_in_place(&nonce, aad, &mut in_place);
    assert!(same == Ok(tag) && in_place == sealed, "{suite}, {len}");

    let mut opened = vec![0; len];
    cipher
        .open(&nonce, aad, &sealed, &tag, &mut opened)
        .expect("open");
    assert!(opened == plain, "{suite}, {len}");
    cipher
        .open_in_place(&nonce, aad, &mut in_place, &tag)
        .expect("open");
    assert!(in_place == plain, "{suite}, {len}");
}

#[test]
fn output_of_another_length_is_refused() {
    for suite in Suite::ALL {
        let cipher = cipher(suite);
        for (input, output) in [(0, 1), (1, 0), (32, 31), (32, 48)] {
            let mut out = vec![0xaa; output];
            let expected = Error::OutputLength { input, output };
            let sealed = cipher.seal(&[0; 24], &[], &vec![0; input], &mut out);
            assert_eq!(sealed, Err(expected));
            let opened = cipher.open(&[0; 24], &[], &vec![0; input], &[0; 16], &mut out);
            assert_eq!(opened, Err(expected));
            assert!(out.iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn keys_of_another_length_are_refused() {
    for suite in Suite::ALL {
        for got in [0, 1, 15, 16, 17, 24, 31, 32, 33, 64] {
            let expected = suite.key_len();
            let made = RecordCipher::new(suite, &vec![0; got]).map(|cipher| cipher.suite());
            let mut place = MaybeUninit::uninit();
            let in_place = RecordCipher::new_in(&mut place, suite, &vec![0; got]);
            assert_eq!(made, in_place.map(|cipher| cipher.suite()));
            if got == expected {
                assert_eq!(made, Ok(suite));
            } else {
                let error = Error::KeyLength {
                    suite,
                    expected,
                    got,
                };
                assert_eq!(made, Err(error));
            }
        }
    }
}

#[test]
fn ccm_has_a_longest_record() {
    let longest = (1 << 24) - 1;
    let plain = vec![7; longest + 1];
    let mut out = vec![0; longest + 1];
    for suite in [Suite::Aes128Ccm, Suite::Aes192Ccm, Suite::Aes256Ccm] {
        let cipher = cipher(suite);
        let error = Error::TooLong {
            suite,
            max: longest as u64,
            got: longest as u64 + 1,
        };
        assert_eq!(cipher.seal(&[0; 24], &[], &plain, &mut out), Err(error));
        let opened = cipher.open(&[0; 24], &[], &plain, &[0; 16], &mut out);
        assert_eq!(opened, Err(error));
    }
    let cipher = cipher(Suite::Aes128Ccm);
    let (plain, out) = (&plain[..longest], &mut out[..longest]);
    let tag = cipher.seal(&[0; 24], &[], plain, out).expect("the longest");
    cipher
        .open_in_place(&[0; 24], &[], out, &tag)
        .expect("open");
    assert!(out == plain);
}

#[test]
fn new_in_makes_the_same_cipher() {
    for suite in Suite::ALL {
        let key = bytes(1, suite.key_len());
        let mut place = MaybeUninit::uninit();
        let made = RecordCipher::new_in(&mut place, suite, &key).expect("key length");
        let (mut a, mut b) = ([1; 100], [1; 100]);
        let tag_a = made.seal_in_place(&[9; 24], b"aad", &mut a).expect("seal");
        let tag_b = cipher(suite)
            .seal_in_place(&[9; 24], b"aad", &mut b)
            .expect("seal");
        assert_eq!((tag_a, a), (tag_b, b));
    }
}

#[test]
fn a_cipher_is_shared_between_threads_and_prints_nothing() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    let cipher = cipher(Suite::DEFAULT);
    shared(&cipher);
    assert_eq!(
        format!("{cipher:?}"),
        "RecordCipher(xaes-256-gcm, [redacted])"
    );
    // Small and flat: it goes into locked memory.
    assert!(size_of::<RecordCipher>() <= 320);
}
