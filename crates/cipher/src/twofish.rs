//! Twofish (Schneier, Kelsey, Whiting, Wagner, Hall and Ferguson, "Twofish: A 128-Bit Block Cipher", 1998), with full
//! tables for each key.
//!
//! A key becomes four tables of 256 words, each an S-box that depends on the key and a column of the matrix MDS
//! ("full keying" in the publication). A round is then eight look-ups. Keys take 4 KiB and some time, which a device
//! spends once. The look-ups depend on the data, as those of the kernel do: who shares the processor's caches may
//! learn of them.

use zeroize::Zeroize;

use crate::Result;
use crate::blocks::{Block, Blocks};

/// An expanded key.
pub(crate) struct Twofish {
    tables: Box<[[u32; 256]; 4]>,
    /// Four words for the input, four for the output, two for each round.
    keys: [u32; 40],
}

/// The permutations of bytes q0 and q1, made of four permutations of half bytes each (4.3.5).
const Q: [[u8; 256]; 2] = [
    permutation([
        0x817d_6f32_0b59_eca4,
        0xecb8_1235_f4a6_709d,
        0xba5e_6d90_c8f3_2471,
        0xd7f4_126e_9b30_85ca,
    ]),
    permutation([
        0x28bd_f76e_3194_0ac5,
        0x1e2b_4c37_6da5_f908,
        0x4c75_169a_0ed8_2b3f,
        0xb951_c3de_647f_208a,
    ]),
];

/// Which of them a byte of each place goes through: the last, then those before each key word is added, from the first.
const PATHS: [[usize; 5]; 4] = [
    [1, 0, 0, 1, 1],
    [0, 0, 1, 1, 0],
    [1, 1, 0, 0, 0],
    [0, 1, 1, 0, 1],
];

/// The matrix MDS, by columns: a column is a word.
const MDS: [[u8; 4]; 4] = [
    [0x01, 0x5b, 0xef, 0xef],
    [0xef, 0xef, 0x5b, 0x01],
    [0x5b, 0xef, 0x01, 0xef],
    [0x5b, 0x01, 0xef, 0x5b],
];

/// The matrix RS, by rows.
const RS: [[u8; 8]; 4] = [
    [0x01, 0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e],
    [0xa4, 0x56, 0x82, 0xf3, 0x1e, 0xc6, 0x68, 0xe5],
    [0x02, 0xa1, 0xfc, 0xc1, 0x47, 0xae, 0x3d, 0x19],
    [0xa4, 0x55, 0x87, 0x5a, 0x58, 0xdb, 0x9e, 0x03],
];

/// The polynomials of the fields of MDS and RS.
const MDS_FIELD: u16 = 0x169;
const RS_FIELD: u16 = 0x14d;

/// A permutation of bytes; of each of half bytes the digits are its values, from that of 0.
const fn permutation(halves: [u64; 4]) -> [u8; 256] {
    let mut all = [0; 256];
    let mut x = 0;
    while x < 256 {
        let (a, b) = mix(x as u8 >> 4, x as u8 & 15);
        let (a, b) = mix(digit(halves[0], a), digit(halves[1], b));
        all[x] = digit(halves[3], b) << 4 | digit(halves[2], a);
        x += 1;
    }
    all
}

const fn mix(a: u8, b: u8) -> (u8, u8) {
    (a ^ b, (a ^ (b >> 1 | b << 3) ^ a << 3) & 15)
}

const fn digit(digits: u64, place: u8) -> u8 {
    (digits >> (60 - 4 * place as u32)) as u8 & 15
}

/// Multiplies in GF(2^8).
const fn times(mut a: u8, mut b: u8, field: u16) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= a * (b & 1);
        a = (a << 1) ^ ((a >> 7) * (field as u8));
        b >>= 1;
    }
    product
}

/// Each byte times a column of MDS.
const COLUMNS: [[u32; 256]; 4] = {
    let mut all = [[0; 256]; 4];
    let mut place = 0;
    while place < 4 {
        let mut x = 0;
        while x < 256 {
            let column = MDS[place];
            all[place][x] = u32::from_le_bytes([
                times(column[0], x as u8, MDS_FIELD),
                times(column[1], x as u8, MDS_FIELD),
                times(column[2], x as u8, MDS_FIELD),
                times(column[3], x as u8, MDS_FIELD),
            ]);
            x += 1;
        }
        place += 1;
    }
    all
};

/// One byte of the function h, times its column. `words` are those of a key, 2 to 4.
fn look_up(place: usize, x: u8, words: &[[u8; 4]]) -> u32 {
    let path = &PATHS[place];
    let mut byte = x;
    for (number, word) in words.iter().enumerate().rev() {
        byte = Q[path[number + 1]][usize::from(byte)] ^ word[place];
    }
    COLUMNS[place][usize::from(Q[path[0]][usize::from(byte)])]
}

impl Twofish {
    /// Expands a key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Twofish {
        let (mut even, mut odd, mut of_tables) = ([[0; 4]; 4], [[0; 4]; 4], [[0; 4]; 4]);
        let (parts, _) = key.as_chunks::<8>();
        for (number, part) in parts.iter().enumerate() {
            even[number].copy_from_slice(&part[..4]);
            odd[number].copy_from_slice(&part[4..]);
            // The last part of the key is the first word.
            let word = &mut of_tables[parts.len() - 1 - number];
            for (byte, row) in word.iter_mut().zip(RS) {
                let products = row.iter().zip(part);
                *byte = products.fold(0, |sum, (a, b)| sum ^ times(*a, *b, RS_FIELD));
            }
        }
        let mut expanded = Twofish {
            tables: Box::new([[0; 256]; 4]),
            keys: [0; 40],
        };
        for (place, table) in expanded.tables.iter_mut().enumerate() {
            for (x, entry) in (0..=255).zip(table) {
                *entry = look_up(place, x, &of_tables[..parts.len()]);
            }
        }
        let h = |x: u8, words: &[[u8; 4]; 4]| {
            let words = &words[..parts.len()];
            (0..4).fold(0, |sum, place| sum ^ look_up(place, x, words))
        };
        for (x, pair) in (0..).step_by(2).zip(expanded.keys.as_chunks_mut::<2>().0) {
            let (a, b) = (h(x, &even), h(x + 1, &odd).rotate_left(8));
            let sum = a.wrapping_add(b);
            *pair = [sum, sum.wrapping_add(b).rotate_left(9)];
        }
        for words in [&mut even, &mut odd, &mut of_tables] {
            words.zeroize();
        }
        expanded
    }

    /// The function g.
    #[inline(always)]
    fn g(&self, [a, b, c, d]: [u8; 4]) -> u32 {
        let [one, two, three, four] = &*self.tables;
        one[usize::from(a)] ^ two[usize::from(b)] ^ three[usize::from(c)] ^ four[usize::from(d)]
    }

    /// The function F, of one half of each block.
    #[inline(always)]
    fn f<const N: usize>(
        &self,
        keys: &[u32; 2],
        a: &[u32; N],
        b: &[u32; N],
    ) -> ([u32; N], [u32; N]) {
        let (mut first, mut second) = ([0; N], [0; N]);
        for at in 0..N {
            let b = self.g(b[at].rotate_left(8).to_le_bytes());
            let sum = self.g(a[at].to_le_bytes()).wrapping_add(b);
            first[at] = sum.wrapping_add(keys[0]);
            second[at] = sum.wrapping_add(b).wrapping_add(keys[1]);
        }
        (first, second)
    }

    /// Several blocks at once, since a look-up takes long.
    #[inline(always)]
    fn encrypt_blocks<const N: usize>(&self, blocks: &mut [Block; N]) {
        let (input, output, rounds) = self.keys();
        let [mut a, mut b, mut c, mut d] = words(blocks, input);
        for keys in rounds.as_chunks::<2>().0 {
            self.round(&keys[0], (&a, &b), (&mut c, &mut d));
            self.round(&keys[1], (&c, &d), (&mut a, &mut b));
        }
        put(blocks, [c, d, a, b], output);
    }

    #[inline(always)]
    fn decrypt_blocks<const N: usize>(&self, blocks: &mut [Block; N]) {
        let (input, output, rounds) = self.keys();
        let [mut c, mut d, mut a, mut b] = words(blocks, output);
        for keys in rounds.as_chunks::<2>().0.iter().rev() {
            self.unround(&keys[1], (&c, &d), (&mut a, &mut b));
            self.unround(&keys[0], (&a, &b), (&mut c, &mut d));
        }
        put(blocks, [a, b, c, d], input);
    }

    #[inline(always)]
    fn round<const N: usize>(
        &self,
        keys: &[u32; 2],
        (a, b): (&[u32; N], &[u32; N]),
        (c, d): (&mut [u32; N], &mut [u32; N]),
    ) {
        let (first, second) = self.f(keys, a, b);
        for at in 0..N {
            c[at] = (c[at] ^ first[at]).rotate_right(1);
            d[at] = d[at].rotate_left(1) ^ second[at];
        }
    }

    #[inline(always)]
    fn unround<const N: usize>(
        &self,
        keys: &[u32; 2],
        (a, b): (&[u32; N], &[u32; N]),
        (c, d): (&mut [u32; N], &mut [u32; N]),
    ) {
        let (first, second) = self.f(keys, a, b);
        for at in 0..N {
            c[at] = c[at].rotate_left(1) ^ first[at];
            d[at] = (d[at] ^ second[at]).rotate_right(1);
        }
    }

    /// Those of the input, of the output, and of the rounds.
    #[inline(always)]
    fn keys(&self) -> (&[u32; 4], &[u32; 4], &[[u32; 2]]) {
        let (input, rest) = self.keys.split_first_chunk().expect("40 words");
        let (output, rounds) = rest.split_first_chunk().expect("36 words");
        (input, output, rounds.as_chunks().0)
    }
}

/// The words of blocks, each with those of the other blocks in its place.
#[inline(always)]
fn words<const N: usize>(blocks: &[Block; N], keys: &[u32; 4]) -> [[u32; N]; 4] {
    std::array::from_fn(|word| {
        blocks
            .each_ref()
            .map(|block| u32::from_le_bytes(block.as_chunks().0[word]) ^ keys[word])
    })
}

#[inline(always)]
fn put<const N: usize>(blocks: &mut [Block; N], words: [[u32; N]; 4], keys: &[u32; 4]) {
    for (at, block) in blocks.iter_mut().enumerate() {
        for (word, bytes) in block.as_chunks_mut().0.iter_mut().enumerate() {
            *bytes = (words[word][at] ^ keys[word]).to_le_bytes();
        }
    }
}

/// So many blocks at once.
const MANY: usize = 2;

impl Blocks for Twofish {
    fn encrypt(&self, blocks: &mut [Block]) -> Result<()> {
        let (many, rest) = blocks.as_chunks_mut::<MANY>();
        many.iter_mut()
            .for_each(|blocks| self.encrypt_blocks(blocks));
        let rest = rest.as_chunks_mut::<1>().0;
        rest.iter_mut().for_each(|block| self.encrypt_blocks(block));
        Ok(())
    }

    fn decrypt(&self, blocks: &mut [Block]) -> Result<()> {
        let (many, rest) = blocks.as_chunks_mut::<MANY>();
        many.iter_mut()
            .for_each(|blocks| self.decrypt_blocks(blocks));
        let rest = rest.as_chunks_mut::<1>().0;
        rest.iter_mut().for_each(|block| self.decrypt_blocks(block));
        Ok(())
    }
}

impl Drop for Twofish {
    fn drop(&mut self) {
        self.tables.iter_mut().for_each(Zeroize::zeroize);
        self.keys.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use ::twofish::cipher::{BlockCipherEncrypt, KeyInit};

    use super::*;

    /// The tests of the publication (appendix B.2): text and result are the key and the text of the next step. Each step is
    /// compared with the crate `twofish`.
    #[test]
    fn it_does_what_another_implementation_does() {
        for (len, last) in [
            (16, 0x5d9d_4eef_fa91_5157_5524_f115_815a_12e0),
            (24, 0xe754_4921_2bee_f9f4_a390_bd86_0a64_0941),
            (32, 0x37fe_26ff_1cf6_6175_f5dd_f4c3_3b97_a205_u128),
        ] {
            let (mut key, mut text) = ([0; 48], [0; 16]);
            for _ in 0..49 {
                let own = Twofish::new(&key[..len]);
                let mut sealed = [text; 3];
                own.encrypt(&mut sealed).unwrap();
                let judge = ::twofish::Twofish::new_from_slice(&key[..len]).unwrap();
                let mut other = text.into();
                judge.encrypt_block(&mut other);
                assert_eq!(sealed, [other.0; 3]);
                let mut opened = sealed;
                own.decrypt(&mut opened).unwrap();
                assert_eq!(opened, [text; 3]);
                key.copy_within(..32, 16);
                key[..16].copy_from_slice(&text);
                text = sealed[0];
            }
            assert_eq!(text, last.to_be_bytes(), "{len}");
        }
    }
}
