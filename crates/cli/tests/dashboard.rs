//! The dashboard in a real browser: every page, each act, sessions that end, pools that fail, long lists.
//!
//! `tests/dashboard/` has what the browser does. Variables of the environment: `AXE_CORE` is the file `axe.min.js` of
//! axe-core, which then checks every page; `DASHBOARD_DATASETS` and `DASHBOARD_SNAPSHOTS` say how many there are, for
//! example 2000 datasets and 5 snapshots of each.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use common::*;

/// `strongroom web`, which ends with the test.
struct Web {
    process: Child,
    url: String,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Web {
    fn start(place: &Place) -> Web {
        let key = rcgen::generate_simple_self_signed(["localhost".into()]).expect("a certificate");
        fs::write(place.path("cert.pem"), key.cert.pem()).expect("a file");
        fs::write(place.path("key.pem"), key.signing_key.serialize_pem()).expect("a file");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(place.path("key.pem"), private).expect("it is ours");
        let mut command = place.command();
        let mut process = command
            .args(["web", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"])
            .args(["--tls-key", "key.pem", "--at", &place.arg("web.sock")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut url = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut url)
            .expect("it says where it listens");
        assert!(url.starts_with("https://"), "{url:?}");
        Web {
            process,
            url: url.trim().into(),
        }
    }
}

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
    let web = Web::start(&place);
    let token = place.ok("web token create browser");
    let done = Command::new(python)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/dashboard/main.py"
        ))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("STRONGROOM", PROGRAM)
        .env("STRONGROOM_SOCKET", place.socket())
        .env("DASHBOARD_URL", &web.url)
        .env("DASHBOARD_TOKEN", token.trim())
        .env("DASHBOARD_DIR", place.root())
        .env("CHROMIUM", chromium)
        .env("CHROMEDRIVER", driver)
        .status()
        .expect("python");
    assert!(done.success(), "the browser test failed; see above");
}
