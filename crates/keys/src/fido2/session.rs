//! A session of its own for a program that would ask the terminal of this one.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

/// The program gets no terminal, and ends with the thread that starts it.
pub(super) fn start_alone(command: &mut Command) {
    // SAFETY: `be_alone` makes two system calls, and takes neither memory nor locks.
    unsafe { command.pre_exec(be_alone) };
}

/// Between fork and exec.
fn be_alone() -> io::Result<()> {
    setsid()?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}
