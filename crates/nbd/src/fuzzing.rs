//! What reads bytes from clients, for `fuzz/` and for tests of this crate.

use std::io;
use std::sync::Arc;

use block::MemoryDevice;
use parking_lot::Mutex;

use crate::connection::{Connection, Helpers};
use crate::export::{Export, Exports};
use crate::input::Input;
use crate::link::Link;
use crate::negotiate::{Session, negotiate};

/// A client that has said everything, and does not listen.
struct Script(Mutex<Vec<u8>>);

impl Link for Script {
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

    fn finish(&self) {}

    fn cut(&self) {
        self.0.lock().clear();
    }

    fn is_left(&self) -> bool {
        true
    }
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
    let mut link: Arc<dyn Link> = Arc::new(Script(Mutex::new(bytes.to_vec())));
    let mut input = Input::new();
    if let Ok(Some(session)) = negotiate(&mut link, &mut input, &exports(), None, &|| true) {
        let _ = Connection::new(link, session, input, &Helpers::new(0)).serve();
    }
}

/// A client that has an export and says these bytes. The first byte is what was agreed on.
pub fn requests(bytes: &[u8]) {
    let (agreed, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let link: Arc<dyn Link> = Arc::new(Script(Mutex::new(bytes.to_vec())));
    let name: &[u8] = if agreed & 4 == 0 { b"a" } else { b"b" };
    let export = exports().find(name).expect("it is there");
    let session = Session {
        attached: export.attach(&link).expect("it is open"),
        size: 64 << 10,
        structured: agreed & 1 != 0,
        allocation: agreed & 2 != 0,
    };
    let _ = Connection::new(link, session, Input::new(), &Helpers::new(0)).serve();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looks like requests, and what does not: the fuzzer does more of it.
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
