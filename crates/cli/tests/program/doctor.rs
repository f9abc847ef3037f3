//! The first steps of a new user: the state of the machine, and what to do next.

use std::collections::HashSet;
use std::fs;

use crate::common::terminal::Terminal;
use crate::common::*;

/// The checks of the machine, by name.
fn checks(place: &Place) -> Vec<(String, String)> {
    // Some checks may find a problem on the machine that runs this test.
    let done = place.run(&["doctor", "--json"]);
    assert!([0, OTHER].contains(&done.code), "{done:?}");
    let rows: serde_json::Value = serde_json::from_str(&done.out).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let rows = rows.as_array().expect("rows");
    for row in rows {
        assert_eq!(row["state"] == "ok", row["advice"].is_null(), "{row}");
    }
    rows.iter()
        .map(|row| (text(&row["check"]), text(&row["state"])))
        .collect()
}

#[test]
fn doctor_looks_at_the_machine_without_a_daemon() {
    let place = Place::without_daemon();
    let checks = checks(&place);
    let names: HashSet<&str> = checks.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), checks.len());
    for name in ["fuse", "locked-memory", "swap", "processor", "daemon"] {
        assert!(names.contains(name), "{checks:?}");
    }
    assert!(!place.socket().exists(), "a daemon was started");
}

#[test]
fn doctor_names_a_pool_that_is_not_healthy() {
    let place = Place::new();
    let (one, two) = (place.arg("one"), place.arg("two"));
    for device in [&one, &two] {
        fs::File::create(device)
            .and_then(|file| file.set_len(64 << 20))
            .expect("a device");
    }
    place.ok(&format!("pool create -m none tank mirror {one} {two}"));
    let state = |place: &Place| {
        let checks = checks(place);
        let pools = checks.into_iter().find(|(name, _)| name == "pools");
        pools.expect("a row").1
    };
    assert_eq!(state(&place), "ok");
    place.ok(&format!("pool offline tank {two}"));
    assert_eq!(state(&place), "warning");
    has(&place.run(&["doctor", "-x"]).out, "tank");
}

#[test]
fn the_name_of_the_program_alone_shows_the_state_and_the_next_steps() {
    let mut place = Place::without_daemon();
    let mut terminal = Terminal::run(&place, &[]);
    terminal.wait_for("not running");
    terminal.wait_for("strongroom pool create");
    assert!(terminal.ends().0.success());
    assert!(!place.socket().exists(), "a daemon was started");

    place.start();
    let device = place.arg("tank.pool");
    place.ok(&format!("pool create -s 64M -m none tank {device}"));
    let mut terminal = Terminal::run(&place, &[]);
    terminal.wait_for("pool tank: ONLINE");
    assert!(terminal.ends().0.success());
}
