//! Serves the page of metrics over a minimal HTTP, for `curl --unix-socket` and exporters: one request and one answer
//! for each connection.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use admission::StopSignal;

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::serve::metrics::text::CONTENT_TYPE;
use crate::serve::read_deadline::DeadlineReader;
use crate::state::callers::command_connections::{CommandPermit, attend};
use crate::state::daemon::Daemon;

/// The largest request.
const REQUEST_MAX: usize = 8 << 10;
/// The time limit for a client to send its whole request.
const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
/// The time limit for a client to read a piece of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the thread that accepts connections for metrics.
pub(crate) fn serve(daemon: &Arc<Daemon>, listener: UnixListener) -> Result<()> {
    let failed = |error| Failure::other(format!("metrics cannot be served: {error}"));
    // It accepts connections as long as the daemon runs.
    let stop = StopSignal::new().map_err(failed)?;
    let (daemon, guests) = (Arc::downgrade(daemon), Arc::clone(&daemon.guests));
    let accept = move || {
        attend(&listener, &stop, &guests, |stream, mut guest| {
            let Some(daemon) = daemon.upgrade() else {
                return;
            };
            Daemon::serve_on_thread("metrics", move || {
                if let Err(error) = answer(&daemon, &stream, &mut guest) {
                    tracing::debug!(%error, "metrics were asked for, and not taken");
                }
                drop(guest);
            });
        });
    };
    threads::start("metrics-listen", accept)
        .map(|_| ())
        .map_err(failed)
}

fn answer(
    daemon: &Daemon,
    mut stream: &UnixStream,
    guest: &mut CommandPermit,
) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let admin = Peer::admin_of(stream).and_then(|peer| daemon.guests.admit(guest, &peer));
    let (status, body) = match admin {
        Err(failure) => ("403 Forbidden", failure.message + "\n"),
        Ok(_) => match check_request(&mut hurried(stream))? {
            Err(status) => (status, format!("{status}\n")),
            Ok(()) => match daemon.metrics() {
                Ok(text) => ("200 OK", text),
                Err(failure) => ("503 Service Unavailable", failure.message + "\n"),
            },
        },
    };
    let kind = match status {
        "200 OK" => CONTENT_TYPE,
        _ => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn hurried(stream: &UnixStream) -> DeadlineReader<'_> {
    let until = Instant::now() + REQUEST_PATIENCE;
    DeadlineReader { stream, until }
}

/// Reads a request. An error is the status to answer with.
pub(crate) fn check_request(
    stream: &mut impl Read,
) -> std::io::Result<std::result::Result<(), &'static str>> {
    Ok(request(&read_head(stream)?))
}

/// Reads a request up to the empty line that ends its head.
fn read_head(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while head.len() < REQUEST_MAX && !is_whole(&head) {
        match stream.read(&mut piece)? {
            0 => break,
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    Ok(head)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// Checks that a request is for the metrics. An error is the status to answer with.
fn request(head: &[u8]) -> std::result::Result<(), &'static str> {
    if !is_whole(head) {
        return Err("400 Bad Request");
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace());
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if method != Some(b"GET") {
        return Err("405 Method Not Allowed");
    }
    let path = target.split(|byte| *byte == b'?').next();
    match path {
        Some(b"/metrics" | b"/") => Ok(()),
        _ => Err("404 Not Found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Ok(())),
            ("GET /metrics?name[]=a HTTP/1.0\r\n\r\n", Ok(())),
            ("GET / HTTP/1.0\n\n", Ok(())),
            ("GET /other HTTP/1.0\r\n\r\n", Err("404 Not Found")),
            (
                "POST /metrics HTTP/1.0\r\n\r\n",
                Err("405 Method Not Allowed"),
            ),
            ("GET /metrics HTTP/1.0\r\n", Err("400 Bad Request")),
            ("", Err("400 Bad Request")),
            ("\r\n\r\n", Err("405 Method Not Allowed")),
        ] {
            assert_eq!(request(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_request_without_an_end_is_not_read_for_ever() {
        let head = read_head(&mut std::io::repeat(b'x')).unwrap();
        assert!(head.len() < 2 * REQUEST_MAX);
        assert_eq!(request(&head), Err("400 Bad Request"));
    }
}
