//! A disk in memory that several machines reach, with persistent reservations.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{
    Answer, BlockDevice, Claim, Claimant, Error, MemoryDevice, Registered, Registrar, Result,
};

/// The disk.
#[derive(Clone)]
pub struct SharedDisk(Arc<Inner>);

struct Inner {
    memory: MemoryDevice,
    /// Whether machines can ask who is registered, as with SCSI.
    tells: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Machines and their keys.
    registered: Vec<(u32, u64)>,
    holder: Option<u32>,
}

/// The disk, as one machine sees it.
#[derive(Clone)]
pub struct View {
    disk: SharedDisk,
    machine: u32,
}

impl SharedDisk {
    /// A disk. `tells` says whether machines can ask who is registered.
    pub fn new(size: usize, tells: bool) -> SharedDisk {
        SharedDisk(Arc::new(Inner {
            memory: MemoryDevice::new(size),
            tells,
            state: Mutex::default(),
        }))
    }

    /// The disk as this machine sees it.
    pub fn seen_by(&self, machine: u32) -> View {
        let disk = self.clone();
        View { disk, machine }
    }
}

impl State {
    fn key(&self, machine: u32) -> u64 {
        let mut all = self.registered.iter();
        all.find(|it| it.0 == machine).map_or(0, |it| it.1)
    }

    fn remove(&mut self, is_meant: impl Fn(&(u32, u64)) -> bool) {
        self.registered.retain(|it| !is_meant(it));
        self.holder = self.holder.filter(|it| self.key(*it) != 0);
    }
}

impl View {
    fn state(&self) -> MutexGuard<'_, State> {
        self.disk.0.state.lock().expect("no test panics with it")
    }

    /// Carries out `act` for a machine that has registered this key.
    fn with_key(&self, own: u64, act: impl FnOnce(&mut State) -> Answer) -> io::Result<Answer> {
        let mut state = self.state();
        Ok(match state.key(self.machine) {
            key if key == own && own != 0 => act(&mut state),
            _ => Answer::Conflict,
        })
    }

    /// Fails like the kernel if the disk refuses a write of this machine.
    fn check(&self, operation: &'static str, offset: u64, len: u64) -> Result<()> {
        let state = self.state();
        if state.holder.is_none() || state.key(self.machine) != 0 {
            return Ok(());
        }
        Err(Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source: io::Error::from_raw_os_error(libc::EBADE),
        })
    }
}

impl Registrar for View {
    fn register(&self, old: Option<u64>, new: u64) -> io::Result<Answer> {
        let mut state = self.state();
        if old.is_some_and(|old| old != state.key(self.machine)) {
            return Ok(Answer::Conflict);
        }
        let holder = state.holder;
        state.registered.retain(|it| it.0 != self.machine);
        if new != 0 {
            state.registered.push((self.machine, new));
        }
        state.holder = holder.filter(|it| state.key(*it) != 0);
        Ok(Answer::Done)
    }

    fn reserve(&self, own: u64) -> io::Result<Answer> {
        self.with_key(own, |state| match state.holder {
            Some(other) if other != self.machine => Answer::Conflict,
            _ => {
                state.holder = Some(self.machine);
                Answer::Done
            }
        })
    }

    fn preempt(&self, own: u64, other: u64) -> io::Result<Answer> {
        self.with_key(own, |state| {
            let takes_over = state.holder.is_some_and(|it| state.key(it) == other);
            let before = state.registered.len();
            state.remove(|it| it.1 == other && it.0 != self.machine);
            if takes_over {
                state.holder = Some(self.machine);
            }
            match takes_over || state.registered.len() < before {
                true => Answer::Done,
                false => Answer::Conflict,
            }
        })
    }

    fn clear(&self, own: u64) -> io::Result<Answer> {
        self.with_key(own, |state| {
            state.remove(|_| true);
            Answer::Done
        })
    }

    fn registered(&self) -> io::Result<Option<Registered>> {
        let state = self.state();
        Ok(self.disk.0.tells.then(|| Registered {
            keys: state.registered.iter().map(|it| it.1).collect(),
            holder: state.holder.map(|it| state.key(it)),
        }))
    }
}

impl BlockDevice for View {
    delegate!(self => self.disk.0.memory; size refresh_size sector_sizes read_at drop_cached status_at waits_on_write);

    fn name(&self) -> String {
        "shared disk".into()
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.check("write", offset, crate::total(pieces))?;
        self.disk.0.memory.write_at(offset, pieces)
    }

    fn flush(&self) -> Result<()> {
        self.check("flush", 0, self.size())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check("discard", offset, len)?;
        self.disk.0.memory.discard(offset, len)
    }

    fn claim(&self, by: &Claimant) -> Result<Claim> {
        Claim::take(Box::new(self.clone()), self.name(), by)
    }
}

#[cfg(test)]
mod tests;
