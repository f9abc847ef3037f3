//! The lock of a pool: it has one owner on this host, whatever the paths of its devices are.
//!
//! The locks of devices do not tell that two loop devices lie in one file, or that two connections reach one export. So a
//! daemon that imports or makes a pool first binds an abstract socket with the guid of the pool. The kernel releases it
//! when the process ends. It needs no rights and no directory. Each network namespace has such names of its own: between
//! containers the other checks of an import remain.

use std::os::fd::OwnedFd;

use protocol::api::FailureKind;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::failure::{Failure, Result};

/// The largest number of connections that wait at the socket of the owner.
const ASKERS_MAX: i32 = 4096;

/// The lock of a pool on this host. It is held until this is dropped.
#[derive(Debug)]
pub(crate) struct PoolLock {
    _socket: Option<OwnedFd>,
}

impl PoolLock {
    /// Takes the lock of the pool with this guid.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if a process has it; the failure of the system.
    pub(crate) fn take(pool: &str, guid: u64) -> Result<PoolLock> {
        let socket = new_socket().map_err(|errno| unknown(pool, errno))?;
        match bind(&socket, &address(guid)?) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Err(busy(pool, guid)),
            Err(errno) => return Err(unknown(pool, errno)),
        }
        // Others connect to learn who has it. Nothing is accepted, so only the first ones do.
        listen(&socket, ASKERS_MAX).map_err(|errno| unknown(pool, errno))?;
        Ok(PoolLock {
            _socket: Some(socket),
        })
    }

    /// Fails if a process has the lock of the pool with this guid.
    ///
    /// # Errors
    /// As [`PoolLock::take`].
    pub(crate) fn check(pool: &str, guid: u64) -> Result<()> {
        let socket = new_socket().map_err(|errno| unknown(pool, errno))?;
        match connect(&socket, &address(guid)?) {
            Err(Errno::CONNREFUSED) => Ok(()),
            // Also if too many have asked.
            _ => Err(busy(pool, guid)),
        }
    }

    /// No lock, for a pool that is only read.
    pub(crate) fn none() -> PoolLock {
        PoolLock { _socket: None }
    }
}

fn new_socket() -> rustix::io::Result<OwnedFd> {
    // A connection does not wait for the owner.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn address(guid: u64) -> Result<SocketAddrUnix> {
    let name = format!("strongroom/pool/{guid:016x}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(|errno| unknown(&name, errno))
}

fn unknown(pool: &str, errno: Errno) -> Failure {
    Failure::new(
        FailureKind::Other,
        format!("cannot lock the pool '{pool}' on this machine: {errno}"),
    )
}

/// The failure of a command whose pool another process has.
fn busy(pool: &str, guid: u64) -> Failure {
    let holder = holder(guid).unwrap_or_else(|| "another process".into());
    Failure::new(
        FailureKind::Busy,
        format!(
            "{holder} of this machine has the pool '{pool}' imported, perhaps through other paths of the same devices. \
             Export the pool there, or end that process; -f does not override this"
        ),
    )
}

/// The process that has the lock of a pool.
fn holder(guid: u64) -> Option<String> {
    let socket = new_socket().ok()?;
    connect(&socket, &address(guid).ok()?).ok()?;
    let peer = socket_peercred(&socket).ok()?;
    let pid = peer.pid.as_raw_nonzero();
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let name = name.map_or_else(String::new, |name| format!(", {}", name.trim_end()));
    Some(format!("process {pid} (user {}{name})", peer.uid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_one_owner_until_that_lets_it_go() {
        let guid = crate::host::process::system::new_guid();
        let held = PoolLock::take("tank", guid).unwrap();
        let refused = PoolLock::take("tank", guid).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Busy);
        let own = format!("process {} (user ", std::process::id());
        assert!(refused.message.starts_with(&own), "{}", refused.message);
        // Those who ask fill the queue of the socket; it stays an owner.
        for _ in 0..10 {
            PoolLock::take("tank", guid).unwrap_err();
        }
        PoolLock::take("other", guid ^ 1).unwrap();
        PoolLock::check("tank", guid).unwrap_err();
        drop(held);
        PoolLock::check("tank", guid).unwrap();
        PoolLock::take("tank", guid).unwrap();
    }
}
