//! `verify` and `replicate verify`: copies are read and proved without a key, and what is wrong is named.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::common::bench::Bench;
use crate::common::*;

const UNIT: usize = 4096;

/// A bench with the job `copy` of `tank/a`, which has run, and its 4 MiB of noise.
fn bench_with_copy(target: &str, start: impl Fn(&mut Bench)) -> Option<Bench> {
    let mut bench = Bench::new()?;
    start(&mut bench);
    fs::write(bench.file("tank/a", "noise"), contents(7, 4 << 20)).unwrap();
    bench.ok("snapshot tank/a@2");
    bench.write_for("tank/a@3", "third", "3");
    bench.ok(&format!("replicate add copy tank/a {target} --every 365d"));
    bench.ok("replicate run copy");
    bench.ok("pool sync safe");
    Some(bench)
}

fn with_copy() -> Option<Bench> {
    bench_with_copy("safe/a", |_| ())
}

/// Flips a bit in the middle of the longest run of units of a pool file that are noise, which is data of the file.
fn damage(bench: &Bench, pool: &str) {
    let path = bench.place.path(&format!("{pool}.pool"));
    let image = fs::read(&path).unwrap();
    let is_noise = |unit: &[u8]| unit.iter().filter(|byte| **byte == 0).count() < 64;
    let (mut run, mut best) = (0, (0, 0));
    for (at, unit) in image.chunks(UNIT).enumerate() {
        run = if is_noise(unit) { run + 1 } else { 0 };
        best = best.max((run, at));
    }
    assert!(best.0 > 500, "{best:?}");
    let at = (best.1 - best.0 / 2) * UNIT;
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[image[at] ^ 1], at as u64).unwrap();
    file.sync_all().unwrap();
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The lines of a table without its head, as words.
fn table(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().skip(1);
    rows.map(|row| row.split_whitespace().collect()).collect()
}

#[test]
fn a_copy_is_proved_without_a_key() {
    let bench = needs!(with_copy());
    let challenge = "5a".repeat(32);
    let proofs = |top: &str, names: &[&str]| -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| format!("{top}@{name}")).collect();
        let line = format!("--json verify --challenge {challenge} {}", names.join(" "));
        let rows = json(&bench.ok(&line));
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["proof"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = proofs("tank/a", &["1", "2", "3"]);
    assert_eq!(all, proofs("safe/a", &["1", "2", "3"]));
    // What is read depends on the snapshot before.
    assert_ne!(all[1], proofs("tank/a", &["2"])[0]);
    has(&bench.ok("verify safe/a"), "safe/a@3");
    bench.place.fails("verify safe", USAGE);
    bench.place.fails("verify --challenge 00 safe/a", USAGE);
    bench.place.fails("verify safe/a@none", NOT_FOUND);

    let told = bench.ok("replicate verify copy");
    let rows = table(&told);
    assert_eq!(rows.len(), 3, "{told}");
    for row in &rows {
        assert_eq!(row[1..4], ["whole", "yes", "right"], "{told}");
    }
    has(&bench.ok("replicate status copy"), "all copies are whole");
    // The source has no key any more.
    bench.ok("unmount tank/a");
    bench.ok("key unload tank/a");
    let told = bench.ok("replicate verify --newest copy");
    assert_eq!(table(&told)[0][..4], ["safe/a@3", "whole", "yes", "no-key"]);
    assert_eq!(table(&told).len(), 1, "{told}");
}

/// A dataset that was never written has no seal, which is not a wrong one.
#[test]
fn a_copy_of_an_empty_dataset_is_whole() {
    let bench = needs!(Bench::new());
    let key = bench.place.arg("key");
    bench.ok(&format!("keygen {key}"));
    bench.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{key} -o mountpoint=none tank/empty"
    ));
    bench.ok("snapshot tank/empty@1");
    bench.ok("replicate add copy tank/empty safe/empty --every 365d");
    bench.ok("replicate run copy");
    let told = bench.ok("replicate verify copy");
    assert_eq!(
        table(&told)[0][..4],
        ["safe/empty@1", "whole", "yes", "unsealed"]
    );
}

#[test]
fn a_report_is_checked_later_by_its_anchors() {
    let bench = needs!(with_copy());
    let file = bench.place.arg("report");
    // The source has destroyed one of them.
    bench.ok("destroy -f tank/a@2");
    let told = bench.ok(&format!("replicate verify --report {file} copy"));
    let rows = table(&told);
    assert_eq!(
        rows[1][..4],
        ["safe/a@2", "claimed", "no", "right"],
        "{told}"
    );
    assert_eq!(rows.len(), 3, "{told}");
    bench
        .place
        .fails(&format!("replicate verify --report {file} copy"), EXISTS);
    bench.write_for("tank/a@4", "fourth", "4");
    let told = bench.ok(&format!("--json anchor verify {file}"));
    let rows = json(&told);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 3, "{told}");
    assert!(rows.iter().all(|row| row["outcome"] == "later"), "{told}");
    let text = fs::read_to_string(bench.place.path("report")).unwrap();
    has(&text, "safe/a@3: whole, proved: yes, seal: right");
    let mode = fs::metadata(bench.place.path("report")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
}

#[test]
fn lost_records_of_a_copy_are_named() {
    let bench = needs!(with_copy());
    damage(&bench, "safe");
    let done = bench.place.run(&words("verify safe/a"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.out, "safe/a@2: record ");
    // The later one has the record too.
    has(&done.out, "safe/a@3: record ");
    has(&done.err, "2 of 3 snapshots are damaged");
    let done = bench.place.run(&words("replicate verify copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    let states: Vec<&str> = table(&done.out).iter().map(|row| row[1]).take(3).collect();
    assert_eq!(states, ["whole", "damaged", "damaged"], "{done:?}");
    has(
        &done.err,
        "the copy safe/a@2 is damaged: records are damaged",
    );
    let status = bench.ok("replicate status copy");
    has(&status, "the copy safe/a@2 is damaged");
    has(&bench.ok("pool events"), "replicate_damage");
    // It is remembered, and a good verification ends it.
    let events = bench.ok("pool events");
    bench.place.run(&words("replicate verify copy"));
    assert_eq!(bench.ok("pool events"), events);
    bench.ok("rollback -r safe/a@1");
    bench.ok("replicate run copy");
    let told = bench.ok("replicate verify copy");
    assert!(table(&told).iter().all(|row| row[1] == "whole"), "{told}");
    has(&bench.ok("pool events"), "replicate_whole");
}

#[test]
fn a_damaged_source_proves_nothing() {
    let bench = needs!(with_copy());
    bench.ok("pool sync tank");
    damage(&bench, "tank");
    let done = bench.place.run(&words("replicate verify copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "tank/a@2: the source itself is damaged");
    let row: Vec<&str> = table(&done.out).remove(1);
    assert_eq!(row[..3], ["safe/a@2", "source-damaged", "no"], "{done:?}");
    has(
        &bench.ok("replicate status copy"),
        "the source itself is damaged",
    );
}

#[test]
fn a_snapshot_that_the_target_leaves_out_is_missing_and_the_newest_copy_does_not_end_that() {
    let bench = needs!(with_copy());
    bench.ok("destroy -f safe/a@2");
    let missing = || {
        let done = bench.place.run(&words("replicate verify copy"));
        assert_eq!(done.code, DAMAGED, "{done:?}");
        has(&done.err, "the copy safe/a@2 is missing");
    };
    missing();
    let told = bench.ok("replicate verify --newest copy");
    assert_eq!(table(&told)[0][..3], ["safe/a@3", "whole", "yes"]);
    has(
        &bench.ok("replicate status copy"),
        "the copy safe/a@2 is missing",
    );
    bench.ok("destroy -f tank/a@2");
    has(&bench.ok("replicate verify copy"), "whole");
    let status = bench.ok("replicate status copy");
    has(&status, "all copies are whole");
}

#[test]
fn a_target_that_was_put_back_is_older_and_a_lost_one_is_missing() {
    let bench = needs!(with_copy());
    bench.ok("destroy -f safe/a@3");
    let done = bench.place.run(&words("replicate verify copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "the copy safe/a is older");
    bench.ok("destroy -f -r safe/a");
    let done = bench.place.run(&words("replicate verify copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.err, "the copy safe/a is missing");
    // What was never copied is no failure of a copy.
    bench.ok("create tank/new");
    bench.ok("snapshot tank/new@1");
    bench.ok("replicate add first tank/new safe/new --every 365d --window 00:00-00:01");
    let done = bench.place.run(&words("replicate verify first"));
    assert!([0, NOT_FOUND].contains(&done.code), "{done:?}");
}

#[test]
fn a_drill_restores_from_the_copy_and_is_remembered() {
    let bench = needs!(with_copy());
    has(&bench.ok("replicate status copy"), "restored: never");
    let said = bench.place.fails("replicate drill copy", NO_KEY);
    has(&said, "'safe/a' is not mounted");
    bench.ok("key accept safe/a");
    bench.ok("mount -l -o ro safe/a");
    let told = bench.ok("replicate drill copy");
    has(&told, "safe/a@3: 3 of 3 files compared");
    has(&told, "restored: ");
    let none = bench.place.run(&words("replicate drill --sample 0 copy"));
    assert_eq!(none.code, USAGE, "{none:?}");
    has(
        &bench.ok("replicate status copy"),
        "a drill found no difference",
    );
    // A file of the copy that cannot be read is named.
    bench.ok("unmount safe/a");
    bench.ok("pool export safe");
    damage(&bench, "safe");
    let file = bench.place.arg("safe.pool");
    bench.ok(&format!("pool import -d {file} safe"));
    bench.ok("mount -l -o ro safe/a");
    let done = bench.place.run(&words("replicate drill --all copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(&done.out, "noise: cannot be read: ");
    has(
        &bench.ok("replicate status copy"),
        "1 file of safe/a@3 differs from its source",
    );
    // Names of files stay in the terminal of the caller.
    for told in [
        "replicate status copy",
        "pool events -v",
        "--json replicate list",
    ] {
        assert!(!bench.ok(told).contains("noise"), "{told}");
    }
}

#[test]
fn a_drill_that_restores_nothing_is_not_noted() {
    let bench = needs!(Bench::new());
    bench.ok("create tank/empty");
    bench.ok("snapshot tank/empty@1");
    bench.ok("replicate add copy tank/empty safe/empty --every 365d");
    bench.ok("replicate run copy");
    // The run may have mounted it.
    bench.place.run(&words("mount -o ro safe/empty"));
    let done = bench.place.run(&words("replicate drill copy"));
    assert_eq!(done.code, NOT_FOUND, "{done:?}");
    has(&done.err, "nothing of safe/empty@1 was restored");
    has(&bench.ok("replicate status copy"), "restored: never");
}

/// A stand-in for `ssh` that runs the command here, through a program that may change the answer.
fn start_with_host(bench: &mut Bench) {
    let (dir, socket) = (bench.place.arg(""), bench.place.arg("socket"));
    let program = Path::new(PROGRAM).parent().unwrap().display();
    let text = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n\
         export PATH={program}:$PATH STRONGROOM_SOCKET={socket}\n\
         case $3 in *verify*) if [ -e {dir}/lie ]; then sh -c \"$3\" | sh {dir}/lie; exit 0; fi ;; esac\n\
         exec sh -c \"$3\"\n"
    );
    let path = bench.place.path("ssh");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let ssh = bench.place.arg("ssh");
    bench.place.terminate();
    bench.place.start_with("STRONGROOM_SSH", &ssh);
    bench.ok("mount -a -l");
}

#[test]
fn another_host_proves_its_copy_and_a_lie_is_found() {
    let bench = needs!(bench_with_copy("ssh://host/safe/a", start_with_host));
    let told = bench.ok("replicate verify copy");
    assert!(
        table(&told)
            .iter()
            .all(|row| row[1..4] == ["whole", "yes", "right"]),
        "{told}"
    );
    let lie = |script: &str| fs::write(bench.place.path("lie"), script).unwrap();
    let says = |script: &str, code: i32, why: &str| {
        lie(script);
        let done = bench.place.run(&words("replicate verify copy"));
        assert_eq!(done.code, code, "{script}: {done:?}");
        has(&done.err, why);
    };
    let zeros = "0".repeat(64);
    says(
        &format!("sed 's/\"proof\": \"[0-9a-f]*\"/\"proof\": \"{zeros}\"/'"),
        DAMAGED,
        "does not prove that it has the records",
    );
    says(
        &format!("sed 's/\"seal\": \"[0-9a-f]*\"/\"seal\": \"{zeros}\"/'"),
        DAMAGED,
        "is mixed",
    );
    says(
        "sed 's/@2/@9/'",
        OTHER,
        "its verification is not understood",
    );
    says("echo hello", OTHER, "its verification is not understood");
    // An answer that says nothing leaves the finding, and is told.
    let status = bench.ok("replicate status copy");
    has(&status, "is mixed: ");
    has(&status, "; last attempt: ");
    says(
        "head -c 20000000 /dev/zero",
        OTHER,
        "its answer is too long",
    );
    // Damage there is told by the exit code of the program, and by its rows.
    fs::remove_file(bench.place.path("lie")).unwrap();
    damage(&bench, "safe");
    let done = bench.place.run(&words("replicate verify copy"));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    has(
        &done.err,
        "the copy safe/a@2 is damaged: records are damaged",
    );
    has(&done.out, "safe/a@2: record ");
}
