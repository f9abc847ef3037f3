//! A socket to a server.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_keepalive, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::remote::Address;

/// The number of addresses of a host that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects before `end`.
pub(super) fn connect(address: &Address, end: Instant) -> io::Result<OwnedFd> {
    match address {
        Address::Tcp(host, port) => connect_tcp(host, *port, end),
        Address::Unix(path) => connect_unix(path, end),
    }
}

/// Returns the time that is left.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn connect_tcp(host: &str, port: u16, end: Instant) -> io::Result<OwnedFd> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in look_up(host, port, end)?.iter().take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(address, left(end)?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                // A host that vanished is noticed while nothing is asked of it.
                set_socket_keepalive(&stream, true)?;
                return Ok(stream.into());
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The addresses of a host. The look-up of the system has no time limit, so another thread waits for it.
fn look_up(host: &str, port: u16, end: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    threads::start("nbd-look-up", move || {
        let found = (&host[..], port).to_socket_addrs();
        let _ = sender.send(found.map(Iterator::collect));
    })?;
    let found = receiver.recv_timeout(left(end)?);
    found.unwrap_or_else(|_| {
        let reason = "the look-up of the host took too long";
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    })
}

fn connect_unix(path: &Path, end: Instant) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketType::STREAM;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // A server that does not accept is not waited for without end.
    set_socket_timeout(&socket, Timeout::Send, Some(left(end)?))?;
    rustix::net::connect(&socket, &address).map_err(|errno| match errno {
        rustix::io::Errno::AGAIN => io::Error::from(io::ErrorKind::TimedOut),
        errno => errno.into(),
    })?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}
