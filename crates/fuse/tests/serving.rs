//! Requests are served side by side, also if the file system fails.

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Barrier, mpsc};

use fuse::{OpenReports, Options};
use parking_lot::Mutex;

#[test]
fn a_panic_is_an_error_for_one_call() {
    let mounted = mounted_or_skip!();
    let name = std::str::from_utf8(common::memfs::PANIC).unwrap();
    for _ in 0..100 {
        let error = fs::read(mounted.path(name)).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::IO.raw_os_error())
        );
    }
    fs::write(mounted.path("file"), b"alive").unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"alive");
    mounted.mount.unmount(false).unwrap();
}

#[test]
fn as_many_requests_as_there_are_workers_go_on_at_the_same_time() {
    const WORKERS: usize = 12;
    let mounted = mounted_or_skip!(&Options {
        threads: NonZeroUsize::new(WORKERS),
        ..Options::default()
    });
    for number in 0..WORKERS {
        fs::write(mounted.path(&format!("{number}")), b"x").unwrap();
    }
    // No thread passes this before all are there.
    let barrier = Arc::new(Barrier::new(WORKERS));
    mounted.fs.set_hook(move |what, _| {
        if what == "read" {
            barrier.wait();
        }
    });
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let path = mounted.path(&format!("{number}"));
            scope.spawn(move || assert_eq!(fs::read(path).unwrap(), b"x"));
        }
    });
}

#[test]
fn a_slow_request_does_not_hold_up_others() {
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("slow"), b"x").unwrap();
    for round in 0..20 {
        let (go_on, gate) = mpsc::channel::<()>();
        let (at_sync, syncing) = mpsc::channel();
        let gate = Mutex::new(gate);
        mounted.fs.set_hook(move |what, _| {
            if what == "fsync" {
                let _ = at_sync.send(());
                let _ = gate.lock().recv();
            }
        });
        let slow = File::open(mounted.path("slow")).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slow.sync_all());
            syncing.recv().unwrap();
            fs::write(mounted.path(&format!("{round}")), b"meanwhile").unwrap();
            drop(go_on);
            waiting.join().unwrap().unwrap();
        });
    }
}

#[test]
fn many_threads_at_work() {
    let mounted = mounted_or_skip!();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let dir = mounted.path(&format!("dir-{number}"));
            scope.spawn(move || {
                fs::create_dir(&dir).unwrap();
                for round in 0..200 {
                    let (path, moved) = (dir.join("file"), dir.join(format!("{round}")));
                    let mut file = File::create(&path).unwrap();
                    for piece in 0..5 {
                        writeln!(file, "{number} {round} {piece}").unwrap();
                    }
                    drop(file);
                    fs::rename(&path, &moved).unwrap();
                    let lines = fs::read_to_string(&moved).unwrap();
                    assert_eq!(lines.lines().last().unwrap(), format!("{number} {round} 4"));
                    if round % 3 == 0 {
                        fs::remove_file(&moved).unwrap();
                    }
                }
                let names: BTreeSet<_> = fs::read_dir(&dir)
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect();
                assert_eq!(names.len(), 133);
                fs::remove_dir_all(&dir).unwrap();
            });
        }
    });
    assert!(mounted.fs.wait_for_inodes(1));
    assert!(mounted.fs.wait_for_no_lookups());
}

/// The kernel forgets files when there are too many, whatever they were renamed to, and never those that are
/// open. What it forgot it finds again.
#[test]
fn the_kernel_forgets_what_is_too_much() {
    const FILES: u64 = 2000;
    let mounted = mounted_or_skip!(&Options {
        known_max: NonZeroUsize::new(200),
        hears: OpenReports::Opens,
        ..Options::default()
    });
    let path = |number: u64| mounted.path(&format!("a/{number}"));
    let renamed = |number: u64| mounted.path(&format!("b/{number}"));
    for dir in ["a", "b"] {
        fs::create_dir(mounted.path(dir)).unwrap();
    }
    let open = File::create(path(0)).unwrap();
    for number in 1..FILES {
        fs::write(path(number), number.to_string()).unwrap();
        fs::rename(path(number), renamed(number)).unwrap();
    }
    // Each step forgets 25 files. What is left is below the bound, or will be with the next requests: on a busy machine
    // the steps lag behind.
    let mut next = FILES;
    while mounted.fs.lookups() > 220 && next < 2 * FILES {
        fs::write(path(next), "next").unwrap();
        fs::remove_file(path(next)).unwrap();
        next += 1;
    }
    assert!(mounted.fs.wait_for_lookups(220));
    let shown = format!("/proc/self/fd/{}", open.as_raw_fd());
    assert_eq!(fs::read_link(shown).unwrap(), path(0));
    for number in (1..FILES).step_by(50) {
        let text = fs::read_to_string(renamed(number)).unwrap();
        assert_eq!(text, number.to_string());
    }
    assert_eq!(
        fs::read_dir(mounted.path("b")).unwrap().count() as u64,
        FILES - 1
    );
}

#[test]
fn one_worker_is_enough() {
    let mounted = mounted_or_skip!(&Options {
        threads: NonZeroUsize::new(1),
        ..Options::default()
    });
    let data = vec![1; 5 << 20];
    fs::write(mounted.path("file"), &data).unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), data);
    mounted.mount.unmount(false).unwrap();
}

/// The policy of the calling thread as the kernel tells it: 5 is `SCHED_IDLE`.
fn policy() -> u32 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // Field 41; the name, which may contain anything, is field 2.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(38).unwrap().parse().unwrap()
}

/// Returns whether no more tasks run or could than there are processors.
fn has_idle_processor() -> bool {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap();
    let running = loadavg.split([' ', '/']).nth(3).unwrap();
    running.parse::<usize>().unwrap() <= std::thread::available_parallelism().unwrap().get()
}

/// The right counts in the first user namespace alone.
fn may_set_priorities() -> bool {
    let sets = rustix::thread::capabilities(None).unwrap();
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    let has_right = sets
        .effective
        .contains(rustix::thread::CapabilitySet::SYS_NICE);
    has_right && users.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A worker yields to the one program that it serves, and to no other.
#[test]
fn a_worker_yields_to_one_program() {
    const IDLE: u32 = 5;
    if !may_set_priorities() || std::thread::available_parallelism().unwrap().get() == 1 {
        eprintln!("skipped: no right to set priorities (CAP_SYS_NICE), or one processor");
        return;
    }
    let mounted = mounted_or_skip!();
    let file = File::create(mounted.path("file")).unwrap();
    let seen = Arc::new(Mutex::new(0));
    let hooked = Arc::clone(&seen);
    mounted.fs.set_hook(move |_, _| *hooked.lock() = policy());
    let write = || {
        file.write_at(b"small", 0).unwrap();
        *seen.lock()
    };
    let (mut quiet, mut yields) = (0, false);
    for _ in 0..400 {
        yields |= (0..64).any(|_| write() == IDLE);
        quiet += u32::from(has_idle_processor());
        if yields {
            break;
        }
    }
    if !yields {
        assert!(quiet < 200, "it does not yield");
        eprintln!("skipped: the processors are busy");
        return;
    }
    // The next one waits for no program that computes.
    let other = std::thread::scope(|scope| scope.spawn(write).join().unwrap());
    assert_ne!(other, IDLE);
    drop(file);
    mounted.mount.unmount(false).unwrap();
}
