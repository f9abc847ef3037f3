//! Command lines and their output, word for word: `tests/help` and `tests/sessions`. The index of the commands and
//! three pages stand for all help; `cmd/help_rules.rs` has the rules for each page.
//!
//! `TRYCMD=overwrite cargo test --test program golden::` writes down what is printed now; then put `[..]` in the
//! place of guids, dates and hosts again. In a session, {DIR} stands for the directory of the test.

use std::fs;
use std::path::Path;

use crate::common::*;

fn cases() -> trycmd::TestCases {
    let cases = trycmd::TestCases::new();
    // The width of help texts, and the zone of times.
    cases.env("COLUMNS", "100").env("TZ", "UTC");
    cases
}

#[test]
fn help_and_usage_errors() {
    // No daemon may be found or started for any of this.
    let place = Place::without_daemon();
    let cases = cases();
    cases
        .env("STRONGROOM_SOCKET", place.arg("socket"))
        .env("XDG_STATE_HOME", place.arg("xdg"))
        .case("tests/help/*.trycmd")
        .insert_var("[SOCKET]", place.arg("socket"))
        .expect("a variable");
    cases.run();
    assert!(!place.socket().exists(), "a daemon was started");
}

/// Runs a session with a daemon of its own.
fn session(name: &str) {
    let place = Place::new();
    let dir = place.root().to_str().expect("UTF-8");
    let template = Path::new("tests/sessions")
        .join(name)
        .with_extension("trycmd");
    let text = fs::read_to_string(&template).unwrap();
    let case = place.path(name).with_extension("trycmd");
    fs::write(&case, text.replace("{DIR}", dir)).unwrap();
    let cases = cases();
    cases
        .env("STRONGROOM_SOCKET", place.arg("socket"))
        .env("XDG_STATE_HOME", place.arg("xdg"))
        .case(&case);
    cases.run();
    if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        let text = fs::read_to_string(&case).unwrap();
        fs::write(&template, text.replace(dir, "{DIR}")).unwrap();
    }
}

macro_rules! sessions {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            session(stringify!($name));
        }
    )*};
}

sessions! {
    caches clones datasets keys logs mirrors pools raidz refusals
    removal slots snapshots volumes
}
