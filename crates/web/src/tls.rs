//! TLS of the site on the network.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use protocol::api::Failure;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::http::{Stream, Timed};

/// A certificate and its key, in PEM form.
#[derive(Serialize, Deserialize)]
pub(crate) struct Identity {
    certificate: String,
    key: String,
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// Where an identity is, and how the files were when they were read.
pub(crate) struct Files {
    certificate: PathBuf,
    key: PathBuf,
    seen: [Option<Stamp>; 2],
}

/// Device, number, size and times of a file.
type Stamp = [i128; 7];

impl Files {
    /// Reads an identity for the first time.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<(Files, Identity), Failure> {
        let mut files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            seen: Default::default(),
        };
        files.seen = files.stamps();
        let identity = Identity::read(certificate, key)?;
        Ok((files, identity))
    }

    /// The identity, if a file has changed since it was read, or since it was tried.
    pub(crate) fn renewed(&mut self) -> Option<Result<Identity, Failure>> {
        // If a file changes after this, it is tried again.
        let now = self.stamps();
        if now == self.seen {
            return None;
        }
        self.seen = now;
        Some(Identity::read(&self.certificate, &self.key))
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.certificate, &self.key].map(|path| {
            let found = std::fs::metadata(path).ok()?;
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
pub(crate) type TlsStream = StreamOwned<ServerConnection, Timed<TcpStream>>;

impl Stream for TlsStream {
    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.finish()
    }

    fn end_at(&mut self, moment: Instant) {
        self.sock.end_at(moment);
    }
}

impl Identity {
    /// Reads the files, and checks that they fit.
    fn read(certificate: &Path, key: &Path) -> Result<Identity, Failure> {
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
        let identity = Identity {
            certificate: text(certificate)?,
            key: text(key)?,
        };
        let fits = identity.config();
        fits.map_err(|why| unusable(certificate, &why))?;
        Ok(identity)
    }

    /// What connections need.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|e| text(&e))?;
        if chain.is_empty() {
            return Err("the file has no certificate in PEM form".into());
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|e| text(&e))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| text(&e))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|e| text(&e))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Begins TLS on a connection. The handshake is done as the first request is read.
pub(crate) fn begin(socket: Timed<TcpStream>, config: Arc<ServerConfig>) -> io::Result<TlsStream> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, socket))
}
