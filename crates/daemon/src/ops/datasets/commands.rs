//! Makes, renames and destroys datasets, and sets their properties.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pool::{Entry, Reach};
use protocol::api::{DoomedReport, FailureKind, Props, Reply, command};
use protocol::property::{Property, Settable, is_of_pools};

use crate::failure::{Failure, Result};
use crate::ops::datasets::spec::DatasetSpec;
use crate::ops::datasets::volumes;
use crate::ops::devices::stores::object_stores::{is_on_store, no_heartbeats};
use crate::ops::mounts::nfs_shares::check_server;
use crate::ops::mounts::unmounts::EndedMount;
use crate::state::callers::context::{CallerContext, ENTRY_TEXTS, first_of};
use crate::state::daemon::Daemon;
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::front_end::ExclusiveUse;
use crate::state::pools::active_pool::ActivePool;

/// The pools that a command works on, each with the entries that the command names.
type NamedEntries = Vec<(Arc<ActivePool>, Vec<Arc<Entry>>)>;

impl Daemon {
    /// Makes a dataset. With `dry_run` it makes nothing. Returns the names of what it makes or would make.
    pub(crate) fn create(
        self: &Arc<Self>,
        new: &command::Create,
        context: &mut CallerContext<'_>,
    ) -> Result<Vec<String>> {
        let (name, props) = (new.name.as_str(), &new.props);
        let command::Create {
            parents,
            no_mount,
            volume,
            dry_run,
            ..
        } = *new;
        let active = self.pool_of(name)?;
        if name.contains('@') {
            return Err(Failure::usage(format!(
                "'{name}' is a snapshot's name; snapshots are made with 'snapshot'"
            )));
        }
        let is_there = || match active.pool.find(name).is_ok() {
            false => Ok(false),
            true if parents => Ok(true),
            true => Err(Failure::from(pool::Error::Exists { name: name.into() })),
        };
        if is_there()? {
            return Ok(Vec::new());
        }
        missing_above(&active, name, parents)?;
        if let Some((key, _)) = props.iter().find(|(key, _)| is_of_pools(key)) {
            return Err(not_the_root(&active, key, name));
        }
        check_server(
            props
                .iter()
                .map(|(key, value)| (key.as_str(), Some(value.as_str()))),
        )?;
        let mut props = props.clone();
        let shape = volume
            .map(|new| volumes::shape(&new, &mut props))
            .transpose()?;
        if dry_run {
            return would_create(&active, name, &props, parents);
        }
        let (above, above_name) = nearest_above(&active, name)?;
        let spec = DatasetSpec::new(above.suite, name, &props, context.channel)?;
        let spec = spec.of_volume(shape);
        let _admin = active.lock(context.decision)?;
        context.check_texts(&active, ENTRY_TEXTS)?;
        active.same(&above, above_name, context.decision)?;
        if is_there()? {
            return Ok(Vec::new());
        }
        let mut specs = Vec::new();
        for missing in missing_above(&active, name, parents)? {
            // Without given properties this never asks for a key.
            let above = suite_above(&active, &missing)?;
            let own = context.view.and_then(|view| view.props_of_new(&missing));
            let own = own.into_iter().collect();
            let spec = DatasetSpec::new(above, &missing, &own, context.channel)?;
            specs.push((missing, spec));
        }
        specs.push((name.to_owned(), spec));
        let names = specs.iter().map(|(name, _)| name.clone()).collect();
        let made = create_all(&active, specs, context)?;
        context.tell(active.apply_reservations(&made)?);
        active.follow_schedule(props.iter().map(|(key, _)| key.as_str()));
        if !no_mount {
            let failures = self.offer_datasets(&active, &made, context.caller());
            let created = |failure: Failure| {
                failure.context(format_args!("'{name}' was created, but not mounted"))
            };
            first_of(failures.into_iter().map(created).collect(), context)?;
        }
        Ok(names)
    }

    /// Destroys datasets and snapshots. With `dry_run` it only reports what would go, and how much space that would free.
    pub(crate) fn destroy(
        self: &Arc<Self>,
        name: &str,
        reach: Reach,
        force: bool,
        dry_run: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<Reply> {
        // The name may be a pattern for several snapshots.
        let (dataset, _) = name.split_once('@').unwrap_or((name, ""));
        let active = self.pool_of(dataset)?;
        if context.view.is_none()
            && let Ok(Some(partial)) = active.pool.interrupted_as(name)
        {
            let destroyed = vec![name.to_owned()];
            if dry_run {
                let freed = partial.used;
                return Ok(Reply::Doomed(DoomedReport { destroyed, freed }));
            }
            self.abandon_receive(name, context)?;
            return Ok(Reply::Names(destroyed));
        }
        let delegate = context.creator().map(|_| context.peer.clone());
        let doomed = || {
            let doomed = active.pool.doomed(name, reach)?;
            // A clone may have come to be since the rights were checked.
            if let Some(peer) = &delegate {
                active.may_destroy(&doomed, peer)?;
            }
            Ok(doomed)
        };
        if dry_run {
            let doomed = doomed()?;
            let mut destroyed = active.names_of(&doomed)?;
            for id in active.pool.freed_by(&doomed) {
                destroyed.push(active.pool.name_of(id)?);
            }
            let freed = active.pool.freed_by_destroying(name, reach)?;
            return Ok(Reply::Doomed(DoomedReport { destroyed, freed }));
        }
        let gone = self.take_away(&active, force, doomed, context, |context| {
            Ok(active
                .pool
                .destroy_dataset(name, reach, &context.origin())?)
        });
        gone.map(Reply::Names)
    }

    /// Destroys the snapshot with this name, if it is the one with this guid.
    pub(crate) fn destroy_same(
        self: &Arc<Self>,
        name: &str,
        guid: u64,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let active = self.pool_of(name)?;
        let doomed = || {
            let doomed = active.pool.doomed(name, Reach::Named)?;
            match doomed.iter().all(|entry| entry.guid == guid) {
                true => Ok(doomed),
                false => Err(Failure::new(
                    FailureKind::Busy,
                    format!("'{name}' was replaced meanwhile; nothing was destroyed, try again"),
                )),
            }
        };
        let gone = self.take_away(&active, false, doomed, context, |context| {
            let pool = &active.pool;
            Ok(pool.destroy_dataset(name, Reach::Named, &context.origin())?)
        });
        gone.map(drop)
    }

    /// Takes datasets and snapshots out of use, to destroy them. Returns the names of what went.
    pub(crate) fn take_away(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        force: bool,
        doomed: impl Fn() -> Result<Vec<Arc<Entry>>>,
        context: &mut CallerContext<'_>,
        destroy: impl FnOnce(&mut CallerContext<'_>) -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        // Checked before anything is unmounted.
        active.pool.check_writable()?;
        let mut gone = self.without_offers_of(
            || active.volumes_of(&doomed()?),
            force,
            "its volume was to be destroyed",
            || {
                let _admin = active.lock(context.decision)?;
                let doomed = doomed()?;
                self.may_go(&ExclusiveUse::Datasets(active, &doomed))?;
                let ids: Vec<u64> = doomed.iter().map(|entry| entry.id).collect();
                active.close_snapshots(&ids);
                active.close_snapshots(&active.pool.freed_by(&doomed));
                let own_dirs = active.own_dirs(ids.iter().copied());
                let withdrawn = self.withdraw(&[(active, ids.clone())], force)?;
                context.tell_cuts(active);
                let gone = match destroy(context) {
                    Ok(gone) => gone,
                    Err(failure) => {
                        context.tell(withdrawn.offer_again(self));
                        return Err(failure);
                    }
                };
                withdrawn.clear();
                active.remove_left_dirs(own_dirs);
                active.forget_destroyed(&doomed);
                active.keys.remove(&ids);
                active.wake();
                Ok(gone)
            },
        )?;
        self.forget_offers(active, |volume| gone.iter().any(|name| name == volume))?;
        // An origin that went with its last clone may be of others.
        gone.retain(|name| context.may_see(active, name));
        Ok(gone)
    }

    pub(crate) fn set(
        self: &Arc<Self>,
        names: &[String],
        props: &Props,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        if props.is_empty() {
            return Err(Failure::usage(
                "name at least one property to set: PROPERTY=VALUE",
            ));
        }
        if self.set_account_quotas(names, props, context)?
            || self.set_volsize(names, props, force, context)?
        {
            return Ok(());
        }
        for (key, value) in props {
            properties::check(key, value, Settable::Always)?;
        }
        properties::tell_checksum(props, context.channel);
        let changes: Vec<(String, Option<String>)> = props
            .iter()
            .map(|(key, value)| (key.clone(), properties::stored(key, value)))
            .collect();
        self.change_props(self.select(names)?, &changes, context)
    }

    pub(crate) fn inherit(
        self: &Arc<Self>,
        names: &[String],
        prop: &str,
        recursive: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let prop = properties::whole_name(prop)?;
        match Property::settable(&prop) {
            _ if properties::is_user_property(&prop) => {}
            Some(property) if property.settable == Settable::Always => {}
            Some(_) if prop == "keysource" => {
                return Err(Failure::usage(
                    "the property 'keysource' follows the key; use 'key change -i'",
                ));
            }
            _ => {
                return Err(Failure::usage(format!(
                    "the property '{prop}' cannot be inherited"
                )));
            }
        }
        let changes = [(prop, None)];
        let mut selection = self.select(names)?;
        if recursive {
            for (active, entries) in &mut selection {
                let below = entries.iter().map(|entry| active.heads_below(entry));
                *entries = below.collect::<Result<Vec<_>>>()?.concat();
            }
        }
        self.change_props(selection, &changes, context)
    }

    /// The named datasets and snapshots, by pool.
    fn select(&self, names: &[String]) -> Result<NamedEntries> {
        let mut selection = NamedEntries::new();
        for name in names {
            let (active, entry) = self.find(name)?;
            let of_pool = selection
                .iter_mut()
                .find(|(known, _)| Arc::ptr_eq(known, &active));
            match of_pool {
                Some((_, entries)) => entries.push(entry),
                None => selection.push((active, vec![entry])),
            }
        }
        Ok(selection)
    }

    /// Sets or unsets properties. In each pool this is done for all entries or for none.
    fn change_props(
        self: &Arc<Self>,
        selection: NamedEntries,
        changes: &[(String, Option<String>)],
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        for (active, mut entries) in selection {
            let _admin = active.lock(context.decision)?;
            entries.sort_by_key(|entry| entry.id);
            entries.dedup_by_key(|entry| entry.id);
            let mut names = Vec::new();
            for entry in &mut entries {
                let name = active.pool.name_of(entry.id)?;
                *entry = active.again(entry, &name, context.decision)?;
                names.push(name);
            }
            let is_for_all = |(key, _): &(String, _)| properties::is_user_property(key);
            let snapshot = entries.iter().position(|entry| entry.is_snapshot());
            if let Some(at) = snapshot.filter(|_| !changes.iter().all(is_for_all)) {
                return Err(Failure::usage(format!(
                    "'{}' is a snapshot; only user properties can be set",
                    names[at]
                )));
            }
            let is_set = |(_, value): &&(String, Option<String>)| value.is_some();
            for (entry, name) in entries.iter().zip(&names) {
                let of_pool = changes.iter().find(|(key, _)| is_of_pools(key));
                if let Some((key, _)) = of_pool.filter(|_| entry.parent != 0) {
                    return Err(not_the_root(&active, key, name));
                }
                if changes
                    .iter()
                    .any(|(key, value)| key == "multihost" && value.as_deref() == Some("on"))
                {
                    active.pool.multihost().check()?;
                    let devices = active.pool.devices();
                    if devices.iter().any(|device| is_on_store(&device.path)) {
                        return Err(no_heartbeats(&active.pool.name()));
                    }
                }
                let mut set = changes.iter().filter(is_set);
                if let Some((key, _)) = set.find(|(key, _)| !volumes::applies(entry, key)) {
                    return Err(Failure::usage(format!(
                        "the property '{key}' is for file systems, and '{name}' is a volume"
                    )));
                }
            }
            let lens = changes.iter().filter(is_set).map(text_len);
            context.check_texts(&active, entries.len() * lens.sum::<usize>())?;
            let given = changes
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_deref()));
            check_server(given)?;
            let _claims = active.claim_for(changes)?;
            if changes.iter().any(|(key, _)| key == "mountpoint") {
                self.move_mountpoints(&active, &entries, &names, changes, context)?;
                active.follow_schedule(changes.iter().map(|(key, _)| key.as_str()));
                active.follow_multihost(changes.iter().map(|(key, _)| key.as_str()))?;
                active.follow_deadline();
                continue;
            }
            let origin = context.origin();
            active.pool.set_props(&names, changes, &origin)?;
            context.tell(active.apply_settings()?);
            active.follow_schedule(changes.iter().map(|(key, _)| key.as_str()));
            active.follow_multihost(changes.iter().map(|(key, _)| key.as_str()))?;
            active.follow_deadline();
        }
        Ok(())
    }

    /// Sets properties, one of which decides the mount point. Mounts that follow from it move. A dataset that could not
    /// be mounted because of the old value is mounted.
    fn move_mountpoints(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        entries: &[Arc<Entry>],
        names: &[String],
        changes: &[(String, Option<String>)],
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let mut heads = BTreeMap::new();
        for entry in entries {
            let below = active.heads_below(entry)?.into_iter();
            heads.extend(below.map(|head| (head.id, head)));
        }
        let mut moving = Vec::new();
        let mut waiting = Vec::new();
        for head in heads.values() {
            let mounted = active.mounts.lock().get(&head.id).map(|s| s.by_property);
            let (before, _) = properties::mountpoint(active, head)?;
            match (mounted, before) {
                (Some(true), _) => moving.push(head.id),
                (Some(false), _) | (None, Mountpoint::Path(_)) => {}
                (None, Mountpoint::None | Mountpoint::Legacy) => waiting.push(head.id),
            }
        }
        active.pool.check_writable()?;
        let own_dirs = active.own_dirs(heads.keys().copied());
        let unmounted = self.unmount_all(active, &moving, false)?;
        unmounted.iter().rev().for_each(EndedMount::remove_dir);
        let before = unmounted.clone();
        let entries = entries.iter().map(|entry| active.pool.entry(entry.id));
        let entries: Vec<Arc<Entry>> = entries.collect::<pool::Result<_>>()?;
        let changed = active.pool.set_props(names, changes, &context.origin());
        active.remove_left_dirs(own_dirs);
        context.tell(active.apply_settings()?);
        let still_has_place = |was: &EndedMount| {
            let entry = active.pool.entry(was.id)?;
            let (now, _) = properties::mountpoint(active, &entry)?;
            Ok::<_, Failure>(matches!(now, Mountpoint::Path(_)))
        };
        let unmounted = unmounted
            .into_iter()
            .filter(|was| still_has_place(was).unwrap_or(true))
            .collect();
        let mut failures = self.mount_again(unmounted);
        active.close_unmounted(heads.keys().copied());
        if let Err(error) = changed {
            context.tell(failures);
            return Err(error.into());
        }
        let entries_of = |ids: &[u64]| -> Vec<Arc<Entry>> {
            let entries = ids.iter().filter_map(|id| active.pool.entry(*id).ok());
            entries.collect()
        };
        let owner = context.owner_elsewhere();
        failures.extend(self.mount_automatic(active, &entries_of(&waiting), owner));
        if failures.is_empty() {
            return Ok(());
        }
        moving.extend(waiting);
        if let Err(failure) =
            self.move_back(active, (&entries, names), changes, moving, before, context)
        {
            failures.push(failure.context("the property was not set back"));
        }
        first_of(failures, context)
    }

    /// Sets the properties back to the values in `entries`, and mounts again what was mounted then.
    fn move_back(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        (entries, names): (&[Arc<Entry>], &[String]),
        changes: &[(String, Option<String>)],
        moved: Vec<u64>,
        before: Vec<EndedMount>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let own_dirs = active.own_dirs(moved.iter().copied());
        let moved = self.unmount_all(active, &moved, false)?;
        moved.iter().rev().for_each(EndedMount::remove_dir);
        let mut origin = context.origin();
        origin.text += ", taken back: a mount failed";
        for (entry, name) in entries.iter().zip(names) {
            let old = changes
                .iter()
                .map(|(key, _)| (key.clone(), entry.props.get(key).cloned()));
            let old: Vec<_> = old.collect();
            active
                .pool
                .set_props(std::slice::from_ref(name), &old, &origin)?;
        }
        active.remove_left_dirs(own_dirs);
        context.tell(active.apply_settings()?);
        context.tell(self.mount_again(before));
        Ok(())
    }

    /// Unmounts by the names of datasets or the paths of directories; everything if nothing is named.
    pub(crate) fn unmount(
        &self,
        target: Option<&str>,
        force: bool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let Some(target) = target else {
            let mut failures = Vec::new();
            for active in self.pools() {
                let _admin = active.lock(context.decision)?;
                let all = (&active, active.mounted_ids());
                failures.extend(Daemon::unmount_what_can(&[all], force));
                context.tell_cuts(&active);
            }
            return first_of(failures, context);
        };
        let not_mounted =
            || Failure::new(FailureKind::NotFound, format!("'{target}' is not mounted"));
        if target.starts_with('/') {
            let dir = Path::new(target);
            let mut pools = self.pools().into_iter();
            let active = pools.find(|active| active.mounted_at(dir).is_some());
            let active = active.ok_or_else(not_mounted)?;
            let _admin = active.lock(context.decision)?;
            let id = active.mounted_at(dir).ok_or_else(not_mounted)?;
            return active
                .unmount(id, force)
                .map(|()| context.tell_cuts(&active));
        }
        let active = self.pool_of(target)?;
        let _admin = active.lock(context.decision)?;
        let entry = active.pool.find(target)?;
        if !active.mounts.lock().contains_key(&entry.id) {
            return Err(not_mounted());
        }
        active.unmount(entry.id, force)?;
        context.tell_cuts(&active);
        Ok(())
    }
}

/// The bytes that a property takes.
fn text_len((key, value): &(String, Option<String>)) -> usize {
    key.len() + value.as_ref().map_or(0, String::len)
}

/// The refusal of a property of pools on a dataset that is not a root.
fn not_the_root(active: &ActivePool, property: &str, name: &str) -> Failure {
    let pool = active.pool.name();
    Failure::usage(format!(
        "the property '{property}' is the pool's, and '{name}' is not its root; set it on '{pool}'"
    ))
}

/// The names of the datasets that a command would make. It asks for no key, and does not check the free space.
fn would_create(
    active: &ActivePool,
    name: &str,
    props: &Props,
    parents: bool,
) -> Result<Vec<String>> {
    pool::DatasetName::parse(name)?;
    let mut names = missing_above(active, name, parents)?;
    let (spec, source) = DatasetSpec::without_key(suite_above(active, name)?, name, props)?;
    names.push(name.to_owned());
    let above = names.first().and_then(|first| first.rsplit_once('/'));
    let Some((above, _)) = above else {
        return Err(Failure::usage("create a pool with 'pool create'"));
    };
    let above = active.pool.find(above)?;
    let inherits_key = spec.is_sealed() && source.is_none();
    if inherits_key || above.suite != 0 && names.len() > 1 {
        active.loaded_key(active.key_root(&above)?)?;
    }
    active.pool.check_writable()?;
    active
        .pool
        .check_more_datasets(above.id, names.len() as u64)?;
    Ok(names)
}

/// Makes datasets, each below the one before. It makes all of them or none.
fn create_all(
    active: &Arc<ActivePool>,
    specs: Vec<(String, DatasetSpec)>,
    context: &mut CallerContext<'_>,
) -> Result<Vec<Arc<Entry>>> {
    let first = specs.first().and_then(|(name, _)| name.rsplit_once('/'));
    let Some((above, _)) = first else {
        return Err(Failure::usage("create a pool with 'pool create'"));
    };
    // Those between have its suite and its key: they have no properties of their own.
    let above = active.pool.find(above)?;
    let mut all = Vec::new();
    let mut keys = Vec::new();
    for (name, spec) in specs {
        let (mut new, key) = spec.carry_out(Some((active, &above)), &name)?;
        context.record_owner(&mut new.props);
        if let Some(uid) = context.creator() {
            new.props.extend(active.grants_for_creator(&above, uid)?);
        }
        all.push((name, new));
        keys.push(key);
    }
    let made = active.pool.create_datasets(all, &context.origin())?;
    for (entry, key) in made.iter().zip(keys) {
        if let Some(key) = key {
            active.keys.put(entry.id, key);
            active.accept_as_set(entry.id);
        }
    }
    Ok(made)
}

/// The nearest dataset above a name, and its name.
fn nearest_above<'n>(active: &ActivePool, name: &'n str) -> Result<(Arc<Entry>, &'n str)> {
    let mut at = name;
    while let Some((above, _)) = at.rsplit_once('/') {
        if let Ok(entry) = active.pool.find(above) {
            return Ok((entry, above));
        }
        at = above;
    }
    Err(Failure::usage("create a pool with 'pool create'"))
}

/// The suite of the nearest dataset above a name.
pub(crate) fn suite_above(active: &ActivePool, name: &str) -> Result<u8> {
    Ok(nearest_above(active, name)?.0.suite)
}

/// The datasets above one that do not exist, from the top.
fn missing_above(active: &ActivePool, name: &str, make: bool) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let mut at = name;
    while let Some((above, _)) = at.rsplit_once('/') {
        if active.pool.find(above).is_ok() {
            break;
        }
        missing.insert(0, above.to_owned());
        at = above;
    }
    match missing.first() {
        Some(above) if !make => Err(Failure::new(
            FailureKind::NotFound,
            format!("there is no dataset '{above}'; create it first, or use -p"),
        )),
        _ => Ok(missing),
    }
}
