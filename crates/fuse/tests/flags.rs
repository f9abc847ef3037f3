//! The promises of the flags of the handshake and of open files. Each flag is described.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::Mounted;
use fuse::{FuseMount, OpenReports, Options};

const MIB: usize = 1 << 20;

/// The constants of a module of `abi.rs`.
fn constants(module: &str) -> Vec<String> {
    let source = include_str!("../src/wire/abi.rs");
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
        let (file, name) = test.rsplit_once("::").expect(&flag);
        let file = format!("tests/{}.rs", file.replace("::", "/"));
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
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
        hears: OpenReports::OpensAndCloses,
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

/// Calls that no safe interface has.
const SCRIPT: &str = include_str!("common/linux_calls.py");

const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const ENOSYS: i32 = 38;
const EOPNOTSUPP: i32 = 95;
const ESTALE: i32 = 116;

/// Returns the output of the script; an error is its number. Where nothing can run it, prints the reason and returns
/// none.
fn script(what: &str, place: &Path, other: &Path) -> Option<Result<String, i32>> {
    let mut command = Command::new("python3");
    let command = command.args(["-c", SCRIPT, what]).arg(place).arg(other);
    let Ok(output) = command.output() else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    Some(match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        Some(errno) if output.stderr.is_empty() => Err(errno),
        _ => panic!("{output:?}"),
    })
}

/// An inode number is used again, and a handle would then open another file.
#[test]
fn there_are_no_handles_for_nfs() {
    let _alone = common::alone();
    let mounted = mounted_or_skip!();
    fs::write(mounted.path("file"), b"x").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let saved = script(
        "save",
        &mounted.path("file"),
        &elsewhere.path().join("handle"),
    );
    if let Some(saved) = saved {
        assert_eq!(saved, Err(EOPNOTSUPP));
    }
}

#[test]
fn handles_outlive_a_mount_where_that_is_asked_for() {
    let _alone = common::alone();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root opens files by their handles");
    }
    let options = Options {
        lasting_handles: true,
        ..Options::default()
    };
    let mounted = mounted_or_skip!(&options);
    let elsewhere = tempfile::tempdir().unwrap();
    let handle = |name: &str| elsewhere.path().join(name);
    fs::create_dir(mounted.path("dir")).unwrap();
    for name in ["file", "dir/gone"] {
        fs::write(mounted.path(name), name).unwrap();
        let saved = script("save", &mounted.path(name), &handle(&name[..3]));
        let Some(saved) = saved else { return };
        assert_eq!(saved, Ok(String::new()));
    }
    let Mounted {
        mount,
        fs: memory,
        dir,
    } = mounted;
    mount.unmount(false).unwrap();
    let _mount = FuseMount::new(memory, dir.path(), &options).unwrap();
    let open = |name: &str| script("open", dir.path(), &handle(name)).unwrap();
    assert_eq!(open("fil"), Ok("file".to_owned()));
    assert_eq!(open("dir"), Ok("dir/gone".to_owned()));
    fs::remove_file(dir.path().join("dir/gone")).unwrap();
    assert_eq!(open("dir"), Err(ESTALE));
}

/// The number comes from a program unchecked, also from one that may not change flags.
#[test]
fn flags_are_not_set_by_the_number_of_other_programs() {
    for idmapped in [false, true] {
        let options = Options {
            idmapped,
            ..Options::default()
        };
        let mounted = mounted_or_skip!(&options);
        let file = mounted.path("file");
        fs::write(&file, b"x").unwrap();
        if let Some(done) = script("bind", &file, Path::new("")) {
            assert_eq!(done, Err(ENOTTY));
        }
        fs::write(&file, b"it can be changed").unwrap();
    }
}

#[test]
fn another_mount_shows_other_owners_where_that_is_asked_for() {
    let _alone = common::alone();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root maps owners");
    }
    for idmapped in [false, true] {
        let mounted = mounted_or_skip!(&Options {
            idmapped,
            allow_other: true,
            ..Options::default()
        });
        let other = tempfile::tempdir().unwrap();
        fs::write(mounted.path("file"), b"x").unwrap();
        let Some(made) = script("map", mounted.dir.path(), other.path()) else {
            return;
        };
        match made {
            Err(_) if !idmapped => continue,
            Err(errno @ (EINVAL | ENOSYS)) => {
                return eprintln!("skipped: this kernel maps no owners of FUSE: error {errno}");
            }
            made => assert_eq!(made, Ok(String::new())),
        }
        let new = other.path().join("new");
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        assert_eq!(owner(&other.path().join("file")), 1000);
        let touched = Command::new("touch").arg(&new).uid(1000).gid(1000).status();
        assert!(
            touched.unwrap().success(),
            "the root directory is its own there"
        );
        assert_eq!((owner(&new), owner(&mounted.path("new"))), (1000, 0));
        // Root's files have no owner there.
        assert!(fs::write(other.path().join("roots"), b"x").is_err());
        rustix::mount::unmount(other.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}
