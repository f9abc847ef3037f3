//! Frames on the daemon's socket: a kind, a length, and so many bytes.
//!
//! A frame of JSON is at most [`JSON_MAX`] bytes; a frame with a secret is read straight into locked
//! memory and never becomes anything else on the way.

use std::io::{self, IoSlice, Read, Write};

use secret::Secret;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::{API_VERSION, Request};

/// The longest frame of JSON.
pub const JSON_MAX: u32 = 64 << 20;
/// The longest secret that is typed.
pub const SECRET_MAX: u32 = 4096;
/// The longest token that a caller shows.
pub const TOKEN_MAX: u32 = 128;
/// The longest frame that is read to its end although no token is as long.
const LONG_TOKEN_MAX: u32 = 64 << 10;
/// The longest key file of a LUKS container: as cryptsetup has it.
pub const KEY_FILE_MAX: u32 = 8 << 20;

const JSON: u8 = b'J';
const SECRET: u8 = b'S';
const CANCEL: u8 = b'C';
const DATA: u8 = b'D';

/// Memory that is taken for a frame before its bytes come.
const AT_ONCE: usize = 64 << 10;

/// The longest piece of a stream of data.
pub const DATA_MAX: usize = 1 << 20;

/// Sends a message.
///
/// # Errors
/// The stream fails, or the message cannot be written as JSON.
pub fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    send_frame(stream, JSON, &text)
}

fn send_frame(stream: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&len.to_le_bytes());
    // In one call: the other side is woken once, and finds the whole frame.
    let both = [IoSlice::new(&head), IoSlice::new(bytes)];
    let written = match stream.write_vectored(&both) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        result => result?,
    };
    let of_head = written.min(head.len());
    stream.write_all(&head[of_head..])?;
    stream.write_all(&bytes[written - of_head..])?;
    stream.flush()
}

/// Sends a secret.
///
/// # Errors
/// The stream fails.
pub fn send_secret(stream: &mut impl Write, secret: &Secret) -> io::Result<()> {
    send_frame(stream, SECRET, secret.expose())
}

/// Says that there will be no secret.
///
/// # Errors
/// The stream fails.
pub fn send_cancel(stream: &mut impl Write) -> io::Result<()> {
    send_frame(stream, CANCEL, &[])
}

/// Sends a piece of data.
///
/// # Errors
/// The stream fails.
pub fn send_piece(stream: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    send_frame(stream, DATA, piece)
}

/// Receives a piece of data.
///
/// # Errors
/// As [`receive`], for a piece of data.
pub fn receive_piece(stream: &mut impl Read, piece: &mut Vec<u8>) -> io::Result<()> {
    let (kind, len) = receive_head(stream)?;
    receive_data(stream, kind, len, piece)
}

/// Sends what is written to it as data messages. [`DataWriter::end`] ends them.
pub struct DataWriter<W: Write> {
    stream: W,
    piece: Vec<u8>,
}

impl<W: Write> DataWriter<W> {
    /// Sends over `stream`.
    pub fn new(stream: W) -> DataWriter<W> {
        DataWriter {
            stream,
            piece: Vec::with_capacity(DATA_MAX),
        }
    }

    /// Says that this was all.
    ///
    /// # Errors
    /// The stream fails.
    pub fn end(mut self) -> io::Result<()> {
        self.flush()?;
        send_frame(&mut self.stream, DATA, &[])
    }
}

impl<W: Write> Write for DataWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = DATA_MAX - self.piece.len();
        let taken = &bytes[..bytes.len().min(left)];
        self.piece.extend_from_slice(taken);
        if self.piece.len() == DATA_MAX {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            send_frame(&mut self.stream, DATA, &self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }
}

/// Reads data up to where the other side says that it was all. An end without that is an error.
pub struct DataReader<R: Read> {
    stream: R,
    piece: Vec<u8>,
    taken: usize,
    is_over: bool,
}

impl<R: Read> DataReader<R> {
    /// Receives over `stream`.
    pub fn new(stream: R) -> DataReader<R> {
        DataReader {
            stream,
            piece: Vec::new(),
            taken: 0,
            is_over: false,
        }
    }
}

impl<R: Read> Read for DataReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.is_over {
            let (kind, len) = receive_head(&mut self.stream)?;
            receive_data(&mut self.stream, kind, len, &mut self.piece)?;
            self.taken = 0;
            self.is_over = self.piece.is_empty();
        }
        let mut rest = &self.piece[self.taken..];
        let read = rest.read(buf)?;
        self.taken += read;
        Ok(read)
    }
}

fn receive_data(stream: &mut impl Read, kind: u8, len: u32, piece: &mut Vec<u8>) -> io::Result<()> {
    if kind != DATA || len as usize > DATA_MAX {
        return Err(bad("a frame of data was expected"));
    }
    piece.clear();
    receive_bytes(stream, len, piece)
}

/// Receives so many bytes. Memory for more than [`AT_ONCE`] is taken as they come.
fn receive_bytes(stream: &mut impl Read, len: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.reserve(AT_ONCE.min(len as usize));
    match stream.take(u64::from(len)).read_to_end(bytes)? == len as usize {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A message, or a piece of data that was put into the buffer; an empty piece was the last.
pub enum ReceivedFrame<T> {
    /// A message.
    Message(T),
    /// Data.
    Data,
}

/// Receives a message or data.
///
/// # Errors
/// As [`receive_up_to`] and [`receive_piece`].
pub fn receive_any<T: DeserializeOwned>(
    stream: &mut impl Read,
    piece: &mut Vec<u8>,
    max: u32,
) -> io::Result<ReceivedFrame<T>> {
    let (kind, len) = receive_head(stream)?;
    match kind {
        DATA => receive_data(stream, kind, len, piece).map(|()| ReceivedFrame::Data),
        _ => receive_message(stream, kind, len, max).map(ReceivedFrame::Message),
    }
}

/// The length of the message that begins with these bytes; `None` for a piece of data, which is at most [`DATA_MAX`]
/// long.
pub fn message_len([kind, len @ ..]: [u8; 5]) -> Option<u32> {
    (kind != DATA).then_some(u32::from_le_bytes(len))
}

fn receive_head(stream: &mut impl Read) -> io::Result<(u8, u32)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [kind, len @ ..] = head;
    Ok((kind, u32::from_le_bytes(len)))
}

fn bad(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Receives a message.
///
/// # Errors
/// The stream fails or ends ([`io::ErrorKind::UnexpectedEof`]), or what comes is not such a message
/// ([`io::ErrorKind::InvalidData`]).
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    receive_up_to(stream, JSON_MAX)
}

/// Receives a message of no more than so many bytes.
///
/// # Errors
/// As [`receive`], also for a longer message.
pub fn receive_up_to<T: DeserializeOwned>(stream: &mut impl Read, max: u32) -> io::Result<T> {
    let (kind, len) = receive_head(stream)?;
    receive_message(stream, kind, len, max)
}

fn receive_message<T: DeserializeOwned>(
    stream: &mut impl Read,
    kind: u8,
    len: u32,
    max: u32,
) -> io::Result<T> {
    understood(&receive_text(stream, kind, len, max)?)
}

fn understood<T: DeserializeOwned>(text: &[u8]) -> io::Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| bad(&format!("a frame cannot be understood: {error}")))
}

/// Receives a request of at most `max` bytes. For a request of another version of the interface it
/// returns that version, except for the command that ends the daemon, which every version understands.
///
/// # Errors
/// As [`receive_up_to`]. The inner error is the other version.
pub fn receive_request(stream: &mut impl Read, max: u32) -> io::Result<Result<Request, u32>> {
    let (kind, len) = receive_head(stream)?;
    request_of(&receive_text(stream, kind, len, max)?)
}

/// The first frame of a connection.
pub enum FirstFrame {
    /// A request, or the version that it is of.
    Request(Box<Result<Request, u32>>),
    /// A token: the request follows, and has the rights of the token's user.
    Token(Secret),
    /// A token that is longer than any.
    LongToken,
    /// A request, of a caller who may send none.
    Unwelcome,
}

/// Receives the first frame of a connection. `max`: the longest request; `None` if only a token is welcome.
///
/// # Errors
/// As [`receive_request`] and [`receive_secret`].
pub fn receive_first(stream: &mut impl Read, max: Option<u32>) -> io::Result<FirstFrame> {
    let (kind, len) = receive_head(stream)?;
    match max {
        _ if kind == SECRET && len > TOKEN_MAX && len <= LONG_TOKEN_MAX => {
            // Read to its end, so that the caller reads the refusal and not an error of the connection.
            discard(stream, len).map(|()| FirstFrame::LongToken)
        }
        _ if kind == SECRET => secret_of(stream, len, TOKEN_MAX).map(FirstFrame::Token),
        None => Ok(FirstFrame::Unwelcome),
        Some(max) => {
            let request = request_of(&receive_text(stream, kind, len, max)?)?;
            Ok(FirstFrame::Request(Box::new(request)))
        }
    }
}

/// Reads bytes and wipes them.
fn discard(stream: &mut impl Read, len: u32) -> io::Result<()> {
    let mut left = len as usize;
    while left > 0 {
        let secret = Secret::from_reader(stream, left.min(SECRET_MAX as usize));
        let read = secret.map_err(io::Error::other)?.len();
        left = match read {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left - read,
        };
    }
    Ok(())
}

fn request_of(text: &[u8]) -> io::Result<Result<Request, u32>> {
    /// The beginning of a request of every version.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let request = understood::<Request>(text);
    let ends = |request: &Request| request.command.ends_daemon();
    match understood::<Version>(text) {
        Ok(Version { version }) if version != API_VERSION && !request.as_ref().is_ok_and(ends) => {
            Ok(Err(version))
        }
        _ => request.map(Ok),
    }
}

fn receive_text(stream: &mut impl Read, kind: u8, len: u32, max: u32) -> io::Result<Vec<u8>> {
    if kind != JSON || len > max {
        return Err(bad("a frame of JSON was expected"));
    }
    let mut text = Vec::new();
    receive_bytes(stream, len, &mut text)?;
    Ok(text)
}

/// Receives a secret of at most so many bytes; `None` if there is to be none.
///
/// # Errors
/// As [`receive`], for a secret; no locked memory for it.
pub fn receive_secret(stream: &mut impl Read, len_max: u32) -> io::Result<Option<Secret>> {
    let (kind, len) = receive_head(stream)?;
    if kind == CANCEL && len == 0 {
        return Ok(None);
    }
    if kind != SECRET {
        return Err(bad("a frame with a secret was expected"));
    }
    secret_of(stream, len, len_max).map(Some)
}

fn secret_of(stream: &mut impl Read, len: u32, len_max: u32) -> io::Result<Secret> {
    if len > len_max {
        return Err(bad("a secret is too long"));
    }
    // Locked memory is taken for what comes, not for what is announced.
    let secret = Secret::from_reader(stream, len as usize).map_err(io::Error::other)?;
    match secret.len() == len as usize {
        true => Ok(secret),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Command, DaemonAnswer, Reply};

    #[test]
    fn a_token_that_is_too_long_is_read_and_refused() {
        for (len, is_read) in [
            (129, true),
            (15_000, true),
            (LONG_TOKEN_MAX, true),
            (LONG_TOKEN_MAX + 1, false),
        ] {
            let mut wire = Vec::new();
            send_frame(&mut wire, SECRET, &vec![b'x'; len as usize]).unwrap();
            let mut stream = &wire[..];
            let first = receive_first(&mut stream, None);
            assert_eq!(matches!(first, Ok(FirstFrame::LongToken)), is_read, "{len}");
            assert_eq!(stream.is_empty(), is_read);
        }
        let mut cut = &b"S\x00\x10\x00\x00xxx"[..];
        assert!(receive_first(&mut cut, None).is_err());
    }

    #[test]
    fn frames_round_trip() {
        let mut wire = Vec::new();
        let request = Request {
            version: 1,
            command: Command::Mounts,
            hash_memory: None,
        };
        send(&mut wire, &request).unwrap();
        let secret = Secret::from_slice(b"correct horse").unwrap();
        send_secret(&mut wire, &secret).unwrap();
        send_cancel(&mut wire).unwrap();
        send(&mut wire, &DaemonAnswer::Done(Reply::Nothing)).unwrap();
        let mut stream = &wire[..];
        let back: Request = receive(&mut stream).unwrap();
        assert!(matches!(back.command, Command::Mounts));
        assert_eq!(
            receive_secret(&mut stream, SECRET_MAX)
                .unwrap()
                .unwrap()
                .expose(),
            b"correct horse"
        );
        assert!(receive_secret(&mut stream, SECRET_MAX).unwrap().is_none());
        assert!(matches!(
            receive(&mut stream).unwrap(),
            DaemonAnswer::Done(Reply::Nothing)
        ));
    }

    /// Takes a few bytes at a time.
    struct Narrow(Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_frame_is_whole_if_it_is_sent_in_parts() {
        let (mut narrow, mut wide) = (Narrow(Vec::new()), Vec::new());
        for bytes in [&b""[..], b"a", b"a longer frame"] {
            send_frame(&mut narrow, DATA, bytes).unwrap();
            send_frame(&mut wide, DATA, bytes).unwrap();
        }
        assert_eq!(narrow.0, wide);
        assert_eq!(&wide[..6], [DATA, 0, 0, 0, 0, DATA]);
    }

    #[test]
    fn a_request_of_another_version_is_known_for_that() {
        let heard = |text: &str| {
            let mut wire = Vec::new();
            send_frame(&mut wire, JSON, text.as_bytes()).unwrap();
            receive_request(&mut &wire[..], 1000)
        };
        let now = format!(r#"{{"version":{API_VERSION},"typed":"","command":"mounts"}}"#);
        assert!(matches!(heard(&now), Ok(Ok(_))));
        let later = r#"{"version":999,"typed":"","command":{"what-comes":{"later":1}}}"#;
        assert!(matches!(heard(later), Ok(Err(999))));
        let other = r#"{"version":999,"typed":"","command":"mounts"}"#;
        assert!(matches!(heard(other), Ok(Err(999))));
        let end = r#"{"version":999,"typed":"","command":"daemon-stop"}"#;
        assert!(matches!(heard(end), Ok(Ok(_))), "any can be told to end");
        let nonsense = now.replace("mounts", "no-such-thing");
        assert!(heard(&nonsense).is_err());
        assert!(heard("{}").is_err() && heard("").is_err());
    }

    #[test]
    fn data_has_an_end() {
        let data: Vec<u8> = (0..DATA_MAX * 2 + 77).map(|i| (i % 251) as u8).collect();
        let mut wire = Vec::new();
        let mut writer = DataWriter::new(&mut wire);
        writer.write_all(&data).unwrap();
        writer.end().unwrap();
        let mut back = Vec::new();
        DataReader::new(&wire[..]).read_to_end(&mut back).unwrap();
        assert!(back == data);
        for cut in [wire.len() - 1, wire.len() - 5, 1000, 3] {
            let mut reader = DataReader::new(&wire[..cut]);
            assert!(reader.read_to_end(&mut Vec::new()).is_err(), "{cut}");
        }
        let long = [DATA, 1, 0, 16, 0, 1];
        let mut reader = DataReader::new(&long[..]);
        assert!(reader.read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn hostile_frames_are_refused() {
        let huge = [JSON, 0xff, 0xff, 0xff, 0xff];
        assert!(receive::<Request>(&mut &huge[..]).is_err());
        let cut = [JSON, 10, 0, 0, 0, b'{'];
        assert!(receive::<Request>(&mut &cut[..]).is_err());
        let garbage = [JSON, 2, 0, 0, 0, b'{', b'x'];
        assert!(receive::<Request>(&mut &garbage[..]).is_err());
        let long = [SECRET, 0xff, 0xff, 0, 0];
        assert!(receive_secret(&mut &long[..], SECRET_MAX).is_err());
        assert!(receive_secret(&mut &[][..], SECRET_MAX).is_err());
    }
}
