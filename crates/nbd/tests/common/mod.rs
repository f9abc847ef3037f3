//! Helpers that the tests share: a server in a directory of its own, and a client that sends given bytes.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use block::{BlockDevice, TransferPool};
use nbd::{Export, ExportService, Exports, Listener};
use tempfile::TempDir;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const LIST: u32 = 3;
pub const STARTTLS: u32 = 5;
pub const GO: u32 = 7;
pub const STRUCTURED: u32 = 8;
pub const SET_CONTEXT: u32 = 10;
pub const ACK: u32 = 1;
pub const ERROR: u32 = 1 << 31;

pub struct Place {
    pub dir: TempDir,
    pub exports: Arc<Exports>,
    _server: ExportService,
}

impl Place {
    /// A server that offers one device, as "x".
    pub fn with(device: Arc<dyn BlockDevice>) -> Place {
        Place::with_memory(device, TransferPool::new(512 << 20))
    }

    /// The same, with this memory for all connections.
    pub fn with_memory(device: Arc<dyn BlockDevice>, memory: Arc<TransferPool>) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let exports = Arc::new(Exports::default());
        let export = Export::new("x", "of a test", device, false).unwrap();
        exports.insert(Arc::new(export)).unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let server =
            ExportService::start_with(Listener::Unix(listener), Arc::clone(&exports), memory)
                .unwrap();
        Place {
            dir,
            exports,
            _server: server,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A client that has sent nothing.
    pub fn connect(&self) -> Client {
        Client(UnixStream::connect(self.socket()).unwrap())
    }

    /// A client that has the export, and is answered in chunks.
    pub fn client(&self) -> Client {
        let mut client = self.connect();
        client.hello();
        assert_eq!(client.option(STRUCTURED, &[]), [(ACK, vec![])]);
        client.go();
        client
    }
}

pub struct Client(pub UnixStream);

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Simple {
        error: u32,
        cookie: u64,
    },
    Chunk {
        flags: u16,
        kind: u16,
        cookie: u64,
        data: Vec<u8>,
    },
}

impl Client {
    pub fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn hear(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns whether the server has closed the connection, after at most `len` more bytes.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(n) => n < 4096,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn hello(&mut self) {
        let hello = self.hear(18);
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        self.say(&3u32.to_be_bytes());
    }

    pub fn say_option(&mut self, option: u32, len: u32) {
        self.say(b"IHAVEOPT");
        self.say(&option.to_be_bytes());
        self.say(&len.to_be_bytes());
    }

    /// Asks for an option; returns the answers to it.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.say_option(option, data.len() as u32);
        self.say(data);
        self.answers()
    }

    pub fn answers(&mut self) -> Vec<(u32, Vec<u8>)> {
        let mut answers = Vec::new();
        loop {
            let head = self.hear(20);
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let kind = number(12);
            answers.push((kind, self.hear(number(16) as usize)));
            if kind == ACK || kind & ERROR != 0 {
                return answers;
            }
        }
    }

    pub fn go(&mut self) {
        let answers = self.option(GO, b"\0\0\0\x01x\0\0");
        assert_eq!(answers.last(), Some(&(ACK, vec![])));
    }

    pub fn request(&mut self, kind: u16, flags: u16, offset: u64, len: u32) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((offset + 1).to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        self.say(&bytes);
    }

    pub fn answer(&mut self) -> Answer {
        let head = self.hear(16);
        let u16_at = |at: usize| u16::from_be_bytes(head[at..at + 2].try_into().unwrap());
        let u32_at = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let cookie = u64::from_be_bytes(head[8..16].try_into().unwrap());
        if u32_at(0) == 0x6744_6698 {
            let error = u32_at(4);
            return Answer::Simple { error, cookie };
        }
        assert_eq!(u32_at(0), 0x668e_33ef);
        let (flags, kind) = (u16_at(4), u16_at(6));
        let len = self.hear(4);
        let len = u32::from_be_bytes(len.try_into().unwrap());
        let data = self.hear(len as usize);
        Answer::Chunk {
            flags,
            kind,
            cookie,
            data,
        }
    }

    /// The number of the error that a request ends with; 0 if it went well.
    pub fn outcome(&mut self) -> u32 {
        loop {
            match self.answer() {
                Answer::Simple { error, .. } => return error,
                Answer::Chunk { kind, data, .. } if kind >> 15 == 1 => {
                    return u32::from_be_bytes(data[..4].try_into().unwrap());
                }
                Answer::Chunk { flags: 1, .. } => return 0,
                Answer::Chunk { .. } => {}
            }
        }
    }

    /// Returns whether the client can read.
    pub fn works(&mut self) -> bool {
        self.request(READ, 0, 0, 4096);
        self.outcome() == 0
    }
}
