//! The target of a job on another host: runs `strongroom` there, by the program `ssh`.
//!
//! The program runs as the owner of the job, with the owner's keys and settings of `ssh`, and never asks anything. It
//! gets no variable from a caller. The names in its command are quoted for the shell of the other host. Everything that
//! comes back may be forged: it is parsed with limits, and decides only what is sent of the job's own source.

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
use protocol::api::{DatasetRow, FailureKind, VerifiedSnapshot};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::failure::{Failure, Result};
use crate::serve::replication::pipe::PipeEnd;
use crate::serve::replication::remote_rows::{LISTING_MAX, rows_of};
use crate::serve::replication::verification::remote::verified_of;
use crate::state::callers::channel::DataChannel;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::target::SshTarget;

/// The program, unless the environment of the daemon names another one.
const PROGRAM: &str = "/usr/bin/ssh";
/// The variable of the daemon that names the program. It is not the variable of a caller.
const VARIABLE: &str = "STRONGROOM_SSH";
/// The options of each connection. Without an answer for a minute a connection ends.
const OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ConnectTimeout=30",
    "PermitLocalCommand=no",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];
/// The begin of a command on the other host. Ordinary users use root's daemon, unless their environment names another.
const REMOTE: &str = r#"strongroom --socket "${STRONGROOM_SOCKET:-/run/strongroom/socket}""#;
/// The longest message of the program, in bytes.
const MESSAGE_MAX: u64 = 2 << 10;
/// A program whose connections are closed gets this long to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a run that is to stop. It is shorter than the wait of a command that stops runs.
const PATIENCE_AT_STOP: Duration = Duration::from_secs(5);
/// The time between two looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(250);
/// The exit code of `ssh` if there was no connection, and that of a shell without the program.
const NO_CONNECTION: i32 = 255;
const NO_PROGRAM: i32 = 127;

/// Another host.
pub(super) struct SshHost {
    target: SshTarget,
    program: PathBuf,
    uid: u32,
    gid: u32,
    user: String,
    home: PathBuf,
    progress: Arc<RunProgress>,
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

impl SshHost {
    pub(super) fn new(
        target: &SshTarget,
        job: &ReplicationJob,
        progress: &Arc<RunProgress>,
    ) -> Result<SshHost> {
        let own = rustix::process::geteuid();
        if !own.is_root() && own.as_raw() != job.owner {
            return Err(Failure::new(
                FailureKind::Permission,
                "only root's daemon can use ssh as another user",
            ));
        }
        let none = || {
            let text = format!("the user {} has no account on this machine", job.owner);
            Failure::new(FailureKind::Permission, text)
        };
        let mut all = accounts::accounts().map_err(|_| none())?;
        let account = all.remove(&job.owner).ok_or_else(none)?;
        let program = std::env::var_os(VARIABLE).map(PathBuf::from);
        Ok(SshHost {
            target: target.clone(),
            program: program
                .filter(|program| program.is_absolute())
                .unwrap_or_else(|| PROGRAM.into()),
            uid: job.owner,
            gid: account.gid,
            home: account.home.into(),
            user: account.name,
            progress: Arc::clone(progress),
        })
    }

    /// The rows of a listing of the other host.
    pub(super) fn list(&self, name: &str, recursive: bool) -> Result<Vec<DatasetRow>> {
        let depth = if recursive { "-r" } else { "-d 1" };
        let columns = "name,guid,createtxg,receive_resume_token,origin";
        let words = format!("--json list {depth} -t all -o {columns} {}", quoted(name));
        let text = self.ask(&words)?;
        rows_of(&text).ok_or_else(|| self.failed("its listing is not understood"))
    }

    /// Carries out a command whose answer does not matter.
    pub(super) fn order(&self, words: &str, names: &[&str]) -> Result<()> {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        self.ask(&format!("{words} {}", names.join(" "))).map(drop)
    }

    /// Has the other host read snapshots.
    pub(super) fn verify(
        &self,
        names: &[String],
        challenge: &str,
    ) -> Result<Vec<VerifiedSnapshot>> {
        let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let words = format!("--json verify --challenge {challenge} {}", quoted.join(" "));
        let (text, ended) = self.answer(&words)?;
        match (verified_of(&text, names), ended) {
            (Some(rows), Ok(())) => Ok(rows),
            // It names what is damaged.
            (Some(rows), Err(failure)) if failure.kind == FailureKind::Damaged => Ok(rows),
            (_, Err(failure)) => Err(failure),
            (None, Ok(())) => Err(self.failed("its verification is not understood")),
        }
    }

    /// Has the other host receive a stream that `send` writes.
    pub(super) fn receive(
        &self,
        name: &str,
        said: String,
        limit: Option<u64>,
        send: impl FnOnce(Arc<dyn DataChannel>) -> Result<()>,
    ) -> Result<()> {
        let (here, there) = UnixStream::pair().map_err(|error| self.failed(&error.to_string()))?;
        let out = PipeEnd::sending(here, &self.progress, limit);
        let end = Arc::clone(&out) as Arc<dyn DataChannel>;
        self.progress.enter(Some(said), vec![Arc::clone(&end)])?;
        let words = format!("receive -s {}", quoted(name));
        let stdin = Stdio::from(OwnedFd::from(there));
        let running = self.start(&words, stdin, Stdio::null(), &out)?;
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
    fn ask(&self, words: &str) -> Result<String> {
        let (text, ended) = self.answer(words)?;
        ended.map(|()| text)
    }

    /// Carries out a command. Returns its output, and how it ended.
    fn answer(&self, words: &str) -> Result<(String, Result<()>)> {
        let (here, there) = UnixStream::pair().map_err(|error| self.failed(&error.to_string()))?;
        let input = PipeEnd::receiving(here);
        let end = Arc::clone(&input) as Arc<dyn DataChannel>;
        self.progress.enter(None, vec![Arc::clone(&end)])?;
        let stdout = Stdio::from(OwnedFd::from(there));
        let running = self.start(words, Stdio::null(), stdout, &input)?;
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
        words: &str,
        stdin: Stdio,
        stdout: Stdio,
        end: &Arc<PipeEnd>,
    ) -> Result<RunningProgram> {
        let failed = |error: std::io::Error| {
            let program = self.program.display();
            self.failed(&format!("{program} cannot be started: {error}"))
        };
        let (stderr, there) = UnixStream::pair().map_err(failed)?;
        let mut command = self.command(words);
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

    /// The program with its arguments, for the owner of the job.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-T");
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        if let Some(port) = self.target.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.target.user {
            command.args(["-l", user]);
        }
        command.args(["--", &self.target.host, &format!("{REMOTE} {words}")]);
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
        command
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
            Some(NO_CONNECTION) => Err(self.failed(&format!(
                "no connection by ssh as the user {}: {told}",
                self.user
            ))),
            Some(NO_PROGRAM) => Err(self.failed(&format!("there is no strongroom there: {told}"))),
            Some(code) => Err(Failure::new(kind_of(code), self.failed(&told).message)),
            None => Err(self.failed(&format!("ssh was ended: {told}"))),
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

    fn failed(&self, why: &str) -> Failure {
        Failure::other(format!("{}: {why}", self.target.host))
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

/// A word for the shell of the other host. Nothing in it has a meaning there.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_meaning_for_the_shell() {
        for name in [
            "a b",
            "a'b",
            "$(touch x)",
            "`touch x`",
            "a;b",
            "-n",
            "a\\'b",
            "'",
            "*",
            "\"$HOME\"",
        ] {
            let script = format!("printf %s {}", quoted(name));
            let done = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(done.stdout).unwrap(), name);
        }
    }

    #[test]
    fn messages_are_one_line() {
        let told = messages(&b"one\n\n\x1b[2Jtwo\r\n"[..]);
        assert_eq!(told, "one; [2Jtwo");
        let long = vec![b'x'; 1 << 20];
        assert_eq!(messages(&long[..]).len() as u64, MESSAGE_MAX);
    }
}
