//! A site on another host, and the token for it.

use std::fs::File;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use protocol::api::{Failure, FailureKind};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::sockopt;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use secret::Secret;

use super::exchange::SiteExchange;
use crate::http::TimedSocket;

/// The time to connect, and for the handshake of TLS.
const CONNECT: Duration = Duration::from_secs(30);
/// The time for an answer, and for one that reads whole snapshots first.
const ANSWER: Duration = Duration::from_secs(600);
const LONG_ANSWER: Duration = Duration::from_secs(30 * 86_400);
/// A connection ends when the other host shows no sign of life for so long.
const SILENCE: Duration = Duration::from_secs(120);
const PROBE: Duration = Duration::from_secs(20);
const PROBES: u32 = 4;
/// The longest token, and the longest file with authorities.
const TOKEN_MAX: usize = 4 << 10;
const AUTHORITIES_MAX: u64 = 4 << 20;

/// A site on another host.
#[derive(Debug)]
pub struct RemoteSite {
    /// The name or address of the host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The file with the token.
    pub token: PathBuf,
    /// The authorities of the host's certificate, as PEM; those of the system if absent.
    pub authorities: Option<PathBuf>,
}

impl RemoteSite {
    /// The body of a resource, such as `/v1/datasets?name=tank`.
    ///
    /// # Errors
    /// As the site says; or that it cannot be reached or trusted.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let mut exchange = self.connect()?;
        let done = self
            .request(&mut exchange, "GET", path, "")
            .and_then(|()| exchange.answer(ANSWER));
        explained(done)
    }

    /// The answer to a command, whose body is JSON.
    ///
    /// # Errors
    /// As [`RemoteSite::get`].
    pub fn command(&self, name: &str, body: &str) -> Result<Vec<u8>, Failure> {
        let mut exchange = self.connect()?;
        let headers = format!(
            "X-Strongroom: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        let done = self
            .request(
                &mut exchange,
                "POST",
                &format!("/v1/commands/{name}"),
                &headers,
            )
            .and_then(|()| exchange.write(body.as_bytes()))
            .and_then(|()| exchange.flush())
            .and_then(|()| exchange.answer(LONG_ANSWER));
        explained(done)
    }

    /// Has the site receive a stream. `query` has the options.
    ///
    /// # Errors
    /// As [`RemoteSite::get`].
    pub fn receive(&self, query: &str, stream: &mut dyn Read) -> Result<(), Failure> {
        let mut exchange = self.connect()?;
        let headers = "X-Strongroom: 1\r\nContent-Type: application/octet-stream\r\n\
                       Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n";
        let path = format!("/v1/commands/receive?{query}");
        let done = self
            .request(&mut exchange, "POST", &path, headers)
            .and_then(|()| exchange.send_body(stream, ANSWER));
        explained(done).map(drop)
    }

    /// Sends the head of a request.
    fn request(
        &self,
        exchange: &mut SiteExchange,
        method: &str,
        path: &str,
        headers: &str,
    ) -> io::Result<()> {
        let token = self.read_token()?;
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}:{}\r\nConnection: close\r\n{headers}Authorization: Bearer ",
            self.port
        );
        exchange.write(head.as_bytes())?;
        // Not copied into a text.
        exchange.write(token.expose())?;
        exchange.write(b"\r\n\r\n")?;
        exchange.flush()
    }

    /// Reads the token. Only the user of this process and root can read the file.
    fn read_token(&self) -> io::Result<Secret> {
        let unusable = |why: String| {
            let path = self.token.display();
            io::Error::other(format!("the token in {path} cannot be used: {why}"))
        };
        let file = open_regular(&self.token).map_err(|error| unusable(error.to_string()))?;
        if !is_closed(&file, 0o077)? {
            let why = "other users may read or change it; run chmod 600 on it";
            return Err(unusable(why.into()));
        }
        let mut token = Secret::from_reader(&mut &file, TOKEN_MAX)
            .map_err(|error| unusable(error.to_string()))?;
        token.trim_newline();
        // It goes into a line of a request.
        match !token.is_empty() && token.expose().iter().all(u8::is_ascii_graphic) {
            true => Ok(token),
            false => Err(unusable("it is not one word".into())),
        }
    }

    fn connect(&self) -> Result<SiteExchange, Failure> {
        let config = self.config()?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|_| failed("it is no name of a host"))?;
        let socket = self.socket().map_err(|error| failed(&why(&error)))?;
        let connected = || -> io::Result<SiteExchange> {
            prepare(&socket)?;
            let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
            let timed = TimedSocket::new(socket.try_clone()?, CONNECT);
            let mut tls = StreamOwned::new(connection, timed);
            while tls.conn.is_handshaking() {
                tls.conn.complete_io(&mut tls.sock)?;
            }
            Ok(SiteExchange {
                tls,
                socket: socket.try_clone()?,
                read: Vec::new(),
            })
        };
        connected().map_err(|error| failed(&why(&error)))
    }

    /// A connection to the first address of the host that answers.
    fn socket(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the host has no address");
        for address in (&*self.host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                let unusable = |why: String| {
                    let path = path.display();
                    failed(&format!("the authorities in {path} cannot be used: {why}"))
                };
                let pem = read_authorities(path).map_err(|error| unusable(error.to_string()))?;
                let all = CertificateDer::pem_slice_iter(&pem);
                for certificate in all {
                    let added = certificate.map(|it| roots.add(it));
                    if !matches!(added, Ok(Ok(()))) {
                        return Err(unusable("a block of it is no certificate".into()));
                    }
                }
                if roots.is_empty() {
                    return Err(unusable("there is no certificate in PEM form".into()));
                }
            }
            None => {
                let system = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(system);
                if roots.is_empty() {
                    let why = "this system trusts no certificates; install ca-certificates, or name a file with --ca";
                    return Err(failed(why));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| failed(&error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn explained(done: io::Result<Result<Vec<u8>, Failure>>) -> Result<Vec<u8>, Failure> {
    match done {
        Ok(told) => told,
        Err(error) => Err(failed(&why(&error))),
    }
}

/// The failure of a request. The caller knows the host.
fn failed(why: &str) -> Failure {
    Failure::new(FailureKind::Other, why)
}

/// Sends at once, and ends a connection whose other host has gone.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBE)?;
    sockopt::set_tcp_keepintvl(socket, PROBE)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(socket, silence)?)
}

/// Opens a regular file, without waiting for anything else.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// Returns whether a file is of root or the user of this process, and has none of these bits of its mode.
fn is_closed(file: &File, bits: u32) -> io::Result<bool> {
    let stat = rustix::fs::fstat(file)?;
    let own = rustix::process::geteuid().as_raw();
    Ok(stat.st_mode & bits == 0 && [0, own].contains(&stat.st_uid))
}

/// Reads a file with authorities. Another user who changes it could pass as the host.
fn read_authorities(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    if !is_closed(&file, 0o022)? {
        let why = "other users may change it; run chmod 644 on it, as its owner or root";
        return Err(io::Error::other(why));
    }
    let mut bytes = Vec::new();
    file.take(AUTHORITIES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > AUTHORITIES_MAX {
        false => Ok(bytes),
        true => Err(io::Error::other(format!(
            "it is longer than {AUTHORITIES_MAX} bytes"
        ))),
    }
}

/// The reason of a failed connection, for people.
fn why(error: &io::Error) -> String {
    let cause = error.get_ref();
    let tls = cause.and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(reason)) => format!(
            "its certificate is not trusted ({reason:?}); name the file of its authority with --ca"
        ),
        Some(error) => format!("TLS failed: {error}"),
        None if matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ) =>
        {
            "it does not answer in time".into()
        }
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection ended before the answer".into()
        }
        None => format!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn authorities_that_others_may_change_and_long_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authorities.pem");
        let len = usize::try_from(AUTHORITIES_MAX).unwrap();
        let read = |mode, len: usize| {
            std::fs::write(&path, vec![b'x'; len]).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_authorities(&path).map(|bytes| bytes.len())
        };
        assert_eq!(read(0o644, len).unwrap(), len);
        let long = read(0o644, len + 1).unwrap_err().to_string();
        assert!(long.contains("longer than"), "{long}");
        for mode in [0o664, 0o646] {
            let open = read(mode, 1).unwrap_err().to_string();
            assert!(open.contains("other users may change it"), "{open}");
        }
    }
}
