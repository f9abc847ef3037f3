//! Imports the pools and opens the mappings of the last run when the daemon starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use protocol::api::{FailureKind, command};
use protocol::device_name::DeviceName;

use crate::failure::{Failure, Result};
use crate::ops::devices::layers::{Carrier, below, by_layer};
use crate::ops::imports::late::{StorePool, lies_on_store};
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::devices::mapping_table::KnownMapping;
use crate::state::memory::KnownPool;

/// A pool or a mapping that the daemon opens at its start.
enum Start {
    Pool(String, KnownPool),
    Mapping(String, Box<KnownMapping>),
}

impl Start {
    fn carrier(&self) -> Carrier {
        match self {
            Start::Pool(name, _) => Carrier::Pool(name.clone()),
            Start::Mapping(name, _) => Carrier::Mapping(name.clone()),
        }
    }

    fn places(&self) -> Vec<PathBuf> {
        match self {
            Start::Pool(_, known) => known.paths(),
            Start::Mapping(_, known) => known.places().map(Path::to_owned).collect(),
        }
    }

    fn below(&self) -> Vec<Carrier> {
        below(self.places().iter().map(PathBuf::as_path))
    }

    fn is_remote(&self) -> bool {
        let places = self.places();
        let mut places = places.iter();
        places.any(|path| DeviceName::parse(path).kind().may_wait)
    }
}

impl Daemon {
    /// Imports again the pools that were imported when the daemon last ran, and opens the mappings of the table: those on
    /// which others lie come first.
    pub(crate) fn import_remembered(self: &Arc<Self>, keys_until: Instant) {
        let remembered = self.pool_table.recall();
        let mappings = self.mappings.recall();
        let places = remembered.paths();
        let pools = remembered.pools.into_iter();
        let mappings = mappings.into_iter();
        let all = { mappings.map(|(name, known)| Start::Mapping(name, Box::new(known))) }
            .chain(pools.map(|(name, known)| Start::Pool(name, known)))
            .collect();
        let layers = by_layer(all, Start::carrier, Start::below);
        // What lies on local devices does not wait for servers that others need.
        let layers = layers.into_iter().map(|mut layer| {
            layer.sort_by_key(Start::is_remote);
            layer
        });
        for layer in layers {
            let mut attempts = Vec::new();
            for one in layer {
                match one {
                    Start::Mapping(name, _) => drop(self.open_known(&name)),
                    Start::Pool(name, known) if lies_on_store(&known) => {
                        let places = places.clone();
                        let pool = StorePool {
                            name,
                            known,
                            places,
                        };
                        attempts.push(self.begin_import(pool, keys_until));
                    }
                    Start::Pool(name, known) => {
                        drop(self.import_again(&name, &known, &places, keys_until));
                    }
                }
            }
            // The next layer may lie on them. A store that does not answer keeps up nothing else for long.
            for attempt in attempts {
                attempt.wait_until(keys_until);
            }
        }
    }

    /// Imports a pool that was imported before. If that is impossible, the pool is remembered, with the reason.
    ///
    /// # Errors
    /// The reason of the failure.
    pub(crate) fn import_again(
        self: &Arc<Self>,
        name: &str,
        known: &KnownPool,
        places: &[PathBuf],
        keys_until: Instant,
    ) -> Result<()> {
        if let Some((mapping, reason)) = self.awaited_mapping(known) {
            let mapping = mapping.open.name;
            let reason = format!("it waits for the mapping '{mapping}': {reason}");
            tracing::error!(pool = name, reason, "the pool waits");
            self.pool_table.note_absent(name, &reason);
            return Err(Failure::new(FailureKind::Busy, reason));
        }
        let mut nobody = NonInteractive::default();
        let mut context = CallerContext::internal("import at start", &mut nobody);
        let keys = Some(keys_until);
        let result = self.import_known(name, known, places, keys, &mut context);
        nobody.log();
        match &result {
            Ok(()) => tracing::info!(pool = name, "imported"),
            Err(failure) => {
                let reason = &failure.message;
                self.pool_table.note_absent(name, reason);
                let again = match self.late_imports.has(name) {
                    true => "could not be imported; it may be tried again",
                    false => "could not be imported; try again with 'strongroom pool import'",
                };
                tracing::error!(pool = name, reason, "{again}");
            }
        }
        result
    }

    fn import_known(
        self: &Arc<Self>,
        name: &str,
        known: &KnownPool,
        places: &[PathBuf],
        keys_until: Option<Instant>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let import = command::PoolImport {
            search: known.paths(),
            pool: Some(name.to_owned()),
            read_only: known.read_only,
            refresh: known.refresh,
            load_keys: true,
            // An older program imported it. It read the keys from the places in the properties.
            accept: known.guid.is_none(),
            altroot: known.altroot.clone(),
            ..command::PoolImport::default()
        };
        match known.guid {
            None => self.import_pools(&import, keys_until, context).map(|_| ()),
            Some(guid) => {
                let _readers = self.object_devices.keep_readers();
                let candidate = self.known_candidate(name, guid, known, places)?;
                self.import_one(&candidate, &import, keys_until, context)
                    .map(|_| ())
            }
        }
    }
}
