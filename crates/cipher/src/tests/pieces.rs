//! Data in several slices gives the same as data in one, in every mode of every provider (messages of AEADs are in
//! `messages`).

use super::{bytes, cut};
use crate::{
    Digest, Error, Mechanism, NameCipher, NameMode, RecordCipher, SectorCipher, SectorSpec, Suite,
};

/// Cuts of each kind that are tried.
const CUTS: u64 = 12;

#[test]
fn sectors_in_pieces() {
    let mut seed = 0;
    for mechanism in Mechanism::all() {
        let Mechanism::Sector(cipher, mode) = mechanism else {
            continue;
        };
        let name = format!("{}-{}-essiv:sha256", cipher.name(), mode.name());
        let spec = SectorSpec::parse(&name).expect("name");
        let built = mechanism.providers().iter().filter(|p| p.is_available());
        for provider in built {
            for key_len in spec.key_lens() {
                let key = bytes(seed, *key_len);
                let Ok(cipher) = SectorCipher::with_provider(*provider, spec, &key) else {
                    // OpenSSL has no AES-192-XTS.
                    continue;
                };
                for (size, count) in [(16, 41), (48, 7), (512, 9), (4096, 3)] {
                    seed += 1;
                    check_sectors(&cipher, seed, size, count);
                }
            }
        }
    }
    assert!(seed > 200, "{seed}");
}

fn check_sectors(cipher: &SectorCipher, seed: u64, size: usize, count: usize) {
    // Around the end of the numbers, where the next is 0 again.
    let (first, step) = (u64::MAX - seed % 11, seed % 9);
    let plain = bytes(seed, size * count);
    let mut whole = plain.clone();
    cipher
        .encrypt(first, step, size, &mut whole)
        .expect("encrypt");
    let mut data = vec![0; 16 + plain.len()];
    for cuts in 0..CUTS {
        let data = &mut data[seed as usize % 16..][..plain.len()];
        data.copy_from_slice(&plain);
        let done = cipher.encrypt_pieces(first, step, size, &mut cut(data, seed * CUTS + cuts));
        assert!(done.is_ok() && *data == whole, "{cipher:?} {size} {cuts}");
        let done = cipher.decrypt_pieces(first, step, size, &mut cut(data, seed * CUTS - cuts));
        assert!(done.is_ok() && *data == plain, "{cipher:?} {size} {cuts}");
    }
    check_one_sector(cipher, seed, &plain);
}

/// All of `plain` as one sector.
fn check_one_sector(cipher: &SectorCipher, seed: u64, plain: &[u8]) {
    let iv = bytes(seed, 16).try_into().expect("16 bytes");
    let mut whole = plain.to_vec();
    cipher.encrypt_with(&iv, &mut whole).expect("encrypt");
    let mut data = plain.to_vec();
    let done = cipher.encrypt_pieces_with(&iv, &mut cut(&mut data, seed));
    assert!(done.is_ok() && data == whole, "{cipher:?}");
    let done = cipher.decrypt_pieces_with(&iv, &mut cut(&mut data, seed + 1));
    assert!(done.is_ok() && data == plain, "{cipher:?}");
}

/// Also in the tails of ciphertext stealing, and where it exchanges blocks.
#[test]
fn names_in_pieces() {
    for mode in NameMode::ALL {
        let tweak = bytes(1, mode.tweak_len().unwrap_or(32));
        for provider in Mechanism::Name(mode).providers() {
            let cipher =
                NameCipher::with_provider(*provider, mode, &bytes(2, 32)).expect("key length");
            let lens = [16, 17, 31, 32, 33, 47, 48, 50].into_iter();
            for len in lens.filter(|len| mode.takes(*len)) {
                let plain = bytes(3, len);
                let mut whole = plain.clone();
                cipher.encrypt(&tweak, &mut whole).expect("encrypt");
                for cuts in every_cut(len) {
                    let mut data = plain.clone();
                    let done = cipher.encrypt_pieces(&tweak, &mut cut_at(&mut data, cuts));
                    assert!(done.is_ok() && data == whole, "{mode} {provider} {cuts:?}");
                    let done = cipher.decrypt_pieces(&tweak, &mut cut_at(&mut data, cuts));
                    assert!(done.is_ok() && data == plain, "{mode} {provider} {cuts:?}");
                }
            }
        }
    }
}

/// Each two places where so much can be cut.
fn every_cut(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=len).flat_map(move |one| (one..=len).map(move |two| (one, two)))
}

fn cut_at(data: &mut [u8], (one, two): (usize, usize)) -> [&mut [u8]; 3] {
    let (first, rest) = data.split_at_mut(one);
    let (second, third) = rest.split_at_mut(two - one);
    [first, second, third]
}

#[test]
fn records_in_pieces() {
    for suite in Suite::ALL {
        let cipher = RecordCipher::new(suite, &bytes(1, suite.key_len())).expect("key length");
        let nonce = bytes(2, 24).try_into().expect("24 bytes");
        for (seed, len) in (0..).zip([0, 1, 16, 255, 4096, 20_000]) {
            let plain = bytes(seed, len);
            let mut whole = plain.clone();
            let tag = cipher.seal_in_place(&nonce, b"aad", &mut whole);
            let tag = tag.expect("seal");
            for cuts in 0..CUTS {
                let mut data = plain.clone();
                let mut pieces = cut(&mut data, seed * CUTS + cuts);
                let made = cipher.seal_pieces(&nonce, b"aad", &mut pieces);
                assert!(made == Ok(tag) && data == whole, "{suite} {len}");
                let mut pieces = cut(&mut data, seed * CUTS + cuts + 1);
                let opened = cipher.open_pieces(&nonce, b"aad", &mut pieces, &tag);
                assert!(opened.is_ok() && data == plain, "{suite} {len}");

                let mut data = whole.clone();
                let mut pieces = cut(&mut data, seed * CUTS + cuts);
                let opened = cipher.open_pieces(&nonce, b"other", &mut pieces, &tag);
                assert_eq!(opened, Err(Error::Unauthentic), "{suite} {len}");
                assert!(data.iter().all(|byte| *byte == 0), "{suite} {len}");
            }
        }
    }
}

/// Wrong lengths are refused before anything is changed, whatever is in the pieces.
#[test]
fn wrong_sizes_of_pieces_are_refused() {
    let spec = SectorSpec::parse("aes-cbc-plain64").expect("name");
    let cipher = SectorCipher::new(spec, &[1; 16]).expect("key length");
    for len in [0, 511, 513, 1025] {
        let mut data = vec![7; len];
        let (one, two) = data.split_at_mut(len / 2);
        let done = cipher.encrypt_pieces(0, 1, 512, &mut [one, &mut [], two]);
        match len {
            0 => done.expect("no sectors"),
            _ => {
                let error = Error::SectorSize {
                    sector: 512,
                    data: len,
                };
                assert_eq!(done, Err(error));
                assert_eq!(data, vec![7; len]);
            }
        }
    }
    let short = [&mut [1; 10][..], &mut [2; 5]];
    let cipher = NameCipher::new(NameMode::CbcCts, &[1; 16]).expect("key length");
    let done = cipher.encrypt_pieces(&[0; 16], &mut { short });
    assert!(matches!(done, Err(Error::NameSize { got: 15, .. })));
}

/// Hashes and MACs take parts, which are as one wherever they are cut.
#[test]
fn parts_of_hashes() {
    let mut data = bytes(1, 700);
    let whole = data.clone();
    for digest in Digest::ALL {
        let providers = Mechanism::Digest(digest).providers().iter();
        for (seed, provider) in (0..).zip(providers.filter(|p| p.is_available())) {
            for seed in seed * CUTS..(seed + 1) * CUTS {
                let parts = cut(&mut data, seed);
                let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
                let hashes = [&parts[..], &[&whole]].map(|parts| {
                    let hash = digest.hash_by(*provider, parts).expect("hash");
                    let mac = digest.hmac_by(*provider, b"key", parts);
                    (hash.to_vec(), mac.ok().map(|mac| mac.to_vec()))
                });
                assert_eq!(hashes[0], hashes[1], "{digest} {provider}");
            }
        }
    }
}
