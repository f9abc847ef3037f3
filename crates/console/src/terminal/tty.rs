//! The controlling terminal, with echo turned off while a secret is typed.
//!
//! The terminal stays in line mode, so that the keys for erasing work as its user set them. Echo is
//! turned on again however the reading ends; see [`super::signals`] for those ways that are not a
//! return.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use protocol::api::{Failure, FailureKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use secret::Secret;

use super::line::{ReadStep, SecretLine, other};
use super::signals::Signals;

/// A terminal with a user at it.
pub(super) struct Tty {
    file: File,
    signals: Signals,
}

impl Tty {
    /// The controlling terminal. If there is none, and `or_input` says so, the standard input, which is another one.
    pub(super) fn open(or_input: bool) -> io::Result<Tty> {
        let file = match OpenOptions::new().read(true).write(true).open("/dev/tty") {
            Ok(file) => file,
            Err(error) if !or_input => return Err(error),
            Err(_) => io::stdin().as_fd().try_clone_to_owned()?.into(),
        };
        let signals = Signals::new()?;
        Ok(Tty { file, signals })
    }

    /// Tells the person something.
    pub(super) fn say(&mut self, text: &str) {
        // If it cannot be said, reading will fail, and that is reported.
        let _ = self.file.write_all(text.as_bytes());
    }

    /// Asks for a line and reads it without showing it. `None` if the person ended the input.
    pub(super) fn read(
        &mut self,
        prompt: &str,
        timeout: Option<Duration>,
    ) -> Result<Option<Secret>, Failure> {
        let prompt = crate::show::text::printable(prompt).into_owned();
        let mut line = SecretLine::new()?;
        loop {
            let ended = self.read_quietly(&prompt, &mut line, timeout);
            if let Some(signal) = self.signals.take() {
                // Ends the process, but for a signal to stop it: then this returns when it continues,
                // and the person begins again.
                self.say("\n");
                self.signals.obey(signal).map_err(other)?;
                continue;
            }
            match ended {
                Ok(ReadStep::Whole) => return Ok(Some(line.take())),
                Ok(ReadStep::End) => return Ok(None),
                Ok(ReadStep::More) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    self.say("\n");
                    return Err(Failure {
                        kind: FailureKind::NoKey,
                        message: "nothing was typed in time".into(),
                    });
                }
                Err(error) => return Err(other(format!("cannot read the terminal: {error}"))),
            }
        }
    }

    /// Reads until the line is whole or the input ends, or, with more to come, until a signal.
    fn read_quietly(
        &mut self,
        prompt: &str,
        line: &mut SecretLine,
        timeout: Option<Duration>,
    ) -> io::Result<ReadStep> {
        let begun = Instant::now();
        line.clear();
        let _guarded = self.signals.guard();
        let _quiet = Quiet::new(&self.file)?;
        (&self.file).write_all(prompt.as_bytes())?;
        loop {
            let mut wait = [
                PollFd::new(&self.file, PollFlags::IN),
                PollFd::new(self.signals.wakeup(), PollFlags::IN),
            ];
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            match poll(&mut wait, left.map(timespec).as_ref()) {
                Ok(0) if left.is_some() => {
                    // The shell must not get what was typed of a secret.
                    let _ = tcflush(&self.file, QueueSelector::IFlush);
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if self.signals.is_pending() {
                return Ok(ReadStep::More);
            }
            if wait[0].revents().is_empty() {
                continue;
            }
            match line.read(&self.file) {
                Ok(ReadStep::More) | Err(Errno::INTR) => {}
                Ok(end) => return Ok(end),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    // What is longer than the system can count is as good as no limit.
    Timespec::try_from(time).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}

/// Echo is off while this lives.
struct Quiet<'a> {
    file: &'a File,
    before: Termios,
}

impl Quiet<'_> {
    fn new(file: &File) -> io::Result<Quiet<'_>> {
        let before = tcgetattr(file)?;
        let mut modes = before.clone();
        modes.local_modes -= LocalModes::ECHO | LocalModes::ECHOE | LocalModes::ECHOK;
        // The end of the line is shown, or what comes next would stand behind the prompt.
        modes.local_modes |= LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        // What was typed before the question was not meant for it.
        tcsetattr(file, OptionalActions::Flush, &modes)?;
        Ok(Quiet { file, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Nothing can be done if the terminal is gone.
        let _ = tcsetattr(self.file, OptionalActions::Now, &self.before);
    }
}
