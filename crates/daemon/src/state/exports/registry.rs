//! The table of exports and their servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{DeviceMeter, LossNotice};
use iscsi::SanIdentity;
use parking_lot::Mutex;
use protocol::api::FailureKind;
use protocol::ha_file::HaIdentity;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::devices::device_name;
use crate::state::exports::chap::{ChapSources, TypedSecrets};
use crate::state::exports::device::Exportable;
use crate::state::exports::listen::{ListenAddress, Protocol};
use crate::state::exports::servers::{ExportServer, ServerExport, ServerExports};
use crate::state::memory::StateDir;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::last_end::LastEnd;

/// The file in the state directory that remembers exports.
const MEMORY: &str = "exports.json";

pub(crate) struct ExportTable {
    state: Arc<StateDir>,
    /// Commands that change anything here run one after the other. It is taken before locks of a pool.
    pub(crate) changing: Mutex<()>,
    /// The exports by name. Held briefly.
    all: Mutex<BTreeMap<String, Entry>>,
    /// The servers by place. Held briefly.
    servers: Mutex<BTreeMap<ListenAddress, ListeningServer>>,
    /// The secrets that users typed.
    pub(crate) typed: TypedSecrets,
    /// Losses that clients of devices other than volumes have to be told of, by the name of the device.
    losses: Mutex<BTreeMap<String, Arc<LossNotice>>>,
}

impl ExportTable {
    pub(crate) fn new(state: &Arc<StateDir>) -> ExportTable {
        ExportTable {
            state: Arc::clone(state),
            changing: Mutex::default(),
            all: Mutex::default(),
            servers: Mutex::default(),
            typed: TypedSecrets::default(),
            losses: Mutex::default(),
        }
    }

    /// Reads the exports of the last daemon.
    pub(crate) fn recall(&self) -> BTreeMap<String, ExportDefinition> {
        self.state.recall(MEMORY, "strongroom nbd export")
    }

    /// Writes the table to the state directory.
    pub(crate) fn remember(&self) -> Result<()> {
        let all = self.all.lock();
        let all: BTreeMap<&String, &ExportDefinition> =
            all.iter().map(|(name, entry)| (name, &entry.is)).collect();
        if all.is_empty() && !self.state.file(MEMORY).exists() {
            return Ok(());
        }
        self.state.remember(MEMORY, &all)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Entry> {
        self.all.lock().get(name).cloned()
    }

    /// Removes an export. [`ExportTable::remember`] writes the table.
    pub(crate) fn remove(&self, name: &str) -> Option<Entry> {
        self.all.lock().remove(name)
    }

    /// The exports that are not open, those from the last run of the daemon included. These are added to the table.
    pub(crate) fn closed(&self) -> Vec<(String, ExportDefinition)> {
        let mut all = self.all.lock();
        for (name, is) in self.recall() {
            let state = State::Opening;
            all.entry(name).or_insert(Entry { is, state });
        }
        let closed = all
            .iter()
            .filter(|(_, entry)| !matches!(entry.state, State::Open(..)));
        closed
            .map(|(name, entry)| (name.clone(), entry.is.clone()))
            .collect()
    }

    /// The exports of volumes, by the name of each volume and, if it is known, its guid.
    pub(crate) fn of_volumes(
        &self,
        is_one: impl Fn(&str, Option<VolumeGuid>) -> bool,
    ) -> Vec<(String, ExportDefinition)> {
        let all = self.all.lock();
        let is_one = |is: &ExportDefinition| match &is.device {
            Exportable::Volume(name) => is_one(name, is.volume),
            Exportable::File(_) | Exportable::Luks(_) | Exportable::Nbd(_) => false,
        };
        all.iter()
            .filter(|(_, entry)| is_one(&entry.is))
            .map(|(name, entry)| (name.clone(), entry.is.clone()))
            .collect()
    }

    /// Refuses a unit that initiators would take for that of another export.
    pub(crate) fn refuse_identity(&self, identity: &SanIdentity) -> Result<()> {
        let all = self.all.lock();
        let is_other = |is: &ExportDefinition| {
            let other = is.san_identity();
            is.listen.protocol() == Protocol::Iscsi
                && other.number != identity.number
                && other.is_taken_for(identity)
        };
        match all.iter().find(|(_, entry)| is_other(&entry.is)) {
            None => Ok(()),
            Some((name, _)) => Err(Failure::new(
                FailureKind::Exists,
                format!("the export '{name}' has the same serial number or NAA"),
            )),
        }
    }

    /// The exports of the server at an address, if one listens there.
    pub(crate) fn served_at(&self, place: &ListenAddress) -> Option<ServerExports> {
        let servers = self.servers.lock();
        servers.get(place).map(|server| server.offers.clone())
    }

    pub(crate) fn served(&self) -> Vec<ServerExports> {
        let servers = self.servers.lock();
        servers
            .values()
            .map(|server| server.offers.clone())
            .collect()
    }

    /// Stops the servers at these addresses that have no exports any more.
    pub(crate) fn stop_idle_servers(&self, is_one: impl Fn(&ListenAddress) -> bool) {
        let mut servers = self.servers.lock();
        servers.retain(|place, server| !is_one(place) || !server.offers.is_empty());
    }

    /// The losses that clients of a device have to be told of, which is no volume.
    pub(crate) fn losses(&self, device: &Exportable) -> Arc<LossNotice> {
        Arc::clone(self.losses.lock().entry(device.shown()).or_default())
    }

    /// Notes whether answered changes of a device that is no volume may be lost after such an end.
    pub(crate) fn note_loss(&self, device: &Exportable, end: LastEnd) {
        let may_have_lost = match device {
            // The cache of the system has them, but a mapping may be on anything.
            Exportable::File(_) => end == LastEnd::Machine,
            Exportable::Luks(_) => end != LastEnd::Clean,
            // The other server has them; a volume has its own notice.
            Exportable::Nbd(_) | Exportable::Volume(_) => false,
        };
        if may_have_lost {
            self.losses(device).note();
        }
    }
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) is: ExportDefinition,
    pub(crate) state: State,
}

#[derive(Clone)]
pub(crate) enum State {
    /// An export that is being opened.
    Opening,
    Open(ServerExport, Arc<DeviceMeter>),
    /// The reason why it could not be opened.
    Failed(String),
}

/// The definition of an export, in the state directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ExportDefinition {
    pub(crate) device: Exportable,
    pub(crate) description: String,
    pub(crate) read_only: bool,
    pub(crate) listen: ListenAddress,
    /// Further portals of iSCSI at which it is offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) more: Vec<ListenAddress>,
    /// The directory with the certificates.
    pub(crate) certificates: Option<PathBuf>,
    /// The guids of the volume. Absent for other devices, and in files of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<VolumeGuid>,
    /// The iSCSI initiators that may use it; all if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) initiators: Vec<String>,
    /// The identity that the unit had in another storage.
    #[serde(default, skip_serializing_if = "KeptIdentity::is_empty")]
    pub(crate) identity: KeptIdentity,
    /// The places of their CHAP secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chap: Option<ChapSources>,
    /// True if the last daemon left the export to the next one, so that requests of the kernel wait. All earlier writes
    /// are durable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waits: bool,
    /// The contents of the volume below it when the last daemon left it. Absent if there is no volume below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contents: Option<String>,
}

impl ExportDefinition {
    /// The places where it is offered.
    pub(crate) fn places(&self) -> impl Iterator<Item = &ListenAddress> {
        std::iter::once(&self.listen).chain(&self.more)
    }

    /// The places as text.
    pub(crate) fn shown_places(&self) -> String {
        let places: Vec<String> = self.places().map(ToString::to_string).collect();
        places.join(",")
    }

    /// The identity of the unit.
    pub(crate) fn san_identity(&self) -> SanIdentity {
        let kept = self.identity.clone();
        SanIdentity {
            number: self.unit_number(),
            serial: kept.serial,
            naa: kept.naa,
            block: kept.block,
        }
    }

    /// The number of the unit. A volume keeps it after a rename and on another host.
    pub(crate) fn unit_number(&self) -> u64 {
        match self.volume {
            Some(guid) => guid.number(),
            None => {
                // FNV-1a of what it is called.
                let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                self.device
                    .shown()
                    .bytes()
                    .fold(0xcbf2_9ce4_8422_2325, fold)
            }
        }
    }
}

/// The identity that the unit of an export keeps from another storage. What is absent comes from its number or its device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptIdentity {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) serial: Option<String>,
    /// The NAA designator: 8 or 16 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) naa: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<u32>,
}

impl KeptIdentity {
    fn is_empty(&self) -> bool {
        *self == KeptIdentity::default()
    }
}

impl From<HaIdentity> for KeptIdentity {
    fn from(it: HaIdentity) -> KeptIdentity {
        KeptIdentity {
            serial: it.serial,
            naa: it.naa,
            block: it.block,
        }
    }
}

/// A volume or snapshot of one, by guid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VolumeGuid {
    pub(crate) pool: u64,
    pub(crate) dataset: u64,
}

impl VolumeGuid {
    /// The number of the volume's unit.
    pub(crate) fn number(self) -> u64 {
        self.pool.rotate_left(32) ^ self.dataset
    }

    pub(crate) fn of(active: &ActivePool, entry: &pool::Entry) -> VolumeGuid {
        VolumeGuid {
            pool: active.pool.guid(),
            dataset: entry.guid,
        }
    }
}

/// A server and its exports.
pub(crate) struct ListeningServer {
    pub(crate) offers: ServerExports,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) _running: ExportServer,
}

/// The state of an export at one moment, for metrics.
pub(crate) struct ExportStatus {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) meter: Arc<DeviceMeter>,
    /// The counts of commands of an iSCSI target.
    pub(crate) commands: Option<iscsi::CommandCounts>,
}

impl ExportTable {
    /// Returns whether a server of this daemon listens at this socket.
    pub(crate) fn listens_at(&self, socket: &Path) -> bool {
        let servers = self.servers.lock();
        let mut places = servers.keys();
        places.any(|place| matches!(place, ListenAddress::Unix(path) if device_name::is_same(path, socket)))
    }

    /// A copy of all entries. Requests to a device or a target can take long, and the lock must not be held for them.
    pub(crate) fn entries(&self) -> Vec<(String, Entry)> {
        let all = self.all.lock();
        let all = all.iter().map(|(name, it)| (name.clone(), it.clone()));
        all.collect()
    }

    pub(crate) fn offered(&self, name: &str) -> Option<ServerExport> {
        match &self.all.lock().get(name)?.state {
            State::Open(offered, _) => Some(offered.clone()),
            State::Opening | State::Failed(_) => None,
        }
    }

    pub(crate) fn set(&self, name: &str, is: ExportDefinition, state: State) {
        self.all.lock().insert(name.into(), Entry { is, state });
    }

    /// The offers at a place of this export. Starts a server there if none listens.
    pub(crate) fn serve(
        &self,
        is: &ExportDefinition,
        place: &ListenAddress,
    ) -> Result<ServerExports> {
        self.serve_at(place, is.certificates.as_deref())
    }

    /// The offers at a place. Starts a server there if none listens.
    pub(crate) fn serve_at(
        &self,
        place: &ListenAddress,
        certificates: Option<&Path>,
    ) -> Result<ServerExports> {
        let mut servers = self.servers.lock();
        if let Some(offering) = servers.get(place) {
            if offering.certificates.as_deref() != certificates {
                return Err(Failure::usage(format!(
                    "exports are offered at {place} with other certificates; use these, or listen elsewhere"
                )));
            }
            return Ok(offering.offers.clone());
        }
        let (offers, running) = place.serve(certificates)?;
        let offering = ListeningServer {
            offers: offers.clone(),
            certificates: certificates.map(Into::into),
            _running: running,
        };
        servers.insert(place.clone(), offering);
        Ok(offers)
    }
}
