//! Mounts of encrypted directories, by Strongroom and by gocryptfs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{Done, PROGRAM, Place, has};

/// Asserts that a command fails with this code, and says this.
pub fn refused(place: &Place, line: &str, code: i32, why: &str) {
    let Done { code: got, err, .. } = place.run(&place.words(line));
    assert_eq!(got, code, "{line}: {err}");
    has(&err, why);
}

/// A mount by a process of its own.
pub struct Mounted {
    pub process: Child,
    pub view: PathBuf,
}

impl Mounted {
    pub fn new(place: &Place, options: &[&str]) -> Mounted {
        Mounted::at(place, options, "view")
    }

    /// At a directory of this name.
    pub fn at(place: &Place, options: &[&str], view: &str) -> Mounted {
        let mut process = Command::new(PROGRAM)
            .args(["stack", "mount", "--foreground"])
            .args(options)
            .args([place.path("lower"), place.path(view)])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        // It says one line when it is mounted.
        let mut line = String::new();
        let output = process.stderr.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert!(line.contains("mounted on"), "{line}");
        let view = place.path(view);
        Mounted { process, view }
    }

    pub fn with_key(place: &Place) -> Mounted {
        Mounted::new(place, &["-d", &place.arg("key")])
    }

    /// Runs a script of the shell in the view, and returns what it prints.
    pub fn shell(&self, script: &str) -> String {
        let done = Command::new("sh")
            .args(["-euc", script])
            .current_dir(&self.view)
            .output()
            .expect("a shell");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{script}: {errors}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Ends the mount by a signal, as a terminal does.
    pub fn end(mut self) {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::INT).expect("sent");
        assert!(self.process.wait().expect("ended").success());
        assert!(fs::read_dir(&self.view).expect("listed").next().is_none());
    }
}

/// A mount of gocryptfs, until this is dropped.
pub struct Theirs(pub PathBuf);

impl Theirs {
    pub fn new(place: &Place, how: &[&str], lower: &str, view: &str) -> Theirs {
        let at = place.path(view);
        let done = Command::new("gocryptfs")
            .args(["-q", "-nosyslog", "-passfile"])
            .arg(place.path("pass"))
            .args(how)
            .args([place.path(lower), at.clone()])
            // What serves a mount keeps them.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(done.expect("installed").success());
        Theirs(at)
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let unmount = |how| {
            let done = Command::new("fusermount3").arg(how).arg(&self.0).status();
            done.is_ok_and(|status| status.success())
        };
        // Another program may be looking at each mount of the machine.
        assert!(unmount("-u") || unmount("-uz"));
    }
}
