//! Messages that do not fit memory: AES-GCM over files.
//!
//! The end of a message shows that it is authentic. [`AeadCipher::open_stream`] therefore reads it twice. The
//! first time authenticates it, and keeps a MAC of each piece of ciphertext. The second time decrypts: a piece that
//! differs is noticed before any of it goes out. It takes 1 MiB, and 32 bytes for each MiB of the message.

use std::io::{self, Read, Seek, SeekFrom, Write};

use zeroize::Zeroizing;

use super::AeadCipher;
use crate::ffi::{Direction, GcmStream};
use crate::{Error, Random, Result, SystemRandom, TAG_LEN, mac};

/// The number of bytes that are read at once.
const PIECE: usize = 1 << 20;

impl AeadCipher {
    /// Decrypts `input` from its position to its end, and writes it once all of it is authentic. Not a byte goes to
    /// `output` before.
    ///
    /// # Errors
    /// [`Error::Unauthentic`], also if `input` changes meanwhile, as [`io::ErrorKind::InvalidData`];
    /// [`Error::Unsupported`] for other algorithms than GCM of AWS-LC, as
    /// [`io::ErrorKind::Unsupported`]; those of `input` and `output`.
    pub fn open_stream(
        &self,
        nonce: &[u8],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        input: &mut (impl Read + Seek),
        output: &mut impl Write,
    ) -> io::Result<()> {
        let start = input.stream_position()?;
        let mut key = Zeroizing::new([0; 32]);
        SystemRandom.fill(&mut *key).map_err(failed)?;
        let mut macs = Vec::new();
        let mut first = self.stream(Direction::Decrypt, nonce, aad)?;
        pieces(input, |piece| {
            macs.push(mac(&key, &[piece]));
            first.update(piece).map_err(failed)
        })?;
        first.verify(tag).map_err(failed)?;

        input.seek(SeekFrom::Start(start))?;
        let mut second = self.stream(Direction::Decrypt, nonce, aad)?;
        let mut macs = macs.into_iter();
        pieces(input, |piece| {
            if macs
                .next()
                .is_none_or(|expected| !crate::eq(&expected, &mac(&key, &[piece])))
            {
                return Err(failed(Error::Unauthentic));
            }
            second.update(piece).map_err(failed)?;
            output.write_all(piece)
        })?;
        match macs.next() {
            None => Ok(()),
            Some(_) => Err(failed(Error::Unauthentic)),
        }
    }

    /// Encrypts what `input` holds from where it stands to its end, and returns the tag. The nonce is as for
    /// [`AeadCipher::seal`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] as for [`AeadCipher::open_stream`]; those of `input` and `output`.
    pub fn seal_stream(
        &self,
        nonce: &[u8],
        aad: &[u8],
        input: &mut impl Read,
        output: &mut impl Write,
    ) -> io::Result<[u8; TAG_LEN]> {
        let mut stream = self.stream(Direction::Encrypt, nonce, aad)?;
        pieces(input, |piece| {
            stream.update(piece).map_err(failed)?;
            output.write_all(piece)
        })?;
        stream.tag().map_err(failed)
    }

    /// The variant of [`AeadCipher::open_stream`] for an `input` that cannot be read twice, in one pass. `output`
    /// **gets bytes that are not authenticated yet**, and must not use them if this fails.
    ///
    /// # Errors
    /// As [`AeadCipher::open_stream`].
    pub fn open_stream_unauthenticated(
        &self,
        nonce: &[u8],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        input: &mut impl Read,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let mut stream = self.stream(Direction::Decrypt, nonce, aad)?;
        pieces(input, |piece| {
            stream.update(piece).map_err(failed)?;
            output.write_all(piece)
        })?;
        stream.verify(tag).map_err(failed)
    }

    fn stream(&self, direction: Direction, nonce: &[u8], aad: &[u8]) -> io::Result<GcmStream> {
        let provider = self.provider;
        if !self.has_pieces() {
            return Err(failed(Error::Unsupported { provider }));
        }
        let begun: Result<GcmStream> = self
            .check(nonce)
            .and_then(|()| GcmStream::new(&self.key, nonce, aad, direction));
        begun.map_err(failed)
    }
}

/// Reads to the end, `PIECE` bytes at a time (the last may be shorter).
fn pieces(
    input: &mut impl Read,
    mut run: impl FnMut(&mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = Zeroizing::new(vec![0; PIECE]);
    loop {
        let mut len = 0;
        while len < PIECE {
            match input.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if len == 0 {
            return Ok(());
        }
        run(&mut buffer[..len])?;
        if len < PIECE {
            return Ok(());
        }
    }
}

fn failed(error: Error) -> io::Error {
    let kind = match error {
        Error::Unauthentic => io::ErrorKind::InvalidData,
        Error::Unsupported { .. } => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
