//! Pools that this machine used when the daemon last ran, and that could not be imported since.

use std::path::Path;

use protocol::api::{FailureKind, PoolReport, ScrubRow, command};

use super::scan::FoundPool;
use crate::failure::{Failure, Result};
use crate::state::daemon::Daemon;
use crate::state::memory::KnownPool;

impl Daemon {
    /// The reports on the absent pools with these names; on all absent pools if `names` is empty.
    pub(crate) fn absent_reports(&self, names: &[String]) -> Vec<PoolReport> {
        let absent = self.pool_table.absent();
        let wanted = |name: &String| names.is_empty() || names.contains(name);
        let wanted = absent.iter().filter(|(name, _)| wanted(name));
        wanted
            .map(|(name, known)| self.absent_report(name, known))
            .collect()
    }

    fn absent_report(&self, name: &str, known: &KnownPool) -> PoolReport {
        let mut report = report(name, known);
        if let Some((mapping, reason)) = self.awaited_mapping(known) {
            let mut options = String::new();
            if let Some(header) = &mapping.open.header {
                options = format!("--header {} ", header.display());
            }
            if mapping.open.plain.is_some() {
                options.push_str("--type plain ");
            }
            let (device, mapping) = (mapping.open.device.display(), mapping.open.name);
            report.trouble = Some(format!(
                "The pool waits for the mapping '{mapping}': {reason}."
            ));
            report.action = Some(format!(
                "To import it, open the mapping: 'strongroom luks open {options}{device} {mapping}'. To forget \
                 the pool: 'strongroom pool export {name}'."
            ));
        }
        report
    }

    /// Refuses a pool that has the name of an absent pool but another guid. It can be imported by its guid, or under
    /// a new name.
    pub(crate) fn refuse_impostor(
        &self,
        name: &str,
        candidate: &FoundPool,
        import: &command::PoolImport,
    ) -> Result<()> {
        let by_guid = import.pool.as_ref().and_then(|pool| pool.parse().ok());
        if by_guid == Some(candidate.guid) || import.new_name.is_some() {
            return Ok(());
        }
        let known = self.pool_table.absent().remove(name);
        let known = known.filter(|known| !known.is_of(candidate.guid));
        let Some(known) = known.and_then(|known| known.guid) else {
            return Ok(());
        };
        let found = candidate.guid;
        let path = candidate.paths.first().map_or(Path::new("-"), |path| path);
        Err(Failure::new(
            FailureKind::Permission,
            format!(
                "the pool '{name}' of this host has the guid {known}, and {} belongs to another pool with this \
                 name, with the guid {found}; to import the other pool: strongroom pool import -d {} {found}",
                path.display(),
                path.display()
            ),
        ))
    }
}

fn report(name: &str, known: &KnownPool) -> PoolReport {
    let reason = known.reason.as_deref();
    let none = ScrubRow {
        state: "none".into(),
        ..ScrubRow::default()
    };
    PoolReport {
        name: name.into(),
        guid: known.guid.unwrap_or(0),
        health: "UNAVAIL".into(),
        trouble: Some(format!(
            "The pool was imported here before, and is not imported now: {}.",
            reason.unwrap_or("its devices were not looked at yet")
        )),
        action: Some(format!(
            "Attach its devices and run 'strongroom pool import {name}'. To forget the pool: 'strongroom pool \
             export {name}'."
        )),
        size: 0,
        allocated: 0,
        free: 0,
        space_low: None,
        expandable: 0,
        dedupratio: 1.0,
        freeing: false,
        read_only: known.read_only,
        txg: 0,
        devices: Vec::new(),
        scrub: none.clone(),
        scrub_late: None,
        altroot: known
            .altroot
            .as_ref()
            .map(|root| root.display().to_string()),
        resilver: none,
        removal: None,
        trim: None,
        checkpoint: None,
        follower: None,
        initialize: None,
        damage: Vec::new(),
        waiting: Vec::new(),
        reader: None,
    }
}
