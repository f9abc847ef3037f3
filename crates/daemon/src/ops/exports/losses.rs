//! The volumes that may have lost changes, although their clients were told that these were done.

use dataset::{SyncMode, WriteCache};
use pool::{DatasetKind, Entry};

use crate::state::datasets::properties;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::last_end::LastEnd;

impl ActivePool {
    /// Notes for each volume whether answered changes may be lost after such an end. `has_lost`: since an earlier one, whose
    /// logs are gone.
    pub(crate) fn note_losses(&self, end: LastEnd, has_lost: bool) {
        let heads = self.all_heads().unwrap_or_default();
        for entry in heads.iter().filter(|it| it.kind == DatasetKind::Volume) {
            let has_log = has_lost || entry.log.exists();
            if self.may_have_lost(entry, end, has_log) {
                self.losses.of(entry.id).note();
            }
        }
    }

    /// Notes that a suspended pool has read everything since its last commit from its devices again.
    pub(crate) fn note_losses_in_use(&self) {
        for id in self.volumes_in_use() {
            let entry = self.pool.entry(id);
            if entry.is_ok_and(|entry| self.may_have_lost(&entry, LastEnd::Machine, true)) {
                self.losses.of(id).note();
            }
        }
    }

    fn may_have_lost(&self, entry: &Entry, end: LastEnd, has_log: bool) -> bool {
        let Ok(settings) = properties::settings(&self.pool, entry) else {
            return end != LastEnd::Clean;
        };
        match (settings.sync, settings.write_cache) {
            (SyncMode::Standard, WriteCache::Volatile) => end != LastEnd::Clean,
            // Without a log nothing was answered before it was durable.
            (SyncMode::Standard, WriteCache::On) => end == LastEnd::Machine && has_log,
            // Answers were durable, or nothing was promised.
            (SyncMode::Standard, WriteCache::Off) | (SyncMode::Always | SyncMode::Disabled, _) => {
                false
            }
        }
    }
}
