//! Key chains that are written here, and read again.

use cipher::SystemRandom;

use super::*;
use super::{DATABASE, chain_key, master, vectors};

/// A key that is told from others by a number.
fn numbered(number: u16) -> PefsMasterKey {
    let mut bytes = [7; 64];
    bytes[..2].copy_from_slice(&number.to_le_bytes());
    master(&bytes)
}

/// Chains with so many records of one key each, that lead nowhere.
fn with_records(count: u16, page_size: usize) -> Chains {
    let mut chains = Chains::new(page_size);
    for number in 0..count {
        let parent = (&numbered(number), Algorithm::default());
        chains.set(parent, None, &SystemRandom).expect("set");
    }
    chains
}

fn ids(keys: &[(PefsMasterKey, Algorithm)]) -> Vec<KeyId> {
    keys.iter().map(|(key, _)| key.id()).collect()
}

#[test]
fn files_of_all_sizes_are_read_again() {
    for page_size in [512, 4096, 65536] {
        for count in [0, 1, 3, 100, 1000] {
            let file = with_records(count, page_size).encode();
            assert_eq!(file.len() % page_size, 0);
            let database = Database::new(&file).expect("a database");
            assert_eq!(
                database.records().expect("records").len(),
                usize::from(count)
            );
            let again = Chains::decode(&file).expect("chains");
            assert_eq!(again.encode(), file, "{count} records, {page_size}");
            // A search goes down the pages, where a list goes along the leaves.
            for number in 0..count {
                let id = numbered(number).id();
                assert!(database.get(&id.0).expect("searched").is_some(), "{number}");
            }
            let absent = numbered(count).id();
            assert!(database.get(&absent.0).expect("searched").is_none());
        }
    }
}

#[test]
fn a_chain_is_built_and_taken_apart() {
    let [first, second, third] = [1, 2, 3].map(numbered);
    let aes: Algorithm = Algorithm::default();
    let camellia = Algorithm::from_name("camellia256").expect("an algorithm");
    let mut chains = Chains::new(4096);
    let set = |chains: &mut Chains, parent, child| chains.set(parent, child, &SystemRandom);
    set(&mut chains, (&first, aes), Some((&second, camellia))).expect("set");
    set(&mut chains, (&second, camellia), Some((&third, aes))).expect("set");
    // The third has no record: the chain ends there all the same.
    let mut chains = Chains::decode(&chains.encode()).expect("chains");
    let keys = chains.open(numbered(1), aes).expect("opened");
    let keys = keys.expect("a record");
    assert_eq!(ids(&keys), [first.id(), second.id(), third.id()]);
    assert_eq!(
        keys.iter()
            .map(|(_, algorithm)| *algorithm)
            .collect::<Vec<_>>(),
        [aes, camellia, aes]
    );
    assert!(chains.open(numbered(3), aes).expect("opened").is_none());

    let circle = set(&mut chains, (&third, aes), Some((&first, aes)));
    assert!(matches!(circle, Err(KeyError::Circle)));
    assert!(!chains.has(third.id()));

    assert!(chains.remove(second.id()));
    assert!(!chains.remove(second.id()));
    let keys = chains.open(numbered(1), aes).expect("opened");
    assert_eq!(ids(&keys.expect("a record")), [first.id(), second.id()]);
}

#[test]
fn decoys_open_with_no_key() {
    let mut chains = with_records(1, 4096);
    chains.add_decoys(20, &SystemRandom).expect("added");
    let file = chains.encode();
    let records = Database::new(&file).expect("a database");
    assert_eq!(records.records().expect("records").len(), 21);
    let keys = chains.open(numbered(0), Algorithm::default());
    assert_eq!(ids(&keys.expect("opened").expect("a record")).len(), 1);
}

/// Records of the library are kept when a record is added.
#[test]
fn a_recorded_database_is_changed() {
    let first = || chain_key(&vectors(), "A");
    let keys = |chains: &Chains| {
        let keys = chains.open(first(), Algorithm::default()).expect("opened");
        ids(&keys.expect("a record"))
    };
    let mut chains = Chains::decode(DATABASE).expect("chains");
    let before = keys(&chains);
    assert_eq!(before.len(), 3);
    let new = (&numbered(9), Algorithm::default());
    chains
        .set(new, Some((&first(), Algorithm::default())), &SystemRandom)
        .expect("set");
    let mut after = Chains::decode(&chains.encode()).expect("chains");
    assert_eq!(keys(&after), before);
    let longer = after
        .open(numbered(9), Algorithm::default())
        .expect("opened");
    assert_eq!(ids(&longer.expect("a record"))[1..], before);
    after.remove(numbered(9).id());
    assert_eq!(
        Database::new(&after.encode()).unwrap().records().unwrap(),
        Database::new(DATABASE).unwrap().records().unwrap()
    );
}

/// The ids of the chain of a key, if it has a record.
fn chain_of(chains: &Chains, first: u16) -> Option<Vec<KeyId>> {
    let opened = chains.open(numbered(first), Algorithm::default());
    opened.expect("opened").map(|keys| ids(&keys))
}

/// Chains from each of these keys to the next one.
fn linked(chains: &mut Chains, keys: &[u16]) {
    for pair in keys.windows(2) {
        let (parent, child) = (numbered(pair[0]), numbered(pair[1]));
        let algorithm = Algorithm::default();
        let set = chains.set(
            (&parent, algorithm),
            Some((&child, algorithm)),
            &SystemRandom,
        );
        set.expect("set");
    }
}

fn rekeyed(chains: &mut Chains, old: u16, new: u16) -> bool {
    let new = numbered(new);
    let new = (&new, Algorithm::default());
    chains
        .rekey(numbered(old), new, &SystemRandom)
        .expect("done")
}

#[test]
fn a_new_key_leads_to_all_keys_and_the_old_ones_are_retired() {
    let all = |numbers: &[u16]| Some(numbers.iter().map(|n| numbered(*n).id()).collect());
    let mut chains = Chains::new(4096);
    linked(&mut chains, &[1, 2, 3]);
    linked(&mut chains, &[7, 2]);
    assert!(rekeyed(&mut chains, 1, 9));
    assert!(rekeyed(&mut chains, 9, 8));
    let mut chains = Chains::decode(&chains.encode()).expect("read again");
    assert_eq!(chain_of(&chains, 8), all(&[8, 9, 1, 2, 3]));
    // Other keys lead where they led.
    assert_eq!(chain_of(&chains, 7), all(&[7, 2, 3]));
    for (key, is_retired) in [
        (1, true),
        (9, true),
        (8, false),
        (7, false),
        (2, false),
        (5, false),
    ] {
        let found = chains.is_retired(&numbered(key)).expect("read");
        assert_eq!(found, is_retired, "{key}");
    }
    assert!(!rekeyed(&mut chains, 5, 6));
    assert_eq!(chain_of(&chains, 6), None);

    let mut chains = with_records(1, 4096);
    assert!(rekeyed(&mut chains, 0, 5));
    assert_eq!(chain_of(&chains, 5), all(&[5, 0]));
    assert!(chains.is_retired(&numbered(0)).expect("read"));
}
