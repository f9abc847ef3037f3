//! A zone: its owner, its socket, and the lock on its names.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use admission::StopSignal;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use pool::Entry;
use protocol::accounts;
use protocol::api::{FailureKind, ZoneProfile};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::host::listen::SocketFile;
use crate::state::callers::command_connections::STOPPED;
use crate::state::callers::connections::Connections;
use crate::state::memory::StateDir;

/// The number of commands of a tenant that may run at the same time.
const COMMANDS_MAX: usize = 64;

/// The file in the state directory that remembers zones.
const MEMORY: &str = "zones.json";

/// The table of zones.
pub(crate) struct Zones {
    state: Arc<StateDir>,
    all: Mutex<BTreeMap<String, Arc<Zone>>>,
    /// Commands that make or destroy zones run one after the other.
    pub(crate) changing: Mutex<()>,
}

impl Zones {
    pub(crate) fn new(state: &Arc<StateDir>) -> Zones {
        Zones {
            state: Arc::clone(state),
            all: Mutex::default(),
            changing: Mutex::default(),
        }
    }

    /// The zones, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Zone>> {
        self.all.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Zone>> {
        self.all.lock().get(name).cloned()
    }

    /// The zone with a name, or a failure.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Zone>> {
        self.get(name).ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!("there is no zone '{name}'; 'strongroom zone list' lists all zones"),
            )
        })
    }

    /// Adds a zone. [`Zones::remember`] writes the table.
    pub(crate) fn insert(&self, zone: &Arc<Zone>) {
        let mut all = self.all.lock();
        let before = all.insert(zone.name.clone(), Arc::clone(zone));
        debug_assert!(before.is_none(), "two zones have the name '{}'", zone.name);
    }

    /// Removes a zone. [`Zones::remember`] writes the table.
    pub(crate) fn remove(&self, name: &str) {
        self.all.lock().remove(name);
    }

    /// Reads the zones of the last daemon.
    pub(crate) fn recall(&self) -> BTreeMap<String, RememberedZone> {
        self.state.recall(MEMORY, "strongroom zone create")
    }

    /// Writes the table to the state directory.
    pub(crate) fn remember(&self) -> Result<()> {
        let zones = self.all.lock();
        let remembered =
            |(name, zone): (&String, &Arc<Zone>)| (name.clone(), RememberedZone::of(zone));
        let all: BTreeMap<String, RememberedZone> = zones.iter().map(remembered).collect();
        self.state.remember(MEMORY, &all)
    }
}

pub(crate) struct Zone {
    pub(crate) name: String,
    pub(crate) is: ZoneDefinition,
    /// Changes under the lock of the pool.
    profile: Mutex<ZoneProfile>,
    pub(crate) callers: Connections,
    /// See [`Zone::guard_names`].
    pub(crate) names: RwLock<()>,
    /// The socket of the zone; `None` if listening failed.
    pub(crate) listening: Mutex<Option<ZoneListener>>,
}

/// Locks the names in a zone.
pub(crate) enum NameGuard<'a> {
    AsItIs,
    Shared(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'a, ()>),
}

/// The definition of a zone, in the state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneDefinition {
    /// The guid of the pool.
    pub(crate) pool: u64,
    /// The id and the guid of the dataset.
    pub(crate) dataset: u64,
    pub(crate) guid: u64,
    /// The name of the dataset in the zone.
    pub(crate) alias: String,
    pub(crate) owner: Option<ZoneOwner>,
}

/// A zone as the state directory remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RememberedZone {
    #[serde(flatten)]
    is: ZoneDefinition,
    profile: Option<ZoneProfile>,
    /// The form of programs without profiles.
    #[serde(default, skip_serializing)]
    immutable: bool,
}

impl RememberedZone {
    fn of(zone: &Zone) -> RememberedZone {
        RememberedZone {
            is: zone.is.clone(),
            profile: Some(zone.profile()),
            immutable: false,
        }
    }

    pub(crate) fn into_zone(self, name: &str) -> Arc<Zone> {
        let before = match self.immutable {
            true => ZoneProfile::FixedConfiguration,
            false => ZoneProfile::None,
        };
        Zone::new(name, self.is, self.profile.unwrap_or(before))
    }
}

impl ZoneDefinition {
    /// The guid of the pool, and the id and the guid of the dataset. They name the root for ever.
    pub(crate) fn root(&self) -> Root {
        (self.pool, self.dataset, self.guid)
    }
}

/// See [`ZoneDefinition::root`].
pub(crate) type Root = (u64, u64, u64);

/// The user or group that may use a zone, besides root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ZoneOwner {
    User(u32),
    Group(u32),
}

impl ZoneOwner {
    /// `USER` or `:GROUP`, by name or number.
    pub(crate) fn parse(text: &str) -> Result<ZoneOwner> {
        let (found, what) = match text.strip_prefix(':') {
            Some(group) => (accounts::gid_of(group).map(ZoneOwner::Group), "group"),
            None => (accounts::uid_of(text).map(ZoneOwner::User), "user"),
        };
        found.ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                format!(
                    "there is no {what} '{}' on this machine",
                    text.trim_start_matches(':')
                ),
            )
        })
    }

    pub(crate) fn to_text(self) -> String {
        match self {
            ZoneOwner::User(uid) => accounts::user_name(uid).unwrap_or_else(|| uid.to_string()),
            ZoneOwner::Group(gid) => {
                format!(
                    ":{}",
                    accounts::group_name(gid).unwrap_or_else(|| gid.to_string())
                )
            }
        }
    }

    pub(crate) fn is(self, peer: &Peer) -> bool {
        match self {
            ZoneOwner::User(uid) => uid == peer.uid,
            ZoneOwner::Group(gid) => peer.groups.contains(&gid),
        }
    }
}

impl Zone {
    pub(crate) fn new(name: &str, is: ZoneDefinition, profile: ZoneProfile) -> Arc<Zone> {
        Arc::new(Zone {
            name: name.into(),
            is,
            profile: Mutex::new(profile),
            callers: Connections::new(COMMANDS_MAX),
            names: RwLock::default(),
            listening: Mutex::default(),
        })
    }

    /// Says which datasets the tenant cannot change.
    pub(crate) fn profile(&self) -> ZoneProfile {
        *self.profile.lock()
    }

    pub(crate) fn set_profile(&self, profile: ZoneProfile) {
        *self.profile.lock() = profile;
    }

    pub(crate) fn is_root(&self, pool: u64, entry: &Entry) -> bool {
        self.is.root() == (pool, entry.id, entry.guid)
    }

    /// Refuses users who may not use it. Root counts as a tenant here too.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        if peer.is_admin || self.is.owner.is_some_and(|owner| owner.is(peer)) {
            return Ok(());
        }
        Err(Failure::new(
            FailureKind::Permission,
            "this zone is for another user: root says which, with 'strongroom zone create --owner'",
        ))
    }
}

/// The socket where a tenant connects.
pub(crate) struct ZoneListener {
    pub(crate) listener: Arc<UnixListener>,
    pub(crate) stop: StopSignal,
    pub(crate) _socket: SocketFile,
}

impl Zone {
    /// Refuses new connections.
    pub(crate) fn close(&self) {
        if let Some(listening) = self.listening.lock().take() {
            listening.stop.tell(STOPPED);
        }
    }
}
