//! Listening, and a thread for each connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use block::TransferPool;
use parking_lot::Mutex;

use crate::error::Gone;
use crate::link::{Input, Link, Socket};
use crate::login::{Purpose, login};
use crate::session::{Helpers, serve};
use crate::targets::Targets;
use crate::{Error, Result};

/// A connection has so long to log in.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a connection that could not be taken, the next one is tried so much later.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Connections that have not logged in, of all and of one address. One more ends the oldest.
const GREETED_MAX: usize = 64;
const GREETED_PER_ADDRESS: usize = 16;
/// Sessions, of all and of one address.
const SESSIONS_MAX: usize = 1024;
const SESSIONS_PER_ADDRESS: usize = 64;
/// Threads for commands that take long.
const HELPERS_MAX: usize = 256;

/// The memory for the data of all sessions, at all portals.
static MEMORY: LazyLock<Arc<TransferPool>> = LazyLock::new(|| TransferPool::new(256 << 20));

/// A portal: a socket at which initiators log in. When it is dropped it takes no more connections; those that
/// have logged in stay until their target goes ([`Targets::remove`]).
pub struct Server {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    listener: TcpListener,
    targets: Arc<Targets>,
    places: Mutex<Places>,
    helpers: Helpers,
    memory: Arc<TransferPool>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    from: IpAddr,
    link: Arc<dyn Link>,
    has_session: bool,
}

impl Server {
    /// Serves targets; those that are added later too.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start(listener: TcpListener, targets: Arc<Targets>) -> Result<Server> {
        Server::start_with(listener, targets, Arc::clone(&MEMORY))
    }

    /// As [`Server::start`], with another total of memory than that of all portals.
    ///
    /// # Errors
    /// [`Error::Thread`]
    pub fn start_with(
        listener: TcpListener,
        targets: Arc<Targets>,
        memory: Arc<TransferPool>,
    ) -> Result<Server> {
        let shared = Arc::new(Shared {
            listener,
            targets,
            places: Mutex::default(),
            helpers: Helpers::new(HELPERS_MAX),
            memory,
            is_ending: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let thread = Builder::new().name("iscsi-listen".into());
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
        let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        // Nothing waits for sessions that are only for discovery, or for half logins.
        let places = self.shared.places.lock();
        let halves = places.taken.values().filter(|taken| !taken.has_session);
        halves.for_each(|taken| taken.link.cut());
    }
}

fn accept(shared: &Arc<Shared>) {
    loop {
        let accepted = shared.listener.accept();
        if shared.is_ending.load(Ordering::SeqCst) {
            return;
        }
        let ready = accepted.and_then(|(stream, address)| {
            stream.set_nodelay(true)?;
            // Who vanished without a word is not waited for.
            rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
            Ok((stream, address))
        });
        match ready {
            Ok((stream, address)) => {
                let link = Arc::new(Socket::new(stream, address, PATIENCE));
                begin(shared, link, origin(address.ip()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                std::thread::sleep(BACK_OFF);
            }
        }
    }
}

/// Has a thread serve a connection.
fn begin(shared: &Arc<Shared>, link: Arc<dyn Link>, from: IpAddr) {
    let number = shared.places.lock().take(from, Arc::clone(&link));
    let own = Arc::clone(shared);
    let work = move || {
        // The log counts lines by this address.
        let _span = tracing::info_span!("connection", %from).entered();
        let served = catch_unwind(AssertUnwindSafe(|| converse(&own, &link, from, number)));
        own.places.lock().taken.remove(&number);
        link.cut();
        match served {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => tracing::info!(%reason, "a connection was closed"),
            Err(_) => tracing::error!("a connection made this program fail, and was closed"),
        }
    };
    if let Err(error) = Builder::new().name("iscsi".into()).spawn(work) {
        shared.places.lock().taken.remove(&number);
        tracing::warn!(%error, "a connection was not served");
    }
}

fn converse(
    shared: &Shared,
    link: &Arc<dyn Link>,
    from: IpAddr,
    number: u64,
) -> std::result::Result<(), Gone> {
    let mut input = Input::new();
    let has_place = || shared.places.lock().keep(number);
    let memory = shared.memory.share(Some(from));
    let session = login(link, &mut input, &shared.targets, &memory, &has_place)?;
    let Some(session) = session else {
        return Ok(());
    };
    let Purpose::Use(attached) = &session.purpose else {
        // Asking what there is does not take long.
        return serve(link, &mut input, session, &shared.targets, &shared.helpers);
    };
    link.take_time();
    let target = attached.target.name().to_owned();
    let (number, initiator, from) = (attached.number, session.initiator.clone(), link.peer());
    tracing::info!(target, initiator, from, number, "a session begins");
    let served = serve(link, &mut input, session, &shared.targets, &shared.helpers);
    tracing::info!(target, initiator, from, number, "a session ended");
    served
}

impl Places {
    /// A place for a connection. If there are too many that have not logged in, the oldest one ends.
    fn take(&mut self, from: IpAddr, link: Arc<dyn Link>) -> u64 {
        let greeted = |place: &&Taken| !place.has_session;
        let of_one = |place: &&Taken| greeted(place) && place.from == from;
        if self.taken.values().filter(of_one).count() >= GREETED_PER_ADDRESS {
            self.cut_oldest(|place| greeted(&place) && place.from == from);
        } else if self.taken.values().filter(greeted).count() >= GREETED_MAX {
            self.cut_oldest(|place| greeted(&place));
        }
        self.next += 1;
        let taken = Taken {
            from,
            link,
            has_session: false,
        };
        self.taken.insert(self.next, taken);
        self.next
    }

    fn cut_oldest(&mut self, is_one: impl Fn(&Taken) -> bool) {
        let oldest = self.taken.iter().find(|(_, place)| is_one(place));
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(place) = self.taken.remove(&number)
        {
            place.link.cut();
        }
    }

    /// Whether a connection may become a session.
    fn keep(&mut self, number: u64) -> bool {
        let sessions = self.taken.values().filter(|place| place.has_session);
        let all = sessions.clone().count();
        let Some(from) = self.taken.get(&number).map(|place| place.from) else {
            return false;
        };
        let own = sessions.filter(|place| place.from == from).count();
        let may = all < SESSIONS_MAX && own < SESSIONS_PER_ADDRESS;
        if let Some(place) = self.taken.get_mut(&number) {
            place.has_session = may;
        }
        may
    }
}

/// The address, or the network, that limits are for: a host has a whole IPv6 network of 64 bits.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}
