//! Tests of what leaves this crate, and of the primitives below it, against published vectors and
//! other implementations.

mod digests;
mod judges;
mod keys;
mod messages;
mod names;
mod pieces;
mod primitives;
mod sectors;
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

/// Cuts `data` at odd places: into pieces of no byte, of some, of blocks, of some sectors.
fn cut(data: &mut [u8], seed: u64) -> Vec<&mut [u8]> {
    let mut pieces = Vec::new();
    let mut rest = data;
    for random in bytes(seed, 4096).as_chunks::<2>().0 {
        let len = match random[0] % 5 {
            0 => 0,
            1 => random[1] as usize % 16,
            2 => random[1] as usize % 4 * 16,
            3 => random[1] as usize,
            _ => random[1] as usize * 41,
        };
        let (piece, after) = rest.split_at_mut(len.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The lines of a file of vectors that begin with `kind`, without it, as fields between spaces; `-` is
/// an empty one.
fn vectors<'a>(file: &'a str, kind: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let fields = move |line: &'a str| {
        let mut fields = line.split(' ');
        (fields.next() == Some(kind)).then(|| {
            fields
                .map(|field| if field == "-" { "" } else { field })
                .collect()
        })
    };
    file.lines().filter_map(fields)
}

/// Vectors of cryptsetup's, whose sources the file names.
const CRYPTSETUP: &str = include_str!("vectors/cryptsetup.txt");
