//! Adiantum (Crowley and Biggers, "Adiantum: length-preserving encryption for entry-level processors",
//! 2018): ChaCha does the work, AES only one block.

use std::marker::PhantomData;

use chacha20::cipher::consts::{U24, U32};
use chacha20::cipher::{KeyIvInit, StreamCipher};
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use zeroize::Zeroizing;

use super::blocks::{self, BlockEngine};
use super::tweakable_cipher::TweakableCipher;
use crate::ffi::Direction;
use crate::{BlockCipher, Error, Provider, Result};

/// The number of bytes of the message that NH hashes at once.
const NH_MESSAGE: usize = 1024;

/// The number of passes of NH over it, each with the key moved by 16 bytes.
const NH_PASSES: usize = 4;

/// The words of NH's key.
const NH_KEY: usize = (NH_MESSAGE + 16 * (NH_PASSES - 1)) / 4;

/// Adiantum with the stream cipher `S`.
struct Adiantum<S> {
    stream_key: Zeroizing<[u8; 32]>,
    cipher: Box<dyn BlockEngine>,
    /// The keys of Poly1305 for the tweak with the lengths, and for the message. The halves that it would add at the
    /// end are zeros.
    header_key: Zeroizing<[u8; 32]>,
    message_key: Zeroizing<[u8; 32]>,
    nh_key: Zeroizing<[u32; NH_KEY]>,
    stream: PhantomData<fn(S)>,
}

/// A stream cipher of the XChaCha family.
pub(crate) trait AdiantumStream:
    KeyIvInit<KeySize = U32, IvSize = U24> + StreamCipher
{
}

impl<S: KeyIvInit<KeySize = U32, IvSize = U24> + StreamCipher> AdiantumStream for S {}

/// `key` has 32 bytes.
pub(crate) fn boxed<S: AdiantumStream + 'static>(
    provider: Provider,
    key: &[u8],
) -> Result<Box<dyn TweakableCipher>> {
    let stream_key = Zeroizing::new(key.try_into().map_err(|_| Error::Library)?);
    let mut derived = Zeroizing::new([0; 32 + 16 + 16 + 4 * NH_KEY]);
    let mut nonce = [0; 24];
    nonce[0] = 1;
    stream::<S>(&stream_key, &nonce, &mut derived[..]);
    let (aes, rest) = derived.split_at(32);
    let (header, rest) = rest.split_at(16);
    let (message, nh) = rest.split_at(16);
    let poly_key = |r: &[u8]| {
        let mut key = Zeroizing::new([0; 32]);
        key[..16].copy_from_slice(r);
        key
    };
    let mut nh_key = Zeroizing::new([0; NH_KEY]);
    for (word, bytes) in nh_key.iter_mut().zip(nh.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    Ok(Box::new(Adiantum::<S> {
        cipher: match provider {
            Provider::AwsLc => blocks::aws_lc(aes)?,
            _ => blocks::portable(BlockCipher::Aes, aes)?,
        },
        header_key: poly_key(header),
        message_key: poly_key(message),
        nh_key,
        stream_key,
        stream: PhantomData,
    }))
}

fn stream<S: AdiantumStream>(key: &[u8; 32], nonce: &[u8; 24], data: &mut [u8]) {
    S::new(key.into(), nonce.into()).apply_keystream(data);
}

impl<S: AdiantumStream> Adiantum<S> {
    /// The hash of the tweak and all but the last block, which is added to that block.
    fn hash(&self, tweak: &[u8], message: &[u8]) -> u128 {
        let mut header = Poly1305::new((&*self.header_key).into());
        let bits = 8 * message.len() as u128;
        header.update(&[bits.to_le_bytes().into()]);
        header.update_padded(tweak);
        let mut hash = Poly1305::new((&*self.message_key).into());
        for piece in message.chunks(NH_MESSAGE) {
            hash.update_padded(self.nh(piece).as_flattened());
        }
        let number = |tag: poly1305::Block| u128::from_le_bytes(tag.into());
        number(header.finalize()).wrapping_add(number(hash.finalize()))
    }

    /// NH of a piece, padded to 16 bytes with zeros: one number for each pass.
    fn nh(&self, piece: &[u8]) -> [[u8; 8]; NH_PASSES] {
        let mut sums = [0u64; NH_PASSES];
        for (unit, bytes) in piece.chunks(16).enumerate() {
            let mut padded = [0; 16];
            padded[..bytes.len()].copy_from_slice(bytes);
            let word = |i: usize| {
                let bytes = padded[4 * i..].first_chunk().expect("16 bytes");
                u32::from_le_bytes(*bytes)
            };
            for (pass, sum) in sums.iter_mut().enumerate() {
                let key = &self.nh_key[4 * (unit + pass)..][..4];
                let add = |i: usize| u64::from(word(i).wrapping_add(key[i]));
                *sum = sum
                    .wrapping_add(add(0).wrapping_mul(add(2)))
                    .wrapping_add(add(1).wrapping_mul(add(3)));
            }
        }
        sums.map(u64::to_le_bytes)
    }
}

impl<S: AdiantumStream> TweakableCipher for Adiantum<S> {
    fn run(&self, direction: Direction, tweak: &[u8], data: &mut [u8]) -> Result<()> {
        let (message, last) = data.split_last_chunk_mut::<16>().ok_or(Error::Library)?;
        let masked = u128::from_le_bytes(*last).wrapping_add(self.hash(tweak, message));
        *last = masked.to_le_bytes();
        let block = std::slice::from_mut(last);
        // The stream's nonce is the block in the middle, encrypted.
        let mut nonce = [0; 24];
        nonce[16] = 1;
        match direction {
            Direction::Encrypt => {
                self.cipher.encrypt(block)?;
                nonce[..16].copy_from_slice(&block[0]);
            }
            Direction::Decrypt => {
                nonce[..16].copy_from_slice(&block[0]);
                self.cipher.decrypt(block)?;
            }
        }
        stream::<S>(&self.stream_key, &nonce, message);
        let unmasked = u128::from_le_bytes(*last).wrapping_sub(self.hash(tweak, message));
        *last = unmasked.to_le_bytes();
        Ok(())
    }
}
