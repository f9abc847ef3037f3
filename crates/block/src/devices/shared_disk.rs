//! A disk in memory that several machines reach, with persistent reservations.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::reservation::left_over;
use crate::{
    BlockDevice, Claim, Claimant, Error, MemoryDevice, Registrar, RegistrarAnswer, Registrations,
    Result,
};

/// The disk.
#[derive(Clone)]
pub struct SharedDisk(Arc<DiskMedium>);

struct DiskMedium {
    memory: MemoryDevice,
    /// True if it refuses to say who is registered.
    is_silent: AtomicBool,
    is_read_only: AtomicBool,
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
pub struct DiskView {
    disk: SharedDisk,
    machine: u32,
    /// True if it is a multipath device: if a path has the key already, all registrations of the machine end.
    is_multipath: bool,
}

impl SharedDisk {
    /// A disk.
    pub fn new(size: usize) -> SharedDisk {
        SharedDisk(Arc::new(DiskMedium {
            memory: MemoryDevice::new(size),
            is_silent: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            state: Mutex::default(),
        }))
    }

    /// The disk as this machine sees it.
    pub fn seen_by(&self, machine: u32) -> DiskView {
        DiskView {
            disk: self.clone(),
            machine,
            is_multipath: false,
        }
    }

    /// The disk as this machine sees it through the kernel's multipath device.
    pub fn seen_by_paths_of(&self, machine: u32) -> DiskView {
        DiskView {
            is_multipath: true,
            ..self.seen_by(machine)
        }
    }

    /// Says whether from now on the disk refuses to say who is registered, and ends no registration, as an NVMe disk of
    /// the kernel does.
    pub fn set_silent(&self, is_silent: bool) {
        self.0.is_silent.store(is_silent, Ordering::Release);
    }

    fn is_silent(&self) -> bool {
        self.0.is_silent.load(Ordering::Acquire)
    }

    /// Says whether from now on all writes fail.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.0.is_read_only.store(is_read_only, Ordering::Release);
    }

    /// Ends all registrations without a machine, as a target does that lost its memory.
    pub fn forget_registrations(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test panics with it")
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

impl DiskView {
    fn state(&self) -> MutexGuard<'_, State> {
        self.disk.state()
    }

    /// Carries out `act` for a machine that has registered this key.
    fn with_key(
        &self,
        own: u64,
        act: impl FnOnce(&mut State) -> RegistrarAnswer,
    ) -> io::Result<RegistrarAnswer> {
        let mut state = self.state();
        Ok(match state.key(self.machine) {
            key if key == own && own != 0 => act(&mut state),
            _ => RegistrarAnswer::Conflict,
        })
    }

    /// Fails as in the kernel if the disk refuses a write of this machine.
    fn check(&self, operation: &'static str, offset: u64, len: u64) -> Result<()> {
        let state = self.state();
        let code = if self.disk.0.is_read_only.load(Ordering::Acquire) {
            libc::EROFS
        } else if state.holder.is_none() || state.key(self.machine) != 0 {
            return Ok(());
        } else {
            libc::EBADE
        };
        Err(Error::Io {
            device: self.name(),
            operation,
            offset,
            len,
            source: io::Error::from_raw_os_error(code),
        })
    }
}

impl Registrar for DiskView {
    fn register(&self, old: Option<u64>, new: u64) -> io::Result<RegistrarAnswer> {
        let mut state = self.state();
        let current = state.key(self.machine);
        if old.is_some_and(|old| old != current) {
            if self.is_multipath && new == current {
                state.remove(|it| it.0 == self.machine);
            }
            return Ok(RegistrarAnswer::Conflict);
        }
        if new == 0 && self.disk.is_silent() {
            return Ok(RegistrarAnswer::Done);
        }
        let holder = state.holder;
        state.registered.retain(|it| it.0 != self.machine);
        if new != 0 {
            state.registered.push((self.machine, new));
        }
        state.holder = holder.filter(|it| state.key(*it) != 0);
        Ok(RegistrarAnswer::Done)
    }

    fn reserve(&self, own: u64) -> io::Result<RegistrarAnswer> {
        self.with_key(own, |state| match state.holder {
            Some(other) if other != self.machine => RegistrarAnswer::Conflict,
            _ => {
                state.holder = Some(self.machine);
                RegistrarAnswer::Done
            }
        })
    }

    fn preempt(&self, own: u64, other: u64) -> io::Result<RegistrarAnswer> {
        self.with_key(own, |state| {
            let takes_over = state.holder.is_some_and(|it| state.key(it) == other);
            let before = state.registered.len();
            state.remove(|it| it.1 == other && it.0 != self.machine);
            if takes_over {
                state.holder = Some(self.machine);
            }
            match takes_over || state.registered.len() < before {
                true => RegistrarAnswer::Done,
                false => RegistrarAnswer::Conflict,
            }
        })
    }

    fn registered(&self) -> io::Result<Registrations> {
        if self.disk.is_silent() {
            return Err(io::Error::other("it does not tell"));
        }
        let state = self.state();
        Ok(Registrations {
            keys: state.registered.iter().map(|it| it.1).collect(),
            holder: state.holder.map(|it| state.key(it)),
        })
    }
}

impl BlockDevice for DiskView {
    delegate!(self => self.disk.0.memory; size refresh_size sector_sizes read_at drop_cached begin_anew status_at waits_on_write would_wait io_mode settle);
    plain_methods!(zero_fast is_blank overwrite);

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

    fn check_unreserved(&self) -> Result<()> {
        left_over(self, &self.name())
    }
}

#[cfg(test)]
mod tests;
