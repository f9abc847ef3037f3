//! The commands that load, unload and change keys.

use std::sync::Arc;

use keys::KeySource;
use pool::Entry;

use crate::api::{Failure, FailureKind};
use crate::failure::Result;
use crate::imported::Imported;
use crate::server::{Context, first_of};
use crate::state::Daemon;

/// Datasets of one pool whose keys a command is about.
type KeyTargets = (Arc<Imported>, Vec<Arc<Entry>>);

impl Daemon {
    pub(crate) fn key_load(
        &self,
        names: &[String],
        recursive: bool,
        location: Option<&str>,
        dry_run: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for (imported, entries) in self.key_targets(names, recursive)? {
            for entry in &entries {
                let mut load = || {
                    let root = key_root(&imported, entry, names)?;
                    let Some(root) = root else { return Ok(()) };
                    if !dry_run && names.is_empty() && imported.has_key(root.id) {
                        return Ok(());
                    }
                    let source = location
                        .map(|text| other_source(&imported, &root, text))
                        .transpose()?;
                    imported.load_key(&root, source.as_ref(), dry_run, context.asker)
                };
                failures.extend(load().err());
            }
        }
        first_of(failures, context)
    }

    pub(crate) fn key_unload(
        self: &Arc<Self>,
        names: &[String],
        recursive: bool,
        force: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for (imported, entries) in self.key_targets(names, recursive)? {
            let _admin = imported.lock()?;
            for entry in &entries {
                let unload = || {
                    let root = key_root(&imported, entry, names)?;
                    let Some(root) = root else { return Ok(()) };
                    if !imported.has_key(root.id) && (names.is_empty() || recursive) {
                        return Ok(());
                    }
                    self.unload_key(&imported, &root, force)
                };
                failures.extend(unload().err());
            }
        }
        first_of(failures, context)
    }

    /// Forgets a key. What is mounted with it is unmounted first.
    fn unload_key(
        self: &Arc<Self>,
        imported: &Arc<Imported>,
        root: &Entry,
        force: bool,
    ) -> Result<()> {
        if !imported.has_key(root.id) {
            let name = imported.pool.name_of(root.id)?;
            return Err(Failure::new(
                FailureKind::NoKey,
                format!("the key of '{name}' is not loaded"),
            ));
        }
        let mut users = Vec::new();
        for id in imported.mounted_ids() {
            if imported.key_root(&*imported.pool.entry(id)?)? == root.id {
                users.push(id);
            }
        }
        if let Some(user) = users.first().filter(|_| !force) {
            let pool = &imported.pool;
            let (root, user) = (pool.name_of(root.id)?, pool.name_of(*user)?);
            return Err(Failure::new(
                FailureKind::Busy,
                format!(
                    "the key of '{root}' is in use: '{user}' is mounted; unmount it, or use -f"
                ),
            ));
        }
        self.unmount_all(imported, &users, force)?;
        imported.keys.lock().remove(&root.id);
        Ok(())
    }

    /// The datasets whose keys a command is about, by pool; all if it names none.
    fn key_targets(&self, names: &[String], recursive: bool) -> Result<Vec<KeyTargets>> {
        if names.is_empty() {
            let all = self.pools().into_iter().map(|imported| {
                let entries = imported.all_heads()?;
                Ok((imported, entries))
            });
            return all.collect();
        }
        let named = names.iter().map(|name| {
            let (imported, entry) = self.find(name)?;
            let entries = if recursive {
                imported.heads_below(&entry)?
            } else {
                vec![entry]
            };
            Ok((imported, entries))
        });
        named.collect()
    }
}

/// The key root that a command means by a dataset: itself. Where a dataset was named that inherits
/// its key, that is an error; where it was not, it is passed over.
fn key_root(
    imported: &Imported,
    entry: &Arc<Entry>,
    names: &[String],
) -> Result<Option<Arc<Entry>>> {
    let key_root = imported.key_root(entry)?;
    if entry.suite != 0 && key_root == entry.id {
        return Ok(Some(Arc::clone(entry)));
    }
    let name = imported.pool.name_of(entry.id)?;
    if !names.contains(&name) {
        return Ok(None);
    }
    if entry.suite == 0 {
        return Err(Failure::other(format!("'{name}' is not encrypted")));
    }
    let root = imported.pool.name_of(key_root)?;
    Err(Failure::other(format!(
        "'{name}' has its key from '{root}'; load or unload that"
    )))
}

/// The key roots of a pool whose keys are not loaded.
pub(crate) fn unloaded_roots(imported: &Imported) -> Result<Vec<u64>> {
    let heads = imported.all_heads()?;
    let keys = imported.keys.lock();
    let is_wanted =
        |entry: &&Arc<Entry>| entry.key_root == entry.id && !keys.contains_key(&entry.id);
    Ok(heads
        .iter()
        .filter(is_wanted)
        .map(|entry| entry.id)
        .collect())
}

/// A key source with the same format and another location.
fn other_source(imported: &Imported, root: &Entry, location: &str) -> Result<KeySource> {
    let own = imported.keysource(root)?;
    Ok(format!("{},{location}", own.format()).parse()?)
}
