//! Requests: the head is parsed by `httparse`, the body is read into locked memory. A body that is a stream is left on
//! the connection, see [`super::StreamedBody`].

use std::io::{self, Read, Write};
use std::time::Duration;

use secret::Secret;
use zeroize::Zeroizing;

use super::problem::Problem;
use super::query::UrlQuery;
use super::stream::ClientStream;
use crate::memory::MemoryShare;

/// The longest head.
pub(crate) const HEAD_MAX: usize = 16 << 10;
/// The longest body.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// The longest body that anybody may send: enough for a token.
const STRANGER_MAX: usize = 4 << 10;
/// The most headers.
const HEADERS_MAX: usize = 64;
/// The time for a whole head, from its first byte on.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time for a whole body.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);

/// The request whose body is a stream, of any length.
const WITH_STREAM: &str = "/v1/commands/receive";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    /// The response of [`Method::Get`] without its body.
    Head,
    Post,
    Delete,
}

impl Method {
    /// Returns whether the method changes nothing.
    pub(crate) fn is_safe(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Without the part after `?`, as it was sent.
    pub(crate) path: String,
    pub(crate) query: UrlQuery,
    pub(crate) host: String,
    pub(crate) origin: Option<String>,
    pub(crate) fetch_site: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) accept: String,
    pub(crate) if_none_match: Option<String>,
    pub(crate) last_event_id: Option<String>,
    /// True if the request has the header that pages of other sites cannot send.
    pub(crate) is_marked: bool,
    /// The token.
    pub(crate) bearer: Option<Secret>,
    pub(crate) cookie: Option<Secret>,
    /// True if the connection stays open.
    pub(crate) stays: bool,
    /// True if the client understands a response in chunks.
    pub(crate) knows_chunks: bool,
    pub(crate) framing: Framing,
    pub(crate) body: Secret,
    /// The memory of a long body, and of what it is read into.
    memory: Option<MemoryShare>,
}

/// The fields of a head that describe the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(super) length: Length,
    /// True if the client waits until it is told to send the body.
    pub(super) is_expected: bool,
}

/// The way in which the end of a body is found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    /// The number of bytes.
    Known(u64),
    /// Chunks, each with its length.
    Chunked,
}

/// Reads requests from a connection.
pub(crate) struct RequestReader {
    /// The bytes that were read ahead. They may contain a secret.
    buffer: Zeroizing<Vec<u8>>,
}

impl RequestReader {
    pub(crate) fn new() -> RequestReader {
        RequestReader {
            // Never longer: what grows would leave a copy behind.
            buffer: Zeroizing::new(Vec::with_capacity(2 * HEAD_MAX)),
        }
    }

    /// The next request; `None` if the client has gone or is silent for `idle`. `admit`
    /// takes the memory for a long body, of this length, or refuses it. A body that is a stream is not read.
    pub(crate) fn next<S: ClientStream>(
        &mut self,
        stream: &mut S,
        idle: Duration,
        admit: &dyn Fn(&Request, usize) -> Result<MemoryShare, Problem>,
    ) -> io::Result<Option<Result<Request, Problem>>> {
        if self.buffer.is_empty() {
            stream.end_in(idle);
            match self.more(stream) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if is_late(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        stream.end_in(HEAD_TIME);
        let len = match self.head(stream) {
            Ok(Some(len)) => len,
            Ok(None) => {
                let long = "the head of the request is too long";
                return Ok(Some(Err(Problem::Refused(431, long.into()))));
            }
            Err(error) if is_late(&error) => {
                let late = "the request took too long";
                return Ok(Some(Err(Problem::Refused(408, late.into()))));
            }
            Err(error) => return Err(error),
        };
        let parsed = parse(&self.buffer[..len]);
        self.take(len);
        let mut request = match parsed {
            Ok(parsed) => parsed,
            Err(problem) => return Ok(Some(Err(problem))),
        };
        if request.has_stream() {
            return Ok(Some(Ok(request)));
        }
        let body_len = match request.framing.short() {
            Ok(len) => len,
            Err(problem) => return Ok(Some(Err(problem))),
        };
        if body_len > STRANGER_MAX {
            request.memory = match admit(&request, body_len) {
                Ok(share) => Some(share),
                Err(problem) => return Ok(Some(Err(problem))),
            };
        }
        stream.end_in(BODY_TIME);
        self.ask_for_body(stream, request.framing)?;
        match self.body(stream, body_len) {
            Ok(Some(body)) => request.body = body,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(Err(too_much(&error)))),
        }
        Ok(Some(Ok(request)))
    }

    /// Reads up to the end of a head, and returns its length; `None` if it is too long.
    fn head(&mut self, stream: &mut impl Read) -> io::Result<Option<usize>> {
        let mut seen = 0;
        loop {
            let from = seen.min(self.buffer.len());
            if let Some(at) = find(&self.buffer[from..], b"\r\n\r\n") {
                let len = from + at + 4;
                return Ok((len <= HEAD_MAX).then_some(len));
            }
            if self.buffer.len() >= HEAD_MAX {
                return Ok(None);
            }
            seen = self.buffer.len().saturating_sub(3);
            if self.more(stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads a body into locked memory; `None` if the client stopped in the middle.
    fn body(
        &mut self,
        stream: &mut impl Read,
        len: usize,
    ) -> Result<Option<Secret>, secret::Error> {
        let here = len.min(self.buffer.len());
        let mut both = self.buffer[..here].chain(stream);
        let body = Secret::from_reader(&mut both, len)?;
        self.take(here);
        Ok((body.len() == len).then_some(body))
    }

    /// Tells a client that waits for it to send the body.
    pub(super) fn ask_for_body(&self, stream: &mut impl Write, framing: Framing) -> io::Result<()> {
        if framing.is_expected && self.buffer.is_empty() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.flush()?;
        }
        Ok(())
    }

    /// Reads what comes next: what is in the buffer, or else from the connection.
    pub(super) fn read(&mut self, stream: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            return stream.read(out);
        }
        let len = out.len().min(self.buffer.len());
        out[..len].copy_from_slice(&self.buffer[..len]);
        self.take(len);
        Ok(len)
    }

    /// The bytes that were read ahead.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads more into the buffer; 0 at the end.
    pub(super) fn more(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        let old = self.buffer.len();
        let len = self.buffer.capacity().min(old + 4096);
        self.buffer.resize(len, 0);
        let read = stream.read(&mut self.buffer[old..]);
        self.buffer
            .truncate(old + read.as_ref().copied().unwrap_or(0));
        read
    }

    /// Removes what was used.
    pub(super) fn take(&mut self, len: usize) {
        let rest = self.buffer.len() - len;
        self.buffer.copy_within(len.., 0);
        self.buffer[rest..].fill(0);
        self.buffer.truncate(rest);
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Returns whether nothing came in time.
pub(crate) fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

pub(super) fn too_much(error: &secret::Error) -> Problem {
    match error {
        secret::Error::Read(_) => Problem::Refused(408, "the body did not come in time".into()),
        error => Problem::TooMany(error.to_string(), 1),
    }
}

fn bad(why: &str) -> Problem {
    Problem::Refused(400, format!("the request is malformed: {why}"))
}

/// Parses a head, which ends with an empty line.
fn parse(head: &[u8]) -> Result<Request, Problem> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Ok(_) => return Err(bad("it has an empty line in the middle")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Problem::Refused(431, "there are too many headers".into()));
        }
        Err(error) => return Err(bad(&error.to_string())),
    }
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post,
        Some("DELETE") => Method::Delete,
        _ => return Err(Problem::Refused(405, "use GET, POST or DELETE".into())),
    };
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(bad("the address does not begin with '/'"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        path: path.into(),
        query: UrlQuery::parse(query)?,
        host: String::new(),
        origin: None,
        fetch_site: None,
        content_type: None,
        accept: String::new(),
        if_none_match: None,
        last_event_id: None,
        is_marked: false,
        bearer: None,
        cookie: None,
        stays: parsed.version == Some(1),
        knows_chunks: parsed.version == Some(1),
        framing: Framing {
            length: Length::Known(0),
            is_expected: false,
        },
        body: Secret::new(),
        memory: None,
    };
    request.take_headers(parsed.headers)?;
    Ok(request)
}

impl Framing {
    /// The length of a body that is no stream.
    fn short(self) -> Result<usize, Problem> {
        let Length::Known(len) = self.length else {
            let why = "send the length of the body: Content-Length";
            return Err(Problem::Refused(411, why.into()));
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= BODY_MAX);
        let why = || format!("the body has more than {BODY_MAX} bytes");
        len.ok_or_else(|| Problem::Refused(413, why()))
    }
}

impl Request {
    /// Returns whether the body is a stream.
    pub(crate) fn has_stream(&self) -> bool {
        self.method == Method::Post && self.path == WITH_STREAM
    }

    fn take_headers(&mut self, headers: &[httparse::Header<'_>]) -> Result<(), Problem> {
        let mut once = Vec::new();
        for header in headers {
            let name = header.name.to_ascii_lowercase();
            let text = || {
                let text = std::str::from_utf8(header.value);
                text.map(str::to_owned)
                    .map_err(|_| bad("a header is not UTF-8"))
            };
            match &*name {
                "host" => self.host = text()?,
                "content-length" => self.framing.length = Length::Known(length(&text()?)?),
                "transfer-encoding" => match text()?.eq_ignore_ascii_case("chunked") {
                    true if self.knows_chunks => self.framing.length = Length::Chunked,
                    _ => return Err(bad("its transfer encoding is not 'chunked'")),
                },
                "expect" => {
                    self.framing.is_expected = text()?.eq_ignore_ascii_case("100-continue");
                }
                "connection" => self.stays &= !text()?.to_ascii_lowercase().contains("close"),
                "origin" => self.origin = Some(text()?),
                "sec-fetch-site" => self.fetch_site = Some(text()?),
                "content-type" => self.content_type = Some(text()?),
                "accept" => self.accept = text()?,
                "if-none-match" => self.if_none_match = Some(text()?),
                "last-event-id" => self.last_event_id = Some(text()?),
                "x-strongroom" => self.is_marked = true,
                "authorization" => self.bearer = bearer(header.value)?,
                "cookie" => self.cookie = Some(locked(header.value)?),
                _ => continue,
            }
            if once.contains(&name) {
                return Err(bad(&format!("it has '{name}' twice")));
            }
            once.push(name);
        }
        // Two lengths could be taken for two requests.
        match ["content-length", "transfer-encoding"].map(|name| once.iter().any(|o| o == name)) {
            [true, true] => Err(bad("it has a length and comes in chunks")),
            _ => Ok(()),
        }
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &[u8]) -> Result<Option<Secret>, Problem> {
    match value.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => locked(token).map(Some),
        _ => Ok(None),
    }
}

fn locked(bytes: &[u8]) -> Result<Secret, Problem> {
    Secret::from_slice(bytes).map_err(|error| too_much(&error))
}

fn length(text: &str) -> Result<u64, Problem> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| is_number);
    parsed.ok_or_else(|| bad("its length is no number"))
}

#[cfg(test)]
impl Request {
    pub(crate) fn for_tests(head: &str) -> Request {
        parse(head.as_bytes()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A connection on which everything was sent already.
    struct Sent<'a>(&'a [u8], Vec<u8>);

    impl Read for Sent<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            // In small pieces.
            let len = out.len().min(7);
            self.0.read(&mut out[..len])
        }
    }

    impl Write for Sent<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl ClientStream for Sent<'_> {
        fn end_at(&mut self, _: Instant) {}

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn all(text: &str) -> Vec<Result<Request, u16>> {
        let mut stream = Sent(text.as_bytes(), Vec::new());
        let mut reader = RequestReader::new();
        let stranger = |_: &Request, _| Err(Problem::Login("no token".into()));
        let mut found = Vec::new();
        while let Ok(Some(next)) = reader.next(&mut stream, Duration::from_secs(1), &stranger) {
            let next = next.map_err(|problem| problem.response().status);
            let stops = next.is_err();
            found.push(next);
            if stops {
                break;
            }
        }
        found
    }

    #[test]
    fn requests_follow_each_other() {
        let text = "POST /v1/a?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX-Strongroom: 1\r\n\r\nbody\
                    GET /b HTTP/1.1\r\nhost: h\r\nAuthorization: Bearer srt_1\r\nConnection: close\r\n\r\n";
        let found = all(text);
        let [Ok(first), Ok(second)] = &*found else {
            panic!("{found:?}")
        };
        assert_eq!((first.method, &*first.path), (Method::Post, "/v1/a"));
        assert_eq!(first.body.expose(), b"body");
        assert!(first.is_marked && first.stays && !second.stays);
        assert_eq!(second.bearer.as_ref().unwrap().expose(), b"srt_1");
        assert!(!format!("{second:?}").contains("srt_1"));
    }

    #[test]
    fn hostile_requests_are_refused() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(HEAD_MAX));
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "A: b\r\n".repeat(HEADERS_MAX + 1)
        );
        let post = |headers: &str| format!("POST / HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n");
        for (text, status) in [
            (long, 431),
            (many, 431),
            (post("Content-Length: 1048577"), 413),
            (post("Content-Length: 99999999999999999999999"), 400),
            (post("Content-Length: 4097"), 401),
            (post("Content-Length: 4097\r\nCookie: a=b"), 401),
            (post("Content-Length: 4097\r\nAuthorization: Bearer x"), 401),
            (post("Content-Length: -1"), 400),
            (post("Content-Length: +1"), 400),
            (post("Content-Length: 1\r\nContent-Length: 2"), 400),
            (post("Transfer-Encoding: chunked"), 411),
            (post("Transfer-Encoding: gzip, chunked"), 400),
            (post("Transfer-Encoding: chunked\r\nContent-Length: 1"), 400),
            (
                post("Transfer-Encoding: chunked").replace("/1.1", "/1.0"),
                400,
            ),
            (post("Host: other"), 400),
            (post("X : 1"), 400),
            (post("X: \u{1}"), 400),
            ("GET / HTTP/1.1\n\nGET / HTTP/1.1\r\n\r\n".into(), 400),
            ("GET http://h/ HTTP/1.1\r\n\r\n".into(), 400),
            ("GET /?a=%zz HTTP/1.1\r\n\r\n".into(), 400),
            ("PUT / HTTP/1.1\r\n\r\n".into(), 405),
            ("CONNECT h:1 HTTP/1.1\r\n\r\n".into(), 405),
            ("\u{16}\u{3}\u{1} tls\r\n\r\n".into(), 400),
        ] {
            let found = all(&text);
            assert!(
                matches!(&*found, [Err(found)] if *found == status),
                "{status} {text:.60?}: {found:?}"
            );
        }
        // Half a request is none.
        assert!(all("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nbod").is_empty());
        assert!(all("GET / HTTP/1.1\r\nHos").is_empty());
    }

    #[test]
    fn a_client_may_ask_whether_to_send_a_body() {
        let text = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        let mut stream = Sent(text, Vec::new());
        // The body does not come: what counts is that it was asked for.
        let next = RequestReader::new().next(&mut stream, Duration::from_secs(1), &|_, _| {
            unreachable!("the body is short")
        });
        assert!(matches!(next, Ok(None)));
        assert!(stream.1.starts_with(b"HTTP/1.1 100 "));
    }
}
