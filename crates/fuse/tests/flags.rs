//! What the flags of the handshake and of open files promise, and that each is described.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use fuse::{Hears, Options};

const MIB: usize = 1 << 20;

/// The constants of a module of `abi.rs`.
fn constants(module: &str) -> Vec<String> {
    let source = include_str!("../src/abi.rs");
    let start = source.find(&format!("mod {module} {{")).expect(module);
    let body = &source[start..];
    let body = &body[..body.find("\n}").unwrap()];
    let names = body
        .split("const ")
        .skip(1)
        .filter_map(|rest| rest.split(':').next());
    names.map(str::to_owned).collect()
}

/// The rows of the table in `INTERNALS.md`: a flag, and the test that would notice.
fn described() -> BTreeMap<String, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("INTERNALS.md");
    let docs = fs::read_to_string(docs).unwrap();
    let table = docs.split("| flag | what it promises | test |").nth(1);
    let rows = table
        .expect("the table of flags")
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.filter(|row| !row.starts_with("|---"))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let bare = |cell: &str| cell.trim_matches('`').to_owned();
            (bare(cells[0]), bare(cells[cells.len() - 1]))
        })
        .collect()
}

#[test]
fn every_flag_is_described_with_its_test() {
    let described = described();
    let mut used = constants("init");
    used.extend(
        constants("fopen")
            .iter()
            .map(|name| format!("FOPEN_{name}")),
    );
    used.sort();
    assert_eq!(used, described.keys().cloned().collect::<Vec<_>>());
    for (flag, test) in described {
        let (file, name) = test.split_once("::").expect(&flag);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{file}.rs"));
        let source = fs::read_to_string(file).expect(&test);
        let has = source.contains(&format!("#[test]\nfn {name}()"));
        assert!(has, "{flag}: there is no test {test}");
    }
}

#[test]
fn a_mebibyte_is_one_request() {
    let mounted = mounted_or_skip!();
    let data: Vec<u8> = (0..MIB).map(|at| (at / 7) as u8).collect();
    let file = File::create_new(mounted.path("file")).unwrap();
    file.write_all_at(&data, 0).unwrap();
    assert_eq!(mounted.count("WRITE"), 1);
    assert!(fs::read(mounted.path("file")).unwrap() == data);
}

#[test]
fn opening_and_closing_ask_nothing_and_contents_stay() {
    let mounted = mounted_or_skip!();
    let path = mounted.path("file");
    fs::write(&path, b"kept").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"kept");
    let asked = || ["OPEN", "READ", "FLUSH"].map(|op| mounted.count(op));
    let before = asked();
    // Times that change say nothing about the contents.
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    drop(file);
    for _ in 0..10 {
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
    // The first that was opened found out that opening is not answered.
    assert!(before[0] <= 1 && before[2] <= 1, "{before:?}");
    assert_eq!(asked()[1..], before[1..]);
}

#[test]
fn opening_and_closing_are_heard_if_that_is_asked_for() {
    let options = Options {
        hears: Hears::OpensAndCloses,
        ..Options::default()
    };
    let mounted = mounted_or_skip!(&options);
    let path = mounted.path("file");
    fs::write(&path, b"read anew").unwrap();
    let asked = || ["OPEN", "READ", "FLUSH"].map(|op| mounted.count(op));
    let before = asked();
    for _ in 0..10 {
        assert_eq!(fs::read(&path).unwrap(), b"read anew");
    }
    assert_eq!(asked(), before.map(|count| count + 10));
}

#[test]
fn the_target_of_a_link_is_asked_for_once() {
    let mounted = mounted_or_skip!();
    let link = mounted.path("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    for _ in 0..10 {
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("target"));
    }
    assert_eq!(mounted.count("READLINK"), 1);
}

#[test]
fn one_directory_serves_many_at_once() {
    let mounted = mounted_or_skip!();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let mounted = &mounted;
            scope.spawn(move || {
                for round in 0..100 {
                    let path = mounted.path(&format!("{thread}-{round}"));
                    assert!(!path.exists());
                    fs::write(&path, b"x").unwrap();
                    let names = fs::read_dir(mounted.dir.path()).unwrap();
                    assert!(names.count() > round);
                    assert!(path.exists());
                }
            });
        }
    });
    assert_eq!(fs::read_dir(mounted.dir.path()).unwrap().count(), 800);
}

/// An inode number is used again, and a handle would then open another file.
#[test]
fn there_are_no_handles_for_nfs() {
    const EOPNOTSUPP: i32 = 95;
    const SCRIPT: &str = "
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(136)
handle[0] = 128
mount = ctypes.c_int()
failed = libc.name_to_handle_at(-100, sys.argv[1].encode(), handle, ctypes.byref(mount), 0)
sys.exit(ctypes.get_errno() if failed else 0)
";
    let _alone = common::alone();
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("file"), b"x").unwrap();
    let path = mounted.path("file");
    let Ok(status) = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(path)
        .status()
    else {
        return eprintln!("skipped: there is no python3");
    };
    assert_eq!(status.code(), Some(EOPNOTSUPP));
}
