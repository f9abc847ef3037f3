//! The files of a mount that goes to newer states of its pool.
//!
//! A reader of a pool on an object store opens a new pool for each state. The mount stays, and its files are exchanged
//! below it. Inode numbers last over states. Only a rollback by the writer lets one be used again; its generation then
//! differs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use vfs::{
    Attr, Caller, DirEntry, Error, FileSystem, Ino, NewNode, ROOT, RenameMode, Result, Trust,
};

/// Files that can be exchanged for those of another state.
pub(crate) struct RefreshedFiles {
    state: RwLock<FilesState>,
    known: Mutex<HashMap<Ino, InodeInUse>>,
}

#[derive(Clone)]
struct FilesState {
    /// The number of exchanges before it.
    number: u64,
    fs: Arc<dyn FileSystem>,
}

/// An inode with lookups.
#[derive(Clone, Copy)]
struct InodeInUse {
    lookups: u64,
    generation: u64,
    /// The state in which the inode was last seen to be the same.
    state: u64,
}

impl RefreshedFiles {
    /// The files of a first state.
    pub(crate) fn new(fs: Arc<dyn FileSystem>) -> RefreshedFiles {
        RefreshedFiles {
            state: RwLock::new(FilesState { number: 0, fs }),
            known: Mutex::default(),
        }
    }

    /// Exchanges the files. Requests under way are answered from the new ones.
    pub(crate) fn exchange(&self, fs: Arc<dyn FileSystem>) {
        let mut state = self.state.write();
        let number = state.number + 1;
        *state = FilesState { number, fs };
    }

    fn state(&self) -> FilesState {
        self.state.read().clone()
    }

    /// Asks the files of the newest state about an inode.
    fn ask<T>(&self, ino: Ino, ask: impl Fn(&dyn FileSystem) -> Result<T>) -> Result<T> {
        self.ask_and(ino, ask, |_, _| {})
    }

    /// Does the same as [`RefreshedFiles::ask`]. `note` gets an answer before it is given.
    fn ask_and<T>(
        &self,
        ino: Ino,
        ask: impl Fn(&dyn FileSystem) -> Result<T>,
        note: impl Fn(&FilesState, &T),
    ) -> Result<T> {
        loop {
            let state = self.state();
            let answer = self.check(&state, ino).and_then(|()| ask(&*state.fs));
            // An answer of an older state could stay in the cache of the kernel for good.
            if self.state.read().number == state.number {
                return answer.inspect(|answer| note(&state, answer));
            }
        }
    }

    /// Refuses an inode number that stands for another file than before.
    fn check(&self, state: &FilesState, ino: Ino) -> Result<()> {
        let known = self.known.lock().get(&ino).copied();
        let Some(known) = known.filter(|known| known.state != state.number && ino != ROOT) else {
            return Ok(());
        };
        let found = state.fs.getattr(ino)?;
        if state.fs.generation(&found) != known.generation {
            return Err(Error::Stale);
        }
        if let Some(known) = self.known.lock().get_mut(&ino) {
            known.state = state.number;
        }
        Ok(())
    }

    /// Notes a lookup.
    fn look_up(&self, state: &FilesState, found: &Attr) {
        let generation = state.fs.generation(found);
        let mut known = self.known.lock();
        let lookups = known.get(&found.ino).map_or(0, |known| known.lookups);
        let inode = InodeInUse {
            lookups: lookups + 1,
            generation,
            state: state.number,
        };
        known.insert(found.ino, inode);
    }
}

impl FileSystem for RefreshedFiles {
    vfs::methods! { self;
        getattr(ino) => self.ask(ino, |fs| fs.getattr(ino));
        owner(ino) => self.ask(ino, |fs| fs.owner(ino));
        lookup(parent, name) => self.ask_and(
            parent,
            |fs| fs.lookup(parent, name),
            |state, found| self.look_up(state, found),
        );
        setattr(caller, ino, set) => self.ask(ino, |fs| fs.setattr(caller, ino, set));
        flags(ino) => self.ask(ino, |fs| fs.flags(ino));
        set_flags(ino, flags) => self.ask(ino, |fs| fs.set_flags(ino, flags));
        readlink(ino) => self.ask(ino, |fs| fs.readlink(ino));
        mknod(caller, parent, name, node) => self.ask(parent, |fs| fs.mknod(caller, parent, name, node));
        tmpfile(caller, parent, node) => self.ask(parent, |fs| fs.tmpfile(caller, parent, node));
        mkdir(caller, parent, name, node) => self.ask(parent, |fs| fs.mkdir(caller, parent, name, node));
        symlink(caller, parent, name, target) => self.ask(parent, |fs| fs.symlink(caller, parent, name, target));
        link(ino, parent, name) => self.ask(ino, |fs| fs.link(ino, parent, name));
        unlink(parent, name) => self.ask(parent, |fs| fs.unlink(parent, name));
        rmdir(parent, name) => self.ask(parent, |fs| fs.rmdir(parent, name));
        read(ino, offset, len) => self.ask(ino, |fs| fs.read(ino, offset, len));
        write(ino, offset, data, kill_suidgid) => self.ask(ino, |fs| fs.write(ino, offset, data, kill_suidgid));
        fsync(ino, datasync) => self.ask(ino, |fs| fs.fsync(ino, datasync));
        sync() => self.ask(ROOT, |fs| fs.sync());
        fallocate(ino, offset, len, mode) => self.ask(ino, |fs| fs.fallocate(ino, offset, len, mode));
        seek(ino, offset, what) => self.ask(ino, |fs| fs.seek(ino, offset, what));
        statfs() => self.ask(ROOT, |fs| fs.statfs());
        setxattr(ino, name, value, how) => self.ask(ino, |fs| fs.setxattr(ino, name, value, how));
        getxattr(ino, name) => self.ask(ino, |fs| fs.getxattr(ino, name));
        listxattr(ino) => self.ask(ino, |fs| fs.listxattr(ino));
        removexattr(ino, name) => self.ask(ino, |fs| fs.removexattr(ino, name));
        readdir(ino, cookie, attrs, emit) => {
            // What is listed cannot be taken back. The kernel keeps no listing of a mount that is not trusted.
            let state = self.state();
            self.check(&state, ino)?;
            state.fs.readdir(ino, cookie, attrs, &mut |entry: &DirEntry<'_>| {
                let is_taken = emit(entry);
                if let (true, Some(found)) = (is_taken, &entry.attr) {
                    self.look_up(&state, found);
                }
                is_taken
            })
        };
    }

    fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.ask(parent, |fs| {
            fs.rename(parent, name, new_parent, new_name, mode)
        })
    }

    fn create(&self, caller: &Caller, parent: Ino, name: &[u8], node: &NewNode) -> Result<Attr> {
        self.ask(parent, |fs| fs.create(caller, parent, name, node))
    }

    fn copy_range(&self, from: Ino, at: u64, to: Ino, to_at: u64, len: u64) -> Result<u64> {
        self.ask(to, |fs| fs.copy_range(from, at, to, to_at, len))
    }

    fn forget(&self, ino: Ino, count: u64) {
        let mut known = self.known.lock();
        if let Some(inode) = known.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            if inode.lookups == 0 {
                known.remove(&ino);
            }
        }
        drop(known);
        self.state().fs.forget(ino, count);
    }

    fn forget_all(&self) {
        self.known.lock().clear();
        self.state().fs.forget_all();
    }

    fn known(&self) -> Vec<Ino> {
        self.known.lock().keys().copied().collect()
    }

    /// Names and attributes can change with each state.
    fn trust(&self, ino: Ino) -> Trust {
        match self.state().fs.trust(ino) {
            Trust::Lasting => Trust::Brief,
            trust => trust,
        }
    }

    fn generation(&self, found: &Attr) -> u64 {
        self.state().fs.generation(found)
    }
}
