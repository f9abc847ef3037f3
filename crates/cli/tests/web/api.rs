//! The HTTP API: at its socket with the rights of the user who connects, and on the network with those of a token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;

use crate::common::*;
use crate::site::{Web, certify, client, exchange, get, post};
use rustix::process::{Gid, Pid, PidfdFlags, PidfdGetfdFlags, Uid};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value as Json, json};

impl Web {
    fn get(&self, path: &str) -> Json {
        let (status, body) = self.raw(&get(path, ""));
        assert_eq!(status, 200, "{path}: {body}");
        parsed(&body)
    }

    fn post(&self, name: &str, body: Json) -> (u16, Json) {
        let (status, body) = self.raw(&post(&format!("/v1/commands/{name}"), "", body));
        (status, parsed(&body))
    }

    fn ok(&self, name: &str, body: Json) -> Json {
        let (status, answer) = self.post(name, body);
        assert_eq!(status, 200, "{name}: {answer}");
        answer["value"].clone()
    }
}

fn parsed(body: &str) -> Json {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn commands_and_resources_of_root() {
    let place = Place::new();
    place.pool("tank");
    let web = Web::start(&place, &place.socket(), &[]);
    let props = json!([["encryption", "on"], ["keysource", "passphrase,prompt"]]);
    let create = |secrets: Json| json!({"name": "tank/a", "props": props, "no_mount": true, "secrets": secrets});
    // Nothing is done without the passphrase.
    let (status, answer) = web.post("create", create(json!([])));
    assert_eq!(
        (status, &answer["error"]["kind"]),
        (428, &json!("secret-needed"))
    );
    assert_eq!(answer["error"]["ask"]["dataset"], "tank/a");
    place.fails("get name tank/a", NOT_FOUND);
    web.ok("create", create(json!([{"secret": "correct \"horse\""}])));
    web.ok("key-unload", json!({"names": ["tank/a"]}));
    let load = |secret: &str| json!({"names": ["tank/a"], "secrets": [{"dataset": "tank/a", "secret": secret}]});
    assert_eq!(web.post("key-load", load("wrong horse")).0, 422);
    assert_eq!(web.post("key-load", load("short")).0, 422);
    web.ok("key-load", load("correct \"horse\""));
    web.ok("snapshot", json!({"names": ["tank/a@1"]}));

    // What the command line prints.
    let printed = |line: &str| parsed(&place.ok(&format!("--json {line}")));
    assert_eq!(web.get("/v1/keys"), printed("key status"));
    assert_eq!(web.get("/v1/zones"), printed("zone list"));
    let listed = printed("list -t all -o name,guid,encryption");
    let mut got = web.get("/v1/datasets?properties=guid,encryption&snapshots=true");
    for row in got.as_array_mut().unwrap() {
        let name = row["name"].clone();
        let listed = listed
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name);
        assert_eq!(
            row["properties"]["guid"],
            listed.unwrap()["properties"]["guid"]
        );
    }
    assert_eq!(web.get("/v1/snapshots?name=tank/a")[0]["name"], "tank/a@1");
    assert_eq!(
        web.get("/v1/pools")[0]["guid"],
        printed("pool status")[0]["guid"]
    );
    assert_eq!(web.get("/v1/health")["status"], "ok");
    assert_eq!(web.get("/v1/session")["via"], "socket");
    web.ok("pool-scrub", json!({"pool": "tank"}));
    assert_eq!(web.get("/v1/jobs")[0]["id"], "tank/scrub");
    assert_eq!(web.get("/v1/openapi.json")["openapi"], "3.1.0");
    has(&web.raw(&get("/metrics", "")).1, "strongroom_");
    has(&web.raw(&get("/", "")).1, "<title>");

    // A misspelled field destroys nothing, and neither does a wrong address.
    let (status, _) = web.post(
        "destroy",
        json!({"name": "tank/a", "recursive": true, "dryrun": true}),
    );
    assert_eq!(status, 400);
    assert_eq!(web.post("destroy", json!({"name": "tank/b"})).0, 404);
    assert_eq!(web.post("no-such", json!({})).0, 404);
    assert_eq!(web.post("receive", json!({"target": "tank/c"})).0, 415);
    let lent = json!({"device": "/dev/null", "how": "read"});
    assert_eq!(web.post("luks-borrow", lent).0, 400);
    place.ok("get name tank/a@1");
    lacks(&place.log(), "horse");
}

#[test]
fn requests_that_other_sites_could_make_are_refused() {
    let place = Place::new();
    let web = Web::start(&place, &place.socket(), &[]);
    let whole = post("/v1/commands/mounts", "", json!({}));
    assert_eq!(web.raw(&whole).0, 200);
    for (from, to, status) in [
        ("Host: localhost", "Host: evil.example", 421),
        ("Host: localhost", "Host: localhost.evil.example", 421),
        ("Host: localhost\r\n", "", 421),
        ("X-Strongroom: 1\r\n", "", 403),
        ("application/json", "text/plain", 415),
        (
            "X-Strongroom",
            "Origin: https://evil.example\r\nX-Strongroom",
            403,
        ),
        ("X-Strongroom", "Origin: null\r\nX-Strongroom", 403),
        (
            "X-Strongroom",
            "Sec-Fetch-Site: cross-site\r\nX-Strongroom",
            403,
        ),
        ("Content-Length: 2", "Content-Length: 2000000", 413),
        ("Content-Length: 2", "Transfer-Encoding: chunked", 411),
        ("/v1/commands/mounts", "/v1/commands/../../etc/passwd", 404),
        ("POST", "TRACE", 405),
    ] {
        let request = whole.replace(from, to);
        assert_ne!(request, whole);
        assert_eq!(web.raw(&request).0, status, "{to}");
    }
    let own = whole.replace("X-Strongroom", "Origin: http://localhost\r\nX-Strongroom");
    assert_eq!(web.raw(&own).0, 200);
    // A client that stops in the middle, and one that says nothing, keep nobody out.
    let mut silent = UnixStream::connect(&web.socket).unwrap();
    silent.write_all(&whole.as_bytes()[..40]).unwrap();
    assert_eq!(web.raw(&whole).0, 200);
}

#[test]
fn users_have_their_own_rights() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/b");
    place.ok("allow 12345 create,mount,snapshot tank/a");
    let web = Web::start(&place, &place.socket(), &[]);
    let ask =
        |uid, name: &str, body| web.raw_as(uid, &post(&format!("/v1/commands/{name}"), "", body));
    let status = |uid, name: &str, body| ask(uid, name, body).0;
    let snapshot = |name: &str| json!({"names": [name]});
    assert_eq!(status(ANN, "snapshot", snapshot("tank/a@1")), 200);
    assert_eq!(status(ANN, "snapshot", snapshot("tank/b@1")), 403);
    assert_eq!(status(BOB, "snapshot", snapshot("tank/a@2")), 403);
    assert_eq!(status(ANN, "pool-status", json!({"pools": []})), 403);
    assert_eq!(web.raw_as(ANN, &get("/metrics", "")).0, 403);
    assert_eq!(web.raw_as(BOB, &get("/v1/datasets", "")).0, 403);
    let (_, datasets) = web.raw_as(ANN, &get("/v1/datasets?properties=guid", ""));
    has(&datasets, "tank/a");
    lacks(&datasets, "tank/b");
    let (_, session) = web.raw_as(ANN, &get("/v1/session", ""));
    assert_eq!(
        (&parsed(&session)["uid"], &parsed(&session)["admin"]),
        (&json!(ANN), &json!(false))
    );
    place.says("pool history -l tank", "[user 12345 on ");
    // A tenant, at the socket of a zone.
    place.ok("zone create web --dataset tank/a --owner 12346");
    let zone = Web::start(&place, &place.path("zones/web"), &[]);
    let tenant = |request: &str| zone.raw_as(BOB, request);
    let (_, datasets) = tenant(&get("/v1/datasets?properties=guid", ""));
    has(&datasets, "\"name\":\"a\"");
    lacks(&datasets, "tank");
    assert_eq!(tenant(&get("/v1/pools", "")).0, 403);
    assert_eq!(tenant(&get("/v1/datasets?name=tank/b", "")).0, 404);
    // Nothing in the zone is encrypted, and something outside is.
    place.ok("keygen {DIR}/key");
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key tank/sealed");
    assert_eq!(tenant(&get("/v1/keys", "")), (200, "[]\n".into()));
    assert_eq!(zone.raw_as(ANN, &get("/v1/datasets", "")).0, 403);
}

#[test]
fn the_process_of_a_user_is_closed_to_the_user() {
    let place = needs!(shared_place());
    std::fs::write(place.path("secret"), "of root's shell").unwrap();
    let open = std::fs::File::open(place.path("secret")).unwrap();
    // Unlike files that Rust opens, programs get this one.
    let open = rustix::io::dup(&open).unwrap();
    let web = Web::start(&place, &place.socket(), &[]);
    drop(open);
    let here = format!("\nPPid:\t{}\n", web.process.id());
    let as_ann = || {
        rustix::thread::set_thread_gid(Gid::from_raw(ANN)).unwrap();
        rustix::thread::set_thread_uid(Uid::from_raw(ANN)).unwrap();
        let mut stream = UnixStream::connect(&web.socket).unwrap();
        let request = get("/v1/session", "").replace("Connection: close\r\n", "");
        stream.write_all(request.as_bytes()).unwrap();
        // Now it serves.
        stream.read_exact(&mut [0; 12]).unwrap();
        let all = std::fs::read_dir("/proc").unwrap();
        let mut processes = all.filter_map(|entry| {
            let id = entry.unwrap().file_name().to_str()?.parse::<i32>().ok()?;
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            status.contains(&here).then_some((id, status))
        });
        let (id, status) = processes.next().expect("a process");
        let pid = Pid::from_raw(id).unwrap();
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let taken = rustix::process::pidfd_getfd(pidfd, 2, PidfdGetfdFlags::empty());
        assert_eq!(taken.unwrap_err(), rustix::io::Errno::PERM);
        (id, status, stream)
    };
    let (id, status, _stream) =
        std::thread::scope(|scope| scope.spawn(as_ann).join().expect("a thread"));
    has(&status, &format!("Uid:\t{ANN}\t{ANN}\t{ANN}\t{ANN}\n"));
    has(&status, &format!("Gid:\t{ANN}\t{ANN}\t{ANN}\t{ANN}\n"));
    has(&status, "\nGroups:\t \n");
    has(&status, "\nCapPrm:\t0000000000000000\n");
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let after_name: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(after_name[3], id.to_string(), "a session of its own");
    for process in [id, web.process.id() as i32] {
        let owner = std::fs::metadata(format!("/proc/{process}/mem")).unwrap();
        assert_eq!(owner.uid(), 0, "its memory is open to its user");
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        let core = limits.lines().find(|line| line.contains("core file"));
        assert_eq!(core.unwrap().split_whitespace().nth(4), Some("0"));
    }
    for entry in std::fs::read_dir(format!("/proc/{id}/fd")).unwrap() {
        let name = std::fs::read_link(entry.unwrap().path()).unwrap();
        lacks(&name.to_string_lossy(), "secret");
    }
}

/// The attack: the token of root was stolen.
#[test]
fn a_token_of_root_destroys_no_retained_snapshot() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("snapshot tank@1");
    place.ok("hold --until 2050-01-01T00:00Z keep tank@1");
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let token = place.ok("web token create x");
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim_end());
    for (command, body) in [
        ("destroy", json!({"name": "tank@1"})),
        ("release", json!({"names": ["tank@1"], "tag": "keep"})),
        ("pool-destroy", json!({"pool": "tank", "force": true})),
    ] {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let stream = TcpStream::connect(&web.address).unwrap();
        let request = post(&format!("/v1/commands/{command}"), &bearer, body);
        let (status, said) = exchange(StreamOwned::new(connection, stream), &request);
        assert_eq!(status, 409, "{command}: {said}");
        has(&said, "is retained until 2050-01-01 00:00 UTC");
    }
    place.ok("list tank@1");
}

#[test]
fn tokens_give_their_users_rights_on_the_network() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/b");
    place.ok("allow daemon snapshot tank/a");
    place.ok("zone create web --dataset tank/b --owner bin");
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let ask = |request: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
        exchange(
            StreamOwned::new(connection, TcpStream::connect(&web.address).unwrap()),
            request,
        )
    };
    let with =
        |token: &str, path: &str| ask(&get(path, &format!("Authorization: Bearer {token}\r\n")));
    let make = |line: &str| {
        place
            .ok(&format!("web token create {line} x"))
            .trim_end()
            .to_owned()
    };
    let [root, ann, bob] = ["", "--user daemon", "--zone web"].map(make);

    assert_eq!(ask(&get("/v1/pools", "")).0, 401);
    assert_eq!(ask(&get("/metrics", "")).0, 401);
    assert_eq!(ask(&get("/", "")).0, 200);
    assert_eq!(with(&root, "/v1/pools").0, 200);
    assert_eq!(with(&ann, "/v1/pools").0, 403);
    let (_, datasets) = with(&ann, "/v1/datasets?properties=guid");
    has(&datasets, "tank/a");
    lacks(&datasets, "tank/b");
    let (_, datasets) = with(&bob, "/v1/datasets?properties=guid");
    has(&datasets, "\"name\":\"b\"");
    lacks(&datasets, "tank");
    let bearer = format!("Authorization: Bearer {root}\r\n");
    let (status, _) = ask(&post(
        "/v1/commands/token-create",
        &bearer,
        json!({"label": "more"}),
    ));
    assert_eq!(status, 403, "a token makes no tokens");
    let none = place.run(&["web", "token", "create", "--user", "12345", "x"]);
    assert_eq!(none.code, 3, "the user has no account");
    // Another zone with the same name.
    place.ok("zone destroy web");
    place.ok("zone create web --dataset tank/b --owner bin");
    assert_eq!(with(&bob, "/v1/datasets").0, 401);

    // A browser: the token once, then a cookie.
    let login = post("/v1/session", "", json!({ "token": ann }));
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(&web.address).unwrap());
    stream.write_all(login.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let cookie = answer
        .split("Set-Cookie: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    for attribute in ["__Host-", "Secure", "HttpOnly", "SameSite=Strict"] {
        has(cookie, attribute);
    }
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let (status, session) = ask(&get("/v1/session", &cookie));
    assert_eq!((status, &parsed(&session)["user"]), (200, &json!("daemon")));
    let stolen = format!("{cookie}Origin: https://evil.example\r\n");
    assert_eq!(ask(&post("/v1/commands/mounts", &stolen, json!({}))).0, 403);

    // A stream of events ends with its session.
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
    let stream = TcpStream::connect(&web.address).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let events = get(
        "/v1/events",
        &format!("{cookie}Accept: text/event-stream\r\n"),
    );
    stream.get_mut().write_all(events.as_bytes()).unwrap();
    let mut lines = stream.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == ": begin"));
    let logout = post("/v1/session", &cookie, json!({})).replace("POST", "DELETE");
    assert_eq!(ask(&logout).0, 200);
    assert_eq!(lines.filter(|line| line.contains("alive")).count(), 0);
    assert_eq!(ask(&get("/v1/session", &cookie)).0, 401);
    assert_eq!(ask(&login).0, 200);

    // Revoked at once, in the session too.
    let rows = parsed(&place.ok("--json web token list"));
    let of_ann = rows
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["user"] == "daemon")
        .unwrap();
    let label = of_ann["label"].as_str().unwrap();
    let refused = place.fails(&format!("web token revoke {label}"), NOT_FOUND);
    has(&refused, of_ann["id"].as_str().unwrap());
    place.ok(&format!(
        "web token revoke {}",
        of_ann["id"].as_str().unwrap()
    ));
    assert_eq!(ask(&get("/v1/session", &cookie)).0, 401);
    assert_eq!(with(&ann, "/v1/datasets").0, 401);
    // Guesses are counted, and keep out nobody who has a token.
    let statuses: Vec<u16> = (0..20).map(|_| with("srt_0", "/v1/pools").0).collect();
    assert_eq!((statuses[0], statuses[19]), (401, 429));
    assert_eq!(with(&root, "/v1/pools").0, 200);
    // A long body is read for those whom the daemon knows.
    let long = json!({"names": ["x".repeat(5000)]});
    let unknown = "Cookie: a=b\r\n";
    assert_eq!(ask(&post("/v1/commands/get", unknown, long.clone())).0, 401);
    assert_eq!(ask(&post("/v1/commands/get", &bearer, long)).0, 400);
    lacks(&place.log(), &root);
}

#[test]
fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let place = Place::new();
    let first = certify(&place);
    let mut command = Web::command_on_network(&place);
    command.stderr(Stdio::piped());
    let mut web = Web::by(command);
    let mut said = BufReader::new(web.process.stderr.take().unwrap()).lines();
    let mut until = |text: &str| {
        let found = said.find(|line| line.as_ref().unwrap().contains(text));
        found.expect("a line").unwrap()
    };
    let trusts = |authority: &CertificateDer<'static>| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(client(authority.clone()), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(&web.address).unwrap());
        stream.write_all(get("/", "").as_bytes()).is_ok()
    };
    assert!(trusts(&first));
    std::fs::write(place.path("cert.pem"), "no certificate").unwrap();
    has(
        &until("is not used, and the old one stays"),
        "no certificate in PEM form",
    );
    assert!(trusts(&first));
    let second = certify(&place);
    until("the new certificate is in use");
    // It is on its way to the process that serves.
    while !trusts(&second) {}
    assert!(!trusts(&first));
}

#[test]
fn changes_are_told() {
    let place = Place::new();
    place.pool("tank");
    let web = Web::start(&place, &place.socket(), &[]);
    let mut stream = UnixStream::connect(&web.socket).unwrap();
    let request = get("/v1/events", "Accept: text/event-stream\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut wait = |wanted: &str| lines.by_ref().find(|line| line.contains(wanted)).unwrap();
    has(&wait("HTTP/1.1"), " 200 ");
    // Now the stream has begun.
    wait(": begin");
    place.ok("create tank/new");
    has(&wait("data: {\"what\""), "datasets");
    place.ok("pool scrub -w tank");
    has(&wait("\"class\":\"scrub"), "tank");
}
