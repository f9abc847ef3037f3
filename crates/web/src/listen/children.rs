//! The processes that serve: the descriptors and settings that they inherit.

use std::cell::Cell;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::api::Failure;
use rustix::event::PollFlags;
use rustix::process::{Gid, Pid, Signal, Uid, getppid, set_parent_process_death_signal, setsid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::network;
use super::processes::{BEGUN, KNOWN};
use super::settings::{self, NetworkSettings};
use crate::door::SiteDoor;
use crate::guard::SiteNames;
use crate::http::TimedSocket;
use crate::memory::RequestMemory;
use crate::serve::{SiteContext, Visitor, connection};
use crate::session::SiteLogins;
use crate::tls::TlsIdentity;

/// A connection at the unix socket is kept so long without a request, or only so long if the daemon does not know its
/// user.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_OF_STRANGER: Duration = Duration::from_secs(10);

/// Serves the connection that is the standard input, for the user of this process. The standard output is the file that
/// the processes of the user lock in turn.
///
/// # Errors
/// The standard input is no connection.
pub fn serve_connection(daemon: &Path, parent: u32) -> Result<(), Failure> {
    begin()?;
    // From here on the user may stop it.
    say(BEGUN);
    let stream = UnixStream::from(inherited(io::stdin())?);
    let peer = rustix::net::sockopt::socket_peercred(&stream).map_err(failed)?;
    become_user(peer.uid, peer.gid)?;
    end_with(parent)?;
    let is_known = Cell::new(false);
    let site = SiteContext {
        names: SiteNames::local(),
        socket: daemon.to_owned(),
        door: SiteDoor::Socket,
        memory: RequestMemory::of_one(inherited(io::stdout())?),
    };
    let from = Visitor {
        source: None,
        // A program that has sent all may close its half.
        client: (Arc::new(inherited(&stream)?), PollFlags::HUP),
        idle: &|| match is_known.get() {
            true => IDLE,
            false => IDLE_OF_STRANGER,
        },
        admit: &|_| {
            if !is_known.replace(true) {
                say(KNOWN);
            }
        },
        // The number of processes of each user is limited.
        begin_stream: &|_| Ok(Box::new(())),
        begin_transfer: &|caller| {
            caller.known()?;
            Ok(Box::new(()))
        },
    };
    let mut stream = TimedSocket::new(stream, IDLE);
    // A client that goes away is no failure.
    let _ = connection(&mut stream, &site, &from);
    Ok(())
}

/// Tells the first process how this one is.
fn say(mark: u8) {
    // Without it this process ends.
    let _ = io::stderr().write_all(&[mark]);
}

/// Serves the listener that is the standard input, with what comes over the standard output.
///
/// # Errors
/// These are not what they should be.
pub fn serve_network(daemon: &Path, parent: u32) -> Result<(), Failure> {
    begin()?;
    let listener = TcpListener::from(inherited(io::stdin())?);
    let mut channel = UnixStream::from(inherited(io::stdout())?);
    let settings: NetworkSettings = settings::receive(&mut channel).map_err(failed)?;
    if let Some((uid, gid)) = settings.account {
        become_user(Uid::from_raw(uid), Gid::from_raw(gid))?;
    }
    end_with(parent)?;
    let config = settings.identity.config().map_err(Failure::other)?;
    let site = SiteContext {
        names: SiteNames::of(settings.names),
        socket: daemon.to_owned(),
        door: SiteDoor::Network(SiteLogins::new()),
        memory: RequestMemory::of_all(),
    };
    // Nothing but a wrong message ends this: without its parent this process ends.
    let renewed = move || {
        settings::receive::<TlsIdentity>(&mut channel)
            .ok()?
            .config()
            .ok()
    };
    network::serve(&listener, config, site, renewed).map_err(failed)
}

/// Keeps this process from others, and from the terminal of the one that started it.
///
/// A program is open to its user as it starts. So it starts as the user of the first process, and takes the rights of
/// another one only after this.
fn begin() -> Result<(), Failure> {
    secret::harden_process()?;
    setsid().map(drop).map_err(|_| not_ours())
}

/// Takes the rights of a user, and of no group besides, if this process is root's. Else it has those of its own user.
fn become_user(uid: Uid, gid: Gid) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // The calls below change one thread.
    let threads = std::fs::read_dir("/proc/self/task").map_err(failed)?;
    if threads.count() != 1 {
        return Err(failed("it has several threads already"));
    }
    set_thread_groups(&[]).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    // A change of the user opens the memory again where `fs.suid_dumpable` is 1. Until it is closed again, two of the
    // uids are root's, so that the user may not look.
    set_thread_res_uid(Uid::ROOT, uid, Uid::ROOT).map_err(failed)?;
    secret::harden_process()?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)
}

/// Ends this process with the one that started it. A change of the user would undo it.
fn end_with(parent: u32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    match getppid() == parent {
        true => Ok(()),
        false => Err(not_ours()),
    }
}

fn not_ours() -> Failure {
    Failure::usage("'web serve' is started by 'strongroom web' only")
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::other(format!("a process of the site cannot start: {error}"))
}

fn inherited(of: impl AsFd) -> Result<OwnedFd, Failure> {
    of.as_fd().try_clone_to_owned().map_err(failed)
}
