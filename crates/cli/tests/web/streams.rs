//! `send` and `receive` through HTTP: what the command line can do with streams, with the rights of the caller, and for
//! clients that stop, go away or send something else.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use crate::common::bench::Bench;
use crate::common::*;
use crate::site::{Web, client};
use rustix::process::{Gid, Uid};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value as Json, json};

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// True if the end of the body came.
    is_whole: bool,
}

impl Answer {
    fn read(stream: &mut impl Read) -> Answer {
        let mut all = Vec::new();
        // Without a good-bye of TLS the body says whether it is whole.
        let _ = stream.read_to_end(&mut all);
        while all.starts_with(b"HTTP/1.1 100 ") {
            all.drain(..find(&all, b"\r\n\r\n").unwrap() + 4);
        }
        let end = find(&all, b"\r\n\r\n").expect("an answer");
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let (mut body, mut is_whole) = (all[end + 4..].to_vec(), true);
        if head.contains("Transfer-Encoding: chunked") {
            (body, is_whole) = of_chunks(&body);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head,
            body,
            is_whole,
        }
    }

    fn json(&self) -> Json {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn kind(&self) -> String {
        let answer = self.json();
        answer["error"]["kind"].as_str().unwrap_or("done").into()
    }
}

fn of_chunks(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = find(&rest[..rest.len().min(20)], b"\r\n") else {
            return (body, false);
        };
        let len = std::str::from_utf8(&rest[..end]).unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        let from = end + 2;
        if rest.len() < from + len + 2 {
            return (body, false);
        }
        body.extend_from_slice(&rest[from..from + len]);
        rest = &rest[from + len + 2..];
        if len == 0 {
            return (body, true);
        }
    }
}

/// The request of a send.
fn of(name: &str, more: Json) -> Json {
    let mut what = json!({"name": name});
    for (field, value) in more.as_object().unwrap() {
        what[field] = value.clone();
    }
    json!({"what": {"snapshot": what}, "raw": true, "props": what["replicate"] == true})
}

fn rest(token: &str) -> Json {
    json!({"what": {"rest": {"token": token.trim()}}, "raw": true})
}

fn send_head(body: &Json, headers: &str) -> String {
    let body = body.to_string();
    format!(
        "POST /v1/commands/send HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Strongroom: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn receive_head(query: &str, headers: &str) -> String {
    format!(
        "POST /v1/commands/receive?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Strongroom: 1\r\n\
         Content-Type: application/octet-stream\r\n{headers}\r\n"
    )
}

fn sends(socket: &Path, body: &Json) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(send_head(body, "").as_bytes()).unwrap();
    Answer::read(&mut stream)
}

/// Sends bytes as the body of a receive that has this length, and no more.
fn receives_of(socket: &Path, query: &str, len: usize, bytes: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = receive_head(query, &format!("Content-Length: {len}\r\n"));
    stream.write_all(head.as_bytes()).unwrap();
    // If it is refused, the rest is not read.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    Answer::read(&mut stream)
}

fn receives(socket: &Path, query: &str, bytes: &[u8]) -> Answer {
    receives_of(socket, query, bytes.len(), bytes)
}

fn chunk(stream: &mut impl Write, bytes: &[u8]) {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk).unwrap();
}

#[test]
fn streams_go_from_pool_to_pool() {
    let bench = needs!(Bench::new());
    let web = Web::start(&bench.place, &bench.place.socket(), &[]);
    let socket = &web.socket;
    let sent = |body: Json| {
        let answer = sends(socket, &body);
        assert!(answer.status == 200 && answer.is_whole, "{answer:?}");
        has(&answer.head, "Content-Type: application/octet-stream");
        answer.body
    };
    let received = |query: &str, bytes: &[u8]| {
        let answer = receives(socket, query, bytes);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["value"].clone()
    };
    let full = sent(of("tank/a@1", json!({})));
    bench.send("tank/a@1", "full");
    assert!(full == bench.stream("full"), "as the command sends it");
    assert_eq!(
        received("target=safe/b&dry_run=true", &full),
        json!(["safe/b@1"])
    );
    bench.place.fails("get name safe/b", NOT_FOUND);
    assert_eq!(
        received("target=safe/b&exclude=canmount", &full),
        json!(["safe/b@1"])
    );
    bench.ok("key accept safe/b");
    bench.open("safe/b");
    assert_eq!(bench.read("safe/b", "first"), Some("1".repeat(300_000)));

    // What is new, in chunks, with a line of notices.
    bench.write_for("tank/a@2", "second", "2");
    bench.write_for("tank/a@3", "third", "3");
    let between = json!({"from": "@1", "all": true});
    let new = sent(of("tank/a@3", between));
    let mut stream = UnixStream::connect(socket).unwrap();
    // To read a file was a change.
    let head = receive_head(
        "target=safe/b&force=true",
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut go = [0; 25];
    stream.read_exact(&mut go).unwrap();
    assert_eq!(&go, b"HTTP/1.1 100 Continue\r\n\r\n");
    new.chunks(777).for_each(|part| chunk(&mut stream, part));
    chunk(&mut stream, b"");
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["value"], json!(["safe/b@2", "safe/b@3"]));
    assert_eq!(bench.read("safe/b", "third"), Some("3".into()));
    bench.ok("create tank/a/new");
    let all = sends(socket, &of("tank/a@3", json!({"replicate": true})));
    has(
        &all.head,
        "X-Strongroom-Notices: [\"'tank/a/new' has no such snapshot",
    );
    assert!(
        received("target=safe/all", &all.body)
            .as_array()
            .unwrap()
            .len()
            == 3
    );

    // Interrupted: what is left is what the command leaves.
    let cut = &full[..full.len() - 5000];
    let answer = receives_of(socket, "target=safe/c&resumable=true", full.len(), cut);
    assert_eq!(
        (answer.status, &*answer.kind()),
        (500, "damaged"),
        "{answer:?}"
    );
    let message = answer.json()["error"]["message"].to_string();
    has(&message, "the client stopped before the end of the body");
    has(&message, "the received part is kept");
    let done = bench.receive_bytes("-s safe/d", cut);
    assert_eq!(done.code, DAMAGED);
    let token = |name: &str| bench.ok(&format!("get -H -o value receive_resume_token {name}"));
    assert_eq!(token("safe/c"), token("safe/d"));
    let more = sent(rest(&token("safe/c")));
    assert!(more.len() < full.len());
    assert_eq!(
        received("target=safe/c&exclude=canmount", &more),
        json!(["safe/c@1"])
    );
    bench.ok("key accept safe/c");
    bench.open("safe/c");
    assert_eq!(bench.read("safe/c", "first"), Some("1".repeat(300_000)));

    // In the clear, to a copy with a passphrase of its own.
    let mut clear = of("tank/a@1", json!({}));
    clear["raw"] = false.into();
    let clear = sent(clear);
    let own = "target=safe/p&props=encryption=on&props=keysource=passphrase,prompt";
    let answer = receives(socket, own, &clear);
    assert_eq!((answer.status, &*answer.kind()), (428, "secret-needed"));
    bench.place.fails("get name safe/p", NOT_FOUND);
    let secret = json!({"secrets": [{"secret": "correct horse"}]}).to_string();
    let both = [secret.as_bytes(), &clear].concat();
    let query = format!("{own}&secrets={}", secret.len());
    assert_eq!(received(&query, &both), json!(["safe/p@1"]));
    bench.ok("key unload safe/p");
    bench.place.ok_with("key load safe/p", "correct horse\n");
    lacks(&bench.place.log(), "horse");
    bench.ok("inspect --check safe");
}

#[test]
fn hostile_streams_end_and_leave_nothing() {
    let bench = needs!(Bench::new());
    let place = &bench.place;
    let web = Web::start(place, &place.socket(), &[]);
    let socket = &web.socket;
    bench.send("tank/a@1", "full");
    let full = bench.stream("full");
    let mut bad = full.clone();
    bad[full.len() / 2] ^= 1;
    let half = &full[..full.len() / 2];
    for bytes in [&b""[..], &contents(1, 3_000_000), &bad, half] {
        let answer = receives(socket, "target=safe/b", bytes);
        assert_eq!(
            (answer.status, &*answer.kind()),
            (500, "damaged"),
            "{answer:?}"
        );
    }
    let refused = |query: &str, status: u16| {
        // The answer comes also if the body is not read.
        let answer = receives(socket, query, &contents(1, 3_000_000));
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    };
    refused("target=safe/none/b", 404);
    refused("target=safe/b&dryrun=true", 400);
    refused("target=safe/b&secrets=20", 400);
    let mut stream = UnixStream::connect(socket).unwrap();
    let chunked = receive_head("target=safe/b", "Transfer-Encoding: chunked\r\n");
    stream.write_all(chunked.as_bytes()).unwrap();
    chunk(&mut stream, half);
    stream.write_all(b"these are no digits\r\n").unwrap();
    let message = Answer::read(&mut stream).json()["error"]["message"].to_string();
    has(&message, "the chunks of the body are malformed");

    // A slow one keeps others from its dataset, and from nothing else.
    let mut slow = UnixStream::connect(socket).unwrap();
    let head = receive_head(
        "target=safe/b&resumable=true",
        "Transfer-Encoding: chunked\r\n",
    );
    slow.write_all(head.as_bytes()).unwrap();
    half[..200]
        .iter()
        .for_each(|byte| chunk(&mut slow, &[*byte]));
    chunk(&mut slow, &half[200..]);
    while place.run(&["receive", "-A", "safe/b"]).code != BUSY {
        std::thread::yield_now();
    }
    let second = receives(socket, "target=safe/b", &full);
    assert_eq!(
        (second.status, &*second.kind()),
        (409, "busy"),
        "{second:?}"
    );
    let other = receives(socket, "target=safe/other", &full);
    assert_eq!(other.status, 200, "{other:?}");
    // It goes away, and what came stays.
    drop(slow);
    place.until_idle();
    let token = bench.ok("get -H -o value receive_resume_token safe/b");
    assert!(token.len() > 10, "{token}");
    bench.ok("receive -A safe/b");
    assert_eq!(bench.ok("list -H -o name -r safe"), "safe\nsafe/other\n");

    // A client that never reads: the send waits for it, and ends with it.
    bench.write("tank/a", "large", &"x".repeat(10));
    std::fs::write(bench.file("tank/a", "large"), contents(2, 8 << 20)).unwrap();
    bench.ok("snapshot tank/a@2");
    let mut lazy = UnixStream::connect(socket).unwrap();
    let head = send_head(&of("tank/a@2", json!({})), "");
    lazy.write_all(head.as_bytes()).unwrap();
    lazy.read_exact(&mut [0; 15]).unwrap();
    assert_eq!(sends(socket, &of("tank/a@1", json!({}))).status, 200);
    assert!(place.commands() > 0);
    drop(lazy);
    place.until_idle();
    // If the key goes in the middle, the answer is cut.
    let mut cut = UnixStream::connect(socket).unwrap();
    let mut clear = of("tank/a@2", json!({}));
    clear["raw"] = false.into();
    cut.write_all(send_head(&clear, "").as_bytes()).unwrap();
    let mut begin = [0; 15];
    cut.read_exact(&mut begin).unwrap();
    bench.ok("unmount tank/a");
    bench.ok("key unload -f tank/a");
    let answer = Answer::read(&mut begin.chain(cut));
    assert_eq!((answer.status, answer.is_whole), (200, false));
    bench.ok("inspect --check safe");
}

/// Does some work as another user.
fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    let become_user = || {
        // Of this thread only.
        rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(become_user).join().unwrap())
}

#[test]
fn rights_are_those_of_the_command() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok(&format!("keygen {}", place.arg("key")));
    let key = format!("keysource=raw,file://{}", place.arg("key"));
    place.ok(&format!("create -o encryption=on -o {key} tank/a"));
    place.ok("create tank/to");
    place.ok("create tank/zone");
    for name in ["tank/a", "tank/to", "tank/zone"] {
        place.ok(&format!("snapshot {name}@1"));
    }
    place.ok(&format!(
        "zone create web --dataset tank/zone --owner {BOB}"
    ));
    let web = Web::start(&place, &place.socket(), &[]);
    let zone = Web::start(&place, &place.path("zones/web"), &[]);
    let clear = |name: &str| {
        let mut clear = of(name, json!({}));
        clear["raw"] = false.into();
        clear
    };
    let sealed = sends(&web.socket, &of("tank/a@1", json!({}))).body;
    let plain = sends(&web.socket, &clear("tank/to@1")).body;
    let send = |uid, what: &Json| as_user(uid, || sends(&web.socket, what)).status;
    let receive = |uid, query: &str| as_user(uid, || receives(&web.socket, query, &sealed)).status;

    // A stranger.
    assert_eq!(send(ANN, &of("tank/a@1", json!({}))), 403);
    assert_eq!(receive(ANN, "target=tank/to/new"), 403);
    // A delegate, with each permission that is needed.
    place.ok(&format!("allow {ANN} send tank/a"));
    assert_eq!(send(ANN, &of("tank/a@1", json!({}))), 200);
    assert_eq!(send(ANN, &of("tank/to@1", json!({}))), 403);
    assert_eq!(send(ANN, &clear("tank/a@1")), 403, "the contents");
    assert_eq!(send(ANN, &rest("0102")), 403, "for root only");
    place.ok(&format!("allow {ANN} key tank/a"));
    assert_eq!(send(ANN, &clear("tank/a@1")), 200);
    place.ok(&format!("allow {ANN} receive,create tank/to"));
    assert_eq!(receive(ANN, "target=tank/to/new"), 403);
    place.ok(&format!("allow {ANN} mount tank/to"));
    assert_eq!(receive(ANN, "target=tank/to/new&props=mountpoint=/x"), 403);
    assert_eq!(receive(ANN, "target=tank/to&force=true"), 403);
    assert_eq!(receive(ANN, "target=tank/a/new"), 403);
    assert_eq!(receive(ANN, "target=tank/to/new"), 200);
    // A tenant: the names and the datasets of the zone.
    let send = |what: &Json| as_user(BOB, || sends(&zone.socket, what)).status;
    let receive = |query: &str| as_user(BOB, || receives(&zone.socket, query, &plain)).status;
    assert_eq!(send(&of("zone@1", json!({}))), 200);
    assert_eq!(send(&of("tank/a@1", json!({}))), 404);
    assert_eq!(receive("target=zone/new"), 200);
    assert_eq!(receive("target=tank/to/other"), 404);
    assert_eq!(receive("target=zone&naming=last"), 403);
    assert_eq!(
        as_user(ANN, || sends(&zone.socket, &of("zone@1", json!({})))).status,
        403
    );
    let names = place.ok("list -H -r -o name -t filesystem tank");
    assert_eq!(
        names,
        "tank\ntank/a\ntank/to\ntank/to/new\ntank/zone\ntank/zone/new\n"
    );
}

#[test]
fn the_streams_of_a_user_on_the_network_are_few() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("allow daemon receive,create,mount tank");
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let token = |line: &str| place.ok(&format!("web token create {line} x"));
    let [root, user] = ["", "--user daemon"].map(token);
    let begin = |token: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let stream = TcpStream::connect(&web.address).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let headers = format!(
            "Authorization: Bearer {}\r\nExpect: 100-continue\r\nContent-Length: 100\r\n",
            token.trim()
        );
        let head = receive_head("target=tank/x", &headers);
        stream.write_all(head.as_bytes()).unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        (String::from_utf8(begin.to_vec()).unwrap(), stream)
    };
    let open: Vec<_> = (0..8).map(|_| begin(&user)).collect();
    assert!(open.iter().all(|(begin, _)| begin == "HTTP/1.1 100"));
    assert_eq!(begin(&user).0, "HTTP/1.1 429");
    assert_eq!(begin("srt_0").0, "HTTP/1.1 401");
    assert_eq!(begin(&root).0, "HTTP/1.1 100");
}
