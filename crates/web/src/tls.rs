//! TLS of the site on the network.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use protocol::api::Failure;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::http::{ClientStream, TimedSocket};

/// A certificate and its key, in PEM form, and the authorities of clients' certificates, if clients need one.
#[derive(Serialize, Deserialize)]
pub(crate) struct TlsIdentity {
    certificate: String,
    key: String,
    client_authorities: Option<String>,
}

impl Drop for TlsIdentity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The files of an identity.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    /// The certificate and those that lead to its authority.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
    /// The authorities of clients' certificates: without it clients need none.
    pub client_authorities: Option<PathBuf>,
}

/// The files of an identity, and their state when they were read.
pub(crate) struct WatchedIdentity {
    paths: IdentityFiles,
    seen: [Option<FileStamp>; 3],
}

/// Device, number, size and times of a file.
type FileStamp = [i128; 7];

impl WatchedIdentity {
    /// Reads an identity for the first time.
    pub(crate) fn read(paths: &IdentityFiles) -> Result<(WatchedIdentity, TlsIdentity), Failure> {
        let mut files = WatchedIdentity {
            paths: paths.clone(),
            seen: Default::default(),
        };
        files.seen = files.stamps();
        let identity = TlsIdentity::read(paths)?;
        Ok((files, identity))
    }

    /// The identity, if a file has changed since it was read, or since it was tried.
    pub(crate) fn renewed(&mut self) -> Option<Result<TlsIdentity, Failure>> {
        // If a file changes after this, it is tried again.
        let now = self.stamps();
        if now == self.seen {
            return None;
        }
        self.seen = now;
        Some(TlsIdentity::read(&self.paths))
    }

    fn stamps(&self) -> [Option<FileStamp>; 3] {
        let IdentityFiles {
            certificate,
            key,
            client_authorities,
        } = &self.paths;
        [Some(certificate), Some(key), client_authorities.as_ref()].map(|path| {
            let found = std::fs::metadata(path?).ok()?;
            Some([
                found.dev().into(),
                found.ino().into(),
                found.size().into(),
                found.mtime().into(),
                found.mtime_nsec().into(),
                found.ctime().into(),
                found.ctime_nsec().into(),
            ])
        })
    }
}

/// A connection under TLS.
pub(crate) type TlsStream = StreamOwned<ServerConnection, TimedSocket<TcpStream>>;

impl ClientStream for TlsStream {
    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.finish()
    }

    fn end_at(&mut self, moment: Instant) {
        self.sock.end_at(moment);
    }
}

impl TlsIdentity {
    /// Reads the files, and checks that they fit.
    fn read(paths: &IdentityFiles) -> Result<TlsIdentity, Failure> {
        let IdentityFiles {
            certificate,
            key,
            client_authorities,
        } = paths;
        let unusable = |path: &Path, why: &dyn std::fmt::Display| {
            Failure::other(format!("{}: {why}", path.display()))
        };
        let found = std::fs::metadata(key).map_err(|error| unusable(key, &error))?;
        if found.mode() & 0o077 != 0 {
            let why = "users other than its owner can read it; change that: chmod 600";
            return Err(unusable(key, &why));
        }
        let text =
            |path: &Path| std::fs::read_to_string(path).map_err(|error| unusable(path, &error));
        let identity = TlsIdentity {
            certificate: text(certificate)?,
            key: text(key)?,
            client_authorities: client_authorities.as_deref().map(text).transpose()?,
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        if let Some(path) = client_authorities {
            let checked = identity.verifier(&provider);
            checked.map_err(|why| unusable(path, &why))?;
        }
        let fits = identity.config();
        fits.map_err(|why| unusable(certificate, &why))?;
        Ok(identity)
    }

    /// The check of clients' certificates, if clients need one.
    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
        let Some(authorities) = &self.client_authorities else {
            return Ok(None);
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|e| e.to_string())?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        builder.build().map(Some).map_err(|e| e.to_string())
    }

    /// The configuration of TLS for new connections.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|e| text(&e))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = self.verifier(&provider)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| text(&e))?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|e| text(&e))?;
        if verifier.is_some() {
            // A session that is resumed would skip the certificate, which may have expired.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The certificates in a file.
fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(text.as_bytes());
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    match all.is_empty() {
        true => Err("the file has no certificate in PEM form".into()),
        false => Ok(all),
    }
}

/// Begins TLS on a connection. The handshake is done as the first request is read.
pub(crate) fn begin(
    socket: TimedSocket<TcpStream>,
    config: Arc<ServerConfig>,
) -> io::Result<TlsStream> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, socket))
}
