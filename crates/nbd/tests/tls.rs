//! Over TCP: a client without a certificate gets nothing, and no data is sent in the clear.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use block::{BlockDevice, DeviceAccess, MemoryDevice};
use nbd::{
    Address, ClientTimeouts, ClientTls, Error, Export, ExportService, Exports, Listener, Remote,
    RemoteExport, Tls,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustix::net::{AddressFamily, SocketType, bind, connect};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a directory as NBD programs have it, of a server or a client.
fn identity(dir: &Path, of: &str, believes: &Authority, by: &Authority, serial: u64) {
    fs::create_dir(dir).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    params.serial_number = Some(SerialNumber::from(serial));
    let certificate = params.signed_by(&key, by).unwrap();
    fs::write(dir.join("ca-cert.pem"), believes.pem()).unwrap();
    fs::write(dir.join(format!("{of}-cert.pem")), certificate.pem()).unwrap();
    let path = dir.join(format!("{of}-key.pem"));
    fs::write(&path, key.serialize_pem()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

const REVOKED: u64 = 3;

/// A list of the certificates that are no longer to be believed.
fn revoked(by: &Authority) -> String {
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(4000, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(REVOKED),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(by).unwrap().pem().unwrap()
}

struct Place {
    dir: tempfile::TempDir,
    port: u16,
    device: Arc<MemoryDevice>,
    _server: ExportService,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = (authority(), authority());
    identity(&dir.path().join("server"), "server", &ours, &ours, 1);
    identity(&dir.path().join("client"), "client", &ours, &ours, 2);
    identity(&dir.path().join("revoked"), "client", &ours, &ours, REVOKED);
    identity(&dir.path().join("stranger"), "client", &ours, &others, 2);
    let list = dir.path().join("server/ca-crl.pem");
    fs::write(list, revoked(&ours)).unwrap();
    let device = Arc::new(MemoryDevice::new(4 << 20));
    let exports = Arc::new(Exports::default());
    let export = Export::new("x", "of a test", device.clone(), false).unwrap();
    exports.insert(Arc::new(export)).unwrap();
    let tls = Tls::from_dir(&dir.path().join("server")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = ExportService::start(Listener::Tcp(listener, tls), exports).unwrap();
    Place {
        dir,
        port,
        device,
        _server: server,
    }
}

#[test]
fn in_the_clear_there_is_nothing() {
    let place = place();
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", place.port)).unwrap();
        let mut stream = stream;
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream
    };
    let option = |number: u32, data: &[u8]| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let mut client = connect();
    for number in [3, 6, 7, 8, 9, 10] {
        client
            .write_all(&option(number, b"\0\0\0\x01x\0\0"))
            .unwrap();
        let mut answer = [0; 20];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[12..], [0x80, 0, 0, 5, 0, 0, 0, 0], "{number}");
    }
    client.write_all(&option(1, b"x")).unwrap();
    assert_eq!(client.read(&mut [0; 64]).unwrap_or(0), 0);
    // Bytes injected behind the request for TLS are not taken for the client's.
    let mut client = connect();
    client
        .write_all(&[option(5, b""), option(3, b"")].concat())
        .unwrap();
    let mut said = Vec::new();
    let _ = client.read_to_end(&mut said);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn certificates_decide_who_gets_in() {
    if Command::new("nbdcopy").arg("--version").output().is_err() {
        eprintln!("skipped: nbdcopy is not installed; ./test installs it");
        return;
    }
    let place = place();
    let copy = |client: &str| {
        let certificates = place.dir.path().join(client);
        let uri = format!(
            "nbds://127.0.0.1:{}/x?tls-certificates={}",
            place.port,
            certificates.display()
        );
        let image = place.dir.path().join("image");
        let content: Vec<u8> = (0..4u32 << 20).map(|i| (i / 1000) as u8).collect();
        fs::write(&image, &content).unwrap();
        let output = Command::new("nbdcopy")
            .arg(&image)
            .arg(&uri)
            .output()
            .unwrap();
        let back = place.dir.path().join("back");
        let read = Command::new("nbdcopy")
            .arg(&uri)
            .arg(&back)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_there = fs::read(&back).is_ok_and(|back| back == content);
        (
            output.status.success() && read.status.success(),
            is_there,
            error,
        )
    };
    for who in ["stranger", "revoked"] {
        let (succeeds, is_there, error) = copy(who);
        assert!(!succeeds && !is_there, "{who}: {error}");
    }
    assert!(place.device.to_bytes().iter().all(|b| *b == 0));
    let (succeeds, is_there, error) = copy("client");
    assert!(succeeds && is_there, "{error}");
}

#[test]
fn what_is_missing_is_named() {
    let place = place();
    let dir = place.dir.path().join("server");
    let fails = |file: &str| match Tls::from_dir(&dir) {
        Err(Error::Certificates { path, .. }) => assert!(path.ends_with(file), "{path}"),
        other => panic!("{other:?}"),
    };
    let key = dir.join("server-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fails("server-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    Tls::from_dir(&dir).unwrap();
    fs::write(dir.join("ca-crl.pem"), "nonsense").unwrap();
    fails("ca-crl.pem");
    fs::remove_file(dir.join("ca-crl.pem")).unwrap();
    fs::write(dir.join("ca-cert.pem"), "nonsense").unwrap();
    fails("ca-cert.pem");
    fs::remove_file(dir.join("ca-cert.pem")).unwrap();
    fails("ca-cert.pem");
}

/// A silent client keeps its place only until another client needs it.
#[test]
fn silent_clients_shut_no_other_out() {
    let place = place();
    let connect = || TcpStream::connect(("127.0.0.1", place.port)).unwrap();
    let silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let mut client = connect();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&3u32.to_be_bytes()).unwrap();
    client.write_all(b"IHAVEOPT\0\0\0\x05\0\0\0\0").unwrap();
    let mut answer = [0; 20];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[12..], [0, 0, 0, 1, 0, 0, 0, 0]);
    drop(silent);
}

/// Many addresses do not end the handshake of another one.
#[test]
fn a_flood_of_other_addresses_gives_way_first() {
    let place = place();
    let from = |source: &str| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
        connect(&socket, &SocketAddr::from(([127, 0, 0, 1], place.port))).unwrap();
        TcpStream::from(socket)
    };
    let mut slow = from("127.0.0.1");
    let flood: Vec<TcpStream> = (0..200)
        .map(|n| from(&format!("127.0.1.{}", 1 + n % 20)))
        .collect();
    slow.read_exact(&mut [0; 18]).unwrap();
    slow.write_all(&3u32.to_be_bytes()).unwrap();
    slow.write_all(b"IHAVEOPT\0\0\0\x05\0\0\0\0").unwrap();
    slow.read_exact(&mut [0; 20]).unwrap();
    drop(flood);
}

/// The first bytes in each direction of a connection to a port: from the client, and from the server.
fn first_bytes(port: u16, connect: impl FnOnce(u16)) -> [Vec<u8>; 2] {
    const ENOUGH: usize = 2048;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        let proxy = scope.spawn(|| {
            let client = listener.accept().unwrap().0;
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let pass = |from: &TcpStream, to: &TcpStream| {
                let (mut from, mut to) = (from, to);
                let (mut seen, mut some) = (Vec::new(), [0; 4096]);
                while let Ok(len @ 1..) = from.read(&mut some) {
                    if seen.len() < ENOUGH {
                        seen.extend(&some[..len]);
                    }
                    let _ = to.write_all(&some[..len]);
                }
                let _ = to.shutdown(std::net::Shutdown::Both);
                seen
            };
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| pass(&client, &server));
                let answered = pass(&server, &client);
                [asked.join().unwrap(), answered]
            })
        });
        connect(between);
        proxy.join().unwrap()
    })
}

/// The extension of a ClientHello or ServerHello with the key shares (RFC 8446, 4.1 and 4.2.8), in a record of TLS.
fn key_shares(record: &[u8], is_client: bool) -> &[u8] {
    let number = |at: usize, len: usize| {
        let bytes = &record[at..at + len];
        bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
    };
    // Two heads, version and random; then the session.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + number(at, 1);
    match is_client {
        true => {
            at += 2 + number(at, 2);
            at += 1 + number(at, 1);
        }
        false => at += 3,
    }
    let end = at + 2 + number(at, 2);
    at += 2;
    while at < end {
        let (kind, len) = (number(at, 2), number(at + 2, 2));
        at += 4;
        if kind == 51 {
            return &record[at..at + len];
        }
        at += len;
    }
    panic!("no key shares");
}

/// Traffic that is recorded today must not be readable once there are quantum computers.
#[test]
fn keys_are_agreed_on_by_the_hybrid_method() {
    const X25519_MLKEM768: [u8; 2] = [0x11, 0xec];
    let place = place();
    let [asked, answered] = first_bytes(place.port, |port| {
        let dir = place.dir.path().join("client");
        let remote = Remote {
            address: Address::Tcp("127.0.0.1".into(), port),
            export: "x".into(),
            tls: Some(ClientTls::from_dir(&dir, "127.0.0.1").unwrap()),
            name: "nbds://127.0.0.1/x".into(),
            patience: ClientTimeouts::default(),
        };
        RemoteExport::open(remote, DeviceAccess::Exclusive).unwrap();
    });
    // Before TLS: flags and an option of the client, greeting and answer of the server.
    let (shares, share) = (
        key_shares(&asked[20..], true),
        key_shares(&answered[38..], false),
    );
    assert_eq!(
        (&shares[2..4], &share[..2]),
        (&X25519_MLKEM768[..], &X25519_MLKEM768[..])
    );
}

/// The client of this crate: it believes the server, and the server believes it.
#[test]
fn an_export_is_a_device_behind_tls() {
    let place = place();
    let open = |identity: Option<&str>, name: &str| {
        let dir = |identity| place.dir.path().join(identity);
        let tls = identity.map(|identity| ClientTls::from_dir(&dir(identity), name).unwrap());
        let remote = Remote {
            address: Address::Tcp("127.0.0.1".into(), place.port),
            export: "x".into(),
            tls,
            name: "nbds://127.0.0.1/x".into(),
            patience: ClientTimeouts::default(),
        };
        RemoteExport::open(remote, DeviceAccess::Exclusive)
    };
    let device = open(Some("client"), "127.0.0.1").unwrap();
    let data = vec![7; 3 << 20];
    device
        .write_at(4096, &[std::io::IoSlice::new(&data)])
        .unwrap();
    device.flush().unwrap();
    let mut back = vec![0; data.len()];
    device.read_at(4096, &mut back).unwrap();
    assert!(back == data && place.device.to_bytes()[4096..][..data.len()] == data);
    // Without TLS, with the certificate of another authority or a revoked one, or for another host.
    let plain = open(None, "").err().unwrap().to_string();
    assert!(plain.contains("nbds"), "{plain}");
    for identity in ["stranger", "revoked"] {
        let refused =
            open(Some(identity), "127.0.0.1").map(|device| device.read_at(0, &mut [0; 512]));
        assert!(!matches!(refused, Ok(Ok(()))), "{identity}");
    }
    let other = open(Some("client"), "example.org")
        .err()
        .unwrap()
        .to_string();
    assert!(other.contains("certificate"), "{other}");

    let dir = place.dir.path().join("empty");
    fs::create_dir(&dir).unwrap();
    let missing = ClientTls::from_dir(&dir, "127.0.0.1").unwrap_err();
    assert!(missing.to_string().contains("ca-cert.pem"), "{missing}");
    let wrong = ClientTls::from_dir(&place.dir.path().join("client"), "no host");
    assert!(matches!(wrong, Err(Error::Certificates { .. })));
}
