//! Commands of `zpool(8)` that an administrator looks for: waiting, scrubs, labels, spares by hand.

use std::fs;

use crate::common::*;

/// A pool of a mirror of two files, `a` and `b`, and a spare `s`.
fn mirrored() -> Place {
    let place = Place::new();
    place.ok("pool create -s 64M -m none tank mirror {DIR}/a {DIR}/b spare {DIR}/s");
    place
}

fn state_of(place: &Place, device: &str) -> String {
    let status = place.ok("pool status tank");
    let path = place.arg(device);
    let line = status.lines().find(|line| line.trim().starts_with(&path));
    let line = line.unwrap_or_else(|| panic!("{path} is not in {status}"));
    let mut words = line.trim()[path.len()..].split_whitespace();
    let state = words.find(|word| word.chars().all(|c| c.is_ascii_uppercase()));
    state.unwrap_or_default().to_owned()
}

#[test]
fn waiting_returns_when_the_work_is_done() {
    let place = mirrored();
    assert_eq!(
        place.ok("pool wait tank"),
        "",
        "there is nothing to wait for"
    );
    place.says("pool wait tank 1", "scrub");
    assert_eq!(place.ok("pool wait -H -t scrub,resilver tank 1"), "-\t-\n");
    place.ok("pool scrub tank");
    place.ok("pool wait -t scrub tank");
    place.says("pool status tank", "scrub repaired 0 copies");
    fs::File::create(place.path("c"))
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    place.ok("pool attach tank {DIR}/a {DIR}/c");
    place.ok("pool wait -t resilver tank");
    assert_eq!(state_of(&place, "c"), "ONLINE");
    place.ok("pool detach tank {DIR}/c");
    place.ok("pool attach -w -f tank {DIR}/a {DIR}/c");
    assert_eq!(state_of(&place, "c"), "ONLINE");
    place.fails("pool wait nowhere", NOT_FOUND);
    assert_eq!(place.run(&words("pool wait -t nothing tank")).code, USAGE);
    place.fails("pool wait tank now", USAGE);
}

#[test]
fn scrubs_are_stopped_only_where_one_runs() {
    let place = Place::new();
    place.pool("tank");
    place.pool("other");
    place.fails("pool scrub -s tank", NOT_FOUND);
    place.fails("pool scrub -p tank", NOT_FOUND);
    assert_eq!(place.run(&words("pool scrub -p -s tank")).code, USAGE);
    assert_eq!(place.run(&words("pool scrub")).code, USAGE);
    place.ok("pool scrub -w tank other");
    place.says("pool status other", "scrub repaired 0 copies");
    // The other pools are scrubbed all the same.
    place.fails("pool scrub -w nowhere tank", NOT_FOUND);
    let both = place.ok("pool history");
    has(&both, "History for 'tank':\n");
    has(&both, "History for 'other':\n");
    assert_eq!(both.matches("pool scrub tank").count(), 2);
}

#[test]
fn scrubs_have_a_schedule() {
    let place = Place::new();
    place.ok("pool create -s 64M -m none -o scrub-schedule=weekly tank {DIR}/a");
    let one = |line: &str| place.ok(&format!("pool get -H -o value {line}"));
    assert_eq!(one("scrub-schedule tank"), "weekly\n");
    place.ok("pool set scrub-schedule=monthly tank");
    assert_eq!(one("scrub-schedule tank"), "monthly\n");
    place.fails("pool set scrub-schedule=sometimes tank", USAGE);
    assert_eq!(one("devicedeadline tank"), "10s\n");
    place.ok("pool set devicedeadline=30s tank");
    assert_eq!(one("devicedeadline tank"), "30s\n");
    place.fails("pool set devicedeadline=soon tank", USAGE);
    place.ok("create -u tank/home");
    place.fails("set scrub-schedule=weekly tank/home", USAGE);
    let refused = place.fails("pool create -o atime=off -s 64M other {DIR}/b", USAGE);
    has(&refused, "-O sets properties of the root dataset");
    // A new pool is not late.
    lacks(&place.ok("pool status tank"), "days");
}

#[test]
fn labels_are_cleared_where_no_pool_needs_them() {
    let place = mirrored();
    let clear = |device: &str| format!("pool labelclear {{DIR}}/{device}");
    place.refuses(&clear("a"), BUSY, "in use");
    // It is not open, and the pool lists it all the same.
    place.ok("pool offline tank {DIR}/b");
    place.refuses(&clear("b"), BUSY, "pool detach");
    place.refuses(&format!("{} -f", clear("b")), BUSY, "pool detach");
    place.ok("pool online tank {DIR}/b");
    place.ok("pool wait tank");
    place.ok("pool export tank");
    place.refuses(&clear("a"), BUSY, "the pool 'tank', which was exported");
    place.ok(&format!("{} -f", clear("a")));
    place.fails(&clear("a"), NOT_FOUND);
    // Nothing of the headers is left at either end.
    let bytes = fs::read(place.path("a")).unwrap();
    assert!(bytes[..1 << 16].iter().all(|byte| *byte == 0));
    assert!(
        bytes[bytes.len() - (1 << 16)..]
            .iter()
            .all(|byte| *byte == 0)
    );
    place.ok("pool import -d {DIR}/b tank");
    place.says("pool status tank", "DEGRADED");
    place.fails("pool labelclear {DIR}/nowhere", NOT_FOUND);
}

#[test]
fn spares_step_in_by_hand() {
    let place = mirrored();
    place.ok("pool offline tank {DIR}/b");
    place.ok("pool replace -w tank {DIR}/b {DIR}/s");
    assert_eq!(state_of(&place, "s"), "ONLINE");
    place.fails("pool replace tank {DIR}/b {DIR}/s", BUSY);
    // Detached, it waits again.
    place.ok("pool detach tank {DIR}/s");
    assert_eq!(state_of(&place, "s"), "AVAIL");
    // When the device is back, too.
    place.ok("pool replace -w tank {DIR}/b {DIR}/s");
    place.ok("pool online tank {DIR}/b");
    place.ok("pool wait -t resilver,replace tank");
    assert_eq!(state_of(&place, "s"), "AVAIL");
    assert_eq!(state_of(&place, "b"), "ONLINE");
    // A device that works leaves for good.
    place.ok("pool replace -w tank {DIR}/b {DIR}/s");
    assert_eq!(state_of(&place, "s"), "ONLINE");
    lacks(&place.ok("pool status tank"), &place.arg("b"));
    place.ok("pool scrub -w tank");
    has(
        &place.ok("pool history tank"),
        &format!("pool replace tank {} {}", place.arg("b"), place.arg("s")),
    );
    // One that waits is removed.
    place.ok("pool add -f tank spare {DIR}/b");
    place.ok("pool remove tank {DIR}/b");
    lacks(&place.ok("pool status tank"), "spares");
}

#[test]
fn devices_that_are_back_are_found() {
    let place = mirrored();
    place.ok("pool remove tank {DIR}/s");
    place.ok("pool export tank");
    fs::rename(place.path("b"), place.path("away")).unwrap();
    place.ok("pool import -d {DIR}/a tank");
    assert_eq!(state_of(&place, "b"), "MISSING");
    place.warns("pool reopen", "is still missing");
    fs::rename(place.path("away"), place.path("b")).unwrap();
    place.ok("pool reopen tank");
    place.ok("pool wait tank");
    assert_eq!(state_of(&place, "b"), "ONLINE");
    place.ok("pool scrub -w tank");
}

#[test]
fn a_pool_is_planned_and_not_made() {
    let place = Place::new();
    for name in ["a", "b", "small"] {
        fs::File::create(place.path(name))
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
    }
    fs::File::create(place.path("small"))
        .unwrap()
        .set_len(1 << 12)
        .unwrap();
    let plan = place.ok("pool create -n -O encryption=on tank mirror {DIR}/a {DIR}/b");
    let (a, b) = (place.arg("a"), place.arg("b"));
    has(
        &plan,
        &format!("\ttank\n\t  mirror\n\t    {a}\n\t    {b}\n"),
    );
    assert!(
        fs::read(place.path("a"))
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    assert_eq!(place.ok("pool list -H"), "");
    let plan = place.ok("pool create -n -s 64M tank mirror {DIR}/new1 {DIR}/new2");
    has(&plan, &place.arg("new2"));
    place.refuses("pool create -n -s 64M tank {DIR}/a", EXISTS, "without -s");
    place.fails("pool create -n -s 64M tank {DIR}/no/where", NOT_FOUND);
    place.fails("pool create -n -s 4K tank {DIR}/new1", USAGE);
    for new in ["new1", "new2"] {
        assert!(!place.path(new).exists());
    }
    place.fails("pool create -n tank {DIR}/small", USAGE);
    place.fails("pool create -n -O nonsense=1 tank {DIR}/a", NOT_FOUND);
    place.fails("pool create -n tank {DIR}/nowhere", NOT_FOUND);
    place.ok("pool create -m none tank {DIR}/a");
    let again = place.fails("pool import -d {DIR}/a tank", EXISTS);
    has(&again, "the pool 'tank' is imported already");
    place.fails("pool create -n other {DIR}/a", BUSY);
    place.fails("pool create -n tank {DIR}/b", EXISTS);
    place.pool("other");
    place.ok("pool export -a");
    assert_eq!(place.ok("pool list -H"), "");
}

/// The classes of the events of a pool.
fn classes(place: &Place, pool: &str) -> Vec<String> {
    let lines = place.ok(&format!("pool events -H {pool}"));
    let class = |line: &str| line.split('\t').nth(1).unwrap().to_owned();
    lines.lines().map(class).collect()
}

#[test]
fn events_tell_what_happened() {
    let place = mirrored();
    place.pool("other");
    place.ok("pool events -c");
    assert_eq!(place.ok("pool events -H"), "");
    place.ok("pool scrub -w tank");
    place.ok("pool offline tank {DIR}/b");
    place.ok("keygen {DIR}/key");
    place.ok("create -u -o encryption=on -o keysource=raw,file://{DIR}/key tank/home");
    place.ok("key unload tank/home");
    place.ok("pool export tank");
    place.ok("pool import -d {DIR} tank");
    let found = classes(&place, "tank");
    let expected = [
        "scrub_start",
        "scrub_finish",
        "statechange",
        "pool_export",
        "pool_import",
    ];
    let mut rest = found.iter();
    for class in expected {
        assert!(
            rest.any(|found| found == class),
            "{class} is not in order in {found:?}"
        );
    }
    assert_eq!(classes(&place, "other"), [""; 0]);
    place.says("pool events -v", "b was ONLINE and is OFFLINE");
    place.says("pool events --json", "\"class\": \"pool_import\"");
}

#[test]
fn events_are_followed_live() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let place = mirrored();
    let mut follow = place.command();
    follow
        .args(["pool", "events", "-f", "-H", "tank"])
        .stdout(Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut wait_for = |class: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(class)).unwrap()
    };
    wait_for("pool_create");
    place.ok("pool offline tank {DIR}/b");
    wait_for("statechange");
    place.ok("pool online tank {DIR}/b");
    wait_for("resilver_finish");
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn exported_pools_are_found_again() {
    let mut place = mirrored();
    let listed = || place.ok("pool import");
    assert_eq!(listed(), "no pools available to import\n");
    place.ok("pool export tank");
    has(&listed(), "pool: tank\n");
    assert!(place.terminate());
    place.start();
    place.ok("pool import tank");
    place.ok("pool destroy -f tank");
    place.refuses("pool import tank", NOT_FOUND, "no pool 'tank'");
}

#[test]
fn mountpoints_can_have_another_root() {
    let mut place = Place::new();
    place.ok("pool create -N -s 64M -O mountpoint=/srv/data tank {DIR}/a");
    place.ok("create -u tank/home");
    place.ok("pool export tank");
    place.fails("pool import -R alt tank", USAGE);
    let root = place.arg("alt");
    place.ok("pool import -N -R {DIR}/alt tank");
    let expected = format!("{root}/srv/data/home\n");
    let shown = |place: &Place| place.ok("get -H -o value mountpoint tank/home");
    assert_eq!(shown(&place), expected);
    // Also after a restart, which mounts what has its key.
    assert!(place.terminate());
    place.start();
    assert_eq!(shown(&place), expected);
    assert_eq!(
        place.ok("pool get -H -o value altroot tank"),
        format!("{root}\n")
    );
    if can_mount() {
        place.ok("mount -a");
        assert!(place.path("alt/srv/data/home").is_dir());
        has(&place.ok("mount"), &format!("{root}/srv/data"));
    }
    // It is not a property of the pool.
    place.ok("pool export tank");
    place.ok("pool import -N tank");
    assert_eq!(shown(&place), "/srv/data/home\n");
}

/// Every loss of three of five devices, with the program.
#[test]
fn three_devices_of_raidz3_may_be_missing() {
    let place = Place::new();
    let names = ["a", "b", "c", "d", "e"];
    place.fails(
        "pool create -s 16M -m none tank raidz3 {DIR}/a {DIR}/b {DIR}/c",
        USAGE,
    );
    let devices = names.map(|name| place.arg(name)).join(" ");
    place.ok(&format!("pool create -s 16M -m none tank raidz3 {devices}"));
    place.says("pool status tank", "raidz3-0");
    place.ok("create -u tank/home");
    place.ok("pool scrub -w tank");
    place.ok("pool export tank");
    for lost in 0..1_u32 << names.len() {
        if lost.count_ones() != 3 {
            continue;
        }
        let there = names.iter().enumerate().filter(|(n, _)| lost & 1 << n == 0);
        let dirs: Vec<String> = there
            .map(|(_, name)| format!("-d {}", place.arg(name)))
            .collect();
        let dirs = dirs.join(" ");
        place.ok(&format!("pool import -o readonly=on {dirs} tank"));
        place.says("list -H -o name -r tank", "tank/home");
        place.says("pool status tank", "DEGRADED");
        place.ok("pool export tank");
    }
    let two = format!("-d {} -d {}", place.arg("a"), place.arg("b"));
    place.ok(&format!("pool import {two} tank"));
    place.says("pool upgrade tank", "raidz3        active");
    place.ok("pool scrub -w tank");
    place.ok("pool export tank");
    place.fails(&format!("pool import -d {} tank", place.arg("a")), DEVICE);
}

/// Bytes that the pool has allocated.
fn allocated(place: &Place) -> u64 {
    let shown = place.ok("pool list -H -p -o alloc tank");
    shown.trim().parse().unwrap()
}

/// Returns when the pool has given back what deleted files had: no more than so many bytes are left.
fn until_freed(place: &Place, bytes: u64) {
    let late = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while allocated(place) > bytes {
        assert!(std::time::Instant::now() < late, "{}", allocated(place));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A device of which a record is damaged stays until that record is deleted.
#[test]
fn a_device_is_not_let_go_before_all_of_it_is_copied() {
    needs!(can_mount());
    let place = Place::new();
    let file = place.pool("tank");
    let (old, dir) = (file.display(), place.arg("mnt"));
    place.ok(&format!(
        "create -o mountpoint={dir} -o compression=off tank/a"
    ));
    place.ok("pool sync tank");
    let before = allocated(&place);
    fs::write(place.path("mnt/f"), [0xa5; 100_000]).unwrap();
    place.ok("pool export tank");
    let mut image = fs::read(&file).unwrap();
    let mut units = image.chunks(4096);
    let at = units.position(|unit| unit == [0xa5; 4096]).unwrap() * 4096;
    image[at] ^= 1;
    fs::write(&file, image).unwrap();
    place.ok(&format!("pool import -d {old} tank"));
    let size = fs::metadata(&file).unwrap().len();
    let new = fs::File::create(place.path("new")).unwrap();
    new.set_len(size).unwrap();
    let failed = place.fails(&format!("pool replace -w tank {old} {{DIR}}/new"), DAMAGED);
    has(&failed, "lacks 1 records");
    assert_eq!(state_of(&place, "new"), "INCOMPLETE");
    place.ok("pool wait tank");
    let status = place.ok("pool status -v tank");
    has(&status, "lacks 1 records or nodes");
    has(&status, &format!("{old} stays in the pool"));
    has(&status, "pool clear tank");
    has(&status, &format!("tank/a: {dir}/f\n"));
    let refused = place.fails("pool detach -f tank {DIR}/new", USAGE);
    has(&refused, "no INCOMPLETE device is in its place");
    fs::remove_file(place.path("mnt/f")).unwrap();
    until_freed(&place, before + 50_000);
    place.ok("pool clear tank");
    place.ok("pool wait tank");
    assert_eq!(state_of(&place, "new"), "ONLINE");
    lacks(&place.ok("pool status tank"), &format!("{old}"));
}

/// The space that the file system below gives to a file, in bytes.
fn on_disk(file: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(file).unwrap().blocks() * 512
}

#[test]
fn a_pattern_is_written_to_free_space() {
    let place = Place::new();
    let file = place.pool("tank");
    place.fails("pool initialize nowhere", NOT_FOUND);
    place.fails("pool initialize -s tank", NOT_FOUND);
    place.fails("pool initialize -c tank", NOT_FOUND);
    place.fails("pool initialize tank /dev/nothing", NOT_FOUND);
    assert_eq!(place.run(&words("pool initialize -c -s tank")).code, USAGE);
    place.ok("pool set autotrim=off tank");
    place.ok("pool initialize -w tank");
    place.says("pool status tank", "init: written ");
    place.ok("pool wait -t initialize,trim tank");
    place.says("pool history tank", "pool initialize tank");
    let pattern = 0xdead_beef_dead_beee_u64.to_le_bytes().repeat(512);
    let bytes = fs::read(&file).unwrap();
    let full = bytes.chunks(4096).filter(|unit| *unit == pattern).count();
    assert!(full > (48 << 20) / 4096, "{full} units");
    place.ok("create tank/a");
    place.ok("pool scrub -w tank");
    place.says("inspect --check tank", "belongs to exactly one thing");
    place.ok(&format!("pool initialize -w tank {}", file.display()));
    let status = place.ok("pool status tank");
    has(&status, &format!(" of {} on ", file.display()));
}

#[test]
fn free_space_goes_back_to_the_devices() {
    let place = Place::new();
    let file = place.pool("tank");
    place.fails("pool trim nowhere", NOT_FOUND);
    place.fails("pool trim -s tank", NOT_FOUND);
    place.fails("pool trim -c tank", NOT_FOUND);
    place.fails("pool trim tank /dev/nothing", NOT_FOUND);
    place.ok("pool trim -w tank");
    place.says("pool status tank", "trim: trimmed ");
    place.ok(&format!("pool trim -w tank {}", file.display()));
    place.says("pool status tank", &format!(" of {} on ", file.display()));
    place.ok("pool wait -t trim tank");
    place.says("pool history tank", "pool trim tank");
    needs!(can_mount());
    let dir = place.arg("mnt");
    place.ok(&format!(
        "create -o mountpoint={dir} -o compression=off tank/a"
    ));
    place.ok("pool set autotrim=off tank");
    let before = on_disk(&file);
    fs::write(place.path("mnt/f"), vec![0xa5; 16 << 20]).unwrap();
    place.ok("pool sync tank");
    let filled = on_disk(&file);
    if filled < before + (16 << 20) {
        println!("skipped: the file system does not tell what a file takes");
        return;
    }
    fs::remove_file(place.path("mnt/f")).unwrap();
    until_freed(&place, 8 << 20);
    // Two commits more, so that nothing reaches it.
    for name in ["x", "y"] {
        fs::write(place.path("mnt").join(name), name).unwrap();
        place.ok("pool sync tank");
    }
    assert!(
        on_disk(&file) > before + (15 << 20),
        "it is not told by itself"
    );
    place.ok("pool trim -w tank");
    let after = on_disk(&file);
    assert!(after < before + (4 << 20), "{before} {filled} {after}");
}

#[test]
fn what_would_be_added_is_told() {
    let place = mirrored();
    for name in ["c", "d", "l", "k", "t"] {
        let size = if name == "t" { 1 << 20 } else { 64 << 20 };
        let file = fs::File::create(place.path(name)).unwrap();
        file.set_len(size).unwrap();
    }
    let before = place.ok("pool status tank");
    let would = place.ok("pool add -n tank mirror {DIR}/c {DIR}/d log {DIR}/l cache {DIR}/k");
    let path = |name: &str| place.arg(name);
    assert_eq!(
        would,
        format!(
            "would update 'tank' to the following configuration:\n\n\ttank\n\t  mirror\n\t    {}\n\t    {}\n\
             \t  mirror\n\t    {}\n\t    {}\n\tlogs\n\t  {}\n\tcache\n\t  {}\n\tspares\n\t  {}\n",
            path("a"),
            path("b"),
            path("c"),
            path("d"),
            path("l"),
            path("k"),
            path("s")
        )
    );
    assert_eq!(place.ok("pool status tank"), before);
    // It refuses what the command itself would refuse.
    place.fails("pool add -n tank {DIR}/c", USAGE);
    place.fails("pool add -n tank spare {DIR}/t", USAGE);
    place.fails("pool add -n tank log {DIR}/t", USAGE);
    place.fails("pool add -n tank cache {DIR}/nowhere", NOT_FOUND);
    fs::write(place.path("d"), [1; 1 << 20]).unwrap();
    place.fails("pool add -n tank mirror {DIR}/c {DIR}/d", EXISTS);
    assert_eq!(place.ok("pool status tank"), before);
}

#[test]
fn a_pool_has_another_name_until_its_export() {
    let place = Place::new();
    place.ok("pool create -s 64M -N -R {DIR}/root -t now tank {DIR}/a");
    assert_eq!(place.ok("pool list -H -o name"), "now\n");
    assert_eq!(place.ok("list -H -o name"), "now\n");
    has(
        &place.ok("get -H -o value mountpoint now"),
        &place.arg("root"),
    );
    place.ok("create now/files");
    place.ok("snapshot now/files@s");
    place.fails("pool status tank", NOT_FOUND);
    place.says("pool history now", "-t now");
    place.ok("pool export now");
    place.says("pool import -d {DIR}", "   pool: tank\n");
    place.ok("pool import -N -d {DIR} -t tank other");
    assert_eq!(place.ok("list -H -o name -t snapshot"), "other/files@s\n");
    // A name on the devices changes beside it.
    place.ok("rename other/files other/moved");
    place.ok("pool export other");
    place.ok("pool import -N -d {DIR} -o readonly=on -t tank looked");
    place.ok("list looked/moved");
    place.ok("pool export looked");
    place.ok("pool import -N -d {DIR} tank");
    place.ok("list tank/moved");
    assert_eq!(place.run(&words("pool import -t tank")).code, USAGE);
}

#[test]
fn reports_have_the_time_before_them() {
    let place = Place::new();
    place.pool("tank");
    let seconds = |line: &str| {
        let out = place.ok(line);
        out.lines().next().unwrap().parse::<u64>().unwrap()
    };
    for command in ["pool list -T u", "pool status -T u", "pool iostat -T u"] {
        assert!(seconds(command) > 1_700_000_000, "{command}");
    }
    assert!(seconds("pool wait -T u tank 1") > 1_700_000_000);
    let dated = place.ok("pool list -T d 0.01 2");
    assert_eq!(dated.matches("NAME").count(), 2);
    let first = dated.lines().next().unwrap();
    assert_eq!(first.split_whitespace().count(), 5, "{first}");
    place.fails("--json pool list -T u", USAGE);
    assert_eq!(place.run(&words("pool list -T x")).code, USAGE);
}
