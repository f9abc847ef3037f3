//! The caller of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool::{Entry, Origin, Reach};
use protocol::api::FailureKind;
use protocol::property::{PROPERTIES, Property, Settable};
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::host::callers::users::{Peer, host_name};
use crate::state::callers::budget::Payer;
use crate::state::callers::channel::Channel;
use crate::state::callers::decision::{Decide, Internal};
use crate::state::datasets::properties;
use crate::state::pools::active_pool::ActivePool;
use crate::state::zones::rules::may_set;
use crate::state::zones::view::ZoneView;

/// Callers other than root add properties, tags, bookmarks and permissions to a pool until it has this many bytes of
/// them.
const TEXTS_OF_OTHERS: u64 = 32 << 20;

/// The bytes of properties that a new dataset usually has.
pub(crate) const ENTRY_TEXTS: usize = 1024;

/// The caller of a command, and how to ask it.
pub(crate) struct CallerContext<'a> {
    pub(crate) peer: Peer,
    /// The view of a tenant; `None` for other callers.
    pub(crate) view: Option<&'a ZoneView>,
    /// All pools, for checks of a caller who is not root.
    pub(crate) pools: &'a dyn Fn() -> Vec<Arc<ActivePool>>,
    /// The command line, for the history.
    pub(crate) said: String,
    /// The decision that the caller may do this.
    pub(crate) decision: &'a dyn Decide,
    pub(crate) channel: &'a mut dyn Channel,
}

impl<'a> CallerContext<'a> {
    /// The context of an action of the daemon itself.
    pub(crate) fn internal(what: &str, channel: &'a mut dyn Channel) -> CallerContext<'a> {
        let peer = Peer {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: Vec::new(),
            is_admin: true,
            token: None,
            who: format!("daemon on {}", host_name()),
        };
        CallerContext {
            peer,
            view: None,
            pools: &Vec::new,
            said: what.into(),
            decision: &Internal,
            channel,
        }
    }

    /// The same caller with another channel.
    pub(crate) fn with_channel<'b>(&'b self, channel: &'b mut dyn Channel) -> CallerContext<'b> {
        CallerContext {
            peer: self.peer.clone(),
            view: self.view,
            pools: self.pools,
            said: self.said.clone(),
            decision: self.decision,
            channel,
        }
    }

    /// The properties that the caller may not set on a dataset; for a tenant, on a dataset below the root of the zone.
    pub(crate) fn forbidden(
        &self,
        active: &ActivePool,
        entry: &Entry,
    ) -> Result<BTreeSet<&'static str>> {
        forbidden(&self.peer, self.view, active, entry)
    }

    /// The user who is charged for the work of the command.
    pub(crate) fn payer(&self) -> Payer {
        Payer::of(&self.peer, self.view.map(|view| view.root.guid))
    }

    /// Returns whether the caller may know and do everything.
    pub(crate) fn is_root(&self) -> bool {
        self.peer.is_admin && self.view.is_none()
    }

    /// Refuses a delegate or tenant to add `more` bytes of properties, tags, bookmarks or permissions, if the pool has
    /// many. They are in the memory of the daemon. Root may add some still.
    pub(crate) fn check_texts(&self, active: &ActivePool, more: usize) -> Result<()> {
        if self.is_root()
            || more == 0
            || active.pool.texts().saturating_add(more as u64) <= TEXTS_OF_OTHERS
        {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::NoSpace,
            format!(
                "the properties, tags, bookmarks and permissions in the pool take more than {} MiB, so only root adds \
                 some; remove some first",
                TEXTS_OF_OTHERS >> 20
            ),
        ))
    }

    /// The caller and the command line, for the history.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            who: self.peer.who.clone(),
            uid: Some(self.peer.uid),
            text: self.said.clone(),
        }
    }

    /// The owner of new datasets.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            uid: self.peer.uid,
            gid: self.peer.gid,
        }
    }

    /// The owner of the root of a dataset that is mounted for the first time, and that another caller has made. If the
    /// caller is a delegate, it is the daemon's user.
    pub(crate) fn owner_elsewhere(&self) -> Caller {
        match self.creator() {
            None => self.caller(),
            Some(_) => Caller {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
        }
    }

    /// The uid of a delegate, who gets the permissions of a creator on new datasets. `None` for root and tenants.
    pub(crate) fn creator(&self) -> Option<u32> {
        (!self.peer.is_admin && self.view.is_none()).then_some(self.peer.uid)
    }

    /// Records the caller as the owner of a new dataset, unless its properties name one. A tenant with the number of
    /// root is not root: the dataset gets no owner.
    pub(crate) fn record_owner(&self, props: &mut BTreeMap<String, String>) {
        let is_root_of_a_zone = self.view.is_some() && self.peer.uid == 0;
        if !is_root_of_a_zone {
            let uid = self.peer.uid.to_string();
            props.entry(properties::OWNER.into()).or_insert(uid);
        }
    }

    /// Returns whether the caller, if it is a delegate, has a permission on a dataset or on that of a snapshot. One
    /// that is gone counts, because only who may destroys it.
    pub(crate) fn may_see(&self, active: &ActivePool, name: &str) -> bool {
        let dataset = name.split_once('@').map_or(name, |(dataset, _)| dataset);
        let Ok(entry) = active.pool.find(dataset) else {
            return true;
        };
        self.creator().is_none()
            || active
                .allows_something(&entry, &self.peer)
                .unwrap_or_default()
    }

    /// Reports failures that do not make the command fail.
    pub(crate) fn tell(&mut self, failures: Vec<Failure>) {
        for failure in failures {
            self.channel.notice(failure.message);
        }
    }

    /// Reports the mounts in use that the command has ended. It has the lock of the pool.
    pub(crate) fn tell_cuts(&mut self, active: &ActivePool) {
        let cuts = active.take_cuts().into_iter();
        cuts.for_each(|text| self.channel.notice(text));
    }
}

/// See [`CallerContext::forbidden`].
pub(crate) fn forbidden(
    peer: &Peer,
    view: Option<&ZoneView>,
    active: &ActivePool,
    entry: &Entry,
) -> Result<BTreeSet<&'static str>> {
    let mut forbidden = BTreeSet::new();
    let settable = |property: &&Property| property.settable != Settable::Never;
    let names = PROPERTIES.iter().filter(settable).map(|known| known.name);
    for name in names.chain([properties::OF_USERS]) {
        let may = match view {
            Some(_) => name == properties::OF_USERS || may_set(name, false),
            None => peer.is_admin || active.allows(entry, peer, name)?,
        };
        if !may {
            forbidden.insert(name);
        }
    }
    Ok(forbidden)
}

/// The datasets that are destroyed together with the named ones.
pub(crate) fn reach(recursive: bool, clones: bool) -> Reach {
    match clones {
        true => Reach::Clones,
        false => recursive.into(),
    }
}

/// Returns the first failure as that of the command, and reports the others.
pub(crate) fn first_of(mut failures: Vec<Failure>, context: &mut CallerContext<'_>) -> Result<()> {
    if failures.is_empty() {
        return Ok(());
    }
    let first = failures.remove(0);
    context.tell(failures);
    Err(first)
}

/// Returns the failure of the request itself, otherwise the first of the later failures. Reports the others.
pub(crate) fn all_done(
    result: pool::Result<()>,
    failures: Vec<Failure>,
    context: &mut CallerContext<'_>,
) -> Result<()> {
    match result {
        Ok(()) => first_of(failures, context),
        Err(error) => {
            context.tell(failures);
            Err(error.into())
        }
    }
}
