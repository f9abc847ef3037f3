//! The NFS server of the kernel, by the program `exportfs` of nfs-utils.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::failure::{Failure, Result};

/// The paths of the program. No variable changes them, because it runs as root.
const PROGRAMS: [&str; 3] = [
    "/usr/sbin/exportfs",
    "/sbin/exportfs",
    "/usr/local/sbin/exportfs",
];
/// The folder of files that the server reads when it starts.
const EXPORTS: &str = "/etc/exports.d";
/// The time limit of the program. The pool is locked meanwhile.
const TIME: Duration = Duration::from_secs(10);
/// The longest message of the program, in bytes.
const MESSAGE_MAX: u64 = 512;
/// Mounts can end at the same time, and the last file has to have the last state.
static WRITING: Mutex<()> = Mutex::new(());

pub(crate) struct NfsServer(&'static Path);

impl NfsServer {
    /// Finds the program.
    pub(crate) fn find() -> Result<NfsServer> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failure::other(
                "only root's daemon can export by NFS; this one runs as another user",
            ));
        }
        let mut paths = PROGRAMS.iter().map(Path::new);
        let found = paths.find(|path| path.exists());
        found.map(NfsServer).ok_or_else(|| {
            Failure::other(
                "there is no NFS server: the program exportfs is missing; install nfs-kernel-server or nfs-utils",
            )
        })
    }

    /// Exports a directory to a client.
    pub(crate) fn export(&self, client: &str, dir: &Path, options: &str) -> Result<()> {
        self.run(&["-o", options], client, dir)
    }

    pub(crate) fn withdraw(&self, client: &str, dir: &Path) -> Result<()> {
        self.run(&["-u"], client, dir)
    }

    fn run(&self, words: &[&str], client: &str, dir: &Path) -> Result<()> {
        let failed = |why: &str| {
            let program = self.0.display();
            Failure::other(format!("{program} for {}: {why}", dir.display()))
        };
        let mut target = std::ffi::OsString::from(client);
        target.push(":");
        target.push(dir);
        let child = Command::new(self.0)
            .args(words)
            .arg(target)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| failed(&error.to_string()))?;
        if !ends_in_time(child.id()) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed("it did not end in 10 s"));
        }
        let status = child.wait().map_err(|error| failed(&error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        let mut told = Vec::new();
        if let Some(errors) = child.stderr.take() {
            let _ = errors.take(MESSAGE_MAX).read_to_end(&mut told);
        }
        let told = String::from_utf8_lossy(&told);
        let told: String = told.chars().filter(|c| !c.is_control()).collect();
        Err(failed(if told.is_empty() { "it failed" } else { &told }))
    }
}

fn ends_in_time(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(ended)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    let timeout = Timespec::try_from(TIME).ok();
    let mut events = [PollFd::new(&ended, PollFlags::IN)];
    poll(&mut events, timeout.as_ref()).is_ok_and(|count| count > 0)
}

/// Writes the exports of a pool for the next start of the server, or removes the file if there are none. Without it
/// `exportfs -r` would withdraw them.
pub(crate) fn write_exports(pool: u64, lines: impl FnOnce() -> Vec<String>) -> io::Result<()> {
    let _writing = WRITING.lock();
    let lines = lines();
    let path = PathBuf::from(EXPORTS).join(format!("strongroom-{pool:016x}.exports"));
    if lines.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    fs::create_dir_all(EXPORTS)?;
    let text = format!(
        "# Written by strongroom (sharenfs).\n{}\n",
        lines.join("\n")
    );
    // The server reads names that end with .exports only.
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, &path)
}
