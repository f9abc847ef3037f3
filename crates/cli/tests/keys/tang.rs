//! Keys of datasets that a Tang server helps to recover, with Tang and clevis as judges.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::common::servers::tang::*;
use crate::common::*;

#[test]
fn a_tang_server_opens_a_dataset() {
    let mut place = Place::new();
    let tang = needs!(Tang::start(&place, "tang"));
    let file = place.pool("tank");
    let source = format!("raw,tang:{}#thp={}", tang.url(), tang.thumbprint());
    let create = format!("create -u -o encryption=on -o keysource={source} tank/a");
    place.ok(&create);
    let keysource = "get -H -o value keysource tank/a";
    assert_eq!(place.ok(keysource).trim_end(), source);
    place.says("key slots tank/a", "tang");
    place.ok("key unload tank/a");
    place.ok("key load tank/a");
    place.ok("key unload tank/a");

    // The other one opens it too.
    place.ok("pool sync tank");
    if are_installed(&["clevis"]) {
        let mut clevis = Command::new("clevis")
            .arg("decrypt")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = clevis.stdin.take().unwrap();
        input.write_all(&sealed(&file, 32)).unwrap();
        drop(input);
        let opened = clevis.wait_with_output().unwrap();
        assert!(opened.status.success());
        assert_eq!(opened.stdout.len(), 32);
    }

    // Rotated keys serve as before, and a new slot takes the new one.
    tang.hide_keys();
    tang.make_keys();
    place.ok("key load tank/a");
    let add = |source: &str| format!("key add -o keysource={source} tank/a");
    place.refuses(&add(&source), NO_KEY, "tang-show-keys");
    place.ok(&add(&format!(
        "raw,tang:{}#thp={}",
        tang.url(),
        tang.thumbprint()
    )));
    place.ok("key unload tank/a");
    // After a restart nobody is asked.
    assert!(place.terminate());
    place.start();
    let status = "get -H -o value keystatus tank/a";
    assert_eq!(place.ok(status), "available\n");
}

#[test]
fn servers_that_do_not_help() {
    let place = Place::new();
    let tang = needs!(Tang::start(&place, "tang"));
    let other = Tang::start(&place, "other").unwrap();
    place.pool("tank");
    let thumbprint = tang.thumbprint();
    let source = |url: &str| format!("raw,tang:{url}#thp={thumbprint}");
    let create = |url: &str| {
        format!(
            "create -u -o encryption=on -o keysource={} tank/a",
            source(url)
        )
    };
    let load = |url: &str| format!("key load -L {} tank/a", &source(url)[4..]);
    let unpinned = "create -u -o encryption=on -o keysource=raw,tang:http://127.0.0.1:1 tank/a";
    place.refuses(unpinned, USAGE, "thumbprint");
    // Another server, and none.
    let away = "http://127.0.0.1:1";
    for (url, why) in [(&*other.url(), "does not sign"), (away, "refused")] {
        has(&place.fails(&create(url), NO_KEY), why);
        place.fails("list tank/a", NOT_FOUND);
    }
    // A server that lies: it says the signed keys of another one, and answers with a key of that.
    let answers = Arc::new(Mutex::new(other.answer("/adv")));
    let lies = Arc::clone(&answers);
    let port = serve(move |mut stream| {
        let mut request = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut len) = (String::new(), 0);
        while request.read_line(&mut line).is_ok_and(|read| read > 2) {
            let lower = line.to_lowercase();
            let given = lower.strip_prefix("content-length:");
            len = given.map_or(len, |given| given.trim().parse().unwrap());
            line.clear();
        }
        let _ = request.read_exact(&mut vec![0; len]);
        let _ = stream.write_all(lies.lock().unwrap().as_bytes());
    });
    let liar = format!("http://127.0.0.1:{port}");
    place.refuses(&create(&liar), NO_KEY, "another signing key");
    let forged = {
        let mut answer = tang.answer("/adv").into_bytes();
        let signature = find(&answer, b"\"signature\"").unwrap() + 20;
        answer[signature] = if answer[signature] == b'A' {
            b'B'
        } else {
            b'A'
        };
        String::from_utf8(answer).unwrap()
    };
    *answers.lock().unwrap() = forged;
    place.refuses(&create(&liar), NO_KEY, "not signed");

    place.ok(&create(&tang.url()));
    place.ok("key unload tank/a");
    place.refuses(&load(away), NO_KEY, "refused");
    place.refuses(&load(&other.url()), NO_KEY, "does not sign");
    let key = fs::read_to_string(&other.key_files("ECMR")[0]).unwrap();
    let answer = |body: &str| {
        let len = body.len();
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len}\r\n\r\n{body}")
    };
    for (body, why) in [
        (&*key, "does not open the key slot"),
        (
            r#"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#,
            "no point",
        ),
        ("{}", "no point"),
        ("[", "not that of a Tang server"),
    ] {
        *answers.lock().unwrap() = answer(body);
        has(&place.fails(&load(&liar), NO_KEY), why);
    }
    // It deleted the key of the exchange; then also that which it signs with.
    fs::remove_file(&tang.key_files("ECMR")[0]).unwrap();
    tang.make_keys();
    place.refuses(&load(&tang.url()), NO_KEY, "it deleted the key");
    tang.delete_keys();
    tang.make_keys();
    place.refuses(&load(&tang.url()), NO_KEY, "deleted the old ones");
    // A slot for another server is none of this one.
    let stranger = format!(
        "key load -L tang:{}#thp={} tank/a",
        other.url(),
        other.thumbprint()
    );
    place.refuses(&stranger, NO_KEY, "no key slot");
}
