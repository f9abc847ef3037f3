//! An ordinary user with a daemon of their own, which a command starts.

use crate::common::needs;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{PROGRAM, Place, can_mount, is_installed, is_root};

/// A user who has a name: `fusermount3` asks for it.
const NOBODY: u32 = 65534;

/// The user, with a home directory.
pub struct User {
    place: Place,
}

impl User {
    /// `None` if this is not root, or users cannot mount.
    pub fn new() -> Option<User> {
        needs!(can_mount() && is_installed("fusermount3"));
        needs!(is_root(), "only root can be several users");
        let place = Place::without_daemon();
        fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
        for dir in ["home", "home/run"] {
            fs::create_dir(place.path(dir)).unwrap();
            chown(place.path(dir), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Some(User { place })
    }

    /// A path in the home directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path("home").join(name)
    }

    /// Runs a script of the shell, in which `$P` is the program. Returns whether it succeeded, and what it said.
    pub fn run(&self, script: &str) -> (bool, String) {
        let home = self.place.path("home");
        let done = Command::new("sh")
            .args(["-euc", script])
            .env("P", PROGRAM)
            .env("HOME", &home)
            .env("STRONGROOM_SOCKET", home.join("run/socket"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(&home)
            .stdin(Stdio::null())
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        (done.status.success(), said.into_owned())
    }

    /// Runs a script that has to succeed; returns what it said.
    #[track_caller]
    pub fn ok(&self, script: &str) -> String {
        let (done, said) = self.run(script);
        assert!(done, "{script}: {said}");
        said
    }

    #[track_caller]
    pub fn fails(&self, script: &str) -> String {
        let (done, said) = self.run(script);
        assert!(!done, "{script}: {said}");
        said
    }

    /// Kills the daemon, and returns when it is gone.
    pub fn kill_daemon(&self) {
        let lock = fs::read_to_string(self.path("state/strongroom/daemon.lock")).unwrap();
        let pid = lock
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        let pid = pid.and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.ok("while $P daemon status; do :; done >/dev/null 2>&1");
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.run("$P daemon stop -f");
    }
}
