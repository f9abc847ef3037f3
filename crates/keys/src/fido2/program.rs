//! The programs of libfido2: where they are, and how one is run.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use secret::Secret;

use super::session::start_alone;
use crate::system::child::ChildProgram;
use crate::system::trust::check_trusted;
use crate::{Error, Result};

/// The programs are here, unless `STRONGROOM_FIDO2` names another directory.
const FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];
/// The package of Debian and its relatives.
const PACKAGE: &str = "fido2-tools";
/// The most bytes that a program writes.
const OUTPUT_MAX: usize = 16 << 10;
const ERRORS_MAX: usize = 4 << 10;
/// `fido2-assert` begins its question so, when it has read everything else.
const QUESTION: &str = "Enter PIN for ";

/// A program that ended.
pub(super) struct FidoOutput {
    pub(super) is_success: bool,
    pub(super) output: Secret,
    /// The text that it wrote as standard error.
    pub(super) errors: String,
}

/// A program with its arguments and input.
pub(super) struct FidoCommand<'a> {
    pub(super) program: &'static str,
    /// No secrets: every user sees them.
    pub(super) words: &'a [&'a str],
    pub(super) input: &'a str,
    /// The answer to its question.
    pub(super) pin: Option<&'a Secret>,
    pub(super) time_max: Duration,
}

impl FidoCommand<'_> {
    /// Runs it. `None` if it did not end in time.
    ///
    /// # Errors
    /// [`Error::Fido`] if it is not installed, others can change it, or it cannot be run.
    pub(super) fn run(&self) -> Result<Option<FidoOutput>> {
        let until = Instant::now() + self.time_max;
        let path = find(self.program)?;
        match self.talk(&path, until) {
            Ok(ended) => Ok(Some(ended)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(Error::fido(format_args!(
                "the program {}: {error}",
                path.display()
            ))),
        }
    }

    fn talk(&self, path: &Path, until: Instant) -> io::Result<FidoOutput> {
        let mut command = Command::new(path);
        command
            .args(self.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_clear()
            .current_dir("/");
        start_alone(&mut command);
        let mut running = ChildProgram(command.spawn()?);
        let child = &mut running.0;
        let mut input = child.stdin.take();
        let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
        say(&mut input, self.input.as_bytes())?;
        let mut heard = OutputBuffer::new()?;
        while output.is_some() || errors.is_some() {
            if self.pin.is_none() || heard.is_question() {
                if let Some(pin) = self.pin {
                    say(&mut input, pin.expose())?;
                    say(&mut input, b"\n")?;
                }
                input = None;
            }
            let [says, complains] = wait(output.as_ref(), errors.as_ref(), until)?;
            if says && heard.read_output(output.as_mut())? {
                output = None;
            }
            if complains && heard.read_errors(errors.as_mut())? {
                errors = None;
            }
        }
        running.wait(until);
        let status = running.0.try_wait()?.ok_or(io::ErrorKind::TimedOut)?;
        heard.output.truncate(heard.len);
        Ok(FidoOutput {
            is_success: status.success(),
            output: heard.output,
            errors: String::from_utf8_lossy(&heard.errors).into_owned(),
        })
    }
}

/// The output of a program so far.
struct OutputBuffer {
    output: Secret,
    len: usize,
    errors: Vec<u8>,
}

impl OutputBuffer {
    fn new() -> io::Result<OutputBuffer> {
        Ok(OutputBuffer {
            output: Secret::zeroed(OUTPUT_MAX).map_err(io::Error::other)?,
            len: 0,
            errors: Vec::new(),
        })
    }

    /// Returns whether the program asks for the PIN.
    fn is_question(&self) -> bool {
        let mut places = self.errors.windows(QUESTION.len());
        places.any(|place| place == QUESTION.as_bytes())
    }

    /// Reads some; whether that was the end.
    fn read_output(&mut self, from: Option<&mut impl Read>) -> io::Result<bool> {
        let free = &mut self.output.expose_mut()[self.len..];
        if free.is_empty() {
            return Err(io::Error::other("it says too much"));
        }
        let count = from.map_or(Ok(0), |from| from.read(free))?;
        self.len += count;
        Ok(count == 0)
    }

    /// The same. What is too much is not kept.
    fn read_errors(&mut self, from: Option<&mut impl Read>) -> io::Result<bool> {
        let mut some = [0; 512];
        let count = from.map_or(Ok(0), |from| from.read(&mut some))?;
        let kept = count.min(ERRORS_MAX - self.errors.len());
        self.errors.extend_from_slice(&some[..kept]);
        Ok(count == 0)
    }
}

/// Waits until the one or the other has something to read, or has ended.
fn wait(
    output: Option<&ChildStdout>,
    errors: Option<&ChildStderr>,
    until: Instant,
) -> io::Result<[bool; 2]> {
    let streams = [output.map(AsFd::as_fd), errors.map(AsFd::as_fd)];
    let some = streams.iter().flatten();
    let mut polled: Vec<PollFd<'_>> = some
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).unwrap_or_default();
        match poll(&mut polled, Some(&time)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let mut ready = polled.iter().map(|one| !one.revents().is_empty());
    Ok(streams.map(|stream| stream.is_some() && ready.next() == Some(true)))
}

/// Writes to a program, which may have ended: its errors say why. All of it fits into a pipe.
fn say(input: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<()> {
    match input.as_mut().map(|input| input.write_all(bytes)) {
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// The path of a program that other users cannot replace.
fn find(program: &str) -> Result<PathBuf> {
    let folders = match std::env::var_os("STRONGROOM_FIDO2") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => FOLDERS.map(PathBuf::from).to_vec(),
    };
    let mut paths = folders.iter().map(|folder| folder.join(program));
    let path = paths.find(|path| path.exists()).ok_or_else(|| {
        Error::fido(format_args!(
            "the program {program} is not installed; install the package {PACKAGE}"
        ))
    })?;
    check_trusted(&path).map_err(|(path, reason)| {
        Error::fido(format_args!("the program {}: {reason}", path.display()))
    })
}
