//! Pools that this machine used when the daemon last ran, and that could not be imported since.

use std::path::Path;

use protocol::api::{FailureKind, PoolReport, command};

use super::scan::FoundPool;
use crate::failure::{Failure, Result};
use crate::ops::devices::stores::store_outages::outage;
use crate::ops::pools::report::blank;
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
        if self.late_imports.has(name) {
            let paths = known.paths().into_iter();
            let outages = paths.filter_map(|path| Some((outage(&path.to_string_lossy())?, path)));
            if let Some((outage, path)) = outages.max_by_key(|(outage, _)| outage.time) {
                report.trouble = Some(format!(
                    "The pool is being imported: {} has not answered for {} s.",
                    path.display(),
                    outage.time.as_secs()
                ));
            }
            report.action = Some(format!(
                "Nothing has to be done: the daemon tries again by itself, at least once a minute. To try now: 'strongroom \
                 pool import {name}'. To forget the pool: 'strongroom pool export {name}'."
            ));
        }
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
    PoolReport {
        trouble: Some(format!(
            "The pool was imported here before, and is not imported now: {}.",
            reason.unwrap_or("its devices were not looked at yet")
        )),
        action: Some(format!(
            "Attach its devices and run 'strongroom pool import {name}'. To forget the pool: 'strongroom pool \
             export {name}'."
        )),
        read_only: known.read_only,
        altroot: known
            .altroot
            .as_ref()
            .map(|root| root.display().to_string()),
        ..blank(name, known.guid.unwrap_or(0))
    }
}
