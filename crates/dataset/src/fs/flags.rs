//! Flags of files and directories that `chattr` sets, and what they forbid: every caller, root too.
//!
//! As in Linux, who may set them is checked where the request comes from, and reading is never forbidden. Linux checks
//! some of it when a file is opened; here each change is checked, since the kernel does not say who opens what.

use pool::ReserveFor;
use vfs::{Flags, Ino};
use zerocopy::IntoBytes;

use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{AttrValue, FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_DUMP, attr_key};

impl AttrValue {
    pub(crate) fn file_flags(&self) -> Flags {
        Flags {
            immutable: self.has(FLAG_IMMUTABLE),
            append_only: self.has(FLAG_APPEND_ONLY),
            no_dump: self.has(FLAG_NO_DUMP),
        }
    }

    /// Refuses a change that only adds something, such as a name to a directory.
    pub(crate) fn check_adding(&self) -> vfs::Result<()> {
        match self.has(FLAG_IMMUTABLE) {
            true => Err(vfs::Error::NotPermitted),
            false => Ok(()),
        }
    }

    /// Refuses a change of what is there.
    pub(crate) fn check_changing(&self) -> vfs::Result<()> {
        match self.has(FLAG_IMMUTABLE | FLAG_APPEND_ONLY) {
            true => Err(vfs::Error::NotPermitted),
            false => Ok(()),
        }
    }

    /// Refuses a write. A file that is only appended to is written at its end.
    pub(crate) fn check_write(&self, offset: u64) -> vfs::Result<()> {
        match offset == self.size.get() {
            true => self.check_adding(),
            false => self.check_changing(),
        }
    }
}

impl Dataset {
    pub(crate) fn set_file_flags(&self, ino: Ino, flags: Flags) -> Result<()> {
        // Before anything is committed that only those may change who obey it.
        self.pool.note_file_flags();
        let inode = self.inodes.get(ino);
        // A write that has begun ends first.
        let _io = inode.io.write();
        let now = self.now();
        self.change_in(
            // What is in the log says nothing of features.
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
