//! Answers of a store that are no success: the error, its advice, and what is not in it.

use std::net::TcpListener;

use objects::store::{Creation, Variables, connect_with};
use objects::{Error, StoreAddress, StoreProvider};

use crate::support::{Client, WrittenAnswers, answer, document, s3_address, settings};

const KEY: (&str, &str) = ("AKIDEXAMPLE", "secret-of-the-user");

/// Asks a server that has this answer for a create.
fn create(answers: Vec<String>) -> objects::Result<Creation> {
    let server = WrittenAnswers::new(answers);
    Client::s3(server.port, "bucket", KEY).create("log/7", b"bytes")
}

#[test]
fn outages_are_told_from_refusals() {
    for (status, code, is_outage) in [
        (500, "InternalError", true),
        (503, "SlowDown", true),
        (502, "", true),
        (429, "", true),
        (408, "", true),
        (400, "RequestTimeout", true),
        (403, "AccessDenied", false),
        (401, "", false),
        (404, "NoSuchBucket", false),
        (400, "InvalidRequest", false),
        (501, "NotImplemented", false),
        (301, "PermanentRedirect", false),
        (307, "TemporaryRedirect", false),
    ] {
        let location = match status {
            307 => "location: http://127.0.0.1:1/\r\n",
            _ => "",
        };
        // One answer: a second request would find nobody.
        let error = create(vec![answer(status, location, &document(code))]).unwrap_err();
        assert_eq!(error.is_outage(), is_outage, "{status} {code}: {error}");
        let text = error.to_string();
        assert!(
            text.starts_with("s3://bucket/pools/a b: create of 'log/7' was "),
            "{text}"
        );
        assert!(!text.contains(KEY.0) && !text.contains(KEY.1), "{text}");
    }
}

#[test]
fn conflicts_are_answers() {
    for status in [409, 412] {
        let creation = create(vec![answer(status, "", &document("PreconditionFailed"))]);
        assert_eq!(creation.unwrap(), Creation::Exists);
    }
}

#[test]
fn a_create_is_one_request_with_its_condition() {
    let server = WrittenAnswers::new(vec![answer(200, "etag: \"1\"\r\n", "")]);
    let client = Client::s3(server.port, "bucket", KEY);
    assert_eq!(client.create("log/7", b"bytes").unwrap(), Creation::Made);
    let (head, body) = server.requests.recv().unwrap();
    let head = head.to_lowercase();
    assert!(
        head.starts_with("put /bucket/pools/a%20b/log/7 http/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nif-none-match: *\r\n"), "{head}");
    assert!(head.contains("\r\nuser-agent: strongroom/"), "{head}");
    // Without TLS the signature covers the bytes.
    let digest = "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9";
    assert!(
        head.contains(&format!("\r\nx-amz-content-sha256: {digest}")),
        "{head}"
    );
    assert!(!head.contains(KEY.1), "{head}");
    assert_eq!(body, b"bytes");
}

#[test]
fn a_store_that_is_away_is_an_outage() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let client = Client::s3(closed, "bucket", KEY);
    for error in [
        client.create("log/7", b"x").map(drop).unwrap_err(),
        client.replace("log/7", b"x").unwrap_err(),
        client.get("log/7", 0, 1).map(drop).unwrap_err(),
        client.list("log/", None, 1).map(drop).unwrap_err(),
        client.delete("log/7").unwrap_err(),
    ] {
        assert!(error.is_outage(), "{error}");
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }
    // It ends in the middle of an answer, or before it.
    for answers in [
        vec![String::new()],
        vec!["HTTP/1.1 200 OK\r\ncontent-le".into()],
    ] {
        let error = create(answers).unwrap_err();
        assert!(error.is_outage(), "{error}");
    }
}

#[test]
fn half_an_object_is_no_object() {
    let head = "content-range: bytes 0-9/10\r\netag: \"1\"\r\nlast-modified: Sun, 29 Nov 2026 00:00:00 GMT\r\n";
    let whole = answer(206, head, "0123456789");
    for (bytes, is_right) in [
        (whole.clone(), true),
        (whole[..whole.len() - 1].into(), false),
    ] {
        let server = WrittenAnswers::new(vec![bytes]);
        let read = Client::s3(server.port, "bucket", KEY).get("log/7", 0, 10);
        assert_eq!(read.is_ok(), is_right, "{read:?}");
        assert!(read.is_ok() || read.unwrap_err().is_outage());
    }
}

/// Azurite calls a range without bytes at the end of an object a success.
#[test]
fn a_range_at_the_end_of_an_object_is_empty() {
    for (range, size) in [("10-9", 10), ("0--1", 0)] {
        let head = format!("content-range: bytes {range}/{size}\r\netag: \"1\"\r\n");
        let server = WrittenAnswers::new(vec![answer(206, &head, "")]);
        let read = Client::s3(server.port, "bucket", KEY).get("log/7", size, size + 1);
        let part = read.unwrap().unwrap();
        assert_eq!((part.bytes.len(), part.size), (0, size));
    }
}

/// The library sends a batch of one request.
#[test]
fn an_object_of_azure_is_removed_or_was_not_there() {
    let address = StoreAddress {
        provider: StoreProvider::Azure,
        ..s3_address("container")
    };
    for (status, code, outcome) in [
        ("202 Accepted", "", Ok(())),
        (
            "404 The specified blob does not exist.",
            "BlobNotFound",
            Ok(()),
        ),
        ("403 Forbidden", "AuthorizationFailure", Err(false)),
        ("503 Busy", "ServerBusy", Err(true)),
    ] {
        let part = format!(
            "--batch\r\ncontent-type: application/http\r\ncontent-id: 0\r\n\r\nHTTP/1.1 {status}\r\n\
             x-ms-error-code: {code}\r\n\r\n\r\n--batch--"
        );
        let head = "content-type: multipart/mixed; boundary=batch\r\n";
        let server = WrittenAnswers::new(vec![answer(202, head, &part)]);
        let endpoint = format!("http://127.0.0.1:{}/account", server.port);
        let settings = settings(&[
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5"),
            ("AZURE_STORAGE_ENDPOINT", &endpoint),
            ("AZURE_ALLOW_HTTP", "true"),
        ]);
        let client = Client::new(connect_with(&address, &settings).unwrap());
        let removed = client.delete("log/7");
        assert_eq!(
            removed.as_ref().map_err(Error::is_outage).copied(),
            outcome,
            "{removed:?}"
        );
    }
}

/// No request asks this machine for credentials.
#[test]
fn an_emulator_of_google_needs_no_credentials() {
    let answers = ["etag: \"1\"\r\n", "etag: \"2\"\r\n"];
    let server = WrittenAnswers::new(answers.map(|head| answer(200, head, "")).into());
    let address = StoreAddress {
        provider: StoreProvider::Gcs,
        ..s3_address("bucket")
    };
    let emulator = format!("127.0.0.1:{}", server.port);
    let settings = settings(&[("STORAGE_EMULATOR_HOST", &emulator)]);
    let client = Client::new(connect_with(&address, &settings).unwrap());
    assert_eq!(client.create("log/7", b"x").unwrap(), Creation::Made);
    client.delete("log/7").unwrap();
    let (head, _) = server.requests.recv().unwrap();
    let head = head.to_lowercase();
    assert!(
        head.starts_with("put /bucket/pools%2fa%20b%2flog%2f7 http/1.1"),
        "{head}"
    );
    assert!(
        head.contains("\r\nx-goog-if-generation-match: 0\r\n"),
        "{head}"
    );
}

#[test]
fn strange_answers_are_no_success() {
    #[rustfmt::skip]
    let rows = [
        "nonsense\r\n\r\n".to_owned(),
        answer(200, "", "<html>log in to the hotel</html>"),
        answer(206, "content-range: bytes 5-9/10\r\netag: \"1\"\r\n", "01234"),
        answer(206, &format!("content-range: bytes 0-5/{}\r\n", i128::MIN), ""),
        answer(206, "content-range: bytes 9-8/10\r\netag: \"1\"\r\n", ""),
        answer(206, "content-range: bytes 0-18446744073709551615/9\r\netag: \"1\"\r\n", "01234"),
        answer(416, "content-range: bytes */99\r\n", ""),
    ];
    for strange in rows {
        let server = WrittenAnswers::new(vec![strange.clone()]);
        let read = Client::s3(server.port, "bucket", KEY).get("log/7", 0, 10);
        assert!(read.is_err(), "{strange}: {read:?}");
        let server = WrittenAnswers::new(vec![strange.clone()]);
        let listed = Client::s3(server.port, "bucket", KEY).list("log/", None, 10);
        assert!(listed.is_err(), "{strange}: {listed:?}");
    }
    // More than was asked for, without an end.
    let head = "HTTP/1.1 206 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\ncontent-range: bytes 0-9/10\r\netag: \"1\"\r\nlast-modified: Sun, 29 Nov 2026 00:00:00 GMT\r\n\r\n";
    let endless = format!("{head}{}", "10\r\n0123456789abcdef\r\n".repeat(1_000));
    let server = WrittenAnswers::new(vec![endless]);
    let read = Client::s3(server.port, "bucket", KEY).get("log/7", 0, 10);
    assert!(read.as_ref().is_err_and(Error::is_outage), "{read:?}");
}

#[test]
fn settings_are_checked_before_the_first_request() {
    let s3 = s3_address("bucket");
    let other = |provider| StoreAddress {
        provider,
        ..s3.clone()
    };
    let key = [
        ("AWS_ACCESS_KEY_ID", KEY.0),
        ("AWS_SECRET_ACCESS_KEY", KEY.1),
    ];
    #[rustfmt::skip]
    let rows = [
        (&s3, vec![("AWS_ENDPOINT_URL", "http://127.0.0.1:1")], "AWS_ALLOW_HTTP=true"),
        (&s3, vec![("AWS_ENDPOINT_URL", "https://me:pass@host")], "a user or a password"),
        (&s3, vec![("AWS_ENDPOINT_URL", "host:1/x y")], "no address"),
        (&s3, vec![("AWS_CA_BUNDLE", "/dev/null")], "/dev/null"),
        (&s3, vec![("AWS_CA_BUNDLE", "/missing")], "/missing"),
        (&s3, vec![("AWS_REQUEST_PAYER", KEY.1)], ""),
        (
            &other(StoreProvider::Azure),
            vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
                ("AZURE_STORAGE_ACCOUNT_KEY", "no base64!"),
            ],
            "",
        ),
        (&other(StoreProvider::Gcs), vec![("GOOGLE_SERVICE_ACCOUNT_KEY", "{no json")], ""),
    ];
    for (address, pairs, words) in rows {
        let pairs: Vec<_> = key.iter().chain(&pairs).copied().collect();
        let error = match connect_with(address, &settings(&pairs)) {
            Err(error) => error,
            Ok(_) => panic!("{pairs:?}"),
        };
        assert!(matches!(error, Error::Unusable { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(words) && !text.contains(KEY.1) && !text.contains("no base64!"),
            "{text}"
        );
    }
    let without = settings(&[("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/missing")]);
    let error = connect_with(&s3, &without).err().unwrap();
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
    assert!(!format!("{:?}", settings(&key)).contains(KEY.1));
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (server, port) = tls_server(&made);
    let endpoint = format!("https://localhost:{port}");
    let pairs = vec![
        ("AWS_ACCESS_KEY_ID", KEY.0),
        ("AWS_SECRET_ACCESS_KEY", KEY.1),
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
    ];
    let client = |variables: &Variables| {
        Client::new(connect_with(&s3_address("bucket"), variables).unwrap())
    };
    let error = client(&settings(&pairs)).create("log/7", b"x").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("AWS_CA_BUNDLE"), "{error}");

    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let mut pairs = pairs;
    pairs.push(("AWS_CA_BUNDLE", file.to_str().unwrap()));
    assert_eq!(
        client(&settings(&pairs)).create("log/7", b"x").unwrap(),
        Creation::Made
    );
    let head = server.join().unwrap().to_lowercase();
    // TLS vouches for the bytes.
    assert!(
        head.contains("x-amz-content-sha256: unsigned-payload"),
        "{head}"
    );
}

/// A server with TLS that answers the first whole request, and its port. It returns the head of that request.
fn tls_server(
    made: &rcgen::CertifiedKey<rcgen::KeyPair>,
) -> (std::thread::JoinHandle<String>, u16) {
    use std::io::{Read, Write};
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = TcpListener::bind("localhost:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        loop {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !request.ends_with(b"\r\n\r\nx") {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => request.extend(&piece[..count]),
                    _ => break,
                }
            }
            if request.ends_with(b"\r\n\r\nx") {
                stream
                    .write_all(answer(200, "etag: \"1\"\r\n", "").as_bytes())
                    .unwrap();
                return String::from_utf8(request).unwrap();
            }
        }
    });
    (thread, port)
}
