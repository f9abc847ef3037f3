//! VMAC-64 with AES-128 (Krovetz and Dai, "VHASH security", 2007; draft-krovetz-vmac-01): the checksum in
//! the names of pefs.
//!
//! A hash of products (NH) for each 128 bytes, and a polynomial modulo 2^127 - 1 over these. Then a product modulo
//! 2^64 - 257, and a pad that AES makes of the nonce.

use zeroize::{Zeroize, Zeroizing};

use crate::ffi::AesKey;
use crate::provider::policy;
use crate::{Mechanism, Result};

/// The number of bytes that NH takes at a time.
const CHUNK: usize = 128;

/// The bits of the key of the polynomial that may be set, in each half.
const POLY_MASK: u64 = 0x1fff_ffff_1fff_ffff;

/// The modulus of the polynomial.
const P127: u128 = (1 << 127) - 1;

/// The modulus of the last product.
const P64: u128 = (1 << 64) - 257;

/// A key for VMAC. It is overwritten on drop.
pub struct Vmac {
    aes: AesKey,
    nh: Zeroizing<[u64; CHUNK / 8]>,
    poly: (u64, u64),
    last: (u64, u64),
}

impl Vmac {
    /// Expands a key.
    ///
    /// # Errors
    /// [`Error::NotApproved`](crate::Error::NotApproved) in FIPS mode.
    pub fn new(key: &[u8; 16]) -> Result<Vmac> {
        policy::provider(Mechanism::Vmac)?;
        let mut aes = AesKey::blank();
        aes.set(key)?;
        let mut nh = Zeroizing::new([0; CHUNK / 8]);
        for (number, pair) in (0..).zip(nh.as_chunks_mut().0) {
            let (high, low) = words(&aes, 0x80, number);
            *pair = [high, low];
        }
        let (high, low) = words(&aes, 0xc0, 0);
        let poly = (high & POLY_MASK, low & POLY_MASK);
        let in_range = |&(high, low): &(u64, u64)| u128::from(high.max(low)) < P64;
        let last = (0..=u8::MAX).map(|number| words(&aes, 0xe0, number));
        // That none of them is has the probability 2^-14000.
        let last = last.into_iter().find(in_range).unwrap_or_default();
        Ok(Vmac {
            aes,
            nh,
            poly,
            last,
        })
    }

    /// The MAC of a message. A nonce is for one message, but for its lowest bit, which chooses one half of
    /// the pad.
    pub fn mac(&self, nonce: &[u8; 16], message: &[u8]) -> u64 {
        let mut input = *nonce;
        input[15] &= !1;
        let mut pad = [0; 16];
        self.aes.encrypt(&input, &mut pad);
        let (high, low) = halves(&pad);
        let pad = if nonce[15] & 1 == 0 { high } else { low };
        self.hash(message).wrapping_add(pad)
    }

    fn hash(&self, message: &[u8]) -> u64 {
        let key = u128::from(self.poly.0) << 64 | u128::from(self.poly.1);
        let mut sum = 1;
        for chunk in message.chunks(CHUNK) {
            sum = add(multiply(sum, self.poly), self.nh(chunk));
        }
        if message.is_empty() {
            sum = key;
        }
        let bits = (message.len() % CHUNK * 8) as u128;
        let sum = add(sum, bits << 64);
        let divisor = (1 << 64) - (1 << 32);
        let left = (sum / divisor + u128::from(self.last.0)) % P64;
        let right = (sum % divisor + u128::from(self.last.1)) % P64;
        (left * right % P64) as u64
    }

    /// The sum of products, of 126 bits, of at most a chunk.
    fn nh(&self, chunk: &[u8]) -> u128 {
        let mut sum = 0u128;
        for (part, keys) in chunk.chunks(16).zip(self.nh.as_chunks::<2>().0) {
            let mut block = [0; 16];
            block[..part.len()].copy_from_slice(part);
            let words = u128::from_le_bytes(block);
            let left = (words as u64).wrapping_add(keys[0]);
            let right = ((words >> 64) as u64).wrapping_add(keys[1]);
            sum = sum.wrapping_add(u128::from(left) * u128::from(right));
        }
        sum & ((1 << 126) - 1)
    }
}

impl Drop for Vmac {
    fn drop(&mut self) {
        self.poly.zeroize();
        self.last.zeroize();
    }
}

/// Two words of a key that is derived from the first one.
fn words(aes: &AesKey, purpose: u8, number: u8) -> (u64, u64) {
    let mut input = [0; 16];
    (input[0], input[15]) = (purpose, number);
    let mut output = Zeroizing::new([0; 16]);
    aes.encrypt(&input, &mut output);
    halves(&output)
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let value = u128::from_be_bytes(*block);
    ((value >> 64) as u64, value as u64)
}

/// The sum modulo 2^127 - 1, of summands below 2^127.
fn add(one: u128, other: u128) -> u128 {
    let sum = one + other;
    let sum = (sum & P127) + (sum >> 127);
    if sum >= P127 { sum - P127 } else { sum }
}

/// The product modulo 2^127 - 1 with a key whose halves have 61 bits.
fn multiply(value: u128, (high, low): (u64, u64)) -> u128 {
    let (value_high, value_low) = (value >> 64, u128::from(value as u64));
    let (high, low) = (u128::from(high), u128::from(low));
    // 2^128 is 2 here, and 2^127 is 1.
    let top = value_high * high * 2;
    let middle = value_high * low + value_low * high;
    let shifted = add(middle >> 63, (middle & ((1 << 63) - 1)) << 64);
    let bottom = value_low * low;
    add(add(top, shifted), bottom)
}
