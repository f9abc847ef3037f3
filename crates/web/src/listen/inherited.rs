//! The processes that serve: what they have from the one that started them.

use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use protocol::api::Failure;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::network;
use crate::guard::Names;
use crate::http::Timed;
use crate::serve::{Site, Visitor, connection};
use crate::tls::Identity;

/// A connection at the unix socket is kept so long without a request.
const IDLE: Duration = Duration::from_secs(60);

/// What the process for the network gets from the one that started it.
#[derive(Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) identity: Identity,
    pub(super) names: Vec<String>,
}

/// Serves the connection that is the standard input, for the user of this process.
///
/// # Errors
/// The standard input is no connection.
pub fn serve_connection(daemon: &Path, parent: u32) -> Result<(), Failure> {
    begin(parent)?;
    let stream = UnixStream::from(inherited(io::stdin())?);
    let site = Site {
        names: Names::local(),
        socket: daemon.to_owned(),
        logins: None,
    };
    let from = Visitor {
        address: None,
        idle: &|| IDLE,
        // The number of processes of each user is limited.
        begin_stream: &|| Some(Box::new(())),
    };
    let mut stream = Timed::new(stream, IDLE);
    // A client that goes away is no failure.
    let _ = connection(&mut stream, &site, &from);
    Ok(())
}

/// Serves the listener that is the standard input, with what comes over the standard output.
///
/// # Errors
/// These are not what they should be.
pub fn serve_network(daemon: &Path, parent: u32) -> Result<(), Failure> {
    begin(parent)?;
    let listener = TcpListener::from(inherited(io::stdin())?);
    let mut text = String::new();
    let mut settings = UnixStream::from(inherited(io::stdout())?);
    let read = settings.read_to_string(&mut text);
    read.map_err(|error| Failure::other(error.to_string()))?;
    let settings: Settings =
        serde_json::from_str(&text).map_err(|error| Failure::other(error.to_string()))?;
    let config = settings.identity.config().map_err(Failure::other)?;
    let random = config.crypto_provider().secure_random;
    let site = Site {
        names: Names::of(settings.names),
        socket: daemon.to_owned(),
        logins: Some(crate::session::Logins::new(random)),
    };
    network::serve(&listener, &config, site);
    Ok(())
}

/// Keeps the memory of this process from others, and ends it with the process that started it.
fn begin(parent: u32) -> Result<(), Failure> {
    secret::harden_process()?;
    let failed = |error: rustix::io::Errno| Failure::other(error.to_string());
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    match getppid() == parent {
        true => Ok(()),
        false => Err(Failure::usage(
            "'web serve' is started by 'strongroom web' only",
        )),
    }
}

fn inherited(of: impl AsFd) -> Result<OwnedFd, Failure> {
    let copy = of.as_fd().try_clone_to_owned();
    copy.map_err(|error| Failure::other(error.to_string()))
}
