//! A request to a site on another host, and its answer.
//!
//! The host may be hostile. So the head and the body of its answer have limits, and each wait has an end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use protocol::api::{Failure, FailureKind};
use protocol::characters::is_hidden;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ClientConnection, StreamOwned};
use serde::Deserialize;

use crate::http::{ClientStream, TimedSocket};

/// The longest head of an answer, and the most headers in it.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// The longest body of an answer. A site sends 8 MiB at most, and a little around it.
const BODY_MAX: u64 = 9 << 20;
/// The longest message of a failure, in characters.
const MESSAGE_MAX: usize = 2000;
/// The time for a host to take a piece.
const TAKE_TIME: Duration = Duration::from_secs(120);
/// The length of a piece of a stream.
const PIECE: usize = 64 << 10;

/// A connection for one request.
pub(super) struct SiteExchange {
    pub(super) tls: StreamOwned<ClientConnection, TimedSocket<TcpStream>>,
    /// The same socket, to see whether an answer has come.
    pub(super) socket: TcpStream,
    /// The bytes of the answer that were read and not used yet.
    pub(super) read: Vec<u8>,
}

/// The head of an answer.
struct AnswerHead {
    status: u16,
    len: Option<u64>,
}

/// A failure, as the site tells it. Other members are left out.
#[derive(Deserialize)]
struct SiteRefusal {
    error: RefusalReason,
}

#[derive(Deserialize)]
struct RefusalReason {
    kind: String,
    message: String,
}

impl SiteExchange {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.sock.end_in(TAKE_TIME);
        self.tls.write_all(bytes)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.tls.sock.end_in(TAKE_TIME);
        self.tls.flush()
    }

    /// Sends a stream as the body, if the site wants it. It may answer before the end of the stream, and then gets no more.
    pub(super) fn send_body(
        &mut self,
        stream: &mut dyn Read,
        patience: Duration,
    ) -> io::Result<Result<Vec<u8>, Failure>> {
        self.tls.sock.end_in(patience);
        let head = self.head()?;
        if head.status != 100 {
            return self.body(&head);
        }
        let mut piece = vec![0; PIECE];
        // An answer says why the site takes no more.
        while !self.has_answered()? {
            let len = match stream.read(&mut piece) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if self.chunk(&piece[..len]).is_err() || len == 0 {
                break;
            }
        }
        self.answer(patience)
    }

    fn chunk(&mut self, piece: &[u8]) -> io::Result<()> {
        // In one piece: each call makes records and packets of its own.
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk)?;
        match piece.is_empty() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Returns whether a part of the answer has come, or the connection has ended.
    fn has_answered(&mut self) -> io::Result<bool> {
        let mut one = [PollFd::new(&self.socket, PollFlags::IN)];
        if matches!(poll(&mut one, Some(&Timespec::default())), Ok(0)) {
            return Ok(false);
        }
        self.tls.sock.end_in(TAKE_TIME);
        // It may be a message of TLS itself.
        let has_ended = self.tls.conn.read_tls(&mut self.tls.sock)? == 0;
        let state = self.tls.conn.process_new_packets();
        let state = state.map_err(io::Error::other)?;
        Ok(has_ended || state.plaintext_bytes_to_read() > 0)
    }

    /// The answer: its body, or the failure that it tells.
    pub(super) fn answer(&mut self, patience: Duration) -> io::Result<Result<Vec<u8>, Failure>> {
        self.tls.sock.end_in(patience);
        loop {
            let head = self.head()?;
            // Others follow.
            if head.status != 100 {
                return self.body(&head);
            }
        }
    }

    fn head(&mut self) -> io::Result<AnswerHead> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Response::new(&mut headers);
            let status = parsed.parse(&self.read).map_err(|_| not_understood())?;
            if let httparse::Status::Complete(end) = status {
                let mut lengths = parsed.headers.iter();
                let len = lengths.find(|it| it.name.eq_ignore_ascii_case("Content-Length"));
                let len = len.and_then(|it| std::str::from_utf8(it.value).ok());
                let head = AnswerHead {
                    status: parsed.code.unwrap_or_default(),
                    len: len.and_then(|len| len.trim().parse().ok()),
                };
                self.read.drain(..end);
                return Ok(head);
            }
            if self.read.len() > HEAD_MAX {
                return Err(not_understood());
            }
            let mut piece = [0; 4096];
            let len = self.tls.read(&mut piece)?;
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read.extend_from_slice(&piece[..len]);
        }
    }

    fn body(&mut self, head: &AnswerHead) -> io::Result<Result<Vec<u8>, Failure>> {
        let len = head.len.filter(|len| *len <= BODY_MAX);
        let len = len.ok_or_else(not_understood)?;
        let mut body = std::mem::take(&mut self.read);
        let rest = len.saturating_sub(body.len() as u64);
        (&mut self.tls).take(rest).read_to_end(&mut body)?;
        if body.len() as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(match head.status {
            200 => Ok(body),
            status => Err(refusal(status, &body)),
        })
    }
}

fn not_understood() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its answer is not understood")
}

/// The failure that an answer tells.
fn refusal(status: u16, body: &[u8]) -> Failure {
    let Ok(told) = serde_json::from_slice::<SiteRefusal>(body) else {
        return Failure::other(format!("it answers with status {status}"));
    };
    let kind = match told.error.kind.as_str() {
        "login" => FailureKind::Permission,
        "too-many" => FailureKind::Busy,
        kind => serde_json::from_value(kind.into()).unwrap_or(FailureKind::Other),
    };
    let shown = told.error.message.chars().filter(|c| !is_hidden(*c));
    Failure::new(kind, shown.take(MESSAGE_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_kind_and_a_line() {
        let told = |kind: &str, message: &str| {
            let body =
                serde_json::json!({"error": {"kind": kind, "message": message, "more": [1]}});
            refusal(400, body.to_string().as_bytes())
        };
        let failure = told("no-space", "the pool\n\u{1b}[2Jis full");
        assert_eq!(failure.kind, FailureKind::NoSpace);
        assert_eq!(failure.message, "the pool[2Jis full");
        assert_eq!(told("login", "").kind, FailureKind::Permission);
        assert_eq!(told("new", "").kind, FailureKind::Other);
        assert_eq!(told("other", &"x".repeat(9999)).message.len(), MESSAGE_MAX);
        assert!(refusal(502, b"<html>").message.contains("502"));
    }
}
