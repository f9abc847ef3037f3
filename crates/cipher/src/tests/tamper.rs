//! A record that was changed in any bit does not open, and nothing of it is shown.

use super::{bytes, ciphers};
use crate::{Error, RecordCipher, Suite};

struct Sealed {
    cipher: RecordCipher,
    nonce: [u8; 24],
    aad: Vec<u8>,
    data: Vec<u8>,
    tag: [u8; 16],
}

impl Sealed {
    /// Returns a sealed record of each provider.
    fn each(suite: Suite, len: usize) -> Vec<Sealed> {
        let ciphers = ciphers(suite, &bytes(1, suite.key_len()));
        ciphers
            .into_iter()
            .map(|cipher| Sealed::new(cipher, len))
            .collect()
    }

    fn new(cipher: RecordCipher, len: usize) -> Sealed {
        let nonce = bytes(2, 24).try_into().expect("24 bytes");
        let (aad, plain) = (bytes(3, 19), bytes(4, len));
        let mut data = vec![0; len];
        let tag = cipher.seal(&nonce, &aad, &plain, &mut data).expect("seal");
        Sealed {
            cipher,
            nonce,
            aad,
            data,
            tag,
        }
    }

    /// Checks that both ways to open it fail, and that the output holds zeros.
    fn assert_refused(&self, what: &str) {
        let suite = self.cipher.suite();
        let mut out = vec![0xaa; self.data.len()];
        let opened = self
            .cipher
            .open(&self.nonce, &self.aad, &self.data, &self.tag, &mut out);
        assert_eq!(opened, Err(Error::Unauthentic), "{suite}: {what}");
        assert!(out.iter().all(|byte| *byte == 0), "{suite}: {what}");

        let mut out = self.data.clone();
        let opened = self
            .cipher
            .open_in_place(&self.nonce, &self.aad, &mut out, &self.tag);
        assert_eq!(opened, Err(Error::Unauthentic), "{suite}: {what}");
        assert!(out.iter().all(|byte| *byte == 0), "{suite}: {what}");
    }

    fn assert_opens(&self) {
        let mut out = vec![0; self.data.len()];
        self.cipher
            .open(&self.nonce, &self.aad, &self.data, &self.tag, &mut out)
            .expect("unchanged");
    }
}

/// Flips each bit of one part in turn.
fn flip_each(sealed: &mut Sealed, what: &str, part: impl Fn(&mut Sealed) -> &mut [u8]) {
    let bits = part(sealed).len() * 8;
    for bit in 0..bits {
        part(sealed)[bit / 8] ^= 1 << (bit % 8);
        sealed.assert_refused(&format!("bit {bit} of the {what}"));
        part(sealed)[bit / 8] ^= 1 << (bit % 8);
    }
    sealed.assert_opens();
}

#[test]
fn every_bit_counts() {
    for mut sealed in Suite::ALL
        .into_iter()
        .flat_map(|suite| Sealed::each(suite, 37))
    {
        flip_each(&mut sealed, "nonce", |sealed| &mut sealed.nonce);
        flip_each(&mut sealed, "associated data", |sealed| &mut sealed.aad);
        flip_each(&mut sealed, "ciphertext", |sealed| &mut sealed.data);
        flip_each(&mut sealed, "tag", |sealed| &mut sealed.tag);
    }
}

#[test]
fn an_empty_record_is_authenticated_too() {
    for mut sealed in Suite::ALL
        .into_iter()
        .flat_map(|suite| Sealed::each(suite, 0))
    {
        flip_each(&mut sealed, "nonce", |sealed| &mut sealed.nonce);
        flip_each(&mut sealed, "associated data", |sealed| &mut sealed.aad);
        flip_each(&mut sealed, "tag", |sealed| &mut sealed.tag);
    }
}

#[test]
fn every_bit_of_the_key_counts() {
    for suite in Suite::ALL {
        let mut all = Sealed::each(suite, 37);
        let key = bytes(1, suite.key_len());
        for bit in 0..key.len() * 8 {
            let mut wrong = key.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            for (sealed, cipher) in all.iter_mut().zip(ciphers(suite, &wrong)) {
                sealed.cipher = cipher;
                sealed.assert_refused(&format!("bit {bit} of the key"));
            }
        }
    }
}

#[test]
fn lengths_are_authenticated() {
    for mut sealed in Suite::ALL
        .into_iter()
        .flat_map(|suite| Sealed::each(suite, 37))
    {
        let last = sealed.data.pop().expect("a byte");
        sealed.assert_refused("a byte less");
        sealed.data.extend([last, 0]);
        sealed.assert_refused("a byte more");
        sealed.data.pop();
        sealed.assert_opens();
        sealed.aad.push(0);
        sealed.assert_refused("more associated data");
        sealed.aad.clear();
        sealed.assert_refused("no associated data");
    }
}

/// No suite opens what another sealed, with the same key bytes.
#[test]
fn suites_are_apart() {
    for suite in Suite::ALL {
        for mut sealed in Sealed::each(suite, 37) {
            for other in Suite::ALL.into_iter().filter(|other| *other != suite) {
                for cipher in ciphers(other, &bytes(1, 32)[..other.key_len()]) {
                    sealed.cipher = cipher;
                    sealed.assert_refused(&format!("sealed with {suite}"));
                }
            }
        }
    }
}
