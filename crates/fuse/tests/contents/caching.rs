//! Reads return what was written, by each way through the kernel.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, mpsc};

use fuse::Options;

use crate::common;
use crate::mounted_or_skip;

/// `O_DIRECT`
const O_DIRECT: i32 = 0o40000;

/// The ways a mount may treat writes.
fn ways() -> [Options; 2] {
    [false, true].map(|writeback_cache| Options {
        writeback_cache,
        ..Options::default()
    })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn contents_survive_every_way_of_caching() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        let data = pattern(3 << 20);
        fs::write(&path, &data).unwrap();
        assert_eq!(fs::read(&path).unwrap(), data, "{options:?}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        file.write_all_at(b"in the middle", 1_000_001).unwrap();
        let mut back = [0; 13];
        file.read_exact_at(&mut back, 1_000_001).unwrap();
        assert_eq!(&back, b"in the middle");
        assert_eq!(fs::metadata(&path).unwrap().len(), data.len() as u64);
    }
}

#[test]
fn a_created_file_is_the_same_through_every_descriptor() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        let mut creator = OpenOptions::new();
        let creator = creator
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        creator.write_all_at(b"first", 0).unwrap();
        let reader = File::open(&path).unwrap();
        let mut back = [0; 5];
        reader.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"first");
        creator.write_all_at(b"again", 0).unwrap();
        reader.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"again", "{options:?}");
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        writer.write_all_at(b"other", 0).unwrap();
        creator.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"other", "{options:?}");
        assert_eq!(reader.metadata().unwrap().len(), 5);
    }
}

#[test]
fn appends_of_two_descriptors_do_not_overlap() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("log");
        let mut one = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let mut two = OpenOptions::new().append(true).open(&path).unwrap();
        for _ in 0..500 {
            one.write_all(b"one\n").unwrap();
            two.write_all(b"two\n").unwrap();
        }
        let all = fs::read_to_string(&path).unwrap();
        assert_eq!(all, "one\ntwo\n".repeat(500), "{options:?}");
    }
}

#[test]
fn a_read_during_a_write_leaves_nothing_stale() {
    // With the write-back cache the reader would wait for the writer.
    for options in ways()
        .into_iter()
        .filter(|options| !options.writeback_cache)
    {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        let file = File::create(&path).unwrap();
        file.write_all_at(&[b'a'; 4096], 0).unwrap();
        file.sync_all().unwrap();
        let (at_write, written) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Mutex::new((at_write, gate));
        mounted.fs.set_hook(move |what, _| {
            if what == "write" {
                let gate = gate.lock().unwrap();
                gate.0.send(()).unwrap();
                // Closed after the first write: then nothing holds up the others.
                let _ = gate.1.recv();
            }
        });
        std::thread::scope(|scope| {
            let file = &file;
            let writer = scope.spawn(move || {
                file.write_all_at(&[b'b'; 100], 4096).unwrap();
                file.sync_all().unwrap();
            });
            written.recv().unwrap();
            // Whatever this sees, the kernel may not keep it.
            let _ = fs::read(&path).unwrap();
            drop(go_on);
            writer.join().unwrap();
        });
        let after = fs::read(&path).unwrap();
        assert_eq!(after.len(), 4196);
        assert_eq!(after[4095..4098], *b"abb", "{options:?}");
    }
}

#[test]
fn direct_io_that_a_program_asks_for() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        fs::write(&path, pattern(100_000)).unwrap();
        let mut file = OpenOptions::new();
        let mut file = file
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(&path)
            .unwrap();
        let mut buffer = vec![0; 3 * 4096];
        let start = buffer.as_ptr().align_offset(4096);
        let page = &mut buffer[start..start + 4096];
        file.read_exact(page).unwrap();
        assert_eq!(page, &pattern(4096));
        page.fill(9);
        file.write_all(page).unwrap();
        let all = fs::read(&path).unwrap();
        assert!(all[4096..8192].iter().all(|&byte| byte == 9), "{options:?}");
        assert_eq!(all[8192..], pattern(100_000)[8192..]);
    }
}

/// The kernel does it for writes that go through its cache, and leaves it to the server for others.
#[test]
fn what_is_to_be_durable_at_once_is_synced_by_each_write() {
    use rustix::io::{ReadWriteFlags, pwritev2};
    const O_DSYNC: i32 = 0o10_000;
    const O_SYNC: i32 = 0o4_010_000;
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let said = std::sync::Arc::new(Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&said);
        mounted
            .fs
            .set_hook(move |what, _| noted.lock().unwrap().push(what));
        let syncs = || {
            let said = std::mem::take(&mut *said.lock().unwrap());
            said.iter().filter(|what| **what == "fsync").count()
        };
        let open = |flags: i32, name: &str| {
            let mut file = OpenOptions::new();
            file.write(true).create(true).truncate(false);
            file.custom_flags(flags).open(mounted.path(name)).unwrap()
        };
        // Each file is made by the first who opens it.
        let files = [("a", O_SYNC), ("b", O_DSYNC), ("c", O_DSYNC | O_DIRECT)];
        for (name, flags) in files.into_iter().chain(files) {
            let file = open(flags, name);
            for n in 1..3 {
                file.write_all_at(b"durable", 4096 * n).unwrap();
                assert!(syncs() > 0, "{options:?} {name} {flags:o}");
            }
        }
        let file = open(0, "a");
        file.write_all_at(b"later", 0).unwrap();
        assert_eq!(syncs(), 0, "{options:?}");
        let data = [std::io::IoSlice::new(b"this one")];
        pwritev2(&file, &data, 1000, ReadWriteFlags::DSYNC).unwrap();
        assert!(syncs() > 0, "{options:?}");
    }
}

#[test]
fn truncating_and_extending() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        fs::write(&path, pattern(10_000)).unwrap();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        file.set_len(5000).unwrap();
        file.set_len(9000).unwrap();
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all[..5000], pattern(5000));
        assert!(all[5000..].iter().all(|&byte| byte == 0) && all.len() == 9000);
        drop(
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&path)
                .unwrap(),
        );
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 0, "{options:?}");
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        fs::write(&path, b"still here").unwrap();
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(mounted.fs.inodes(), 2);
        let mut back = String::new();
        file.read_to_string(&mut back).unwrap();
        assert_eq!(back, "still here");
        file.write_all(b", and growing").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 23);
        assert_eq!(mounted.fs.inodes(), 2);
        drop(file);
        assert!(mounted.fs.wait_for_inodes(1), "not forgotten: {options:?}");
        assert!(mounted.fs.wait_for_no_lookups());
    }
}

#[test]
fn a_file_that_is_replaced_stays_what_it_was_for_those_who_have_it_open() {
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("old"), b"old").unwrap();
    fs::write(mounted.path("new"), b"new").unwrap();
    let mut old = File::open(mounted.path("old")).unwrap();
    fs::rename(mounted.path("new"), mounted.path("old")).unwrap();
    let mut back = String::new();
    old.read_to_string(&mut back).unwrap();
    assert_eq!(back, "old");
    assert_eq!(fs::read(mounted.path("old")).unwrap(), b"new");
    drop(old);
    assert!(mounted.fs.wait_for_inodes(2));
}

/// Mapping memory takes `unsafe`, which this crate does without.
fn python(script: &str, path: &Path) -> bool {
    let _alone = common::alone();
    match Command::new("python3")
        .arg("-c")
        .arg(script)
        .arg(path)
        .status()
    {
        Ok(status) => {
            assert!(status.success(), "{script}");
            true
        }
        Err(_) => {
            eprintln!("skipped: there is no python3");
            false
        }
    }
}

#[test]
fn shared_mappings() {
    const SCRIPT: &str = "
import mmap, os, sys
path = sys.argv[1]
for flags in (os.O_RDWR | os.O_CREAT, os.O_RDWR):
    fd = os.open(path, flags, 0o600)
    os.pwrite(fd, b'x' * 10000, 0)
    with mmap.mmap(fd, 10000) as view:
        assert view[:] == b'x' * 10000
        view[5000:5005] = b'hello'
        os.pwrite(fd, b'written', 100)
        assert view[100:107] == b'written', view[100:107]
        view.flush()
        assert os.pread(fd, 5, 5000) == b'hello'
    other = os.open(path, os.O_RDONLY)
    assert os.pread(other, 5, 5000) == b'hello'
    assert os.pread(other, 7, 100) == b'written'
    os.close(other)
    os.close(fd)
";
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        if python(SCRIPT, &path) {
            assert_eq!(
                fs::read(&path).unwrap()[5000..5006],
                *b"hellox",
                "{options:?}"
            );
        }
    }
}

#[test]
fn programs_run_from_the_mount() {
    let _alone = common::alone();
    let mounted = mounted_or_skip!();
    let path = mounted.path("true");
    fs::copy("/bin/true", &path).unwrap();
    assert!(Command::new(&path).status().unwrap().success());
}

#[test]
fn modification_times_follow_writes() {
    for options in ways() {
        let mounted = mounted_or_skip!(&options);
        let path = mounted.path("file");
        let file = File::create(&path).unwrap();
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        file.set_modified(long_ago).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
        file.write_all_at(b"data", 0).unwrap();
        let now = fs::metadata(&path).unwrap().modified().unwrap();
        assert!(now > long_ago, "{options:?}");
        drop(file);
        assert!(
            fs::metadata(&path).unwrap().modified().unwrap() > long_ago,
            "{options:?}"
        );
    }
}
