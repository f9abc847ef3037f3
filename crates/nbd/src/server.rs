//! Listening, and a thread for each connection.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::Shutdown;

use crate::connection::{Connection, Helpers};
use crate::error::Gone;
use crate::export::Exports;
use crate::input::Input;
use crate::link::{Link, Socket};
use crate::negotiate::negotiate;
use crate::tls::Tls;
use crate::{Error, Result};

/// A server has at most so many connections.
const CONNECTIONS_MAX: usize = 512;
/// Of these so many may not have an export yet: nobody knows who they are.
const UNKNOWN_MAX: usize = 64;
/// A connection has so long to get an export.
const PATIENCE: Duration = Duration::from_secs(10);
/// Threads besides those that each connection has.
const HELPERS_MAX: usize = 256;

/// Where a server listens.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket. Root and the user of this process may use it.
    Unix(UnixListener),
    /// A TCP socket. Who has a certificate may use it.
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
    connections: Mutex<Connections>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Connections {
    all: usize,
    unknown: usize,
}

impl Server {
    /// Serves exports; those that are added later too.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start(listener: Listener, exports: Arc<Exports>) -> Result<Server> {
        let shared = Arc::new(Shared {
            listener,
            exports,
            helpers: Helpers::new(HELPERS_MAX),
            connections: Mutex::default(),
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
    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Unix(listener) => Ok(listener.accept()?.0.into()),
            Listener::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                // Who vanished without a word is not waited for.
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                Ok(stream.into())
            }
        }
    }

    /// Has whoever accepts fail.
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

    /// Whether whoever connected may be there at all.
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
            Ok(fd) if shared.listener.admits(&fd) => begin(shared, fd),
            Ok(_) => tracing::warn!("somebody else than root and this user wants to use exports"),
            Err(error) => {
                // Of the reasons that last, too many open files is the usual one.
                tracing::warn!(%error, "a connection was not accepted");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Has a thread serve a connection, unless there are too many.
fn begin(shared: &Arc<Shared>, fd: OwnedFd) {
    let Some(place) = Place::take(shared) else {
        tracing::warn!("too many connections; one was closed");
        return;
    };
    let serve = move || {
        let served = catch_unwind(AssertUnwindSafe(|| serve(place, fd)));
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

fn serve(mut place: Place, fd: OwnedFd) -> std::result::Result<(), Gone> {
    let shared = Arc::clone(&place.shared);
    let mut link: Arc<dyn Link> = Arc::new(Socket::new(fd, PATIENCE));
    let mut input = Input::new();
    let tls = shared.listener.tls();
    let Some(session) = negotiate(&mut link, &mut input, &shared.exports, tls)? else {
        return Ok(());
    };
    place.is_known();
    link.take_time();
    let connection = Connection::new(Arc::clone(&link), session, input, &shared.helpers);
    let served = connection.serve();
    link.finish();
    served
}

/// One of the connections that a server may have.
struct Place {
    shared: Arc<Shared>,
    is_known: bool,
}

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Place> {
        let mut connections = shared.connections.lock();
        if connections.all >= CONNECTIONS_MAX || connections.unknown >= UNKNOWN_MAX {
            return None;
        }
        connections.all += 1;
        connections.unknown += 1;
        Some(Place {
            shared: Arc::clone(shared),
            is_known: false,
        })
    }

    /// It has an export.
    fn is_known(&mut self) {
        self.is_known = true;
        self.shared.connections.lock().unknown -= 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.shared.connections.lock();
        connections.all -= 1;
        if !self.is_known {
            connections.unknown -= 1;
        }
    }
}
