//! Commands that are stopped whenever they wait: for the lock of a pool, for a secret, or for data. Meanwhile another user
//! takes rights away, gives names to other datasets, or makes and replaces datasets. A command that is refused then has
//! changed nothing.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;
use pool::Origin;
use protocol::api::{Ask, Command, Failure, Reply, Result};
use protocol::client::{DaemonConnection, Data, Terminal};
use secret::Secret;

use super::requests;
use super::site::{Site, Typist, ZONES};
use crate::host::callers::scope::{BoundScope, PeerToken};
use crate::host::callers::users::Peer;
use crate::state::pools::active_pool::{ActivePool, waits};

pub(super) type Work = dyn Fn(&Site) + Send + Sync;

/// Work of another user at one of the moments when a command waits.
pub(super) struct Meanwhile {
    site: Arc<Site>,
    work: Arc<Work>,
    /// The wait at which the work is done, from 0.
    at: usize,
    waits: AtomicUsize,
    /// The state after the work.
    state: Mutex<Option<String>>,
    /// The dataset whose state counts; `None` for that of the daemon.
    looks_at: Mutex<Option<&'static str>>,
}

impl Meanwhile {
    pub(super) fn new(site: &Arc<Site>, at: usize, work: &Arc<Work>) -> Arc<Meanwhile> {
        Arc::new(Meanwhile {
            site: Arc::clone(site),
            work: Arc::clone(work),
            at,
            waits: AtomicUsize::default(),
            state: Mutex::default(),
            looks_at: Mutex::default(),
        })
    }

    fn look_at(&self, dataset: &'static str) {
        *self.looks_at.lock() = Some(dataset);
    }

    pub(super) fn was_done(&self) -> bool {
        self.state.lock().is_some()
    }

    fn wait(&self) {
        if self.waits.fetch_add(1, Ordering::SeqCst) == self.at {
            (self.work)(&self.site);
            *self.state.lock() = Some(match *self.looks_at.lock() {
                Some(dataset) => self.site.state_below(dataset),
                None => state(&self.site),
            });
        }
    }
}

/// The state of the daemon, with the keys that are loaded.
fn state(site: &Site) -> String {
    let tank = site.daemon.pool("tank").unwrap();
    format!("{} {:?}", site.state(), tank.keys.roots())
}

/// The other side of a command, with a wait before each answer.
struct Waiting {
    meanwhile: Arc<Meanwhile>,
    /// The pieces of a stream, the last one first.
    pieces: Vec<Vec<u8>>,
}

impl Terminal for &Waiting {
    fn ask(&mut self, ask: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        self.meanwhile.wait();
        Typist.ask(ask)
    }

    fn notice(&mut self, _: &str) {}
}

impl Data for Waiting {
    fn take(&mut self, _: &[u8]) -> std::result::Result<(), Failure> {
        Ok(())
    }

    fn give(&mut self, piece: &mut [u8]) -> std::result::Result<usize, Failure> {
        self.meanwhile.wait();
        let Some(next) = self.pieces.pop() else {
            return Ok(0);
        };
        piece[..next.len()].copy_from_slice(&next);
        Ok(next.len())
    }
}

/// Has a command done, with a wait before each secret, each piece of a stream, and each lock of a pool.
pub(super) fn ask_while(
    peer: &Peer,
    command: &Command,
    pieces: &[Vec<u8>],
    meanwhile: &Arc<Meanwhile>,
) -> Result<Reply> {
    let daemon = &meanwhile.site.daemon;
    let serve = |server| daemon.serve_peer(peer.clone(), server);
    serve_while(serve, command, pieces, meanwhile)
}

/// Sends a command as the tenant of a zone, and lets something happen at each wait.
fn ask_in_while(zone: &str, command: &Command, meanwhile: &Arc<Meanwhile>) -> Result<Reply> {
    let daemon = &meanwhile.site.daemon;
    let zone = daemon.zones.get(zone).unwrap();
    let serve = |server| daemon.serve_tenant(&zone, server);
    serve_while(serve, command, &[], meanwhile)
}

fn serve_while(
    serve: impl FnOnce(UnixStream) + Send,
    command: &Command,
    pieces: &[Vec<u8>],
    meanwhile: &Arc<Meanwhile>,
) -> Result<Reply> {
    let (client, server) = UnixStream::pair().unwrap();
    let waiting = || Waiting {
        meanwhile: Arc::clone(meanwhile),
        pieces: pieces.iter().rev().cloned().collect(),
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let at_lock = Arc::clone(meanwhile);
            waits::meanwhile(Arc::new(move || at_lock.wait()));
            serve(server);
        });
        let mut data = waiting();
        DaemonConnection::over(client).call_with_data(command.clone(), &mut &waiting(), &mut data)
    })
}

/// Returns whether a command shows something, and changes nothing.
fn only_shows(command: &Command) -> bool {
    matches!(command, Command::Send(_))
}

/// Has each command of a delegate with all rights done, with this work at each of its waits. Each is refused, and has
/// changed nothing since. `undo` takes the work back.
fn is_refused_at_each_wait(peer: impl Fn(&Site) -> Peer, work: &Arc<Work>, undo: &Work) {
    let mut site = Arc::new(Site::new(&ZONES));
    let peer = peer(&site);
    let mut stopped = 0;
    for (command, _) in requests() {
        let before = state(&site);
        for at in 0.. {
            let meanwhile = Meanwhile::new(&site, at, work);
            let outcome = ask_while(&peer, &command, &[], &meanwhile);
            let Some(state_then) = meanwhile.state.lock().take() else {
                break;
            };
            stopped += 1;
            let what = format!("{command:?} at wait {at}: {outcome:?}");
            assert!(outcome.is_err() || only_shows(&command), "{what}");
            assert_eq!(state(&site), state_then, "{what}");
            undo(&site);
        }
        // Without work at any of its waits it was carried out.
        if state(&site) != before {
            site = Arc::new(Site::new(&ZONES));
        }
    }
    assert!(stopped > 50, "{stopped}");
}

fn tank(site: &Site) -> Arc<ActivePool> {
    site.daemon.pool("tank").unwrap()
}

fn origin() -> Origin {
    Origin {
        who: "root on host".into(),
        text: "meanwhile".into(),
        uid: None,
    }
}

fn allow(site: &Site, dataset: &str, value: Option<String>) {
    let change = [("@allow".to_owned(), value)];
    let pool = &tank(site).pool;
    pool.set_props(&[dataset.to_owned()], &change, &origin())
        .unwrap();
}

/// The permissions of delegates, by dataset.
fn allowed(site: &Site) -> Vec<(String, String)> {
    let tank = tank(site);
    let heads = tank.all_heads().unwrap();
    let of = |head: &Arc<pool::Entry>| {
        let value = head.props.get("@allow")?.clone();
        Some((tank.pool.name_of(head.id).unwrap(), value))
    };
    heads.iter().filter_map(of).collect()
}

#[test]
fn rights_that_are_taken_away_meanwhile_are_gone() {
    let taken: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let place = Arc::clone(&taken);
    let work: Arc<Work> = Arc::new(move |site: &Site| {
        let all = allowed(site);
        all.iter().for_each(|(name, _)| allow(site, name, None));
        *place.lock() = all;
    });
    let give_back = move |site: &Site| {
        for (name, value) in taken.lock().drain(..) {
            allow(site, &name, Some(value));
        }
    };
    is_refused_at_each_wait(|site| site.delegate(|_| true), &work, &give_back);
}

#[test]
fn a_token_that_is_revoked_meanwhile_is_gone() {
    let nothing: Arc<Work> = Arc::new(|_: &Site| {});
    // It was shown, and is not in the table any more.
    let peer = |site: &Site| Peer {
        token: Some(PeerToken {
            id: "gone".into(),
            scope: BoundScope::default(),
            is_of_admin: false,
        }),
        ..site.delegate(|_| true)
    };
    is_refused_at_each_wait(peer, &nothing, &|_| {});
}

/// Exchanges what is below `tank/web` with the same datasets of a user who has allowed nothing.
fn exchange(site: &Site) {
    let pool = &tank(site).pool;
    for name in ["fs", "to"] {
        let [own, theirs, between] = ["web", "other", "between"].map(|zone| match zone {
            "between" => format!("tank/{name}"),
            zone => format!("tank/{zone}/{name}"),
        });
        for (from, to) in [(&own, &between), (&theirs, &own), (&between, &theirs)] {
            pool.rename(from, to, &origin()).unwrap();
        }
    }
}

#[test]
fn names_that_mean_datasets_of_others_meanwhile_are_refused() {
    let work: Arc<Work> = Arc::new(exchange);
    is_refused_at_each_wait(|site| site.delegate(|_| true), &work, &exchange);
}

/// Names change, but the caller has all rights on the other datasets too: the command is still about the first ones.
#[test]
fn names_that_mean_other_datasets_of_the_caller_are_refused() {
    let work: Arc<Work> = Arc::new(|site: &Site| {
        for (name, value) in allowed(site) {
            allow(site, &name.replace("tank/web", "tank/other"), Some(value));
        }
        exchange(site);
    });
    let undo = |site: &Site| {
        exchange(site);
        for (name, _) in allowed(site) {
            if name.starts_with("tank/other") {
                allow(site, &name, None);
            }
        }
    };
    is_refused_at_each_wait(|site| site.delegate(|_| true), &work, &undo);
}

/// A dataset that was taken out of a zone meanwhile is out of the reach of its tenant, also where a command has begun with
/// it. A dataset that took its name is in the zone now.
#[test]
fn what_leaves_a_zone_meanwhile_is_out_of_reach() {
    const OUT: &str = "tank/out";
    let work: Arc<Work> = Arc::new(|site: &Site| {
        let pool = &tank(site).pool;
        for name in ["fs", "to"] {
            let from = format!("tank/web/{name}");
            pool.rename(&from, &format!("{OUT}/{name}"), &origin())
                .unwrap();
            pool.rename(&format!("tank/other/{name}"), &from, &origin())
                .unwrap();
        }
    });
    let new_site = || {
        let site = Site::new(&ZONES);
        crate::tests::create(&site.daemon, OUT, &Vec::new());
        Arc::new(site)
    };
    let mut site = new_site();
    let mut stopped = 0;
    for (_, [command, _]) in requests() {
        for at in 0.. {
            let before = state(&site);
            let meanwhile = Meanwhile::new(&site, at, &work);
            meanwhile.look_at(OUT);
            let outcome = ask_in_while("web", &command, &meanwhile);
            let was_done = meanwhile.state.lock().take();
            if let Some(then) = &was_done {
                stopped += 1;
                let what = format!("{command:?} at wait {at}: {outcome:?}");
                assert_eq!(site.state_below(OUT), *then, "{what}");
            }
            if was_done.is_some() || state(&site) != before {
                site = new_site();
            }
            if was_done.is_none() {
                break;
            }
        }
    }
    assert!(stopped > 30, "{stopped}");
}
