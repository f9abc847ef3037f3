//! The dashboard in a real browser: every page, each act, sessions that end, pools that fail, long lists.
//!
//! `tests/dashboard/` has what the browser does. Variables of the environment: `AXE_CORE` is the file `axe.min.js` of
//! axe-core, which then checks every page; `DASHBOARD_DATASETS` and `DASHBOARD_SNAPSHOTS` say how many there are, for
//! example 2000 datasets and 5 snapshots of each.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::*;
use crate::site::Web;

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A number from the environment.
fn many(variable: &str, otherwise: u32) -> u32 {
    let value = std::env::var(variable).ok();
    value
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

#[test]
fn in_a_browser() {
    let [chromium, driver, python] = ["chromium", "chromedriver", "python3"].map(program);
    let (Some(chromium), Some(driver), Some(python)) = (chromium, driver, python) else {
        eprintln!("skipped: chromium, chromedriver or python3 is not installed");
        return;
    };
    let place = Place::new();
    for name in ["third.img", "fourth.img", "good.img", "bad.img"] {
        let file = fs::File::create(place.path(name)).expect("a file");
        file.set_len(64 << 20).expect("room");
    }
    place.ok("pool create -s 64M -m none tank mirror {DIR}/first.img {DIR}/second.img");
    place.ok("create tank/many");
    place.ok("create -V 4M tank/many/disk");
    for number in 0..many("DASHBOARD_DATASETS", 20) {
        place.ok(&format!("create tank/many/{number}"));
    }
    for number in 0..many("DASHBOARD_SNAPSHOTS", 30) {
        place.ok(&format!("snapshot -r tank/many@{number}"));
    }
    let (web, _) = Web::on_network(&place);
    let token = place.ok("web token create browser");
    let mut command = Command::new(python);
    // Root can be several users.
    if is_root() {
        place.ok("create tank/theirs");
        place.ok("create tank/rented");
        place.ok("allow daemon snapshot tank/theirs");
        place.ok("zone create flat --dataset tank/rented --owner bin");
        let token = |line: &str| place.ok(&format!("web token create {line}"));
        let delegate = token("--user daemon delegate");
        command.env("DASHBOARD_DELEGATE", delegate.trim());
        command.env("DASHBOARD_TENANT", token("--zone flat tenant").trim());
    }
    let done = command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/dashboard/main.py"
        ))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("STRONGROOM", PROGRAM)
        .env("STRONGROOM_SOCKET", place.socket())
        .env("DASHBOARD_URL", format!("https://{}/", web.address))
        .env("DASHBOARD_TOKEN", token.trim())
        .env("DASHBOARD_DIR", place.root())
        .env("CHROMIUM", chromium)
        .env("CHROMEDRIVER", driver)
        .status()
        .expect("python");
    assert!(done.success(), "the browser test failed; see above");
}
