//! The files that this process has open.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Keeps the open files of this process from the programs that it starts. Its own
/// starter may have left some open.
pub(super) fn keep() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<RawFd>().ok());
        let Some(number @ 3..) = number else { continue };
        // SAFETY: it was open a moment ago, and nothing but a flag of it is changed. If it was closed meanwhile, the
        // calls fail.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let Ok(flags) = fcntl_getfd(file) else {
            continue;
        };
        fcntl_setfd(file, flags | FdFlags::CLOEXEC)?;
    }
    Ok(())
}
