//! The commands for keys.

use std::sync::Arc;

use keys::{KeySource, Location, MaterialFormat};
use pool::{Entry, Origin};
use protocol::api::{FailureKind, Rotation, command};

use crate::failure::{Failure, Result};
use crate::state::callers::context::{CallerContext, first_of};
use crate::state::daemon::Daemon;
use crate::state::datasets::changed_facts::Facts;
use crate::state::devices::leases::LeasedObject;
use crate::state::pools::active_pool::ActivePool;

/// The datasets of one pool whose keys a command works on.
type KeyTargets = (Arc<ActivePool>, Vec<Arc<Entry>>);

impl Daemon {
    /// Gives a dataset new data keys, or starts or pauses its re-encryption.
    pub(crate) fn key_rotate(
        &self,
        name: &str,
        how: Rotation,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let origin = context.origin();
        let (active, entry) = self.find(name)?;
        match how {
            Rotation::New => active.rotate_key(&entry, context.decision, &origin),
            Rotation::Reencrypt => {
                active.rotate_key(&entry, context.decision, &origin)?;
                // The history has the command already, from the rotation.
                let text = format!("re-encryption of {name} begins");
                active.start_reencryption(&entry, context.decision, &Origin { text, ..origin })
            }
            Rotation::Pause => active.pause_reencryption(&entry, context.decision, &origin),
            Rotation::Resume => active.start_reencryption(&entry, context.decision, &origin),
        }
    }

    pub(crate) fn key_load(
        self: &Arc<Self>,
        load: &command::KeyLoad,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (names, dry_run) = (&load.names, load.dry_run);
        let mut failures = Vec::new();
        for (active, entries) in self.key_targets(names, load.recursive)? {
            let meant = meant(&entries, names);
            for entry in &entries {
                let mut load_one = || {
                    let root = key_root(&active, entry, meant)?;
                    let Some(root) = root else { return Ok(()) };
                    // Of several keys, only those that are not loaded are loaded.
                    let is_one_of_several = names.is_empty() || load.recursive;
                    if !dry_run && is_one_of_several && active.has_key(root.id) {
                        return Ok(());
                    }
                    let sources = match (&load.keysource, &load.location) {
                        (Some(text), _) => vec![text.parse()?],
                        (None, Some(text)) => other_sources(&active, &root, text)?,
                        (None, None) => Vec::new(),
                    };
                    for named in &sources {
                        context.may_have_read(&active, &root, named)?;
                    }
                    active.load_key(&root, &sources, dry_run, context.decision, context.channel)
                };
                failures.extend(load_one().err());
            }
        }
        if !dry_run {
            // Exports of volumes that waited for a key.
            self.restore_offers();
        }
        first_of(failures, context)
    }

    /// Accepts the present values of `keysource` as sources of keys.
    pub(crate) fn key_accept(
        &self,
        names: &[String],
        recursive: bool,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        for (active, entries) in self.key_targets(names, recursive)? {
            // Of several datasets those are meant that have keys of their own.
            let meant = meant(&entries, names).filter(|_| !recursive);
            let mut roots = Vec::new();
            let _admin = active.lock(context.decision)?;
            for entry in &entries {
                let name = active.pool.name_of(entry.id)?;
                let entry = active.again(entry, &name, context.decision)?;
                roots.extend(key_root(&active, &entry, meant)?);
            }
            let roots: Vec<&Entry> = roots.iter().map(|root| &**root).collect();
            for root in &roots {
                context.may_have_read(&active, root, &active.keysource(root)?)?;
            }
            active.accept_sources(&roots)?;
        }
        Ok(())
    }

    pub(crate) fn key_unload(
        self: &Arc<Self>,
        names: &[String],
        recursive: bool,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut failures = Vec::new();
        for (active, entries) in self.key_targets(names, recursive)? {
            let meant = meant(&entries, names);
            let mut unloaded = Vec::new();
            let unload_all = || {
                let _admin = active.lock(context.decision)?;
                let mut failed = Vec::new();
                for entry in &entries {
                    let mut unload = || {
                        let name = active.pool.name_of(entry.id)?;
                        let entry = active.again(entry, &name, context.decision)?;
                        let root = key_root(&active, &entry, meant)?;
                        let Some(root) = root else { return Ok(()) };
                        if !active.has_key(root.id) && (names.is_empty() || recursive) {
                            return Ok(());
                        }
                        self.unload_key(&active, &root, force)?;
                        unloaded.push(root);
                        Ok(())
                    };
                    failed.extend(unload().err());
                }
                context.tell_cuts(&active);
                let last = failed.pop();
                failures.extend(failed);
                last.map_or(Ok(()), Err)
            };
            let volumes = || volumes_below(&active, &entries, meant);
            let done = self.without_offers_of(volumes, force, "its key was unloaded", unload_all);
            failures.extend(done.err());
            // Commands that use data keys may have waited for the lock of the pool.
            failures.extend(
                unloaded
                    .iter()
                    .filter_map(|root| active.end_uses(root).err()),
            );
        }
        first_of(failures, context)
    }

    /// Forgets a key. Mounts and exports that need it end first.
    pub(in crate::ops) fn unload_key(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        root: &Entry,
        force: bool,
    ) -> Result<()> {
        if !active.has_key(root.id) {
            let name = active.pool.name_of(root.id)?;
            return Err(Failure::new(
                FailureKind::NoKey,
                format!("the key of '{name}' is not loaded"),
            ));
        }
        if !force {
            active.key_may_go(root)?;
            self.withdraw(&[(active, Vec::new())], false)?;
            return active.remove_unused_key(root);
        }
        let wanted = [(active, active.used_below(root.id)?)];
        // The key goes, whatever cannot end.
        let kept = self.withdraw_what_can(&wanted);
        active.await_closed(&wanted[0].1)?;
        active.seal_changed_facts(root.id, Facts::All);
        active.keys.remove(&[root.id]);
        kept.into_iter().next().map_or(Ok(()), Err)
    }

    /// The datasets whose keys a command works on, by pool; all datasets if it names none.
    fn key_targets(&self, names: &[String], recursive: bool) -> Result<Vec<KeyTargets>> {
        if names.is_empty() {
            let all = self.pools().into_iter().map(|active| {
                let entries = active.all_heads()?;
                Ok((active, entries))
            });
            return all.collect();
        }
        let named = names.iter().map(|name| {
            let (active, entry) = self.find(name)?;
            let entries = if recursive {
                active.heads_below(&entry)?
            } else {
                vec![entry]
            };
            Ok((active, entries))
        });
        named.collect()
    }
}

impl ActivePool {
    /// The datasets in use that have the key of a key root.
    fn used_below(&self, root: u64) -> Result<Vec<u64>> {
        let mut used = Vec::new();
        for id in self.used_ids() {
            if self.key_root(&*self.pool.entry(id)?)? == root {
                used.push(id);
            }
        }
        Ok(used)
    }

    /// Refuses to unload a key that is in use.
    fn key_may_go(&self, root: &Entry) -> Result<()> {
        let name = self.pool.name_of(root.id)?;
        let busy = |message| Err(Failure::new(FailureKind::Busy, message));
        if let Some(used) = self.used_below(root.id)?.first() {
            let users = self.leases.users(&LeasedObject::Dataset(*used));
            let (used, users) = (self.pool.name_of(*used)?, users.join(" and "));
            return busy(format!(
                "the key of '{name}' is in use: '{used}' is used by {users}; end that, or use -f"
            ));
        }
        match self.leases.users(&LeasedObject::Key(root.id)).first() {
            Some(what) => busy(format!(
                "the key of '{name}' is in use, by {what}; end that, or use -f"
            )),
            None => Ok(()),
        }
    }

    /// Forgets a key that nothing uses. A volume or a stream may be opened with the key until it goes, as this needs no
    /// lock of the pool. Then the key comes back.
    pub(in crate::ops) fn remove_unused_key(&self, root: &Entry) -> Result<()> {
        self.seal_changed_facts(root.id, Facts::All);
        let key = self.keys.copy_of(root.id)?;
        self.keys.remove(&[root.id]);
        // A volume that is being opened has its lease once this lock is free.
        drop(self.volumes.lock());
        let unused = self.key_may_go(root);
        if let (Err(_), Some(key)) = (&unused, key) {
            self.keys.put_first(root.id, key);
        }
        unused
    }

    /// Ends the commands that still use data keys below a key that is unloaded.
    pub(in crate::ops) fn end_uses(&self, root: &Entry) -> Result<()> {
        if self.key_uses.end(root.id) {
            return Ok(());
        }
        let root = self.pool.name_of(root.id)?;
        Err(Failure::new(
            FailureKind::Busy,
            format!(
                "the key of '{root}' is unloaded, but a command that has its data keys has not ended yet"
            ),
        ))
    }
}

/// The dataset that must have a key of its own: the first one, if the command names datasets. An unencrypted dataset
/// is passed over if a dataset below it has a key of its own.
fn meant(entries: &[Arc<Entry>], names: &[String]) -> Option<u64> {
    let named = entries.first().filter(|_| !names.is_empty())?;
    let has_own = |entry: &Arc<Entry>| entry.suite != 0 && entry.key_root == entry.id;
    let is_passed_over = named.suite == 0 && entries.iter().any(has_own);
    (!is_passed_over).then_some(named.id)
}

/// The volumes in use whose keys these datasets have.
fn volumes_below(
    active: &ActivePool,
    entries: &[Arc<Entry>],
    meant: Option<u64>,
) -> Result<Vec<String>> {
    let mut volumes = Vec::new();
    for entry in entries {
        let Ok(Some(root)) = key_root(active, entry, meant) else {
            continue;
        };
        for id in active.volumes_in_use() {
            if active.key_root(&*active.pool.entry(id)?)? == root.id {
                volumes.push(active.pool.name_of(id)?);
            }
        }
    }
    Ok(volumes)
}

/// The dataset itself, if it is a key root. A dataset that inherits its key is an error if the command named it, and
/// else is passed over.
fn key_root(
    active: &ActivePool,
    entry: &Arc<Entry>,
    meant: Option<u64>,
) -> Result<Option<Arc<Entry>>> {
    let key_root = active.key_root(entry)?;
    if entry.suite != 0 && key_root == entry.id {
        return Ok(Some(Arc::clone(entry)));
    }
    if meant != Some(entry.id) {
        return Ok(None);
    }
    let name = active.pool.name_of(entry.id)?;
    if entry.suite == 0 {
        return Err(Failure::other(format!("'{name}' is not encrypted")));
    }
    let root = active.pool.name_of(key_root)?;
    Err(Failure::other(format!(
        "'{name}' has its key from '{root}'; load or unload that"
    )))
}

/// The key sources at another location, which may be of another slot: a file, a server or a person may have the key in any
/// format. A person is asked once, for a key of the dataset's format. Of the others the formats whose try costs no password hash come first, and of these that of the dataset: a failure speaks of it.
fn other_sources(active: &ActivePool, root: &Entry, location: &str) -> Result<Vec<KeySource>> {
    let own = active.keysource(root)?.format();
    let given = format!("{own},{location}").parse();
    let mut all = [
        MaterialFormat::Raw,
        MaterialFormat::Hex,
        MaterialFormat::Passphrase,
    ];
    let is_typed = location == "prompt";
    if own == MaterialFormat::Hex {
        all.swap(0, 1);
    } else if is_typed {
        all.reverse();
    }
    let other = all
        .iter()
        .map(|format| format!("{format},{location}").parse());
    let possible: Vec<KeySource> = other.filter_map(keys::Result::ok).collect();
    let has_any_format = |source: &KeySource| {
        use Location::{File, Https, Prompt};
        matches!(source.location(), File(_) | Https(_) | Prompt)
    };
    match (given, possible.last()) {
        (_, Some(last)) if has_any_format(last) => Ok(possible),
        (Ok(given), _) => Ok(vec![given]),
        (Err(_), Some(last)) => Ok(vec![last.clone()]),
        (Err(error), None) => Err(error.into()),
    }
}
