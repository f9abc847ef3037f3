//! The calls for a child process that the standard library does not have.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The program gets no descriptors of the one that loaded the module, no groups, no ignored signals and no terminal.
pub(crate) fn become_clean(command: &mut Command) {
    // SAFETY: `clean` makes system calls only, and takes no memory.
    unsafe { command.pre_exec(clean) };
}

/// Between fork and exec.
fn clean() -> io::Result<()> {
    // SAFETY: these calls get numbers only, and no groups. Descriptors are closed by exec, since the start reports
    // its errors over one.
    unsafe {
        libc::umask(0o077);
        libc::setsid();
        if libc::setgroups(0, std::ptr::null()) != 0 {
            return Err(io::Error::last_os_error());
        }
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let flags = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, flags) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// While it lives, the program that loaded the module does not collect children that end: it would take ours.
pub(crate) struct OwnChildren {
    before: libc::sigaction,
}

impl OwnChildren {
    pub(crate) fn begin() -> Option<OwnChildren> {
        // SAFETY: zeros are a valid `sigaction`: the default, without flags. The kernel writes `before`.
        unsafe {
            let usual: libc::sigaction = std::mem::zeroed();
            let mut before = usual;
            let done: c_int = libc::sigaction(libc::SIGCHLD, &raw const usual, &raw mut before);
            (done == 0).then_some(OwnChildren { before })
        }
    }
}

impl Drop for OwnChildren {
    fn drop(&mut self) {
        // SAFETY: `before` is what the kernel wrote.
        unsafe { libc::sigaction(libc::SIGCHLD, &raw const self.before, std::ptr::null_mut()) };
    }
}
