//! `strongroom web`, at its socket and on the network. Not all tests need the library of certificates, so those that do have
//! this as a module of their own.

#![allow(dead_code, unreachable_pub, missing_docs)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::common::Place;

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

/// Makes a certificate for `localhost` and its key.
pub fn certify(place: &Place) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let own = params.signed_by(&key, &authority).unwrap();
    fs::write(place.path("cert.pem"), own.pem()).unwrap();
    fs::write(place.path("key.pem"), key.serialize_pem()).unwrap();
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("key.pem"), private).unwrap();
    authority.der().clone()
}
