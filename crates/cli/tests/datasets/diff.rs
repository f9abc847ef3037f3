//! Changes since a snapshot, and damage: by name with the key, by number without.

use std::fs;

use crate::common::bench::Bench;
use crate::common::*;

#[test]
fn names_with_the_key_and_numbers_without() {
    let bench = needs!(Bench::new());
    let at = |name: &str| bench.file("tank/a", name);
    fs::create_dir(at("dir")).unwrap();
    for name in ["dir/stays", "changes", "goes", "moves", "a b"] {
        bench.write("tank/a", name, name);
    }
    bench.ok("snapshot tank/a@2");
    assert_eq!(bench.ok("diff tank/a@2"), "");
    bench.write("tank/a", "changes", "changed");
    fs::remove_file(at("goes")).unwrap();
    fs::rename(at("moves"), at("dir/moved")).unwrap();
    fs::rename(at("a b"), at("c\\d")).unwrap();
    bench.write("tank/a", "new", "n");
    // Only read.
    assert_eq!(bench.read("tank/a", "dir/stays"), Some("dir/stays".into()));
    let dir = bench.place.arg("mnt/tank/a");
    let expected = format!(
        "M\t{dir}/\nR\t{dir}/a\\0040b -> {dir}/c\\0134d\nM\t{dir}/changes\nM\t{dir}/dir\n-\t{dir}/goes\n\
         R\t{dir}/moves -> {dir}/dir/moved\n+\t{dir}/new\n"
    );
    assert_eq!(bench.ok("diff tank/a@2"), expected);
    bench.ok("snapshot tank/a@3");
    bench.write("tank/a", "later", "l");
    assert_eq!(bench.ok("diff tank/a@2 @3"), expected);
    assert_eq!(bench.ok("diff tank/a@2 tank/a@3"), expected);
    let typed = bench.ok("diff -FHt tank/a@2 @3");
    let row = typed.lines().find(|row| row.contains("moved")).unwrap();
    let cells: Vec<&str> = row.split('\t').collect();
    assert_eq!(cells[1..3], ["R", "F"]);
    assert!(cells[4].ends_with("/dir/moved"), "{row}");
    let [secs, nanos] = cells[0].trim().split('.').collect::<Vec<_>>()[..] else {
        panic!("{row}");
    };
    assert!(secs.parse::<u64>().unwrap() > 1_600_000_000 && nanos.len() == 9);
    assert!(
        bench
            .ok("--json diff tank/a@2 @3")
            .contains("\"change\": \"R\"")
    );
    bench.place.fails("diff tank/a@3 @2", USAGE);
    bench.place.fails("diff tank/a", USAGE);
    bench.place.fails("diff tank/a@nothing", NOT_FOUND);

    bench.ok("unmount tank/a");
    let root = bench.ok("diff tank/a@2 @3");
    assert_eq!(root, expected.replace(&dir, ""));
    bench.ok("key unload tank/a");
    let counts = bench.ok("diff tank/a@2 @3");
    has(&counts, "metadata");
    has(&counts, "key is not loaded");
    assert_eq!(find(counts.as_bytes(), b"moved"), None);
    assert!(
        bench
            .ok("--json diff tank/a@2 @3")
            .contains("\"files\": null")
    );
}

#[test]
fn it_reads_what_changed() {
    let bench = needs!(Bench::new());
    for number in 0..3000 {
        bench.write("tank/a", &format!("file-{number}"), "x");
    }
    bench.ok("snapshot tank/a@2");
    bench.write_for("tank/a@3", "file-7", "y");
    let counts = |text: &str| -> Vec<u64> {
        let line = text.lines().find(|line| line.starts_with("metadata"));
        let numbers = line.unwrap().split_whitespace().skip(1);
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    assert!(bench.ok("diff tank/a@2 @3").ends_with("/file-7\n"));
    bench.ok("unmount tank/a");
    bench.ok("key unload tank/a");
    assert!(counts(&bench.ok("diff tank/a@1 @2"))[1] > 20);
    assert!(counts(&bench.ok("diff tank/a@2 @3"))[1] < 10);
}

/// The unit in the middle of the longest run of units that differ.
fn middle_of_change(before: &[u8], after: &[u8]) -> usize {
    let pairs = before.chunks(4096).zip(after.chunks(4096));
    let (mut run, mut best) = (0, (0, 0));
    for (at, (old, new)) in pairs.enumerate() {
        run = if old == new { 0 } else { run + 1 };
        best = best.max((run, at));
    }
    (best.1 - best.0 / 2) * 4096
}

#[test]
fn damaged_files_have_names_with_the_key() {
    let bench = needs!(Bench::new());
    let file = bench.place.path("tank.pool");
    bench.ok("pool sync tank");
    let before = fs::read(&file).unwrap();
    fs::create_dir(bench.file("tank/a", "dir")).unwrap();
    let hostile = bench.file("tank/a", "dir/two\nlines");
    fs::write(hostile, contents(7, 4 << 20)).unwrap();
    bench.ok("pool export tank");
    let mut image = fs::read(&file).unwrap();
    let at = middle_of_change(&before, &image);
    image[at] ^= 1;
    fs::write(&file, image).unwrap();
    bench.ok(&format!("pool import -d {} tank", file.display()));
    bench.ok("mount -a -l");
    bench.place.fails("pool scrub -w tank", DAMAGED);

    let short = bench.ok("pool status tank");
    has(&short, "'strongroom pool status -v tank' names them");
    lacks(&short, "two");
    let dir = bench.place.arg("mnt/tank/a");
    let named = format!("tank/a: {dir}/dir/two\\nlines");
    has(&bench.ok("pool status -v tank"), &format!("\t{named}\n"));
    has(&bench.ok("--json pool status tank"), &named);
    bench.ok("unmount tank/a");
    let inside = bench.ok("pool status -v tank");
    has(&inside, "\ttank/a: /dir/two\\nlines\n");
    bench.ok("key unload tank/a");
    let without = bench.ok("pool status -v tank");
    has(&without, "tank/a: a record of a file, slot ");
    has(&without, "to see it: strongroom key load tank/a");
    lacks(&without, "two");
}
