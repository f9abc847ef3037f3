//! The page that a link opens: `strongroom web open`, and attacks on it by other users and other pages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Gid, Uid};
use serde_json::{Value as Json, json};

use crate::common::*;
use crate::site::{get, post};

/// A page that is served, until the test ends.
struct Page {
    process: Child,
    /// `127.0.0.1:PORT`.
    address: String,
    code: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status, the whole answer and its body. All are empty if the connection was closed at once.
type Answer = (u16, String, Json);

impl Page {
    fn open(place: &Place, args: &[&str]) -> Page {
        let mut command = place.command();
        command
            .env("STRONGROOM_SOCKET", place.socket())
            .args(["web", "open"])
            .args(args);
        Page::by(command)
    }

    fn by(mut command: Command) -> Page {
        command
            .env_remove("SUDO_UID")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let link = lines.next().expect("a link").unwrap();
        let rest = link.strip_prefix("http://").expect("a link");
        let (address, code) = rest.split_once("/#open=").expect("a code in the fragment");
        Page {
            address: address.to_owned(),
            code: code.to_owned(),
            process,
        }
    }

    fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("a port");
        let mut answer = String::new();
        // The other end may be closed already.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let body = serde_json::from_str(body).unwrap_or_default();
        (status.unwrap_or(0), answer, body)
    }

    /// Asks as another user.
    fn ask_as(&self, uid: u32, request: &str) -> Answer {
        let ask = || {
            // Of this thread only.
            rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
            rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
            self.ask(request)
        };
        std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
    }

    fn login(&self, headers: &str, code: &str) -> String {
        post("/v1/session", headers, json!({ "code": code }))
    }

    /// Opens the link, and returns the header with the cookie, for requests.
    fn enter(&self) -> String {
        let (status, answer, _) = self.ask(&self.login("", &self.code));
        assert_eq!(status, 200, "{answer}");
        cookie(&answer)
    }

    /// The exit code of the process, when it has ended, and its errors.
    fn end(&mut self) -> (i32, String) {
        let status = self.process.wait().expect("it ends");
        let mut errors = String::new();
        let mut said = self.process.stderr.take().unwrap();
        said.read_to_string(&mut errors).unwrap();
        (status.code().unwrap_or(-1), errors)
    }
}

fn cookie(answer: &str) -> String {
    let set = answer.split("Set-Cookie: ").nth(1).expect("a cookie");
    let set = set.lines().next().unwrap();
    for attribute in ["strongroom-", "HttpOnly", "SameSite=Strict", "Path=/"] {
        has(set, attribute);
    }
    format!("Cookie: {}\r\n", set.split(';').next().unwrap())
}

#[test]
fn a_link_opens_one_session() {
    let place = Place::new();
    place.pool("tank");
    let mut page = Page::open(&place, &[]);
    assert!(page.address.starts_with("127.0.0.1:"));
    assert_eq!(
        page.ask(&get("/", "")).0,
        200,
        "the page itself is no secret"
    );
    let datasets = get("/v1/datasets", "");
    for path in [
        "/v1/session",
        "/v1/datasets",
        "/v1/openapi.json",
        "/metrics",
    ] {
        let (status, answer, _) = page.ask(&get(path, ""));
        assert_eq!(status, 401, "{path}");
        lacks(&answer, "tank");
    }
    let bearer = format!("Authorization: Bearer {}\r\n", page.code);
    assert_eq!(page.ask(&get("/v1/datasets", &bearer)).0, 401);

    // Pages of other sites have no use of the right code, and do not use it up.
    let right = page.login("", &page.code);
    let rebound = right.replace("Host: localhost", "Host: evil.example");
    assert_eq!(page.ask(&rebound).0, 421);
    for header in [
        "Origin: https://evil.example\r\n",
        "Origin: http://localhost:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        assert_eq!(page.ask(&page.login(header, &page.code)).0, 403, "{header}");
    }
    let form = right.replace("application/json", "text/plain");
    assert_eq!(page.ask(&form).0, 415);
    assert_eq!(page.ask(&right.replace("X-Strongroom: 1\r\n", "")).0, 403);

    // Once.
    let cookie = page.enter();
    let (status, answer, body) = page.ask(&right);
    assert_eq!(status, 401, "{answer}");
    has(body["error"]["message"].as_str().unwrap(), "web open");
    assert_eq!(page.ask(&datasets).0, 401, "the port alone is no session");
    let with = |path: &str, more: &str| page.ask(&get(path, &format!("{cookie}{more}")));
    let (status, answer, _) = with("/v1/datasets", "");
    assert_eq!(status, 200);
    has(&answer, "tank");
    assert_eq!(with("/v1/session", "").2["via"], "link");
    // A page at another port has set a cookie of the same name, which comes first.
    let name = cookie
        .trim_start_matches("Cookie: ")
        .split('=')
        .next()
        .unwrap();
    let hidden = cookie.replace("Cookie: ", &format!("Cookie: {name}=0; "));
    assert_eq!(page.ask(&get("/v1/datasets", &hidden)).0, 200);
    assert_eq!(with("/v1/session", "Sec-Fetch-Site: same-site\r\n").0, 403);
    let stolen = format!("{cookie}Origin: http://localhost:1\r\n");
    let act = post("/v1/commands/mounts", &stolen, json!({}));
    assert_eq!(page.ask(&act).0, 403);

    // Log out: the process ends.
    let logout = post("/v1/session", &cookie, json!({})).replace("POST", "DELETE");
    assert_eq!(page.ask(&logout).0, 200);
    assert_eq!(page.end(), (0, String::new()));
}

#[test]
fn guesses_end_the_page() {
    let place = Place::new();
    place.ok("daemon status");
    let mut page = Page::open(&place, &[]);
    let mut guess = page.code.clone();
    guess.replace_range(..1, if guess.starts_with('0') { "1" } else { "0" });
    let statuses: Vec<u16> = (0..10)
        .map(|_| page.ask(&page.login("", &guess)).0)
        .collect();
    assert_eq!(statuses, [401; 10]);
    let (code, errors) = page.end();
    assert_eq!(code, 1);
    has(&errors, "strongroom web open");
}

#[test]
fn connections_of_other_users_are_closed() {
    let place = needs!(shared_place());
    place.pool("tank");
    let page = Page::open(&place, &["--user", &ANN.to_string()]);
    let right = page.login("", &page.code);
    let closed = (0, String::new(), Json::Null);
    // BOB has read the link from somewhere.
    assert_eq!(page.ask_as(BOB, &right), closed);
    assert_eq!(page.ask_as(BOB, &get("/", "")), closed);
    let (status, answer, body) = page.ask_as(ANN, &right);
    assert_eq!((status, &body["uid"]), (200, &json!(0)), "{answer}");
    // BOB has a program at another port of this machine, to which a browser of ANN sends the cookie.
    let request = get("/v1/datasets", &cookie(&answer));
    assert_eq!(page.ask_as(BOB, &request), closed);
    assert_eq!(page.ask_as(ANN, &request).0, 200);
    assert_eq!(place.run(&["web", "open", "--user", "no-such"]).code, 3);
}

#[test]
fn a_page_has_the_rights_of_its_user() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/b");
    place.ok(&format!("allow {ANN} snapshot tank/a"));
    let ann = |program: &mut Command| {
        use std::os::unix::process::CommandExt;
        program.uid(ANN).gid(ANN).current_dir("/");
    };
    let mut command = place.command();
    command
        .env("STRONGROOM_SOCKET", place.socket())
        .args(["web", "open"]);
    ann(&mut command);
    let page = Page::by(command);
    // BOB would type passphrases into ANN's page.
    let mut command = place.command();
    command.args(["web", "open", "--user", &BOB.to_string()]);
    ann(&mut command);
    assert_eq!(command.output().unwrap().status.code(), Some(6));
    let right = page.login("", &page.code);
    // Root is another user too.
    assert_eq!(page.ask(&right).0, 0);
    let (status, answer, body) = page.ask_as(ANN, &right);
    assert_eq!((status, &body["admin"]), (200, &json!(false)), "{answer}");
    let cookie = cookie(&answer);
    let (_, answer, _) = page.ask_as(ANN, &get("/v1/datasets", &cookie));
    has(&answer, "tank/a");
    lacks(&answer, "tank/b");
    let other = json!({"names": ["tank/b@x"]});
    let refused = page.ask_as(ANN, &post("/v1/commands/snapshot", &cookie, other));
    assert!(matches!(refused.0, 403 | 404), "{}", refused.1);
}
