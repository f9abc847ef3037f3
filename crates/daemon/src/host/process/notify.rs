//! Reports the state of the daemon to a service manager: the needed part of sd_notify(3).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The daemon has imported its pools and mounted its datasets, and accepts commands.
pub(crate) const READY: &str = "READY=1\n";
/// The daemon is about to end.
pub(crate) const STOPPING: &str = "STOPPING=1\n";

/// Sends a state to the service manager, if one started this process.
pub(crate) fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(
            %error, socket = %socket.display(),
            "the service manager cannot be notified; it may think that the daemon hangs"
        );
    }
}

fn send(socket: &OsStr, state: &str) -> std::io::Result<()> {
    // A name that begins with @ is not in the file system.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("strongroom-test-{}", std::process::id());
        let in_files = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstracted = UnixDatagram::bind_addr(&address).unwrap();
        send(path.as_os_str(), READY).unwrap();
        send(format!("@{name}").as_ref(), STOPPING).unwrap();
        for (socket, expected) in [(in_files, READY), (abstracted, STOPPING)] {
            let mut buf = [0; 64];
            let len = socket.recv(&mut buf).unwrap();
            assert_eq!(&buf[..len], expected.as_bytes());
        }
        assert!(send(dir.path().join("nobody").as_os_str(), READY).is_err());
    }
}
