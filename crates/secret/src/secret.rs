//! Secrets of any length.
//!
//! Looking at the bytes takes a call of `expose`, which is easy to search for in a review.

use std::fmt;
use std::io::{self, Read};

use subtle::ConstantTimeEq;

use crate::memory::Region;
use crate::{Error, Result};

/// Secret bytes of any number, in locked memory.
///
/// Compared in constant time; printed as `[redacted]`; not `Clone`.
#[derive(Default)]
pub struct Secret {
    /// None while nothing has been stored. Past `len` it is all zeros.
    region: Option<Region>,
    len: usize,
}

impl Secret {
    /// No bytes. Takes no memory yet.
    pub const fn new() -> Secret {
        Secret {
            region: None,
            len: 0,
        }
    }

    /// `len` zero bytes, to be written with [`Secret::expose_mut`].
    ///
    /// # Errors
    /// [`Error::LockLimit`] or [`Error::Memory`], here and wherever a secret may grow.
    pub fn zeroed(len: usize) -> Result<Secret> {
        let mut secret = Secret::new();
        secret.reserve(len, len)?;
        secret.len = len;
        Ok(secret)
    }

    /// A copy of `bytes`. The original is the caller's to wipe.
    ///
    /// # Errors
    /// [`Error::LockLimit`], [`Error::SecretsFull`] and [`Error::Memory`] if there is no locked memory.
    pub fn from_slice(bytes: &[u8]) -> Result<Secret> {
        let mut secret = Secret::new();
        secret.push_slice(bytes)?;
        Ok(secret)
    }

    /// Reads `reader` to its end, but at most `limit` bytes, straight into locked memory. To find out whether there is
    /// more, allow one byte more.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn from_reader(reader: &mut impl Read, limit: usize) -> Result<Secret> {
        const STEP: usize = 256;
        let mut secret = Secret::new();
        while secret.len < limit {
            let step = STEP.max(secret.capacity() - secret.len);
            let step = step.min(limit - secret.len);
            secret.reserve(step, limit)?;
            let region = secret.region.as_mut().expect("just reserved");
            let free = &mut region.bytes_mut()[secret.len..][..step];
            match reader.read(free) {
                Ok(0) => break,
                Ok(got) => secret.len += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
        Ok(secret)
    }

    /// A copy, on purpose.
    ///
    /// # Errors
    /// As [`Secret::from_slice`].
    pub fn try_clone(&self) -> Result<Secret> {
        Secret::from_slice(self.expose())
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        match &self.region {
            Some(region) => &region.bytes()[..self.len],
            None => &[],
        }
    }

    /// The bytes, to change them.
    pub fn expose_mut(&mut self) -> &mut [u8] {
        match &mut self.region {
            Some(region) => &mut region.bytes_mut()[..self.len],
            None => &mut [],
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a byte.
    ///
    /// # Errors
    /// As [`Secret::push_slice`].
    pub fn push(&mut self, byte: u8) -> Result<()> {
        self.push_slice(&[byte])
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As [`Secret::from_slice`]; [`Error::SecretTooLong`]. The secret is then as it was.
    pub fn push_slice(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.reserve(bytes.len(), usize::MAX)?;
        let region = self.region.as_mut().expect("just reserved");
        region.bytes_mut()[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Removes and wipes the last byte, if there is one: the rubout key.
    pub fn pop(&mut self) {
        self.truncate(self.len.saturating_sub(1));
    }

    /// Removes and wipes what is past the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.expose_mut()[len..].fill(0);
            self.len = len;
        }
    }

    /// Removes one newline from the end, if there is one.
    pub fn trim_newline(&mut self) {
        if self.expose().last() == Some(&b'\n') {
            self.pop();
        }
    }

    /// Returns the number of bytes that fit without more memory.
    fn capacity(&self) -> usize {
        self.region.as_ref().map_or(0, |r| r.bytes().len())
    }

    /// Makes space for `more` bytes past the present ones, of `limit` in all. What grows has twice as much
    /// afterwards, so that a long secret is not copied again and again.
    fn reserve(&mut self, more: usize, limit: usize) -> Result<()> {
        let needed = self.len.checked_add(more).ok_or(Error::SecretTooLong)?;
        if self.capacity() >= needed {
            return Ok(());
        }
        let needed = needed.max(self.capacity().saturating_mul(2).min(limit));
        let mut region = Region::new(needed)?;
        region.bytes_mut()[..self.len].copy_from_slice(self.expose());
        // The old one is wiped as it goes.
        self.region = Some(region);
        Ok(())
    }
}

impl PartialEq for Secret {
    /// Compares in a time that depends on the lengths only.
    fn eq(&self, other: &Secret) -> bool {
        self.expose().ct_eq(other.expose()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_shrinks() {
        let mut secret = Secret::new();
        let mut expected = Vec::new();
        for i in 0..5000u32 {
            secret.push(i as u8).expect("memory");
            expected.push(i as u8);
        }
        secret.push_slice(b"tail").expect("memory");
        expected.extend(b"tail");
        assert_eq!(secret.expose(), expected);
        secret.truncate(3);
        assert_eq!(secret.expose(), [0, 1, 2]);
        secret.truncate(10);
        assert_eq!(secret.len(), 3);
        secret.pop();
        assert_eq!(secret.expose(), [0, 1]);
        // What was cut off is wiped.
        let region = secret.region.as_ref().expect("not empty");
        assert!(region.bytes()[2..].iter().all(|byte| *byte == 0));
        secret.truncate(0);
        secret.pop();
        assert!(secret.is_empty());
    }

    #[test]
    fn trims_one_newline() {
        for (before, after) in [
            (&b"pass\n"[..], &b"pass"[..]),
            (b"pass", b"pass"),
            (b"pass\n\n", b"pass\n"),
            (b"pass\r\n", b"pass\r"),
            (b"\n", b""),
            (b"", b""),
        ] {
            let mut secret = Secret::from_slice(before).expect("memory");
            secret.trim_newline();
            assert_eq!(secret.expose(), after);
        }
    }

    /// A reader that yields a few bytes at a time, and is interrupted before each.
    struct Halting<'a>(&'a [u8], bool);

    impl Read for Halting<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = out.len().min(7);
            self.0.read(&mut out[..len])
        }
    }

    #[test]
    fn reads_to_the_end_or_the_limit() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        for limit in [0, 1, 7, 255, 256, 257, 999, 1000, 1001, 5000] {
            let secret = Secret::from_reader(&mut Halting(&bytes, false), limit);
            let expected = &bytes[..limit.min(1000)];
            assert_eq!(secret.expect("read").expose(), expected);
        }
        let endless = Secret::from_reader(&mut io::repeat(7), 600).expect("read");
        assert_eq!(endless.len(), 600);
    }

    #[test]
    fn compares_and_prints_nothing() {
        let secret = |bytes| Secret::from_slice(bytes).expect("memory");
        assert_eq!(secret(b"hunter2!"), secret(b"hunter2!"));
        assert_ne!(secret(b"hunter2!"), secret(b"hunter3!"));
        assert_ne!(secret(b"hunter2!"), secret(b"hunter2"));
        assert_eq!(secret(b""), Secret::new());
        let text = format!("{:?} {}", secret(b"hunter2!"), secret(b"hunter2!"));
        assert_eq!(text, "[redacted] [redacted]");
    }
}
