//! Connections of the network, each on a thread.

use std::any::Any;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustix::event::PollFlags;
use rustls::ServerConfig;

use crate::api::STREAM_COST;
use crate::http::Timed;
use crate::memory::User;
use crate::places::{Place, Places, network};
use crate::serve::{Site, Visitor, connection};
use crate::tls;

/// Connections at a time: in all, and of each address.
const CONNECTIONS_MAX: usize = 256;
const CONNECTIONS_EACH_MAX: usize = 32;
/// Streams of events at a time: in all, and of each address.
const STREAMS_MAX: usize = 64;
const STREAMS_EACH_MAX: usize = 8;
/// Streams of data at a time: of all users but root, and of each.
const TRANSFERS_MAX: usize = 64;
const TRANSFERS_EACH_MAX: usize = 8;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);
/// The time for the handshake.
const GREETING: Duration = Duration::from_secs(10);
/// A connection is kept so long without a request, or only so long if half of all places are taken.
const IDLE: Duration = Duration::from_secs(60);
const IDLE_IN_A_CROWD: Duration = Duration::from_secs(3);

/// What all connections share.
struct Shared {
    /// Of the newest certificate.
    config: RwLock<Arc<ServerConfig>>,
    site: Site,
    connections: Arc<Places<IpAddr>>,
    streams: Arc<Places<IpAddr>>,
    transfers: Arc<Places<User>>,
    /// Others cannot lock out root.
    root_transfers: Arc<Places<User>>,
}

/// Serves connections. `renewed` waits for the next certificate.
pub(super) fn serve(
    listener: &TcpListener,
    config: Arc<ServerConfig>,
    site: Site,
    mut renewed: impl FnMut() -> Option<Arc<ServerConfig>> + Send + 'static,
) -> io::Result<()> {
    let shared = Arc::new(Shared {
        config: RwLock::new(config),
        site,
        connections: Places::new(CONNECTIONS_MAX, CONNECTIONS_EACH_MAX),
        streams: Places::new(STREAMS_MAX, STREAMS_EACH_MAX),
        transfers: Places::new(TRANSFERS_MAX, TRANSFERS_EACH_MAX),
        root_transfers: Places::new(TRANSFERS_MAX, TRANSFERS_EACH_MAX),
    });
    let with_config = Arc::clone(&shared);
    let renew = move || {
        while let Some(config) = renewed() {
            let place = with_config.config.write();
            *place.unwrap_or_else(PoisonError::into_inner) = config;
        }
    };
    std::thread::Builder::new().spawn(renew)?;
    loop {
        let accepted = listener.accept().and_then(|(stream, address)| {
            let address = network(address.ip());
            match shared.connections.take(address) {
                Some(place) => begin(stream, address, place, &shared),
                None => Ok(()),
            }
        });
        if let Err(error) = accepted {
            eprintln!("strongroom: a connection could not be accepted: {error}");
            std::thread::sleep(PAUSE);
        }
    }
}

fn begin(
    stream: TcpStream,
    address: IpAddr,
    place: Place<IpAddr>,
    shared: &Arc<Shared>,
) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("web".into());
    let serve = move || {
        // A client that goes away, or speaks no TLS, is no failure.
        let _ = one(stream, address, &shared);
        drop(place);
    };
    thread.spawn(serve).map(|_| ())
}

fn one(stream: TcpStream, address: IpAddr, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let client = Arc::new(stream.as_fd().try_clone_to_owned()?);
    let config = shared.config.read();
    let config = Arc::clone(&config.unwrap_or_else(PoisonError::into_inner));
    let mut stream = tls::begin(Timed::new(stream, GREETING), config)?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    let from = Visitor {
        address: Some(address),
        // TLS has no half that is closed.
        client: (client, PollFlags::RDHUP),
        idle: &|| match shared.connections.is_crowded() {
            true => IDLE_IN_A_CROWD,
            false => IDLE,
        },
        begin_stream: &|| {
            let place = shared.streams.take(address)?;
            Some(Box::new(place))
        },
        begin_transfer: &|caller| {
            let report = caller.known()?;
            let places = match report.admin {
                true => &shared.root_transfers,
                false => &shared.transfers,
            };
            let Some(place) = places.take((report.uid, report.zone.clone())) else {
                return Ok(None);
            };
            let share = caller.reserve(STREAM_COST)?;
            Ok(Some(Box::new((place, share)) as Box<dyn Any>))
        },
    };
    let result = connection(&mut stream, &shared.site, &from);
    stream.conn.send_close_notify();
    result.and(stream.flush())
}
