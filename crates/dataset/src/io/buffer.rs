//! Plaintext in memory.

use std::sync::Arc;

use bytes::Bytes;

/// The plaintext of a record, or of its front part. Wiped when it is dropped.
#[derive(Clone, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    /// `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Buffer {
        Buffer {
            bytes: vec![0; len],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Makes it at least `len` bytes long, with zeros.
    pub(crate) fn grow(&mut self, len: usize) {
        if len > self.bytes.len() {
            self.resize(len);
        }
    }

    /// Makes it `len` bytes long, leaving nothing behind where it is cut.
    pub(crate) fn resize(&mut self, len: usize) {
        if len <= self.bytes.len() {
            self.bytes[len..].fill(0);
            self.bytes.truncate(len);
        } else if len <= self.bytes.capacity() {
            self.bytes.resize(len, 0);
        } else {
            let mut larger = Vec::with_capacity(len);
            larger.extend_from_slice(&self.bytes);
            larger.resize(len, 0);
            *self = Buffer { bytes: larger };
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.bytes.fill(0);
        // Or the compiler would see that nobody reads the zeros.
        std::hint::black_box(&self.bytes);
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

struct Shared(Arc<Buffer>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A piece of a buffer that others may go on using.
pub(crate) fn piece(buffer: &Arc<Buffer>, start: usize, end: usize) -> Bytes {
    Bytes::from_owner(Shared(Arc::clone(buffer))).slice(start..end)
}

/// `len` zeros, without any memory of their own where there are few.
pub(crate) fn zeros(len: usize) -> Bytes {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    match ZEROS.get(..len) {
        Some(zeros) => Bytes::from_static(zeros),
        None => Bytes::from(vec![0; len]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let mut buffer = Buffer::zeroed(8);
        buffer.fill(7);
        buffer.resize(4);
        buffer.resize(8);
        assert_eq!(&buffer[..], [7, 7, 7, 7, 0, 0, 0, 0]);
        buffer.grow(2);
        assert_eq!(buffer.len(), 8);
        buffer.grow(100);
        assert_eq!(&buffer[..5], [7, 7, 7, 7, 0]);
    }

    #[test]
    fn pieces_share() {
        let buffer = Arc::new(Buffer::zeroed(10));
        let piece = piece(&buffer, 2, 5);
        assert_eq!(piece.len(), 3);
        assert_eq!(Arc::strong_count(&buffer), 2);
        drop(piece);
        assert_eq!(Arc::strong_count(&buffer), 1);
        assert_eq!(zeros(2 << 20).len(), 2 << 20);
    }
}
