//! Length-preserving ciphers against published vectors, with the AES of each provider.

use super::{bytes, hex, vectors};
use crate::{Digest, Error, NameCipher, NameMode, Provider};

/// The providers with AES for these modes.
const PROVIDERS: [Provider; 2] = [Provider::AwsLc, Provider::Portable];

const VECTORS: &str = include_str!("vectors/names.txt");

fn published(kind: &str, mode: NameMode) -> usize {
    let mut count = 0;
    for fields in vectors(VECTORS, kind) {
        let [key, tweak, plain, sealed] = fields[..] else {
            panic!("{fields:?}");
        };
        for provider in PROVIDERS {
            let cipher = NameCipher::with_provider(provider, mode, &hex(key)).expect("key");
            let mut data = hex(plain);
            cipher.encrypt(&hex(tweak), &mut data).expect("encrypt");
            assert_eq!(data, hex(sealed), "{mode} {provider} {fields:?}");
            cipher.decrypt(&hex(tweak), &mut data).expect("decrypt");
            assert_eq!(data, hex(plain), "{mode} {provider}");
        }
        count += 1;
    }
    count
}

#[test]
fn hctr2_of_google() {
    assert_eq!(published("hctr2", NameMode::Hctr2), 35);
}

#[test]
fn adiantum_of_google() {
    assert_eq!(published("adiantum12", NameMode::Adiantum), 5);
    assert_eq!(published("adiantum20", NameMode::AdiantumXChaCha20), 5);
}

#[test]
fn eme_of_a_second_program() {
    assert_eq!(published("eme", NameMode::Eme), 5);
}

#[test]
fn cts_of_rfc_3962() {
    assert_eq!(published("cts", NameMode::CbcCts), 6);
}

/// The kernel wrote these names to a disk, with keys of 16 and 32 bytes.
#[test]
fn names_of_linux() {
    assert_eq!(published("linux-cts", NameMode::CbcCts), 8);
    assert_eq!(published("linux-hctr2", NameMode::Hctr2), 5);
    assert_eq!(published("linux-adiantum12", NameMode::Adiantum), 5);
}

/// Blocks of files, which are longer than what Adiantum hashes at once.
#[test]
fn contents_of_linux() {
    let mut count = 0;
    for fields in vectors(VECTORS, "linux-contents") {
        let [key, tweak, plain, sha256] = fields[..] else {
            panic!("{fields:?}");
        };
        for provider in PROVIDERS {
            let cipher = NameCipher::with_provider(provider, NameMode::Adiantum, &hex(key));
            let mut data = hex(plain);
            data.resize(4096, 0);
            let done = cipher.expect("key").encrypt(&hex(tweak), &mut data);
            done.expect("encrypt");
            assert_eq!(Digest::Sha256.hash(&[&data])[..], hex(sha256), "{provider}");
        }
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn every_length_comes_back() {
    for mode in NameMode::ALL {
        let tweak = bytes(1, mode.tweak_len().unwrap_or(32));
        for key_len in mode.key_lens() {
            let key = bytes(2, *key_len);
            let ciphers = PROVIDERS.map(|provider| {
                NameCipher::with_provider(provider, mode, &key).expect("key length")
            });
            let lens = (16..=300).chain([1023, 1024, 1025, 2048, 4099]);
            for len in lens.filter(|len| mode.takes(*len)) {
                let plain = bytes(len as u64, len);
                let sealed = ciphers.each_ref().map(|cipher| {
                    let mut data = plain.clone();
                    cipher.encrypt(&tweak, &mut data).expect("encrypt");
                    let sealed = data.clone();
                    cipher.decrypt(&tweak, &mut data).expect("decrypt");
                    assert!(data == plain, "{mode}, {len}");
                    sealed
                });
                assert!(
                    sealed[0] == sealed[1] && sealed[0] != plain,
                    "{mode}, {len}"
                );
            }
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for mode in NameMode::ALL {
        for len in [0, 15, 33, 64] {
            let made = NameCipher::new(mode, &vec![0; len]);
            assert!(matches!(made, Err(Error::NameSize { .. })), "{mode}, {len}");
        }
        let cipher = NameCipher::new(mode, &[1; 32]).expect("key length");
        let tweak = vec![0; mode.tweak_len().unwrap_or(0)];
        let broken = [17, 40, 2047, 2064].into_iter();
        let broken = broken.filter(|_| mode == NameMode::Eme);
        for len in [0, 1, 15].into_iter().chain(broken) {
            let mut data = vec![7; len];
            let done = cipher.encrypt(&tweak, &mut data);
            assert!(matches!(done, Err(Error::NameSize { .. })), "{mode}, {len}");
            let done = cipher.decrypt(&tweak, &mut data);
            assert!(matches!(done, Err(Error::NameSize { .. })), "{mode}, {len}");
        }
        if mode.tweak_len().is_some() {
            let done = cipher.encrypt(&[0; 12], &mut [0; 16]);
            assert!(matches!(done, Err(Error::NameSize { .. })), "{mode}");
        }
    }
}
