//! Slots with PBKDF2: what they are on a device, and what a hostile one may cost.

mod common;

use cipher::{Digest, SeededRandom};
use common::{CHEAP, FAMILY, NOW, fix_checksum, generations, key, passphrase};
use keys::{
    Error, GuessCost, HashCaller, HashPayer, Keyring, Pbkdf2Params, SlotKind, WrappingKeyAccess,
    hash_for,
};

/// The parameters of the first slot: behind the header of the keyring and the slot.
const PARAMS: usize = 48 + 128;

fn cost(digest: Digest, iterations: u32) -> GuessCost {
    GuessCost::Pbkdf2(Pbkdf2Params::new(digest, iterations).expect("policy"))
}

fn keyring(cost: GuessCost) -> Keyring {
    let random = SeededRandom::new(1);
    let phrase = passphrase("correct horse");
    let (wrapping, key) = WrappingKeyAccess::create(&phrase, cost, NOW, &random).expect("create");
    let generations = generations(&key, &random);
    Keyring::new(FAMILY, wrapping, generations).expect("a keyring")
}

/// The keyring with another field in the parameters of its slot, as an attacker writes it.
fn with_field(keyring: &Keyring, at: usize, value: u32) -> keys::Result<Keyring> {
    let mut bytes = keyring.encode();
    bytes[PARAMS + at..PARAMS + at + 4].copy_from_slice(&value.to_le_bytes());
    fix_checksum(&mut bytes);
    Keyring::decode(&bytes)
}

#[test]
fn a_slot_says_its_hash_and_opens() {
    for (digest, least, number) in [(Digest::Sha256, 600_000, 2), (Digest::Sha512, 210_000, 3)] {
        let cost = cost(digest, least);
        let keyring = keyring(cost);
        let bytes = keyring.encode();
        assert_eq!(bytes[PARAMS..PARAMS + 4], [number, 0, 0, 0]);
        let read = Keyring::decode(&bytes).expect("encoded");
        assert_eq!(read.encode(), bytes);
        let slots = read.wrapping().slots();
        assert!(
            matches!(slots[0].kind(), SlotKind::Passphrase { cost: read, .. } if *read == cost)
        );
        read.unlock(&passphrase("correct horse")).expect("unlock");
        let wrong = read.unlock(&passphrase("wrong horse"));
        assert!(matches!(wrong, Err(Error::WrongKey)));
    }
}

#[test]
fn a_slot_out_of_bounds_is_damaged() {
    let keyring = keyring(cost(Digest::Sha512, 210_000));
    // In this order: memory, iterations, lanes.
    for (at, value) in [(4, 8), (8, 0), (8, (1 << 28) + 1), (8, u32::MAX), (12, 1)] {
        let read = with_field(&keyring, at, value);
        assert!(matches!(read, Err(Error::Damaged(_))), "{at}: {value}");
    }
    // A later hash is kept, and not used.
    let later = with_field(&keyring, 0, 4).expect("readable");
    let tried = later.unlock(&passphrase("correct horse"));
    assert!(matches!(tried, Err(Error::KindMismatch(_))));
}

/// A try for a user that costs more than a user may spend ends before it begins.
#[test]
fn a_hostile_slot_costs_a_user_nothing() {
    let keyring = keyring(cost(Digest::Sha512, 210_000));
    let dear = with_field(&keyring, 8, 1 << 28).expect("in bounds");
    let scope = hash_for(HashCaller {
        payer: HashPayer::User(1000),
        ..HashCaller::default()
    });
    let tried = dear.unlock(&passphrase("correct horse"));
    assert!(matches!(tried, Err(Error::KdfWork { .. })), "{tried:?}");
    drop(scope);
}

#[test]
fn a_slot_can_change_its_hash() {
    let random = SeededRandom::new(1);
    let phrase = passphrase("correct horse");
    let (mut wrapping, own) =
        WrappingKeyAccess::create(&phrase, &CHEAP, NOW, &random).expect("create");
    let pbkdf2 = cost(Digest::Sha512, 210_000);
    wrapping
        .replace_slot(0, &own, &phrase, pbkdf2, NOW, &random)
        .expect("replace");
    wrapping.unlock(&phrase).expect("unlock");
    wrapping
        .add_slot(&own, 128, &key(7), &CHEAP, NOW, &random)
        .expect("add");
    let text = format!("{pbkdf2}");
    assert_eq!(text, "pbkdf2-sha512 210000 iterations");
}
