//! Frames on the daemon's socket: a kind, a length, and so many bytes.
//!
//! A frame of JSON is at most [`JSON_MAX`] bytes; a frame with a secret is read straight into locked
//! memory and never becomes anything else on the way.

use std::io::{self, Read, Write};

use keys::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame of JSON.
pub const JSON_MAX: u32 = 64 << 20;
/// The longest secret.
const SECRET_MAX: u32 = 4096;

const JSON: u8 = b'J';
const SECRET: u8 = b'S';
const CANCEL: u8 = b'C';

/// Sends a message.
pub fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    send_frame(stream, JSON, &text)
}

fn send_frame(stream: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&len.to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// Sends a secret.
pub fn send_secret(stream: &mut impl Write, secret: &Secret) -> io::Result<()> {
    send_frame(stream, SECRET, secret.expose())
}

/// Says that there will be no secret.
pub fn send_cancel(stream: &mut impl Write) -> io::Result<()> {
    send_frame(stream, CANCEL, &[])
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
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    receive_up_to(stream, JSON_MAX)
}

/// Receives a message of no more than so many bytes.
pub fn receive_up_to<T: DeserializeOwned>(stream: &mut impl Read, max: u32) -> io::Result<T> {
    let (kind, len) = receive_head(stream)?;
    if kind != JSON || len > max {
        return Err(bad("a frame of JSON was expected"));
    }
    let mut text = Vec::new();
    stream.take(u64::from(len)).read_to_end(&mut text)?;
    if text.len() < len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text)
        .map_err(|error| bad(&format!("a frame cannot be understood: {error}")))
}

/// Receives a secret; `None` if there is to be none.
pub fn receive_secret(stream: &mut impl Read) -> io::Result<Option<Secret>> {
    let (kind, len) = receive_head(stream)?;
    if kind == CANCEL && len == 0 {
        return Ok(None);
    }
    if kind != SECRET || len > SECRET_MAX {
        return Err(bad("a frame with a secret was expected"));
    }
    let mut secret = Secret::zeroed(len as usize).map_err(io::Error::other)?;
    stream.read_exact(secret.expose_mut())?;
    Ok(Some(secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Answer, Command, Reply, Request};

    #[test]
    fn frames_round_trip() {
        let mut wire = Vec::new();
        let request = Request {
            version: 1,
            typed: "strongroom mount -a".into(),
            command: Command::Mounts,
        };
        send(&mut wire, &request).unwrap();
        let secret = Secret::from_slice(b"correct horse").unwrap();
        send_secret(&mut wire, &secret).unwrap();
        send_cancel(&mut wire).unwrap();
        send(&mut wire, &Answer::Done(Reply::Nothing)).unwrap();
        let mut stream = &wire[..];
        let back: Request = receive(&mut stream).unwrap();
        assert_eq!(back.typed, request.typed);
        assert_eq!(
            receive_secret(&mut stream).unwrap().unwrap().expose(),
            b"correct horse"
        );
        assert!(receive_secret(&mut stream).unwrap().is_none());
        assert!(matches!(
            receive(&mut stream).unwrap(),
            Answer::Done(Reply::Nothing)
        ));
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
        assert!(receive_secret(&mut &long[..]).is_err());
        assert!(receive_secret(&mut &[][..]).is_err());
    }
}
