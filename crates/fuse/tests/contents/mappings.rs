//! Stores through a mapping and `write` at the same time: both are kept.
//!
//! To map memory takes `unsafe`, which this crate does without. So Python maps, and the test says
//! when each step is due.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use fuse::{KernelCache, Options};
use parking_lot::Mutex;

use crate::common;
use crate::common::Mounted;
use crate::mounted_or_skip;

const PAGE: usize = 4096;

/// Maps a page of a file, and begins to write to the front of it. When it is told to, it stores to the
/// middle of the page through the mapping. At the end it says what the mapping has.
const SCRIPT: &str = "
import mmap, os, sys, threading
path, how = sys.argv[1:]
if how != 'created':
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.truncate(fd, 4096)
try:
    view = mmap.mmap(fd, 4096)
except OSError as error:
    sys.exit(str(error))
print('mapped', flush=True)
assert view[0] == 0
writer = threading.Thread(target=os.pwrite, args=(fd, b'w' * 8, 0))
writer.start()
sys.stdin.readline()
view[2048:2056] = b'm' * 8
print('stored', flush=True)
writer.join()
view.flush()
print(view[:8] + view[2048:2056], flush=True)
";

struct Script {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Script {
    /// None, with the reason printed, where there is no Python.
    fn start(mounted: &Mounted, how: &str) -> Option<Script> {
        let started = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(mounted.path("file"))
            .arg(how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            eprintln!("skipped: there is no python3");
            return None;
        };
        let lines = BufReader::new(child.stdout.take().unwrap());
        Some(Script { child, lines })
    }

    fn go_on(&mut self) {
        let mut input = self.child.stdin.as_ref().unwrap();
        input.write_all(b"\n").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The file was made by the descriptor that is mapped, or was there before.
#[test]
fn a_page_that_is_mapped_in_during_a_write_keeps_the_write() {
    let _alone = common::alone();
    for (how, kernel_cache) in [
        ("created", KernelCache::All),
        ("opened", KernelCache::All),
        ("created", KernelCache::Metadata),
        ("opened", KernelCache::Metadata),
    ] {
        let mounted = mounted_or_skip!(&Options {
            kernel_cache,
            ..Options::default()
        });
        let (at_write, written) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        mounted.fs.set_hook(move |what, _| {
            if what == "write" {
                let _ = at_write.send(());
                // Closed once the mapping has been stored to.
                let _ = gate.lock().recv();
            }
        });
        let Some(mut script) = Script::start(&mounted, how) else {
            return;
        };
        if script.line() != "mapped" {
            script.child.wait().unwrap();
            assert!(kernel_cache != KernelCache::All);
            return eprintln!("skipped: this kernel maps no file that it does not keep");
        }
        written.recv().unwrap();
        script.go_on();
        assert_eq!(script.line(), "stored", "{how}");
        drop(go_on);
        assert_eq!(script.line(), "b'wwwwwwwwmmmmmmmm'", "{how}: the mapping");
        assert!(script.child.wait().unwrap().success());
        let stored = fs::read(mounted.path("file")).unwrap();
        assert_eq!(stored.len(), PAGE);
        assert_eq!(stored[..8], *b"wwwwwwww", "{how}: the file");
        assert_eq!(stored[2048..2056], *b"mmmmmmmm", "{how}: the file");
    }
}
