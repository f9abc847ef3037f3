//! Reading `.pefs.db`: a btree of Berkeley DB 1.85, of pages of 512 bytes to 64 KiB, in the byte order of
//! the machine that wrote it.

use crate::formats::pefs::error::Error;

/// Longer files are not read: a record takes about 150 bytes.
pub const DATABASE_MAX: usize = 16 << 20;

pub(crate) const MAGIC: u32 = 0x05_3162;
pub(crate) const VERSION: u32 = 3;
/// Numbers of pages, and so many bytes of flags and offsets.
pub(crate) const HEADER_LEN: usize = 20;
pub(crate) const INTERNAL: u32 = 1;
pub(crate) const LEAF: u32 = 2;
const KIND: u32 = 0x1f;
/// The flag of an item whose key or data lies on other pages. The library does that with long ones only.
const OVERFLOW: u8 = 3;

/// The file.
pub struct Database<'a> {
    bytes: &'a [u8],
    page_size: usize,
    is_swapped: bool,
}

/// A key, and what is stored for it.
pub type DatabaseRecord<'a> = (&'a [u8], &'a [u8]);

struct DatabasePage<'a> {
    bytes: &'a [u8],
    is_swapped: bool,
    next: u32,
    kind: u32,
    count: usize,
}

impl<'a> Database<'a> {
    /// Reads the first page.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn new(bytes: &'a [u8]) -> Result<Database<'a>, Error> {
        let damaged = Error::Database;
        if bytes.len() > DATABASE_MAX {
            return Err(damaged("it is too long"));
        }
        let is_swapped = match number(bytes, 0, false) {
            Some(MAGIC) => false,
            Some(other) if other.swap_bytes() == MAGIC => true,
            _ => return Err(damaged("it is no btree of Berkeley DB 1.85")),
        };
        let field = |at| number(bytes, at, is_swapped).unwrap_or_default();
        let page_size = field(8) as usize;
        if field(4) != VERSION || !(512..=65_536).contains(&page_size) {
            return Err(damaged("its version or the size of its pages is unknown"));
        }
        Ok(Database {
            bytes,
            page_size,
            is_swapped,
        })
    }

    /// The size of its pages, in bytes.
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// All records, in the order of their keys.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn records(&self) -> Result<Vec<DatabaseRecord<'a>>, Error> {
        let mut records = Vec::new();
        let mut page = self.first_leaf()?;
        // As many as there can be: the links may go in a circle.
        for _ in 0..self.bytes.len() / self.page_size {
            for index in 0..page.count {
                records.push(page.record(index)?);
            }
            if page.next == 0 {
                return Ok(records);
            }
            page = self.page(page.next, LEAF)?;
        }
        Err(Error::Database("its pages are linked in a circle"))
    }

    /// The record of a key.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Error> {
        let records = self.records()?;
        let found = records.into_iter().find(|(found, _)| *found == key);
        Ok(found.map(|(_, value)| value))
    }

    /// The leaf at the left, from the root down.
    fn first_leaf(&self) -> Result<DatabasePage<'a>, Error> {
        let mut number = 1;
        // No tree is as high.
        for _ in 0..32 {
            let page = self.page(number, INTERNAL | LEAF)?;
            if page.kind == LEAF {
                return Ok(page);
            }
            number = page.child(0)?;
        }
        Err(Error::Database("its tree is too high"))
    }

    fn page(&self, number: u32, kinds: u32) -> Result<DatabasePage<'a>, Error> {
        let start = (number as usize).checked_mul(self.page_size);
        let bytes = start
            .and_then(|start| self.bytes.get(start..)?.get(..self.page_size))
            .ok_or(Error::Database("a page is not there"))?;
        let field = |at| self::number(bytes, at, self.is_swapped).unwrap_or_default();
        let lower = usize::from(half(bytes, 16, self.is_swapped).unwrap_or_default());
        let kind = field(12) & KIND;
        let is_right = number != 0 && (kind == INTERNAL || kind == LEAF) && kind & kinds != 0;
        if field(0) != number || !is_right || lower > self.page_size {
            return Err(Error::Database("a page is none of the tree"));
        }
        Ok(DatabasePage {
            bytes,
            is_swapped: self.is_swapped,
            next: field(8),
            kind,
            count: lower.saturating_sub(HEADER_LEN) / 2,
        })
    }
}

impl<'a> DatabasePage<'a> {
    fn item(&self, index: usize) -> Result<&'a [u8], Error> {
        let offset = half(self.bytes, HEADER_LEN + 2 * index, self.is_swapped);
        offset
            .and_then(|offset| self.bytes.get(usize::from(offset)..))
            .ok_or(Error::Database("an item is outside of its page"))
    }

    fn child(&self, index: usize) -> Result<u32, Error> {
        number(self.item(index)?, 4, self.is_swapped)
            .ok_or(Error::Database("an item is outside of its page"))
    }

    fn record(&self, index: usize) -> Result<DatabaseRecord<'a>, Error> {
        let item = self.item(index)?;
        let cut = || {
            let key_len = number(item, 0, self.is_swapped)? as usize;
            let data_len = number(item, 4, self.is_swapped)? as usize;
            let (flags, rest) = item.get(8..)?.split_first()?;
            let (key, rest) = rest.split_at_checked(key_len)?;
            Some((flags & OVERFLOW, key, rest.get(..data_len)?))
        };
        match cut() {
            Some((0, key, data)) => Ok((key, data)),
            _ => Err(Error::Database("a record is outside of its page")),
        }
    }
}

fn number(bytes: &[u8], at: usize, is_swapped: bool) -> Option<u32> {
    let number = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    Some(if is_swapped {
        number.swap_bytes()
    } else {
        number
    })
}

fn half(bytes: &[u8], at: usize, is_swapped: bool) -> Option<u16> {
    let number = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    Some(if is_swapped {
        number.swap_bytes()
    } else {
        number
    })
}
