//! A body that is a stream: it is read in pieces as they come, and may have any length.

use std::io::{self, Read};
use std::time::Duration;

use secret::Secret;

use super::problem::Problem;
use super::request::{BODY_TIME, Framing, Length, RequestReader, too_much};
use super::stream::ClientStream;

/// The longest line between chunks.
const LINE_MAX: usize = 1 << 10;
/// The most lines after the last chunk.
const TRAILERS_MAX: usize = 64;
/// The time to read what a client still sends after its answer.
const LINGER: Duration = Duration::from_secs(10);

/// The body of a request, on its connection. It ends where the head or the last chunk says; an earlier end is an error.
pub(crate) struct StreamedBody<'a, S> {
    reader: &'a mut RequestReader,
    stream: &'a mut S,
    framing: Framing,
    next: BodyPart,
}

/// The next part of a body.
#[derive(Clone, Copy)]
enum BodyPart {
    /// The number of bytes up to the end.
    Bytes(u64),
    /// The length of a chunk.
    Head,
    /// The number of bytes of a chunk, before the end of its line.
    Chunk(u64),
    /// The number of lines that may follow the last chunk.
    Trailers(usize),
    /// The end of the body.
    End,
}

impl<'a, S: ClientStream> StreamedBody<'a, S> {
    /// The body of the request that was read last.
    pub(crate) fn new(
        reader: &'a mut RequestReader,
        stream: &'a mut S,
        framing: Framing,
    ) -> StreamedBody<'a, S> {
        let next = match framing.length {
            Length::Known(len) => BodyPart::Bytes(len),
            Length::Chunked => BodyPart::Head,
        };
        StreamedBody {
            reader,
            stream,
            framing,
            next,
        }
    }

    /// Tells a client that waits for it to send the body.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.stream.end_in(BODY_TIME);
        let framing = Framing {
            // It is told once.
            is_expected: std::mem::take(&mut self.framing.is_expected),
            ..self.framing
        };
        self.reader.ask_for_body(self.stream, framing)
    }

    /// Reads so many bytes into locked memory.
    pub(crate) fn secret(&mut self, len: usize) -> Result<Secret, Problem> {
        self.stream.end_in(BODY_TIME);
        let secret = Secret::from_reader(self, len).map_err(|error| too_much(&error))?;
        match secret.len() == len {
            true => Ok(secret),
            false => Err(Problem::usage("the body ends before the secrets do")),
        }
    }

    /// Reads as [`Read::read`] does, and fails after this time.
    pub(crate) fn read_in(&mut self, time: Duration, out: &mut [u8]) -> io::Result<usize> {
        self.stream.end_in(time);
        self.read(out)
    }

    /// Returns whether all of the body was read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.next, BodyPart::End | BodyPart::Bytes(0))
    }

    /// Reads the line before a chunk.
    fn head(&mut self) -> io::Result<BodyPart> {
        loop {
            let ahead = self.reader.ahead();
            match httparse::parse_chunk_size(ahead) {
                Ok(httparse::Status::Complete((used, len))) => {
                    self.reader.take(used);
                    return Ok(match len {
                        0 => BodyPart::Trailers(TRAILERS_MAX),
                        len => BodyPart::Chunk(len),
                    });
                }
                Ok(httparse::Status::Partial) if ahead.len() < LINE_MAX => self.more()?,
                Ok(httparse::Status::Partial) | Err(_) => return Err(malformed()),
            }
        }
    }

    /// Reads a line, and returns whether it was empty.
    fn line(&mut self) -> io::Result<bool> {
        loop {
            let ahead = self.reader.ahead();
            let end = ahead.windows(2).position(|two| two == b"\r\n");
            match end {
                Some(at) => {
                    self.reader.take(at + 2);
                    return Ok(at == 0);
                }
                None if ahead.len() < LINE_MAX => self.more()?,
                None => return Err(malformed()),
            }
        }
    }

    fn more(&mut self) -> io::Result<()> {
        match self.reader.more(self.stream)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Reads the body. A read that failed because it took too long can be repeated.
impl<S: ClientStream> Read for StreamedBody<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            self.next = match self.next {
                BodyPart::Bytes(0) | BodyPart::End => return Ok(0),
                BodyPart::Head => self.head()?,
                BodyPart::Chunk(0) => match self.line()? {
                    true => BodyPart::Head,
                    false => return Err(malformed()),
                },
                BodyPart::Trailers(0) => return Err(malformed()),
                BodyPart::Trailers(left) => match self.line()? {
                    true => BodyPart::End,
                    false => BodyPart::Trailers(left - 1),
                },
                BodyPart::Bytes(_) | BodyPart::Chunk(_) => break,
            };
        }
        let (BodyPart::Bytes(left) | BodyPart::Chunk(left)) = &mut self.next else {
            return Ok(0);
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX);
        let len = out.len().min(most);
        if len == 0 {
            return Ok(0);
        }
        let read = self.reader.read(self.stream, &mut out[..len])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read as u64;
        Ok(read)
    }
}

/// Ends a connection on which a part of a body is unread: what comes is read for a while. Else the client would lose the
/// answer with the connection.
pub(crate) fn linger<S: ClientStream>(stream: &mut S) {
    stream.end_in(LINGER);
    if stream.finish().is_ok() {
        let mut out = [0; 16 << 10];
        while matches!(stream.read(&mut out), Ok(1..)) {}
    }
}

fn malformed() -> io::Error {
    let why = "the chunks of the body are malformed";
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    /// A connection on which this comes, in small pieces, and now and then nothing for a while.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = out.len().min(2);
            self.0.read(&mut out[..len])
        }
    }

    impl Write for Slow<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl ClientStream for Slow<'_> {
        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end_at(&mut self, _: Instant) {}
    }

    /// The body that comes, and what is left on the connection.
    fn body(length: Length, text: &str) -> Result<(String, String), io::ErrorKind> {
        let (mut stream, mut reader) = (Slow(text.as_bytes(), 0), RequestReader::new());
        let is_expected = false;
        let framing = Framing {
            length,
            is_expected,
        };
        let mut body = StreamedBody::new(&mut reader, &mut stream, framing);
        let mut found = Vec::new();
        loop {
            let mut out = [0; 5];
            match body.read(&mut out) {
                Ok(0) => break,
                Ok(len) => found.extend_from_slice(&out[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.kind()),
            }
        }
        assert!(body.is_over());
        let rest = [reader.ahead(), stream.0].concat();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok((text(found), text(rest)))
    }

    #[test]
    fn a_body_ends_where_it_says() {
        let of = |length, text| body(length, text).unwrap();
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of(Length::Known(3), "abcGET"), both("abc", "GET"));
        assert_eq!(of(Length::Known(0), "GET"), both("", "GET"));
        let chunks = "4\r\nabcd\r\nA;x=y\r\n0123\r\n6789\r\n0\r\nX: y\r\n\r\nGET";
        let found = of(Length::Chunked, chunks);
        assert_eq!(found, both("abcd0123\r\n6789", "GET"));
    }

    #[test]
    fn a_hostile_body_is_an_error() {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        assert_eq!(body(Length::Known(4), "abc").unwrap_err(), UnexpectedEof);
        let of = |text: &str| body(Length::Chunked, text).unwrap_err();
        for cut in ["", "4", "4\r\nab", "4\r\nabcd", "4\r\nabcd\r\n", "0\r\n"] {
            assert_eq!(of(cut), UnexpectedEof, "{cut:?}");
        }
        let long = format!("4;{}\r\nabcd\r\n", "x".repeat(LINE_MAX));
        let many = format!("0\r\n{}\r\n", "X: y\r\n".repeat(TRAILERS_MAX));
        for bad in [
            "x\r\n",
            "-1\r\n",
            "4\r\nabcdef\r\n",
            "11111111111111111\r\n",
            &long,
            &many,
        ] {
            assert_eq!(of(bad), InvalidData, "{bad:.40?}");
        }
    }
}
