//! Tests of what leaves this crate, and of the primitives below it, against published vectors and
//! other implementations.

mod judges;
mod primitives;
mod sizes;
mod tamper;
mod xaes;

/// Bytes from hexadecimal digits; spaces are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("hexadecimal"))
        .collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

/// `len` bytes that are no pattern a cipher could have.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    use crate::Random;
    let mut bytes = vec![0; len];
    crate::SeededRandom::new(seed)
        .fill(&mut bytes)
        .expect("never fails");
    bytes
}
