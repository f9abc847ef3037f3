//! Starting `strongroom login` as root, with a clean environment, and waiting for it for a limited time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal};
use secret::Secret;

use crate::child::{self, OwnChildren};
use crate::handle::UserAccount;
use crate::options::Options;
use crate::trust;

/// The most that is read of what the program says.
const SAID_MAX: u64 = 4096;

#[derive(Debug)]
pub(crate) struct ProgramResult {
    /// The exit code; nothing if it was killed or took too long.
    pub(crate) code: Option<i32>,
    /// The text that it wrote, one message a line.
    pub(crate) said: String,
    /// The guid of the dataset whose passphrase it has checked.
    pub(crate) dataset: Option<u64>,
}

/// The end of a pipe that the program writes to; reading never waits.
struct OutputPipe(OwnedFd);

impl OutputPipe {
    /// A pipe, and the program's end of it.
    fn new() -> io::Result<(OutputPipe, OwnedFd)> {
        let (output, end) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)?;
        Ok((OutputPipe(output), end))
    }

    /// The contents of the pipe.
    fn read(self) -> String {
        let mut said = Vec::new();
        let _ = File::from(self.0).take(SAID_MAX).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// Exit codes of `strongroom`.
pub(crate) const NOT_FOUND: i32 = 3;
pub(crate) const WRONG_KEY: i32 = 7;

/// Runs a step of a login; `dataset` is what an earlier step has checked. The program reads one passphrase from each
/// line of its standard input.
///
/// # Errors
/// Why it could not be started.
pub(crate) fn run(
    step: &str,
    account: &UserAccount,
    options: &Options,
    dataset: Option<u64>,
    passphrases: &[&Secret],
) -> Result<ProgramResult, String> {
    let program = trust::program(&options.program)?;
    let failed = |error: io::Error| format!("{}: {error}", program.display());
    let input = input(passphrases).map_err(failed)?;
    let (messages, errors) = OutputPipe::new().map_err(failed)?;
    let (result, output) = OutputPipe::new().map_err(failed)?;
    let mut command = Command::new(&program);
    command
        .args(arguments(step, account, options))
        .args(dataset.map(|guid| format!("--dataset={guid}")))
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .current_dir("/")
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        // All three user numbers: those of `su` are of two users.
        .uid(0)
        .gid(0);
    child::become_clean(&mut command);
    let _own_children = OwnChildren::begin();
    let child = command.spawn().map_err(failed)?;
    // Both ends of the pipe that only the program needs.
    drop(command);
    let code = wait(child, options.timeout);
    Ok(ProgramResult {
        code,
        said: messages.read(),
        dataset: result.read().trim().parse().ok(),
    })
}

fn arguments(step: &str, account: &UserAccount, options: &Options) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["login".into(), step.into()];
    words.push(format!("--user={}", account.name).into());
    words.push(format!("--uid={}", account.uid).into());
    words.push(format!("--gid={}", account.gid).into());
    words.extend(["--home".into(), account.home.clone().into()]);
    words.push(format!("--process={}", std::process::id()).into());
    let flags = [
        ("--ignore-missing", options.ignore_missing),
        ("--delkeys", options.delkeys),
        ("--debug", options.debug),
    ];
    let set = flags.iter().filter(|(_, is_set)| *is_set);
    words.extend(set.map(|(flag, _)| OsString::from(flag)));
    words
}

/// A pipe with the passphrases. They fit into it, so nothing waits for the program to read.
fn input(passphrases: &[&Secret]) -> io::Result<OwnedFd> {
    let (input, passing) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut passing = File::from(passing);
    for passphrase in passphrases {
        passing.write_all(passphrase.expose())?;
        passing.write_all(b"\n")?;
    }
    Ok(input)
}

/// Waits for the program, and kills it with what it started if it takes too long.
fn wait(mut child: Child, timeout: Duration) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    let until = Instant::now() + timeout;
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|pidfd| {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let time = Timespec::try_from(left).unwrap_or_default();
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time)) {
                Err(rustix::io::Errno::INTR) => {}
                polled => break polled.is_ok_and(|count| count > 0),
            }
        }
    });
    if !ended {
        // It leads a group of its own.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let _ = child.kill();
    }
    child.wait().ok()?.code()
}
