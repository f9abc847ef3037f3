//! The kernel keeps no contents of datasets with `primarycache=metadata` or `none`: nothing is readable that the daemon
//! does not decrypt for it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::*;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const PAGES: u64 = 256;

/// Reads files, and waits for a line. Then it prints how many pages of each the kernel keeps (`cachestat`, Linux 6.5).
/// The files stay open until another line comes: closing may wait for the daemon.
const SCRIPT: &str = "
import ctypes, sys
files = [open(path, 'rb', buffering=0) for path in sys.argv[1:]]
for file in files:
    assert len(file.readall()) == 1 << 20
def pages(fd):
    every, found = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    failed = ctypes.CDLL(None).syscall(451, fd, every, found, 0)
    return -1 if failed else found[0]
print('read', flush=True)
sys.stdin.readline()
print(*[pages(file.fileno()) for file in files], flush=True)
sys.stdin.readline()
";

/// A program that has read files and keeps them open.
struct Reader {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Reader {
    fn new(paths: &[PathBuf]) -> Reader {
        let mut command = Command::new("python3");
        let command = command.args(["-c", SCRIPT]).args(paths);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut reader = Reader { child, lines };
        assert_eq!(reader.line(), "read");
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Pages that the kernel keeps of each file; none, with the reason printed, where it does not say.
    fn pages(&mut self) -> Option<Vec<u64>> {
        self.child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        let pages = self.line().split(' ').map(str::parse).collect();
        if Result::is_err(&pages) {
            eprintln!("skipped: no cachestat");
        }
        pages.ok()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Pages that the kernel keeps of a file after it was read.
fn pages(path: PathBuf) -> Option<u64> {
    Reader::new(&[path]).pages().map(|pages| pages[0])
}

/// A pool with an encrypted dataset that is mounted at `mnt`.
fn place(options: &str) -> Place {
    let place = Place::new();
    place.ok("pool create -s 256M -O mountpoint=none tank {DIR}/a");
    place.ok("keygen {DIR}/key");
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{{DIR}}/key -o mountpoint={{DIR}}/mnt {options} tank/fs"
    ));
    place
}

#[test]
fn with_the_daemon_stopped_nothing_is_left() {
    needs!(can_mount());
    let contents = contents(1, PAGES as usize * 4096);
    for (value, kept) in [("all", PAGES), ("metadata", 0), ("none", 0)] {
        let place = place(&format!("-o primarycache={value}"));
        fs::write(place.path("mnt/file"), &contents).unwrap();
        place.ok("snapshot tank/fs@then");
        // It has the key and the property of the dataset that it is in.
        place.ok("clone -o mountpoint={DIR}/clone tank/fs@then tank/fs/clone");
        let paths = ["mnt/file", "mnt/.snapshot/then/file", "clone/file"];
        let mut reader = Reader::new(&paths.map(|path| place.path(path)));
        let daemon = Pid::from_raw(place.pid().cast_signed()).unwrap();
        kill_process(daemon, Signal::STOP).unwrap();
        waitpid(Some(daemon), WaitOptions::UNTRACED).unwrap();
        let found = reader.pages();
        kill_process(daemon, Signal::CONT).unwrap();
        let Some(found) = found else { return };
        assert_eq!(found, [kept; 3], "{value}");
    }
}

#[test]
fn a_mount_keeps_what_it_began_with_and_says_so() {
    needs!(can_mount());
    let contents = contents(2, PAGES as usize * 4096);
    let place = place("");
    let path = place.path("mnt/file");
    fs::write(&path, &contents).unwrap();
    let kept = needs!(pages(path.clone()));
    assert_eq!(kept, PAGES);
    let set = |value: &str| {
        let set = place.run(&["set", &format!("primarycache={value}"), "tank/fs"]);
        assert_eq!(set.code, 0, "{set:?}");
        set.err
    };
    let again =
        "until it is mounted again: strongroom unmount tank/fs, then strongroom mount tank/fs";
    let told = set("metadata");
    has(
        &told,
        "the kernel keeps in its own memory what is read there as before",
    );
    has(&told, again);
    assert_eq!(place.ok("set compression=off tank/fs"), "");
    assert_eq!(set("all"), "", "as it was mounted");
    has(&set("none"), again);
    place.ok("unmount tank/fs");
    place.ok("mount tank/fs");
    assert_eq!(pages(path.clone()), Some(0));
    assert_eq!(set("none"), "", "as it is mounted");
    has(&set("all"), "does not keep contents of its files as before");
}

/// The log of the database has an index that all processes map, and the database itself is mapped too.
#[test]
fn a_database_that_maps_its_files_works() {
    needs!(can_mount() && is_installed("sqlite3"));
    let place = place("-o primarycache=metadata");
    let database = place.path("mnt/a.db");
    let sql = |text: &str| {
        let output = Command::new("sqlite3").arg(&database).arg(text).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    sql("pragma journal_mode=wal; create table t(a integer primary key, b blob);");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..10 {
                    sql("pragma busy_timeout=60000; pragma mmap_size=268435456; insert into t(b) values (randomblob(9000));");
                }
            });
        }
    });
    let found = sql("pragma mmap_size=268435456; select count(*) from t; pragma integrity_check;");
    assert_eq!(found, "268435456\n30\nok\n");
}
