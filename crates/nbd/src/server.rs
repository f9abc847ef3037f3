//! Listening, and a thread for each connection.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use block::{TransferPool, TransferShare};
use rustix::net::Shutdown;

use crate::connection::{Connection, Helpers};
use crate::error::Gone;
use crate::export::Exports;
use crate::input::Input;
use crate::link::{Link, Socket};
use crate::negotiate::negotiate;
use crate::places::{Origin, Place, Places, origin};
use crate::tls::Tls;
use crate::{Error, Result};

/// A connection has so long to get an export.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a connection that could not be taken, the next one is tried so much later.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Threads besides those that each connection has.
const HELPERS_MAX: usize = 256;

/// The memory of all connections over TCP.
static MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(256 << 20));
/// The memory of the connections of root and of the daemon's user. They have one origin, which can use half of it.
static LOCAL_MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(512 << 20));

/// Where a server listens.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket. Root and the user of this process may use it.
    Unix(UnixListener),
    /// A TCP socket, for clients with a certificate.
    Tcp(TcpListener, Tls),
}

/// A server. When it is dropped it takes no more connections; those that have an export keep it until that
/// goes ([`Exports::remove`]).
pub struct Server {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    listener: Listener,
    exports: Arc<Exports>,
    helpers: Helpers,
    places: Arc<Places>,
    memory: Arc<TransferPool>,
    is_ending: AtomicBool,
}

impl Server {
    /// Serves exports; those that are added later too.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start(listener: Listener, exports: Arc<Exports>) -> Result<Server> {
        let memory = match &listener {
            Listener::Unix(_) => &LOCAL_MEMORY,
            Listener::Tcp(..) => &MEMORY,
        };
        Server::start_with(listener, exports, Arc::clone(memory))
    }

    /// As [`Server::start`], with another total of memory than that of all servers.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start_with(
        listener: Listener,
        exports: Arc<Exports>,
        memory: Arc<TransferPool>,
    ) -> Result<Server> {
        let shared = Arc::new(Shared {
            listener,
            exports,
            helpers: Helpers::new(HELPERS_MAX),
            places: Arc::default(),
            memory,
            is_ending: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("nbd-listen".into());
        let accepting = thread.spawn(move || accept(&own)).map_err(Error::Thread)?;
        Ok(Server {
            shared,
            accepting: Some(accepting),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        self.shared.listener.wake();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Listener {
    fn accept(&self) -> io::Result<(OwnedFd, Origin)> {
        match self {
            Listener::Unix(listener) => Ok((listener.accept()?.0.into(), None)),
            Listener::Tcp(listener, _) => {
                let (stream, address) = listener.accept()?;
                stream.set_nodelay(true)?;
                // Who vanished without a word is not waited for.
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                Ok((stream.into(), Some(origin(address.ip()))))
            }
        }
    }

    /// Makes the accepting thread fail and end.
    fn wake(&self) {
        let fd = match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener, _) => listener.as_fd(),
        };
        let _ = rustix::net::shutdown(fd, Shutdown::Both);
    }

    fn tls(&self) -> Option<&Tls> {
        match self {
            Listener::Unix(_) => None,
            Listener::Tcp(_, tls) => Some(tls),
        }
    }

    /// Whether this client may connect at all.
    fn admits(&self, fd: &OwnedFd) -> bool {
        match self {
            Listener::Tcp(..) => true,
            Listener::Unix(_) => rustix::net::sockopt::socket_peercred(fd)
                .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid()),
        }
    }
}

fn accept(shared: &Arc<Shared>) {
    loop {
        let accepted = shared.listener.accept();
        if shared.is_ending.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((fd, from)) if shared.listener.admits(&fd) => begin(shared, fd, from),
            Ok(_) => {
                tracing::warn!("refused a user who is neither root nor the user of the daemon")
            }
            Err(error) => {
                // Of the reasons that last, too many open files is the usual one.
                tracing::warn!(%error, "a connection was not accepted");
                std::thread::sleep(BACK_OFF);
            }
        }
    }
}

/// Has a thread serve a connection.
fn begin(shared: &Arc<Shared>, fd: OwnedFd, from: Origin) {
    let socket = Arc::new(Socket::new(fd, PATIENCE));
    let place = Place::take(&shared.places, from, socket.clone());
    let memory = shared.memory.share(from);
    let shared = Arc::clone(shared);
    let serve = move || {
        let served = catch_unwind(AssertUnwindSafe(|| serve(&shared, &place, &memory, socket)));
        match served {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => tracing::info!(%reason, "a connection was closed"),
            Err(_) => tracing::error!("a connection made this program fail, and was closed"),
        }
    };
    if let Err(error) = Builder::new().name("nbd".into()).spawn(serve) {
        tracing::warn!(%error, "a connection was not served");
    }
}

fn serve(
    shared: &Shared,
    place: &Place,
    memory: &TransferShare,
    socket: Arc<Socket>,
) -> std::result::Result<(), Gone> {
    let mut link: Arc<dyn Link> = socket;
    let mut input = Input::new();
    let tls = shared.listener.tls();
    let authenticated = || place.is_authenticated();
    let session = negotiate(
        &mut link,
        &mut input,
        &shared.exports,
        tls,
        memory,
        &authenticated,
    )?;
    let Some(session) = session else {
        return Ok(());
    };
    if !place.is_attached() {
        return Err(Gone::Protocol("too many clients have an export"));
    }
    link.take_time();
    let connection = Connection::new(Arc::clone(&link), session, input, &shared.helpers);
    let served = connection.serve();
    link.finish();
    served
}
