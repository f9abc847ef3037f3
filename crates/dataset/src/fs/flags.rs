//! Flags of files and directories that `chattr` sets. They forbid changes by every caller, root too.
//!
//! As in Linux, the front end checks who may set flags, and flags never forbid reading. Linux checks some flags when a
//! file is opened. Here each change is checked, because the kernel does not report for which caller it opens a file.

use pool::ReserveFor;
use vfs::{FileFlags, Ino};
use zerocopy::IntoBytes;

use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_DUMP, attr_key};

impl AttrValue {
    pub(crate) fn file_flags(&self) -> FileFlags {
        FileFlags {
            immutable: self.has(FLAG_IMMUTABLE),
            append_only: self.has(FLAG_APPEND_ONLY),
            no_dump: self.has(FLAG_NO_DUMP),
        }
    }

    /// Refuses a change that only adds data, such as a name to a directory.
    pub(crate) fn check_adding(&self) -> vfs::Result<()> {
        match self.has(FLAG_IMMUTABLE) {
            true => Err(vfs::Error::NotPermitted),
            false => Ok(()),
        }
    }

    /// Refuses a change of existing data.
    pub(crate) fn check_changing(&self) -> vfs::Result<()> {
        match self.has(FLAG_IMMUTABLE | FLAG_APPEND_ONLY) {
            true => Err(vfs::Error::NotPermitted),
            false => Ok(()),
        }
    }

    /// Refuses a write. An append-only file can be written at its end.
    pub(crate) fn check_write(&self, offset: u64) -> vfs::Result<()> {
        match offset == self.size.get() {
            true => self.check_adding(),
            false => self.check_changing(),
        }
    }
}

impl Dataset {
    pub(crate) fn set_file_flags(&self, ino: Ino, flags: FileFlags) -> Result<()> {
        // The feature comes first: programs that ignore flags must not change the dataset after this commit.
        self.pool.note_file_flags();
        let inode = self.inodes.get(ino);
        // Waits for running writes.
        let _io = inode.io.write();
        let now = self.now();
        self.change_in(
            // The log cannot express features of the pool.
            Scope::Unlogged,
            ReserveFor::Freeing,
            |w| {
                let mut attr = attr_of(w, ino)?;
                attr.set(FLAG_IMMUTABLE, flags.immutable);
                attr.set(FLAG_APPEND_ONLY, flags.append_only);
                attr.set(FLAG_NO_DUMP, flags.no_dump);
                attr.ctime = now.into();
                w.header.has_file_flags = true;
                w.put(attr_key(ino), attr.as_bytes().to_vec());
                Ok(())
            },
            |_, ()| (),
        )
    }
}
