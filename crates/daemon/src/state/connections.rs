//! Connections of commands that may take long, or wait for the user. The daemon can close them when their work has to
//! end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::channel::Data;

/// After connections were closed, the longest wait for their commands to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The open connections.
pub(crate) struct Connections {
    running: Mutex<Running>,
    changed: Condvar,
    max: usize,
}

#[derive(Default)]
struct Running {
    next: u64,
    all: BTreeMap<u64, Arc<dyn Data>>,
    is_closed: bool,
}

/// Counts as a connection while it exists.
pub(crate) struct Connection<'a> {
    all: &'a Connections,
    number: u64,
}

impl Connections {
    /// A table for at most `max` connections at a time.
    pub(crate) fn new(max: usize) -> Connections {
        Connections {
            running: Mutex::default(),
            changed: Condvar::new(),
            max,
        }
    }

    pub(crate) fn begin(&self, data: &Arc<dyn Data>) -> Result<Connection<'_>> {
        let mut running = self.running.lock();
        if running.is_closed || running.all.len() >= self.max {
            let why = match running.is_closed {
                true => "the pool or daemon is ending",
                false => "too many commands run at the same time; try again",
            };
            return Err(Failure::new(FailureKind::Busy, why));
        }
        running.next += 1;
        let number = running.next;
        running.all.insert(number, Arc::clone(data));
        Ok(Connection { all: self, number })
    }

    /// Closes all connections, as if the callers had disconnected, and accepts no more. False if one of their commands
    /// still runs.
    pub(crate) fn break_off(&self) -> bool {
        let mut running = self.running.lock();
        running.is_closed = true;
        running.all.values().for_each(|data| data.break_off());
        let some = |running: &mut Running| !running.all.is_empty();
        self.changed.wait_while_for(&mut running, some, PATIENCE);
        running.all.is_empty()
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.all.running.lock().all.remove(&self.number);
        self.all.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn there_are_so_many_and_they_can_be_ended() {
        let connections = Connections::new(1);
        let (here, _there) = UnixStream::pair().unwrap();
        let here: Arc<dyn Data> = Arc::new(here);
        let first = connections.begin(&here).unwrap();
        assert!(connections.begin(&here).is_err());
        drop(first);
        drop(connections.begin(&here).unwrap());
        assert!(connections.break_off());
        assert!(connections.begin(&here).is_err());
    }
}
