//! Callers of the HTTP API: without rights, with tokens of a narrow scope, and with certificates.

mod common;
#[path = "common/web.rs"]
mod site;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use common::*;
use rustix::process::{Gid, Uid};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;
use site::{Web, client, exchange, get, post};

/// The status and the body of a request on the network.
fn ask(web: &Web, client: &Arc<ClientConfig>, request: &str) -> (u16, String) {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let stream = TcpStream::connect(&web.address).unwrap();
    exchange(StreamOwned::new(connection, stream), request)
}

#[test]
fn a_user_without_rights_is_refused_before_anything_is_read_or_shown() {
    let Some(place) = shared_place() else { return };
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("allow 12345 snapshot tank/a");
    let web = Web::start(&place, &place.socket(), &[]);
    for path in [
        "/v1/openapi.json",
        "/v1/properties",
        "/v1/datasets",
        "/metrics",
    ] {
        assert_eq!(web.raw_as(BOB, &get(path, "")).0, 403, "{path}");
    }
    assert_eq!(web.raw_as(ANN, &get("/v1/openapi.json", "")).0, 200);
    // Only the head of a long body is sent: nobody waits for the rest.
    let long = post("/v1/commands/get", "", json!({"names": ["x".repeat(5000)]}));
    let head = long.split_once("\r\n\r\n").unwrap().0.to_owned() + "\r\n\r\n";
    assert_eq!(web.raw_as(BOB, &head).0, 403);
    assert_eq!(web.raw_as(ANN, &long).0, 400, "it names no properties");
    let stream = long
        .replace("/get", "/receive?target=tank/a&secrets=9")
        .replace("application/json", "application/octet-stream");
    let head = stream.split_once("\r\n\r\n").unwrap().0.to_owned() + "\r\n\r\n";
    assert_eq!(web.raw_as(BOB, &head).0, 403, "a stream");
    // A page of another site makes the browser of root ask for nothing.
    let cross = "Sec-Fetch-Site: cross-site\r\n";
    assert_eq!(web.raw(&get("/metrics", cross)).0, 403);
    assert_eq!(web.raw(&get("/", cross)).0, 200);
}

#[test]
fn a_wrong_token_shows_nothing_however_long_it_is() {
    let place = Place::new();
    place.pool("tank");
    place.ok("web token create other");
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let long = format!("srt_{}", "0".repeat(15_000));
    for token in ["", "srt_0", &long] {
        for path in [
            "/v1/openapi.json",
            "/v1/properties",
            "/metrics",
            "/v1/session",
        ] {
            let header = format!("Authorization: Bearer {token}\r\n");
            let (status, body) = ask(&web, &client, &get(path, &header));
            assert!(matches!(status, 401 | 429), "{path}: {status}");
            has(&body, "\"error\"");
        }
    }
    let login = post("/v1/session", "", json!({"token": &long[..3000]}));
    assert!(matches!(ask(&web, &client, &login).0, 401 | 429));
}

/// The processes of one user take memory in turn; other users do not wait for them.
#[test]
fn long_bodies_of_a_user_come_one_after_the_other() {
    let Some(place) = shared_place() else { return };
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("allow 12345 snapshot tank/a");
    let web = Web::start(&place, &place.socket(), &[]);
    let long = post("/v1/commands/get", "", json!({"names": ["x".repeat(5000)]}));
    let (half, rest) = long.split_at(long.len() - 1);
    let begin = |uid: u32| {
        let begin = || {
            rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
            rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
            let mut stream = UnixStream::connect(&web.socket).unwrap();
            // Its process has memory when it asks for the body.
            let expects = half.replacen("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1);
            let (head, body) = expects.split_once("\r\n\r\n").unwrap();
            write!(stream, "{head}\r\n\r\n").unwrap();
            let mut asked = [0; 25];
            stream.read_exact(&mut asked).unwrap();
            has(&String::from_utf8_lossy(&asked), "100 Continue");
            stream.write_all(body.as_bytes()).unwrap();
            stream
        };
        std::thread::scope(|scope| scope.spawn(begin).join().unwrap())
    };
    let mut first = begin(ANN);
    assert_eq!(web.raw(&long).0, 400, "root does not wait");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| web.raw_as(ANN, &long).0);
        first.write_all(rest.as_bytes()).unwrap();
        let mut answer = String::new();
        first.read_to_string(&mut answer).unwrap();
        has(&answer, " 400 ");
        assert_eq!(second.join().unwrap(), 400);
    });
}
