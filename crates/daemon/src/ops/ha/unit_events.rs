//! Events of units that wait, and of those that do not wait any more.

use std::collections::BTreeMap;

use crate::state::daemon::Daemon;
use crate::state::exports::ha_targets::ServedTargets;

impl Daemon {
    /// Adds an event for each unit of a pool that waits for a new reason, and for each that is served after it waited.
    pub(super) fn tell_of_waiting(
        &self,
        pool: &str,
        before: &BTreeMap<u64, String>,
        serving: &ServedTargets,
    ) {
        for (guid, planned) in &serving.plan.units {
            let (name, lun) = (&planned.name, planned.lun);
            match (before.get(guid), serving.waiting.get(guid)) {
                (old, Some(why)) if old != Some(why) => {
                    let text = format!("'{name}' is not served as unit {lun}: {why}");
                    self.events.add("unit_wait", pool, &text);
                }
                (Some(_), None) if serving.units.contains_key(guid) => {
                    let text = format!("'{name}' is served as unit {lun}");
                    self.events.add("unit_serve", pool, &text);
                }
                _ => {}
            }
        }
    }
}
