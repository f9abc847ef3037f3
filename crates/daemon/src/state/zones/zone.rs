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

/// The number of commands of a tenant that may run at the same time.
const COMMANDS_MAX: usize = 64;

/// The table of zones.
#[derive(Default)]
pub(crate) struct Zones {
    pub(crate) all: Mutex<BTreeMap<String, Arc<Zone>>>,
    /// Commands that make or destroy zones run one after the other.
    pub(crate) changing: Mutex<()>,
}

/// A zone.
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
    pub(crate) fn of(zone: &Zone) -> RememberedZone {
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

    /// Returns whether this is the root of the zone.
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
