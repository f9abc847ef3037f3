//! Reads bytes from clients and servers, for `fuzz/` and for tests of this crate.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{HelperBudget, MemoryDevice, TransferPool, TransferShare};
use parking_lot::Mutex;

use crate::client::{self, ExpectedReply, PendingRequest};
use crate::serve::connection::ExportConnection;
use crate::serve::export::{Export, Exports};
use crate::serve::negotiate::{NegotiatedSession, negotiate};
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::PeerLink;
use crate::wire::proto::{Kind, Request};

/// The other end, which has said everything and does not listen.
struct ScriptedLink(Mutex<Vec<u8>>);

impl PeerLink for ScriptedLink {
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.0.lock();
        let mut received = 0;
        for out in [first, second] {
            let n = out.len().min(rest.len());
            out[..n].copy_from_slice(&rest[..n]);
            rest.drain(..n);
            received += n;
        }
        Ok(received)
    }

    fn send(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn is_secure(&self) -> bool {
        false
    }

    fn take_time(&self) {}

    fn receive_until(&self, _moment: Instant) {}

    fn send_until(&self, _moment: Instant) {}

    fn finish(&self) {}

    fn cut(&self) {
        self.0.lock().clear();
    }

    fn is_cut(&self) -> bool {
        false
    }

    fn is_left(&self) -> bool {
        true
    }
}

/// The memory of one connection.
fn memory() -> TransferShare {
    TransferPool::new(16 << 20).share(None)
}

fn exports() -> Exports {
    let exports = Exports::default();
    for (name, is_read_only) in [("a", false), ("b", true)] {
        let device = Arc::new(MemoryDevice::new(64 << 10));
        let export = Export::new(name, "of a test", device, is_read_only);
        let export = Arc::new(export.expect("it is aligned"));
        exports.insert(export).expect("another name");
    }
    exports
}

/// A client that begins with these bytes, up to whatever it comes to.
pub fn negotiation(bytes: &[u8]) {
    let mut link: Arc<dyn PeerLink> = Arc::new(ScriptedLink(Mutex::new(bytes.to_vec())));
    let mut input = ReceiveBuffer::new();
    if let Ok(Some(session)) =
        negotiate(&mut link, &mut input, &exports(), None, &memory(), &|| true)
    {
        let _ = ExportConnection::new(link, session, input, &HelperBudget::new(0)).serve();
    }
}

/// A client that has an export and says these bytes. The first byte is what was agreed on.
pub fn requests(bytes: &[u8]) {
    let (agreed, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let link: Arc<dyn PeerLink> = Arc::new(ScriptedLink(Mutex::new(bytes.to_vec())));
    let name: &[u8] = if agreed & 4 == 0 { b"a" } else { b"b" };
    let export = exports().find(name).expect("it is there");
    let session = NegotiatedSession {
        attached: export.attach(&link).expect("it is open"),
        size: 64 << 10,
        structured: agreed & 1 != 0,
        allocation: agreed & 2 != 0,
        reads_whole: false,
        settles: true,
        client: "fuzzer".into(),
        memory: memory(),
        reserved: None,
    };
    let _ =
        ExportConnection::new(link, session, ReceiveBuffer::new(), &HelperBudget::new(0)).serve();
}

/// A server that begins with these bytes, and what a client asks of it. The first byte says in which order.
pub fn server(bytes: &[u8]) {
    let (order, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut link: Arc<dyn PeerLink> = Arc::new(ScriptedLink(Mutex::new(bytes.to_vec())));
    let mut input = ReceiveBuffer::new();
    let Ok(agreed) = client::negotiate(&mut link, &mut input, "a", None) else {
        return;
    };
    let (structured, allocation) = (agreed.structured, agreed.allocation);
    let connection = client::ClientConnection::new(link, input, agreed, Duration::from_secs(5));
    for nth in 0..8 {
        let mut buf = [0; 1024];
        let (kind, wanted) = match (order >> nth) & 3 {
            0 => (
                Kind::Read,
                ExpectedReply::Data {
                    offset: 512,
                    buf: &mut buf,
                },
            ),
            1 => (
                Kind::BlockStatus,
                ExpectedReply::Status {
                    len: 1024,
                    found: None,
                },
            ),
            2 => (Kind::Flush, ExpectedReply::Nothing),
            _ => (Kind::Write, ExpectedReply::Nothing),
        };
        let request = Request {
            flags: 0,
            kind,
            cookie: 0,
            offset: 512,
            len: 1024,
        };
        let mut asked = PendingRequest::new(wanted, structured, allocation);
        let _ = connection.ask(request, &[], &mut asked);
    }
}

/// A server that agrees to everything, and answers requests. The first byte is for the order of requests.
pub fn server_sample() -> Vec<u8> {
    let option = |about: u8, kind: u8, data: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
        bytes.extend([0, 0, 0, about, 0, 0, 0, kind]);
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let chunk = |kind: u8, cookie: u8, data: &[u8]| {
        let mut bytes = 0x668e_33efu32.to_be_bytes().to_vec();
        bytes.extend([0, 1, 0, kind, 0, 0, 0, 0, 0, 0, 0, cookie]);
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let mut whole = b"\0NBDMAGICIHAVEOPT\0\x03".to_vec();
    whole.extend(option(8, 1, &[]));
    whole.extend(option(10, 4, b"\0\0\0\x01base:allocation"));
    whole.extend(option(10, 1, &[]));
    whole.extend(option(7, 3, b"\0\0\0\0\0\0\0\x01\0\0\x05\x6d"));
    whole.extend(option(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0"));
    whole.extend(option(7, 1, &[]));
    for cookie in 1..9 {
        let mut data = 512u64.to_be_bytes().to_vec();
        data.extend([cookie; 512]);
        match cookie % 3 {
            0 => whole.extend(chunk(2, cookie, b"\0\0\0\0\0\0\x02\0\0\0\x04\0")),
            1 => whole.extend(chunk(1, cookie, &data)),
            _ => whole.extend(chunk(5, cookie, b"\0\0\0\x01\0\0\x02\0\0\0\0\x03")),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for a server: what looks like answers, with bytes that are changed.
    #[test]
    fn nothing_that_a_server_says_makes_a_client_panic() {
        let whole = server_sample();
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            bytes[0] = next() as u8;
            for _ in 0..next() % 3 {
                let at = 1 + next() % (bytes.len() - 1);
                bytes[at] ^= 1 << (next() % 8);
            }
            bytes.truncate(bytes.len() - (next() % 2) * (next() % 64));
            server(&bytes);
        }
    }

    /// Input that resembles requests, and input that does not. The fuzzer tries more of it.
    #[test]
    fn nothing_that_is_said_makes_it_panic() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as u8
        };
        for _ in 0..3000 {
            let mut bytes = vec![next()];
            for _ in 0..next() % 8 {
                bytes.extend([0x25, 0x60, 0x95, 0x13, 0, next() & 31, 0, next() % 9]);
                bytes.extend([0; 8]);
                let far = if next() % 8 == 0 { next() } else { 0 };
                bytes.extend([far, 0, 0, 0, 0, 0, next(), next() & 0xfe]);
                bytes.extend([far, 0, next() % 4, 0]);
                let payload = usize::from(next()) * 4;
                bytes.extend(std::iter::repeat_with(&mut next).take(payload));
            }
            requests(&bytes);
            negotiation(&bytes[1..]);
        }
    }
}
