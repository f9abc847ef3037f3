//! Plaintext in memory.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parking_lot::Mutex;

/// The plaintext of a record, or of its front part. Wiped when it is dropped.
#[derive(Default)]
pub(crate) struct RecordBuffer {
    bytes: Vec<u8>,
}

impl RecordBuffer {
    /// `len` zeros.
    pub(crate) fn zeroed(len: usize) -> RecordBuffer {
        let bytes = spare::take(len).unwrap_or_else(|| vec![0; len]);
        RecordBuffer { bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Makes it at least `len` bytes long, with zeros.
    pub(crate) fn grow(&mut self, len: usize) {
        if len > self.bytes.len() {
            self.resize(len);
        }
    }

    /// Makes it `len` bytes long. Wipes the bytes behind a new end.
    pub(crate) fn resize(&mut self, len: usize) {
        if len <= self.bytes.len() {
            self.bytes[len..].fill(0);
            self.bytes.truncate(len);
        } else if len <= self.bytes.capacity() {
            self.bytes.resize(len, 0);
        } else {
            // A buffer that grows in small steps must not be copied at each step.
            let size = match self.bytes.len() {
                0 => len,
                _ => len.next_power_of_two(),
            };
            let mut larger = RecordBuffer::zeroed(size);
            larger.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
            larger.bytes.truncate(len);
            *self = larger;
        }
    }
}

impl Clone for RecordBuffer {
    fn clone(&self) -> RecordBuffer {
        let mut copy = RecordBuffer::zeroed(self.len());
        copy.bytes.copy_from_slice(&self.bytes);
        copy
    }
}

impl Drop for RecordBuffer {
    fn drop(&mut self) {
        self.bytes.fill(0);
        // Otherwise the compiler would remove these writes, since the zeros are never read.
        std::hint::black_box(&self.bytes);
        spare::give(std::mem::take(&mut self.bytes));
    }
}

/// Keeps wiped memory of dropped buffers for new buffers. Getting memory from the kernel again, page by page, costs
/// more than encrypting its contents.
mod spare {
    use super::Mutex;

    /// The smallest size that is kept. Sizes are powers of two.
    const SIZE_MIN: usize = 64 << 10;
    /// The number of sizes: the record sizes up to 1 MiB.
    const SIZES: usize = 5;
    /// The bytes that are kept of each size.
    const KEPT: usize = 8 << 20;

    static SPARE: [Mutex<Vec<Vec<u8>>>; SIZES] = [const { Mutex::new(Vec::new()) }; SIZES];

    /// The kept memory of a size.
    fn shelf(size: usize) -> Option<&'static Mutex<Vec<Vec<u8>>>> {
        let is_kept = size.is_power_of_two() && size >= SIZE_MIN;
        is_kept.then(|| SPARE.get((size / SIZE_MIN).ilog2() as usize))?
    }

    /// `len` zeros.
    pub(super) fn take(len: usize) -> Option<Vec<u8>> {
        shelf(len)?.lock().pop()
    }

    /// Keeps wiped memory.
    pub(super) fn give(mut wiped: Vec<u8>) {
        let size = wiped.capacity();
        if let Some(shelf) = shelf(size) {
            wiped.resize(size, 0);
            let mut shelf = shelf.lock();
            if (shelf.len() + 1) * size <= KEPT {
                shelf.push(wiped);
            }
        }
    }
}

impl std::ops::Deref for RecordBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::ops::DerefMut for RecordBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

struct SharedBuffer(Arc<RecordBuffer>);

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A piece of a buffer. Others may keep using the buffer.
pub(crate) fn piece(buffer: &Arc<RecordBuffer>, start: usize, end: usize) -> Bytes {
    Bytes::from_owner(SharedBuffer(Arc::clone(buffer))).slice(start..end)
}

/// `len` zeros. A small number of them needs no memory of its own.
pub(crate) fn zeros(len: usize) -> Bytes {
    // Not a constant: the program would be larger by it.
    static ZEROS: LazyLock<&[u8]> = LazyLock::new(|| vec![0; 1 << 20].leak());
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
        let mut buffer = RecordBuffer::zeroed(8);
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
    fn what_is_used_again_is_zero() {
        const LEN: usize = 256 << 10;
        for _ in 0..100 {
            let mut buffer = RecordBuffer::zeroed(LEN);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            let mut copy = buffer.clone();
            assert!(buffer[..] == copy[..]);
            copy.resize(LEN / 2 + 1);
        }
    }

    #[test]
    fn pieces_share() {
        let buffer = Arc::new(RecordBuffer::zeroed(10));
        let piece = piece(&buffer, 2, 5);
        assert_eq!(piece.len(), 3);
        assert_eq!(Arc::strong_count(&buffer), 2);
        drop(piece);
        assert_eq!(Arc::strong_count(&buffer), 1);
        assert_eq!(zeros(2 << 20).len(), 2 << 20);
    }
}
