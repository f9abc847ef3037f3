//! A page of the metadata tree: sorted cells in a fixed block of bytes.
//!
//! A page has the same bytes in memory and on disk (before compression and sealing). The head is followed by the
//! offsets of the cells, two bytes each, in the order of their keys. The cells themselves grow down from the end of the
//! page:
//!
//! ```text
//! | head | offset 0 | offset 1 | ... |      free      | ... cells |
//! cell:  key length u16 | value length u16 | key | value
//! ```
//!
//! Only a checksum that anyone can compute protects pages of clear datasets. So a page is checked as a whole when it is
//! read, and the rest of this module relies on this check.

use std::ops::Range;

/// Bytes of a page.
pub(crate) const PAGE: usize = 16 << 10;

const HEAD: usize = 16;
const OFFSET: usize = 2;
const CELL_HEAD: usize = 4;

/// The largest length of key and value together. Three cells fit on a page, so that a page can always be split.
pub(crate) const CELL_MAX: usize = (PAGE - HEAD) / 3 - OFFSET - CELL_HEAD;

const MAGIC: [u8; 4] = *b"PAGE";

/// A page. Wiped when it is dropped.
#[derive(Clone)]
pub(crate) struct TreePage {
    bytes: Box<[u8; PAGE]>,
}

impl Drop for TreePage {
    fn drop(&mut self) {
        self.bytes.fill(0);
        // Otherwise the compiler would remove these writes, since the zeros are never read.
        std::hint::black_box(&self.bytes);
    }
}

// The head: magic 4, kind 1, 1 unused, count u16, floor u16 (the lowest cell), garbage u16 (bytes of
// removed cells), 4 unused.
const KIND: usize = 4;
const COUNT: usize = 6;
const FLOOR: usize = 8;
const GARBAGE: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Keys and values.
    Leaf = 1,
    /// The least key below each child, and the child's slot. The first key counts as less than all.
    Inner = 2,
}

impl TreePage {
    /// An empty page.
    pub(crate) fn new(kind: PageKind) -> TreePage {
        let mut bytes: Box<[u8; PAGE]> = vec![0; PAGE]
            .into_boxed_slice()
            .try_into()
            .expect("its length is PAGE");
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[KIND] = kind as u8;
        let mut page = TreePage { bytes };
        page.set_u16(FLOOR, PAGE);
        page
    }

    /// A page from bytes that were read; `None` if they are not a valid page.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<TreePage> {
        let bytes: Box<[u8; PAGE]> = Box::<[u8]>::from(bytes).try_into().ok()?;
        let page = TreePage { bytes };
        page.is_sound().then_some(page)
    }

    pub(crate) fn bytes(&self) -> &[u8; PAGE] {
        &self.bytes
    }

    fn is_sound(&self) -> bool {
        let kind_fits = matches!(self.bytes[KIND], 1 | 2);
        let floor = self.u16(FLOOR);
        let offsets_end = HEAD + self.len() * OFFSET;
        if self.bytes[..4] != MAGIC || !kind_fits || floor > PAGE || offsets_end > floor {
            return false;
        }
        // An inner page has at least one child.
        if self.len() == 0 && self.kind() == PageKind::Inner {
            return false;
        }
        let mut used = 0;
        let mut cells = Vec::with_capacity(self.len());
        let mut before: Option<&[u8]> = None;
        for index in 0..self.len() {
            let at = self.offset(index);
            if at < floor || at + CELL_HEAD > PAGE {
                return false;
            }
            let len = CELL_HEAD + self.u16(at) + self.u16(at + 2);
            if at + len > PAGE || len > CELL_HEAD + CELL_MAX {
                return false;
            }
            cells.push((at, at + len));
            used += len;
            let key = self.key(index);
            if before.is_some_and(|before| before >= key) {
                return false;
            }
            if self.kind() == PageKind::Inner && self.value(index).len() != 8 {
                return false;
            }
            before = Some(key);
        }
        cells.sort_unstable();
        let apart = cells.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        apart && used + self.u16(GARBAGE) == PAGE - floor
    }

    fn u16(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    pub(crate) fn kind(&self) -> PageKind {
        if self.bytes[KIND] == PageKind::Leaf as u8 {
            PageKind::Leaf
        } else {
            PageKind::Inner
        }
    }

    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.u16(COUNT)
    }

    fn offset(&self, index: usize) -> usize {
        self.u16(HEAD + index * OFFSET)
    }

    /// The key of a cell.
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let at = self.offset(index);
        &self.bytes[at + CELL_HEAD..at + CELL_HEAD + self.u16(at)]
    }

    fn value_range(&self, index: usize) -> Range<usize> {
        let at = self.offset(index);
        let start = at + CELL_HEAD + self.u16(at);
        start..start + self.u16(at + 2)
    }

    /// The value of a cell.
    pub(crate) fn value(&self, index: usize) -> &[u8] {
        &self.bytes[self.value_range(index)]
    }

    /// The child in a cell of an inner page.
    pub(crate) fn child(&self, index: usize) -> u64 {
        u64::from_le_bytes(
            self.value(index)
                .try_into()
                .expect("checked when it was read"),
        )
    }

    /// The index of the cell with a key, or the index where it would be inserted.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let mut low = 0;
        let mut high = self.len();
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The index of the child that covers a key.
    pub(crate) fn child_index(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(index) => index,
            Err(index) => index.saturating_sub(1),
        }
    }

    /// Bytes that cells and their offsets take.
    pub(crate) fn used(&self) -> usize {
        self.len() * OFFSET + (PAGE - self.u16(FLOOR)) - self.u16(GARBAGE)
    }

    /// Returns whether a cell of this size would fit.
    pub(crate) fn fits(&self, key: &[u8], value: &[u8]) -> bool {
        self.used() + OFFSET + CELL_HEAD + key.len() + value.len() <= PAGE - HEAD
    }

    /// Inserts a cell at an index. It must fit, and no cell may have its key.
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        debug_assert!(self.fits(key, value));
        let len = CELL_HEAD + key.len() + value.len();
        let offsets_end = HEAD + self.len() * OFFSET;
        if offsets_end + OFFSET + len > self.u16(FLOOR) {
            self.compact();
        }
        let at = self.u16(FLOOR) - len;
        self.set_u16(at, key.len());
        self.set_u16(at + 2, value.len());
        self.bytes[at + CELL_HEAD..at + CELL_HEAD + key.len()].copy_from_slice(key);
        self.bytes[at + CELL_HEAD + key.len()..at + len].copy_from_slice(value);
        self.set_u16(FLOOR, at);
        let slot = HEAD + index * OFFSET;
        self.bytes.copy_within(slot..offsets_end, slot + OFFSET);
        self.set_u16(slot, at);
        self.set_u16(COUNT, self.len() + 1);
    }

    /// Removes a cell.
    pub(crate) fn remove(&mut self, index: usize) {
        let at = self.offset(index);
        let len = CELL_HEAD + self.u16(at) + self.u16(at + 2);
        // The bytes of a removed name or file must not stay in the page.
        self.bytes[at..at + len].fill(0);
        let offsets_end = HEAD + self.len() * OFFSET;
        let slot = HEAD + index * OFFSET;
        self.bytes.copy_within(slot + OFFSET..offsets_end, slot);
        self.bytes[offsets_end - OFFSET..offsets_end].fill(0);
        self.set_u16(COUNT, self.len() - 1);
        if self.len() == 0 {
            self.set_u16(FLOOR, PAGE);
            self.set_u16(GARBAGE, 0);
        } else if at == self.u16(FLOOR) {
            self.set_u16(FLOOR, at + len);
        } else {
            self.set_u16(GARBAGE, self.u16(GARBAGE) + len);
        }
    }

    /// Replaces the value of a cell. If the new value does not fit, removes the cell and returns false.
    #[must_use]
    pub(crate) fn replace(&mut self, index: usize, value: &[u8]) -> bool {
        let range = self.value_range(index);
        if range.len() == value.len() {
            self.bytes[range].copy_from_slice(value);
            return true;
        }
        let key = self.key(index).to_vec();
        self.remove(index);
        if !self.fits(&key, value) {
            return false;
        }
        self.insert(index, &key, value);
        true
    }

    /// Moves the cells together, so that all free bytes are in one piece.
    fn compact(&mut self) {
        let mut packed = TreePage::new(self.kind());
        for index in 0..self.len() {
            packed.push(self.key(index), self.value(index));
        }
        *self = packed;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.insert(self.len(), key, value);
    }

    /// Moves the upper cells into a new page, so that a new cell at `index` of size `len` fits on
    /// the page where it belongs: the new page if that is empty or begins before `index`, else this
    /// one. A page that is filled in the order of keys is left full.
    pub(crate) fn split(&mut self, index: usize, len: usize) -> TreePage {
        let from = self.split_point(index, len);
        let mut upper = TreePage::new(self.kind());
        let mut lower = TreePage::new(self.kind());
        for i in 0..self.len() {
            let page = if i < from { &mut lower } else { &mut upper };
            page.push(self.key(i), self.value(i));
        }
        *self = lower;
        upper
    }

    /// The first cell that goes to the upper page.
    fn split_point(&self, index: usize, len: usize) -> usize {
        if index == self.len() {
            return self.len();
        }
        let size = |i: usize| OFFSET + CELL_HEAD + self.key(i).len() + self.value(i).len();
        let total = self.used() + len;
        let mut lower = 0;
        for i in 0..self.len() {
            if i == index {
                lower += len;
            }
            if lower + size(i) > total / 2 {
                return i.max(1);
            }
            lower += size(i);
        }
        self.len()
    }

    /// Appends the cells of the next page. They must fit.
    pub(crate) fn append(&mut self, next: &TreePage) {
        for index in 0..next.len() {
            self.push(next.key(index), next.value(index));
        }
    }
}

/// The bytes that a cell takes in a page.
pub(crate) fn cell_size(key: &[u8], value: &[u8]) -> usize {
    OFFSET + CELL_HEAD + key.len() + value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(page: &TreePage) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..page.len())
            .map(|i| (page.key(i).to_vec(), page.value(i).to_vec()))
            .collect()
    }

    #[test]
    fn cells_are_sorted_found_replaced_and_removed() {
        let mut page = TreePage::new(PageKind::Leaf);
        for key in [b"m", b"c", b"x", b"a"] {
            let index = page.search(key).unwrap_err();
            page.insert(index, key, &key.repeat(10));
        }
        assert!(page.is_sound());
        assert_eq!(page.search(b"m"), Ok(2));
        assert_eq!(page.search(b"n"), Err(3));
        assert!(page.replace(2, b"same size!"));
        assert!(page.replace(2, b"longer than it was"));
        assert_eq!(page.value(2), b"longer than it was");
        page.remove(0);
        assert!(page.is_sound());
        assert_eq!(
            cells(&page).iter().map(|c| c.0[0]).collect::<Vec<_>>(),
            b"cmx"
        );
        assert_eq!(
            TreePage::from_bytes(page.bytes()).map(|p| cells(&p)),
            Some(cells(&page))
        );
    }

    #[test]
    fn a_full_page_is_compacted_and_split() {
        let mut page = TreePage::new(PageKind::Leaf);
        let value = [7; 100];
        let key = |n: usize| format!("{n:05}").into_bytes();
        let mut n = 0;
        while page.fits(&key(n), &value) {
            page.insert(n, &key(n), &value);
            n += 1;
        }
        for index in (0..n).rev().step_by(2) {
            page.remove(index);
        }
        while page.fits(&key(n), &value) {
            page.insert(page.len(), &key(n), &value);
            n += 1;
        }
        assert!(page.is_sound());
        let all = cells(&page);
        for index in [0, 1, all.len() / 2, all.len() - 1, all.len()] {
            for len in [10, CELL_MAX] {
                let mut lower = page.clone();
                let upper = lower.split(index, len);
                assert!(lower.is_sound() && upper.is_sound());
                assert_eq!([cells(&lower), cells(&upper)].concat(), all);
                let free = |p: &TreePage| PAGE - HEAD - p.used();
                let above = upper.len() == 0 || index > lower.len();
                let target = if above { &upper } else { &lower };
                assert!(free(target) >= len, "index {index}, len {len}");
            }
        }
    }

    #[test]
    fn removed_cells_leave_nothing_behind() {
        let mut page = TreePage::new(PageKind::Leaf);
        page.insert(0, b"a secret name", b"a secret value");
        page.insert(1, b"b", b"");
        page.remove(0);
        assert!(!page.bytes().windows(6).any(|w| w == b"secret"));
    }

    #[test]
    fn pages_that_could_not_be_changed_are_refused() {
        let inner = TreePage::new(PageKind::Inner);
        assert!(
            TreePage::from_bytes(inner.bytes()).is_none(),
            "it leads nowhere"
        );
        let mut long = TreePage::new(PageKind::Leaf);
        long.insert(0, b"k", &[1; CELL_MAX]);
        assert!(
            TreePage::from_bytes(long.bytes()).is_none(),
            "too long a cell"
        );
        // Two cells of eight bytes, the second four bytes into the first.
        let mut page = TreePage::new(PageKind::Leaf);
        page.insert(0, b"a", &[0; 7]);
        page.insert(1, b"b", &[0; 7]);
        assert!(TreePage::from_bytes(page.bytes()).is_some());
        let at = page.offset(1);
        page.set_u16(at + 4 + 1, 1);
        page.set_u16(HEAD + OFFSET, at + 5);
        page.bytes[at + 5..at + 10].copy_from_slice(&[1, 0, 7, 0, b'c']);
        assert!(TreePage::from_bytes(page.bytes()).is_none(), "they overlap");
    }

    #[test]
    fn bytes_that_are_no_page_are_refused() {
        assert!(TreePage::from_bytes(&[0; PAGE]).is_none());
        assert!(TreePage::from_bytes(&[0; 10]).is_none());
        let mut page = TreePage::new(PageKind::Inner);
        page.insert(0, b"", &1u64.to_le_bytes());
        page.insert(1, b"k", &2u64.to_le_bytes());
        let good = *page.bytes;
        for at in (0..HEAD + 8).chain(PAGE - 40..PAGE) {
            for value in 0..=255 {
                let mut bad = good;
                bad[at] = value;
                if let Some(page) = TreePage::from_bytes(&bad) {
                    // What is taken can be used without a panic.
                    for index in 0..page.len() {
                        let _ = (page.key(index), page.child(index));
                    }
                }
            }
        }
    }
}
