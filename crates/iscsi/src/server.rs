//! Listening, and a thread for each connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use admission::{
    AcceptThread, ClientSource, ConnectionPlaces, LogLimit, Permit, PlaceLimit, PlaceLimits,
};
use block::{HelperBudget, TransferPool};

use crate::error::DisconnectCause;
use crate::login::negotiation::{SessionPurpose, login};
use crate::session::serve;
use crate::targets::portal::Targets;
use crate::wire::link::{InitiatorLink, InitiatorSocket, PduBuffer};
use crate::{Error, Result};

/// A connection has so long to log in.
const PATIENCE: Duration = Duration::from_secs(10);
/// A session without traffic has its initiator asked for a sign of life after so long.
const SILENCE: Duration = Duration::from_secs(15);
/// Connections at a time that have not logged in.
const STRANGERS: PlaceLimit = PlaceLimit {
    all: 64,
    site: 32,
    each: 16,
};
/// Sessions at a time.
const SESSIONS: PlaceLimit = PlaceLimit {
    all: 1024,
    site: 256,
    each: 64,
};
/// Threads for commands that take long.
const HELPERS_MAX: usize = 256;

/// The memory for the data of all sessions, at all portals.
static MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(256 << 20));

/// A portal: a socket at which initiators log in. When it is dropped it takes no more connections; those that
/// have logged in stay until their target goes ([`Targets::remove`]).
pub struct PortalServer {
    accepting: Option<AcceptThread>,
    places: Arc<ConnectionPlaces>,
}

struct PortalContext {
    targets: Arc<Targets>,
    places: Arc<ConnectionPlaces>,
    helpers: HelperBudget,
    memory: Arc<TransferPool>,
    silence: Duration,
    log_limit: LogLimit,
}

impl PortalServer {
    /// Serves targets; those that are added later too.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start(listener: TcpListener, targets: Arc<Targets>) -> Result<PortalServer> {
        PortalServer::start_with(listener, targets, Arc::clone(&MEMORY), SILENCE)
    }

    /// Starts with another total of memory than that of all portals, and another time after which a silent initiator
    /// is asked for a sign of life. See [`PortalServer::start`].
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start_with(
        listener: TcpListener,
        targets: Arc<Targets>,
        memory: Arc<TransferPool>,
        silence: Duration,
    ) -> Result<PortalServer> {
        let places = ConnectionPlaces::new(PlaceLimits {
            strangers: STRANGERS,
            members: SESSIONS,
            reserved: 0,
        });
        let shared = Arc::new(PortalContext {
            targets,
            places: Arc::clone(&places),
            helpers: HelperBudget::new(HELPERS_MAX),
            memory,
            silence,
            log_limit: LogLimit::default(),
        });
        let failed = |error: &io::Error| tracing::warn!(%error, "a connection was not accepted");
        let begin = move |stream, source| begin(&shared, stream, source);
        let accepting = AcceptThread::start("iscsi-listen", listener, failed, begin);
        Ok(PortalServer {
            accepting: Some(accepting.map_err(Error::Thread)?),
            places,
        })
    }
}

impl Drop for PortalServer {
    fn drop(&mut self) {
        self.accepting = None;
        // Nothing waits for sessions that are only for discovery, or for half logins.
        self.places.close_to_strangers();
    }
}

impl PortalContext {
    /// Returns whether the log may have a line about an unknown client.
    fn may_tell(&self, source: &ClientSource) -> bool {
        self.log_limit.may_tell(source, Instant::now())
    }
}

/// Has a thread serve a connection.
fn begin(shared: &Arc<PortalContext>, stream: TcpStream, source: ClientSource) {
    // A client that has gone needs no thread.
    let Ok(peer) = stream.peer_addr() else { return };
    let link: Arc<dyn InitiatorLink> = Arc::new(InitiatorSocket::new(stream, peer, PATIENCE));
    let cut = {
        let link = Arc::clone(&link);
        move || link.cut()
    };
    let permit = shared.places.greet(source.clone(), cut);
    let shared = Arc::clone(shared);
    let work = move || {
        // The log counts lines by this address.
        let _span = tracing::info_span!("connection", from = %peer.ip()).entered();
        let served = AssertUnwindSafe(|| converse(&shared, &link, &source, &permit));
        let served = catch_unwind(served);
        link.cut();
        match served {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => {
                if permit.is_member() || shared.may_tell(&source) {
                    tracing::info!(%reason, %source, "a connection was closed");
                }
            }
            Err(_) => tracing::error!("a connection made this program fail, and was closed"),
        }
    };
    if let Err(error) = threads::start("iscsi", work) {
        tracing::warn!(%error, "a connection was not served");
    }
}

fn converse(
    shared: &PortalContext,
    link: &Arc<dyn InitiatorLink>,
    source: &ClientSource,
    permit: &Permit,
) -> std::result::Result<(), DisconnectCause> {
    let mut input = PduBuffer::new();
    let has_place = || permit.admit().is_ok();
    let may_tell = || shared.may_tell(source);
    let memory = shared.memory.share(source.network());
    let session = login(
        link,
        &mut input,
        &shared.targets,
        &memory,
        &has_place,
        &may_tell,
    )?;
    let Some(session) = session else {
        return Ok(());
    };
    let SessionPurpose::Use(attached) = &session.purpose else {
        // Asking what there is does not take long.
        return serve(link, &mut input, session, &shared.targets, &shared.helpers);
    };
    link.begin_session(shared.silence);
    let target = attached.target.name().to_owned();
    let (number, initiator, from) = (attached.number, session.initiator.clone(), link.peer());
    tracing::info!(target, initiator, from, number, "a session begins");
    let served = serve(link, &mut input, session, &shared.targets, &shared.helpers);
    tracing::info!(target, initiator, from, number, "a session ended");
    served
}
