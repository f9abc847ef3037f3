//! Loop devices of tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Held for writing while a process is started. It has copies of all descriptors until it runs its own program, and with
/// them the exclusive open of disks.
static STARTS: RwLock<()> = RwLock::new(());

/// Runs a program.
pub(crate) fn run(command: &mut Command) -> std::io::Result<Output> {
    let _starts = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    command.output()
}

/// No program is started while this is held, so that a disk that was closed can be opened again.
pub(crate) fn no_starts() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// A disk that lies in a file, until it is dropped.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    /// None, with a reason, if this machine has no loop devices.
    pub(crate) fn new(file: &Path, options: &[&str]) -> Option<Loop> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).args(options).arg(file);
        let made = run(&mut losetup).ok();
        let made = made.filter(|made| made.status.success()).or_else(|| {
            eprintln!("skipped: no loop device can be made here");
            None
        });
        let name = String::from_utf8(made?.stdout).unwrap();
        Some(Loop(PathBuf::from(name.trim_end())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("-d").arg(&self.0));
    }
}
