//! Responses.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value as Json;

/// The headers of every response: a browser loads nothing of other sites, and no other site shows or reads the page.
const ALWAYS: &[(&str, &str)] = &[
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

/// The time for a client to take an answer.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The number of bytes of a body that are sent together with the head.
const WITH_HEAD: usize = 16 << 10;

pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(&'static str, String)>,
    body: Cow<'static, [u8]>,
}

impl Response {
    /// A response without a body.
    pub(crate) fn empty(status: u16) -> Response {
        let (headers, body) = (Vec::new(), Cow::Borrowed(&[][..]));
        Response {
            status,
            headers,
            body,
        }
    }

    /// JSON.
    pub(crate) fn json(value: &Json) -> Response {
        Response::empty(200).with_json(value)
    }

    /// Text or a file.
    pub(crate) fn body(kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Response {
        let mut response = Response::empty(200);
        response.header("Content-Type", kind);
        response.body = body.into();
        response
    }

    /// Sets JSON as the body of this response.
    pub(crate) fn with_json(mut self, value: &Json) -> Response {
        self.header("Content-Type", "application/json");
        // It is about now, and may be private.
        self.header("Cache-Control", "no-store");
        self.body = Cow::Owned(format!("{value}\n").into_bytes());
        self
    }

    /// The length of the body.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    pub(crate) fn header(&mut self, name: &'static str, value: impl Into<String>) {
        self.headers.push((name, value.into()));
    }

    pub(crate) fn send(
        &self,
        stream: &mut dyn Write,
        has_body: bool,
        stays: bool,
    ) -> io::Result<()> {
        let mut head = self.head();
        head += &format!("Content-Length: {}\r\n", self.body.len());
        head += match stays {
            true => "\r\n",
            false => "Connection: close\r\n\r\n",
        };
        let mut bytes = head.into_bytes();
        // A short body goes with the head; a long one is not copied.
        let body = if has_body { &*self.body } else { &[] };
        let (with_head, rest) = body.split_at(body.len().min(WITH_HEAD));
        bytes.extend_from_slice(with_head);
        stream.write_all(&bytes)?;
        stream.write_all(rest)?;
        stream.flush()
    }

    /// The head of a response whose body comes in chunks.
    pub(crate) fn send_head_of_chunks(
        &self,
        stream: &mut dyn Write,
        stays: bool,
    ) -> io::Result<()> {
        let mut head = self.head() + "Transfer-Encoding: chunked\r\n";
        head += match stays {
            true => "\r\n",
            false => "Connection: close\r\n\r\n",
        };
        stream.write_all(head.as_bytes())
    }

    /// The head of a response whose body has no end that is known.
    pub(crate) fn send_head(&self, stream: &mut dyn Write) -> io::Result<()> {
        let head = self.head() + "Connection: close\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        stream.flush()
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        let always = ALWAYS.iter().map(|(name, value)| (*name, *value));
        let own = self.headers.iter().map(|(name, value)| (*name, &**value));
        for (name, value) in always.chain(own) {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Other",
    }
}
