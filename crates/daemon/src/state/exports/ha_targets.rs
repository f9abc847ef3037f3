//! Targets and units that pools serve by their `ha.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::DeviceMeter;
use iscsi::{IscsiTarget, LogicalUnit, LoginRedirect, SanIdentity};
use parking_lot::Mutex;
use protocol::ha_file::NounRefusal;

use crate::state::exports::chap::ChapSources;
use crate::state::exports::listen::ListenAddress;

/// The targets and units that pools serve, by the guids of the pools. It changes under the lock of
/// `ExportTable::changing`.
#[derive(Default)]
pub(crate) struct HaTable(pub(crate) Mutex<BTreeMap<u64, ServedTargets>>);

/// The targets and units that one pool serves.
pub(crate) struct ServedTargets {
    pub(crate) plan: HaPlan,
    /// The open units, by the guids of their volumes.
    pub(crate) units: BTreeMap<u64, ServedUnit>,
    /// The reasons why units of the plan are not open, by the guids of their volumes.
    pub(crate) waiting: BTreeMap<u64, String>,
    /// The targets by name.
    pub(crate) targets: BTreeMap<String, Arc<IscsiTarget>>,
}

/// An open unit.
pub(crate) struct ServedUnit {
    pub(crate) unit: LogicalUnit,
    /// The operations on its volume.
    pub(crate) meter: Arc<DeviceMeter>,
}

/// A unit at one moment, for metrics.
pub(crate) struct UnitNow {
    /// The name of its volume.
    pub(crate) volume: String,
    /// True if the unit waits because an initiator would see another unit under its number.
    pub(crate) is_ambiguous: bool,
    /// The operations on the volume; absent if the unit is not served.
    pub(crate) meter: Option<Arc<DeviceMeter>>,
}

/// The targets and units that a pool has to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HaPlan {
    /// The name of the file with the plan.
    pub(crate) file: &'static str,
    /// The volumes, by guid.
    pub(crate) units: BTreeMap<u64, PlannedUnit>,
    /// The targets, by name.
    pub(crate) targets: BTreeMap<String, PlannedTarget>,
    /// Volumes that the file lists and that the pool does not have.
    pub(crate) missing: Vec<NounRefusal>,
    /// Volumes that were served under a number which an initiator would see twice.
    pub(crate) clashes: Vec<NounRefusal>,
    /// Volumes without a number.
    pub(crate) unnumbered: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedUnit {
    /// The id of the volume in its pool.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) lun: u16,
    /// True if the number is not remembered yet.
    pub(crate) is_new: bool,
    /// True if only administrators could give the volume its name.
    pub(crate) is_own: bool,
    /// The identity by which initiators find it again.
    pub(crate) identity: SanIdentity,
    /// True if an initiator would see another unit under its number, and this one waits.
    pub(crate) is_ambiguous: bool,
    /// The reason why the plan refuses the unit.
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlannedTarget {
    /// The addresses of the target.
    pub(crate) places: BTreeSet<ListenAddress>,
    /// The addresses that send initiators to another portal.
    pub(crate) moved: BTreeMap<ListenAddress, LoginRedirect>,
    pub(crate) chap: Option<ChapSources>,
    /// The views. For each initiator the first one that shows a unit counts.
    pub(crate) views: Vec<PlannedView>,
}

/// A planned view of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedView {
    /// The guid of its volume.
    pub(crate) unit: u64,
    /// The initiators that see it; all if absent.
    pub(crate) hosts: Option<BTreeSet<String>>,
    pub(crate) read_only: bool,
}

impl PlannedTarget {
    /// The portals that serve initiators.
    pub(crate) fn portals(&self) -> Vec<String> {
        let own = self.places.iter();
        let own = own.filter(|place| !self.moved.contains_key(place));
        own.map(ListenAddress::to_string).collect()
    }

    /// The initiators that see anything; all if absent.
    pub(crate) fn initiators(&self) -> Option<BTreeSet<&String>> {
        let mut all = BTreeSet::new();
        for view in &self.views {
            all.extend(view.hosts.as_ref()?);
        }
        (!all.is_empty()).then_some(all)
    }
}
