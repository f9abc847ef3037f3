//! Directories for test data, sockets and mountpoints, which are removed at the end.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use cipher::{Random, SystemRandom};
use console::outcome::Result;
use console::show::size::human;
use console::terminal::Prompter;
use protocol::api::{Failure, FailureKind};
use protocol::client::Terminal;
use rustix::fs::Mode;

use super::stop::StopRequest;
use crate::storage::args::BenchHow;

/// The bytes that stay free on the disk.
const SPARE: u64 = 64 << 20;

/// The least that is measured: each measurement has different places.
const SIZE_MIN: u64 = 16 << 20;

/// The directories of a run.
pub(super) struct WorkDir {
    /// On the disk that is measured.
    pub(super) data: PathBuf,
    /// For the socket, whose path has to be short, and mountpoints.
    pub(super) near: PathBuf,
    pub(super) stop: StopRequest,
}

impl WorkDir {
    /// Takes new directories, of which one is in `dir`, and says what is going to happen.
    pub(super) fn new(dir: &Path, how: &BenchHow, needed: u64) -> Result<WorkDir> {
        if !(0.01..=60.0).contains(&how.seconds) || how.size < SIZE_MIN {
            return Err(Failure::usage(
                "a measurement takes 0.01 to 60 seconds, and a file of at least 16M",
            ));
        }
        let dir = dir.canonicalize().map_err(|error| cannot(dir, &error))?;
        check_owners(&dir)?;
        let space = rustix::fs::statvfs(&dir).map_err(|error| cannot(&dir, &error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let needed = needed.saturating_add(SPARE);
        if free < needed {
            let (needed, free) = (human(needed), human(free));
            let message = format!(
                "{} has {free} of free space, and this needs {needed}: name a smaller --size, or another disk",
                dir.display()
            );
            return Err(Failure::new(FailureKind::NoSpace, message));
        }
        let stop = StopRequest::new()?;
        let data = new_dir(&dir)?;
        let near = new_near().inspect_err(|_| remove(&data))?;
        // Some thirty measurements; small files and the writing of data take longer.
        notice(&format!(
            "uses up to {} in {} for about {:.0} seconds; Ctrl-C ends it and removes everything",
            human(needed),
            data.display(),
            5.0 + 30.0 * how.seconds,
        ));
        Ok(WorkDir { data, near, stop })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.near.join("socket")
    }

    /// Makes an empty directory for a mount.
    pub(super) fn mountpoint(&self, name: &str) -> Result<PathBuf> {
        let path = self.near.join(name);
        fs::create_dir(&path).map_err(|error| cannot(&path, &error))?;
        Ok(path)
    }

    /// Runs this program, with the daemon of this run, and returns when it has ended.
    pub(super) fn program<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<()> {
        let ended = self.this_program(args)?.stdin(Stdio::null()).output();
        let ended = ended.map_err(|error| not_run(&error))?;
        match ended.status.success() {
            true => Ok(()),
            false => Err(ended_early(ended.status, &ended.stderr)),
        }
    }

    /// Starts this program as a process that serves something, and returns when it is ready. It also ends when this
    /// process has ended, however that happens.
    pub(super) fn serve<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Server> {
        let mut command = self.this_program(args)?;
        command.args(["--detached", "--until-eof"]);
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let started = command
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn();
        let mut server = Server(started.map_err(|error| not_run(&error))?);
        let mut line = String::new();
        if let Some(said) = server.0.stdout.take() {
            let read = BufReader::new(said).read_line(&mut line);
            read.map_err(|error| not_run(&error))?;
        }
        if line == "ready\n" {
            return Ok(server);
        }
        let mut why = Vec::new();
        if let Some(mut errors) = server.0.stderr.take() {
            let _ = errors.read_to_end(&mut why);
        }
        let ended = server.0.wait().map_err(|error| not_run(&error))?;
        Err(ended_early(ended, &why))
    }

    fn this_program<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Command> {
        let program = std::env::current_exe().map_err(|error| not_run(&error))?;
        let mut command = Command::new(program);
        command.arg("--socket").arg(self.socket()).args(args);
        // Interrupts of the terminal are for this process, which ends what the others do.
        command.process_group(0);
        Ok(command)
    }
}

/// A process that serves something. It ends at the latest when this is dropped.
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // This closes its standard input first.
        let _ = self.0.wait();
    }
}

fn not_run(error: &io::Error) -> Failure {
    Failure::other(format!("this program cannot be run: {error}"))
}

fn ended_early(status: ExitStatus, errors: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(errors);
    let why = said.trim().trim_start_matches("strongroom: ");
    Failure::other(match why {
        "" => format!("this program ended: {status}"),
        why => why.to_owned(),
    })
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        remove(&self.near);
        remove(&self.data);
    }
}

/// A new directory for the socket and mountpoints.
fn new_near() -> Result<PathBuf> {
    let temporary = std::env::temp_dir();
    let canonical = temporary.canonicalize();
    let temporary = canonical.map_err(|error| cannot(&temporary, &error))?;
    check_owners(&temporary)?;
    new_dir(&temporary)
}

/// Refuses a directory whose files others could exchange while root writes to them.
fn check_owners(dir: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for place in dir.ancestors() {
        let found = fs::symlink_metadata(place).map_err(|error| cannot(place, &error))?;
        let mode = Mode::from_raw_mode(found.mode());
        let writable = mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX);
        if found.uid() != 0 || writable {
            let message = format!(
                "{}: other users can exchange files there while root writes to them; name a directory of root",
                place.display()
            );
            return Err(Failure::new(FailureKind::Permission, message));
        }
    }
    Ok(())
}

/// A new directory that only this user can use.
fn new_dir(parent: &Path) -> Result<PathBuf> {
    let mut number = [0; 8];
    SystemRandom
        .fill(&mut number)
        .map_err(|error| Failure::other(error.to_string()))?;
    let path = parent.join(format!(
        "strongroom-bench-{:016x}",
        u64::from_le_bytes(number)
    ));
    let made = DirBuilder::new().mode(0o700).create(&path);
    made.map_err(|error| cannot(parent, &error))?;
    Ok(path)
}

/// Tells the user something.
pub(super) fn notice(text: &str) {
    Prompter::default().notice(text);
}

fn remove(dir: &Path) {
    if let Err(error) = fs::remove_dir_all(dir) {
        let dir = dir.display();
        notice(&format!(
            "{dir} cannot be removed: {error}; remove it by hand"
        ));
    }
}

/// The failure for a file or directory that cannot be used.
pub(super) fn cannot(path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => FailureKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            FailureKind::Permission
        }
        io::ErrorKind::NotADirectory => FailureKind::Usage,
        _ => FailureKind::of_system(error),
    };
    Failure::new(kind, format!("{}: {error}", path.display()))
}
