//! The addresses of exports. Exports with the same address share one server.

use std::ffi::OsString;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nbd::{KernelDevice, Listener, Tls};
use protocol::api::FailureKind;
use protocol::nbd_uri::percent;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use ublk::UblkDevice;

use crate::failure::{Failure, Result};
use crate::host::listen::{SocketFile, bind};
use crate::state::exports::servers::{ExportServer, ServerExports};

/// The place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ListenAddress {
    /// A socket in the file system, for root and the daemon's user.
    Unix(PathBuf),
    /// `HOST:PORT`, for clients with a certificate.
    Tcp(String),
    /// `ADDRESS:PORT`, a portal of iSCSI.
    Iscsi(String),
    /// `/dev/nbdN` of this kernel. Its number is known once it is attached.
    Kernel(Option<u32>),
    /// `/dev/ublkbN` of this kernel. Its number is known once it is attached.
    Ublk(Option<u32>),
}

/// The protocol at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Nbd,
    Iscsi,
    /// NBD with the kernel of this machine.
    Kernel,
    /// The driver ublk of this machine.
    Ublk,
}

impl Protocol {
    /// The command that exports by this protocol.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Protocol::Nbd | Protocol::Kernel => "nbd",
            Protocol::Iscsi => "iscsi",
            Protocol::Ublk => "ublk",
        }
    }

    /// The command that withdraws an export.
    pub(crate) fn taking_back(self, name: &str) -> String {
        match self {
            Protocol::Nbd | Protocol::Iscsi => {
                format!("strongroom {} unexport {name}", self.command())
            }
            Protocol::Kernel | Protocol::Ublk => {
                format!("strongroom {} detach {name}", self.command())
            }
        }
    }
}

struct OpenSocket {
    listener: Listener,
    /// The socket's file.
    bound: Option<SocketFile>,
}

impl ListenAddress {
    /// `unix:PATH`, or `HOST:PORT`.
    pub(crate) fn parse(text: &str) -> Result<ListenAddress> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(ListenAddress::Unix(path.into())),
            None if is_host_and_port(text) => Ok(ListenAddress::Tcp(text.into())),
            _ => Err(Failure::usage(format!(
                "'{text}' is not an address to listen at; write unix:PATH or HOST:PORT, as in 0.0.0.0:10809"
            ))),
        }
    }

    /// `ADDRESS:PORT` of a portal.
    pub(crate) fn portal(text: &str) -> Result<ListenAddress> {
        match text.parse::<SocketAddr>() {
            Ok(address) => Ok(ListenAddress::Iscsi(address.to_string())),
            Err(_) => Err(Failure::usage(format!(
                "'{text}' is not the address of a portal; write ADDRESS:PORT, as in 192.0.2.1:3260 or [::]:3260"
            ))),
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            ListenAddress::Unix(_) | ListenAddress::Tcp(_) => Protocol::Nbd,
            ListenAddress::Iscsi(_) => Protocol::Iscsi,
            ListenAddress::Kernel(_) => Protocol::Kernel,
            ListenAddress::Ublk(_) => Protocol::Ublk,
        }
    }

    /// Starts a server there. Returns its list of offers.
    pub(crate) fn serve(
        &self,
        certificates: Option<&Path>,
    ) -> Result<(ServerExports, ExportServer)> {
        if let ListenAddress::Iscsi(address) = self {
            let targets = Arc::new(iscsi::Targets::default());
            let listener = listen_at(address)?;
            let server = iscsi::PortalServer::start(listener, Arc::clone(&targets))?;
            return Ok((ServerExports::Iscsi(targets), ExportServer::Iscsi(server)));
        }
        let open = self.open(certificates)?;
        let exports = Arc::new(nbd::Exports::default());
        let server = nbd::ExportService::start(open.listener, Arc::clone(&exports))?;
        Ok((
            ServerExports::Nbd(exports),
            ExportServer::Nbd(server, open.bound),
        ))
    }

    /// Listens there, for NBD.
    fn open(&self, certificates: Option<&Path>) -> Result<OpenSocket> {
        match self {
            ListenAddress::Kernel(_) | ListenAddress::Ublk(_) => {
                Err(Failure::other("the kernel is no server"))
            }
            ListenAddress::Unix(path) => {
                check_replaceable(path)?;
                let listener = bind(path)?;
                let bound = Some(SocketFile::new(path.clone()));
                let listener = Listener::Unix(listener);
                Ok(OpenSocket { listener, bound })
            }
            ListenAddress::Tcp(address) | ListenAddress::Iscsi(address) => {
                let tls = Tls::from_dir(certificates.ok_or_else(|| {
                    Failure::usage(
                        "over TCP every host could use an export: give certificates, by which clients are \
                         known (--tls-certificates), or listen at a unix socket",
                    )
                })?)?;
                let listener = Listener::Tcp(listen_at(address)?, tls);
                let bound = None;
                Ok(OpenSocket { listener, bound })
            }
        }
    }

    /// The address of an export there, for clients.
    pub(crate) fn uri(&self, export: &str) -> String {
        let export = percent(export.as_bytes());
        match self {
            ListenAddress::Unix(path) => {
                let path = percent(path.as_os_str().as_encoded_bytes());
                format!("nbd+unix:///{export}?socket={path}")
            }
            ListenAddress::Tcp(address) => format!("nbds://{address}/{export}"),
            ListenAddress::Iscsi(address) => format!("iscsi://{address}/{export}/0"),
            ListenAddress::Kernel(_) | ListenAddress::Ublk(_) => self.to_string(),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ListenAddress::Tcp(address) | ListenAddress::Iscsi(address) => f.write_str(address),
            ListenAddress::Kernel(Some(index)) => {
                write!(f, "{}", KernelDevice(*index).path().display())
            }
            ListenAddress::Ublk(Some(index)) => {
                write!(f, "{}", UblkDevice(*index).path().display())
            }
            ListenAddress::Kernel(None) | ListenAddress::Ublk(None) => f.write_str("the kernel"),
        }
    }
}

impl ListenAddress {
    /// Tries whether a portal can be served here, and serves nothing.
    ///
    /// # Errors
    /// If this machine does not have the address, or another program uses the port.
    pub(crate) fn try_portal(&self) -> Result<()> {
        match self {
            ListenAddress::Iscsi(address) => listen_at(address).map(drop),
            ListenAddress::Unix(_)
            | ListenAddress::Tcp(_)
            | ListenAddress::Kernel(_)
            | ListenAddress::Ublk(_) => Ok(()),
        }
    }
}

fn listen_at(address: &str) -> Result<TcpListener> {
    let bound = TcpListener::bind(address).or_else(|error| {
        // All addresses of a host without IPv6 are those of IPv4.
        let port = address.strip_prefix("[::]:");
        let has_no_ipv6 = error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error());
        match port.filter(|_| has_no_ipv6) {
            Some(port) => TcpListener::bind(format!("0.0.0.0:{port}")),
            None => Err(error),
        }
    });
    bound.map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::AddrInUse => FailureKind::Busy,
            std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
            _ => FailureKind::Other,
        };
        Failure::new(kind, format!("cannot listen at {address}: {error}"))
    })
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Refuses to replace anything except a socket without a listener.
fn check_replaceable(path: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let exists = |what: &str| {
        Err(Failure::new(
            FailureKind::Exists,
            format!("{} is {what}; listen at another path", path.display()),
        ))
    };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => exists("there, and no socket"),
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            exists("a socket at which another program listens")
        }
        _ => Ok(()),
    }
}

/// The default socket of exports: `nbd.sock` beside `socket`. If the socket for commands has an unusual name, the name
/// of this socket contains it, because one directory can have several.
pub(crate) fn default_socket(socket: &Path) -> PathBuf {
    let name = socket.file_name().unwrap_or_default();
    let mut nbd = OsString::new();
    if name != "socket" {
        nbd.push(name);
        nbd.push(".");
    }
    nbd.push("nbd.sock");
    socket.with_file_name(nbd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_sockets_or_addresses() {
        let unix = ListenAddress::parse("unix:/run/a b").unwrap();
        assert_eq!(unix, ListenAddress::Unix("/run/a b".into()));
        assert_eq!(
            unix.uri("tank/vol"),
            "nbd+unix:///tank/vol?socket=/run/a%20b"
        );
        let tcp = ListenAddress::parse("[::1]:10809").unwrap();
        assert_eq!(tcp.uri("x"), "nbds://[::1]:10809/x");
        for wrong in ["unix:a", "unix:", "host", "host:", ":1", "host:70000", ""] {
            assert!(ListenAddress::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_socket_takes_the_place_of_a_dead_one_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let place = ListenAddress::Unix(path.clone());
        std::fs::write(&path, "precious").unwrap();
        let refused = place.open(None).err().unwrap();
        assert_eq!(refused.kind, FailureKind::Exists);
        std::fs::remove_file(&path).unwrap();
        let first = place.open(None).unwrap();
        assert!(place.open(None).is_err(), "another server listens");
        drop(first);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        place.open(None).unwrap();
    }

    #[test]
    fn tcp_takes_certificates() {
        let place = ListenAddress::Tcp("127.0.0.1:0".into());
        assert_eq!(place.open(None).err().unwrap().kind, FailureKind::Usage);
    }
}
