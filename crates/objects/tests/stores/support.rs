//! Helpers: requests from a thread that is no task, a server with written answers, programs that serve buckets.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use objects::store::{
    Creation, Executor, ListedObject, ObjectStore, Part, RequestFuture, Variables, connect_with,
    executor,
};
use objects::{Result, StoreAddress, StoreProvider};

/// A store, asked from a thread.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) executor: Arc<dyn Executor>,
}

impl Client {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Client {
        Client {
            store,
            executor: executor(),
        }
    }

    /// A client of a bucket of an S3 server on this machine.
    pub(crate) fn s3(port: u16, bucket: &str, key: (&str, &str)) -> Client {
        let endpoint = format!("http://127.0.0.1:{port}");
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", key.0),
            ("AWS_SECRET_ACCESS_KEY", key.1),
            ("AWS_REGION", "us-east-1"),
        ];
        let address = s3_address(bucket);
        Client::new(connect_with(&address, &settings(&variables)).unwrap())
    }

    /// A client of the container `bucket` of Azurite on this machine.
    pub(crate) fn azurite(port: u16) -> Client {
        let endpoint = format!("http://127.0.0.1:{port}/devstoreaccount1");
        let variables = [
            ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
            ("AZURE_ALLOW_HTTP", "true"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1"),
            ("AZURE_STORAGE_ACCOUNT_KEY", AZURITE_KEY),
        ];
        let address = StoreAddress {
            provider: StoreProvider::Azure,
            ..s3_address("bucket")
        };
        Client::new(connect_with(&address, &settings(&variables)).unwrap())
    }

    /// A client of a bucket of an emulator of Google on this machine.
    pub(crate) fn google(port: u16, bucket: &str) -> Client {
        let emulator = format!("127.0.0.1:{port}");
        let address = StoreAddress {
            provider: StoreProvider::Gcs,
            ..s3_address(bucket)
        };
        let variables = settings(&[("STORAGE_EMULATOR_HOST", &emulator)]);
        Client::new(connect_with(&address, &variables).unwrap())
    }

    pub(crate) fn wait<T: Send>(&self, request: RequestFuture<'_, T>) -> T {
        let mut answer = None;
        self.executor.wait(Box::pin(async {
            answer = Some(request.await);
        }));
        answer.expect("the request has ended")
    }

    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation> {
        self.wait(self.store.create(name, Bytes::copy_from_slice(bytes)))
    }

    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.wait(self.store.replace(name, Bytes::copy_from_slice(bytes)))
    }

    pub(crate) fn get(&self, name: &str, first: u64, end: u64) -> Result<Option<Part>> {
        self.wait(self.store.get(name, first..end))
    }

    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedObject>> {
        self.wait(self.store.list(prefix, after, limit))
    }

    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        self.wait(self.store.delete(name))
    }
}

/// The key of each Azurite. It is no secret.
const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

pub(crate) fn s3_address(bucket: &str) -> StoreAddress {
    StoreAddress {
        provider: StoreProvider::S3,
        bucket: bucket.into(),
        prefix: "pools/a b".into(),
    }
}

pub(crate) fn settings(pairs: &[(&str, &str)]) -> Variables {
    let owned = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    owned.collect()
}

/// A server that gives each request the next written answer, and the last one for ever.
pub(crate) struct WrittenAnswers {
    pub(crate) port: u16,
    /// The requests: head and body.
    pub(crate) requests: Receiver<(String, Vec<u8>)>,
}

impl WrittenAnswers {
    pub(crate) fn new(answers: Vec<String>) -> WrittenAnswers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            let mut answers = answers.into_iter().peekable();
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                // One request for each connection.
                let Some(request) = read_request(&mut connection) else {
                    continue;
                };
                if sender.send(request).is_err() {
                    return;
                }
                let answer = answers.next().unwrap();
                let _ = connection.write_all(answer.as_bytes());
                if answers.peek().is_none() {
                    return;
                }
            }
        });
        WrittenAnswers { port, requests }
    }
}

/// An answer with a status, headers and a body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    let size = body.len();
    format!(
        "HTTP/1.1 {status} Words\r\ncontent-length: {size}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

/// The document of an error.
pub(crate) fn document(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>words of the store</Message></Error>")
}

fn read_request(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 65_536];
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let size = head.to_lowercase();
            let size = size.split("content-length: ").nth(1).map_or(0, |rest| {
                rest.split("\r\n").next().unwrap().parse::<usize>().unwrap()
            });
            if bytes.len() >= end + 4 + size {
                return Some((head, bytes[end + 4..].to_vec()));
            }
        }
        match connection.read(&mut piece).ok()? {
            0 => return None,
            count => bytes.extend(&piece[..count]),
        }
    }
}

/// The path of a program of the judges, or `None` with the reason on the terminal.
pub(crate) fn program(name: &str, install: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.push(target.join("judges/bin"));
    let found = folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed (`{install}`)");
    }
    found
}

/// Ports that are free now.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A program that serves buckets. It ends with this value.
pub(crate) struct StoreServer {
    child: Child,
    pub(crate) port: u16,
}

impl StoreServer {
    pub(crate) fn start(command: &mut Command, port: u16) -> StoreServer {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        StoreServer { child, port }
    }

    /// Ends the server at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tries until the server does what it is asked. It may take a while to be ready. `None` if it has ended.
    pub(crate) fn ready<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if let Some(value) = attempt() {
                return Some(value);
            }
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server is not ready after a minute");
    }
}

/// Starts a server again if it ends at once, because another program took one of its ports.
pub(crate) fn start_until_ready(start: impl Fn() -> Option<StoreServer>) -> StoreServer {
    let mut attempts = (0..5).filter_map(|_| start());
    attempts.next().expect("the server ends at once each time")
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request without a signature, and returns the status.
pub(crate) fn request(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).ok()?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).ok()?;
    let line = String::from_utf8_lossy(&answer).lines().next()?.to_owned();
    line.split(' ').nth(1)?.parse().ok()
}
