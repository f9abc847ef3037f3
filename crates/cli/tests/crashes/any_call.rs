//! The daemon is killed at any of its system calls; the next one finds everything that was promised,
//! and nothing that stands in the way.
//!
//! A session of commands and file operations runs with the daemon under ptrace, once for each call
//! that changes something and at which it can be killed. Some are tried here, others for another
//! seed; `STRONGROOM_EVERY_CALL=1` tries all, for some minutes:
//!
//! ```sh
//! STRONGROOM_EVERY_CALL=1 cargo test --profile checked -p strongroom --test crashes any_call:: -- --nocapture
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::*;

/// Calls at which the daemon is killed, where not all are asked for.
const SAMPLE: u64 = 16;

/// The number of times that the test asks whether the daemon has ended.
const TRIES: usize = 500;

/// The changes that the program has reported as done.
#[derive(Default)]
struct Promised {
    pool: bool,
    dataset: bool,
    snapshot: bool,
    key_changed: bool,
    property: bool,
    /// Names and contents of files that were synced, and not touched since.
    files: Vec<(&'static str, Vec<u8>)>,
    removed: bool,
}

struct Session {
    place: Place,
    promised: Promised,
}

fn contents(seed: u8, len: usize) -> Vec<u8> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 24) as u8)
    };
    std::iter::repeat(())
        .scan(u32::from(seed), |state, ()| next(state))
        .take(len)
        .collect()
}

/// Writes a file and syncs it.
fn write_synced(path: &Path, data: &[u8]) -> std::io::Result<()> {
    fs::write(path, data)?;
    fs::File::open(path)?.sync_all()
}

impl Session {
    fn new() -> Session {
        let place = Place::without_daemon();
        fs::write(place.path("key1"), [1; 32]).unwrap();
        fs::write(place.path("key2"), [2; 32]).unwrap();
        Session {
            place,
            promised: Promised::default(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path("mnt").join(name)
    }

    /// Runs a command with a daemon that runs already: none is started for it. `None` if it fails.
    fn done(&self, line: &str) -> Option<()> {
        let output = self
            .place
            .command()
            .args(words(line))
            // A daemon that was started for a command could not keep its list of pools.
            .env("XDG_STATE_HOME", "/dev/null/nowhere")
            .stdin(Stdio::null())
            .output()
            .expect("the program");
        output.status.success().then_some(())
    }

    /// Runs the steps until the daemon is killed. `None` from the first step on that fails.
    fn run(&mut self) -> Option<()> {
        let place_arg = |name: &str| self.place.arg(name);
        let (pool, mnt) = (place_arg("tank.pool"), place_arg("mnt"));
        let (key1, key2) = (place_arg("key1"), place_arg("key2"));
        self.done(&format!("pool create -s 16M -m none tank {pool}"))?;
        self.promised.pool = true;
        self.done(&format!(
            "create -o encryption=on -o keysource=raw,file://{key1} -o mountpoint={mnt} tank/a"
        ))?;
        self.promised.dataset = true;
        self.write("one", contents(1, 300_000))?;
        // Synced with a commit, and not by itself.
        fs::create_dir(self.file("dir")).ok()?;
        fs::write(self.file("dir/unsynced"), contents(2, 50_000)).ok()?;
        self.done("snapshot tank/a@s")?;
        self.promised.snapshot = true;
        self.promised
            .files
            .push(("dir/unsynced", contents(2, 50_000)));
        self.write("two", contents(3, 100))?;
        // What is about to change is not promised, neither as it was nor as it will be.
        self.promised.files.retain(|(name, _)| *name != "one");
        self.write("one", contents(4, 200_000))?;
        self.promised.files.retain(|(name, _)| *name != "two");
        fs::remove_file(self.file("two")).ok()?;
        fs::File::open(self.file("dir")).ok()?.sync_all().ok()?;
        self.promised.removed = true;
        self.done(&format!("key change -o keysource=raw,file://{key2} tank/a"))?;
        self.promised.key_changed = true;
        self.done("set compression=off tank/a")?;
        self.promised.property = true;
        self.done("pool export tank")?;
        self.done(&format!("pool import -l -d {pool} tank"))?;
        self.write("three", contents(5, 20_000))?;
        self.promised.snapshot = false;
        self.done("destroy -f tank/a@s")?;
        self.done("daemon stop")
    }

    fn write(&mut self, name: &'static str, data: Vec<u8>) -> Option<()> {
        write_synced(&self.file(name), &data).ok()?;
        self.promised.files.push((name, data));
        Some(())
    }

    /// Runs it with a daemon that is killed at a call; returns how many calls there were, and
    /// whether all was done.
    fn watched(&mut self, kill_at: Option<u64>) -> (u64, bool) {
        let mut command = self.place.command();
        command
            .args(["daemon", "--detached", "--cache-size", "16M", "--state-dir"])
            .arg(self.place.path("state"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (stdout, watch) = tracer::start(command, tracer::CHANGES, kill_at);
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let done = line == "ready\n" && self.run().is_some();
        if !done {
            // If a step failed before that, nothing else ends the daemon.
            // One that is being killed loses a connection first.
            let status = || self.place.run(&["daemon", "status"]).code;
            let mut answers = std::iter::repeat_with(status).take(TRIES);
            assert_eq!(
                answers.find(|code| *code != OTHER),
                Some(NO_DAEMON),
                "a step failed: {}",
                self.place.log()
            );
        }
        (watch.join().expect("the tracer"), done)
    }

    /// A new daemon finds what was promised.
    fn check(mut self) {
        self.place.start();
        let pool = self.place.arg("tank.pool");
        if !self.find_pool(&pool) {
            assert!(!self.promised.pool, "the pool is gone");
            self.assert_nothing_is_in_the_way(&pool);
            return self.end();
        }
        let datasets = self.place.ok("list -H -o name");
        if !datasets.contains("tank/a\n") {
            assert!(!self.promised.dataset, "the dataset is gone");
            self.assert_sound();
            return self.end();
        }
        self.load_key();
        let mounts = self.place.ok("mount");
        if !mounts.contains("tank/a") {
            self.place.ok("mount tank/a");
        }
        for (name, data) in &self.promised.files {
            let found = fs::read(self.file(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(found == *data, "{name} is not as it was synced");
        }
        assert!(!self.promised.removed || !self.file("two").exists());
        if self.promised.snapshot {
            let old = fs::read(self.file(".snapshot/s/one")).expect("the snapshot");
            assert!(old == contents(1, 300_000));
        }
        let compression = self.place.ok("get -H -o value compression tank/a");
        assert!(!self.promised.property || compression == "off\n");
        // And it goes on.
        write_synced(&self.file("after"), b"after").expect("it can be written");
        self.assert_sound();
        self.end();
    }

    /// Returns whether the pool is imported, or can be.
    fn find_pool(&self, pool: &str) -> bool {
        if self.place.ok("pool list -H -o name") == "tank\n" {
            return true;
        }
        Path::new(pool).exists()
            && self
                .done(&format!("pool import -N -d {pool} tank"))
                .is_some()
    }

    /// A creation that was cut short can be done again.
    fn assert_nothing_is_in_the_way(&self, pool: &str) {
        match Path::new(pool).exists() {
            true => self
                .place
                .ok(&format!("pool create -f -m none tank {pool}")),
            false => self
                .place
                .ok(&format!("pool create -s 16M -m none tank {pool}")),
        };
        self.assert_sound();
    }

    /// The new key, if the change was done; else either.
    fn load_key(&self) {
        if self.place.ok("get -H -o value keystatus tank/a") == "available\n" {
            return;
        }
        let load = |key: &str| {
            let key = self.place.arg(key);
            self.done(&format!("key load -L file://{key} tank/a"))
        };
        let new = load("key2");
        assert!(
            !self.promised.key_changed || new.is_some(),
            "the new key does not fit"
        );
        assert!(new.or_else(|| load("key1")).is_some(), "no key fits");
    }

    fn assert_sound(&self) {
        self.place.ok("pool scrub -w tank");
        self.place.says("pool status tank", "with 0 errors");
        self.place
            .says("inspect --check tank", "belongs to exactly one thing");
    }

    fn end(mut self) {
        self.place.ok("pool export tank");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        assert!(!mounts.contains(&self.place.arg("mnt")), "a mount was left");
        self.place.ok("daemon stop");
        self.place.wait_for_end();
        assert!(!self.place.socket().exists(), "a socket was left");
    }
}

/// The calls at which to kill, of `all`: every so many, from one on that the seed decides.
fn chosen(all: u64) -> Vec<u64> {
    let seed: u64 = std::env::var("STRONGROOM_SEEDS")
        .ok()
        .and_then(|text| text.split('+').next()?.parse().ok())
        .unwrap_or(7);
    let stride = match std::env::var_os("STRONGROOM_EVERY_CALL") {
        Some(value) if value == "1" => 1,
        _ => (all / SAMPLE).max(1),
    };
    let first = 1 + seed % stride;
    (first..=all).step_by(stride as usize).collect()
}

#[test]
fn the_daemon_may_be_killed_at_any_call() {
    needs!(can_mount());
    let mut whole = Session::new();
    let (all, done) = whole.watched(None);
    assert!(done, "{}", whole.place.log());
    whole.check();

    let calls = chosen(all);
    eprintln!("{} of {all} calls", calls.len());
    for call in calls {
        let mut session = Session::new();
        session.watched(Some(call));
        eprintln!("killed at call {call}");
        session.check();
    }
}
