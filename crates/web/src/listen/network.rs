//! Connections of the network, each on a thread.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock};

use admission::{ClientSource, Permit, StopSignal};
use rustix::event::PollFlags;
use rustix::net::Shutdown;
use rustls::ServerConfig;

use super::threaded_site::{GREETING, ThreadedSite};
use crate::http::TimedSocket;
use crate::serve::SiteContext;
use crate::tls;

/// The state that all connections share.
struct NetworkState {
    /// The configuration with the newest certificate.
    config: RwLock<Arc<ServerConfig>>,
    site: ThreadedSite,
}

/// Serves connections. `renewed` waits for the next certificate.
pub(super) fn serve(
    listener: &TcpListener,
    config: Arc<ServerConfig>,
    site: SiteContext,
    mut renewed: impl FnMut() -> Option<Arc<ServerConfig>> + Send + 'static,
) -> io::Result<()> {
    let shared = Arc::new(NetworkState {
        config: RwLock::new(config),
        site: ThreadedSite::new(site),
    });
    let with_config = Arc::clone(&shared);
    let renew = move || {
        while let Some(config) = renewed() {
            let place = with_config.config.write();
            *place.unwrap_or_else(PoisonError::into_inner) = config;
        }
    };
    threads::start("web-config", renew)?;
    let stop = StopSignal::new()?;
    let failed =
        |error: &io::Error| eprintln!("strongroom: a connection could not be accepted: {error}");
    admission::attend(listener, &stop, failed, |stream, source| {
        if let Err(error) = begin(stream, source, &shared) {
            failed(&error);
        }
    });
    Ok(())
}

fn begin(stream: TcpStream, source: ClientSource, shared: &Arc<NetworkState>) -> io::Result<()> {
    let client = Arc::new(stream.as_fd().try_clone_to_owned()?);
    let cut = {
        let client = Arc::clone(&client);
        move || {
            let _ = rustix::net::shutdown(&client, Shutdown::Both);
        }
    };
    let permit = shared.site.connections.greet(source.clone(), cut);
    let shared = Arc::clone(shared);
    let serve = move || {
        // A client that goes away, or speaks no TLS, is no failure.
        let _ = one(stream, client, source, &permit, &shared);
    };
    threads::start("web", serve).map(|_| ())
}

fn one(
    stream: TcpStream,
    client: Arc<OwnedFd>,
    source: ClientSource,
    permit: &Permit,
    shared: &NetworkState,
) -> io::Result<()> {
    let config = shared.config.read();
    let config = Arc::clone(&config.unwrap_or_else(PoisonError::into_inner));
    let mut stream = tls::begin(TimedSocket::new(stream, GREETING), config)?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    // TLS has no half that is closed.
    let client = (client, PollFlags::RDHUP);
    let result = shared.site.serve(&mut stream, source, client, permit);
    stream.conn.send_close_notify();
    result.and(stream.flush())
}
