//! A store that speaks S3, with one bucket in memory. It goes away, refuses and forgets as a test wants, and counts requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

/// The behaviour of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreMood {
    /// An answer to each request.
    Well,
    /// No answer: each connection is closed.
    Away,
    /// Silence: each request is taken, and nothing is said.
    Silent,
}

pub(crate) struct TestBucket {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<BucketState>,
    changed: Condvar,
}

struct BucketState {
    mood: StoreMood,
    objects: BTreeMap<String, Vec<u8>>,
    /// The verb that is refused with 403: PUT, GET, LIST or DELETE.
    forbidden: Option<&'static str>,
    /// The bytes that the store holds at most.
    size_max: usize,
    /// True for a store that makes an object although it exists.
    overwrites: bool,
    requests: BTreeMap<&'static str, u64>,
}

impl TestBucket {
    /// Starts a store with an empty bucket, which is named `bucket`.
    pub(crate) fn start() -> TestBucket {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            state: Mutex::new(BucketState {
                mood: StoreMood::Well,
                objects: BTreeMap::new(),
                forbidden: None,
                size_max: usize::MAX,
                overwrites: false,
                requests: BTreeMap::new(),
            }),
            changed: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                thread::spawn(move || served.serve(&stream));
            }
        });
        TestBucket { port, shared }
    }

    /// The environment of a daemon that reaches the store.
    pub(crate) fn variables(&self) -> Vec<String> {
        vec![
            "AWS_ACCESS_KEY_ID=test".into(),
            "AWS_SECRET_ACCESS_KEY=testtest12".into(),
            "AWS_REGION=us-east-1".into(),
            format!("AWS_ENDPOINT_URL=http://127.0.0.1:{}", self.port),
            "AWS_ALLOW_HTTP=true".into(),
        ]
    }

    fn state(&self) -> MutexGuard<'_, BucketState> {
        self.shared.state.lock().expect("no panic")
    }

    /// Changes the behaviour. Requests that wait are dropped without an answer.
    pub(crate) fn be(&self, mood: StoreMood) {
        self.state().mood = mood;
        self.shared.changed.notify_all();
    }

    /// Refuses a verb from now on: PUT, GET, LIST or DELETE. `None`: no verb.
    pub(crate) fn forbid(&self, verb: Option<&'static str>) {
        self.state().forbidden = verb;
    }

    /// Limits the bytes that the store holds.
    pub(crate) fn limit(&self, bytes: usize) {
        self.state().size_max = bytes;
    }

    /// Makes objects although they exist, from now on.
    pub(crate) fn overwrite(&self) {
        self.state().overwrites = true;
    }

    /// The objects, by name.
    pub(crate) fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state().objects.clone()
    }

    /// Changes the objects behind the back of every user.
    pub(crate) fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.state().objects);
    }

    /// The requests so far, by verb.
    pub(crate) fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.state().requests.clone()
    }
}

/// A request, without what a store of a test does not look at.
struct StoreRequest {
    verb: &'static str,
    bucket: String,
    key: String,
    query: BTreeMap<String, String>,
    range: Option<(usize, usize)>,
    only_new: bool,
    body: Vec<u8>,
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = StoreRequest::read(&mut reader) {
            let mut state = self.state.lock().expect("no panic");
            *state.requests.entry(request.verb).or_default() += 1;
            while state.mood == StoreMood::Silent {
                state = self.changed.wait(state).expect("no panic");
                if state.mood != StoreMood::Silent {
                    return;
                }
            }
            if state.mood == StoreMood::Away {
                return;
            }
            let (status, head, body) = state.answer(request);
            drop(state);
            let head = format!(
                "HTTP/1.1 {status} It\r\nContent-Length: {}\r\n{head}\r\n",
                body.len()
            );
            let mut stream = stream;
            let sent = stream.write_all(head.as_bytes());
            if sent.and_then(|()| stream.write_all(&body)).is_err() {
                return;
            }
        }
    }
}

impl StoreRequest {
    fn read(reader: &mut BufReader<&TcpStream>) -> Option<StoreRequest> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|size| *size > 0)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let (mut size, mut range, mut only_new) = (0, None, false);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|size| *size > 0)?;
            let Some((name, value)) = line.trim().split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => size = value.trim().parse().ok()?,
                "if-none-match" => only_new = value.trim() == "*",
                "range" => {
                    let (first, last) = value
                        .trim()
                        .strip_prefix("bytes=")
                        .and_then(|it| it.split_once('-'))?;
                    range = Some((first.parse().ok()?, last.parse().ok()?));
                }
                _ => {}
            }
        }
        let mut body = vec![0; size];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query: BTreeMap<_, _> = { query.split('&') }
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let verb = match method.as_str() {
            "GET" if query.contains_key("list-type") => "LIST",
            "GET" => "GET",
            "PUT" => "PUT",
            _ => "DELETE",
        };
        Some(StoreRequest {
            verb,
            bucket: decoded(path.split('/').nth(1).unwrap_or_default()),
            key: decoded(path.splitn(3, '/').nth(2).unwrap_or_default()),
            query,
            range,
            only_new,
            body,
        })
    }
}

/// A status, lines of the head, and the body.
type StoreAnswer = (u16, String, Vec<u8>);

fn refusal(status: u16, code: &str) -> StoreAnswer {
    let body = format!("<Error><Code>{code}</Code><Message>a test wants it</Message></Error>");
    (status, String::new(), body.into())
}

const STAMPS: &str = "ETag: \"1\"\r\nLast-Modified: Sun, 29 Nov 2026 00:00:00 GMT\r\n";

impl BucketState {
    fn answer(&mut self, request: StoreRequest) -> StoreAnswer {
        if request.bucket != "bucket" {
            return refusal(404, "NoSuchBucket");
        }
        if self.forbidden == Some(request.verb) {
            return refusal(403, "AccessDenied");
        }
        match request.verb {
            "PUT" => self.put(request),
            "GET" => self.get(&request),
            "LIST" => self.list(&request),
            _ => self.delete(&request),
        }
    }

    fn put(&mut self, request: StoreRequest) -> StoreAnswer {
        if request.only_new && !self.overwrites && self.objects.contains_key(&request.key) {
            return refusal(412, "PreconditionFailed");
        }
        let held: usize = self.objects.values().map(Vec::len).sum();
        if held + request.body.len() > self.size_max {
            return refusal(507, "StorageFull");
        }
        self.objects.insert(request.key, request.body);
        (200, STAMPS.into(), Vec::new())
    }

    fn get(&self, request: &StoreRequest) -> StoreAnswer {
        let Some(object) = self.objects.get(&request.key) else {
            return refusal(404, "NoSuchKey");
        };
        let size = object.len();
        let (first, last) = request.range.unwrap_or((0, size.saturating_sub(1)));
        if first >= size {
            let (status, _, body) = refusal(416, "InvalidRange");
            return (status, format!("Content-Range: bytes */{size}\r\n"), body);
        }
        let last = last.min(size - 1);
        let head = format!("{STAMPS}Content-Range: bytes {first}-{last}/{size}\r\n");
        (206, head, object[first..=last].to_vec())
    }

    fn list(&self, request: &StoreRequest) -> StoreAnswer {
        let word = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let max: usize = word("max-keys").parse().unwrap_or(1000);
        let start = word("start-after").max(word("continuation-token"));
        let prefix = word("prefix");
        let found = self.objects.iter();
        let mut found = found.filter(|(key, _)| key.starts_with(&prefix) && **key > start);
        let page: Vec<_> = found.by_ref().take(max).collect();
        let next = page.last().filter(|_| found.next().is_some());
        let next = next.map_or(String::new(), |(key, _)| {
            format!("<NextContinuationToken>{key}</NextContinuationToken>")
        });
        let contents: String = { page.iter() }
            .map(|(key, object)| {
                format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-11-29T00:00:00.000Z</LastModified>\
                     <ETag>\"1\"</ETag><Size>{}</Size></Contents>",
                    object.len()
                )
            })
            .collect();
        let body = format!("<ListBucketResult>{contents}{next}</ListBucketResult>");
        (200, "Content-Type: application/xml\r\n".into(), body.into())
    }

    /// Removes the object of the path, or those that the body lists.
    fn delete(&mut self, request: &StoreRequest) -> StoreAnswer {
        if !request.query.contains_key("delete") {
            self.objects.remove(&request.key);
            return (204, String::new(), Vec::new());
        }
        let text = String::from_utf8_lossy(&request.body);
        let keys = text.split("<Key>").skip(1);
        for key in keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0)) {
            self.objects.remove(key);
        }
        (200, String::new(), "<DeleteResult></DeleteResult>".into())
    }
}

/// A text of an address with its real characters.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [a, b, tail @ ..]) => {
                let digits = [*a, *b];
                let digits = std::str::from_utf8(&digits).expect("ASCII");
                bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
                rest = tail;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
