//! The reference of properties and the program agree.

mod common;

use common::*;
use serde_json::Value;

/// What `strongroom properties` says of each property.
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
        let values = word(property, "values");
        match word(property, "set") {
            "always" => {
                let is_words = !values.contains("a size") && !values.contains(" to ");
                let allowed = values
                    .split(" | ")
                    .filter(|word| is_words && *word != "a path");
                let default = Some(word(property, "default")).filter(|default| *default != "-");
                for value in allowed.chain(default) {
                    place.ok(&format!("set {name}={value} {dataset}"));
                    let line = format!("get -Hp -o value,source {name} {dataset}");
                    if !values.contains("a size") {
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
    has(&page, "; tenants below the root");
    let table = place.ok("properties");
    assert!(table.starts_with("PROPERTY"), "{table}");
    place.fails("properties nonsense", NOT_FOUND);
    assert!(!place.socket().exists());
}
