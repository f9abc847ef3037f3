//! Connections of the network, each on a thread.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use admission::{ClientSource, ConnectionPlaces, Permit, PlaceLimit, PlaceLimits, StopSignal};
use protocol::api::CallerReport;
use rustix::event::PollFlags;
use rustix::net::Shutdown;
use rustls::ServerConfig;

use crate::api::{ApiCaller, STREAM_COST, own_name};
use crate::http::{Problem, TimedSocket};
use crate::serve::{SiteContext, Visitor, connection};
use crate::tls;

/// Connections at a time that have shown no token.
const STRANGERS: PlaceLimit = PlaceLimit {
    all: 128,
    site: 64,
    each: 32,
};
/// Connections at a time whose callers the daemon knows, and as many more of root.
const MEMBERS: PlaceLimit = PlaceLimit {
    all: 256,
    site: 32,
    each: 32,
};
/// Streams of events at a time, and of data: as many more of root.
const STREAMS: PlaceLimit = PlaceLimit {
    all: 64,
    site: 8,
    each: 8,
};
/// The time for the handshake, and to show a token.
const GREETING: Duration = Duration::from_secs(10);
/// A connection whose caller is known is kept so long without a request.
const IDLE: Duration = Duration::from_secs(60);

/// The state that all connections share.
struct NetworkState {
    /// The configuration with the newest certificate.
    config: RwLock<Arc<ServerConfig>>,
    site: SiteContext,
    connections: Arc<ConnectionPlaces>,
    streams: Arc<ConnectionPlaces>,
    transfers: Arc<ConnectionPlaces>,
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
        site,
        connections: places(MEMBERS),
        streams: places(STREAMS),
        transfers: places(STREAMS),
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

fn places(members: PlaceLimit) -> Arc<ConnectionPlaces> {
    ConnectionPlaces::new(PlaceLimits {
        strangers: STRANGERS,
        members,
        reserved: members.all,
    })
}

fn begin(stream: TcpStream, source: ClientSource, shared: &Arc<NetworkState>) -> io::Result<()> {
    let client = Arc::new(stream.as_fd().try_clone_to_owned()?);
    let cut = {
        let client = Arc::clone(&client);
        move || {
            let _ = rustix::net::shutdown(&client, Shutdown::Both);
        }
    };
    let permit = shared.connections.greet(source.clone(), cut);
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
    let from = Visitor {
        source: Some(source),
        // TLS has no half that is closed.
        client: (client, PollFlags::RDHUP),
        idle: &|| match permit.is_member() {
            true => IDLE,
            false => GREETING,
        },
        // Without a place the client is served, and gives way to others.
        admit: &|report| {
            let _ = permit.admit_as(source_of(report));
        },
        begin_stream: &|caller| Ok(Box::new(stream_place(&shared.streams, caller)?)),
        begin_transfer: &|caller| {
            let place = stream_place(&shared.transfers, caller)?;
            Ok(Box::new((place, caller.reserve(STREAM_COST)?)))
        },
    };
    let result = connection(&mut stream, &shared.site, &from);
    stream.conn.send_close_notify();
    result.and(stream.flush())
}

/// A place for one more stream of a caller.
fn stream_place(places: &Arc<ConnectionPlaces>, caller: &ApiCaller) -> Result<Permit, Problem> {
    let place = places.enter(source_of(caller.known()?), || {});
    place.map_err(|_| Problem::TooMany("too many streams are open".into(), 10))
}

/// A caller, as the one that its places are counted for.
fn source_of(report: &CallerReport) -> ClientSource {
    let source = match (&report.zone, own_name(report)) {
        (Some(zone), _) => ClientSource::tenant(report.uid, zone),
        (None, Some(name)) => ClientSource::tenant(report.uid, &name),
        (None, None) => ClientSource::user(report.uid),
    };
    source.reserved(report.admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_root_for_a_dataset_takes_no_places_of_others() {
        let report = |token: Option<&str>, apart| CallerReport {
            user: "root".into(),
            uid: 0,
            admin: false,
            zone: None,
            token: token.map(str::to_owned),
            expires: None,
            apart,
        };
        let source = |token, apart| source_of(&report(token, apart));
        assert_ne!(source(Some("1a"), true), source(Some("2b"), true));
        assert_ne!(source(Some("1a"), true), source(None, false));
        assert_eq!(source(Some("1a"), false), source(Some("2b"), false));
    }
}
