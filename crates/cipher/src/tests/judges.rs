//! Every suite against an independent composition of other implementations (the RustCrypto crates):
//! the key derivation as a plain CMAC over the documented input, then the AEAD.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use ccm::consts::{U12, U16};
use cmac::{Cmac, Mac};

use super::{bytes, ciphers};
use crate::Suite;
use crate::selftests::selftest;

/// The derived key: CMAC(data key, 00 i label 00 nonce[0..12]) for i = 1, 2, cut to its length.
fn derive(suite: Suite, data_key: &[u8], nonce: &[u8; 24]) -> Vec<u8> {
    let label = match suite {
        Suite::Xaes256Gcm => 0x58,
        Suite::Aes128Gcm => 2,
        Suite::Aes192Gcm => 3,
        Suite::Aes256Gcm => 4,
        Suite::Aes128Ccm => 5,
        Suite::Aes192Ccm => 6,
        Suite::Aes256Ccm => 7,
        Suite::XChaCha20Poly1305 => panic!("derives nothing"),
    };
    let mut key = Vec::new();
    for counter in 1..=2 {
        let mut input = vec![0, counter, label, 0];
        input.extend(&nonce[..12]);
        key.extend(cmac(data_key, &input));
    }
    key.truncate(data_key.len());
    key
}

fn cmac(key: &[u8], input: &[u8]) -> Vec<u8> {
    fn run<M: Mac + KeyInit>(key: &[u8], input: &[u8]) -> Vec<u8> {
        let mac = <M as KeyInit>::new_from_slice(key).expect("key length");
        mac.chain_update(input).finalize().into_bytes().to_vec()
    }
    match key.len() {
        16 => run::<Cmac<aes::Aes128>>(key, input),
        24 => run::<Cmac<aes::Aes192>>(key, input),
        _ => run::<Cmac<aes::Aes256>>(key, input),
    }
}

/// Ciphertext and tag, by the other implementations.
pub(super) fn judge(
    suite: Suite,
    data_key: &[u8],
    nonce: &[u8; 24],
    aad: &[u8],
    plain: &[u8],
) -> Vec<u8> {
    fn run<A: Aead + KeyInit>(key: &[u8], nonce: &[u8], aad: &[u8], msg: &[u8]) -> Vec<u8> {
        let cipher = A::new_from_slice(key).expect("key length");
        let nonce = nonce.try_into().expect("nonce length");
        cipher.encrypt(nonce, Payload { msg, aad }).expect("seal")
    }
    type Gcm<C> = aes_gcm::AesGcm<C, U12>;
    type Ccm<C> = ccm::Ccm<C, U16, U12>;

    if suite == Suite::XChaCha20Poly1305 {
        return run::<chacha20poly1305::XChaCha20Poly1305>(data_key, nonce, aad, plain);
    }
    let key = derive(suite, data_key, nonce);
    let seal = match suite {
        Suite::Aes128Gcm => run::<Gcm<aes::Aes128>>,
        Suite::Aes192Gcm => run::<Gcm<aes::Aes192>>,
        Suite::Xaes256Gcm | Suite::Aes256Gcm => run::<Gcm<aes::Aes256>>,
        Suite::Aes128Ccm => run::<Ccm<aes::Aes128>>,
        Suite::Aes192Ccm => run::<Ccm<aes::Aes192>>,
        _ => run::<Ccm<aes::Aes256>>,
    };
    seal(&key, &nonce[12..], aad, plain)
}

#[test]
fn suites_agree_with_other_implementations() {
    for suite in Suite::ALL {
        for (seed, len) in (0..).zip([0, 1, 15, 16, 17, 255, 256, 4096, 65537]) {
            let key = bytes(seed, suite.key_len());
            let nonce = bytes(seed + 100, 24).try_into().expect("24 bytes");
            let aad = bytes(seed + 200, len % 61);
            let plain = bytes(seed + 300, len);
            let expected = judge(suite, &key, &nonce, &aad, &plain);
            for cipher in ciphers(suite, &key) {
                let mut sealed = vec![0; len];
                let tag = cipher
                    .seal(&nonce, &aad, &plain, &mut sealed)
                    .expect("seal");
                sealed.extend(tag);
                assert!(sealed == expected, "{suite}, {len} bytes");
            }
        }
    }
}

/// The known answers that are compiled in are those of the other implementations.
#[test]
fn selftest_answers_are_right() {
    for known in &selftest::KNOWN {
        let input = selftest::TestRecord::new();
        let key = &input.key[..known.suite.key_len()];
        let sealed = judge(known.suite, key, &input.nonce, input.aad, &input.plain);
        let hash = blake3::hash(&sealed).to_hex();
        assert_eq!(hash.as_str(), known.blake3, "{}", known.suite);
    }
}
