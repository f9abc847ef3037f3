//! Tang servers, and programs around them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Place, find, is_installed, needs};

const TANGD: &str = "/usr/libexec/tangd";
const KEYGEN: &str = "/usr/libexec/tangd-keygen";

/// A Tang server, as inetd runs it, until the test ends.
pub struct Tang {
    pub keys: PathBuf,
    pub port: u16,
}

/// Returns whether a test can use these programs. Prints why it is skipped if not.
pub fn are_installed(programs: &[&str]) -> bool {
    let missing: Vec<&&str> = programs.iter().filter(|one| !is_installed(one)).collect();
    if !missing.is_empty() {
        eprintln!("skipped: not installed: {missing:?}");
    }
    missing.is_empty()
}

impl Tang {
    /// With keys in this directory. `None` if there is no Tang.
    pub fn start(place: &Place, keys: &str) -> Option<Tang> {
        let is_there = |program: &&str| Path::new(program).exists();
        needs!(
            [TANGD, KEYGEN].iter().all(is_there) && is_installed("jose"),
            "tang is not installed"
        );
        let keys = place.path(keys);
        std::fs::create_dir(&keys).unwrap();
        let of_server = keys.clone();
        let port = serve(move |stream| {
            let (input, output) = (stream.try_clone().unwrap(), stream);
            let mut server = Command::new(TANGD);
            server.arg(&of_server).stdin(OwnedFd::from(input));
            let server = server.stdout(OwnedFd::from(output)).stderr(Stdio::null());
            let _ = server.status();
        });
        let tang = Tang { keys, port };
        tang.make_keys();
        Some(tang)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A key to sign with, and one for an exchange.
    pub fn make_keys(&self) {
        let made = Command::new(KEYGEN).arg(&self.keys).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }

    /// The files of the keys that it tells of: for an exchange, or to sign with.
    pub fn key_files(&self, algorithm: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.keys).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let is_hidden = |file: &PathBuf| file.file_name().unwrap().as_bytes().starts_with(b".");
        let files = files.filter(|file| !is_hidden(file));
        let is_one = |file: &PathBuf| std::fs::read_to_string(file).unwrap().contains(algorithm);
        files.filter(is_one).collect()
    }

    pub fn delete_keys(&self) {
        for file in self.key_files("") {
            std::fs::remove_file(file).unwrap();
        }
    }

    /// Keeps the keys for clients that know them, and tells nobody of them.
    pub fn hide_keys(&self) {
        for file in self.key_files("") {
            let name = file.file_name().unwrap().to_str().unwrap();
            std::fs::rename(&file, self.keys.join(format!(".{name}"))).unwrap();
        }
    }

    /// The thumbprint of the server's signing key.
    pub fn thumbprint(&self) -> String {
        let file = &self.key_files("ES512")[0];
        let printed = Command::new("jose")
            .args(["jwk", "thp", "-a", "S256", "-i"])
            .arg(file)
            .output()
            .unwrap();
        assert!(printed.status.success(), "{printed:?}");
        String::from_utf8(printed.stdout).unwrap().trim().to_owned()
    }

    /// The answer of the server to a request without a body.
    pub fn answer(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: tang\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

/// The sealed form of `len` bytes, as it lies in the file of a pool.
pub fn sealed(pool: &Path, len: usize) -> Vec<u8> {
    let bytes = std::fs::read(pool).unwrap();
    // Its header begins so, in base64url: {"alg":"ECDH-ES
    let start = find(&bytes, b"eyJhbGciOiJFQ0RILUVT").expect("what was sealed");
    let header = find(&bytes[start..], b"..").expect("a whole one");
    // A nonce of 12 bytes, the bytes and a tag of 16.
    let text = (4 * len).div_ceil(3);
    bytes[start..][..header + "..".len() + 16 + 1 + text + 1 + 22].to_vec()
}

/// Serves one connection after the other on a port of the system's choice.
pub fn serve(mut answer: impl FnMut(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream);
        }
    });
    port
}
