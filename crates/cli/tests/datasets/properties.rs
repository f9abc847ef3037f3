//! The reference of properties and the program agree.

use crate::common::*;
use serde_json::Value;

/// The description of each property by `strongroom properties`.
fn reference(place: &Place) -> Vec<Value> {
    let text = place.ok("--json properties");
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

fn word<'a>(property: &'a Value, member: &str) -> &'a str {
    property[member].as_str().unwrap()
}

#[test]
fn set_takes_what_the_reference_says_and_nothing_else() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create tank/files");
    place.ok("create -V 1M tank/disk");
    let known = reference(&place);
    assert!(known.len() > 40, "{}", known.len());
    for property in &known {
        let name = word(property, "name");
        let dataset = match word(property, "has") {
            "volumes" => "tank/disk",
            "the first dataset of a pool" => "tank",
            _ => "tank/files",
        };
        assert_eq!(
            word(property, "who") == "-",
            ["never", "volume"].contains(&word(property, "set"))
        );
        let values = word(property, "values");
        match word(property, "set") {
            "always" => {
                // There may be no NFS server, so only 'off' is set.
                let is_words = name != "sharenfs"
                    && !values.contains("a size")
                    && !values.contains("a number")
                    && !values.contains(" to ");
                let allowed = values.split(" | ").filter(|word| {
                    is_words && !word.starts_with("a ") && !word.starts_with("KIND:")
                });
                let default = Some(word(property, "default")).filter(|default| *default != "-");
                for value in allowed.chain(default) {
                    // Files cannot be reserved.
                    if (name, value) == ("reservations", "on") {
                        place.fails(&format!("set {name}={value} {dataset}"), USAGE);
                        continue;
                    }
                    place.ok(&format!("set {name}={value} {dataset}"));
                    let line = format!("get -Hp -o value,source {name} {dataset}");
                    if !values.contains("a size") && !values.contains("a number") {
                        let is = place.ok(&line);
                        assert!(is.ends_with("\tlocal\n"), "{name}={value}: {is}");
                    }
                }
                place.fails(&format!("set {name}=no-such-word {dataset}"), USAGE);
            }
            "volume" => assert!(["volsize", "volblocksize"].contains(&name), "{name}"),
            _ => {
                place.fails(&format!("set {name}=on {dataset}"), USAGE);
            }
        }
        if property["inherits"] == true && word(property, "set") == "always" {
            place.ok(&format!("inherit {name} {dataset}"));
            let from = place.ok(&format!("get -H -o source {name} {dataset}"));
            assert_ne!(from, "local\n", "{name}");
        }
    }
}

#[test]
fn every_property_of_get_is_in_the_reference() {
    let place = Place::new();
    place.pool("tank");
    let known = reference(&place);
    let page = place.ok("help properties");
    for name in place.ok("get -H -o property all tank").lines() {
        assert!(known.iter().any(|row| word(row, "name") == name), "{name}");
        assert!(
            page.lines()
                .any(|line| line.trim_start().split(' ').next() == Some(name))
        );
    }
}

#[test]
fn one_property_is_explained_without_a_daemon() {
    let place = Place::without_daemon();
    let page = place.ok("properties refquota compress");
    has(&page, "  refquota\n");
    has(&page, "  compression (short: compress)\n");
    has(&page, "Default: lz4");
    has(&page, "tenants below their root");
    has(&page, "Since: 0.1.0");
    assert_eq!(place.ok("help property refquota compress"), page);
    let table = place.ok("properties");
    assert!(table.starts_with("PROPERTY"), "{table}");
    place.fails("properties nonsense", NOT_FOUND);
    assert!(!place.socket().exists());
}

#[test]
fn written_counts_from_the_snapshot_before_and_userrefs_the_holds() {
    needs!(can_mount());
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place.ok("create -o compression=off tank/a");
    let write = |name: &str, len: usize| {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        std::fs::write(place.path("mnt/a").join(name), bytes).unwrap();
        place.ok("pool sync tank");
    };
    let number = |property: &str, name: &str| -> u64 {
        let text = place.ok(&format!("get -Hp -o value {property} {name}"));
        text.trim().parse().unwrap()
    };
    write("one", 1 << 20);
    assert_eq!(number("written", "tank/a"), number("referenced", "tank/a"));
    place.ok("snapshot tank/a@one");
    assert!(number("written", "tank/a@one") >= 1 << 20);
    assert!(number("written", "tank/a") < 1 << 18);
    write("two", 2 << 20);
    let since = number("written", "tank/a");
    assert!((2 << 20..5 << 19).contains(&since), "{since}");
    place.ok("snapshot tank/a@two");
    let of_two = number("written", "tank/a@two");
    assert!((2 << 20..5 << 19).contains(&of_two), "{of_two}");

    assert_eq!(number("userrefs", "tank/a@one"), 0);
    place.ok("hold keep tank/a@one");
    place.ok("hold also tank/a@one");
    assert_eq!(number("userrefs", "tank/a@one"), 2);
    assert_eq!(number("userrefs", "tank/a@two"), 0);
    place.ok("release keep tank/a@one");
    assert_eq!(number("userrefs", "tank/a@one"), 1);
    assert_eq!(place.ok("list -H -o userrefs tank/a"), "-\n");
}
