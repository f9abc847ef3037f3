//! The bitmap of a segment: the units that are taken.

/// The bitmap of a segment, with a bit for each unit; set: taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    units: u32,
}

impl Bitmap {
    /// `units` free units.
    pub(crate) fn new(units: u32) -> Bitmap {
        Bitmap {
            words: vec![0; units.div_ceil(64) as usize],
            units,
        }
    }

    /// The bytes of a bitmap on disk.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// A bitmap of `units` from its bytes. More bytes may follow. `None` if there are too few bytes, or if units are
    /// taken that do not exist.
    pub(crate) fn from_bytes(bytes: &[u8], units: u32) -> Option<Bitmap> {
        let len = units.div_ceil(64) as usize;
        let (chunks, _) = bytes.get(..len * 8)?.as_chunks::<8>();
        let words: Vec<u64> = chunks
            .iter()
            .map(|chunk| u64::from_le_bytes(*chunk))
            .collect();
        let tail = units % 64;
        let beyond = match words.last() {
            Some(last) if tail != 0 => last >> tail,
            _ => 0,
        };
        (beyond == 0).then_some(Bitmap { words, units })
    }

    /// Returns the number of units that are taken.
    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the number of units that are taken here and free in another bitmap of the same size.
    pub(crate) fn count_without(&self, other: &Bitmap) -> u32 {
        debug_assert_eq!(self.units, other.units, "bitmaps of one segment");
        let pairs = self.words.iter().zip(&other.words);
        pairs
            .map(|(word, other)| (word & !other).count_ones())
            .sum()
    }

    /// Takes a run. If any unit of it is taken or does not exist, changes nothing and returns false.
    #[must_use]
    pub(crate) fn set(&mut self, start: u32, len: u32) -> bool {
        if !self.is_run(start, len, false) {
            return false;
        }
        for_words(start, len, |word, mask| self.words[word] |= mask);
        true
    }

    /// Frees a run. If any unit of it is free or does not exist, changes nothing and returns false.
    #[must_use]
    pub(crate) fn clear(&mut self, start: u32, len: u32) -> bool {
        if !self.is_run(start, len, true) {
            return false;
        }
        for_words(start, len, |word, mask| self.words[word] &= !mask);
        true
    }

    /// Frees the taken units of a run, and returns their number.
    pub(crate) fn clear_all(&mut self, start: u32, len: u32) -> u32 {
        debug_assert!(start + len <= self.units, "a run of the segment");
        let count = self.count_run(start, len);
        for_words(start, len, |word, mask| self.words[word] &= !mask);
        count
    }

    /// Frees the units of a run that are free in another bitmap, and returns their number.
    pub(crate) fn clear_besides(&mut self, start: u32, len: u32, others: &Bitmap) -> u32 {
        debug_assert_eq!(self.units, others.units, "bitmaps of one segment");
        debug_assert!(start + len <= self.units, "a run of the segment");
        let mut count = 0;
        for_words(start, len, |word, mask| {
            let mask = mask & !others.words[word] & self.words[word];
            self.words[word] &= !mask;
            count += mask.count_ones();
        });
        count
    }

    /// Takes all units that are taken in another bitmap of the same size.
    pub(crate) fn merge(&mut self, other: &Bitmap) {
        debug_assert_eq!(self.units, other.units, "bitmaps of one segment");
        let pairs = self.words.iter_mut().zip(&other.words);
        pairs.for_each(|(word, other)| *word |= other);
    }

    /// The units that are taken here and free in another bitmap of the same size.
    pub(crate) fn without(&self, other: &Bitmap) -> Bitmap {
        debug_assert_eq!(self.units, other.units, "bitmaps of one segment");
        let pairs = self.words.iter().zip(&other.words);
        Bitmap {
            words: pairs.map(|(word, other)| word & !other).collect(),
            units: self.units,
        }
    }

    /// Returns the number of units of a run that are taken.
    pub(crate) fn count_run(&self, start: u32, len: u32) -> u32 {
        debug_assert!(start + len <= self.units, "a run of the segment");
        let mut count = 0;
        for_words(start, len, |word, mask| {
            count += (self.words[word] & mask).count_ones();
        });
        count
    }

    /// Returns whether a run exists and all of it is free.
    pub(crate) fn is_free(&self, start: u32, len: u32) -> bool {
        self.is_run(start, len, false)
    }

    /// Returns whether a run exists and all of it is taken.
    pub(crate) fn is_taken(&self, start: u32, len: u32) -> bool {
        self.is_run(start, len, true)
    }

    fn is_run(&self, start: u32, len: u32, taken: bool) -> bool {
        let exists = start.checked_add(len).is_some_and(|end| end <= self.units);
        if !exists {
            return false;
        }
        let mut same = true;
        for_words(start, len, |word, mask| {
            let bits = self.words[word] & mask;
            same &= bits == if taken { mask } else { 0 };
        });
        same
    }

    /// The first run of `len` free units at or after `from`. If there is none, the error is the length of the longest
    /// run that was seen.
    pub(crate) fn find(&self, from: u32, len: u32) -> Result<u32, u32> {
        debug_assert!(len > 0, "each place has a run of no units");
        let mut longest = 0;
        let mut at = from;
        while let Some(start) = self.next(at, false) {
            // Bits after the last unit are never set, so that the last free run ends with the segment.
            let end = self.next(start, true).unwrap_or(self.units);
            if end - start >= len {
                return Ok(start);
            }
            longest = longest.max(end - start);
            at = end;
        }
        Err(longest)
    }

    /// The runs of free units: the start and the length of each.
    pub(crate) fn free_runs(&self) -> Vec<(u32, u32)> {
        self.runs(false)
    }

    /// The runs of taken units.
    pub(crate) fn taken_runs(&self) -> Vec<(u32, u32)> {
        self.runs(true)
    }

    fn runs(&self, taken: bool) -> Vec<(u32, u32)> {
        let (mut runs, mut at) = (Vec::new(), 0);
        while let Some(start) = self.next(at, taken) {
            let end = self.next(start, !taken).unwrap_or(self.units);
            runs.push((start, end - start));
            at = end;
        }
        runs
    }

    /// The first unit at or after `from` that is taken (`taken`), or that is free.
    fn next(&self, from: u32, taken: bool) -> Option<u32> {
        let flip = if taken { 0 } else { u64::MAX };
        let mut word = (from / 64) as usize;
        let mut bits = (self.words.get(word)? ^ flip) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = self.words.get(word)? ^ flip;
        }
        let unit = word as u32 * 64 + bits.trailing_zeros();
        (unit < self.units).then_some(unit)
    }
}

/// Calls `f` with each word that a run touches and the run's bits in it.
fn for_words(start: u32, len: u32, mut f: impl FnMut(usize, u64)) {
    let mut at = start;
    let end = start + len;
    while at < end {
        let bit = at % 64;
        let n = (64 - bit).min(end - at);
        let mask = (u64::MAX >> (64 - n)) << bit;
        f((at / 64) as usize, mask);
        at += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_and_freed_whole() {
        let mut map = Bitmap::new(200);
        assert!(map.set(60, 70));
        assert_eq!(map.count(), 70);
        assert!(!map.set(129, 2), "its first unit is taken");
        assert!(!map.clear(129, 2), "its last unit is free");
        assert_eq!(map.count(), 70);
        assert!(!map.set(199, 2), "beyond the end");
        assert!(!map.set(u32::MAX, 1));
        assert!(map.clear(64, 64));
        assert_eq!(map.count(), 6);
    }

    #[test]
    fn free_runs_are_found() {
        let mut map = Bitmap::new(200);
        assert_eq!(map.find(0, 200), Ok(0));
        assert_eq!(map.find(1, 200), Err(199));
        assert!(map.set(0, 3) && map.set(10, 100) && map.set(150, 50));
        assert_eq!(map.find(0, 7), Ok(3));
        assert_eq!(map.find(0, 8), Ok(110));
        assert_eq!(map.find(4, 7), Ok(110));
        assert_eq!(map.find(0, 41), Err(40));
        assert_eq!(map.find(200, 1), Err(0));
        assert!(map.set(3, 7) && map.set(110, 40));
        assert_eq!(map.find(0, 1), Err(0));
    }

    #[test]
    fn two_bitmaps_are_compared() {
        let (mut map, mut other) = (Bitmap::new(200), Bitmap::new(200));
        assert!(map.set(60, 70) && other.set(100, 50));
        assert_eq!(map.without(&other).taken_runs(), [(60, 40)]);
        assert_eq!((map.count_run(50, 20), map.count_run(0, 200)), (10, 70));
        assert_eq!(map.clear_besides(60, 50, &other), 40);
        assert_eq!(map.taken_runs(), [(100, 30)]);
        map.merge(&other);
        assert_eq!(map, other);
    }

    #[test]
    fn bytes_are_checked() {
        let mut map = Bitmap::new(70);
        assert!(map.set(3, 66));
        let mut bytes = map.to_bytes();
        assert_eq!(bytes.len(), 16);
        assert_eq!(Bitmap::from_bytes(&bytes, 70), Some(map));
        assert_eq!(Bitmap::from_bytes(&bytes[..15], 70), None);
        bytes[8] |= 0x40;
        assert_eq!(Bitmap::from_bytes(&bytes, 70), None);
    }
}
