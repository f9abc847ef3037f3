//! The volumes of a pool, with what decides how they are served.

use std::collections::BTreeMap;

use pool::{DatasetKind, Entry};
use protocol::ha_file::STMF_PROPERTY;

use crate::failure::Result;
use crate::ops::users::delegation::{has_grants, is_delegated};
use crate::state::daemon::Daemon;
use crate::state::exports::registry::VolumeGuid;
use crate::state::pools::active_pool::ActivePool;

/// The property of a volume that stores the number of its unit. Users cannot set a property with this name.
pub(super) const LUN_PROPERTY: &str = "@lun";

/// A volume of the pool.
pub(super) struct HaVolume {
    pub(super) id: u64,
    pub(super) guid: u64,
    pub(super) name: String,
    /// The number that it had when it was served last.
    pub(super) remembered: Option<String>,
    /// True if only administrators could give the volume its name.
    pub(super) is_own: bool,
    /// The number that tells its unit from all others.
    pub(super) number: u64,
    /// The properties of stmf-ha, without the beginning of their names.
    pub(super) stmf: Vec<(String, String)>,
    /// True if only administrators can set the properties of the volume.
    pub(super) is_identified_by_admins: bool,
}

impl Daemon {
    pub(super) fn ha_volumes(&self, active: &ActivePool) -> Result<Vec<HaVolume>> {
        let listed = active.pool.list(active.pool.top()?.id)?.into_iter();
        let is_own =
            |entry: &Entry| !self.is_in_zone(active, entry) && !is_delegated(active, entry);
        let volumes = listed.filter(|it| it.entry.kind == DatasetKind::Volume);
        let volumes = volumes.map(|it| HaVolume {
            id: it.entry.id,
            guid: it.entry.guid,
            name: it.name,
            remembered: it.entry.props.get(LUN_PROPERTY).cloned(),
            is_own: is_own(&it.entry),
            number: number(active, it.entry.guid),
            stmf: stmf_properties(active, &it.entry),
            is_identified_by_admins: is_own(&it.entry) && !has_grants(&it.entry),
        });
        Ok(volumes.collect())
    }
}

/// The properties of stmf-ha that a volume has or inherits, without the beginning of their names.
fn stmf_properties(active: &ActivePool, entry: &Entry) -> Vec<(String, String)> {
    let mut all = BTreeMap::new();
    let mut here = Some(entry.clone());
    while let Some(entry) = here {
        for (name, value) in &entry.props {
            if let Some(name) = name.strip_prefix(STMF_PROPERTY) {
                // The nearest one counts.
                all.entry(name.to_owned()).or_insert_with(|| value.clone());
            }
        }
        let parent = active.pool.entry(entry.parent);
        here = parent.ok().map(|parent| (*parent).clone());
    }
    all.into_iter().collect()
}

/// The number that identifies the unit of a volume.
fn number(active: &ActivePool, dataset: u64) -> u64 {
    let pool = active.pool.guid();
    VolumeGuid { pool, dataset }.number()
}
