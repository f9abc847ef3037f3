//! The bytes of a medium, in chunks that copies share until one of them writes.

use std::sync::Arc;

const CHUNK: usize = 16 << 10;

/// The bytes of a medium. A copy costs little, because a power cut is tried at each of thousands of writes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Medium {
    chunks: Vec<Arc<Vec<u8>>>,
    len: usize,
}

impl Medium {
    /// A medium of `len` zero bytes.
    pub(super) fn new(len: usize) -> Medium {
        let mut medium = Medium {
            chunks: Vec::new(),
            len: 0,
        };
        medium.resize(len);
        medium
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Medium {
        let mut medium = Medium::new(bytes.len());
        medium.write(0, bytes);
        medium
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes it this long: with zeros at its end, or without what was there.
    pub(super) fn resize(&mut self, len: usize) {
        if let Some(end) = self.chunks.get_mut(len / CHUNK).filter(|_| len < self.len) {
            Arc::make_mut(end)[len % CHUNK..].fill(0);
        }
        let zeros = Arc::new(vec![0; CHUNK]);
        self.chunks.resize(len.div_ceil(CHUNK), zeros);
        self.len = len;
    }

    /// # Panics
    /// If the range is not in the medium.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= self.len, "a write past the end");
        for (at, piece) in pieces(offset, data.len()) {
            let chunk = &self.chunks[(offset + at) / CHUNK];
            let start = (offset + at) % CHUNK;
            let data = &data[at..at + piece];
            if chunk[start..start + piece] != *data {
                let chunk = Arc::make_mut(&mut self.chunks[(offset + at) / CHUNK]);
                chunk[start..start + piece].copy_from_slice(data);
            }
        }
    }

    /// # Panics
    /// If the range is not in the medium.
    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) {
        assert!(offset + buf.len() <= self.len, "a read past the end");
        for (at, piece) in pieces(offset, buf.len()) {
            let start = (offset + at) % CHUNK;
            let chunk = &self.chunks[(offset + at) / CHUNK];
            buf[at..at + piece].copy_from_slice(&chunk[start..start + piece]);
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }
}

/// The pieces of a range that lie in one chunk each: their place in the range, and length.
fn pieces(offset: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = (CHUNK - (offset + at) % CHUNK).min(len - at);
        let next = (at, piece);
        at += piece;
        (piece > 0).then_some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_bytes() {
        let mut medium = Medium::from_bytes(&[7; 2 * CHUNK + 100]);
        let copy = medium.clone();
        medium.write(CHUNK - 1, &[1, 2, 3]);
        assert!(copy.to_bytes() == [7; 2 * CHUNK + 100]);
        let mut expected = vec![7; 2 * CHUNK + 100];
        expected[CHUNK - 1..CHUNK + 2].copy_from_slice(&[1, 2, 3]);
        assert!(medium.to_bytes() == expected);
        for len in [CHUNK + 50, 3 * CHUNK + 1, 0, 9] {
            medium.resize(len);
            expected.resize(len, 0);
            assert!(medium.to_bytes() == expected, "{len}");
            assert_eq!(medium.len(), len);
        }
        let mut buf = [0; 3];
        copy.read(CHUNK - 2, &mut buf);
        assert_eq!(buf, [7; 3]);
    }
}
