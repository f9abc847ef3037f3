//! `strongroom notify`: each target is told of a problem once, of its end, and of a daemon that is gone.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::common::*;

/// A pool with a mirror, and a file that tells a program of problems, which appends them to `told`.
fn place() -> Place {
    let place = Place::new();
    place.ok("pool create -s 64M tank mirror {DIR}/a {DIR}/b");
    let script =
        "#!/bin/sh\nset -e\n[ ! -e {DIR}/broken ]\ncat >> {DIR}/told\necho >> {DIR}/told\n";
    let script = script.replace("{DIR}", &place.root().display().to_string());
    let program = place.path("tell");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    write_config(&place, &format!("[[program]]\npath = {:?}\n", program));
    place
}

fn write_config(place: &Place, text: &str) {
    let config = place.path("notify.toml");
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
}

const RUN: &str = "notify run -c {DIR}/notify.toml --state {DIR}/record";

/// The messages since the last call.
fn told(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(place.path("told")).unwrap_or_default();
    let _ = fs::remove_file(place.path("told"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Makes the record say that problems which are gone were so for a long time.
fn be_gone_for_long(place: &Place) {
    let mut record: Value =
        serde_json::from_slice(&fs::read(place.path("record")).unwrap()).unwrap();
    for (_, target) in record["targets"].as_object_mut().unwrap() {
        for (_, told) in target["told"].as_object_mut().unwrap() {
            if !told["gone_since"].is_null() {
                told["gone_since"] = 0.into();
            }
        }
    }
    fs::write(place.path("record"), record.to_string()).unwrap();
}

#[test]
fn a_problem_is_told_once_and_so_is_its_end() {
    let mut place = place();
    place.ok(RUN);
    assert_eq!(told(&place), [] as [Value; 0], "nothing is wrong");
    place.ok("pool offline tank {DIR}/b");
    place.says("notify run -n", "/b was taken offline");
    let before = fs::read(place.path("record")).unwrap();
    fs::write(place.path("broken"), "").unwrap();
    has(&place.fails(RUN, OTHER), "was not told");
    assert_eq!(fs::read(place.path("record")).unwrap(), before);
    fs::remove_file(place.path("broken")).unwrap();
    // The message that could not be sent comes now.
    place.ok(RUN);
    let messages = told(&place);
    assert_eq!(messages.len(), 1);
    let problems = messages[0]["problems"].as_array().unwrap();
    let texts = problems.iter().map(|one| one["text"].as_str().unwrap());
    let texts: Vec<&str> = texts.collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    has(texts[0], "/b is OFFLINE");
    has(texts[1], "/b was taken offline");
    place.ok(RUN);
    assert_eq!(told(&place), [] as [Value; 0], "told twice");

    // A daemon that is gone is a problem, and solves no other.
    place.crash();
    place.ok(RUN);
    let gone = told(&place);
    assert_eq!(
        (gone.len(), &gone[0]["is_critical"]),
        (1, &Value::Bool(true))
    );
    assert_eq!(gone[0]["solved"], serde_json::json!([]));
    place.start();
    place.ok("pool import -a -d {DIR}");
    place.ok(RUN);
    assert_eq!(told(&place), [] as [Value; 0], "it may come and go");
    be_gone_for_long(&place);
    place.ok(RUN);
    let back = told(&place);
    assert_eq!(back[0]["solved"].as_array().unwrap().len(), 1, "{back:?}");

    place.ok("pool online tank {DIR}/b");
    place.ok("pool wait -t resilver tank");
    place.ok(RUN);
    be_gone_for_long(&place);
    place.ok(RUN);
    let solved = told(&place);
    assert_eq!(solved[0]["problems"], serde_json::json!([]));
    assert!(
        solved[0]["title"].as_str().unwrap().contains("solved"),
        "{solved:?}"
    );
}

/// A server that answers one request with this status, and returns the request.
fn answer_once(status: &'static str) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = client.read(&mut buffer).unwrap();
            request.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&request);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                break;
            }
        }
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        client.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap()
    });
    (port, served)
}

#[test]
fn a_webhook_gets_its_token_and_an_error_shows_no_secret() {
    let place = place();
    let token = place.path("token");
    fs::write(&token, "word-of-passage\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let config = |port: u16, form: &str| {
        format!(
            "[[webhook]]\nurl = \"http://127.0.0.1:{port}/secret-path\"\nform = \"{form}\"\ntoken-file = {:?}\n",
            place.path("token")
        )
    };
    let test = "notify test -c {DIR}/notify.toml";
    for (form, method, part) in [
        ("json", "POST /secret-path ", "\"title\":\"strongroom on "),
        ("slack", "POST /secret-path ", "{\"text\":\"strongroom on "),
        ("ntfy", "POST /secret-path ", "nothing is wrong"),
        (
            "matrix",
            "PUT /secret-path/strongroom",
            "\"msgtype\":\"m.text\"",
        ),
    ] {
        let (port, served) = answer_once("200 OK");
        write_config(&place, &config(port, form));
        place.says(test, "sent");
        let request = served.join().unwrap();
        assert!(request.starts_with(method), "{request}");
        has(&request, part);
        has(
            &request.to_lowercase(),
            "authorization: bearer word-of-passage\r\n",
        );
    }
    let (port, served) = answer_once("302 Found");
    write_config(&place, &config(port, "json"));
    let failed = place.run(&place.words(test));
    served.join().unwrap();
    let shown = format!("{failed:?}");
    has(&shown, "status 302");
    lacks(&shown, "secret-path");
    lacks(&shown, "word-of-passage");
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let place = place();
    let config = place.path("notify.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    place.refuses(RUN, USAGE, "mode 600");
    fs::remove_file(&config).unwrap();
    place.refuses(RUN, NOT_FOUND, "shows an example");
    write_config(&place, "[[mail]]\nto = \"a b\"\n");
    place.refuses(RUN, USAGE, "not an address");
}
