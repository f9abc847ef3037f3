//! An initiator for tests: it sends what it is told to.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time within which each expected event occurs.
const PATIENCE: Duration = Duration::from_secs(20);

const NO_TAG: [u8; 4] = [0xff; 4];

pub const GOOD: u8 = 0x00;
pub const CHECK: u8 = 0x02;
pub const CONFLICT: u8 = 0x18;

/// A PDU that was received.
#[derive(Debug)]
pub struct Pdu {
    pub head: [u8; 48],
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> u8 {
        self.head[0] & 0x3f
    }

    /// Returns whether the target asks for a sign of life.
    pub fn is_question(&self) -> bool {
        self.opcode() == 0x20 && self.head[16..20] == NO_TAG && self.head[20..24] != NO_TAG
    }

    pub fn tag(&self) -> u32 {
        u32::from_be_bytes(*self.head[16..].first_chunk().unwrap())
    }
}

/// The outcome of a command: its status, its sense, and the data that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub status: u8,
    pub sense: [u8; 3],
    pub data: Vec<u8>,
}

/// A session.
pub struct Initiator {
    pub stream: TcpStream,
    /// The number of the next command.
    number: u32,
}

impl Initiator {
    /// Logs in; `session` tells sessions of this initiator apart.
    pub fn log_in(portal: SocketAddr, name: &str, session: u8, target: &str) -> Initiator {
        let text = format!("InitiatorName={name}\0TargetName={target}\0");
        let (own, told) = Initiator::try_log_in(portal, session, &text);
        assert_eq!((told.head[36], told.head[37]), (0, 0), "it is logged in");
        own
    }

    /// Logs in with these keys. Returns the answer too.
    pub fn try_log_in(portal: SocketAddr, session: u8, text: &str) -> (Initiator, Pdu) {
        let stream = TcpStream::connect(portal).unwrap();
        Initiator::try_log_in_by(stream, session, text)
    }

    /// Tries to log in by a connection that is open. See [`Initiator::try_log_in`].
    pub fn try_log_in_by(stream: TcpStream, session: u8, text: &str) -> (Initiator, Pdu) {
        let mut own = Initiator::by(stream);
        let told = own.request_login(session, 0x87, text);
        (own, told)
    }

    /// An initiator that has said nothing yet.
    pub fn by(stream: TcpStream) -> Initiator {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Initiator { stream, number: 1 }
    }

    /// Sends one request of a login, with its flags and stages, and returns the answer.
    pub fn request_login(&mut self, session: u8, flags: u8, text: &str) -> Pdu {
        let mut head = [0; 48];
        (head[0], head[1]) = (0x43, flags);
        head[8..14].copy_from_slice(&[0, 2, 0x3d, 0, 0, session]);
        head[27] = 1;
        self.say(head, text.as_bytes());
        self.hear()
    }

    /// Sends a PDU.
    pub fn say(&mut self, head: [u8; 48], data: &[u8]) {
        self.try_say(head, data).unwrap();
    }

    pub fn try_say(&mut self, mut head: [u8; 48], data: &[u8]) -> std::io::Result<()> {
        head[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let mut bytes = head.to_vec();
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes)
    }

    /// Receives the next one that is no question for a sign of life. Answers these.
    pub fn hear(&mut self) -> Pdu {
        loop {
            let pdu = self.try_hear().expect("an answer");
            if !pdu.is_question() {
                return pdu;
            }
            self.answer(&pdu);
        }
    }

    /// Answers a question for a sign of life (RFC 7143, section 11.18).
    pub fn answer(&mut self, question: &Pdu) {
        let mut head = [0; 48];
        (head[0], head[1]) = (0x40, 0x80);
        head[8..16].copy_from_slice(&question.head[8..16]);
        head[16..20].copy_from_slice(&NO_TAG);
        head[20..24].copy_from_slice(&question.head[20..24]);
        self.say(head, &[]);
    }

    pub fn try_hear(&mut self) -> std::io::Result<Pdu> {
        let mut head = [0; 48];
        self.stream.read_exact(&mut head)?;
        let len = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        let mut data = vec![0; len.next_multiple_of(4)];
        self.stream.read_exact(&mut data)?;
        data.truncate(len);
        Ok(Pdu { head, data })
    }

    /// Sends a command with the first of its data, and returns its tag. `flags` have the attribute of the task.
    pub fn send(&mut self, flags: u8, cdb: &[u8], out: &[u8], expected: usize) -> u32 {
        let tag = 100 + self.number;
        let mut head = [0; 48];
        head[0] = 0x01;
        head[1] = 0x80 | flags;
        head[16..20].copy_from_slice(&tag.to_be_bytes());
        head[20..24].copy_from_slice(&(expected as u32).to_be_bytes());
        head[24..28].copy_from_slice(&self.number.to_be_bytes());
        head[32..32 + cdb.len()].copy_from_slice(cdb);
        self.number += 1;
        self.say(head, out);
        tag
    }

    /// Sends data that were asked for.
    pub fn send_data(&mut self, ready: &Pdu, data: &[u8]) {
        let mut head = [0; 48];
        (head[0], head[1]) = (0x05, 0x80);
        head[16..24].copy_from_slice(&ready.head[16..24]);
        self.say(head, data);
    }

    /// Asks for a function of task management.
    pub fn manage(&mut self, function: u8, tag: u32) {
        let mut head = [0; 48];
        (head[0], head[1]) = (0x42, 0x80 | function);
        head[16..20].copy_from_slice(&7u32.to_be_bytes());
        head[20..24].copy_from_slice(&tag.to_be_bytes());
        head[24..28].copy_from_slice(&self.number.to_be_bytes());
        self.say(head, &[]);
    }

    /// Ends the session.
    pub fn log_out(mut self) {
        let mut head = [0; 48];
        (head[0], head[1]) = (0x46, 0x80);
        head[24..28].copy_from_slice(&self.number.to_be_bytes());
        self.say(head, &[]);
        while self.hear().opcode() != 0x26 {}
    }

    /// Carries a command out: one that sends `out`, or else expects at most `room` bytes.
    pub fn run(&mut self, cdb: &[u8], out: &[u8], room: usize) -> Outcome {
        let (flags, expected) = match (out.len(), room) {
            (0, 0) => (0, 0),
            (0, room) => (0x40, room),
            (len, _) => (0x20, len),
        };
        let tag = self.send(flags | 1, cdb, out, expected);
        let mut data = Vec::new();
        loop {
            let pdu = self.hear();
            assert_eq!(pdu.tag(), tag);
            match pdu.opcode() {
                0x25 => {
                    data.extend(pdu.data);
                    if pdu.head[1] & 1 != 0 {
                        let (status, sense) = (pdu.head[3], [0; 3]);
                        return Outcome {
                            status,
                            sense,
                            data,
                        };
                    }
                }
                _ => {
                    let sense = match pdu.data.get(4..16) {
                        Some(sense) => [sense[0], sense[10], sense[11]],
                        None => [0; 3],
                    };
                    let status = pdu.head[3];
                    return Outcome {
                        status,
                        sense,
                        data,
                    };
                }
            }
        }
    }

    /// Says that it is told, and returns, what it was not told yet.
    pub fn attentions(&mut self) -> Vec<[u8; 3]> {
        let mut all = Vec::new();
        loop {
            let outcome = self.run(&[0; 6], &[], 0);
            match outcome.status {
                GOOD => return all,
                CHECK => all.push(outcome.sense),
                other => panic!("status {other}"),
            }
        }
    }

    /// PERSISTENT RESERVE OUT
    pub fn reserve_out(
        &mut self,
        action: u8,
        kind: u8,
        key: u64,
        other: u64,
        flags: u8,
    ) -> Outcome {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&other.to_be_bytes());
        list[20] = flags;
        self.run(&[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], &list, 0)
    }

    /// PERSISTENT RESERVE IN
    pub fn reserve_in(&mut self, action: u8) -> Outcome {
        self.run(&[0x5e, action, 0, 0, 0, 0, 0, 4, 0, 0], &[], 1024)
    }

    /// Writes one block of 512 bytes.
    pub fn write(&mut self, block: u8, byte: u8) -> u8 {
        let cdb = [0x2a, 0, 0, 0, 0, block, 0, 0, 1, 0];
        self.run(&cdb, &[byte; 512], 0).status
    }

    pub fn read(&mut self, block: u8) -> Outcome {
        self.run(&[0x28, 0, 0, 0, 0, block, 0, 0, 1, 0], &[], 512)
    }
}
