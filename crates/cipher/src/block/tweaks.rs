//! The tweaks of XTS: of one block of a sector after the other, each x times the one before.

use super::field::{multiply, reduced};
use crate::ffi::TweakElement;

pub(crate) type CipherBlock = [u8; 16];

/// The number of tweaks that are made at once. Each is the first one times a power of x, which has to be below 57
/// here.
const SERIES: usize = 32;

/// The number of tweaks that are made one from the other where registers are narrow.
const CHAIN: usize = 8;

/// The tweaks of the blocks of consecutive sectors.
pub(crate) struct Tweaks<'a> {
    /// The first one of each sector that has not begun.
    firsts: std::slice::Iter<'a, CipherBlock>,
    blocks_in_sector: usize,
    next: u128,
    /// The number of tweaks that the sector still has.
    left: usize,
}

impl Tweaks<'_> {
    /// Returns the tweaks of sectors whose first tweaks are `firsts`.
    pub(crate) fn new(firsts: &[CipherBlock], blocks_in_sector: usize) -> Tweaks<'_> {
        debug_assert!(blocks_in_sector > 0);
        Tweaks {
            firsts: firsts.iter(),
            blocks_in_sector,
            next: 0,
            left: 0,
        }
    }

    /// Writes the tweaks of the next blocks; there are as many. `series` is [`wide`] or [`narrow`].
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        mut tweaks: &mut [CipherBlock],
        series: impl Fn(u128, &mut [CipherBlock]),
    ) {
        while !tweaks.is_empty() {
            if self.left == 0 {
                let first = self.firsts.next().expect("a tweak for each sector");
                (self.next, self.left) = (u128::from_le_bytes(*first), self.blocks_in_sector);
            }
            let len = tweaks.len().min(self.left).min(SERIES);
            let (now, later) = tweaks.split_at_mut(len);
            series(self.next, now);
            // Within the 56 powers of x that `multiply` takes.
            debug_assert!((1..=SERIES).contains(&len));
            self.next = multiply(self.next, len as u32);
            self.left -= len;
            tweaks = later;
        }
    }
}

/// Writes `first` and its products with the next powers of x, each on its own. The compiler makes as many at once as
/// a register of the code around it holds.
#[inline(always)]
pub(crate) fn wide(first: u128, tweaks: &mut [CipherBlock]) {
    let (low, high) = (first as u64, (first >> 64) as u64);
    let product = |power: usize| {
        let carry = high >> 1 >> (63 - power);
        let new_low = low << power ^ reduced(carry);
        let new_high = high << power ^ low >> 1 >> (63 - power);
        (u128::from(new_low) | u128::from(new_high) << 64).to_le_bytes()
    };
    // With a length that the compiler knows there is no rest.
    match <&mut [CipherBlock; SERIES]>::try_from(&mut *tweaks) {
        Ok(tweaks) => (0..SERIES).for_each(|power| tweaks[power] = product(power)),
        Err(_) => (0..tweaks.len()).for_each(|power| tweaks[power] = product(power)),
    }
}

/// The variant of [`wide`] for code without wide registers. It makes chains side by side, because each tweak waits
/// for the one before.
pub(crate) fn narrow(first: u128, tweaks: &mut [CipherBlock]) {
    let begin = |chain: usize| match chain {
        0 => TweakElement::new(first),
        _ => TweakElement::new(multiply(first, (chain * CHAIN) as u32)),
    };
    if let Ok(tweaks) = <&mut [CipherBlock; SERIES]>::try_from(&mut *tweaks) {
        let mut chains: [TweakElement; SERIES / CHAIN] = std::array::from_fn(begin);
        for at in 0..CHAIN {
            for (number, chain) in chains.iter_mut().enumerate() {
                tweaks[number * CHAIN + at] = chain.bytes();
                *chain = chain.double();
            }
        }
        return;
    }
    let mut tweak = begin(0);
    for to in tweaks {
        *to = tweak.bytes();
        tweak = tweak.double();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::field::double;

    const NUMBERS: [u128; 5] = [
        1,
        u128::MAX,
        1 << 127,
        0x87 << 120 | 0x5a,
        0x0123_4567_89ab << 64,
    ];

    /// The ends of sectors and the number of tweaks in a call change nothing.
    #[test]
    fn each_tweak_is_twice_the_one_before() {
        let firsts = NUMBERS.map(u128::to_le_bytes);
        for blocks_in_sector in [1, 7, 8, 31, 32, 33, 64, 256] {
            let expected: Vec<CipherBlock> = NUMBERS
                .iter()
                .flat_map(|first| {
                    std::iter::successors(Some(*first), |tweak| Some(double(*tweak)))
                        .take(blocks_in_sector)
                        .map(u128::to_le_bytes)
                })
                .collect();
            for at_once in [1, 5, 32, 60, 64, 128] {
                for series in [wide, narrow] {
                    let mut tweaks = Tweaks::new(&firsts, blocks_in_sector);
                    let mut made = vec![[0; 16]; expected.len()];
                    for part in made.chunks_mut(at_once) {
                        tweaks.fill(part, series);
                    }
                    assert_eq!(made, expected, "{blocks_in_sector} {at_once}");
                }
            }
        }
    }
}
