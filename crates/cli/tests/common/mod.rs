//! The parts that the tests share: a directory with a daemon of its own, and the command.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod bench;
pub mod containers;
pub mod login;
pub mod machine;
pub mod programs;
pub mod recorder;
pub mod servers;
pub mod stacked_directory;
pub mod terminal;
pub mod tracer;
pub mod user;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::IFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_strongroom");

// The exit codes that the help documents.
pub const OTHER: i32 = 1;
pub const USAGE: i32 = 2;
pub const NOT_FOUND: i32 = 3;
pub const EXISTS: i32 = 4;
pub const BUSY: i32 = 5;
pub const PERMISSION: i32 = 6;
pub const WRONG_KEY: i32 = 7;
pub const NO_KEY: i32 = 8;
pub const DAMAGED: i32 = 9;
pub const TOO_NEW: i32 = 10;
pub const NO_SPACE: i32 = 11;
pub const DEVICE: i32 = 12;
pub const NO_DAEMON: i32 = 13;
pub const FOREIGN_LOG: i32 = 14;

/// A daemon gets this long to end before it is killed. Nothing waits for it to pass.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// A thing of the machine that a test needs: a condition, or a part that is there or not.
pub trait Need {
    type Part;
    fn part(self) -> Option<Self::Part>;
}

impl Need for bool {
    type Part = ();
    fn part(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Need for Option<T> {
    type Part = T;
    fn part(self) -> Option<T> {
        self
    }
}

/// Returns the part of the machine that a test needs. Without it the test ends here, and says why. A function that
/// prepares a test returns `None` then.
macro_rules! needs {
    ($need:expr $(, $reason:literal)?) => {
        match $crate::common::Need::part($need) {
            Some(part) => part,
            None => {
                $(println!(concat!("skipped: ", $reason));)?
                return Default::default();
            }
        }
    };
}
pub(crate) use needs;

/// A directory with a daemon that belongs to one test.
pub struct Place {
    dir: TempDir,
    daemon: Option<Child>,
    cache: &'static str,
}

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    /// With a daemon that listens.
    pub fn new() -> Place {
        let mut place = Place::without_daemon();
        place.start();
        place
    }

    pub fn without_daemon() -> Place {
        Place {
            dir: tempfile::tempdir().expect("a directory"),
            daemon: None,
            cache: "32M",
        }
    }

    /// With a daemon that has a cache of this size.
    pub fn with_cache(size: &'static str) -> Place {
        let mut place = Place::without_daemon();
        place.cache = size;
        place.start();
        place
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The path of a file here, as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").into()
    }

    pub fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Starts the daemon, and returns when it listens.
    pub fn start(&mut self) {
        self.start_with("STRONGROOM_LOG", "info");
    }

    /// Starts the daemon with a variable in its environment.
    pub fn start_with(&mut self, variable: &str, value: &str) {
        let mut command = self.command();
        command.env(variable, value);
        self.start_by(command);
    }

    /// Starts the daemon by another program, whose arguments end with the daemon's.
    pub fn start_within(&mut self, words: &[String]) {
        let own = self.command();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(PROGRAM);
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.start_by(command);
    }

    fn start_by(&mut self, mut command: Command) {
        assert!(self.daemon.is_none(), "it runs");
        command
            .args(["daemon", "--detached", "--cache-size", self.cache])
            .arg("--state-dir")
            .arg(self.path("state"))
            .arg("--pkcs11-list")
            .arg(self.path("pkcs11"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the program");
        // It says one line when it listens.
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .expect("a line");
        self.daemon = Some(child);
        assert_eq!(line, "ready\n");
    }

    /// The daemon's process.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon").id()
    }

    /// The number of threads of the daemon that carry out commands.
    pub fn commands(&self) -> usize {
        let tasks = format!("/proc/{}/task", self.pid());
        let is_command = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = std::fs::read_to_string(entry.unwrap().path().join("comm"));
            name.is_ok_and(|name| name == "command\n")
        };
        let tasks = std::fs::read_dir(tasks).unwrap();
        tasks.map(is_command).filter(|is| *is).count()
    }

    /// Waits until the daemon has ended all commands.
    pub fn until_idle(&self) {
        while self.commands() > 0 {
            std::thread::yield_now();
        }
    }

    /// Kills the daemon, as a crash does, if it still runs.
    pub fn kill(&mut self) {
        let mut child = self.daemon.take().expect("a daemon");
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
    }

    /// Kills the daemon, detaches what it had mounted and removes its state: the machine starts anew.
    pub fn crash(&mut self) {
        self.kill();
        self.detach_mounts();
        fs::remove_dir_all(self.path("state")).expect("its state");
    }

    /// Tells the daemon to end with a signal, and returns whether it did in time.
    pub fn terminate(&mut self) -> bool {
        let Some(mut child) = self.daemon.take() else {
            return true;
        };
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        let ended = end(&child);
        if !ended {
            let _ = child.kill();
        }
        let _ = child.wait();
        ended
    }

    /// Waits for a daemon that was told to stop.
    pub fn wait_for_end(&mut self) {
        let mut child = self.daemon.take().expect("a daemon");
        assert!(child.wait().expect("it ends").success());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("state/daemon.log")).unwrap_or_default()
    }

    /// The program, with nothing of the environment that would lead it to another daemon.
    pub fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env("STRONGROOM_SOCKET", self.socket())
            .env("XDG_STATE_HOME", self.path("xdg"))
            .env_remove("STRONGROOM_LOG")
            .env("TZ", "UTC")
            .current_dir(self.root());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Done {
        self.run_with(args, b"")
    }

    /// Runs a command with this on its standard input.
    pub fn run_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Done {
        let mut command = self.command();
        command.args(args);
        run(command, input)
    }

    /// Runs a script of the shell in the environment of the program.
    pub fn shell(&self, script: &str) -> Done {
        let own = self.command();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.root());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        run(command, b"")
    }

    /// A command line, split at spaces; `{DIR}` in it is this directory.
    pub fn words(&self, line: &str) -> Vec<String> {
        let dir = self.root().to_str().expect("UTF-8");
        let words = words(line).into_iter();
        words.map(|word| word.replace("{DIR}", dir)).collect()
    }

    /// Runs a command line, split at spaces, that has to succeed; returns what it printed.
    pub fn ok(&self, line: &str) -> String {
        self.ok_with(line, "")
    }

    pub fn ok_with(&self, line: &str, input: &str) -> String {
        let done = self.run_with(&self.words(line), input.as_bytes());
        assert_eq!(done.code, 0, "{line}: {done:?}\n{}", self.log());
        done.out
    }

    /// Runs a command line that has to succeed, and to print JSON.
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(line)).expect("JSON")
    }

    /// Runs a command line that has to succeed, and to print this.
    #[track_caller]
    pub fn says(&self, line: &str, wanted: &str) {
        has(&self.ok(line), wanted);
    }

    /// Runs a command line that has to succeed, and to print just this.
    #[track_caller]
    pub fn prints(&self, line: &str, wanted: &str) {
        assert_eq!(self.ok(line), wanted, "{line}");
    }

    /// Runs a command line that has to succeed, and to say this on its standard error.
    #[track_caller]
    pub fn warns(&self, line: &str, wanted: &str) {
        let done = self.run(&self.words(line));
        assert_eq!(done.code, 0, "{line}: {done:?}\n{}", self.log());
        has(&done.err, wanted);
    }

    /// Runs a command line that has to fail with this code, for this reason.
    #[track_caller]
    pub fn refuses(&self, line: &str, code: i32, wanted: &str) {
        has(&self.fails(line, code), wanted);
    }

    /// Runs a command line that has to fail with this code; returns its one line of error.
    pub fn fails(&self, line: &str, code: i32) -> String {
        self.fails_with(line, "", code)
    }

    pub fn fails_with(&self, line: &str, input: &str, code: i32) -> String {
        let done = self.run_with(&self.words(line), input.as_bytes());
        assert_eq!(done.code, code, "{line}: {done:?}\n{}", self.log());
        assert_eq!(done.out, "", "{line}");
        let lines = done.err.lines().filter(|l| l.starts_with("strongroom: "));
        assert_eq!(lines.count(), done.err.lines().count(), "{line}: {done:?}");
        assert!(!done.err.is_empty(), "{line} says nothing");
        done.err
    }

    /// Runs a command line at a socket as a user and group, with a passphrase on its standard input.
    pub fn run_as(&self, (uid, gid): (u32, u32), socket: &Path, line: &str) -> Done {
        let mut command = self.command();
        command
            .env("STRONGROOM_SOCKET", socket)
            .args(self.words(line))
            .current_dir("/");
        if uid != 0 {
            command.uid(uid).gid(gid);
        }
        run(command, b"correct horse\n")
    }

    /// Makes a pool in a file of that name, with nothing mounted.
    pub fn pool(&self, pool: &str) -> PathBuf {
        let file = self.path(&format!("{pool}.pool"));
        self.ok(&format!(
            "pool create -s 64M -m none {pool} {{DIR}}/{pool}.pool"
        ));
        file
    }
}

impl Place {
    fn detach_mounts(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let dirs = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let mut ours: Vec<&str> = dirs
            .filter(|dir| Path::new(dir).starts_with(self.dir.path()))
            .collect();
        ours.reverse();
        for dir in ours {
            let _ = rustix::mount::unmount(dir, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Runs a command with this on its standard input.
pub fn run(mut command: Command, input: &[u8]) -> Done {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    // A command that wants nothing may end before it has all.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("output");
    let done = Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    };
    assert!(!done.err.contains("panicked"), "{}", done.err);
    assert_ne!(done.code, 101, "{done:?}");
    done
}

/// Returns whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Users other than root, and a group.
pub const ANN: u32 = 12345;
pub const BOB: u32 = 12346;
pub const STAFF: u32 = 54321;

/// A daemon in a place that other users can reach; `None` if this is not root.
pub fn shared_place() -> Option<Place> {
    needs!(is_root(), "only root can be several users");
    let place = Place::new();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o711)).unwrap();
    Some(place)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.terminate();
        // What is mounted here still is dead, and the directory below it cannot be removed.
        self.detach_mounts();
        unguard(self.dir.path());
    }
}

/// Sets or clears the immutable flag of a directory.
pub fn set_immutable(dir: &Path, is: bool) -> std::io::Result<()> {
    let dir = fs::File::open(dir)?;
    let mut flags = rustix::fs::ioctl_getflags(&dir)?;
    if flags.contains(IFlags::IMMUTABLE) != is {
        flags.set(IFlags::IMMUTABLE, is);
        rustix::fs::ioctl_setflags(&dir, flags)?;
    }
    Ok(())
}

/// Lets what is in a directory be removed: the mountpoints in it are immutable.
pub fn unguard(dir: &Path) {
    let _ = set_immutable(dir, false);
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unguard(&entry.path());
        }
    }
}

fn end(child: &Child) -> bool {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return false;
    };
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
        return false;
    };
    let _ = rustix::process::kill_process(pid, Signal::TERM);
    let mut wait = [PollFd::new(&pidfd, PollFlags::IN)];
    matches!(poll(&mut wait, Some(&PATIENCE)), Ok(1..))
}

/// Bytes that look random.
pub fn contents(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The contents of the file with a number.
pub fn numbered(number: usize) -> Vec<u8> {
    contents(number, 5_000 + 100_000 * (number % 3))
}

/// Writes files whose names are numbers.
pub fn write_numbered(dir: &Path, range: std::ops::Range<usize>) {
    for number in range {
        write_synced(&dir.join(number.to_string()), &numbered(number)).unwrap();
    }
}

/// Asserts that files whose names are numbers have their contents.
#[track_caller]
pub fn has_numbered(dir: &Path, range: std::ops::Range<usize>) {
    for number in range {
        let found = fs::read(dir.join(number.to_string())).unwrap();
        assert!(found == numbered(number), "{number}");
    }
}

/// A portal at which no daemon listens.
pub fn free_portal() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Writes a file, durably.
pub fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    std::io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}

pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').filter(|word| !word.is_empty()).collect()
}

/// The text has this in it.
#[track_caller]
pub fn has(text: &str, wanted: &str) {
    assert!(text.contains(wanted), "no {wanted:?} in {text}");
}

/// A number from the environment.
pub fn number(variable: &str, default: u64) -> u64 {
    let asked = std::env::var(variable);
    asked.map_or(default, |text| text.parse().expect("a number"))
}

/// The text does not have this in it.
#[track_caller]
pub fn lacks(text: &str, unwanted: &str) {
    assert!(!text.contains(unwanted), "{unwanted:?} in {text}");
}

/// Returns whether file systems can be mounted here. Prints the reason if not.
pub fn can_mount() -> bool {
    match fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: /dev/fuse cannot be opened: {error}");
            false
        }
    }
}

/// Returns whether a program is installed. Prints a line if it is not.
pub fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    if !found {
        eprintln!("skipped: {tool} is not installed; ./test installs it");
    }
    found
}

/// The offset of bytes in a file, which is read in pieces.
pub fn find_in_file(path: &Path, wanted: &[u8]) -> Option<u64> {
    use std::io::Read;
    let mut file = fs::File::open(path).expect("the file");
    let mut held: Vec<u8> = Vec::new();
    let mut base = 0;
    loop {
        let had = held.len();
        let read = (&mut file)
            .take(4 << 20)
            .read_to_end(&mut held)
            .expect("it can be read");
        if let Some(at) = find(&held, wanted) {
            return Some(base + at as u64);
        }
        if read == 0 {
            return None;
        }
        // What may be the beginning of a match is kept.
        let keep = held.len().min(wanted.len() - 1);
        base += (had + read - keep) as u64;
        held.drain(..held.len() - keep);
    }
}

pub fn find(held: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted.first()?;
    let mut from = 0;
    while let Some(at) = held[from..].iter().position(|byte| byte == first) {
        let at = from + at;
        if held[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Flips bytes in every copy of every block with keyrings. Returns how many there were.
pub fn damage_keyrings(file: &Path) -> usize {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let blocks = file.metadata().unwrap().len() / 4096;
    let mut block = [0; 4096];
    let mut count = 0;
    for at in (0..blocks).map(|index| index * 4096) {
        file.read_exact_at(&mut block, at).unwrap();
        if block.starts_with(b"SR-KEYBL") {
            block[100..140].iter_mut().for_each(|byte| *byte ^= 0x55);
            file.write_all_at(&block, at).unwrap();
            count += 1;
        }
    }
    count
}

/// Lets one test of a program run at a time: a program that another test starts holds the files that are open here until
/// it runs, and a directory that is to be unmounted or locked is in use then.
pub fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
