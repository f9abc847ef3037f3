//! A command at a terminal, with input typed there.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::{PROGRAM, Place};

/// A terminal with a command on it.
pub struct Terminal {
    person: File,
    /// Keeps the terminal open, and shows its modes.
    line: File,
    child: Child,
    seen: String,
}

impl Terminal {
    /// Runs a command with the terminal as its controlling one.
    pub fn run(place: &Place, args: &[&str]) -> Terminal {
        Terminal::start(place, &[&[PROGRAM], args].concat())
    }

    /// The same, with a file as its standard input.
    pub fn run_with_input(place: &Place, args: &[&str], input: &str) -> Terminal {
        // The terminal has to be the standard input when it becomes the controlling one.
        let shell = [
            "sh",
            "-c",
            "input=$1; shift; exec \"$0\" \"$@\" <\"$input\"",
        ];
        Terminal::start(place, &[&shell, &[PROGRAM, input][..], args].concat())
    }

    /// The same for a script of the shell.
    pub fn shell(place: &Place, script: &str) -> Terminal {
        Terminal::start(place, &["sh", "-c", script])
    }

    /// Runs any program, with the variables of the place.
    pub fn start(place: &Place, words: &[&str]) -> Terminal {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).expect("a terminal");
        unlockpt(&person).expect("a terminal");
        let name = ptsname(&person, Vec::new()).expect("its name");
        let line = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("UTF-8"))
            .expect("the other side");
        let stdio = || Stdio::from(line.try_clone().expect("a descriptor"));
        let mut command = Command::new("setsid");
        for (key, value) in place.command().get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let child = command
            .arg("--ctty")
            .args(words)
            .current_dir(place.root())
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .expect("setsid of util-linux");
        Terminal {
            person: File::from(person),
            line,
            child,
            seen: String::new(),
        }
    }

    /// Reads until this is shown, and forgets what was before it.
    pub fn wait_for(&mut self, text: &str) {
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            // Asked before the terminal: what a command shows at its end is there then.
            let ended = self.child.try_wait().expect("its state").is_some();
            if !self.shows_more() {
                assert!(!ended, "not shown: {text}, but {}", self.seen);
                continue;
            }
            let mut bytes = [0; 1024];
            let count = self.person.read(&mut bytes).expect("the terminal");
            self.seen += &String::from_utf8_lossy(&bytes[..count]);
        }
    }

    /// Waits a moment, and returns whether there is output to read.
    fn shows_more(&self) -> bool {
        let mut polled = [PollFd::new(&self.person, PollFlags::IN)];
        let moment = Timespec::try_from(Duration::from_millis(100)).expect("a short time");
        poll(&mut polled, Some(&moment)).expect("the terminal") > 0
    }

    pub fn types(&mut self, text: &str) {
        self.person.write_all(text.as_bytes()).expect("typing");
    }

    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(self.line.as_fd()).expect("modes");
        modes.local_modes.contains(LocalModes::ECHO)
    }

    /// Waits for the end, and says whether the terminal shows what is typed then.
    pub fn echo_after_end(&mut self) -> bool {
        self.child.wait().expect("it ends");
        self.echoes()
    }

    /// Waits for the end; returns how it was, and what was shown last.
    pub fn ends(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        // What is shown after this is the last of it.
        self.line.write_all(b"[the end]").expect("the terminal");
        let mut seen = std::mem::take(&mut self.seen);
        while !seen.contains("[the end]") {
            let mut bytes = [0; 1024];
            let count = self.person.read(&mut bytes).expect("the terminal");
            seen += &String::from_utf8_lossy(&bytes[..count]);
        }
        (status, seen.replace("[the end]", ""))
    }
}
