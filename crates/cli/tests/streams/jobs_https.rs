//! Jobs whose target is the site of another daemon, by a token that only receives. The other host is this one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value as Json, json};

use crate::common::bench::Bench;
use crate::common::*;
use crate::site::{self, Web};

/// The two pools, and a site for the dataset `safe/in` with a token.
struct FarHost {
    bench: Bench,
    web: Web,
    authority: CertificateDer<'static>,
    token: String,
}

impl FarHost {
    fn new() -> Option<FarHost> {
        let bench = Bench::new()?;
        bench.ok("create -o mountpoint=none safe/in");
        let (web, authority) = Web::on_network(&bench.place);
        let made = bench.ok("web token create --receive-only --dataset safe/in nas");
        write_private(&bench, "token", &made);
        let token = made.trim().to_owned();
        Some(FarHost {
            bench,
            web,
            authority,
            token,
        })
    }

    fn ok(&self, line: &str) -> String {
        self.bench.ok(line)
    }

    /// The port of the site.
    fn port(&self) -> u16 {
        let (_, port) = self.web.address.rsplit_once(':').unwrap();
        port.parse().unwrap()
    }

    /// Adds the job `copy` of `tank/a`, to `safe/in/a` at this port.
    fn add(&self, port: u16, options: &str) {
        let files = self.files("token", "authority.pem");
        self.ok(&format!(
            "replicate add copy {options} {files} --every 365d tank/a https://localhost:{port}/safe/in/a"
        ));
    }

    fn files(&self, token: &str, authority: &str) -> String {
        let path = |name: &str| self.bench.place.arg(name);
        format!(
            "--token file://{} --ca file://{}",
            path(token),
            path(authority)
        )
    }

    /// Sends a request with the token, as an intruder does who has stolen it.
    fn steal(&self, request: &str) -> (u16, String) {
        let socket = TcpStream::connect(&self.web.address).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(site::client(self.authority.clone()), name).unwrap();
        site::exchange(StreamOwned::new(client, socket), request)
    }

    fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }
}

fn write_private(bench: &Bench, name: &str, text: &str) {
    let path = bench.place.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn names(bench: &Bench, kind: &str, top: &str) -> Vec<String> {
    let all = bench.ok(&format!("list -H -r -t {kind} -o name {top}"));
    all.lines().map(str::to_owned).collect()
}

/// The bytes that the next run of the job would send.
fn left(bench: &Bench) -> u64 {
    let told = bench.ok("--json replicate run -n copy");
    let rows: Json = serde_json::from_str(&told).unwrap();
    let sizes = rows.as_array().unwrap().iter();
    sizes.map(|row| row["size"].as_u64().unwrap()).sum()
}

/// A port that leads to the site. Each connection ends after this number of bytes from the client.
fn narrow_way(to: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let most = Arc::new(AtomicU64::new(u64::MAX));
    let limit = Arc::clone(&most);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (
                client.unwrap(),
                TcpStream::connect(("127.0.0.1", to)).unwrap(),
            );
            let (mut back_from, mut back_to) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut back_from, &mut back_to);
                let _ = back_to.shutdown(Shutdown::Both);
            });
            let limit = Arc::clone(&limit);
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                let mut sent = 0;
                while let Ok(len @ 1..) = client.read(&mut piece) {
                    sent += len as u64;
                    if sent > limit.load(Ordering::Relaxed)
                        || server.write_all(&piece[..len]).is_err()
                    {
                        break;
                    }
                }
                for end in [client, server] {
                    let _ = end.shutdown(Shutdown::Both);
                }
            });
        }
    });
    (port, most)
}

#[test]
fn a_job_copies_by_https() {
    let far = needs!(FarHost::new());
    let bench = &far.bench;
    bench.ok("create tank/a/b");
    bench.ok("snapshot tank/a/b@1");
    far.add(far.port(), "-R --limit 100M");
    bench.ok("replicate run copy");
    let copied = ["safe/in/a@1", "safe/in/a/b@1"];
    assert_eq!(names(bench, "snapshot", "safe"), copied);
    has(&bench.ok("replicate run -n copy"), "nothing to send");
    // From the bookmark, with the key of the source and no key here.
    bench.ok("destroy -f tank/a@1");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("replicate run copy");
    has(
        &names(bench, "snapshot", "safe/in/a").join(" "),
        "safe/in/a@2",
    );
    has(&bench.ok("replicate verify copy"), "whole");
    let told = bench.ok("replicate status copy");
    has(&told, &bench.place.arg("token"));
    has(&told, "all copies are whole");
    // The token is nowhere but in its file.
    for text in [
        told,
        bench.ok("--json replicate list"),
        bench.ok("pool history tank"),
        bench.ok("pool events"),
        bench.place.log(),
    ] {
        lacks(&text, &far.token[4..]);
    }
    bench.ok("key accept safe/in/a");
    bench.ok("set mountpoint=/mnt safe/in/a");
    // A renamed dataset is not renamed from here. The others are copied, and the job goes on.
    bench.ok("rename tank/a/b tank/a/c");
    bench.ok("snapshot tank/a@3");
    let said = bench.place.fails("replicate run copy", USAGE);
    has(&said, "strongroom rename 'safe/in/a/b' 'safe/in/a/c'");
    let copied = ["safe/in/a@2", "safe/in/a@3", "safe/in/a/b@1"];
    assert_eq!(names(bench, "snapshot", "safe/in")[1..], copied);
    has(&bench.ok("--json replicate status copy"), "\"failed\"");
    bench.ok("rename safe/in/a/b safe/in/a/c");
    bench.ok("replicate run copy");
    // Nor pruned. Its own host does both.
    for day in 1..=3 {
        bench.ok(&format!("snapshot tank/a@auto-daily-2026-11-0{day}-0000Z"));
    }
    bench.ok("replicate run copy");
    assert_eq!(bench.ok("snapshot --prune safe/in/a"), "");
    bench
        .place
        .fails("snapshot --prune --keep none safe/in/a", USAGE);
    let would = bench.ok("snapshot --prune -n -r --keep daily:1 safe/in");
    has(
        &would,
        "would destroy safe/in/a@auto-daily-2026-11-02-0000Z",
    );
    bench.ok("snapshot --prune -r --keep daily:1 safe/in");
    let left = [
        "safe/in/a@1",
        "safe/in/a@2",
        "safe/in/a@3",
        "safe/in/a@auto-daily-2026-11-03-0000Z",
        "safe/in/a/c@1",
    ];
    assert_eq!(names(bench, "snapshot", "safe/in"), left);
    has(&bench.ok("replicate run -n copy"), "nothing to send");
}

#[test]
fn a_copy_that_is_mounted_stays_mounted_and_has_no_owner() {
    let far = needs!(FarHost::new());
    let bench = &far.bench;
    far.add(far.port(), "");
    bench.ok("replicate run copy");
    let value = |name: &str| bench.ok(&format!("get -H -o value {name} safe/in/a"));
    assert_eq!(value("owner").trim(), "-");
    bench.ok("key accept safe/in/a");
    let dir = bench.place.arg("mnt/copy");
    bench.ok(&format!("set mountpoint={dir} safe/in/a"));
    let key = bench.stream("a");
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    bench
        .place
        .ok_with("key load -L prompt safe/in/a", &(digits + "\n"));
    bench.ok("mount -o ro safe/in/a");
    assert_eq!(value("mounted").trim(), "yes");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("replicate run copy");
    assert_eq!(value("mounted").trim(), "yes");
    let second = bench.place.path("mnt/copy/second");
    assert_eq!(fs::read_to_string(second).unwrap(), "2");
}

#[test]
fn several_targets_of_one_source_do_not_disturb_each_other() {
    let far = needs!(FarHost::new());
    let bench = &far.bench;
    far.add(far.port(), "");
    bench.ok("replicate add local tank/a safe/local --every 365d");
    bench.ok("replicate run copy");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("replicate run local");
    // Each job has a bookmark of its own newest copy.
    bench.ok("destroy -f tank/a@1");
    bench.write_for("tank/a@3", "third", "3");
    bench.ok("replicate run copy");
    bench.ok("replicate run local");
    for top in ["safe/in/a", "safe/local"] {
        let all = names(bench, "snapshot", top);
        assert_eq!(all.last(), Some(&format!("{top}@3")));
    }
    assert_eq!(names(bench, "bookmark", "tank/a").len(), 2);
}

#[test]
fn a_cut_connection_goes_on_where_it_was() {
    let far = needs!(FarHost::new());
    let bench = &far.bench;
    let (port, most) = narrow_way(far.port());
    far.add(port, "");
    bench.ok("replicate run copy");
    let held = contents(3, 6 << 20);
    fs::write(bench.file("tank/a", "large"), &held).unwrap();
    bench.ok("snapshot tank/a@2");
    let mut before = left(bench);
    most.store(2 << 20, Ordering::Relaxed);
    for _ in 0..2 {
        bench.place.fails("replicate run copy", OTHER);
        bench.place.until_idle();
        assert_eq!(names(bench, "snapshot", "safe/in/a"), ["safe/in/a@1"]);
        let now = left(bench);
        assert!(now < before, "{now} of {before}");
        before = now;
    }
    most.store(u64::MAX, Ordering::Relaxed);
    bench.ok("replicate run copy");
    has(&bench.ok("replicate verify copy"), "whole");
    // The source has destroyed what it was sending: the rest is given up.
    fs::write(bench.file("tank/a", "large"), contents(4, 6 << 20)).unwrap();
    bench.ok("snapshot tank/a@3");
    most.store(2 << 20, Ordering::Relaxed);
    bench.place.fails("replicate run copy", OTHER);
    bench.place.until_idle();
    most.store(u64::MAX, Ordering::Relaxed);
    bench.ok("destroy -f tank/a@3");
    bench.ok("snapshot tank/a@4");
    bench.ok("replicate run copy");
    let all = ["safe/in/a@1", "safe/in/a@2", "safe/in/a@4"];
    assert_eq!(names(bench, "snapshot", "safe/in/a"), all);
}

#[test]
fn what_is_wrong_is_named() {
    let far = needs!(FarHost::new());
    let (bench, port) = (&far.bench, far.port());
    let add = |name: &str, files: &str, target: &str| {
        bench.ok(&format!(
            "replicate add {name} {files} --every 365d tank/a https://{target}/{name}"
        ));
    };
    let good = far.files("token", "authority.pem");
    let localhost = format!("localhost:{port}");
    fs::write(bench.place.path("open"), &far.token).unwrap();
    write_private(bench, "wrong", "srt_0000\n");
    write_private(bench, "two", "one two\n");
    add(
        "ca",
        &far.files("token", "cert.pem"),
        &format!("{localhost}/safe/in"),
    );
    add("name", &good, &format!("127.0.0.1:{port}/safe/in"));
    add(
        "open",
        &far.files("open", "authority.pem"),
        &format!("{localhost}/safe/in"),
    );
    add(
        "none",
        &far.files("none", "authority.pem"),
        &format!("{localhost}/safe/in"),
    );
    add(
        "two",
        &far.files("two", "authority.pem"),
        &format!("{localhost}/safe/in"),
    );
    add(
        "wrong",
        &far.files("wrong", "authority.pem"),
        &format!("{localhost}/safe/in"),
    );
    add("other", &good, &format!("{localhost}/safe"));
    for (job, code, why) in [
        ("ca", OTHER, "its certificate is not trusted"),
        ("name", OTHER, "its certificate is not trusted"),
        ("open", OTHER, "run chmod 600"),
        ("none", OTHER, "No such file"),
        ("two", OTHER, "it is not one word"),
        ("wrong", PERMISSION, "token"),
        ("other", PERMISSION, "the token reaches one dataset"),
    ] {
        let said = bench.place.fails(&format!("replicate run {job}"), code);
        has(
            &said,
            "localhost: ".trim_end_matches(if job == "name" { "localhost: " } else { "" }),
        );
        has(&said, why);
    }
    for (line, why) in [
        (
            format!("{good} --keep daily:3 tank/a https://{localhost}/safe/in/a"),
            "strongroom snapshot --prune --keep",
        ),
        (
            format!("tank/a https://{localhost}/safe/in/a"),
            "web token create --receive-only",
        ),
        (format!("{good} tank/a safe/b"), "--token and --ca are for"),
        (
            format!("--token token tank/a https://{localhost}/safe/in/a"),
            "write file:///PATH",
        ),
    ] {
        let said = bench
            .place
            .fails(&format!("replicate add bad {line}"), USAGE);
        has(&said, why);
    }
    // The host says why in the middle of a stream.
    bench.ok("set quota=1M safe/in");
    fs::write(bench.file("tank/a", "large"), contents(3, 6 << 20)).unwrap();
    bench.ok("snapshot tank/a@2");
    far.add(port, "");
    let said = bench.place.fails("replicate run copy", NO_SPACE);
    has(&said, "localhost: ");
}

/// The intruder has everything of the source host, and wants the copies to be gone.
#[test]
fn a_stolen_token_destroys_nothing() {
    let far = needs!(FarHost::new());
    let bench = &far.bench;
    bench.ok("set retention=30d safe/in");
    far.add(far.port(), "");
    bench.ok("replicate run copy");
    bench.write_for("tank/a@2", "second", "2");
    bench.ok("replicate run copy");
    let state = || {
        let props = "name,guid,retained-until,mountpoint,readonly,quota,origin";
        bench.ok(&format!("list -H -p -r -t all -o {props} safe"))
    };
    let before = state();
    let (copy, bearer) = ("safe/in/a", far.bearer());
    let head = &bearer;
    for (name, body) in [
        ("destroy", json!({"name": "safe/in/a@1"})),
        ("destroy", json!({"name": copy, "recursive": true})),
        ("shred", json!({"name": copy})),
        ("rollback", json!({"name": "safe/in/a@1"})),
        ("rename", json!({"from": copy, "to": "safe/in/gone"})),
        ("promote", json!({"name": copy})),
        ("snapshot", json!({"names": ["safe/in/a@mine"]})),
        (
            "set",
            json!({"names": [copy], "props": [["retention", "off"]]}),
        ),
        ("set", json!({"names": [copy], "props": [["quota", "1"]]})),
        ("inherit", json!({"names": [copy], "prop": "retention"})),
        ("key-load", json!({"names": [copy]})),
        ("key-change", json!({"name": copy})),
        ("mount", json!({"names": [copy]})),
        (
            "send",
            json!({"what": {"snapshot": {"name": "safe/in/a@1"}}, "raw": true}),
        ),
        (
            "bookmark",
            json!({"of": "safe/in/a@1", "name": "safe/in/a#b"}),
        ),
        ("token-create", json!({"label": "more"})),
        ("tokens", json!({})),
        ("pool-status", json!({"pools": []})),
        ("pool-destroy", json!({"name": "safe"})),
        ("pool-export", json!({"name": "safe"})),
        ("get", json!({"names": [copy], "props": ["used"]})),
        ("get", json!({"names": ["tank"], "props": ["guid"]})),
        ("daemon-stop", json!({})),
    ] {
        let (status, told) = far.steal(&site::post(&format!("/v1/commands/{name}"), head, body));
        // A body that is not quite right is refused before it is looked at.
        assert!([400, 403].contains(&status), "{name}: {status} {told}");
        assert_eq!(state(), before, "{name}");
    }
    // Every command that there is, whatever it needs.
    let (status, told) = far.steal(&site::get("/v1/openapi.json", head));
    assert_eq!(status, 200);
    let document: Json = serde_json::from_str(&told).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert!(paths.len() > 100, "{}", paths.len());
    for path in paths {
        match path.strip_prefix("/v1/commands/") {
            Some("whoami" | "receive") => {}
            Some(_) => {
                let (status, told) = far.steal(&site::post(path, head, json!({})));
                assert!([400, 403].contains(&status), "{path}: {status} {told}");
            }
            None if ["/v1/openapi.json", "/v1/session", "/v1/properties"]
                .contains(&path.as_str()) => {}
            None => {
                let (status, told) = far.steal(&site::get(path, head));
                assert!([400, 403].contains(&status), "{path}: {status} {told}");
            }
        }
        assert_eq!(state(), before, "{path}");
    }
    // A stream that takes the copy back, one that was made here, and one that the daemon here would seal.
    bench.ok("create -o encryption=off tank/plain");
    bench.ok("snapshot tank/plain@1");
    for (what, query) in [
        ("-w tank/a@1", "target=safe/in/a&no_mount=true&force=true"),
        ("-w tank/a@1", "target=safe/in/a&no_mount=true"),
        ("tank/a@1", "target=safe/in/new&no_mount=true"),
        ("-w tank/a@1", "target=safe/in/new"),
        ("-w tank/a@1", "target=safe/new&no_mount=true"),
        (
            "-w tank/a@1",
            "target=safe/in/new&no_mount=true&props=mountpoint=/etc",
        ),
    ] {
        assert!(bench.sends(&format!("send {what}"), "stolen"), "{what}");
        let stream = bench.stream("stolen");
        let request = format!(
            "POST /v1/commands/receive?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Strongroom: 1\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n{head}\r\n",
            stream.len()
        );
        let socket = TcpStream::connect(&far.web.address).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(site::client(far.authority.clone()), name).unwrap();
        let mut tls = StreamOwned::new(client, socket);
        tls.write_all(request.as_bytes()).unwrap();
        // If it is refused, the rest is not read.
        let _ = tls.write_all(&stream);
        let (status, told) = site::exchange(tls, "");
        assert!(status >= 400, "{what} {query}: {status} {told}");
        assert_eq!(state(), before, "{what} {query}");
    }
    // What is left to the intruder: to add snapshots.
    bench.write_for("tank/a@3", "third", "3");
    bench.ok("replicate run copy");
    assert_ne!(state(), before);
    has(
        &bench.place.fails("destroy -f safe/in/a@1", BUSY),
        "retained",
    );
}
