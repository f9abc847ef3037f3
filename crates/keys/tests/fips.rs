//! Passphrases in FIPS mode. One test: the mode is the whole process's.

mod common;

use std::time::Duration;

use cipher::{Policy, PolicyTarget, SeededRandom};
use common::{CHEAP, NOW, passphrase};
use keys::{Error, GuessCost, Keyring, SlotHash, WrappingKeyAccess};

/// A keyring from before the mode was switched on. Its first slot has Argon2id.
const ARGON2ID: &str = include_str!("golden/keyring-v3-own.hex");

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect()
}

#[test]
fn a_passphrase_opens_by_pbkdf2_and_not_by_argon2id() {
    let mut policy = Policy::default();
    policy.enable(PolicyTarget::Fips);
    assert!(policy.install());
    assert_eq!(SlotHash::usual(), SlotHash::Pbkdf2);

    let random = SeededRandom::new(1);
    let phrase = passphrase("correct horse");
    let old = Keyring::decode(&unhex(ARGON2ID)).expect("readable");
    let refused = old.unlock(&phrase).expect_err("not approved");
    assert!(matches!(refused, Error::FipsSlot), "{refused}");
    assert!(refused.to_string().contains("key change --pbkdf pbkdf2"));
    let made = WrappingKeyAccess::create(&phrase, &CHEAP, NOW, &random);
    assert!(made.is_err());
    let chosen = GuessCost::calibrate(SlotHash::Argon2id, Duration::ZERO);
    assert!(matches!(chosen, Err(Error::Cipher(_))));

    let cost = GuessCost::calibrate(SlotHash::usual(), Duration::ZERO).expect("measured");
    let (wrapping, own) = WrappingKeyAccess::create(&phrase, cost, NOW, &random).expect("create");
    // A slot with Argon2id is tried first, and does not keep the other one from opening.
    let (WrappingKeyAccess::Own { id, mut slots }, WrappingKeyAccess::Own { slots: of_old, .. }) =
        (wrapping, old.wrapping().clone())
    else {
        panic!("slots");
    };
    slots.splice(0..0, of_old);
    let both = WrappingKeyAccess::Own { id, slots };
    assert_eq!(both.slots().len(), 3);
    let opened = both.unlock(&phrase).expect("the second slot");
    assert_eq!(opened.id(), own.id());
}
