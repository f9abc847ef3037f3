//! Two pools, and files with streams between them.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use super::*;

/// A place with pools, whose datasets are mounted below `mnt`.
pub struct Bench {
    pub place: Place,
}

impl Bench {
    /// Two pools, and in the first an encrypted dataset, mounted, with a snapshot.
    pub fn new() -> Option<Bench> {
        needs!(can_mount());
        let place = Place::new();
        for name in ["a", "b"] {
            place.ok(&format!("keygen {}", place.arg(name)));
        }
        let bench = Bench { place };
        for pool in ["tank", "safe"] {
            let (dir, file) = (
                bench.place.arg(&format!("mnt/{pool}")),
                bench.place.arg(&format!("{pool}.pool")),
            );
            bench.ok(&format!("pool create -s 64M -m {dir} {pool} {file}"));
        }
        let key = bench.key("a");
        bench.ok(&format!("create -o encryption=on -o {key} tank/a"));
        // Its transaction groups are far ahead of those of the other pool.
        for _ in 0..30 {
            bench.ok("set org:note=x tank");
        }
        bench.write("tank/a", "first", &"1".repeat(300_000));
        bench.ok("snapshot tank/a@1");
        Some(bench)
    }

    pub fn ok(&self, line: &str) -> String {
        self.place.ok(line)
    }

    pub fn key(&self, name: &str) -> String {
        format!("keysource=raw,file://{}", self.place.arg(name))
    }

    pub fn file(&self, dataset: &str, name: &str) -> PathBuf {
        self.place.path("mnt").join(dataset).join(name)
    }

    pub fn write(&self, dataset: &str, name: &str, text: &str) {
        fs::write(self.file(dataset, name), text).unwrap();
    }

    /// Writes a file, and takes a snapshot.
    pub fn write_for(&self, snapshot: &str, name: &str, text: &str) {
        let (dataset, _) = snapshot.split_once('@').expect("a snapshot");
        self.write(dataset, name, text);
        self.ok(&format!("snapshot {snapshot}"));
    }

    /// Loads the key of a dataset, and mounts it.
    pub fn open(&self, dataset: &str) {
        self.ok(&format!("key load {dataset}"));
        self.ok(&format!("mount {dataset}"));
    }

    /// Sends by way of a file.
    pub fn copy(&self, what: &str, file: &str, to: &str) {
        self.send(what, file);
        self.receive(to, file);
    }

    pub fn read(&self, dataset: &str, name: &str) -> Option<String> {
        fs::read_to_string(self.file(dataset, name)).ok()
    }

    /// Writes a stream, and says whether that went well.
    pub fn sends(&self, line: &str, file: &str) -> bool {
        let mut command = self.place.command();
        command.args(words(line));
        command.stdout(fs::File::create(self.place.path(file)).unwrap());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    }

    pub fn send(&self, what: &str, file: &str) {
        assert!(self.sends(&format!("send -w {what}"), file), "{what}");
    }

    pub fn stream(&self, file: &str) -> Vec<u8> {
        fs::read(self.place.path(file)).unwrap()
    }

    pub fn receive_bytes(&self, line: &str, bytes: &[u8]) -> Done {
        let line = format!("receive {line}");
        self.place.run_with(&words(&line), bytes)
    }

    /// Receives what mounts by itself like any dataset, and whose key is where the stream says.
    pub fn receive(&self, line: &str, file: &str) {
        let trusting = format!("-x canmount {line}");
        let done = self.receive_bytes(&trusting, &self.stream(file));
        assert_eq!(done.code, 0, "{done:?}\n{}", self.place.log());
        let target = words(line).pop().expect("a dataset");
        let (dataset, _) = target.split_once('@').unwrap_or((target, ""));
        self.ok(&format!("key accept -r {dataset}"));
    }

    #[track_caller]
    pub fn refused(&self, line: &str, file: &str, why: &str) {
        let done = self.receive_bytes(line, &self.stream(file));
        assert_eq!(done.code, USAGE, "{done:?}");
        assert!(done.err.contains(why), "{done:?}");
    }

    /// Mounts a dataset with keys that are loaded anew, after its pool was imported again.
    pub fn open_again(&self, pool: &str) {
        self.ok("unmount -a");
        self.ok("key unload -a");
        self.ok(&format!("pool export {pool}"));
        let file = self.place.arg(&format!("{pool}.pool"));
        self.ok(&format!("pool import -N -d {file} {pool}"));
        self.ok(&format!("inspect --check {pool}"));
        self.ok("mount -a -l");
    }
}
