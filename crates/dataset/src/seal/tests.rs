use std::collections::BTreeSet;

use cipher::{SeededRandom, Suite};
use keys::{Argon2Params, KeyGeneration, KeyMaterial, WrappingKeyAccess};

use super::*;

fn sealer(suite: Option<Suite>, family: u64) -> Sealer {
    sealer_with(7, suite, family)
}

/// With keys that this seed tells.
fn sealer_with(seed: u64, suite: Option<Suite>, family: u64) -> Sealer {
    let Some(suite) = suite else {
        return Sealer::clear(family);
    };
    Sealer::new(family, generations(seed, suite, family)).unwrap()
}

/// Two generations, as this seed tells.
fn generations(seed: u64, suite: Suite, family: u64) -> Vec<DataKeys> {
    let random = SeededRandom::new(seed);
    let material = KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap());
    let params = Argon2Params::insecure_for_tests();
    let (_, wrapping) = WrappingKeyAccess::create(&material, &params, 0, &random).unwrap();
    let make = |number| {
        KeyGeneration::create(
            &wrapping,
            family,
            number,
            u64::from(number),
            suite,
            0,
            &random,
        )
        .unwrap()
        .1
    };
    vec![make(1), make(2)]
}

fn ptr(identity: RecordIdentity) -> RecordPtr {
    RecordPtr {
        identity,
        ..RecordPtr::EMPTY
    }
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 97) as u8).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut noise = vec![0; len];
    SeededRandom::new(9).fill(&mut noise).unwrap();
    noise
}

#[test]
fn every_suite_and_compression_round_trips() {
    let suites = Suite::ALL.iter().copied().map(Some).chain([None]);
    for suite in suites {
        let sealer = sealer(suite, 5);
        for compression in [Compression::Off, Compression::Lz4, Compression::Zstd(3)] {
            for plain in [
                text(4096),
                text(16384),
                text(1 << 20),
                noise(4096),
                noise(131_072),
            ] {
                let random = SeededRandom::new(3);
                let sealed = sealer
                    .seal(
                        ArrayKind::Data,
                        compression,
                        &plain,
                        Nonces::Random(&random),
                    )
                    .unwrap();
                assert!(
                    sealed.bytes.len().is_multiple_of(UNIT) && sealed.bytes.len() <= plain.len()
                );
                let opened = sealer.open(ArrayKind::Data, &ptr(sealed.identity), &sealed.bytes);
                assert_eq!(&opened.unwrap()[..], plain);
                if suite.is_some() {
                    assert_eq!(sealed.identity.generation(), 2);
                    assert!(!sealed.bytes.windows(64).any(|w| plain.starts_with(w)));
                }
            }
        }
    }
}

#[test]
fn compression_is_used_where_it_pays() {
    let sealer = sealer(Some(Suite::Xaes256Gcm), 5);
    let len = |compression, plain: &[u8]| {
        let random = SeededRandom::new(3);
        sealer
            .seal(ArrayKind::Data, compression, plain, Nonces::Random(&random))
            .unwrap()
            .bytes
            .len()
    };
    assert_eq!(len(Compression::Lz4, &text(131_072)), 4096);
    assert_eq!(len(Compression::Lz4, &text(4096)), 4096);
    assert_eq!(len(Compression::Off, &text(131_072)), 131_072);
    assert_eq!(len(Compression::Lz4, &noise(131_072)), 131_072);
}

#[test]
fn everything_that_is_bound_is_checked() {
    for suite in [Some(Suite::Xaes256Gcm), Some(Suite::Aes128Ccm), None] {
        let own = sealer(suite, 5);
        let random = SeededRandom::new(3);
        let sealed = own
            .seal(
                ArrayKind::Data,
                Compression::Lz4,
                &text(16384),
                Nonces::Random(&random),
            )
            .unwrap();
        let good = ptr(sealed.identity);
        assert!(own.open(ArrayKind::Data, &good, &sealed.bytes).is_ok());
        assert!(
            own.open(ArrayKind::Pages, &good, &sealed.bytes).is_err(),
            "another array"
        );
        assert!(
            sealer(suite, 6)
                .open(ArrayKind::Data, &good, &sealed.bytes)
                .is_err(),
            "another family"
        );
        assert!(
            own.open(
                ArrayKind::Data,
                &good,
                &sealed.bytes[..sealed.bytes.len() / 2]
            )
            .is_err()
        );

        use zerocopy::{FromBytes, IntoBytes};
        let checked = good.with_check(&sealed.bytes);
        own.use_generation(next_generation());
        for byte in 0..64 {
            let mut identity = checked.identity;
            identity.as_mut_bytes()[byte] ^= 1;
            // A node's identity covers these.
            let flags = [46, 47].contains(&byte);
            let bad = RecordPtr {
                identity: RecordIdentity::read_from_bytes(identity.as_bytes()).unwrap(),
                ..checked
            };
            let opened = own.open(ArrayKind::Data, &bad, &sealed.bytes);
            let unused_in_clear = suite.is_none() && !(24..52).contains(&byte);
            assert_eq!(opened.is_ok(), flags || unused_in_clear, "byte {byte}");
        }
        for bit in (0..sealed.bytes.len() * 8).step_by(61) {
            let mut bytes = sealed.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(own.open(ArrayKind::Data, &good, &bytes).is_err());
        }
    }
}

#[test]
fn equal_plaintexts_differ() {
    let sealer = sealer(Some(Suite::Aes256Gcm), 5);
    let random = SeededRandom::new(3);
    let seal = || {
        sealer
            .seal(
                ArrayKind::Data,
                Compression::Off,
                &text(4096),
                Nonces::Random(&random),
            )
            .unwrap()
    };
    let (a, b) = (seal(), seal());
    assert_ne!(a.bytes, b.bytes);
    assert_ne!(a.identity.nonce(), b.identity.nonce());
}

#[test]
fn equal_contents_are_sealed_alike_within_a_family_and_generation() {
    let seal = |sealer: &Sealer, compression, plain: &[u8]| {
        let sealed = sealer.seal(ArrayKind::Data, compression, plain, Nonces::OfContents);
        let sealed = sealed.unwrap();
        assert!(sealed.nonce_is_of_contents);
        assert!(
            sealer
                .open(ArrayKind::Data, &ptr(sealed.identity), &sealed.bytes)
                .is_ok()
        );
        (*sealed.identity.nonce(), sealed.bytes)
    };
    for suite in [Some(Suite::Xaes256Gcm), None] {
        let own = sealer(suite, 5);
        let of_noise = seal(&own, Compression::Lz4, &noise(16384));
        assert!(of_noise == seal(&own, Compression::Lz4, &noise(16384)));
        assert_ne!(of_noise.0, seal(&own, Compression::Lz4, &text(16384)).0);
        let mut other = noise(16384);
        other[9000] ^= 1;
        assert_ne!(of_noise.0, seal(&own, Compression::Lz4, &other).0);
        assert_ne!(
            of_noise.0,
            seal(&sealer(suite, 6), Compression::Lz4, &noise(16384)).0
        );
    }
    // Each has keys of its own.
    let suite = Some(Suite::Aes256Gcm);
    let sealers = [1, 2].map(|seed| sealer_with(seed, suite, 5));
    let [a, b] = sealers.map(|sealer| seal(&sealer, Compression::Off, &text(4096)));
    assert_ne!(a.0, b.0);
    assert_ne!(a.1, b.1);
}

#[test]
fn the_dataset_seal_binds_all_its_input() {
    let sealer = sealer(Some(Suite::Xaes256Gcm), 5);
    let input = SealInput {
        guid: 1,
        sequence: 2,
        roots: [
            RecordIdentity::record([1; 24], [2; 16], 0, 0, 0, 0),
            RecordPtr::EMPTY.identity,
        ],
        log: [0; 3],
        log_states: [[0; 16]; 2],
        volume: [0; 2],
        waiting: None,
        facts: None,
    };
    let seal = sealer.dataset_seal(&input);
    assert_eq!(seal, sealer.dataset_seal(&input));
    let mut other = input;
    other.guid = 2;
    assert_ne!(seal, sealer.dataset_seal(&other));
    other = input;
    other.sequence = 3;
    assert_ne!(seal, sealer.dataset_seal(&other));
    other = input;
    other.roots.swap(0, 1);
    assert_ne!(seal, sealer.dataset_seal(&other));
    for n in 0..3 {
        other = input;
        other.log[n] = 4;
        assert_ne!(seal, sealer.dataset_seal(&other));
    }
    for n in 0..2 {
        other = input;
        other.log[0] = 4;
        let without = sealer.dataset_seal(&other);
        other.log_states[n] = [5; 16];
        assert_ne!(without, sealer.dataset_seal(&other));
    }
    for n in 0..2 {
        other = input;
        other.volume[n] = 4096;
        assert_ne!(seal, sealer.dataset_seal(&other));
    }
    other = input;
    other.waiting = Some([0; 32]);
    let waiting = sealer.dataset_seal(&other);
    assert_ne!(seal, waiting);
    other = input;
    other.facts = Some([0; 32]);
    assert_ne!(seal, sealer.dataset_seal(&other));
    assert_ne!(waiting, sealer.dataset_seal(&other));
}

#[test]
fn the_log_is_sealed_apart_from_records() {
    for suite in [Some(Suite::Xaes256Gcm), None] {
        let sealer = sealer(suite, 5);
        let random = SeededRandom::new(1);
        let plain = vec![7; 4096];
        let mut sealed = plain.clone();
        let identity = sealer.seal_log(b"place", &mut sealed, &random).unwrap();
        assert_eq!(sealed == plain, suite.is_none());
        let opened = sealer.open_log(&identity, Some(b"place"), &sealed);
        assert_eq!(opened.as_deref(), Ok(&plain[..]));
        for elsewhere in [Some(&b"other"[..]), Some(b""), None] {
            let opened = sealer.open_log(&identity, elsewhere, &sealed);
            assert_eq!(opened, Err(OpenError::Unauthentic));
        }

        let mut bad = sealed.clone();
        bad[100] ^= 1;
        let opened = sealer.open_log(&identity, Some(b"place"), &bad);
        assert_eq!(opened, Err(OpenError::Unauthentic));
        let opened = sealer.open_log(&identity, Some(b"place"), &sealed[..2048]);
        assert_eq!(opened, Err(OpenError::Malformed));

        let record = sealer.seal(
            ArrayKind::Data,
            Compression::Off,
            &plain,
            Nonces::Random(&random),
        );
        let record = record.unwrap();
        for associated in [Some(&b""[..]), None] {
            let opened = sealer.open_log(&record.identity, associated, &record.bytes);
            assert_eq!(opened, Err(OpenError::Unauthentic));
        }
        let mut ptr = RecordPtr::EMPTY;
        ptr.identity = identity;
        let opened = sealer.open(ArrayKind::Data, &ptr, &sealed);
        assert!(matches!(opened, Err(OpenError::Unauthentic)));
    }
}

#[test]
fn who_lacks_the_seal_key_makes_no_entry_of_a_log() {
    for suite in Suite::ALL.iter().copied() {
        let random = SeededRandom::new(1);
        let owner = sealer(Some(suite), 5);
        let mut keys = generations(7, suite, 5);
        for generation in &mut keys {
            generation.seal = Some(Key::from_bytes(&[0; Key::LEN]).unwrap());
        }
        let reader = Sealer::new(5, keys).unwrap();
        let record = |sealer: &Sealer| {
            let nonces = Nonces::Random(&random);
            let sealed = sealer.seal(ArrayKind::Data, Compression::Off, &text(4096), nonces);
            sealed.unwrap()
        };
        let theirs = record(&reader);
        let opened = owner.open(ArrayKind::Data, &ptr(theirs.identity), &theirs.bytes);
        assert!(opened.is_ok(), "it has the data key");
        let mut sealed = text(4096);
        let identity = reader.seal_log(b"place", &mut sealed, &random).unwrap();
        let opened = owner.open_log(&identity, Some(b"place"), &sealed);
        assert_eq!(opened, Err(OpenError::Unauthentic));
    }
}

/// A source that repeats itself.
struct RepeatedRandom;

impl Random for RepeatedRandom {
    fn fill(&self, bytes: &mut [u8]) -> cipher::Result<()> {
        bytes.fill(0x5a);
        Ok(())
    }
}

/// Another ciphertext with the same nonce and tag, by the key holder. A tag of GCM is linear in the ciphertext: of 129
/// bits that can be flipped, some flips cancel each other.
fn same_tag(sealer: &Sealer, sealed: &SealOutput, plain: &[u8]) -> Vec<u8> {
    let tag_with = |bit: usize| {
        let mut changed = plain.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        let nonces = Nonces::Random(&RepeatedRandom);
        let sealed = sealer.seal(ArrayKind::Data, Compression::Off, &changed, nonces);
        u128::from_le_bytes(*sealed.unwrap().identity.tag())
    };
    let tag = u128::from_le_bytes(*sealed.identity.tag());
    // Rows of a system of equations: what a set of flips does to the tag, and the set.
    let mut rows: Vec<(u128, BTreeSet<usize>)> = Vec::new();
    for bit in 0.. {
        let (mut change, mut flips) = (tag_with(bit) ^ tag, BTreeSet::from([bit]));
        for (other, others) in &rows {
            if change & (1 << other.trailing_zeros()) != 0 {
                change ^= other;
                flips = &flips ^ others;
            }
        }
        if change != 0 {
            rows.push((change, flips));
            continue;
        }
        let mut forged = sealed.bytes.clone();
        for flip in flips {
            forged[flip / 8] ^= 1 << (flip % 8);
        }
        return forged;
    }
    unreachable!("a tag has 128 bits");
}

/// Returns the keys that a rotation adds to those of [`sealer`].
fn next_generation() -> NewGeneration {
    let random = SeededRandom::new(8);
    let material = KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap());
    let params = Argon2Params::insecure_for_tests();
    let (_, wrapping) = WrappingKeyAccess::create(&material, &params, 0, &random).unwrap();
    let made = KeyGeneration::create(&wrapping, 5, 3, 3, Suite::Xaes256Gcm, 0, &random);
    let (_, mut keys) = made.unwrap();
    keys.heads = Heads::FromHere;
    NewGeneration::new(keys).unwrap()
}

#[test]
fn another_ciphertext_with_the_same_tag_is_refused() {
    let sealer = sealer(Some(Suite::Xaes256Gcm), 5);
    let plain = noise(4096);
    let nonces = Nonces::Random(&RepeatedRandom);
    let sealed = sealer
        .seal(ArrayKind::Data, Compression::Off, &plain, nonces)
        .unwrap();
    let forged = same_tag(&sealer, &sealed, &plain);
    assert_ne!(forged, sealed.bytes);

    // Who has the data key of a generation that seals heads can make another head. So the tag is enough.
    let old = ptr(sealed.identity);
    let checked = old.with_check(&sealed.bytes);
    for ptr in [&old, &checked] {
        let opened = sealer.open(ArrayKind::Data, ptr, &forged);
        assert_ne!(&opened.unwrap()[..], plain);
    }
    sealer.use_generation(next_generation());
    // A record of an older program has its tag only.
    assert!(sealer.open(ArrayKind::Data, &old, &forged).is_ok());
    let opened = sealer.open(ArrayKind::Data, &checked, &sealed.bytes);
    assert_eq!(&opened.unwrap()[..], plain);
    let opened = sealer.open(ArrayKind::Data, &checked, &forged);
    assert_eq!(opened.err(), Some(OpenError::Unauthentic));
    let random = SeededRandom::new(1);
    let moved = sealer.reseal(ArrayKind::Data, &checked, &forged, Nonces::Random(&random));
    assert_eq!(moved.err(), Some(OpenError::Unauthentic));
}
