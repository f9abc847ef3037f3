//! Making, renaming and destroying datasets and snapshots, and setting their properties.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cipher::Suite;
use keys::{KeySource, WrappingKey};
use pool::{DatasetKind, Entry, NewDataset};

use crate::api::{Failure, FailureKind, Props};
use crate::failure::Result;
use crate::imported::Imported;
use crate::keyholder::{Asker, NewKey, material, new_keyring};
use crate::mounts::Unmounted;
use crate::properties::{self, Settable};
use crate::server::Context;
use crate::state::{Daemon, new_guid};

/// What a command works on: the pool, and the entries it names.
type Selection = Vec<(Arc<Imported>, Arc<Entry>)>;

impl Daemon {
    /// Decides what a new dataset is to be, and makes its keys. `above`: its pool and its parent.
    pub(crate) fn plan_dataset(
        &self,
        above: Option<(&Imported, &Entry)>,
        name: &str,
        props: &Props,
        asker: &mut dyn Asker,
    ) -> Result<(NewDataset, Option<WrappingKey>)> {
        let mut local = BTreeMap::new();
        for (key, value) in props {
            properties::check(key, value, Settable::AtCreation)?;
            if local.insert(key.clone(), value.clone()).is_some() {
                return Err(Failure::usage(format!(
                    "the property '{key}' is given twice"
                )));
            }
        }
        let guid = new_guid();
        let parent_suite = above.map_or(0, |(_, parent)| parent.suite);
        let suite = match local.get("encryption").map(String::as_str) {
            None => Suite::from_id(parent_suite),
            Some("off") => None,
            Some(name) => Suite::from_name(name),
        };
        let Some(suite) = suite else {
            if local.contains_key("keysource") {
                return Err(Failure::usage(
                    "a keysource is for encrypted datasets; add -o encryption=on",
                ));
            }
            let new = NewDataset {
                kind: DatasetKind::FileSystem,
                guid,
                suite: 0,
                keyring: None,
                is_key_root: false,
                props: local,
            };
            return Ok((new, None));
        };
        let inherits = !local.contains_key("keysource") && parent_suite != 0;
        let key = match above.filter(|_| inherits) {
            Some((imported, parent)) => NewKey::Inherited(imported.loaded_key(parent.key_root)?),
            None => {
                let default = KeySource::default().to_string();
                let source = local.entry("keysource".into()).or_insert(default);
                let source: KeySource = source.parse()?;
                NewKey::Own(material(&source, name, true, asker)?)
            }
        };
        if let Some(value) = local.get_mut("encryption") {
            *value = suite.name().into();
        }
        let (keyring, own) = new_keyring(key, guid, suite)?;
        let new = NewDataset {
            kind: DatasetKind::FileSystem,
            guid,
            suite: suite.id(),
            keyring: Some(keyring),
            is_key_root: own.is_some(),
            props: local,
        };
        Ok((new, own))
    }

    pub(crate) fn create(
        self: &Arc<Self>,
        name: &str,
        props: &Props,
        parents: bool,
        no_mount: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let imported = self.pool_of(name)?;
        if name.contains('@') {
            return Err(Failure::usage(format!(
                "'{name}' is a snapshot's name; snapshots are made with 'snapshot'"
            )));
        }
        let _admin = imported.admin.lock();
        if imported.pool.find(name).is_ok() {
            return match parents {
                true => Ok(()),
                false => Err(pool::Error::Exists { name: name.into() }.into()),
            };
        }
        let mut made = Vec::new();
        for missing in missing_above(&imported, name, parents)? {
            made.push(self.create_one(&imported, &missing, &Vec::new(), context)?);
        }
        made.push(self.create_one(&imported, name, props, context)?);
        if !no_mount {
            let failures = self.mount_automatic(&imported, &made, context.caller());
            context.tell(failures);
        }
        Ok(())
    }

    fn create_one(
        &self,
        imported: &Arc<Imported>,
        name: &str,
        props: &Props,
        context: &mut Context<'_>,
    ) -> Result<Arc<Entry>> {
        let Some((above, _)) = name.rsplit_once('/') else {
            return Err(Failure::usage("a pool is made with 'pool create'"));
        };
        let parent = imported.pool.find(above)?;
        let (new, key) =
            self.plan_dataset(Some((imported, &parent)), name, props, context.asker)?;
        let entry = imported.pool.create_dataset(name, new, &context.origin())?;
        if let Some(key) = key {
            imported.keys.lock().insert(entry.id, key);
        }
        Ok(entry)
    }

    /// Destroys, and says what went.
    pub(crate) fn destroy(
        self: &Arc<Self>,
        name: &str,
        recursive: bool,
        force: bool,
        dry_run: bool,
        context: &mut Context<'_>,
    ) -> Result<Vec<String>> {
        let (imported, entry) = self.find(name)?;
        let _admin = imported.admin.lock();
        let doomed = imported.pool.doomed(name, recursive)?;
        if dry_run {
            return doomed
                .iter()
                .map(|entry| Ok(imported.pool.name_of(entry.id)?))
                .collect();
        }
        let ids: Vec<u64> = doomed.iter().map(|entry| entry.id).collect();
        if entry.is_snapshot() {
            imported.close_snapshots(&ids);
        }
        let unmounted = self.unmount_all(&imported, &ids, force)?;
        let gone = imported
            .pool
            .destroy_dataset(name, recursive, &context.origin())?;
        unmounted.iter().rev().for_each(Unmounted::remove_dir);
        let mut keys = imported.keys.lock();
        ids.iter().for_each(|id| {
            keys.remove(id);
        });
        imported.wake();
        Ok(gone)
    }

    pub(crate) fn rename(
        self: &Arc<Self>,
        from: &str,
        to: &str,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, entry) = self.find(from)?;
        let same_pool = to.starts_with('@')
            || pool::DatasetName::parse(to)?.pool == pool::DatasetName::parse(from)?.pool;
        if !same_pool {
            return Err(Failure::usage(format!(
                "'{to}' is in another pool; datasets stay in theirs"
            )));
        }
        let _admin = imported.admin.lock();
        if entry.is_snapshot() {
            return Ok(imported.pool.rename(from, to, &context.origin())?);
        }
        // Its name is in the table of mounts, and where it mounts may follow its name.
        let ids: Vec<u64> = imported
            .heads_below(&entry)?
            .iter()
            .map(|entry| entry.id)
            .collect();
        let unmounted = self.unmount_all(&imported, &ids, false)?;
        unmounted.iter().rev().for_each(Unmounted::remove_dir);
        let renamed = imported.pool.rename(from, to, &context.origin());
        let mounted = self.mount_again(&imported, unmounted);
        renamed?;
        mounted
    }

    pub(crate) fn set(
        self: &Arc<Self>,
        names: &[String],
        props: &Props,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for (key, value) in props {
            properties::check(key, value, Settable::Always)?;
        }
        let changes: Vec<(String, Option<String>)> = props
            .iter()
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
        for (imported, entry) in self.select(names)? {
            self.change_props(&imported, &entry, &changes, context)?;
        }
        Ok(())
    }

    pub(crate) fn inherit(
        self: &Arc<Self>,
        names: &[String],
        prop: &str,
        recursive: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let prop = properties::whole_name(prop).map_err(properties::unsettable)?;
        match properties::definition(&prop) {
            _ if properties::is_user_property(&prop) => {}
            Some(definition) if definition.settable == Settable::Always => {}
            Some(_) if prop == "keysource" => {
                return Err(Failure::usage(
                    "a key is not inherited again by this version",
                ));
            }
            _ => {
                return Err(Failure::usage(format!(
                    "the property '{prop}' cannot be inherited"
                )));
            }
        }
        let changes = [(prop, None)];
        for (imported, entry) in self.select(names)? {
            let entries = if recursive {
                imported.heads_below(&entry)?
            } else {
                vec![entry]
            };
            for entry in entries {
                self.change_props(&imported, &entry, &changes, context)?;
            }
        }
        Ok(())
    }

    fn select(&self, names: &[String]) -> Result<Selection> {
        names.iter().map(|name| self.find(name)).collect()
    }

    fn change_props(
        self: &Arc<Self>,
        imported: &Arc<Imported>,
        entry: &Arc<Entry>,
        changes: &[(String, Option<String>)],
        context: &mut Context<'_>,
    ) -> Result<()> {
        let _admin = imported.admin.lock();
        let name = imported.pool.name_of(entry.id)?;
        if entry.is_snapshot()
            && !changes
                .iter()
                .all(|(key, _)| properties::is_user_property(key))
        {
            return Err(Failure::usage(format!(
                "'{name}' is a snapshot; only user properties can be set"
            )));
        }
        let moves = changes.iter().any(|(key, _)| key == "mountpoint");
        let mut unmounted = Vec::new();
        if moves {
            // Everything below that follows this property moves too.
            let ids: Vec<u64> = imported
                .heads_below(entry)?
                .iter()
                .map(|entry| entry.id)
                .collect();
            let by_property: Vec<u64> = {
                let mounts = imported.mounts.lock();
                let follows = |id: &u64| mounts.get(id).is_some_and(|state| state.by_property);
                ids.into_iter().filter(follows).collect()
            };
            unmounted = self.unmount_all(imported, &by_property, false)?;
            unmounted.iter().rev().for_each(Unmounted::remove_dir);
        }
        let changed = imported.pool.set_props(&name, changes, &context.origin());
        imported.apply_settings()?;
        if moves {
            let entries: Vec<Arc<Entry>> = unmounted
                .iter()
                .filter_map(|was| imported.pool.entry(was.id).ok())
                .collect();
            let failures = self.mount_automatic(imported, &entries, context.caller());
            context.tell(failures);
        }
        Ok(changed?)
    }

    pub(crate) fn snapshot(
        &self,
        names: &[String],
        recursive: bool,
        context: &mut Context<'_>,
    ) -> Result<Vec<String>> {
        let Some(first) = names.first() else {
            return Err(Failure::usage(
                "name at least one snapshot to make: dataset@snapshot",
            ));
        };
        let imported = self.pool_of(first)?;
        for name in names {
            if self.pool_of(name)?.pool.guid() != imported.pool.guid() {
                return Err(Failure::usage("snapshots of one moment are of one pool"));
            }
        }
        let _admin = imported.admin.lock();
        Ok(imported
            .pool
            .snapshot(names, recursive, &context.origin())?)
    }

    pub(crate) fn rollback(
        self: &Arc<Self>,
        name: &str,
        recursive: bool,
        force: bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        if !entry.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{name}' is not a snapshot: dataset@snapshot"
            )));
        }
        let _admin = imported.admin.lock();
        let later: Vec<u64> = imported
            .pool
            .snapshots(entry.parent)?
            .iter()
            .filter(|snapshot| snapshot.created_txg > entry.created_txg)
            .map(|snapshot| snapshot.id)
            .collect();
        if !later.is_empty() && !recursive {
            return Err(Failure::new(
                FailureKind::Busy,
                format!("'{name}' is not the last snapshot; use -r to destroy the later ones"),
            ));
        }
        imported.close_snapshots(&later);
        let ids = [&[entry.parent][..], &later].concat();
        let unmounted = self.unmount_all(&imported, &ids, force)?;
        let rolled_back = imported.pool.rollback(name, recursive, &context.origin());
        let mounted = self.mount_again(&imported, unmounted);
        imported.wake();
        rolled_back?;
        mounted
    }

    /// Unmounts by the name of a dataset or the path of a directory; everything if nothing is named.
    pub(crate) fn unmount(self: &Arc<Self>, target: Option<&str>, force: bool) -> Result<()> {
        let Some(target) = target else {
            for imported in self.pools() {
                let _admin = imported.admin.lock();
                self.unmount_all(&imported, &imported.mounted_ids(), force)?;
            }
            return Ok(());
        };
        let not_mounted =
            || Failure::new(FailureKind::NotFound, format!("'{target}' is not mounted"));
        if target.starts_with('/') {
            let dir = Path::new(target);
            let found = self
                .pools()
                .into_iter()
                .find_map(|imported| imported.mounted_at(dir).map(|id| (imported, id)));
            let (imported, id) = found.ok_or_else(not_mounted)?;
            let _admin = imported.admin.lock();
            return imported.unmount(id, force);
        }
        let (imported, entry) = self.find(target)?;
        let _admin = imported.admin.lock();
        if !imported.mounts.lock().contains_key(&entry.id) {
            return Err(not_mounted());
        }
        imported.unmount(entry.id, force)
    }
}

/// The datasets above one that do not exist, from the top.
fn missing_above(imported: &Imported, name: &str, make: bool) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut at = name;
    while let Some((above, _)) = at.rsplit_once('/') {
        if imported.pool.find(above).is_ok() {
            break;
        }
        missing.insert(0, above.to_owned());
        at = above;
    }
    match missing.first() {
        Some(above) if !make => Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no dataset '{above}'; make it first, or use -p"),
        )),
        _ => Ok(missing),
    }
}
