//! Listening, and a thread for each connection.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use admission::{
    AcceptThread, ClientSource, ConnectionPlaces, Listen, LogLimit, Permit, PlaceLimit, PlaceLimits,
};
use block::{HelperBudget, TransferPool, TransferShare};

use crate::error::CloseCause;
use crate::serve::connection::ExportConnection;
use crate::serve::export::Exports;
use crate::serve::negotiate::negotiate;
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::{PeerLink, PeerSocket};
use crate::wire::tls::Tls;
use crate::{Error, Result};

/// A connection has so long to get an export.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threads besides those that each connection has.
const HELPERS_MAX: usize = 256;
/// Connections at a time of clients that have not shown a certificate.
const STRANGERS: PlaceLimit = PlaceLimit {
    all: 64,
    site: 32,
    each: 8,
};
/// Connections at a time of clients that have shown one; and of root and the user of this process at a unix socket.
const MEMBERS: PlaceLimit = PlaceLimit {
    all: 512,
    site: 256,
    each: 256,
};

/// The memory of all connections over TCP.
static MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(256 << 20));
/// The memory of the connections of root and of the daemon's user. They have one origin, which can use half of it.
static LOCAL_MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(512 << 20));

/// The socket at which a server listens.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket. Root and the user of this process may use it.
    Unix(UnixListener),
    /// A TCP socket, for clients with a certificate.
    Tcp(TcpListener, Tls),
}

/// A server. When it is dropped it takes no more connections; those that have an export keep it until that
/// goes ([`Exports::remove`]).
pub struct ExportService {
    _accepting: AcceptThread,
}

struct ServerContext {
    tls: Option<Tls>,
    exports: Arc<Exports>,
    helpers: HelperBudget,
    places: Arc<ConnectionPlaces>,
    log_limit: LogLimit,
    memory: Arc<TransferPool>,
}

impl ExportService {
    /// Serves exports; those that are added later too.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start(listener: Listener, exports: Arc<Exports>) -> Result<ExportService> {
        let memory = match &listener {
            Listener::Unix(_) => &LOCAL_MEMORY,
            Listener::Tcp(..) => &MEMORY,
        };
        ExportService::start_with(listener, exports, Arc::clone(memory))
    }

    /// Starts with another total of memory than that of all servers. See [`ExportService::start`].
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start_with(
        listener: Listener,
        exports: Arc<Exports>,
        memory: Arc<TransferPool>,
    ) -> Result<ExportService> {
        let tls = match &listener {
            Listener::Unix(_) => None,
            Listener::Tcp(_, tls) => Some(tls.clone()),
        };
        // At a unix socket every client is root's, or of the user of this process.
        let each = if tls.is_some() {
            STRANGERS.each
        } else {
            STRANGERS.all
        };
        let shared = Arc::new(ServerContext {
            tls,
            exports,
            helpers: HelperBudget::new(HELPERS_MAX),
            places: ConnectionPlaces::new(PlaceLimits {
                strangers: PlaceLimit { each, ..STRANGERS },
                members: MEMBERS,
                reserved: MEMBERS.all,
            }),
            log_limit: LogLimit::default(),
            memory,
        });
        let failed = |error: &io::Error| tracing::warn!(%error, "a connection was not accepted");
        let begin = move |fd, source| begin(&shared, fd, source);
        let accepting = AcceptThread::start("nbd-listen", listener, failed, begin);
        let _accepting = accepting.map_err(Error::Thread)?;
        Ok(ExportService { _accepting })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

impl Listen for Listener {
    type Stream = OwnedFd;

    fn take(&self) -> io::Result<(OwnedFd, ClientSource)> {
        match self {
            Listener::Unix(listener) => {
                let (stream, source) = listener.take()?;
                Ok((stream.into(), source))
            }
            Listener::Tcp(listener, _) => {
                let (stream, source) = listener.take()?;
                Ok((stream.into(), source))
            }
        }
    }
}

impl ServerContext {
    /// Returns whether the log may have a line about an unknown client.
    fn may_tell(&self, source: &ClientSource) -> bool {
        self.log_limit.may_tell(source, Instant::now())
    }
}

/// Has a thread serve a connection.
fn begin(shared: &Arc<ServerContext>, fd: OwnedFd, source: ClientSource) {
    if shared.tls.is_none() && !source.is_reserved() {
        if shared.may_tell(&source) {
            tracing::warn!(%source, "refused a user who is neither root nor the user of the daemon");
        }
        return;
    }
    let client = client_name(&fd, &source);
    let socket = Arc::new(PeerSocket::new(fd, PATIENCE));
    let cut = {
        let socket = Arc::clone(&socket);
        move || socket.cut()
    };
    let permit = shared.places.greet(source.clone(), cut);
    let memory = shared.memory.share(source.network());
    let shared = Arc::clone(shared);
    let serve = move || {
        // The log counts lines by this address.
        let _span = tracing::info_span!("connection", from = %source).entered();
        let served = catch_unwind(AssertUnwindSafe(|| {
            serve(&shared, &permit, &memory, (socket, &client))
        }));
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
    if let Err(error) = threads::start("nbd", serve) {
        tracing::warn!(%error, "a connection was not served");
    }
}

/// The name of a client for itself, whatever port it connects from.
fn client_name(fd: &OwnedFd, source: &ClientSource) -> String {
    let address = rustix::net::getpeername(fd).ok().flatten();
    match address.and_then(|address| SocketAddr::try_from(address).ok()) {
        Some(address) => address.ip().to_canonical().to_string(),
        None => source.to_string(),
    }
}

fn serve(
    shared: &ServerContext,
    permit: &Permit,
    memory: &TransferShare,
    (socket, client): (Arc<PeerSocket>, &str),
) -> std::result::Result<(), CloseCause> {
    let mut link: Arc<dyn PeerLink> = socket;
    let mut input = ReceiveBuffer::new();
    let authenticated = || permit.admit().is_ok();
    let tls = shared.tls.as_ref();
    let session = negotiate(
        &mut link,
        &mut input,
        &shared.exports,
        tls,
        memory,
        &authenticated,
    )?;
    let Some(mut session) = session else {
        return Ok(());
    };
    session.client = client.to_owned();
    if !authenticated() {
        return Err(CloseCause::Protocol("too many clients have an export"));
    }
    link.take_time();
    let connection = ExportConnection::new(Arc::clone(&link), session, input, &shared.helpers);
    let served = connection.serve();
    link.finish();
    served
}
