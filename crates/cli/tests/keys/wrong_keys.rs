//! Wrong keys are counted by user and by what they were to open. Ten are an event, a message and a metric.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::common::*;

/// The classes and texts of the events about wrong keys.
fn told(place: &Place) -> Vec<(String, String)> {
    let events = place.json("--json pool events");
    let events = events.as_array().unwrap().iter();
    let of_keys = events.filter(|event| event["class"] == "wrong_key");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    of_keys
        .map(|event| (text(&event["pool"]), text(&event["text"])))
        .collect()
}

fn count_of(place: &Place, name: &str) -> u64 {
    let rows = place.json("--json key tries");
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["name"] == name);
    row.map_or(0, |row| row["count"].as_u64().unwrap())
}

#[test]
fn ten_wrong_passphrases_are_an_event_and_a_message() {
    let place = Place::new();
    place.pool("tank");
    place.ok_with("create -u -o encryption=on tank/a", "the right one\n");
    place.ok("key unload tank/a");
    let config = place.path("notify.toml");
    fs::write(&config, "[[program]]\npath = \"/bin/true\"\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let notify = "notify run -n -c {DIR}/notify.toml --state {DIR}/record";

    place.ok_with("key load -n tank/a", "the right one");
    assert_eq!(count_of(&place, "tank/a"), 0, "a right key counts");
    for number in 1..10 {
        place.fails_with("key load tank/a", "hunter2hunter2", WRONG_KEY);
        assert_eq!(count_of(&place, "tank/a"), number);
    }
    let user = place.json("--json key tries")[0]["user"]
        .as_str()
        .unwrap()
        .to_owned();
    let first = (
        "tank".to_owned(),
        format!("{user} tried a wrong key of tank/a"),
    );
    assert_eq!(told(&place), [first]);
    lacks(&place.ok(notify), "wrong keys");

    place.fails_with("key load -n tank/a", "hunter2hunter2", WRONG_KEY);
    let tenth = format!("{user} tried 10 wrong keys of tank/a within an hour");
    assert_eq!(told(&place)[1], ("tank".to_owned(), tenth.clone()));
    place.says(notify, &tenth);
    place.fails_with("key load tank/a", "hunter2hunter2", WRONG_KEY);
    assert_eq!(told(&place).len(), 2, "each try is an event");
    lacks(&place.log(), "hunter2");
    lacks(&place.ok("pool events -v"), "hunter2");
    // The answer to the right key is the same as before.
    place.ok_with("key load tank/a", "the right one");
}

#[test]
fn wrong_passphrases_of_containers_count() {
    let place = Place::new();
    let file = place.path("disk");
    fs::File::create(&file).unwrap().set_len(32 << 20).unwrap();
    let format = "luks format -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {DIR}/disk";
    place.ok_with(format, "the right one");
    place.fails_with("luks open {DIR}/disk box", "hunter2hunter2", WRONG_KEY);
    let name = file.display().to_string();
    assert_eq!(count_of(&place, &name), 1);
    let (pool, text) = told(&place).remove(0);
    assert_eq!(pool, "-");
    has(&text, &format!("tried a wrong key of {name}"));
}
