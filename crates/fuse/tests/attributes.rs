//! Attributes, extended attributes, and the space of the file system.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use fuse::Options;
use rustix::fs::{AtFlags, CWD, StatxFlags, XattrFlags};
use rustix::io::Errno;

const NOBODY: u32 = 65534;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 70_000];
    let len = rustix::fs::lgetxattr(path, name, &mut value)?;
    value.truncate(len);
    Ok(value)
}

#[test]
fn modes_owners_and_times() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"x").unwrap();
    set_mode(&path, 0o4751);
    assert_eq!(mode(&path), 0o4751);
    if rustix::process::geteuid().is_root() {
        chown(&path, Some(12), Some(34)).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (12, 34));
        assert_eq!(
            mode(&path),
            0o751,
            "a change of the owner clears set-user-ID"
        );
    }
    let file = File::options().write(true).open(&path).unwrap();
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_nanos(1_500_000_001);
    let after_2106 = SystemTime::UNIX_EPOCH + Duration::new(5_000_000_000, 123_456_789);
    let times = fs::FileTimes::new()
        .set_accessed(before_1970)
        .set_modified(after_2106);
    file.set_times(times).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.accessed().unwrap(), before_1970);
    assert_eq!(found.modified().unwrap(), after_2106);
}

#[test]
fn birth_times() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"x").unwrap();
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = rustix::fs::statx(CWD, &path, AtFlags::empty(), mask).unwrap();
    assert!(found.stx_mask & StatxFlags::BTIME.bits() != 0);
    let born = fs::metadata(&path).unwrap().created().unwrap();
    set_mode(&path, 0o600);
    assert_eq!(fs::metadata(&path).unwrap().created().unwrap(), born);
    let age = SystemTime::now().duration_since(born).unwrap();
    assert!(age < Duration::from_secs(60));
    assert!(mounted.count("STATX") > 0);
}

#[test]
fn attributes_are_remembered() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"x").unwrap();
    let ask = || assert_eq!(rustix::fs::stat(&path).unwrap().st_size, 1);
    ask();
    let before = mounted.count("GETATTR") + mounted.count("LOOKUP");
    (0..100).for_each(|_| ask());
    assert_eq!(mounted.count("GETATTR") + mounted.count("LOOKUP"), before);
}

#[test]
fn writing_clears_set_user_id_for_the_unprivileged() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    for writeback_cache in [false, true] {
        let mounted = mounted_or_skip!(&Options {
            allow_other: true,
            writeback_cache,
            ..Options::default()
        });
        set_mode(mounted.dir.path(), 0o777);
        let path = mounted.path("file");
        fs::write(&path, b"x").unwrap();
        // Clear for a write by someone else, and stays for one by root.
        set_mode(&path, 0o6777);
        fs::write(&path, b"y").unwrap();
        assert_eq!(mode(&path), 0o6777);
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            let command = command
                .arg("-c")
                .arg(script)
                .current_dir("/")
                .env("F", &path);
            assert!(
                command.uid(NOBODY).gid(NOBODY).status().unwrap().success(),
                "{script}"
            );
        };
        shell(r#"printf z >>"$F""#);
        assert_eq!(mode(&path), 0o777, "{writeback_cache}");
        set_mode(&path, 0o6777);
        shell(r#": >"$F""#);
        assert_eq!(mode(&path), 0o777, "{writeback_cache}");
    }
}

/// Ways of changing a file as someone unprivileged, in Python, where `f` is its descriptor.
const CHANGES: [&str; 4] = [
    "os.pwrite(f, b'\\x7f', 0)",
    "os.posix_fallocate(f, 1 << 20, 4096)",
    "os.copy_file_range(os.open(os.environ['F'] + '.source', 0), f, 4, 0, 0)",
    "import mmap; m = mmap.mmap(-1, 4096); os.preadv(os.open(os.environ['F'], 0), [m], 0); \
     os.pwritev(os.open(os.environ['F'], os.O_RDWR | os.O_DIRECT), [m], 0)",
];

#[test]
fn whatever_changes_a_program_takes_its_privileges() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    // Where mounts may be idmapped, the kernel does not say who changes it.
    for idmapped in [false, true] {
        let mounted = mounted_or_skip!(&Options {
            allow_other: true,
            idmapped,
            ..Options::default()
        });
        set_mode(mounted.dir.path(), 0o777);
        let path = mounted.path("id");
        let nobody = |command: &mut Command| {
            let command = command.env("F", &path).current_dir("/");
            let output = command.uid(NOBODY).gid(NOBODY).output().unwrap();
            assert!(output.status.success(), "{command:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let who = || nobody(Command::new(&path).arg("-u"));
        fs::write(mounted.path("id.source"), b"\x7fELF").unwrap();
        for change in CHANGES {
            fs::write(&path, fs::read("/usr/bin/id").unwrap()).unwrap();
            set_mode(&path, 0o6777);
            assert_eq!(who(), "0\n");
            let script = format!("import os; f = os.open(os.environ['F'], os.O_RDWR); {change}");
            let mut python = Command::new("python3");
            let python = python.arg("-c").arg(script);
            // Root may set these bits, and keeps them.
            let done = python.env("F", &path).current_dir("/").status();
            assert!(done.unwrap().success());
            assert_eq!(mode(&path), 0o6777, "{change}");
            fs::write(&path, fs::read("/usr/bin/id").unwrap()).unwrap();
            set_mode(&path, 0o6777);
            nobody(python);
            // Before a program has asked for the attributes.
            assert_eq!(who(), format!("{NOBODY}\n"), "{change}");
            assert_eq!(mode(&path), 0o777, "{change}");
        }
    }
}

#[test]
fn permissions_are_checked() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let options = Options {
        allow_other: true,
        ..Options::default()
    };
    let mounted = mounted_or_skip!(&options);
    let path = mounted.path("secret");
    fs::write(&path, b"x").unwrap();
    set_mode(&path, 0o600);
    let cat = || {
        let mut command = Command::new("cat");
        command
            .arg(&path)
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .unwrap()
            .status
    };
    assert!(!cat().success());
    set_mode(&path, 0o604);
    assert!(cat().success());
    let mounted = mounted_or_skip!();
    let path = mounted.path("for-root");
    fs::write(&path, b"x").unwrap();
    set_mode(&path, 0o666);
    let mut command = Command::new("cat");
    let status = command
        .arg(&path)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(
        !status.status.success(),
        "others are let in without allow_other"
    );
}

#[test]
fn extended_attributes() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"x").unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::lsetxattr(&path, name, value, flags);
    set("user.one", b"1", XattrFlags::CREATE).unwrap();
    set("user.empty", b"", XattrFlags::empty()).unwrap();
    assert_eq!(set("user.one", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(
        set("user.two", b"2", XattrFlags::REPLACE),
        Err(Errno::NODATA)
    );
    set("user.one", b"uno", XattrFlags::REPLACE).unwrap();
    assert_eq!(get(&path, "user.one").unwrap(), b"uno");
    assert_eq!(get(&path, "user.empty").unwrap(), b"");
    assert_eq!(get(&path, "user.none"), Err(Errno::NODATA));
    // How much space it takes, and too little of it.
    assert_eq!(rustix::fs::lgetxattr_query(&path, "user.one"), Ok(3));
    let short = rustix::fs::lgetxattr(&path, "user.one", &mut [0; 2][..]);
    assert_eq!(short, Err(Errno::RANGE));
    let mut list = [0; 100];
    let len = rustix::fs::llistxattr(&path, &mut list[..]).unwrap();
    assert_eq!(&list[..len], b"user.empty\0user.one\0");
    assert_eq!(rustix::fs::llistxattr_query(&path), Ok(len));
    assert_eq!(
        rustix::fs::llistxattr(&path, &mut [0; 5][..]),
        Err(Errno::RANGE)
    );
    rustix::fs::lremovexattr(&path, "user.one").unwrap();
    assert_eq!(
        rustix::fs::lremovexattr(&path, "user.one"),
        Err(Errno::NODATA)
    );
    let large = vec![7; 65536];
    set("user.large", &large, XattrFlags::empty()).unwrap();
    assert_eq!(get(&path, "user.large").unwrap(), large);
}

#[test]
fn access_control_lists() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"x").unwrap();
    set_mode(&path, 0o640);
    // Version 2; user::rw-, user:12:r--, group::r--, mask::rwx, other::---
    let acl: [(u16, u16, u32); 5] = [
        (1, 6, !0),
        (2, 4, 12),
        (4, 4, !0),
        (0x10, 7, !0),
        (0x20, 0, !0),
    ];
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in acl {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    rustix::fs::lsetxattr(&path, name, &value, XattrFlags::empty()).unwrap();
    assert_eq!(get(&path, name).unwrap(), value);
    assert_eq!(
        mode(&path),
        0o670,
        "the mask shows as the group's permissions"
    );
    rustix::fs::lremovexattr(&path, name).unwrap();
    assert_eq!(get(&path, name), Err(Errno::NODATA));
}

#[test]
fn space() {
    let mounted = mounted_or_skip!();
    let found = rustix::fs::statvfs(mounted.dir.path()).unwrap();
    assert_eq!((found.f_bsize, found.f_frsize), (4096, 4096));
    assert_eq!(
        (found.f_blocks, found.f_bfree, found.f_bavail),
        (1000, 600, 500)
    );
    assert_eq!(
        (found.f_files, found.f_ffree, found.f_namemax),
        (100, 50, 255)
    );
}

#[test]
fn how_it_is_mounted() {
    let options = Options {
        fs_name: "tank/some where".to_owned(),
        read_only: true,
        noexec: true,
        nosuid: true,
        nodev: true,
        ..Options::default()
    };
    let mounted = mounted_or_skip!(&options);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let path = mounted.dir.path().to_str().unwrap();
    let line = mounts.lines().find(|line| line.contains(path)).unwrap();
    assert!(line.starts_with("tank/some\\040where "), "{line}");
    assert!(
        line.contains(" fuse.strongroom ro,nosuid,nodev,noexec,"),
        "{line}"
    );
    assert!(line.contains("default_permissions"), "{line}");
    let error = fs::write(mounted.path("file"), b"x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    assert_eq!(fs::read_dir(mounted.dir.path()).unwrap().count(), 0);
}
