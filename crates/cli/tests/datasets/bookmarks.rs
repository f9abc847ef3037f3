//! Bookmarks: made, listed, sent from and destroyed by the command line; who may do it.

use crate::common::bench::Bench;
use crate::common::*;

#[test]
fn an_increment_goes_on_from_a_snapshot_that_is_gone() {
    let bench = needs!(Bench::new());
    bench.copy("tank/a@1", "full", "safe/b");
    bench.ok("bookmark tank/a@1 #one");
    bench.place.fails("bookmark tank/a@1 tank/a#one", EXISTS);
    bench.place.fails("bookmark tank/a@1 tank#one", USAGE);
    bench.place.fails("bookmark tank/a@2 tank/a#two", NOT_FOUND);
    bench.place.fails("bookmark tank/a tank/a#two", USAGE);
    bench.ok("destroy -f tank/a@1");
    std::fs::remove_file(bench.file("tank/a", "first")).unwrap();
    bench.write_for("tank/a@2", "second", &"2".repeat(300_000));
    let told = bench.ok("send -n -P -w -i #one tank/a@2");
    has(&told, "incremental\t#one\ttank/a@2\t");
    bench.send("-i #one tank/a@2", "next");
    has(&told, &format!("size\t{}\n", bench.stream("next").len()));
    bench.receive("safe/b", "next");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/b", "first"), None);
    assert_eq!(bench.read("safe/b", "second"), Some("2".repeat(300_000)));
    bench.ok("pool scrub -w safe");
    // Without the key nobody can tell whether all that is new would be sent.
    bench
        .place
        .refuses("send -n -i #one tank/a@2", USAGE, "only as it is sealed");
    bench.place.fails("send -n -w -I #one tank/a@2", USAGE);
    bench.place.fails("send -n -w -i #none tank/a@2", NOT_FOUND);
    // A dataset that is not encrypted is sent in the clear too.
    bench.ok("create tank/clear");
    bench.ok("snapshot tank/clear@1");
    assert!(bench.sends("send tank/clear@1", "clear"));
    bench.receive("safe/clear", "clear");
    bench.ok("bookmark tank/clear@1 tank/clear#1");
    bench.ok("destroy -f tank/clear@1");
    bench.write_for("tank/clear@2", "new", "n");
    assert!(bench.sends("send -i #1 tank/clear@2", "more"));
    bench.receive("safe/clear", "more");
    bench.open_again("safe");
    assert_eq!(bench.read("safe/clear", "new"), Some("n".into()));
    bench
        .place
        .fails("send -n -w -i tank/clear#1 tank/a@2", USAGE);
    // What is new since then.
    let new = bench.ok("get -Hp -o value written#one tank/a@2");
    let new: u64 = new.trim().parse().unwrap();
    assert!((4096..300_000).contains(&new), "{new}");
    assert_eq!(
        bench.ok("list -Hp -o name,written@2,written#one,written@none tank/a@2"),
        format!("tank/a@2\t0\t{new}\t-\n")
    );
    bench.ok("snapshot tank/clear@3");
    assert_eq!(
        bench.ok("get -Hp -o value written@2,written@tank/clear@2,written tank/clear@3"),
        "0\n0\n0\n"
    );
    assert_eq!(bench.ok("get -H -o value written@3 tank/clear@2"), "-\n");
    bench.ok("destroy -f tank/clear@3");
    bench.place.fails("set written@2=1 tank/clear", USAGE);
    bench.place.fails("get written@ tank/clear", NOT_FOUND);
    // What is listed.
    let names = |line: &str| bench.ok(&format!("list -H -o name,type {line}"));
    assert_eq!(
        names("-t bookmark"),
        "tank/a#one\tbookmark\ntank/clear#1\tbookmark\n"
    );
    assert_eq!(names("-t bookmark tank/a"), "tank/a#one\tbookmark\n");
    assert_eq!(
        names("-r -t all tank/a"),
        "tank/a\tfilesystem\ntank/a@2\tsnapshot\ntank/a#one\tbookmark\n"
    );
    assert_eq!(names("tank/a"), "tank/a\tfilesystem\n");
    let guid = bench.ok("get -H -o value guid safe/b@1");
    assert_eq!(bench.ok("get -H -o value guid tank/a#one"), guid);
    // A rollback takes those that are later.
    bench.ok("snapshot tank/a@3");
    bench.ok("bookmark tank/a@3 tank/a#three");
    bench.ok("destroy -f tank/a@3");
    bench.ok("rename tank/a tank/c");
    bench.place.fails("rollback tank/c@2", BUSY);
    bench.ok("rollback -r tank/c@2");
    bench.place.fails("destroy tank/c#three", NOT_FOUND);
    bench.place.fails("destroy -r tank/c#one", USAGE);
    bench.ok("destroy tank/c#one");
    assert_eq!(names("-r -t bookmark tank/c"), "");
    has(
        &bench.ok("pool history tank"),
        "bookmark tank/a@1 'tank/a#one'",
    );
    bench.ok("inspect --check tank");
    has(&bench.ok("pool upgrade tank"), "bookmarks     active");
}

#[test]
fn who_may_make_bookmarks() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/b");
    place.ok("snapshot -r tank@1");
    place.ok("bookmark tank/b@1 #1");
    let ann = |line: &str| place.run_as((ANN, ANN), &place.socket(), line).code;
    let lines = [
        "bookmark tank/a@1 tank/a#1",
        "list -t bookmark tank/a",
        "destroy tank/a#1",
    ];
    for line in lines {
        assert_eq!(ann(line), PERMISSION, "a stranger: {line}");
    }
    place.ok(&format!("allow {ANN} bookmark tank/a"));
    assert_eq!(ann(lines[0]), 0);
    assert_eq!(ann(lines[1]), 0);
    assert_eq!(ann(lines[2]), PERMISSION);
    assert_eq!(ann("bookmark tank/b@1 tank/b#2"), PERMISSION);
    assert_eq!(ann("bookmark tank/b@1 tank/a#2"), PERMISSION);
    assert_eq!(ann("get all tank/b#1"), PERMISSION);
    place.ok(&format!("allow {ANN} send tank/a"));
    assert_eq!(ann("send -n -w -i tank/b#1 tank/a@1"), PERMISSION);
    place.ok(&format!("allow {ANN} destroy tank/a"));
    assert_eq!(ann(lines[2]), 0);
    assert_eq!(place.ok("list -H -o name -t bookmark"), "tank/b#1\n");
}
