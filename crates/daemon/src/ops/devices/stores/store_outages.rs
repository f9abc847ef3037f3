//! Outages of object stores: the devices that wait for one, and the daemon's patience with them.
//!
//! Monitors of open devices are found by the name of the device, as its meter is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use objects::store::{MeteredStore, StoreTotals};
use objects::{StoreMonitor, StoreOutage};
use parking_lot::Mutex;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::host::process::wakeup::Wakeup;
use crate::state::callers::channel::Channel;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// By force, a store that stops answering is waited for so long.
const PATIENCE_BY_FORCE: Duration = Duration::from_secs(10);

/// A shorter outage is one request that is repeated. Nothing gives up a pool for that.
const BRIEF_OUTAGE: Duration = Duration::from_secs(1);

/// A caller that waits for a pool looks so often whether its store is away.
const LOOK: Duration = Duration::from_millis(50);

/// The devices on stores that are open in this process, by name.
static OPEN: Mutex<BTreeMap<String, Vec<OpenStore>>> = Mutex::new(BTreeMap::new());

/// The store of an open device.
struct OpenStore {
    monitor: StoreMonitor,
    meter: Weak<MeteredStore>,
}

/// Makes the outages of an open device known.
pub(super) fn watch(name: String, monitor: StoreMonitor, meter: &Arc<MeteredStore>) {
    add(name, monitor, |_| Arc::downgrade(meter));
}

/// Makes the outages of a device known that uses the store of an older one.
pub(super) fn watch_newer(name: String, older: &StoreMonitor, newer: StoreMonitor) {
    add(name, newer, |stores| {
        let store = stores.iter().find(|store| store.monitor.is_same(older));
        store.map_or_else(Weak::new, |store| Weak::clone(&store.meter))
    });
}

fn add(
    name: String,
    monitor: StoreMonitor,
    meter: impl FnOnce(&[OpenStore]) -> Weak<MeteredStore>,
) {
    let mut open = OPEN.lock();
    open.retain(|_, stores| {
        stores.retain(|store| store.monitor.is_open());
        !stores.is_empty()
    });
    let stores = open.entry(name).or_default();
    let meter = meter(stores);
    stores.push(OpenStore { monitor, meter });
}

fn monitors(name: &str) -> Vec<StoreMonitor> {
    let open = OPEN.lock();
    let stores = open.get(name).into_iter().flatten();
    stores.map(|store| store.monitor.clone()).collect()
}

/// Lets an open device wait for its store as long as it takes.
pub(super) fn wait_without_end(name: &str) {
    let monitors = monitors(name);
    monitors
        .iter()
        .for_each(|monitor| monitor.set_patience(None));
}

/// The requests to the store of an open device. `None` if it lies on none.
pub(super) fn requests(name: &str) -> Option<StoreTotals> {
    let open = OPEN.lock();
    let stores = open.get(name)?.iter();
    stores
        .filter_map(|store| Some(store.meter.upgrade()?.totals()))
        .max_by_key(|totals| totals.creates + totals.gets + totals.lists)
}

/// The outage for which an open device waits. `None` if its store answers, or if it lies on none.
pub(crate) fn outage(name: &str) -> Option<StoreOutage> {
    let outages = monitors(name).into_iter();
    outages
        .filter_map(|monitor| monitor.outage())
        .max_by_key(|outage| outage.time)
}

/// Ends the wait for the store of a device. Its requests fail then.
pub(crate) fn give_up(name: &str) {
    monitors(name).iter().for_each(StoreMonitor::give_up);
}

/// Does work on a pool that may wait for its devices. `None` if a store of the pool does not answer meanwhile: then the work
/// goes on alone.
pub(crate) fn unless_stalled<T: Send + 'static>(
    active: &Arc<ActivePool>,
    work: impl FnOnce(&Arc<ActivePool>) -> T + Send + 'static,
) -> Option<T> {
    let devices = active.pool.devices().into_iter().map(|it| it.path);
    let stores: Vec<String> = devices.filter(|path| is_watched(path)).collect();
    if stores.is_empty() {
        return Some(work(active));
    }
    let is_away = || {
        let outages = stores.iter().filter_map(|path| outage(path));
        outages.map(|outage| outage.time).max() >= Some(BRIEF_OUTAGE)
    };
    if is_away() {
        return None;
    }
    let (done, waiting) = channel();
    let own = Arc::clone(active);
    let work = move || {
        // A caller that does not wait any more needs no answer.
        let _ = done.send(work(&own));
    };
    if let Err(error) = threads::start("pool-report", work) {
        tracing::error!(%error, pool = active.pool.name(), "a thread cannot be started");
        return None;
    }
    loop {
        match waiting.recv_timeout(LOOK) {
            Ok(outcome) => return Some(outcome),
            Err(RecvTimeoutError::Timeout) if !is_away() => {}
            Err(RecvTimeoutError::Timeout) => return None,
            // An outage would be a lie: the command fails as if it had panicked itself.
            Err(RecvTimeoutError::Disconnected) => panic!("the work on a pool panicked"),
        }
    }
}

fn is_watched(name: &str) -> bool {
    OPEN.lock().contains_key(name)
}

impl Daemon {
    /// Ends the wait of a pool for stores that do not answer: it is suspended then, and can be exported. A store that stops
    /// answering while the result exists is waited for only briefly.
    pub(crate) fn give_up_stores(&self, active: &ActivePool) -> BriefPatience {
        let devices = active.pool.devices().into_iter();
        let monitors: Vec<_> = devices.flat_map(|device| monitors(&device.path)).collect();
        for monitor in &monitors {
            monitor.set_patience(Some(PATIENCE_BY_FORCE));
            monitor.give_up();
        }
        BriefPatience(monitors)
    }

    /// Ends the wait for all stores that do not answer, because the daemon ends.
    pub(crate) fn give_up_all_stores(&self) {
        self.store_patience.set(Some(PATIENCE_BY_FORCE));
        let open = OPEN.lock();
        let all = open.values().flatten().map(|store| store.monitor.clone());
        let all: Vec<_> = all.collect();
        drop(open);
        all.iter().for_each(StoreMonitor::give_up);
    }

    /// Does work in another thread, and tells the caller meanwhile of stores that do not answer.
    pub(crate) fn while_telling<T: Send>(
        &self,
        channel: &mut dyn Channel,
        tell: impl Fn(&str, &StoreOutage) -> String,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let work = || {
            let done = work();
            self.store_changes.wake();
            done
        };
        std::thread::scope(|scope| {
            let work = threads::start_in(scope, "stop", work);
            let work = work
                .map_err(|error| Failure::other(format!("a thread cannot be started: {error}")))?;
            let mut told = BTreeSet::new();
            let mut woken = 0;
            while !work.is_finished() {
                for (path, outage) in outages() {
                    if told.insert(path.clone()) {
                        channel.notice(tell(&path, &outage));
                    }
                }
                woken = self.store_changes.wait(woken, Duration::from_secs(1));
            }
            work.join().unwrap_or_else(|_| {
                Err(Failure::new(
                    FailureKind::Other,
                    "a thread of the command failed",
                ))
            })
        })
    }

    /// The function by which open devices tell of outages.
    pub(in crate::ops::devices) fn outage_observer(&self) -> objects::OutageObserver {
        let changes: Arc<Wakeup> = Arc::clone(&self.store_changes);
        Arc::new(move || changes.wake())
    }
}

fn outages() -> Vec<(String, StoreOutage)> {
    let names: Vec<String> = OPEN.lock().keys().cloned().collect();
    let found = names.into_iter();
    found
        .filter_map(|name| {
            let outage = outage(&name)?;
            Some((name, outage))
        })
        .collect()
}

/// The brief patience of a pool with its stores. It ends when this is dropped, if the pool is still there then.
pub(crate) struct BriefPatience(Vec<StoreMonitor>);

impl Drop for BriefPatience {
    fn drop(&mut self) {
        self.0.iter().for_each(|monitor| monitor.set_patience(None));
    }
}

/// The words for the requests that wait.
pub(crate) fn waiting_requests(outage: &StoreOutage) -> String {
    let writes = match outage.writes {
        0 => None,
        1 => Some("1 write".to_owned()),
        count => Some(format!("{count} writes")),
    };
    let writes = writes.map(|text| format!("{text} of {} KiB", outage.bytes.div_ceil(1024)));
    let others = match outage.others {
        0 => None,
        1 => Some("1 other request".to_owned()),
        count => Some(format!("{count} other requests")),
    };
    let all: Vec<String> = writes.into_iter().chain(others).collect();
    match all.is_empty() {
        true => "requests".into(),
        false => all.join(" and "),
    }
}
