//! The bytes of a keyring, once and for all. If this test fails, keyrings that exist cannot be read.

mod common;

use cipher::{SeededRandom, Suite};
use common::{CHEAP, FAMILY, generations, key, passphrase};
use keys::{Keyring, WrappingKeyAccess};

/// A passphrase slot, a key slot and two generations, from the seed 2026.
const OWN: &str = include_str!("golden/keyring-v1-own.hex");

/// A child of it, with one generation.
const INHERITED: &str = include_str!("golden/keyring-v1-inherited.hex");

/// The same, with generations in parts: as programs write it now.
const OWN_SPLIT: &str = include_str!("golden/keyring-v3-own.hex");
const INHERITED_SPLIT: &str = include_str!("golden/keyring-v3-inherited.hex");

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = digits.as_bytes().chunks(2);
    let parse = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    pairs
        .map(|pair| parse(pair).expect("hexadecimal"))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| -> String {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
            + "\n"
    };
    bytes.chunks(32).map(line).collect()
}

fn make() -> (Keyring, Keyring) {
    let random = SeededRandom::new(2026);
    let (mut wrapping, wrapping_key) =
        WrappingKeyAccess::create(&passphrase("correct horse"), &CHEAP, 1_700_000_000, &random)
            .expect("create");
    wrapping
        .add_slot(&wrapping_key, 7, &key(0x11), &CHEAP, 1_700_000_001, &random)
        .expect("add");
    let generations = generations(&wrapping_key, &random);
    let own = Keyring::new(FAMILY, wrapping, generations).expect("a keyring");
    let id = *wrapping_key.id();
    let (generation, _) = keys::KeyGeneration::create(
        &wrapping_key,
        FAMILY + 1,
        1,
        9,
        Suite::XChaCha20Poly1305,
        1_700_000_002,
        &random,
    )
    .expect("create");
    let inherited = Keyring::new(
        FAMILY + 1,
        WrappingKeyAccess::Inherited { id },
        vec![generation],
    );
    (own, inherited.expect("a keyring"))
}

#[test]
fn keyrings_are_written_as_they_always_were() {
    let (own, inherited) = make();
    assert_eq!(hex(&own.encode()), OWN_SPLIT);
    assert_eq!(hex(&inherited.encode()), INHERITED_SPLIT);
    for text in [OWN, INHERITED] {
        let old = Keyring::decode(&unhex(text)).expect("intact");
        assert_eq!(hex(&old.encode()), text);
    }
}

#[test]
fn keyrings_of_old_open() {
    let own = Keyring::decode(&unhex(OWN)).expect("intact");
    let inherited = Keyring::decode(&unhex(INHERITED)).expect("intact");
    for material in [passphrase("correct horse"), key(0x11)] {
        let wrapping_key = own.unlock(&material).expect("a slot");
        let keys = own.open(&wrapping_key).expect("the generations");
        let first: String = keys
            .iter()
            .map(|k| format!("{:02x}", k.data.expose()[0]))
            .collect();
        assert_eq!(first, "8b38");
        assert_eq!(inherited.open(&wrapping_key).expect("its key").len(), 1);
    }
}

/// Each field at the place where the documentation says it is.
#[test]
fn fields_are_where_the_documentation_says() {
    let bytes = unhex(OWN);
    let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("2"));
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8"));
    // The header.
    assert_eq!(&bytes[..8], b"SRKEYRNG");
    assert_eq!(u32_at(8) as usize, bytes.len());
    assert_eq!(u16_at(12), 1);
    assert_eq!((bytes[14], bytes[15]), (1, 2));
    assert_eq!((u32_at(16), u32_at(20)), (2, 0));
    assert_eq!(u64_at(24), FAMILY);
    let id = &bytes[32..48];

    // The passphrase slot: head, wrapped key (nonce, commitment, sealed, tag), parameters.
    let slot = 48;
    assert_eq!((u32_at(slot), u16_at(slot + 4)), (0, 1));
    assert_eq!((bytes[slot + 6], bytes[slot + 7]), (1, 128));
    assert_eq!(u64_at(slot + 8), 1_700_000_000);
    assert_eq!(u16_at(slot + 16), 48);
    assert_eq!(bytes[slot + 18..slot + 24], [0; 6]);
    let params = slot + 128;
    assert_eq!((u16_at(params), u16_at(params + 2)), (1, 0));
    assert_eq!(
        (u32_at(params + 4), u32_at(params + 8), u32_at(params + 12)),
        (8, 1, 1)
    );

    // The key slot.
    let slot = params + 48;
    assert_eq!((u32_at(slot), u16_at(slot + 4)), (1, 2));
    assert_eq!((bytes[slot + 6], bytes[slot + 7]), (1, 7));
    assert_eq!(u64_at(slot + 8), 1_700_000_001);
    assert_eq!(u16_at(slot + 16), 32);

    // The generations.
    let generation = slot + 128 + 32;
    for (at, number, suite, txg) in [(generation, 1, 1, 100), (generation + 208, 2, 5, 250)] {
        assert_eq!(
            (u32_at(at), bytes[at + 4], bytes[at + 5]),
            (number, suite, 1)
        );
        assert_eq!((u16_at(at + 6), u64_at(at + 8)), (0, txg));
        assert_eq!(u64_at(at + 16), common::NOW);
        assert_eq!(&bytes[at + 24..at + 40], id);
    }

    // The checksum.
    let end = generation + 2 * 208;
    assert_eq!(bytes.len(), end + 32);
    assert_eq!(bytes[end..], cipher::hash(&bytes[..end]));
}

/// The slot key, the commitment and the wrapped keys, computed from the documentation.
#[test]
fn a_key_slot_opens_by_the_book() {
    let bytes = unhex(OWN);
    let list = |parts: &[&[u8]]| -> Vec<u8> {
        let encode = |part: &&[u8]| [&(part.len() as u64).to_le_bytes()[..], part].concat();
        parts.iter().flat_map(encode).collect()
    };
    let open = |key: &[u8; 32], at: usize, len: usize, aad: &[u8]| -> Vec<u8> {
        let (nonce, rest) = bytes[at..].split_at(24);
        let (commitment, rest) = rest.split_at(32);
        let (sealed, rest) = rest.split_at(len);
        let context = "strongroom 2026-11 key wrapping commitment v1";
        assert_eq!(
            cipher::derive_key(context, &list(&[key, nonce, aad])),
            commitment
        );
        let mut keys = vec![0; len];
        let nonce = nonce.try_into().expect("24 bytes");
        let tag = rest[..16].try_into().expect("16 bytes");
        let cipher = cipher::RecordCipher::new(Suite::Xaes256Gcm, key).expect("32 bytes");
        cipher
            .open(nonce, aad, sealed, tag, &mut keys)
            .expect("open");
        keys
    };

    let slot = 48 + 128 + 48;
    let (head, params) = (&bytes[slot..slot + 24], &bytes[slot + 128..slot + 160]);
    let context = "strongroom 2026-11 slot key from a key v1";
    let slot_key = cipher::derive_key(context, &list(&[&[0x11; 32], params]));
    let aad = [b"strongroom key slot v1", &bytes[32..48], head, params].concat();
    let wrapping_key: [u8; 32] = open(&slot_key, slot + 24, 32, &aad).try_into().expect("32");

    let generation = slot + 160;
    let (family, head) = (FAMILY.to_le_bytes(), &bytes[generation..generation + 40]);
    let aad = [b"strongroom generation v1", &family[..], head].concat();
    let keys = open(&wrapping_key, generation + 40, 96, &aad);

    let keyring = Keyring::decode(&bytes).expect("intact");
    let opened = keyring
        .open(&keyring.unlock(&key(0x11)).expect("a slot"))
        .expect("open");
    assert_eq!(&keys[..32], opened[0].data.expose());
    assert_eq!(&keys[32..64], opened[0].dedup.expose());
    let seal = opened[0].seal.as_ref().expect("it seals");
    assert_eq!(&keys[64..], seal.expose());
}

/// A keyring of before is written in parts when it is wrapped again.
#[test]
fn old_keyrings_become_new_ones_with_the_key() {
    let own = Keyring::decode(&unhex(OWN)).expect("intact");
    let old = own.unlock(&key(0x11)).expect("a slot");
    let random = SeededRandom::new(3);
    let (wrapping, new) = WrappingKeyAccess::create(&key(9), &CHEAP, 0, &random).expect("create");
    let rewrapped = own.rewrap(&old, wrapping, &new, &random).expect("rewrap");
    assert_eq!((own.encode()[12], rewrapped.encode()[12]), (1, 3));
    let (before, after) = (
        own.open(&old).expect("open"),
        rewrapped.open(&new).expect("open"),
    );
    for (a, b) in before.iter().zip(&after) {
        assert!(a.data == b.data && a.dedup == b.dedup && a.seal == b.seal);
    }
    let mut rotated = own.clone();
    rotated
        .rotate(&old, 300, Suite::DEFAULT, 0, &random)
        .expect("rotate");
    assert!(
        own.generations()
            .iter()
            .zip(rotated.generations())
            .all(|(a, b)| a.is_same(b))
    );
    assert!(
        rotated
            .open(&old)
            .expect("open")
            .iter()
            .all(|keys| keys.seal.is_some())
    );
}
