//! A page on the loopback interface for one user, which a link opens.
//!
//! Every user of the machine can reach the port. The kernel tells the user of each connection, and one of another user is
//! closed before a byte of it is read.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use admission::{ClientSource, StopSignal};
use protocol::api::Failure;
use rustix::event::PollFlags;
use rustix::net::Shutdown;

use super::descriptors;
use super::peer_user::peer_user;
use super::threaded_site::{GREETING, ThreadedSite};
use crate::door::SiteDoor;
use crate::guard::SiteNames;
use crate::http::TimedSocket;
use crate::link::{LinkEnd, LinkLogin};
use crate::memory::RequestMemory;
use crate::serve::SiteContext;

/// Serves a page with the rights of this process, until its session ends. `users` may connect. `ready` is told the link.
///
/// # Errors
/// There is no port, or the link was not opened in time.
pub fn serve_link(daemon: &Path, users: Vec<u32>, ready: impl FnOnce(&str)) -> Result<(), Failure> {
    secret::harden_process()?;
    descriptors::keep().map_err(cannot)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let made = LinkLogin::new(port);
    let (link, code) = made.map_err(|_| cannot("there are no random numbers"))?;
    let link = Arc::new(link);
    let site = Arc::new(ThreadedSite::new(SiteContext {
        names: SiteNames::local(),
        socket: daemon.to_owned(),
        door: SiteDoor::Link(Arc::clone(&link)),
        memory: RequestMemory::of_all(),
    }));
    let stop = Arc::new(StopSignal::new().map_err(cannot)?);
    let end = {
        let stop = Arc::clone(&stop);
        move || stop.tell(link.wait() as u8)
    };
    threads::start("web-link", end).map_err(cannot)?;
    ready(&format!("http://127.0.0.1:{port}/#open={code}"));
    let why = admission::attend(&listener, &stop, failed, |stream, _| {
        if let Err(error) = begin(stream, &users, &site) {
            failed(&error);
        }
    });
    match why == LinkEnd::Used as u8 {
        true => Ok(()),
        false => Err(Failure::other(
            "the link was not opened in 60 seconds; run 'strongroom web open' again",
        )),
    }
}

fn begin(stream: TcpStream, users: &[u32], site: &Arc<ThreadedSite>) -> io::Result<()> {
    let Some(user) = peer_user(&stream)?.filter(|user| users.contains(user)) else {
        return Ok(());
    };
    let source = ClientSource::user(user);
    let client = Arc::new(stream.as_fd().try_clone_to_owned()?);
    let cut = {
        let client = Arc::clone(&client);
        move || {
            let _ = rustix::net::shutdown(&client, Shutdown::Both);
        }
    };
    let permit = site.connections.greet(source.clone(), cut);
    let site = Arc::clone(site);
    let serve = move || {
        let mut stream = TimedSocket::new(stream, GREETING);
        // A client that goes away is no failure. A program that has sent all may close its half.
        let _ = site.serve(&mut stream, source, (client, PollFlags::HUP), &permit);
    };
    threads::start("web", serve).map(|_| ())
}

fn failed(error: &io::Error) {
    eprintln!("strongroom: a connection could not be accepted: {error}");
}

fn cannot(why: impl std::fmt::Display) -> Failure {
    Failure::other(format!("the page cannot be served: {why}"))
}
