//! Callers of the HTTP API: without rights, with tokens of a narrow scope, and with certificates.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;

use crate::common::*;
use crate::site::{Web, certify, client, exchange, get, post};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustix::process::{Gid, Uid};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value as Json, json};

/// The status and the body of a request on the network.
fn ask(web: &Web, client: &Arc<ClientConfig>, request: &str) -> (u16, String) {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let stream = TcpStream::connect(&web.address).unwrap();
    exchange(StreamOwned::new(connection, stream), request)
}

#[test]
fn a_user_without_rights_is_refused_before_anything_is_read_or_shown() {
    let place = needs!(shared_place());
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

#[test]
fn a_token_does_what_its_scope_says() {
    let place = Place::new();
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/a/below");
    place.ok("create tank/b");
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let make = |line: &str| place.ok(&format!("web token create {line} x"));
    let with = |token: &str, path: &str, body: Option<Json>| {
        let header = format!("Authorization: Bearer {}\r\n", token.trim_end());
        let request = match body {
            None => get(path, &header),
            Some(body) => post(&format!("/v1/commands/{path}"), &header, body),
        };
        ask(&web, &client, &request)
    };
    let snapshot = |name: &str| Some(json!({"names": [name]}));
    let reads = make("--read-only");
    assert_eq!(with(&reads, "/v1/pools", None).0, 200);
    assert_eq!(with(&reads, "snapshot", snapshot("tank/a@1")).0, 403);
    let of_a = make("--dataset tank/a");
    assert_eq!(with(&of_a, "snapshot", snapshot("tank/a@1")).0, 200);
    assert_eq!(with(&of_a, "snapshot", snapshot("tank/b@1")).0, 403);
    assert_eq!(with(&of_a, "/v1/pools", None).0, 403);
    let (_, listed) = with(&of_a, "/v1/datasets?properties=guid", None);
    has(&listed, "tank/a/below");
    lacks(&listed, "tank/b");
    let commands = make("--commands get,snapshot --read-only");
    assert_eq!(with(&commands, "/v1/datasets?properties=guid", None).0, 200);
    assert_eq!(with(&commands, "/v1/pools", None).0, 403);
    assert_eq!(with(&commands, "snapshot", snapshot("tank/a@2")).0, 403);
    let rows = place.ok("web token list -H");
    for scope in [
        "\t--read-only\t",
        "\t--dataset tank/a\t",
        "\t--read-only --commands get,snapshot\t",
    ] {
        has(&rows, scope);
    }
    // Nothing is made of a scope that makes no sense.
    place.fails("web token create --commands reboot x", USAGE);
    place.fails("web token create --dataset tank/none x", NOT_FOUND);
    place.fails("web token create --dataset tank/a@1 x", USAGE);
    assert_eq!(place.ok("web token list -H"), rows);
}

/// An authority, and certificates of it for clients: one that is valid, and one that has expired.
fn client_certificates(name: &str) -> (String, [CertifiedClient; 2]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let of = |year: i32| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &authority).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.der().clone(), key)
    };
    (authority.pem(), [of(4000), of(2000)])
}

type CertifiedClient = (CertificateDer<'static>, PrivateKeyDer<'static>);

#[test]
fn a_client_needs_a_certificate_of_the_authority() {
    let place = Place::new();
    place.pool("tank");
    let (authority, [valid, expired]) = client_certificates("ours");
    let (others_pem, [of_other, _]) = client_certificates("another");
    std::fs::write(place.path("clients.pem"), authority).unwrap();
    let server = certify(&place);
    let mut command = Web::command_on_network(&place);
    command.args(["--tls-client-ca", &place.arg("clients.pem")]);
    command.stderr(Stdio::piped());
    let mut web = Web::by(command);
    let token = place.ok("web token create x");
    let header = format!("Authorization: Bearer {}\r\n", token.trim_end());
    let config = |certificate: Option<&CertifiedClient>| {
        let mut roots = RootCertStore::empty();
        roots.add(server.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![certificate.clone()];
                builder
                    .with_client_auth_cert(chain, key.clone_key())
                    .unwrap()
            }
        })
    };
    // The answer, or nothing if there is no connection.
    let answer = |config: &Arc<ClientConfig>, headers: &str| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
        let stream = TcpStream::connect(&web.address).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let _ = stream.write_all(get("/v1/pools", headers).as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let with_valid = config(Some(&valid));
    assert_eq!(answer(&with_valid, &header), "200");
    assert_eq!(answer(&with_valid, ""), "401", "a token is needed too");
    for refused in [None, Some(&expired), Some(&of_other)] {
        assert_eq!(answer(&config(refused), &header), "");
    }
    // Another authority is used without a restart, and no session outlives the change.
    std::fs::write(place.path("clients.pem"), others_pem).unwrap();
    let mut said = BufReader::new(web.process.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("the new certificate is in use")));
    // It is on its way to the process that serves.
    while answer(&config(Some(&of_other)), &header) != "200" {}
    assert_eq!(answer(&with_valid, &header), "");
}

#[test]
fn a_file_without_authorities_is_refused() {
    let place = Place::new();
    place.pool("tank");
    certify(&place);
    std::fs::write(place.path("clients.pem"), "no certificate").unwrap();
    let line = "web --listen 127.0.0.1:0 --tls-cert {DIR}/cert.pem --tls-key {DIR}/key.pem";
    let refused = place.fails(&format!("{line} --tls-client-ca {{DIR}}/clients.pem"), 1);
    has(&refused, "clients.pem: the file has no certificate");
}

/// The processes of one user take memory in turn; other users do not wait for them.
#[test]
fn long_bodies_of_a_user_come_one_after_the_other() {
    let place = needs!(shared_place());
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
