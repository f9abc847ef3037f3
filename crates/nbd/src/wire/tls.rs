//! TLS: who the server is, and whom it believes.
//!
//! A directory has what is needed, by the names that other NBD programs use: `server-cert.pem`,
//! `server-key.pem`, and `ca-cert.pem` with the certificates that have to have signed a client's.
//! There is no other way to be let in: `rustls` has no pre-shared keys.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::wire::link::PeerLink;
use crate::{Error, Result};

/// The certificates and keys that a server needs for TLS.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the certificates and the key in a directory. Certificates that `ca-crl.pem` revokes, if it is
    /// there, are not believed.
    ///
    /// # Errors
    /// [`Error::Certificates`], which names the file.
    pub fn from_dir(dir: &Path) -> Result<Tls> {
        let roots = authorities(dir)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .with_crls(revoked(&dir.join("ca-crl.pem"))?)
                .build()
                .map_err(|error| unusable(&dir.join(AUTHORITIES), error))?;
        let own = dir.join("server-cert.pem");
        let key = private_key(&dir.join("server-key.pem"))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(dir, error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&own)?, key)
            .map_err(|error| unusable(&own, error))?;
        Ok(Tls(Arc::new(config)))
    }
}

/// The file with the certificates that have to have signed those of the other end.
pub(crate) const AUTHORITIES: &str = "ca-cert.pem";

pub(crate) fn authorities(dir: &Path) -> Result<RootCertStore> {
    let path = dir.join(AUTHORITIES);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        let added = roots.add(certificate);
        added.map_err(|error| unusable(&path, error))?;
    }
    Ok(roots)
}

pub(crate) fn unusable(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::Certificates {
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unusable(path, error))?;
    match found.is_empty() {
        true => Err(unusable(path, "the file has no certificate in PEM form")),
        false => Ok(found),
    }
}

pub(crate) fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let found = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unusable(path, error))?;
    match found.is_empty() {
        true => Err(unusable(
            path,
            "the file has no list of revoked certificates in PEM form",
        )),
        false => Ok(found),
    }
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let found = std::fs::metadata(path).map_err(|error| unusable(path, error))?;
    if found.mode() & 0o077 != 0 {
        return Err(unusable(
            path,
            "users other than its owner can read it; change that: chmod 600",
        ));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, error))
}

/// A socket under TLS. Only the one thread that receives waits for the socket while it does, and only
/// the one that sends; the state of TLS is locked between, while bytes are encrypted or decrypted.
pub(crate) struct TlsLink {
    socket: Arc<dyn PeerLink>,
    state: Mutex<Connection>,
    /// The received bytes that are not decrypted.
    received: Mutex<TlsInput>,
    /// The encrypted bytes to be sent.
    sealed: Mutex<Vec<u8>>,
}

/// The bytes from the socket that TLS has not taken.
struct TlsInput {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// The number of bytes that are encrypted before they are sent.
const AT_ONCE: usize = 128 << 10;

impl TlsLink {
    /// Greets a client, of which nothing may be waiting in `socket`. Fails if the client has no certificate,
    /// or not a good one.
    pub(crate) fn accept(socket: Arc<dyn PeerLink>, tls: &Tls) -> io::Result<TlsLink> {
        let state = ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?;
        TlsLink::greet(socket, state.into())
    }

    /// Ends when both ends know each other.
    pub(crate) fn greet(socket: Arc<dyn PeerLink>, mut state: Connection) -> io::Result<TlsLink> {
        state.set_buffer_limit(None);
        let mut stream = Blocking(&*socket);
        while state.is_handshaking() {
            state.complete_io(&mut stream)?;
        }
        Ok(TlsLink {
            socket,
            state: Mutex::new(state),
            received: Mutex::new(TlsInput {
                buffer: vec![0; 64 << 10].into(),
                start: 0,
                end: 0,
            }),
            sealed: Mutex::default(),
        })
    }

    /// Sends what TLS has to be sent.
    fn flush(&self, sealed: &mut Vec<u8>) -> io::Result<()> {
        sealed.clear();
        let mut state = self.state.lock();
        while state.wants_write() {
            state.write_tls(sealed)?;
        }
        drop(state);
        self.socket.send(sealed)
    }
}

impl PeerLink for TlsLink {
    fn receive(&self, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
        let out = if first.is_empty() { second } else { first };
        let mut received = self.received.lock();
        loop {
            let mut state = self.state.lock();
            match state.reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let TlsInput { buffer, start, end } = &mut *received;
            if start < end {
                *start += state.read_tls(&mut &buffer[*start..*end])?;
                state.process_new_packets().map_err(io::Error::other)?;
                continue;
            }
            drop(state);
            (*start, *end) = (0, self.socket.receive(buffer, &mut [])?);
            if *end == 0 {
                // Without a word of good-bye: what came may have been cut short.
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sealed = self.sealed.lock();
        for piece in bytes.chunks(AT_ONCE) {
            self.state.lock().writer().write_all(piece)?;
            self.flush(&mut sealed)?;
        }
        Ok(())
    }

    fn is_secure(&self) -> bool {
        true
    }

    fn take_time(&self) {
        self.socket.take_time();
    }

    fn receive_until(&self, moment: Instant) {
        self.socket.receive_until(moment);
    }

    fn send_until(&self, moment: Instant) {
        self.socket.send_until(moment);
    }

    fn finish(&self) {
        let mut sealed = self.sealed.lock();
        self.state.lock().send_close_notify();
        // Who went away does not want to know.
        let _ = self.flush(&mut sealed);
        self.socket.finish();
    }

    fn cut(&self) {
        self.socket.cut();
    }

    fn is_cut(&self) -> bool {
        self.socket.is_cut()
    }

    fn is_left(&self) -> bool {
        self.socket.is_left()
    }
}

/// A socket as the standard library's traits have it.
struct Blocking<'a>(&'a dyn PeerLink);

impl Read for Blocking<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.receive(out, &mut [])
    }
}

impl Write for Blocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
