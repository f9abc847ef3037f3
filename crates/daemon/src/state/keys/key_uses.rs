//! Running commands that have data keys: a stream that is sent in the clear, a stream that is sealed while it
//! arrives, a comparison. A forced unload of the key ends them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Error as IoError, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;

use crate::failure::Failure;
use crate::state::callers::channel::DataChannel;
use crate::state::devices::leases::{Lease, LeasedObject};

/// The time for a command to end by itself, and to report why.
const POLITE: Duration = Duration::from_millis(500);
/// The time for a command to end after its connection was closed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The commands of one pool that have data keys.
#[derive(Default)]
pub(crate) struct KeyUses {
    running: Mutex<RunningUses>,
    changed: Condvar,
}

#[derive(Default)]
struct RunningUses {
    next: u64,
    all: BTreeMap<u64, RunningUse>,
}

struct RunningUse {
    root: u64,
    data: Option<Arc<dyn DataChannel>>,
    ended: Arc<AtomicBool>,
}

/// The data keys below a key root are in use while this exists.
pub(crate) struct KeyUse {
    all: Arc<KeyUses>,
    number: u64,
    ended: Arc<AtomicBool>,
    _lease: Lease<LeasedObject>,
}

impl KeyUses {
    /// Begins a use of the keys of a key root. `data` is the data connection of the command, if it has one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        root: u64,
        lease: Lease<LeasedObject>,
        data: Option<&Arc<dyn DataChannel>>,
    ) -> KeyUse {
        let ended = Arc::new(AtomicBool::new(false));
        let is = RunningUse {
            root,
            data: data.cloned(),
            ended: Arc::clone(&ended),
        };
        let mut running = self.running.lock();
        running.next += 1;
        let number = running.next;
        running.all.insert(number, is);
        let all = Arc::clone(self);
        KeyUse {
            all,
            number,
            ended,
            _lease: lease,
        }
    }

    /// Ends all uses of the keys of a key root. False if one of them does not end.
    pub(crate) fn end(&self, root: u64) -> bool {
        let is_used = |running: &mut RunningUses| running.all.values().any(|is| is.root == root);
        let mut running = self.running.lock();
        for is in running.all.values().filter(|is| is.root == root) {
            is.ended.store(true, Ordering::Release);
        }
        self.changed.wait_while_for(&mut running, is_used, POLITE);
        for is in running.all.values().filter(|is| is.root == root) {
            // The caller reads nothing, or a pipe behind it does.
            is.data.iter().for_each(|data| data.break_off());
        }
        self.changed.wait_while_for(&mut running, is_used, PATIENCE);
        !is_used(&mut running)
    }
}

impl KeyUse {
    /// Returns whether the key was unloaded.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The flag that the key was unloaded, for loops that test it.
    pub(crate) fn ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ended)
    }

    /// Replaces a failure by the unload of the key, if that caused it.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match self.is_ended() {
            true => unloaded(),
            false => failure,
        }
    }
}

impl Drop for KeyUse {
    fn drop(&mut self) {
        self.all.running.lock().all.remove(&self.number);
        self.all.changed.notify_all();
    }
}

fn unloaded() -> Failure {
    Failure::new(
        FailureKind::NoKey,
        "the key was unloaded meanwhile; load it, and begin again",
    )
}

/// The use of the key that the present data needs, if it needs one.
pub(crate) type CurrentKeyUse = RefCell<Option<KeyUse>>;

/// Data that is transferred only as long as the key is loaded.
pub(crate) struct KeyBoundData<'a, T> {
    pub(crate) data: T,
    pub(crate) key: &'a CurrentKeyUse,
}

impl<T> KeyBoundData<'_, T> {
    fn check(&self) -> std::io::Result<()> {
        match self.key.borrow().as_ref().is_some_and(KeyUse::is_ended) {
            true => Err(IoError::other(unloaded().message)),
            false => Ok(()),
        }
    }
}

impl<T: Write> Write for KeyBoundData<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.check()?;
        self.data.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.check()?;
        self.data.flush()
    }
}

impl<T: Read> Read for KeyBoundData<'_, T> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.check()?;
        self.data.read(buf)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::state::devices::leases::Leases;

    #[test]
    fn who_does_not_listen_is_cut_off() {
        let uses = Arc::<KeyUses>::default();
        let (here, mut there) = UnixStream::pair().unwrap();
        let here: Arc<dyn DataChannel> = Arc::new(here);
        let leases = Leases::default();
        let other = uses.begin(2, leases.take(LeasedObject::Key(2), "a stream"), None);
        let using = uses.begin(
            1,
            leases.take(LeasedObject::Key(1), "a stream"),
            Some(&here),
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // It waits for a client that sends nothing.
                assert_eq!(here.dialogue().read(&mut [0]).unwrap(), 0);
                assert!(using.is_ended());
                let key = RefCell::new(Some(using));
                let mut data = KeyBoundData {
                    data: Vec::new(),
                    key: &key,
                };
                assert!(data.write(b"plain").is_err() && data.data.is_empty());
            });
            assert!(uses.end(1));
        });
        assert_eq!(there.read(&mut [0]).unwrap(), 0);
        assert!(!other.is_ended() && uses.end(3));
        assert!(leases.things() == [LeasedObject::Key(2)]);
    }
}
