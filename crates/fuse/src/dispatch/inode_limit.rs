//! A limit for the number of inodes that the kernel knows.
//!
//! The kernel forgets an inode only when it needs memory. A file system that holds a descriptor for each inode that
//! the kernel knows would run out of descriptors long before. So names of files are counted here. If there are too
//! many, the kernel is told to drop some of them, and then it forgets the inodes. It asks again for those that it
//! still needs.
//!
//! Telling it takes the lock of the directory, which the kernel also holds while it waits for our
//! answer. So a thread of its own tells it.

use std::collections::HashMap;
use std::os::fd::AsFd;

use parking_lot::Mutex;
use vfs::{Attr, Ino, Kind};

use crate::wire::reply::notify_inval_entry;

/// The number of names of one inode that are remembered. Names beyond that stay in the kernel.
const NAMES_MAX: usize = 4;

/// The inodes that the kernel knows.
pub(crate) struct Crowd {
    max: usize,
    state: Mutex<State>,
}

struct State {
    known: HashMap<Ino, KnownInode>,
    /// With more than this, the kernel is told to forget.
    alarm: usize,
    is_thinning: bool,
}

#[derive(Default)]
struct KnownInode {
    lookups: u64,
    opens: u64,
    /// None of a directory: a process may work in it.
    names: Vec<DirectoryName>,
}

type DirectoryName = (Ino, Box<[u8]>);

impl Crowd {
    pub(crate) fn new(max: usize) -> Crowd {
        Crowd {
            max,
            state: Mutex::new(State {
                known: HashMap::new(),
                alarm: max,
                is_thinning: false,
            }),
        }
    }

    /// The kernel is about to be told of this inode. One lookup.
    pub(crate) fn enter(&self, parent: Ino, name: &[u8], found: &Attr) {
        let mut state = self.state.lock();
        let known = state.known.entry(found.ino).or_default();
        known.lookups += 1;
        // A file of `O_TMPFILE` has none.
        if found.kind != Kind::Directory && !name.is_empty() {
            known.is_named(parent, name);
        }
    }

    /// The kernel has renamed something to this.
    pub(crate) fn renamed(&self, parent: Ino, name: &[u8], found: &Attr) {
        if let Some(known) = self.state.lock().known.get_mut(&found.ino)
            && found.kind != Kind::Directory
        {
            known.is_named(parent, name);
        }
    }

    /// A program has opened it.
    pub(crate) fn opened(&self, ino: Ino) {
        if let Some(known) = self.state.lock().known.get_mut(&ino) {
            known.opens += 1;
        }
    }

    /// A program has closed it.
    pub(crate) fn released(&self, ino: Ino) {
        if let Some(known) = self.state.lock().known.get_mut(&ino) {
            known.opens = known.opens.saturating_sub(1);
        }
    }

    /// The kernel gives lookups back.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        let mut state = self.state.lock();
        if let Some(known) = state.known.get_mut(&ino) {
            known.lookups = known.lookups.saturating_sub(count);
            if known.lookups == 0 {
                state.known.remove(&ino);
            }
        }
        if state.known.len() <= self.max {
            state.alarm = self.max;
        }
    }

    /// Returns whether the caller has to start a thread that calls [`Crowd::thin`].
    pub(crate) fn is_too_large(&self) -> bool {
        let mut state = self.state.lock();
        let is_too_large = state.known.len() > state.alarm && !state.is_thinning;
        state.is_thinning |= is_too_large;
        is_too_large
    }

    /// Notes that no thread could be started. The next request asks for one again.
    pub(crate) fn give_up(&self) {
        self.state.lock().is_thinning = false;
    }

    /// Has the kernel forget an eighth of what it may know.
    pub(crate) fn thin(&self, device: impl AsFd) {
        for (parent, name) in self.chosen() {
            notify_inval_entry(device.as_fd(), parent, &name);
        }
        self.give_up();
    }

    /// The names of files to forget: not those that programs have open.
    fn chosen(&self) -> Vec<DirectoryName> {
        let mut state = self.state.lock();
        // What cannot be forgotten is not looked for with each request.
        state.alarm = state.known.len() + self.max / 16;
        let idle = state.known.values().filter(|known| known.opens == 0);
        let named = idle.filter(|known| !known.names.is_empty());
        let chosen = named.take((self.max / 8).max(1));
        chosen.flat_map(|known| known.names.clone()).collect()
    }
}

impl KnownInode {
    fn is_named(&mut self, parent: Ino, name: &[u8]) {
        if self
            .names
            .iter()
            .any(|(dir, known)| *dir == parent && **known == *name)
        {
            return;
        }
        if self.names.len() == NAMES_MAX {
            self.names.remove(0);
        }
        self.names.push((parent, name.into()));
    }
}
