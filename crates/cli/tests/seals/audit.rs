//! The log of who did what: each record is an anchor of all records before it.

use std::fs;

use serde_json::Value;

use crate::common::*;

/// The records that `audit list` shows.
fn records(place: &Place, line: &str) -> Vec<Value> {
    let rows = place.json(&format!("--json {line}"));
    rows.as_array().unwrap().clone()
}

fn command(row: &Value) -> &str {
    row["command"].as_str().unwrap()
}

/// The anchor of the newest record.
fn newest(place: &Place) -> String {
    let newest = &place.json("--json audit verify tank")["newest"];
    let (sequence, hash) = (&newest["sequence"], newest["hash"].as_str().unwrap());
    format!("{sequence}:{hash}")
}

/// The error about an anchor that the log contradicts.
fn contradicted(place: &Place, anchor: &str) -> String {
    let done = place.run(&place.words(&format!("audit verify tank {anchor}")));
    assert_eq!(done.code, DAMAGED, "{done:?}");
    done.err
}

#[test]
fn each_change_is_a_record_with_its_user_and_object() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with("create -u -o encryption=on tank/a", "correct horse\n");
    place.ok("set atime=off tank/a");
    place.ok("allow -u 12345 snapshot tank/a");
    place.ok_with("key change tank/a", "another horse\n");
    place.fails("set atime=sideways tank/a", USAGE);
    place.fails("destroy -f tank/none", NOT_FOUND);
    let all = records(&place, "audit list tank");
    let guid = place.ok("get -H -p -o value guid tank/a");
    let uid = rustix::process::getuid().as_raw();
    for wanted in [
        "set atime=off tank/a",
        "key change tank/a",
        "allow -u 12345",
    ] {
        let row = all.iter().find(|row| command(row).contains(wanted));
        let row = row.unwrap_or_else(|| panic!("{wanted}: {all:?}"));
        assert_eq!(row["uid"], uid, "{wanted}");
        assert_eq!(
            (&row["result"], &row["internal"]),
            (&"done".into(), &false.into())
        );
    }
    let of_object = all
        .iter()
        .filter(|row| row["object"].as_u64() == guid.trim().parse().ok());
    assert!(of_object.count() >= 3, "{all:?}");
    for word in ["sideways", "tank/none", "horse"] {
        let row = all.iter().find(|row| command(row).contains(word));
        assert!(row.is_none(), "{word}: {row:?}");
    }
    let user = records(&place, &format!("audit list --user {uid} tank"));
    assert!(user.iter().all(|row| row["uid"] == uid) && !user.is_empty());
    assert_eq!(
        records(&place, "audit list --since 2100-01-01"),
        [] as [Value; 0]
    );
    place.says("audit list tank", "set atime=off tank/a");
}

#[test]
fn an_anchor_is_proved_until_the_log_is_cut() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create -u tank/a");
    let early = newest(&place);
    place.says(
        &format!("audit verify tank {early}"),
        "the anchor is proved",
    );
    place.ok("pool checkpoint tank");
    place.ok("set atime=off tank/a");
    place.ok("set atime=on tank/a");
    place.ok("create -u tank/b");
    let late = newest(&place);
    place.ok(&format!("audit verify tank {late}"));
    // One digit of the hash.
    let (number, hash) = late.split_once(':').unwrap();
    let digit = if hash.starts_with('0') { '1' } else { '0' };
    let other = format!("{number}:{digit}{}", &hash[1..]);
    has(
        &contradicted(&place, &other),
        "the log of 'tank' was changed",
    );
    let malformed = place.run(&place.words("audit verify tank 5"));
    assert_eq!(malformed.code, USAGE);

    // A later start has the same log.
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR} tank");
    place.ok(&format!("audit verify tank {late}"));

    // The state before, as an attacker with a copy of the devices could bring it back.
    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR} --rewind-to-checkpoint tank");
    place.ok(&format!("audit verify tank {early}"));
    has(&contradicted(&place, &late), "the log of 'tank' was c");
    let report = place.json("--json audit verify tank");
    assert_eq!(report["fault"], Value::Null, "{report}");
}

#[test]
fn an_export_goes_on_where_it_was_and_finds_a_cut() {
    let place = Place::new();
    place.pool("tank");
    let export = "audit export --position {DIR}/position tank";
    let first = place.ok(export);
    let rows: Vec<Value> = first
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(command(&rows[0]).contains("pool create"), "{first}");
    assert_eq!(place.ok(export), "");
    place.ok("pool checkpoint tank");
    place.ok("create -u tank/a");
    let more = place.ok(export);
    has(&more, "create -u tank/a");
    lacks(&more, "pool create");
    let position = fs::read_to_string(place.path("position")).unwrap();
    place.ok(&format!("audit verify tank {}", position.trim()));

    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR} --rewind-to-checkpoint tank");
    has(&place.fails(export, DAMAGED), "which was exported before");
    assert_eq!(
        fs::read_to_string(place.path("position")).unwrap(),
        position
    );
}
