//! The end of the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use objects::StoreOutage;

use crate::failure::{Failure, Result};
use crate::ops::devices::layers::{Carrier, below, by_layer};
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::ops::devices::stores::store_outages::waiting_requests;
use crate::ops::front_end_calls::WithdrawnOffers;
use crate::state::callers::channel::Channel;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::front_end::PoolEntries;
use crate::state::pools::active_pool::{ActivePool, Admin};

impl Daemon {
    /// Shuts down, and tells the caller meanwhile of stores that do not answer.
    pub(crate) fn shut_down_for(self: &Arc<Self>, channel: &mut dyn Channel) -> Result<()> {
        let tell = |path: &str, outage: &StoreOutage| {
            format!(
                "{path} has not answered for {} s, and {} wait. The daemon waits for it up to {} s, and then ends without what \
                 was not synced. To end at once: strongroom daemon stop -f",
                outage.time.as_secs(),
                waiting_requests(outage),
                self.patience_at_stop.as_secs()
            )
        };
        let mut losses = Vec::new();
        let ended = self.while_telling(channel, tell, || self.shut_down(&mut losses));
        for text in losses {
            channel.notice(text);
        }
        ended
    }

    /// Unmounts everything, ends all exports, and exports all pools. The next start imports them again. If something is
    /// in use, changes nothing.
    /// A store that does not answer is waited for as long as `patience_at_stop` says.
    /// `losses` gets lines about stores that were given up.
    pub(crate) fn shut_down(self: &Arc<Self>, losses: &mut Vec<String>) -> Result<()> {
        self.pool_table.set_stopping(true);
        self.replications.close();
        self.store_patience.set(Some(self.patience_at_stop));
        let unflushed = self.unflushed();
        let result = self
            .may_end_suspended()
            .and_then(|()| self.may_end_mappings())
            .and_then(|()| self.close_offers(false))
            .and_then(|()| self.leave_all(false, losses));
        match result {
            Ok(()) => {
                self.flush_mappings();
                if self.flush_last(unflushed) {
                    self.last_run.note_clean();
                }
            }
            Err(_) => {
                self.pool_table.set_stopping(false);
                self.replications.open();
                self.store_patience.set(None);
                self.restore_offers();
            }
        }
        result
    }

    /// Shuts down by force: unmounts datasets in use too, all of them at the same time. A pool that cannot be
    /// exported does not stop the export of others. Returns lines about what was cut, and about failures.
    pub(crate) fn shut_down_by_force(self: &Arc<Self>, stores: StoreRule) -> Vec<String> {
        self.pool_table.set_stopping(true);
        self.replications.close();
        self.transfers.break_off();
        self.give_up_suspended();
        match stores {
            StoreRule::GiveUp => self.give_up_all_stores(),
            StoreRule::Wait => self.store_patience.set(Some(self.patience_at_stop)),
        }
        let unflushed = self.unflushed();
        log(self.close_offers(true).err().into_iter().collect());
        self.flush_mappings();
        let is_durable = self.flush_last(unflushed);
        let mut cuts = Vec::new();
        match self.leave_all(true, &mut cuts) {
            Ok(()) if is_durable => self.last_run.note_clean(),
            Ok(()) => {}
            Err(failure) => {
                let text =
                    "some pools could not be exported; synced data is there at the next import";
                tracing::error!(reason = failure.message, "{text}");
                cuts.push(format!("{text}: {}", failure.message));
            }
        }
        cuts
    }

    /// Exports all pools, and closes the mappings on volumes: what lies on others comes before these.
    fn leave_all(self: &Arc<Self>, force: bool, cuts: &mut Vec<String>) -> Result<()> {
        let mut result = Ok(());
        let pools = self.pools().into_iter().map(OpenLayer::Pool);
        let mappings = self.mappings_on_lent().into_iter();
        let mappings = mappings.map(|(name, places)| OpenLayer::Mapping(name, places));
        let mut layers = by_layer(
            pools.chain(mappings).collect(),
            OpenLayer::carrier,
            OpenLayer::below,
        );
        while let Some(layer) = layers.pop() {
            let (mut pools, mut mappings) = (Vec::new(), Vec::new());
            for one in layer {
                match one {
                    OpenLayer::Pool(active) => pools.push(active),
                    OpenLayer::Mapping(name, _) => mappings.push(name),
                }
            }
            let notifiers: Vec<_> = pools.iter().map(|active| active.close_notifier()).collect();
            let left = self.leave(pools, force, cuts);
            let closed = mappings
                .iter()
                .try_for_each(|name| self.set_mapping_aside(name));
            let is_left = left.is_ok() && closed.is_ok();
            result = result.and(left).and(closed);
            if !is_left && !force {
                break;
            }
            // What they lie on is in use until they are closed.
            for notifier in notifiers.iter().filter(|_| is_left && !layers.is_empty()) {
                notifier.wait();
            }
        }
        result
    }

    fn leave(
        self: &Arc<Self>,
        pools: Vec<Arc<ActivePool>>,
        force: bool,
        cuts: &mut Vec<String>,
    ) -> Result<()> {
        // One that was exported meanwhile has left already.
        let mut held: Vec<(&Arc<ActivePool>, Admin<'_>)> = pools
            .iter()
            .filter_map(|active| Some((active, active.lock(&Internal).ok()?)))
            .collect();
        let wanted: Vec<PoolEntries<'_>> = held
            .iter()
            .map(|(active, _)| (*active, active.used_ids()))
            .collect();
        let withdrawn = match force {
            false => self.withdraw(&wanted, false)?,
            true => {
                log(self.withdraw_what_can(&wanted));
                cuts.extend(held.iter().flat_map(|(active, _)| active.take_cuts()));
                WithdrawnOffers::default()
            }
        };
        // Pools that may have to wait for a store come last.
        held.sort_by_key(|(active, _)| may_wait(active));
        let mut failures = Vec::new();
        for (active, admin) in &mut held {
            match active.export(admin) {
                Ok(()) => {
                    if let Some(loss) = loss_at_export(active) {
                        tracing::error!("{loss}");
                        cuts.push(loss);
                    }
                    self.pool_table.set_aside(active);
                }
                Err(failure) => failures.push(failure.context(active.pool.name())),
            }
        }
        // Of pools that could not be exported.
        log(withdrawn.offer_again(self));
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.remove(0)),
        }
    }
}

/// The treatment of stores that do not answer when the daemon ends by force.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreRule {
    /// A wait as long as `patience_at_stop` says.
    Wait,
    /// No wait: they are given up at once.
    GiveUp,
}

/// The loss that an export without the store may mean, for the user. `None` if the pool waits for no store.
fn loss_at_export(active: &ActivePool) -> Option<String> {
    let reason = active.pool.suspended()?;
    let devices = active.pool.devices();
    let mut paths = devices.iter().map(|device| &device.path);
    let path = paths.find(is_on_store)?;
    Some(format!(
        "the pool '{}' ends without its store {path}: what was written and not synced may be lost; synced data is there at \
         the next import ({reason})",
        active.pool.name()
    ))
}

fn may_wait(active: &ActivePool) -> bool {
    let devices = active.pool.devices();
    devices.iter().any(|device| is_on_store(&device.path))
}

/// A pool or a mapping that is open when the daemon ends.
enum OpenLayer {
    Pool(Arc<ActivePool>),
    Mapping(String, Vec<PathBuf>),
}

impl OpenLayer {
    fn carrier(&self) -> Carrier {
        match self {
            OpenLayer::Pool(active) => Carrier::Pool(active.pool.name()),
            OpenLayer::Mapping(name, _) => Carrier::Mapping(name.clone()),
        }
    }

    fn below(&self) -> Vec<Carrier> {
        match self {
            OpenLayer::Pool(active) => {
                let devices = active.pool.devices();
                below(devices.iter().map(|device| Path::new(&device.path)))
            }
            OpenLayer::Mapping(_, places) => below(places.iter().map(PathBuf::as_path)),
        }
    }
}

fn log(failures: Vec<Failure>) {
    for failure in failures {
        tracing::error!(reason = failure.message, "while the daemon ends");
    }
}
