//! Servers that do what they should not: the client gets an error, in time.

use std::io::{IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use block::{BlockDevice, DeviceAccess, Result};
use nbd::{Address, ClientTimeouts, Remote, RemoteExport};

const SIZE: u64 = 1 << 20;
/// The flags of an export: flush, FUA, trim, zeros.
const FLAGS: u16 = 0b110_1101;

/// A server that does with one client after the other what it is told to.
struct Fake {
    dir: tempfile::TempDir,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn new(clients: Vec<Box<dyn FnOnce(Peer) + Send>>) -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let thread = std::thread::spawn(move || {
            for client in clients {
                client(Peer(listener.accept().unwrap().0));
            }
        });
        Fake {
            dir,
            thread: Some(thread),
        }
    }

    fn one(client: impl FnOnce(Peer) + Send + 'static) -> Fake {
        Fake::new(vec![Box::new(client)])
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn open_with(&self, patience: ClientTimeouts) -> Result<RemoteExport> {
        let remote = Remote {
            address: Address::Unix(self.socket()),
            export: "x".into(),
            tls: None,
            name: "nbd+unix:///x".into(),
            patience,
        };
        RemoteExport::open(remote, DeviceAccess::Exclusive)
    }

    fn open(&self) -> Result<RemoteExport> {
        self.open_with(ClientTimeouts::default())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let joined = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || joined.is_none_or(|joined| joined.is_ok()));
    }
}

/// The client, as the server sees it.
struct Peer(UnixStream);

struct Asked {
    kind: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Peer {
    fn say(&mut self, bytes: &[u8]) {
        // The client may have had enough.
        let _ = self.0.write_all(bytes);
    }

    fn hear(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// Waits until the client has closed the connection.
    fn wait_for_end(&mut self) {
        let _ = self.0.read_to_end(&mut Vec::new());
    }

    /// The same, without taking what the client sends.
    fn wait_for_hangup(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        let ends = PollFlags::RDHUP | PollFlags::HUP;
        poll(&mut [PollFd::new(&self.0, ends)], None).unwrap();
    }

    fn hello(&mut self) {
        self.say(b"NBDMAGICIHAVEOPT\0\x03");
        self.hear(4);
    }

    /// The number of the next option.
    fn option(&mut self) -> Option<u32> {
        let head = self.hear(16)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        self.hear(number(12) as usize)?;
        Some(number(8))
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        let mut bytes = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.say(&bytes);
    }

    fn info(&mut self, size: u64, flags: u16) {
        let mut data = vec![0, 0];
        data.extend(size.to_be_bytes());
        data.extend(flags.to_be_bytes());
        self.reply(7, 3, &data);
    }

    /// Gives the client the export.
    fn agree(&mut self) {
        self.hello();
        while let Some(option) = self.option() {
            match option {
                10 => self.reply(10, 4, b"\0\0\0\x05base:allocation"),
                7 => self.info(SIZE, FLAGS),
                _ => {}
            }
            self.reply(option, 1, &[]);
            if option == 7 {
                return;
            }
        }
    }

    fn request(&mut self) -> Option<Asked> {
        let head = self.hear(28)?;
        let asked = Asked {
            flags: u16::from_be_bytes(head[4..6].try_into().unwrap()),
            kind: u16::from_be_bytes(head[6..8].try_into().unwrap()),
            cookie: u64::from_be_bytes(head[8..16].try_into().unwrap()),
            offset: u64::from_be_bytes(head[16..24].try_into().unwrap()),
            len: u32::from_be_bytes(head[24..].try_into().unwrap()),
        };
        if asked.kind == 1 {
            self.hear(asked.len as usize)?;
        }
        Some(asked)
    }

    fn simple(&mut self, cookie: u64, error: u32) {
        let mut bytes = 0x6744_6698u32.to_be_bytes().to_vec();
        bytes.extend(error.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        self.say(&bytes);
    }

    fn chunk(&mut self, cookie: u64, is_last: bool, kind: u16, data: &[u8]) {
        let mut bytes = 0x668e_33efu32.to_be_bytes().to_vec();
        bytes.extend(u16::from(is_last).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.say(&bytes);
    }
}

/// A chunk's data from `offset`.
fn data(offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.resize(8 + len, 9);
    bytes
}

fn hole(offset: u64, len: u32) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &len.to_be_bytes()].concat()
}

type Handshake = fn(&mut Peer);

#[test]
fn handshakes_that_are_none_give_no_device() {
    let cases: [(&str, Handshake); 14] = [
        ("closed the connection", |peer| {
            peer.0.shutdown(Shutdown::Both).unwrap();
        }),
        ("no NBD server", |peer| {
            peer.say(b"220 smtp.example.org ESMTP ready")
        }),
        ("before 2011", |peer| {
            peer.say(b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53")
        }),
        ("newstyle", |peer| peer.say(b"NBDMAGICIHAVEOPT\0\0")),
        ("no answer to an option", |peer| {
            peer.hello();
            peer.say(&[0x55; 64]);
        }),
        ("not asked for", |peer| {
            peer.hello();
            peer.option();
            peer.reply(7, 1, &[]);
        }),
        ("too great length", |peer| {
            peer.hello();
            peer.option();
            peer.say(&0x0003_e889_0455_65a9u64.to_be_bytes());
            peer.say(&[0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        }),
        ("too many times", |peer| {
            peer.hello();
            peer.option();
            peer.reply(8, 0x8000_0001, &[]);
            peer.option();
            (0..1000).for_each(|_| peer.info(SIZE, FLAGS));
        }),
        ("how large", |peer| {
            peer.hello();
            peer.option();
            peer.reply(8, 0x8000_0001, &[]);
            peer.option();
            peer.reply(7, 1, &[]);
        }),
        ("0 bytes cannot be used", |peer| go(peer, 0, FLAGS, &[])),
        ("bytes cannot be used", |peer| {
            go(peer, u64::MAX, FLAGS, &[])
        }),
        ("neither flush nor FUA", |peer| go(peer, SIZE, 1, &[])),
        ("make no sense", |peer| {
            go(peer, SIZE, FLAGS, b"\0\x03\0\0\x02\x01\0\0\x10\0\x02\0\0\0");
        }),
        ("at least 65536 bytes", |peer| {
            go(peer, SIZE, FLAGS, b"\0\x03\0\x01\0\0\0\x01\0\0\x02\0\0\0");
        }),
    ];
    for (reason, handshake) in cases {
        let fake = Fake::one(move |mut peer| {
            handshake(&mut peer);
            peer.wait_for_end();
        });
        let failure = fake.open().err().expect(reason).to_string();
        assert!(failure.contains(reason), "{reason}: {failure}");
        assert!(failure.contains("nbd+unix:///x"), "{failure}");
    }
}

/// Gives an export of this size, with these flags, and another piece of information.
fn go(peer: &mut Peer, size: u64, flags: u16, info: &[u8]) {
    peer.hello();
    peer.option();
    peer.reply(8, 0x8000_0001, &[]);
    peer.option();
    peer.info(size, flags);
    if !info.is_empty() {
        peer.reply(7, 3, info);
    }
    peer.reply(7, 1, &[]);
}

#[test]
fn what_a_server_says_is_shown_without_what_a_terminal_obeys() {
    let fake = Fake::one(|mut peer| {
        peer.hello();
        peer.option();
        peer.reply(8, 1, &[]);
        peer.option();
        peer.reply(10, 1, &[]);
        peer.option();
        let said = [&b"go \x1b[2J away\n"[..], &[b'!'; 5000]].concat();
        peer.reply(7, 0x8000_0002, &said);
    });
    let failure = fake.open().err().unwrap().to_string();
    assert!(
        failure.contains("refuses this client (go [2J away!!!"),
        "{failure}"
    );
    assert!(failure.len() < 400, "{failure}");
}

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn servers_that_say_nothing_are_not_waited_for() {
    let short = |connect, answer| ClientTimeouts { connect, answer };
    let long = Duration::from_secs(60);
    let fake = Fake::one(|mut peer| peer.wait_for_end());
    let failure = fake.open_with(short(SHORT, long)).err().unwrap();
    assert!(failure.to_string().contains("does not answer"), "{failure}");

    // Nor is one that says something now and then.
    let fake = Fake::one(|mut peer| {
        peer.hello();
        while peer.0.write_all(&[0]).is_ok() {
            std::thread::sleep(SHORT / 8);
        }
    });
    assert!(fake.open_with(short(SHORT, long)).is_err());

    let fake = Fake::one(|mut peer| {
        peer.agree();
        peer.wait_for_end();
    });
    let device = fake.open_with(short(long, SHORT)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let failure = device.read_at(0, &mut [0; 4096]).unwrap_err();
                assert!(failure.to_string().contains("does not answer"), "{failure}");
            });
        }
    });
    // It does not even take what is written.
    let fake = Fake::one(|mut peer| {
        peer.agree();
        peer.wait_for_hangup();
    });
    let device = fake.open_with(short(long, SHORT)).unwrap();
    let much = vec![0; SIZE as usize];
    let failure = device.write_at(0, &[IoSlice::new(&much)]).unwrap_err();
    assert!(failure.to_string().contains("does not answer"), "{failure}");
}

type Reply = fn(&mut Peer, u64);

#[test]
fn answers_that_make_no_sense_end_the_connection() {
    // To a read of 4096 bytes at 8192.
    #[rustfmt::skip]
    let cases: [(&str, Reply); 22] = [
        ("is no answer", |peer, _| peer.say(&[0x55; 64])),
        ("not made", |peer, cookie| peer.chunk(cookie + 1, true, 1, &data(8192, 4096))),
        ("not made", |peer, _| peer.simple(0, 5)),
        ("lacks the requested data", |peer, cookie| peer.simple(cookie, 0)),
        ("not asked for", |peer, cookie| peer.chunk(cookie, true, 1, &data(0, 4096))),
        ("not asked for", |peer, cookie| peer.chunk(cookie, true, 1, &data(8192, 4097))),
        ("not asked for", |peer, cookie| peer.chunk(cookie, true, 1, &data(u64::MAX, 2))),
        ("not asked for", |peer, cookie| peer.chunk(cookie, true, 2, &hole(8192, u32::MAX))),
        ("twice", |peer, cookie| {
            peer.chunk(cookie, false, 1, &data(8192, 4096));
            peer.chunk(cookie, true, 2, &hole(12000, 1));
        }),
        ("twice", |peer, cookie| peer.chunk(cookie, true, 2, &hole(8192, 0))),
        ("gaps", |peer, cookie| peer.chunk(cookie, true, 1, &data(8192, 4095))),
        ("gaps", |peer, cookie| peer.chunk(cookie, true, 0, &[])),
        ("makes no sense", |peer, cookie| peer.chunk(cookie, false, 0, &[])),
        ("makes no sense", |peer, cookie| peer.chunk(cookie, true, 0, &[1])),
        ("makes no sense", |peer, cookie| peer.chunk(cookie, true, 1, &data(8192, 0))),
        ("makes no sense", |peer, cookie| {
            peer.chunk(cookie, true, 5, b"\0\0\0\x05\0\0\x10\0\0\0\0\0");
        }),
        ("makes no sense", |peer, cookie| peer.chunk(cookie, true, 77, &[0; 9])),
        ("makes no sense", |peer, cookie| {
            peer.chunk(cookie, true, 0x8001, &[0, 0, 0, 0, 0, 0]);
        }),
        ("makes no sense", |peer, cookie| {
            peer.chunk(cookie, true, 0x8001, &[0, 0, 0, 5, 0xff, 0xff, b'x']);
        }),
        ("makes no sense", |peer, cookie| peer.chunk(cookie, true, 0x8002, &[0; 100_000])),
        ("too many parts", |peer, cookie| {
            (0..5000).for_each(|_| peer.chunk(cookie, false, 0x8001, &[0, 0, 0, 5, 0, 0]));
        }),
        ("closed the connection", |peer, cookie| {
            let mut half = 0x668e_33efu32.to_be_bytes().to_vec();
            half.extend([0, 1, 0, 1]);
            half.extend(cookie.to_be_bytes());
            half.extend([0, 0, 16, 8]);
            half.extend(&data(8192, 4096)[..2000]);
            peer.say(&half);
        }),
    ];
    for (nth, (reason, reply)) in cases.into_iter().enumerate() {
        let fake = Fake::one(move |mut peer| {
            peer.agree();
            if let Some(asked) = peer.request() {
                assert_eq!((asked.kind, asked.offset, asked.len), (0, 8192, 4096));
                reply(&mut peer, asked.cookie);
            }
        });
        let device = fake.open().unwrap();
        let failure = device.read_at(8192, &mut [0; 4096]).unwrap_err();
        assert!(
            failure.to_string().contains(reason),
            "{nth}, {reason}: {failure}"
        );
        // It stays lost, and says why.
        let failure = device.write_at(0, &[IoSlice::new(&[0; 512])]).unwrap_err();
        assert!(
            failure.to_string().contains(reason),
            "{nth}, {reason}: {failure}"
        );
    }
}

/// Two reads are answered in pieces, the pieces of both in turns and from their ends.
#[test]
fn answers_may_come_in_any_order() {
    let fake = Fake::one(|mut peer| {
        peer.agree();
        let asked: Vec<Asked> = (0..2).map(|_| peer.request().unwrap()).collect();
        for piece in (0..8u64).rev() {
            for Asked { cookie, offset, .. } in &asked {
                let at = offset + piece * 512;
                let mut bytes = at.to_be_bytes().to_vec();
                bytes.resize(8 + 512, (at >> 9) as u8);
                match piece {
                    3 => peer.chunk(*cookie, false, 2, &hole(at, 512)),
                    _ => peer.chunk(*cookie, false, 1, &bytes),
                }
            }
        }
        for Asked { cookie, .. } in asked.iter().rev() {
            peer.chunk(*cookie, true, 0, &[]);
        }
        peer.wait_for_end();
    });
    let device = fake.open().unwrap();
    std::thread::scope(|scope| {
        for at in [16u64, 64] {
            let device = &device;
            scope.spawn(move || {
                let mut buf = [0xee; 4096];
                device.read_at(at << 9, &mut buf).unwrap();
                for (piece, bytes) in buf.chunks(512).enumerate() {
                    let byte = if piece == 3 {
                        0
                    } else {
                        at as u8 + piece as u8
                    };
                    assert!(bytes.iter().all(|is| *is == byte), "{at} {piece}");
                }
            });
        }
    });
}

/// A request that the server refuses fails alone, with the reason of the server.
#[test]
fn an_error_of_one_request_is_none_of_the_others() {
    let fake = Fake::one(|mut peer| {
        peer.agree();
        while let Some(asked) = peer.request() {
            let cookie = asked.cookie;
            match asked.kind {
                0 => peer.chunk(cookie, true, 0x8001, b"\0\0\0\x05\0\x09the drive"),
                1 => peer.simple(cookie, 28),
                4 => peer.simple(cookie, 95),
                7 => peer.chunk(cookie, true, 5, b"\0\0\0\x05\0\0\x10\0\0\0\0\x03"),
                _ => peer.simple(cookie, 0),
            }
        }
    });
    let device = fake.open().unwrap();
    let failure = device.read_at(0, &mut [0; 512]).unwrap_err();
    assert!(
        failure.to_string().contains("the server says: the drive"),
        "{failure}"
    );
    let failure = device.write_at(0, &[IoSlice::new(&[0; 512])]).unwrap_err();
    assert!(failure.is_no_space(), "{failure}");
    device.discard(0, 4096).unwrap();
    let status = device.status_at(0, 1 << 20).unwrap();
    assert!((status.len, status.is_hole, status.is_zero) == (4096, true, true));
    device.flush().unwrap();
}

/// A server without flush is told to make each write durable.
#[test]
fn without_flush_writes_are_durable_one_by_one() {
    static FLAGS_SEEN: Mutex<Vec<(u16, u16)>> = Mutex::new(Vec::new());
    let fake = Fake::one(|mut peer| {
        go(&mut peer, SIZE, 0b100_1001, &[]);
        while let Some(asked) = peer.request() {
            FLAGS_SEEN.lock().unwrap().push((asked.kind, asked.flags));
            peer.simple(asked.cookie, 0);
        }
    });
    let device = fake.open().unwrap();
    device.write_at(0, &[IoSlice::new(&[0; 512])]).unwrap();
    device.zero(0, 512).unwrap();
    device.flush().unwrap();
    drop(device);
    drop(fake);
    assert_eq!(*FLAGS_SEEN.lock().unwrap(), [(1, 1), (6, 1), (2, 0)]);
}
