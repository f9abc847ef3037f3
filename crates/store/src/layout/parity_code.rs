//! Parity, and getting back what is lost from it.
//!
//! One piece of data is its own parity. Single parity is the XOR of the data. Double and triple parity are the
//! Reed-Solomon code of `reed-solomon-simd`. A piece that is shorter than the others counts as if
//! zeros followed.

use std::borrow::Cow;
use std::cell::RefCell;

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

thread_local! {
    /// To make one takes longer than to use it.
    static ENCODER: RefCell<Option<ReedSolomonEncoder>> = const { RefCell::new(None) };
}

/// The parity of some data: `parity` pieces as long as the first of the data, which is the longest.
pub(crate) fn parity_of(data: &[&[u8]], parity: usize) -> Vec<Vec<u8>> {
    match (data, parity) {
        (_, 0) => Vec::new(),
        ([only], _) => vec![only.to_vec(); parity],
        (_, 1) => vec![xor(data)],
        _ => ENCODER.with_borrow_mut(|encoder| {
            let done = reed_solomon(encoder, data, parity);
            done.expect("pieces of whole units are encoded")
        }),
    }
}

fn xor(pieces: &[&[u8]]) -> Vec<u8> {
    let mut sum = pieces[0].to_vec();
    for piece in &pieces[1..] {
        for (sum, byte) in sum.iter_mut().zip(*piece) {
            *sum ^= byte;
        }
    }
    sum
}

fn reed_solomon(
    encoder: &mut Option<ReedSolomonEncoder>,
    data: &[&[u8]],
    parity: usize,
) -> Result<Vec<Vec<u8>>, reed_solomon_simd::Error> {
    let len = data[0].len();
    let encoder = match encoder {
        Some(encoder) => {
            encoder.reset(data.len(), parity, len)?;
            encoder
        }
        None => encoder.insert(ReedSolomonEncoder::new(data.len(), parity, len)?),
    };
    for piece in data {
        encoder.add_original_shard(padded(piece, len))?;
    }
    let done = encoder.encode()?;
    Ok(done.recovery_iter().map(<[u8]>::to_vec).collect())
}

fn padded(piece: &[u8], len: usize) -> Cow<'_, [u8]> {
    match piece.len() == len {
        true => Cow::Borrowed(piece),
        false => {
            let mut longer = piece.to_vec();
            longer.resize(len, 0);
            Cow::Owned(longer)
        }
    }
}

/// Fills in the data that is missing; `lens` says how long each piece is. False if more is missing
/// than there is parity.
pub(crate) fn restore(
    data: &mut [Option<Vec<u8>>],
    lens: &[usize],
    parity: &[Option<Vec<u8>>],
) -> bool {
    let missing: Vec<usize> = (0..data.len()).filter(|n| data[*n].is_none()).collect();
    let there: Vec<&Vec<u8>> = parity.iter().flatten().collect();
    if missing.len() > there.len() {
        return false;
    }
    let restored = match (&missing[..], parity.len()) {
        ([], _) => return true,
        _ if data.len() == 1 => vec![there[0].clone()],
        (_, 1) => {
            let rest = data.iter().flatten().map(Vec::as_slice);
            // The longest comes first.
            let all: Vec<&[u8]> = std::iter::once(&there[0][..]).chain(rest).collect();
            vec![xor(&all)]
        }
        _ => match decode(data, &missing, parity) {
            Ok(restored) => restored,
            Err(_) => return false,
        },
    };
    for (number, mut piece) in missing.into_iter().zip(restored) {
        piece.truncate(lens[number]);
        data[number] = Some(piece);
    }
    true
}

fn decode(
    data: &[Option<Vec<u8>>],
    missing: &[usize],
    parity: &[Option<Vec<u8>>],
) -> Result<Vec<Vec<u8>>, reed_solomon_simd::Error> {
    let len = parity.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let mut decoder = ReedSolomonDecoder::new(data.len(), parity.len(), len)?;
    for (number, piece) in data.iter().enumerate() {
        if let Some(piece) = piece {
            decoder.add_original_shard(number, padded(piece, len))?;
        }
    }
    for (number, piece) in parity.iter().enumerate() {
        if let Some(piece) = piece {
            decoder.add_recovery_shard(number, piece)?;
        }
    }
    let restored = decoder.decode()?;
    let pieces = missing.iter().map(|number| {
        let piece = restored.restored_original(*number);
        piece.map(<[u8]>::to_vec).unwrap_or_default()
    });
    Ok(pieces.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: usize, longer: usize) -> Vec<Vec<u8>> {
        let len = |n| if n < longer { 128 } else { 64 };
        let piece = |n: usize| {
            (0..len(n))
                .map(|i| (i * 7 + n * 31 + i * n) as u8)
                .collect()
        };
        (0..count).map(piece).collect()
    }

    /// Whatever is lost, as long as it is not more than there is parity.
    #[test]
    fn what_is_lost_comes_back() {
        for (count, longer, parity) in [
            (1, 1, 1),
            (1, 1, 2),
            (2, 2, 1),
            (5, 3, 1),
            (2, 1, 2),
            (4, 4, 2),
            (7, 3, 2),
            (30, 30, 2),
            (1, 1, 3),
            (2, 1, 3),
            (5, 3, 3),
            (8, 8, 3),
        ] {
            let data = pieces(count, longer);
            let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let lens: Vec<usize> = data.iter().map(Vec::len).collect();
            let sums = parity_of(&slices, parity);
            let all: Vec<&Vec<u8>> = data.iter().chain(&sums).collect();
            for a in 0..all.len() {
                for b in 0..all.len() {
                    // The third that is lost, of triple parity only.
                    for c in 0..if parity == 3 { all.len() } else { 1 } {
                        let lost = &[a, b, c][..parity];
                        let piece = |n: usize| (!lost.contains(&n)).then(|| all[n].clone());
                        let mut found: Vec<_> = (0..count).map(piece).collect();
                        let parity: Vec<_> = (count..all.len()).map(piece).collect();
                        assert!(restore(&mut found, &lens, &parity), "{count} {lost:?}");
                        assert!(found.iter().flatten().eq(&data), "{count} {lost:?}");
                    }
                }
            }
            let mut lost = vec![None; count];
            assert!(!restore(&mut lost, &lens, &vec![None; parity]));
        }
    }

    /// The bytes of parity on devices. They never change.
    #[test]
    fn golden_bytes() {
        let data = pieces(3, 3);
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let hash = |pieces: &[Vec<u8>]| blake3::hash(&pieces.concat()).to_hex()[..16].to_owned();
        assert_eq!(hash(&parity_of(&slices, 1)), "918beecdc4e44732");
        assert_eq!(hash(&parity_of(&slices, 2)), "225621505c4b7c21");
    }
}
