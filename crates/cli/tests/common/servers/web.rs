//! `strongroom web`, at its socket and on the network. Not all tests need the library of certificates, so those that do have
//! this as a module of their own.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::{Gid, Uid};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use serde_json::Value as Json;

use super::common::{Place, has, lacks};

/// The program, which ends with the test.
pub struct Web {
    pub process: Child,
    pub socket: PathBuf,
    /// On the network: `127.0.0.1:PORT`.
    pub address: String,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Web {
    /// Starts it for the daemon at a socket, and returns when it listens.
    pub fn start(place: &Place, daemon: &Path, args: &[&str]) -> Web {
        Web::by(Web::command(place, daemon, args))
    }

    /// The command that starts it.
    pub fn command(place: &Place, daemon: &Path, args: &[&str]) -> Command {
        let mut command = place.command();
        command
            .env("STRONGROOM_SOCKET", daemon)
            .arg("web")
            .args(args);
        command
    }

    /// Starts it by its command, and returns when it listens.
    pub fn by(mut command: Command) -> Web {
        command.stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("it listens").unwrap();
        let mut first = line();
        let address = match first.strip_prefix("https://") {
            Some(address) => {
                let address = address.trim_end_matches('/').to_owned();
                first = line();
                address
            }
            None => String::new(),
        };
        let socket = first.into();
        Web {
            process,
            socket,
            address,
        }
    }

    /// Sends this as a user, and returns the status and the body.
    pub fn raw_as(&self, uid: u32, request: &str) -> (u16, String) {
        let ask = || {
            if uid != 0 {
                // Of this thread only.
                rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
                rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
            }
            exchange(
                UnixStream::connect(&self.socket).expect("a socket"),
                request,
            )
        };
        std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
    }

    /// Sends a request like [`Web::raw_as`], as the user of the test.
    pub fn raw(&self, request: &str) -> (u16, String) {
        exchange(
            UnixStream::connect(&self.socket).expect("a socket"),
            request,
        )
    }

    /// Starts it at a port of this machine, and returns the certificate of its authority too.
    pub fn on_network(place: &Place) -> (Web, CertificateDer<'static>) {
        let authority = certify(place);
        (Web::by(Web::command_on_network(place)), authority)
    }

    /// The command that starts it with the certificate of the place.
    pub fn command_on_network(place: &Place) -> Command {
        let (cert, key) = (place.arg("cert.pem"), place.arg("key.pem"));
        let tls = ["--tls-cert", &cert, "--tls-key", &key];
        let args = [&["--listen", "127.0.0.1:0"], &tls[..]].concat();
        Web::command(place, &place.socket(), &args)
    }
}

/// A client that trusts an authority.
pub fn client(authority: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Makes a certificate for `localhost` and its key. `authority.pem` is the certificate of its authority.
pub fn certify(place: &Place) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Under the name of its authority, OpenSSL would take a certificate for self-signed.
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "authority of the tests");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let own = params.signed_by(&key, &authority).unwrap();
    fs::write(place.path("cert.pem"), own.pem()).unwrap();
    fs::write(place.path("key.pem"), key.serialize_pem()).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("key.pem"), private).unwrap();
    fs::write(place.path("authority.pem"), authority.pem()).unwrap();
    authority.der().clone()
}

/// A request for a page.
pub fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// A command.
pub fn post(path: &str, headers: &str, body: Json) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Strongroom: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// Sends a request, and returns the status and the body.
pub fn exchange(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    // Without a good-bye of TLS the length says whether it is whole.
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    has(head, "\r\nX-Content-Type-Options: nosniff");
    has(head, "default-src 'none'");
    lacks(head, "Access-Control");
    (status.unwrap_or(0), body.to_owned())
}
