//! Reads and writes the unencrypted structures of a pool. Reading handles all input: it returns a value or `None`, and
//! never allocates more than the size of the input.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Takes values off the front of bytes.
pub(crate) struct ValueReader<'a> {
    rest: &'a [u8],
}

impl<'a> ValueReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> ValueReader<'a> {
        ValueReader { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// A value of fixed layout.
    pub(crate) fn value<T: FromBytes + Immutable>(&mut self) -> Option<T> {
        T::read_from_bytes(self.bytes(size_of::<T>())?).ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.value()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.value()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.value()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.value()?))
    }

    /// A text with its length before it.
    pub(crate) fn text(&mut self) -> Option<String> {
        let len = self.u16()?;
        let bytes = self.bytes(usize::from(len))?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Puts values behind each other.
#[derive(Default)]
pub(crate) struct ValueWriter {
    pub(crate) bytes: Vec<u8>,
}

impl ValueWriter {
    pub(crate) fn value<T: IntoBytes + Immutable>(&mut self, value: &T) -> &mut ValueWriter {
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut ValueWriter {
        self.value(&value)
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut ValueWriter {
        self.value(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut ValueWriter {
        self.value(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut ValueWriter {
        self.value(&value.to_le_bytes())
    }

    /// A text, which is shorter than 64 KiB.
    pub(crate) fn text(&mut self, text: &str) -> &mut ValueWriter {
        debug_assert!(text.len() <= usize::from(u16::MAX));
        self.u16(text.len() as u16);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }
}

/// Pads bytes with zeros to whole units, as they lie on disk.
pub(crate) fn pad(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len().next_multiple_of(store::UNIT as usize);
    bytes.resize(len, 0);
    bytes
}
