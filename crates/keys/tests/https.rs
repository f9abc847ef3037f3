//! Keys from a server, which runs in the test, with certificates made for it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use keys::{Error, KeyMaterial, KeySource, Location, MaterialFormat, fetch};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The time for an answer. Nothing waits for this to pass, but where a server does not answer.
const PATIENCE: Duration = Duration::from_secs(20);
const KEY: &[u8; 32] = b"a raw key, of exactly 32 bytes..";

/// A server that gives each connection the same answer.
struct Server {
    port: u16,
    dir: tempfile::TempDir,
    stop: JoinHandle<()>,
    addr: std::net::SocketAddr,
}

impl Server {
    /// For this name. `answer` gets what is asked for.
    fn new(name: &str, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Server {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        Server::with(certificate.der(), &key, &ca.pem(), answer)
    }

    /// With a certificate that it signs itself, as an authority does: what `openssl req -x509` makes.
    fn signed_by_itself(
        change: impl Fn(&mut CertificateParams),
        answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
    ) -> Server {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Server::with(certificate.der(), &key, &certificate.pem(), answer)
    }

    fn with(
        certificate: &CertificateDer<'static>,
        key: &KeyPair,
        ca: &str,
        answer: impl Fn(&str) -> Vec<u8> + Send + 'static,
    ) -> Server {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), ca).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut tls = StreamOwned::new(connection, stream);
                let Some(path) = request(&mut tls) else {
                    continue;
                };
                if path == "/stop" {
                    return;
                }
                // The client may close the connection early.
                let _ = tls.write_all(&answer(&path)).and_then(|()| tls.flush());
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        };
        Server {
            port: addr.port(),
            dir,
            stop: std::thread::spawn(serve),
            addr,
        }
    }

    fn ca(&self) -> String {
        self.dir.path().join("ca.pem").display().to_string()
    }

    fn get(&self, format: &str, path: &str) -> Result<KeyMaterial, Error> {
        let port = self.port;
        fetch_from(&format!(
            "{format},https://localhost:{port}{path}#ca={}",
            self.ca()
        ))
    }

    /// The reason why no key comes from there.
    fn refuses(&self, path: &str) -> String {
        let error = self.get("raw", path).expect_err(path);
        in_plain_words(error.to_string())
    }

    fn stop(self) {
        let _ = self.get("raw", "/stop");
        self.stop.join().unwrap();
    }
}

/// The path that is asked for; nothing if no request comes.
fn request(tls: &mut StreamOwned<ServerConnection, TcpStream>) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        tls.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    assert!(head.contains("user-agent: strongroom\r\n"), "{head}");
    Some(head.split(' ').nth(1)?.to_owned())
}

/// Checks that the text is not in the words of a library, since users read it.
fn in_plain_words(said: String) -> String {
    for leak in [
        "rustls", "ureq", "webpki", "docs.rs", "os error", "UNIX", "Issuer", "CaUsed", "Some(",
        "{", "(", "\"",
    ] {
        assert!(!said.contains(leak), "{leak}: {said}");
    }
    said
}

fn fetch_from(source: &str) -> Result<KeyMaterial, Error> {
    let source: KeySource = source.parse().unwrap();
    let Location::Https(url) = source.location() else {
        panic!("{source}");
    };
    fetch(url, source.format(), PATIENCE)
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn answer(path: &str) -> Vec<u8> {
    let sends_to =
        |to: &str| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    match path {
        "/raw" | "/raw?secret=hunter2" => ok(KEY),
        "/hex" => ok(format!("{}\n", "0f".repeat(32)).as_bytes()),
        "/passphrase" => ok(b"correct horse battery staple\n"),
        "/short" => ok(&KEY[..31]),
        "/long" => ok(&[b'x'; 1 << 20]),
        "/cut" => b"HTTP/1.1 200 OK\r\ncontent-length: 32\r\n\r\nhunter2".to_vec(),
        // Found by fuzzing: the library panics.
        "/trailer" => b"HTTP/1.1 302 Found\r\nTransfer-Encoding: chunked\r\n\r\n\
            8\r\ncorrect \r\n5\r\nhorse\r\n0\r\nLocation: /cZoC\nitent-Dength: 5(\n\r\n"
            .to_vec(),
        "/nonsense" => b"hunter2\r\n\r\n".to_vec(),
        "/again" => sends_to("/raw").into_bytes(),
        "/round" => sends_to("/round").into_bytes(),
        "/plain" => sends_to("http://127.0.0.1:1/raw").into_bytes(),
        _ => b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\nhunter2".to_vec(),
    }
}

#[test]
fn keys_of_every_format() {
    let server = Server::new("localhost", answer);
    for path in ["/raw", "/again"] {
        let Ok(KeyMaterial::Key(key)) = server.get("raw", path) else {
            panic!("{path}");
        };
        assert_eq!(key.expose(), KEY);
    }
    let Ok(KeyMaterial::Key(key)) = server.get("hex", "/hex") else {
        panic!("no key");
    };
    assert_eq!(key.expose(), &[0x0f; 32]);
    let Ok(KeyMaterial::Passphrase(text)) = server.get("passphrase", "/passphrase") else {
        panic!("no passphrase");
    };
    assert_eq!(text.expose(), b"correct horse battery staple");
    server.stop();
}

#[test]
fn each_failure_says_what_it_is_and_nothing_more() {
    let server = Server::new("localhost", answer);
    for (path, reason) in [
        ("/nothing", "status 404"),
        ("/round", "redirects too many times"),
        ("/plain", "without https"),
        ("/short", "holds 31 bytes; a raw key has 16, 24 or 32"),
        ("/long", "a raw key has 16, 24 or 32"),
        ("/nonsense", "not correct HTTP"),
        ("/trailer", "cannot be understood"),
        ("/cut", "key server"),
        ("/cut?secret=hunter2", "status 404"),
    ] {
        let said = server.refuses(path);
        assert!(said.contains(reason), "{path}: {said}");
        assert!(said.contains("https://localhost:"), "{path}: {said}");
        assert!(!said.contains("hunter2"), "{path}: {said}");
    }
    let wrong = server.get("hex", "/raw").expect_err("it is raw");
    assert!(matches!(wrong, Error::HexDigit { .. }), "{wrong}");
    server.stop();
}

#[test]
fn an_untrusted_server_gets_no_request() {
    let server = Server::new("localhost", |_| panic!("a request came"));
    let port = server.port;
    let untrusted = |source: &str, reason: &str| {
        let said = in_plain_words(fetch_from(source).expect_err(source).to_string());
        assert!(said.contains(reason), "{source}: {said}");
    };
    // The system's certificates, if it has any, do not vouch for it.
    untrusted(&format!("raw,https://localhost:{port}/raw"), "certificate");
    // It is another one's.
    let other = Server::new("localhost", answer);
    untrusted(
        &format!("raw,https://localhost:{port}/raw#ca={}", other.ca()),
        "is not trusted",
    );
    // It is for another name.
    untrusted(
        &format!("raw,https://127.0.0.1:{port}/raw#ca={}", server.ca()),
        "is not trusted",
    );
    untrusted(
        &format!("raw,https://localhost:{port}/raw#ca=/nowhere/ca.pem"),
        "/nowhere/ca.pem",
    );
    let empty = server.dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    untrusted(
        &format!("raw,https://localhost:{port}/raw#ca={}", empty.display()),
        "no certificate in PEM form",
    );
    // Opening it would wait for another process to write.
    let fifo = server.dir.path().join("fifo.pem");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    untrusted(
        &format!("raw,https://localhost:{port}/raw#ca={}", fifo.display()),
        "it is a fifo",
    );
    let long = server.dir.path().join("long.pem");
    std::fs::File::create(&long)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    untrusted(
        &format!("raw,https://localhost:{port}/raw#ca={}", long.display()),
        "it is longer than",
    );
    other.stop();
    server.stop();
}

#[test]
fn a_server_that_is_not_there_or_says_nothing() {
    let server = Server::new("localhost", answer);
    let (ca, port) = (server.ca(), server.addr.port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let said = |port: u16, time_max| {
        let source: KeySource = format!("raw,https://localhost:{port}/raw#ca={ca}")
            .parse()
            .unwrap();
        let Location::Https(url) = source.location() else {
            unreachable!();
        };
        let error = fetch(url, MaterialFormat::Raw, time_max).expect_err("no key");
        in_plain_words(error.to_string())
    };
    // It accepts connections, and never says a word.
    let reason = said(silent_port, Duration::from_millis(50));
    assert!(reason.contains("does not answer"), "{reason}");
    drop(silent);
    let reason = said(silent_port, PATIENCE);
    assert!(reason.contains("refused"), "{reason}");
    assert!(Path::new(&ca).exists() && port != silent_port);
    server.stop();
}

#[test]
fn a_certificate_that_signs_itself_can_be_pinned() {
    // What `openssl req -x509` makes says that it is the certificate of an authority.
    let server = Server::signed_by_itself(|_| {}, answer);
    let Ok(KeyMaterial::Key(key)) = server.get("raw", "/raw") else {
        panic!("{}", server.refuses("/raw"));
    };
    assert_eq!(key.expose(), KEY);

    // Another one of the same name is not the one that is pinned.
    let other = Server::signed_by_itself(|_| {}, |_| panic!("a request came"));
    std::fs::copy(server.ca(), other.ca()).unwrap();
    let said = other.refuses("/raw");
    assert!(said.contains("is not trusted"), "{said}");
    assert!(said.contains("#ca=FILE"), "{said}");
    server.stop();

    // A pin says who the server is. It says nothing of its name and of the time.
    let named = Server::signed_by_itself(
        |params| params.subject_alt_names = vec![SanType::DnsName("elsewhere".try_into().unwrap())],
        |_| panic!("a request came"),
    );
    let said = named.refuses("/raw");
    assert!(said.contains("for another name"), "{said}");
    for (from, to, why) in [(1999, 2000, "expired"), (2990, 2991, "not valid yet")] {
        let server = Server::signed_by_itself(
            |params| {
                params.not_before = date_time_ymd(from, 1, 1);
                params.not_after = date_time_ymd(to, 1, 1);
            },
            |_| panic!("a request came"),
        );
        let said = server.refuses("/raw");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_server_that_speaks_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = Server::new("localhost", answer);
    let ca = other.ca();
    for (says, why) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "does not speak TLS",
        ),
        (b"", "closed the connection"),
    ] {
        let listener = listener.try_clone().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // All of its first message, so that the connection ends and is not reset.
            let mut head = [0; 5];
            stream.read_exact(&mut head).unwrap();
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(says).unwrap();
        });
        let source = format!("raw,https://localhost:{port}/raw#ca={ca}");
        let said = in_plain_words(fetch_from(&source).expect_err("no key").to_string());
        assert!(said.contains(why), "{said}");
        server.join().unwrap();
    }
    other.stop();
}

#[test]
fn a_file_of_certificates_that_is_none_says_so() {
    let server = Server::new("localhost", |_| panic!("a request came"));
    let pem = std::fs::read_to_string(server.ca()).unwrap();
    let cut = &pem[..pem.len() / 2];
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (content, why) in [
        (cut, "cut off"),
        (wrong, "not a certificate"),
        ("", "no certificate in PEM form"),
    ] {
        std::fs::write(server.ca(), content).unwrap();
        let said = server.refuses("/raw");
        assert!(said.contains(why), "{said}");
    }
    std::fs::remove_file(server.ca()).unwrap();
    let said = server.refuses("/raw");
    assert!(said.contains("no such file"), "{said}");
}
