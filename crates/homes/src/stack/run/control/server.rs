//! The side of the process that serves a mount.

use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use console::outcome::Result;
use daemon::{SocketFile, listen_privately};
use keys::TimedStream;
use protocol::api::{Failure, FailureKind};
use protocol::wire;
use secret::Secret;

use super::messages::{
    ControlAnswer, DIRECTORY, KEY_MAX, PATIENCE, REQUEST_MAX, Request, socket_name,
};

/// The time that to wait for a descriptor, if there is none for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An owner of keys that can be added and removed.
pub(crate) trait KeyOwner: Send + 'static {
    /// Does what is asked.
    fn control(&self, request: Request, secret: Option<Secret>) -> Result<ControlAnswer>;
}

/// A socket that is listened at. It goes with this.
#[derive(Debug)]
pub(crate) struct Control {
    _socket: SocketFile,
}

impl Control {
    /// Begins to listen, for the mount on this device.
    pub(crate) fn start(device: u32, controlled: impl KeyOwner) -> Result<Control> {
        let dir = protocol::client::runtime_dir().join(DIRECTORY);
        let (listener, socket) = listen_privately(&dir.join(socket_name(device)))?;
        // It ends with the process.
        threads::start("control", move || listen(&listener, &controlled))
            .map_err(|error| Failure::other(format!("a thread cannot be started: {error}")))?;
        Ok(Control { _socket: socket })
    }
}

fn listen(listener: &UnixListener, controlled: &impl KeyOwner) {
    for stream in listener.incoming() {
        match stream {
            // A client that is gone hears nothing.
            Ok(stream) => drop(serve(stream, controlled)),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn serve(stream: UnixStream, controlled: &impl KeyOwner) -> std::io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    let mut talk = TimedStream {
        stream,
        until: Instant::now() + PATIENCE,
    };
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        let why = "only root and the user who mounted it change its keys";
        let refused = Failure::new(FailureKind::Permission, why);
        return wire::send(&mut talk, &ControlAnswer::Failed(refused));
    }
    wire::send(&mut talk, &ControlAnswer::Done)?;
    let request: Request = wire::receive_up_to(&mut talk, REQUEST_MAX)?;
    let secret = match request.has_secret() {
        true => wire::receive_secret(&mut talk, KEY_MAX)?,
        false => None,
    };
    let answer = controlled.control(request, secret);
    // Writing back what programs have written takes its time.
    talk.until = Instant::now() + PATIENCE;
    wire::send(&mut talk, &answer.unwrap_or_else(ControlAnswer::Failed))
}
