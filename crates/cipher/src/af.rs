//! The anti-forensic splitter of LUKS (Fruhwirth, "New methods in hard disk encryption", 2005, section 5.2). It
//! spreads a key over many stripes, so that the loss of any of them loses the key.
//!
//! A device may keep a copy of a sector that was overwritten. Of a key in 4000 stripes it would have
//! to keep them all.

use zeroize::Zeroizing;

use crate::{Digest, Error, Random, Result};

/// Splits `key` into `out`, `out.len() / key.len()` stripes of the key's length.
///
/// # Errors
/// [`Error::OutputLength`] unless `out` is a whole number of keys, at least one; [`Error::Random`].
pub fn split(digest: Digest, key: &[u8], random: &dyn Random, out: &mut [u8]) -> Result<()> {
    check(key.len(), out.len())?;
    let (stripes, last) = out.split_at_mut(out.len() - key.len());
    random.fill(stripes)?;
    last.copy_from_slice(&mix(digest, stripes, key.len()));
    xor(last, key);
    Ok(())
}

/// Makes the key again from its stripes; the reverse of [`split`].
///
/// Any stripes make some key: what is right is for the caller to find out.
///
/// # Errors
/// [`Error::OutputLength`] unless `split` is a whole number of keys, at least one.
pub fn merge(digest: Digest, split: &[u8], key: &mut [u8]) -> Result<()> {
    check(key.len(), split.len())?;
    let (stripes, last) = split.split_at(split.len() - key.len());
    key.copy_from_slice(&mix(digest, stripes, key.len()));
    xor(key, last);
    Ok(())
}

fn check(key: usize, split: usize) -> Result<()> {
    if key > 0 && split > 0 && split.is_multiple_of(key) {
        return Ok(());
    }
    Err(Error::OutputLength {
        input: key,
        output: split,
    })
}

/// Returns the sum of all stripes but the last, spread by the hash.
fn mix(digest: Digest, stripes: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let mut mixed = Zeroizing::new(vec![0; len]);
    for stripe in stripes.chunks_exact(len) {
        xor(&mut mixed, stripe);
        diffuse(digest, &mut mixed);
    }
    mixed
}

/// Replaces each piece of the hash's length (the last may be shorter) by the hash of its number and
/// itself.
fn diffuse(digest: Digest, data: &mut [u8]) {
    for (number, piece) in (0u32..).zip(data.chunks_mut(digest.output_len())) {
        let hash = digest.hash(&[&number.to_be_bytes(), piece]);
        piece.copy_from_slice(&hash[..piece.len()]);
    }
}

fn xor(data: &mut [u8], other: &[u8]) {
    data.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
}
