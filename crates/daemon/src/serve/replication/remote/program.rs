//! Programs that speak with another host for a run: `ssh`, and this program itself.
//!
//! A program runs as the owner of the job, in the owner's home, with no variable from a caller. It is ended when the run
//! is to stop. What it says may come from the other host: it has a limit, and nothing in it is for a terminal.

use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protocol::accounts;
use protocol::api::FailureKind;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::{Failure, Result};
use crate::serve::replication::pipe::PipeEnd;
use crate::serve::replication::remote::rows::LISTING_MAX;
use crate::state::callers::channel::DataChannel;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;

/// The longest message of the program, in bytes.
const MESSAGE_MAX: u64 = 2 << 10;
/// A program whose connections are closed gets this long to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a run that is to stop. It is shorter than the wait of a command that stops runs.
const PATIENCE_AT_STOP: Duration = Duration::from_secs(5);
/// The time between two looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(250);

/// Programs of the owner of a job, for one other host.
pub(super) struct OwnerPrograms {
    /// The name of the other host, for people.
    host: String,
    uid: u32,
    gid: u32,
    pub(super) user: String,
    home: PathBuf,
    progress: Arc<RunProgress>,
    /// Exit codes that are not those of `strongroom`.
    pub(super) meanings: Vec<(i32, String)>,
}

/// A program that runs, in a process group of its own.
///
/// The processes that it starts inherit its connections, and those that leave the group stay when it ends. So the end of the
/// program counts, and not that of its connections.
struct RunningProgram {
    child: Child,
    /// Gets a word when the program has ended. Its group was killed then, and its connections are closed.
    ended: Receiver<()>,
    /// Collects the begin of its messages.
    messages: JoinHandle<String>,
}

impl OwnerPrograms {
    pub(super) fn new(
        host: &str,
        job: &ReplicationJob,
        progress: &Arc<RunProgress>,
    ) -> Result<OwnerPrograms> {
        let own = rustix::process::geteuid();
        if !own.is_root() && own.as_raw() != job.owner {
            return Err(Failure::new(
                FailureKind::Permission,
                "only root's daemon can speak with another host as another user",
            ));
        }
        let none = || {
            let text = format!("the user {} has no account on this machine", job.owner);
            Failure::new(FailureKind::Permission, text)
        };
        let mut all = accounts::accounts().map_err(|_| none())?;
        let account = all.remove(&job.owner).ok_or_else(none)?;
        Ok(OwnerPrograms {
            host: host.to_owned(),
            uid: job.owner,
            gid: account.gid,
            home: account.home.into(),
            user: account.name,
            progress: Arc::clone(progress),
            meanings: Vec::new(),
        })
    }

    /// Has a program take a stream that `send` writes.
    pub(super) fn receive(
        &self,
        command: Command,
        said: String,
        limit: Option<u64>,
        send: impl FnOnce(Arc<dyn DataChannel>) -> Result<()>,
    ) -> Result<()> {
        let (here, there) = UnixStream::pair().map_err(|error| self.failed(&error.to_string()))?;
        let out = PipeEnd::sending(here, &self.progress, limit);
        let end = Arc::clone(&out) as Arc<dyn DataChannel>;
        self.progress.enter(Some(said), vec![Arc::clone(&end)])?;
        let stdin = Stdio::from(OwnedFd::from(there));
        let running = self.start(command, stdin, Stdio::null(), &out)?;
        let sent = send(Arc::clone(&end));
        // After a failure the host sees that the stream ends too early, and keeps what came.
        if sent.is_err() {
            end.break_off();
        }
        let received = self.end(running);
        self.progress.check()?;
        match out.was_refused() {
            // The other host went first.
            true => received.and(sent),
            false => sent.and(received),
        }
    }

    /// Carries out a command, and returns its output.
    pub(super) fn ask(&self, command: Command) -> Result<String> {
        let (text, ended) = self.answer(command)?;
        ended.map(|()| text)
    }

    /// Carries out a command. Returns its output, and how it ended.
    pub(super) fn answer(&self, command: Command) -> Result<(String, Result<()>)> {
        let (here, there) = UnixStream::pair().map_err(|error| self.failed(&error.to_string()))?;
        let input = PipeEnd::receiving(here);
        let end = Arc::clone(&input) as Arc<dyn DataChannel>;
        self.progress.enter(None, vec![Arc::clone(&end)])?;
        let stdout = Stdio::from(OwnedFd::from(there));
        let running = self.start(command, Stdio::null(), stdout, &input)?;
        let mut text = Vec::new();
        let read = end.reader().and_then(|reader| {
            let mut reader = reader.take(LISTING_MAX + 1);
            reader.read_to_end(&mut text)
        });
        end.break_off();
        let ended = self.end(running);
        self.progress.check()?;
        if let Err(failure) = &ended
            && failure.kind != FailureKind::Damaged
        {
            return ended.map(|()| (String::new(), Ok(())));
        }
        read.map_err(|error| self.failed(&error.to_string()))?;
        if text.len() as u64 > LISTING_MAX {
            return Err(self.failed("its answer is too long"));
        }
        let text = String::from_utf8(text).map_err(|_| self.failed("its answer is not text"))?;
        Ok((text, ended))
    }

    /// Starts the program. `end` is the end of its data connection here.
    fn start(
        &self,
        mut command: Command,
        stdin: Stdio,
        stdout: Stdio,
        end: &Arc<PipeEnd>,
    ) -> Result<RunningProgram> {
        let command_name = PathBuf::from(command.get_program());
        let failed = |error: std::io::Error| {
            let program = command_name.display();
            self.failed(&format!("{program} cannot be started: {error}"))
        };
        let (stderr, there) = UnixStream::pair().map_err(failed)?;
        self.as_owner(&mut command);
        command
            .stdin(stdin)
            .stdout(stdout)
            .stderr(OwnedFd::from(there));
        let mut child = command.spawn().map_err(failed)?;
        // The other ends of the connections are now those of the program alone.
        drop(command);
        let watched = watch(&child, stderr, end);
        match watched {
            Ok((ended, messages)) => Ok(RunningProgram {
                child,
                ended,
                messages,
            }),
            Err(error) => {
                kill_group(&child);
                let _ = child.wait();
                Err(failed(error))
            }
        }
    }

    /// Gives a program the user, the place and the variables that it runs with.
    fn as_owner(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("USER", &self.user)
            .env("LOGNAME", &self.user)
            .current_dir("/")
            .process_group(0);
        if rustix::process::geteuid().is_root() && self.uid != 0 {
            // This gives up the groups of root too.
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Waits for the end of a program whose connections are closed.
    fn end(&self, mut running: RunningProgram) -> Result<()> {
        let was_killed = !self.has_ended(&running.ended);
        if was_killed {
            kill_group(&running.child);
            let _ = running.ended.recv();
        }
        let status = running.child.wait();
        let told = running.messages.join().unwrap_or_default();
        let status = status.map_err(|error| self.failed(&error.to_string()))?;
        let told = match told.is_empty() {
            true => "it failed".to_owned(),
            false => told,
        };
        match status.code().filter(|_| !was_killed) {
            Some(0) => Ok(()),
            Some(code) => Err(match self.meanings.iter().find(|known| known.0 == code) {
                Some((_, meaning)) => self.failed(&format!("{meaning}: {told}")),
                None => Failure::new(kind_of(code), self.failed(&told).message),
            }),
            None => Err(self.failed(&format!("the program for it was ended: {told}"))),
        }
    }

    /// Waits for the end of a program. Returns whether it ended in time.
    fn has_ended(&self, ended: &Receiver<()>) -> bool {
        let begun = Instant::now();
        loop {
            let patience = match self.progress.check() {
                Ok(()) => PATIENCE,
                Err(_) => PATIENCE_AT_STOP,
            };
            match ended.recv_timeout(LOOK) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < patience => {}
                Err(_) => return false,
            }
        }
    }

    pub(super) fn failed(&self, why: &str) -> Failure {
        Failure::other(format!("{}: {why}", self.host))
    }
}

/// Watches a program: collects its messages, and closes its connections when it has ended.
fn watch(
    child: &Child,
    stderr: UnixStream,
    end: &Arc<PipeEnd>,
) -> std::io::Result<(Receiver<()>, JoinHandle<String>)> {
    let (group, end) = (group_of(child), Arc::clone(end));
    let ours = stderr.try_clone()?;
    let messages = threads::start("replicate-ssh", move || messages(stderr))?;
    let (tell, ended) = channel();
    let watch = move || {
        if let Some(group) = group {
            // The program stays a zombie until `end`, so no other group has this number.
            let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(group), exited), Err(Errno::INTR)) {}
            let _ = kill_process_group(group, Signal::KILL);
        }
        // What the program wrote is still read.
        end.hang_up();
        let _ = ours.shutdown(Shutdown::Both);
        let _ = tell.send(());
    };
    threads::start("replicate-end", watch)?;
    Ok((ended, messages))
}

fn group_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Kills a program that nobody has waited for, with what it has started.
fn kill_group(child: &Child) {
    if let Some(group) = group_of(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The begin of what a program tells, in one line. The rest is read too, so that the program does not wait.
fn messages(mut stderr: impl Read) -> String {
    let mut told = Vec::new();
    let _ = (&mut stderr).take(MESSAGE_MAX).read_to_end(&mut told);
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    let told = String::from_utf8_lossy(&told);
    let lines = told.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.strip_prefix("strongroom: ").unwrap_or(line));
    let line = lines.collect::<Vec<_>>().join("; ");
    line.chars()
        .filter(|c| !protocol::characters::is_hidden(*c))
        .collect()
}

/// The kind of a failure of `strongroom` on the other host.
fn kind_of(code: i32) -> FailureKind {
    use FailureKind::*;
    let known = [
        Usage, NotFound, Exists, Busy, Permission, NoKey, Damaged, NoSpace, Device,
    ];
    let found = known
        .into_iter()
        .find(|kind| i32::from(kind.exit_code()) == code);
    found.unwrap_or(Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        let told = messages(&b"one\n\n\x1b[2Jtwo\r\n"[..]);
        assert_eq!(told, "one; [2Jtwo");
        let long = vec![b'x'; 1 << 20];
        assert_eq!(messages(&long[..]).len() as u64, MESSAGE_MAX);
    }
}
