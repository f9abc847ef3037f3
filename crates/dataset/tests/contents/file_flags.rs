//! Flags of files that forbid changes: what each forbids to every caller, and that they are kept.

use std::sync::Arc;

use crate::common::*;
use block::fault::{FaultClock, FaultDevice, Survival};
use cipher::Suite;
use dataset::{Dataset, Settings};
use pool::Pool;
use vfs::{
    Error, Fallocate, FileFlags, FileSystem, Ino, Kind, NewNode, ROOT, RenameMode, SetAttr,
    SetTime, SetXattr, Time,
};

const NONE: FileFlags = FileFlags {
    immutable: false,
    append_only: false,
    no_dump: false,
};
const IMMUTABLE: FileFlags = FileFlags {
    immutable: true,
    ..NONE
};
const APPEND_ONLY: FileFlags = FileFlags {
    append_only: true,
    ..NONE
};
const NO_DUMP: FileFlags = FileFlags {
    no_dump: true,
    ..NONE
};
const HOW: SetXattr = SetXattr {
    create: false,
    replace: false,
    kill_sgid: false,
};
/// An ACL with one user, with the rights of a mode.
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
/// Larger than what lies in the tree.
const LONG: [u8; 5000] = [7; 5000];

struct Bench {
    device: Arc<FaultDevice>,
    pool: Pool,
    files: Arc<Dataset>,
    dir: Ino,
    file: Ino,
}

/// A directory with a file, and another file beside it.
fn bench() -> Bench {
    let (device, pool, files) = opened(16 << 20, None, 0);
    let node = NewNode::new(Kind::Directory, 0o755);
    let dir = files.mkdir(&ROOT_USER, ROOT, b"dir", &node).unwrap().ino;
    let node = NewNode::new(Kind::File, 0o644);
    let file = files.create(&ROOT_USER, dir, b"file", &node).unwrap().ino;
    files.write(file, 0, &LONG, false).unwrap();
    let other = files.create(&ROOT_USER, ROOT, b"other", &node).unwrap().ino;
    files.write(other, 0, &LONG, false).unwrap();
    Bench {
        device,
        pool,
        files,
        dir,
        file,
    }
}

/// A change of a file or its directory, and whether it adds only.
type Change = (&'static str, bool, Box<dyn Fn(&Bench) -> vfs::Result<()>>);

fn change(
    name: &'static str,
    adds: bool,
    act: impl Fn(&Bench) -> vfs::Result<()> + 'static,
) -> Change {
    (name, adds, Box::new(act))
}

fn set(change: impl Fn(&mut SetAttr) + 'static) -> impl Fn(&Bench) -> vfs::Result<()> {
    move |b| {
        let mut set = SetAttr::default();
        change(&mut set);
        b.files.setattr(&ROOT_USER, b.file, &set).map(drop)
    }
}

fn rename(b: &Bench, from: (Ino, &[u8]), to: (Ino, &[u8]), mode: RenameMode) -> vfs::Result<()> {
    b.files.rename(from.0, from.1, to.0, to.1, mode)
}

fn changes_of_a_file() -> Vec<Change> {
    let other = |b: &Bench| b.files.lookup(ROOT, b"other").unwrap().ino;
    vec![
        change("overwrite", false, |b| {
            b.files.write(b.file, 4999, b"x", false)
        }),
        change("leave a hole", false, |b| {
            b.files.write(b.file, 5001, b"x", false)
        }),
        change("truncate", false, set(|set| set.size = Some(0))),
        change("extend", false, set(|set| set.size = Some(1 << 20))),
        change("mode", false, set(|set| set.mode = Some(0o600))),
        change("owner", false, set(|set| set.uid = Some(5))),
        change("group", false, set(|set| set.gid = Some(5))),
        change(
            "time",
            false,
            set(|set| set.mtime = Some(SetTime::At(Time::default()))),
        ),
        change("present", true, set(|set| set.mtime = Some(SetTime::Now))),
        change("punch", false, |b| {
            b.files.fallocate(b.file, 0, 4096, Fallocate::Punch)
        }),
        change("zero", false, |b| {
            b.files
                .fallocate(b.file, 0, 4096, Fallocate::Zero { keep_size: true })
        }),
        change("allocate", true, |b| {
            b.files
                .fallocate(b.file, 0, 4096, Fallocate::Allocate { keep_size: true })
        }),
        change("copy over it", false, move |b| {
            b.files.copy_range(other(b), 0, b.file, 0, 5000).map(drop)
        }),
        change("copy behind it", true, move |b| {
            let size = b.files.getattr(b.file).unwrap().size;
            b.files.copy_range(other(b), 0, b.file, size, 10).map(drop)
        }),
        change("append", true, |b| {
            let size = b.files.getattr(b.file).unwrap().size;
            b.files.write(b.file, size, b"x", false)
        }),
        change("attribute", false, |b| {
            b.files.setxattr(b.file, b"user.a", b"v", HOW)
        }),
        change("large attribute", false, |b| {
            b.files.setxattr(b.file, b"user.b", &LONG, HOW)
        }),
        change("ACL", false, |b| {
            b.files
                .setxattr(b.file, b"system.posix_acl_access", ACL, HOW)
        }),
        change("no attribute", false, |b| {
            b.files.removexattr(b.file, b"user.kept")
        }),
        change("link", false, |b| {
            b.files.link(b.file, ROOT, b"link").map(drop)
        }),
        change("rename", false, |b| {
            rename(b, (b.dir, b"file"), (ROOT, b"moved"), RenameMode::Replace)?;
            rename(b, (ROOT, b"moved"), (b.dir, b"file"), RenameMode::Replace)
        }),
        change("exchange", false, |b| {
            rename(b, (b.dir, b"file"), (ROOT, b"other"), RenameMode::Exchange)?;
            rename(b, (b.dir, b"file"), (ROOT, b"other"), RenameMode::Exchange)
        }),
        change("replace", false, |b| {
            rename(b, (ROOT, b"other"), (b.dir, b"file"), RenameMode::Replace)
        }),
        change("unlink", false, |b| b.files.unlink(b.dir, b"file")),
    ]
}

fn changes_of_a_directory() -> Vec<Change> {
    let node = |kind| NewNode::new(kind, 0o755);
    let make = move |name: &'static str, kind| {
        change(name, true, move |b| {
            b.files
                .mknod(&ROOT_USER, b.dir, name.as_bytes(), &node(kind))
                .map(drop)
        })
    };
    vec![
        make("new", Kind::File),
        make("fifo", Kind::Fifo),
        change("mkdir", true, move |b| {
            b.files
                .mkdir(&ROOT_USER, b.dir, b"sub", &node(Kind::Directory))
                .map(drop)
        }),
        change("symlink", true, |b| {
            b.files.symlink(&ROOT_USER, b.dir, b"sym", b"to").map(drop)
        }),
        change("tmpfile", true, move |b| {
            b.files
                .tmpfile(&ROOT_USER, b.dir, &node(Kind::File))
                .map(drop)
        }),
        change("link into it", true, |b| {
            b.files.link(b.file, b.dir, b"linked").map(drop)
        }),
        change("move into it", true, |b| {
            rename(
                b,
                (ROOT, b"other"),
                (b.dir, b"moved"),
                RenameMode::NoReplace,
            )
        }),
        change("rename in it", false, |b| {
            rename(b, (b.dir, b"file"), (b.dir, b"again"), RenameMode::Replace)?;
            rename(b, (b.dir, b"again"), (b.dir, b"file"), RenameMode::Replace)
        }),
        change("move it", false, |b| {
            rename(b, (ROOT, b"dir"), (ROOT, b"there"), RenameMode::Replace)?;
            rename(b, (ROOT, b"there"), (ROOT, b"dir"), RenameMode::Replace)
        }),
        change("default ACL", false, |b| {
            b.files
                .setxattr(b.dir, b"system.posix_acl_default", ACL, HOW)
        }),
        change("unlink in it", false, |b| b.files.unlink(b.dir, b"file")),
        change("rmdir", false, |b| b.files.rmdir(ROOT, b"dir")),
    ]
}

/// The kernel checks no permission for them, so any user of a file could store data of its own in them.
#[test]
fn system_attributes_that_linux_does_not_know_are_refused() {
    let b = bench();
    for name in [&b"system.nfs4_acl"[..], b"system.", b"system.posix_acl"] {
        let done = b.files.setxattr(b.file, name, b"v", HOW);
        assert_eq!(done, Err(Error::NotSupported));
    }
    assert_eq!(b.files.listxattr(b.file), Ok(Vec::new()));
}

/// Each change is refused where it has to be, and changes nothing then; without the flags it works.
fn check(changes: &dyn Fn() -> Vec<Change>, marked: &dyn Fn(&Bench) -> Ino) {
    for (name, adds, act) in changes() {
        for (flags, is_refused) in [(IMMUTABLE, true), (APPEND_ONLY, !adds), (NO_DUMP, false)] {
            let b = bench();
            b.files.setxattr(b.file, b"user.kept", b"v", HOW).unwrap();
            let ino = marked(&b);
            b.files.set_flags(ino, flags).unwrap();
            let before = b.files.getattr(ino).unwrap();
            let done = act(&b);
            if is_refused {
                assert_eq!(done, Err(Error::NotPermitted), "{name}, {flags:?}");
                assert_eq!(b.files.getattr(ino).unwrap(), before, "{name}, {flags:?}");
                assert_eq!(b.files.flags(ino), Ok(flags));
                b.files.set_flags(ino, NONE).unwrap();
                // Only an empty directory can be removed.
                let empty = if name == "rmdir" {
                    Err(Error::NotEmpty)
                } else {
                    Ok(())
                };
                assert_eq!(act(&b), empty, "{name}, once more");
            } else if name != "rmdir" {
                assert_eq!(done, Ok(()), "{name}, {flags:?}");
            }
        }
    }
}

#[test]
fn flags_of_a_file_forbid_what_they_say() {
    check(&changes_of_a_file, &|b| b.file);
}

#[test]
fn flags_of_a_directory_forbid_what_they_say() {
    check(&changes_of_a_directory, &|b| b.dir);
}

#[test]
fn contents_can_be_read_and_an_access_time_is_none_of_it() {
    let b = bench();
    b.files.set_flags(b.file, IMMUTABLE).unwrap();
    assert_eq!(b.files.read(b.file, 0, 10).unwrap().concat(), LONG[..10]);
    // An empty write changes nothing.
    assert_eq!(b.files.write(b.file, 0, b"", false), Ok(()));
}

fn requires_flags(pool: &Pool) -> bool {
    let features = pool.features();
    let mut features = features.iter().filter(|(_, is_on)| *is_on);
    features.any(|(feature, _)| feature.name == "file-flags")
}

/// The bits in the superblock come with the first flag at the latest, also from the log, and flags come with them.
#[test]
fn flags_are_kept_and_the_pool_requires_programs_that_know_them() {
    let suite = Some(Suite::Xaes256Gcm);
    let device = fault_device(16 << 20, &FaultClock::new());
    let pool = create_pool(&device, suite);
    let files = open_files(&pool, suite, Settings::default(), 0);
    let file = create_file(&files, "file").unwrap();
    // The second uses a log.
    files.fsync(file, false).unwrap();
    files.fsync(file, false).unwrap();
    assert!(!requires_flags(&pool));
    files.set_flags(file, APPEND_ONLY).unwrap();
    files.write(file, 0, b"appended", false).unwrap();
    files.fsync(file, false).unwrap();
    drop((files, pool));
    let image = device.take_journal().image(u64::MAX, Survival::None);
    let pool = open_image(image).unwrap();
    assert!(requires_flags(&pool));
    let files = open_files(&pool, suite, Settings::default(), 0);
    assert_eq!(files.flags(file), Ok(APPEND_ONLY));
    assert_eq!(files.write(file, 0, b"x", false), Err(Error::NotPermitted));
    assert_eq!(files.write(file, 8, b", too", false), Ok(()));
    assert_clean(&pool);
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new_flags() {
    let b = bench();
    b.pool.commit().unwrap();
    b.device.take_journal();
    b.files.set_flags(b.dir, IMMUTABLE).unwrap();
    b.pool.commit().unwrap();
    let Bench {
        device,
        dir,
        files,
        pool,
        ..
    } = b;
    drop((files, pool));
    let journal = device.take_journal();
    let mut seen = [false; 2];
    let end = journal.times().last().copied().unwrap_or(0);
    for cut in journal.times().into_iter().chain([end + 1]) {
        let pool = open_cut(&journal, cut, Survival::None).unwrap();
        let files = open_files(&pool, None, Settings::default(), 0);
        let found = files.flags(dir).unwrap();
        assert!([NONE, IMMUTABLE].contains(&found));
        assert!(requires_flags(&pool) || found == NONE);
        seen[usize::from(found.immutable)] = true;
    }
    assert_eq!(seen, [true; 2]);
}
