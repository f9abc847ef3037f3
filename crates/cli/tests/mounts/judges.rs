//! File systems' tests that others wrote, over mounts of datasets and of stacked directories: pjdfstest, fsx and fio. `./test` installs them.
//!
//! `STRONGROOM_FSX=1000000` has fsx do so many operations, `STRONGROOM_CUTS=100` kills the daemon so
//! often while fio writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Place, can_mount, has, is_installed, is_root, needs, number};

const FORMATS: [&str; 3] = ["fscrypt", "gocryptfs", "pefs"];

/// All that fsx can do, holes and maps too.
const FSX: &str = "flen = 1048576\n[weights]\nclose_open = 3\ninvalidate = 1\nread = 10\nwrite = 10\nmapread = 5\n\
    mapwrite = 10\ntruncate = 5\nfsync = 1\nfdatasync = 1\nposix_fallocate = 3\npunch_hole = 5\nsendfile = 2\n\
    posix_fadvise = 1\ncopy_file_range = 3\n";

/// A mounted, encrypted dataset; `None`, with the reason printed, if there cannot be one.
fn mounted(size: &str, options: &str) -> Option<(Place, String)> {
    mounted_with_cache("32M", size, options)
}

fn mounted_with_cache(cache: &'static str, size: &str, options: &str) -> Option<(Place, String)> {
    needs!(can_mount());
    let place = Place::with_cache(cache);
    let dir = place.arg("mnt");
    place.ok(&format!(
        "pool create -s {size} -O mountpoint=none tank {}",
        place.arg("tank.pool")
    ));
    place.ok("keygen {DIR}/key");
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{} -o mountpoint={dir} {options} tank/j",
        place.arg("key")
    ));
    Some((place, dir))
}

fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}\n{}", String::from_utf8_lossy(&output.stderr))
}

/// After the judge: nothing is lost or used twice, and every record is whole.
fn assert_sound(place: &Place) {
    place.ok("unmount tank/j");
    place.ok("pool scrub -w tank");
    place.says("pool status", "with 0 errors");
    place.says("inspect --check tank", "belongs to exactly one thing");
}

#[test]
fn pjdfstest() {
    needs!(is_installed("pjdfstest"));
    needs!(is_root(), "only root can change owners");
    let (place, dir) = needs!(mounted("1G", ""));
    assert_posix(&place, &dir);
    assert_sound(&place);
}

/// Has pjdfstest judge what is mounted there.
fn assert_posix(place: &Place, dir: &str) {
    let config = place.path("pjdfstest.toml");
    fs::write(
        &config,
        "[features]\nposix_fallocate = {}\nstat_st_birthtime = {}\nutimensat = {}\nutime_now = {}\n\
         rename_ctime = {}\n[settings]\nnaptime = 0.01\nallow_remount = false\n[dummy_auth]\n\
         entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n",
    )
    .unwrap();
    open_to_others(place);
    // Another file system, to link to and move to.
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new("pjdfstest")
        .arg("-c")
        .arg(&config)
        .args(["-p", dir, "-s"])
        .arg(&other)
        .output()
        .unwrap();
    let report = text(&output);
    assert!(output.status.success(), "{report}");
    has(&report, "0 failed");
}

/// A stacked directory of a format, mounted for all users until this is dropped.
struct Stack {
    place: Place,
    view: String,
}

impl Stack {
    fn new(format: &str) -> Option<Stack> {
        needs!(can_mount());
        let place = Place::without_daemon();
        for dir in ["lower", "view"] {
            fs::create_dir(place.path(dir)).unwrap();
        }
        fs::write(place.path("pass"), "correct horse\n").unwrap();
        match format {
            // Without a database each passphrase is a key.
            "pefs" => {
                std::os::unix::fs::symlink("aes256-xts:1", place.path("lower/.pefs.conf")).unwrap()
            }
            _ => {
                place.ok(&format!(
                    "stack init --format {format} --passfile {{DIR}}/pass {{DIR}}/lower"
                ));
            }
        }
        place.ok("stack mount --allow-other --passfile {DIR}/pass {DIR}/lower {DIR}/view");
        let view = place.arg("view");
        Some(Stack { place, view })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let done = self.place.run(&["stack", "unmount", &self.view]);
        if !std::thread::panicking() {
            assert_eq!(done.code, 0, "{done:?}");
        } else if done.code != 0 {
            self.place.run(&["stack", "unmount", "-f", &self.view]);
        }
    }
}

#[test]
fn pjdfstest_over_stacked_directories() {
    needs!(is_installed("pjdfstest"));
    needs!(is_root(), "only root can change owners");
    for format in FORMATS {
        let stack = needs!(Stack::new(format));
        assert_posix(&stack.place, &stack.view);
    }
}

#[test]
fn fsx_over_stacked_directories() {
    needs!(is_installed("fsx"));
    let operations = number("STRONGROOM_FSX", 3_000).min(10_000).to_string();
    for format in FORMATS {
        let stack = needs!(Stack::new(format));
        let config = stack.place.path("fsx.toml");
        fs::write(&config, FSX).unwrap();
        for seed in ["1", "2"] {
            let file = Path::new(&stack.view).join(format!("fsx{seed}"));
            let output = Command::new("fsx")
                .arg("-f")
                .arg(&config)
                .args(["-N", &operations, "-S", seed, "-P"])
                .arg(stack.place.root())
                .arg(file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{format}: {}", text(&output));
        }
    }
}

/// The judge becomes other users, who have to get as far as the mount.
fn open_to_others(place: &Place) {
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn fsx() {
    needs!(is_installed("fsx"));
    let operations = number("STRONGROOM_FSX", 6_000);
    // Version 0.3.2 never gives back what it maps to read, so that one process slows down, and is refused
    // (ENOMEM) after some 65,000 of these (vm.max_map_count).
    let at_once = operations.min(10_000);
    let rounds = operations.div_ceil(at_once).max(2);
    // With small records and a small cache much is read, written and evicted.
    for (cache, options) in [
        ("16M", "-o recordsize=8K"),
        ("16M", "-o compression=zstd-1"),
        ("1G", ""),
        // The kernel keeps no contents.
        ("16M", "-o primarycache=metadata -o recordsize=8K"),
        ("16M", "-o primarycache=none"),
    ] {
        let (place, dir) = needs!(mounted_with_cache(cache, "1G", options));
        for seed in 1..=rounds {
            let output = Command::new("fsx")
                .args(["-N", &at_once.to_string(), "-S", &seed.to_string()])
                .arg(Path::new(&dir).join(format!("fsx{seed}")))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{cache} {options}: {}",
                text(&output)
            );
        }
        assert_sound(&place);
    }
}

#[test]
fn fio_with_verify() {
    needs!(is_installed("fio"));
    let (place, dir) = needs!(mounted("1G", "-o compression=zstd-1"));
    let fio = |extra: &[&str]| {
        let output = Command::new("fio")
            .args(["--name=v", "--ioengine=psync", "--size=64M", "--numjobs=2"])
            .args(["--verify=crc32c", "--verify_fatal=1", "--fallocate=none"])
            .args(["--bsrange=512-256k", "--bs_unaligned=1", "--randseed=7"])
            .args(["--rw=randwrite", &format!("--directory={dir}")])
            // It leaves what it has verified in a file.
            .current_dir(place.root())
            .args(extra)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    };
    // Written, then verified after a remount, from what the pool holds.
    fio(&["--do_verify=0", "--end_fsync=1"]);
    place.ok("unmount tank/j");
    place.ok("mount tank/j");
    fio(&["--verify_only=1"]);
    assert_sound(&place);
}

/// Every write is synced; the daemon is killed while four jobs write; all that was answered is there.
#[test]
fn fio_with_verify_and_power_cuts() {
    needs!(is_installed("fio"));
    let (mut place, dir) = needs!(mounted("1G", ""));
    let root = place.root().to_owned();
    for round in 0..number("STRONGROOM_CUTS", 3) {
        let fio = |extra: &[String]| {
            Command::new("fio")
                .args([
                    "--name=cut",
                    "--ioengine=psync",
                    "--size=16M",
                    "--numjobs=4",
                ])
                .args(["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned=1"])
                .args(["--sync=sync", "--fallocate=none", "--verify=crc32c"])
                // It is not to be done with its writes before the daemon is killed.
                .arg("--rate_iops=150")
                .args(["--verify_fatal=1", &format!("--randseed={}", round + 1)])
                .arg(format!("--directory={dir}"))
                .args(extra)
                // It saves there what was answered.
                .current_dir(&root)
                .output()
                .unwrap()
        };
        for job in 0..4 {
            // With files that are too short it would begin to verify by making them anew.
            let file = fs::File::create(Path::new(&dir).join(format!("cut.{job}.0"))).unwrap();
            file.set_len(16 << 20).unwrap();
            file.sync_all().unwrap();
        }
        let kill = format!("--trigger=kill -KILL {}", place.pid());
        let cut = [
            "--do_verify=0",
            "--verify_state_save=1",
            "--trigger-timeout=1",
            &kill,
        ];
        fio(&cut.map(str::to_owned));
        // Unless fio has, since it was done all the same.
        place.kill();
        place.start();
        place.says("mount", "tank/j");
        let verify = ["--verify_only=1", "--verify_state_load=1"];
        let output = fio(&verify.map(str::to_owned));
        assert!(output.status.success(), "round {round}: {}", text(&output));
        place.says("inspect --check tank", "belongs to exactly one thing");
    }
    assert_sound(&place);
}
