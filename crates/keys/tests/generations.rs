//! Data keys by transaction group: rotation, rewrapping, clones, retirement.

mod common;

use cipher::{SeededRandom, Suite};
use common::{CHEAP, FAMILY, NOW, generations, key, keyring, passphrase};
use keys::{DataKeys, Error, Heads, KeyGeneration, Keyring, WrappingKeyAccess};

fn same(a: &DataKeys, b: &DataKeys) -> bool {
    (a.generation, a.txg, a.suite) == (b.generation, b.txg, b.suite)
        && a.data == b.data
        && a.dedup == b.dedup
        && a.seal == b.seal
}

#[test]
fn a_generation_opens_to_the_keys_it_was_made_with() {
    let random = SeededRandom::new(1);
    let (_, wrapping_key) = keyring(&key(7), &random);
    for suite in Suite::ALL {
        let (generation, made) =
            KeyGeneration::create(&wrapping_key, FAMILY, 4, 77, suite, NOW, &random)
                .expect("create");
        let opened = generation.open(&wrapping_key, FAMILY).expect("open");
        assert!(same(&made, &opened));
        assert_eq!(
            (opened.generation, opened.txg, opened.suite),
            (4, 77, suite)
        );
        let seal = made.seal.as_ref().expect("it seals");
        assert!(made.data != made.dedup && made.dedup != *seal && made.data != *seal);
        assert_eq!(generation.wrapped_len(), 128);
        assert_eq!(generation.created(), NOW);
        assert_eq!(generation.wrapping_key(), wrapping_key.id());

        // The record ciphers of both are the same.
        let (one, two) = (made.record_cipher(), opened.record_cipher());
        let mut data = *b"a record";
        let sealed = one
            .expect("memory")
            .seal_in_place(&[3; 24], b"aad", &mut data);
        let tag = sealed.expect("seal");
        let opened = two
            .expect("memory")
            .open_in_place(&[3; 24], b"aad", &mut data, &tag);
        opened.expect("open");
        assert_eq!(&data, b"a record");
    }
}

/// `key change -o keysource`, or `inherit`: another wrapping key, the same data keys.
#[test]
fn rewrapping_keeps_the_data_keys() {
    let random = SeededRandom::new(1);
    let (keyring, old) = keyring(&passphrase("correct horse"), &random);
    let before = keyring.open(&old).expect("open");

    let (wrapping, new) = WrappingKeyAccess::create(&key(9), &CHEAP, NOW, &random).expect("create");
    let rewrapped = keyring
        .rewrap(&old, wrapping, &new, &random)
        .expect("rewrap");
    let rewrapped = Keyring::decode(&rewrapped.encode()).expect("encoded");
    let after = rewrapped
        .open(&rewrapped.unlock(&key(9)).expect("unlock"))
        .expect("open");
    assert!(before.len() == 2 && before.iter().zip(&after).all(|(a, b)| same(a, b)));
    assert!(matches!(rewrapped.open(&old), Err(Error::WrongKey)));
    // Nothing of the old wrapped bytes is left.
    let (old_bytes, new_bytes) = (keyring.encode(), rewrapped.encode());
    let generation = &old_bytes[old_bytes.len() - 32 - 280..old_bytes.len() - 32];
    for (at, len) in [(40, 136), (40 + 136, 104)] {
        let mut wrapped = generation[at..at + len].chunks_exact(16);
        assert!(!wrapped.any(|part| new_bytes.windows(16).any(|window| window == part)));
    }

    // The wrong old key, or a wrapping that does not name the new one, changes nothing.
    let inherited = WrappingKeyAccess::Inherited { id: *new.id() };
    let wrong = rewrapped.rewrap(&old, inherited.clone(), &new, &random);
    assert!(matches!(wrong, Err(Error::WrongKey)));
    let unnamed = keyring.rewrap(&old, inherited, &old, &random);
    assert!(matches!(unnamed, Err(Error::Keyring(_))));
}

#[test]
fn a_clone_has_the_generations_under_its_own_wrapping_key() {
    let random = SeededRandom::new(1);
    let (origin, parent) = keyring(&passphrase("correct horse"), &random);
    let (wrapping, own) = WrappingKeyAccess::create(&key(9), &CHEAP, NOW, &random).expect("create");
    let mut clone = origin
        .rewrap(&parent, wrapping, &own, &random)
        .expect("rewrap");
    clone
        .rotate(&own, 300, Suite::DEFAULT, NOW, &random)
        .expect("rotate");

    let (of_origin, of_clone) = (
        origin.open(&parent).expect("open"),
        clone.open(&own).expect("open"),
    );
    assert_eq!((of_origin.len(), of_clone.len()), (2, 3));
    assert!(of_origin.iter().zip(&of_clone).all(|(a, b)| same(a, b)));
    assert!(of_clone[2].data != of_clone[1].data);
}

#[test]
fn rotation_adds_a_generation() {
    let random = SeededRandom::new(1);
    let (mut keyring, wrapping_key) = keyring(&key(7), &random);
    let before = keyring.open(&wrapping_key).expect("open");
    let keys = keyring
        .rotate(
            &wrapping_key,
            400,
            Suite::XChaCha20Poly1305,
            NOW + 9,
            &random,
        )
        .expect("rotate");
    assert_eq!((keys.generation, keys.txg), (3, 400));
    let newest = keyring.newest();
    assert_eq!(
        (newest.number(), newest.txg(), newest.created()),
        (3, 400, NOW + 9)
    );
    assert_eq!(newest.suite(), Suite::XChaCha20Poly1305);
    let keyring = Keyring::decode(&keyring.encode()).expect("encoded");
    let after = keyring.open(&wrapping_key).expect("open");
    assert!(after.len() == 3 && before.iter().zip(&after).all(|(a, b)| same(a, b)));
    assert!(same(&after[2], &keys));
    assert!(after[1].data != after[2].data);
    assert_eq!(keyring.generation(2).map(KeyGeneration::txg), Some(250));
    assert_eq!(keyring.generation(9), None);
}

#[test]
fn rotation_is_refused_without_changing_anything() {
    let random = SeededRandom::new(1);
    let (mut keyring, wrapping_key) = keyring(&key(7), &random);
    let (_, other) = WrappingKeyAccess::create(&key(7), &CHEAP, NOW, &random).expect("create");
    let before = keyring.clone();
    let with_other = keyring.rotate(&other, 400, Suite::DEFAULT, NOW, &random);
    assert!(matches!(with_other, Err(Error::WrongKey)));
    let too_early = keyring.rotate(&wrapping_key, 249, Suite::DEFAULT, NOW, &random);
    assert!(matches!(too_early, Err(Error::Keyring(_))));
    assert_eq!(keyring, before);
}

#[test]
fn a_generation_is_retired_but_not_the_newest() {
    let random = SeededRandom::new(1);
    let (mut keyring, wrapping_key) = keyring(&key(7), &random);
    assert!(matches!(keyring.retire(2), Err(Error::Keyring(_))));
    assert!(matches!(keyring.retire(7), Err(Error::NoGeneration(7))));
    keyring.retire(1).expect("no record uses it");
    assert!(matches!(keyring.retire(1), Err(Error::NoGeneration(1))));
    let keyring = Keyring::decode(&keyring.encode()).expect("encoded");
    let keys = keyring.open(&wrapping_key).expect("open");
    assert_eq!(
        keys.iter().map(|keys| keys.generation).collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn only_keyrings_that_can_be_stored_are_made() {
    let random = SeededRandom::new(1);
    let (keyring, wrapping_key) = keyring(&key(7), &random);
    let (_, other) = WrappingKeyAccess::create(&key(7), &CHEAP, NOW, &random).expect("create");
    let wrapping = keyring.wrapping();
    let good = generations(&wrapping_key, &random);
    let refused = |wrapping: &WrappingKeyAccess, generations: Vec<KeyGeneration>| {
        let made = Keyring::new(FAMILY, wrapping.clone(), generations);
        assert!(matches!(made, Err(Error::Keyring(_))));
    };
    refused(wrapping, vec![]);
    refused(wrapping, good.iter().rev().cloned().collect());
    refused(wrapping, vec![good[0].clone(), good[0].clone()]);
    refused(wrapping, generations(&other, &random));
    let (id, slots) = (*wrapping_key.id(), wrapping.slots());
    refused(&WrappingKeyAccess::Own { id, slots: vec![] }, good.clone());
    let twice = [slots, slots].concat();
    refused(&WrappingKeyAccess::Own { id, slots: twice }, good.clone());
    Keyring::new(FAMILY, wrapping.clone(), good).expect("a keyring");
}

/// A generation that was added without the key does not open, and takes nothing from the others.
#[test]
fn what_does_not_open_is_left_aside() {
    let random = SeededRandom::new(1);
    let (keyring, key) = keyring(&key(7), &random);
    let whole = keyring.open(&key).expect("open");
    let (opened, foreign) = keyring.opened_by(&key).expect("open");
    assert!(opened == keyring && foreign.is_empty());
    let (_, other) =
        WrappingKeyAccess::create(&common::key(9), &CHEAP, NOW, &random).expect("create");
    assert!(matches!(keyring.opened_by(&other), Err(Error::WrongKey)));

    let mut bytes = keyring.encode();
    let sum = bytes.len() - 32;
    bytes[sum - 1] ^= 1;
    let checksum = cipher::hash(&bytes[..sum]);
    bytes[sum..].copy_from_slice(&checksum);
    let changed = Keyring::decode(&bytes).expect("its checksum is right");
    assert!(matches!(changed.open(&key), Err(Error::Damaged(_))));
    let (opened, foreign) = changed.opened_by(&key).expect("one opens");
    assert_eq!(foreign, [keyring.newest().number()]);
    let left = opened.open(&key).expect("open");
    assert!(left.len() == 1 && same(&left[0], &whole[0]));
}

/// A clone under another key reads what it shares, and seals nothing of its origin.
#[test]
fn a_clone_under_another_key_has_no_seal_keys_of_its_origin() {
    let random = SeededRandom::new(1);
    let (mut origin, old) = keyring(&key(7), &random);
    let (wrapping, new) = WrappingKeyAccess::create(&key(9), &CHEAP, NOW, &random).expect("create");
    let make = |is_apart| {
        let shared = (250, is_apart);
        origin.for_clone(shared, &old, wrapping.clone(), &new, &random)
    };
    // As a whole under a key that both have.
    assert!(
        make(false).expect("a clone").open(&new).expect("open")[1]
            .seal
            .is_some()
    );

    let mut clone = make(true).expect("a clone");
    assert!(clone.seals_no_heads());
    assert_eq!(heads(&clone), [Heads::Later; 2]);
    let last = origin.newest().number();
    let rotate = clone.rotate_beyond(last + 1, &new, 300, Suite::DEFAULT, NOW, &random);
    rotate.expect("rotate");
    origin
        .rotate(&old, 300, Suite::DEFAULT, NOW, &random)
        .expect("rotate");
    let clone = Keyring::decode(&clone.encode()).expect("encoded");
    let (of_clone, of_origin) = (
        clone.open(&new).expect("open"),
        origin.open(&old).expect("open"),
    );
    for (a, b) in of_clone.iter().zip(&of_origin).take(2) {
        assert!(a.data == b.data && a.dedup == b.dedup && a.seal.is_none() && b.seal.is_some());
    }
    let opened = |found: &DataKeys| (found.generation, found.seal.is_some());
    assert_eq!(opened(&of_clone[2]), (4, true));
    // What the origin writes from now on, in a generation of the same transaction group.
    assert_eq!(opened(&of_origin[2]), (3, true));
    assert_eq!(origin.head_floor(), 3);
    assert!(clone.generation(3).is_none());
    let known = [&of_clone[2].data, &of_clone[2].dedup].contains(&&of_origin[2].data);
    assert!(!known && of_clone[2].seal != of_origin[2].seal);

    // A stream of what the clone has from its origin brings the generation that seals it.
    let sent = clone
        .for_stream(250, false, clone.wrapping())
        .expect("to send");
    assert_eq!(sent, clone);
    // Another change of the key does not bring the seal keys back.
    let (wrapping, next) =
        WrappingKeyAccess::create(&key(5), &CHEAP, NOW, &random).expect("create");
    let changed = clone
        .rewrap(&new, wrapping, &next, &random)
        .expect("rewrap");
    assert!(changed.open(&next).expect("open")[0].seal.is_none());
    assert_eq!(heads(&changed), heads(&clone));
}

/// Parts of a generation fit no other: each says which part it is, and whether the generation has the other one.
#[test]
fn a_part_of_a_generation_is_taken_for_no_other() {
    let random = SeededRandom::new(1);
    let (keyring, wrapping_key) = keyring(&key(7), &random);
    let bytes = keyring.encode();
    let end = bytes.len() - 32;
    let second = end - 280;
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        common::fix_length_and_checksum(&mut bytes);
        Keyring::decode(&bytes)
    };
    // The seal key taken away: the head says that it was there.
    let cut = |bytes: &mut Vec<u8>| {
        (bytes[second + 6], bytes[second + 7]) = (2, 2);
        bytes.drain(end - 104..end);
    };
    let cut = changed(&cut).expect("it can be stored");
    assert!(!cut.newest().seals());
    assert!(matches!(
        cut.newest().open(&wrapping_key, FAMILY),
        Err(Error::WrongKey)
    ));
    // Without a seal key, a generation seals heads in no keyring.
    let lies = changed(&|bytes| {
        bytes[second + 7] = 2;
        bytes.drain(end - 104..end);
    });
    assert!(matches!(lies, Err(Error::Damaged(_))));
    for parts in [0, 3, 255] {
        let lies = changed(&|bytes| bytes[second + 7] = parts);
        assert!(lies.is_err(), "{parts}");
    }
    // The seal key of the other generation.
    let moved = changed(&|bytes| bytes.copy_within(second - 104..second, end - 104));
    let moved = moved.expect("it can be stored");
    assert!(matches!(
        moved.newest().open(&wrapping_key, FAMILY),
        Err(Error::WrongKey)
    ));
    for bit in 0..280 * 8 {
        let changed = changed(&|bytes| bytes[second + bit / 8] ^= 1 << (bit % 8));
        let opened = changed.and_then(|ring| ring.newest().open(&wrapping_key, FAMILY));
        assert!(opened.is_err(), "bit {bit}");
    }
}

fn heads(keyring: &Keyring) -> Vec<Heads> {
    let decoded = Keyring::decode(&keyring.encode()).expect("encoded");
    assert_eq!(&decoded, keyring);
    decoded
        .generations()
        .iter()
        .map(KeyGeneration::heads)
        .collect()
}

#[test]
fn a_rotation_has_older_generations_seal_no_heads() {
    let random = SeededRandom::new(1);
    let (mut keyring, wrapping_key) = keyring(&key(7), &random);
    let before = keyring.clone();
    assert_eq!(
        (heads(&keyring), keyring.head_floor()),
        (vec![Heads::Any; 2], 0)
    );
    assert_eq!(before.encode()[12], 3);
    for number in [3, 4] {
        let keys = keyring.rotate(&wrapping_key, 400, Suite::DEFAULT, NOW, &random);
        assert_eq!(keys.expect("rotate").heads, Heads::FromHere);
        assert_eq!(keyring.head_floor(), number);
        assert_eq!(keyring.encode()[12], 3);
    }
    use Heads::{FromHere, Later};
    assert_eq!(heads(&keyring), [Later, Later, Later, FromHere]);

    // A change of the wrapping key keeps that.
    let (wrapping, new) = WrappingKeyAccess::create(&key(9), &CHEAP, NOW, &random).expect("create");
    let changed = keyring.rewrap(&wrapping_key, wrapping, &new, &random);
    let changed = changed.expect("rewrap");
    assert_eq!(heads(&changed), heads(&keyring));
    let opened = changed.open(&new).expect("open");
    let floors = opened.iter().map(|keys| keys.heads.floor(keys.generation));
    assert_eq!(floors.max(), Some(4));

    // Generations can be left out without the key, and that is noticed.
    let slots = keyring.wrapping().clone();
    let cut = keyring.generations()[..2].to_vec();
    let cut = Keyring::new(FAMILY, slots.clone(), cut).expect("a keyring");
    assert!(cut.seals_no_heads() && !keyring.seals_no_heads());
    let mut said = cut.encode();
    let end = said.len() - 32;
    said[end - 280 + 6] = 0;
    let sum = cipher::hash(&said[..end]);
    said[end..].copy_from_slice(&sum);
    let said = Keyring::decode(&said).expect("it can be stored");
    assert!(matches!(said.open(&wrapping_key), Err(Error::WrongKey)));

    // A stream that makes a dataset brings what seals it.
    let until = |makes| keyring.for_stream(250, makes, &slots).expect("to send");
    assert_eq!(until(false).generations().len(), 2);
    assert_eq!(until(true), keyring);
    assert_eq!(
        before.for_stream(250, true, &slots).expect("to send"),
        before
    );
}

/// The older bytes show, without a key, that a superseded generation is the same one.
#[test]
fn what_was_superseded_is_the_same_generation() {
    let random = SeededRandom::new(1);
    let (before, wrapping_key) = keyring(&key(7), &random);
    let mut after = before.clone();
    let rotated = after.rotate(&wrapping_key, 400, Suite::DEFAULT, NOW, &random);
    rotated.expect("rotate");
    let (old, new) = (before.generations(), after.generations());
    for (n, (a, b)) in old.iter().zip(new).enumerate() {
        assert!(a.is_same(a) && a.is_same(b) && b.is_same(a) && a != b);
        assert!(!a.is_same(&new[2]) && !a.is_same(&old[1 - n]) && !a.is_same(&new[1 - n]));
    }
    // A forged one with the same head is another one.
    let another = keyring_of_same_key(&wrapping_key, &before);
    for (made_up, known) in another.generations().iter().zip(new) {
        assert!(!made_up.is_same(known) && !known.is_same(made_up));
    }
}

/// A keyring of other keys whose generations say the same.
fn keyring_of_same_key(wrapping_key: &keys::WrappingKey, like: &Keyring) -> Keyring {
    let random = SeededRandom::new(99);
    let make = |g: &KeyGeneration| {
        let (number, txg, suite) = (g.number(), g.txg(), g.suite());
        let made = KeyGeneration::create(
            wrapping_key,
            FAMILY,
            number,
            txg,
            suite,
            g.created(),
            &random,
        );
        made.expect("create").0
    };
    let generations = like.generations().iter().map(make).collect();
    Keyring::new(FAMILY, like.wrapping().clone(), generations).expect("a keyring")
}
