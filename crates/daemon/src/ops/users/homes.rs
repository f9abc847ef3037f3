//! Datasets as homes of users, for logins.
//!
//! A login mounts with the rights of root, over a directory whose files the user trusts. So the identity of the dataset
//! comes first: it is found by its guid, its owner is root or the user, and the passphrase opens one of its key slots.
//! All of this is decided again under the lock of the pool, before the mount.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use keys::{HashCaller, KeySource, Location, MaterialFormat, WrappingKey};
use pool::Entry;
use protocol::accounts::user_name;
use protocol::api::{Ask, AskFormat, FailureKind, HomeRow, HomeStep, MountPermissions, command};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::state::callers::channel::NonInteractive;
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties::{self, Mountpoint, OWNER};
use crate::state::keys::key_material::{typed_material, unlocked};
use crate::state::keys::keyring::changed_meanwhile;
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::pools::active_pool::ActivePool;

/// The most datasets whose key slots one passphrase is tried on, and the most that are reported as refused. Each try
/// costs a password hash.
const TRIES_MAX: usize = 4;

/// A home directory and its user.
#[derive(Clone, Copy)]
struct HomeOf<'a> {
    dir: &'a Path,
    uid: u32,
}

/// A dataset that may be mounted as a home.
struct HomeDataset {
    active: Arc<ActivePool>,
    entry: Arc<Entry>,
    name: String,
}

impl Daemon {
    /// Does a step of a login.
    pub(crate) fn home(
        self: &Arc<Self>,
        it: &command::Home,
        context: &mut CallerContext<'_>,
    ) -> Result<HomeRow> {
        if let (HomeStep::Close, Some(guid)) = (it.step, it.dataset) {
            return self.close_home(guid, context);
        }
        let of = HomeOf {
            dir: Path::new(&it.dir),
            uid: it.uid,
        };
        let mut homes = self.homes(of, context)?;
        homes.retain(|home| it.dataset.is_none_or(|guid| guid == home.entry.guid));
        homes.truncate(TRIES_MAX);
        let first = homes.first().ok_or_else(|| no_home(of))?;
        if it.step == HomeStep::Find {
            return first.row(of);
        }
        let passphrase = asked(&first.name, context)?;
        await_turn(&homes, context)?;
        let (home, key) = opened_by(&homes, &passphrase)?;
        match it.step {
            HomeStep::Open => self.open_home(home, key, of, context)?,
            HomeStep::Change => self.change_home(home, key, of, context)?,
            HomeStep::Find | HomeStep::Check | HomeStep::Close => {}
        }
        home.row(of)
    }

    /// The datasets that may be mounted as a home; those of the user come first. A dataset that mounts there and is
    /// refused is reported.
    fn homes(&self, of: HomeOf<'_>, context: &mut CallerContext<'_>) -> Result<Vec<HomeDataset>> {
        let mut homes = Vec::new();
        let mut refused = Vec::new();
        for active in self.pools() {
            for entry in active.all_heads()? {
                if !active.mounts_at(&entry, of.dir)? {
                    continue;
                }
                let name = active.pool.name_of(entry.id)?;
                match active.refused_as_home(&entry, of.uid)? {
                    None => homes.push(HomeDataset {
                        active: Arc::clone(&active),
                        entry,
                        name,
                    }),
                    Some(why) => refused.push(format!(
                        "'{name}' is not opened as the home {}: {why}",
                        of.dir.display()
                    )),
                }
            }
        }
        let reported = refused.into_iter().take(TRIES_MAX);
        reported.for_each(|why| context.channel.notice(why));
        homes.sort_by_key(|home| owner(&home.entry) != Some(of.uid));
        Ok(homes)
    }

    /// Loads the key and mounts.
    fn open_home(
        self: &Arc<Self>,
        home: &HomeDataset,
        key: WrappingKey,
        of: HomeOf<'_>,
        context: &CallerContext<'_>,
    ) -> Result<()> {
        let HomeDataset { active, name, .. } = home;
        let _admin = active.lock(context.decision)?;
        let entry = home.again(of, &key, context)?;
        if let Some(state) = active.mounts.lock().get(&entry.id) {
            return match state.dir() == of.dir {
                true => Ok(()),
                false => Err(Failure::new(
                    FailureKind::Busy,
                    format!("'{name}' is mounted already, at {}", state.dir().display()),
                )),
            };
        }
        refuse_covering(active, &entry, name)?;
        let was_loaded = active.has_key(entry.id);
        active.keys.put_first(entry.id, key);
        if !was_loaded {
            // For the administrator: the user of a login can do nothing about it.
            active.report_changed_facts(entry.id, &mut NonInteractive::default());
        }
        let how = MountRequest {
            gives_up_log: false,
            dir: None,
            read_only: false,
            // Files that were made in the directory below must not keep the user out.
            hiding: HidingPolicy::Allowed,
            allowed: MountPermissions::default(),
            owner: context.caller(),
        };
        let mounted = self.mount(active, &entry, &how);
        if mounted.is_err() && !was_loaded {
            // A step that fails changes nothing.
            self.unload_unused(active, &entry, name);
        }
        mounted
    }

    /// Unloads a key that a step has loaded, unless another session uses it by now. Under the lock of the pool.
    fn unload_unused(self: &Arc<Self>, active: &Arc<ActivePool>, entry: &Entry, name: &str) {
        if let Err(failure) = self.unload_key(active, entry, false) {
            tracing::info!(
                dataset = name,
                reason = failure.message,
                "its key stays loaded"
            );
        }
    }

    /// Unmounts and unloads the key. What is in use stays, with an error.
    fn close_home(self: &Arc<Self>, guid: u64, context: &CallerContext<'_>) -> Result<HomeRow> {
        for active in self.pools() {
            let heads = active.all_heads()?;
            let Some(entry) = heads.into_iter().find(|head| head.guid == guid) else {
                continue;
            };
            let name = active.pool.name_of(entry.id)?;
            {
                let _admin = active.lock(context.decision)?;
                active.unmount(entry.id, false)?;
                if active.has_key(entry.id) {
                    self.unload_key(&active, &entry, false)?;
                }
            }
            active.end_uses(&entry)?;
            return Ok(HomeRow {
                name,
                dataset: guid,
                is_open: false,
            });
        }
        let why = format!("there is no dataset with the guid {guid} any more");
        Err(Failure::new(FailureKind::NotFound, why))
    }

    /// Puts the key under a new passphrase.
    fn change_home(
        self: &Arc<Self>,
        home: &HomeDataset,
        key: WrappingKey,
        of: HomeOf<'_>,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let HomeDataset { active, name, .. } = home;
        let (entry, was_loaded) = {
            let _admin = active.lock(context.decision)?;
            let entry = home.again(of, &key, context)?;
            let was_loaded = active.has_key(entry.id);
            active.keys.put_first(entry.id, key);
            (entry, was_loaded)
        };
        let change = command::KeyChange {
            name: name.clone(),
            keysource: Some(KeySource::default().to_string()),
            ..command::KeyChange::default()
        };
        let changed = active.change_key(&entry, &change, context);
        if !was_loaded {
            // The key goes also if the caller has lost its right meanwhile. An export has forgotten it.
            if let Ok(_admin) = active.lock(&Internal) {
                self.unload_unused(active, &entry, name);
            }
        }
        changed
    }
}

impl HomeDataset {
    fn row(&self, of: HomeOf<'_>) -> Result<HomeRow> {
        let mounts = self.active.mounts.lock();
        let state = mounts.get(&self.entry.id);
        Ok(HomeRow {
            name: self.active.pool.name_of(self.entry.id)?,
            dataset: self.entry.guid,
            is_open: state.is_some_and(|state| state.dir() == of.dir),
        })
    }

    /// The present entry, if it may still be mounted as this home and the key still opens it. Under the lock of the
    /// pool.
    fn again(
        &self,
        of: HomeOf<'_>,
        key: &WrappingKey,
        context: &CallerContext<'_>,
    ) -> Result<Arc<Entry>> {
        let active = &self.active;
        let entry = active.again(&self.entry, &self.name, context.decision)?;
        if !active.mounts_at(&entry, of.dir)? {
            return Err(no_home(of));
        }
        if let Some(why) = active.refused_as_home(&entry, of.uid)? {
            let name = &self.name;
            let why = format!("'{name}' was changed meanwhile: {why}");
            return Err(Failure::new(FailureKind::Permission, why));
        }
        match active.keyring(&entry)?.wrapping().id() == key.id() {
            true => Ok(entry),
            false => Err(changed_meanwhile(&self.name)),
        }
    }
}

impl ActivePool {
    /// Returns whether an encrypted file system mounts at this directory by its property.
    fn mounts_at(&self, entry: &Entry, dir: &Path) -> Result<bool> {
        if entry.suite == 0 || entry.is_snapshot() || entry.volume().is_some() {
            return Ok(false);
        }
        let (mountpoint, _) = properties::mountpoint(self, entry)?;
        Ok(matches!(mountpoint, Mountpoint::Path(place) if place.path() == dir))
    }

    /// The reason why a dataset is not mounted as the home of a user.
    fn refused_as_home(&self, entry: &Entry, uid: u32) -> Result<Option<String>> {
        let name = self.pool.name_of(entry.id)?;
        let named = |uid: u32| user_name(uid).unwrap_or_else(|| uid.to_string());
        let source = self.keysource(entry).ok();
        let is_typed = source.is_some_and(|source| {
            source.format() == MaterialFormat::Passphrase && *source.location() == Location::Prompt
        });
        Ok(match owner(entry) {
            None => Some(format!(
                "it is not known who made it; if it is this home: strongroom set owner={} {name}",
                named(uid)
            )),
            Some(owner) if owner != 0 && owner != uid => Some(format!(
                "its owner is {}; if it is this home: strongroom set owner={} {name}",
                named(owner),
                named(uid)
            )),
            _ if entry.key_root != entry.id => Some("it has no key of its own".into()),
            _ if !is_typed => Some("its keysource is not passphrase,prompt".into()),
            _ if entry.props.get("canmount").is_some_and(|is| is == "off") => {
                Some("its property canmount is off".into())
            }
            _ => None,
        })
    }
}

/// The user who made a dataset, or whom root named.
fn owner(entry: &Entry) -> Option<u32> {
    entry.props.get(OWNER)?.parse().ok()
}

fn no_home(of: HomeOf<'_>) -> Failure {
    let why = format!("no dataset is the home {}", of.dir.display());
    Failure::new(FailureKind::NotFound, why)
}

/// Refuses to mount over another mount.
fn refuse_covering(active: &ActivePool, entry: &Entry, name: &str) -> Result<()> {
    let (Mountpoint::Path(place), _) = properties::mountpoint(active, entry)? else {
        return Ok(());
    };
    // A directory that is missing is no mount. The mount makes it.
    match place.is_mount() {
        Ok(true) => Err(Failure::new(
            FailureKind::Busy,
            format!(
                "'{name}' is not mounted: something else is mounted at {}; unmount that first",
                place.path().display()
            ),
        )),
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Asks for a passphrase.
fn asked(dataset: &str, context: &mut CallerContext<'_>) -> Result<Secret> {
    let ask = Ask {
        dataset: dataset.into(),
        format: AskFormat::Passphrase,
        twice: false,
        again: false,
    };
    context.channel.ask(ask)?.ok_or_else(|| {
        let why = format!("the passphrase of '{dataset}' was not given");
        Failure::new(FailureKind::NoKey, why)
    })
}

/// Waits if other logins of the user had wrong passphrases lately.
fn await_turn(homes: &[HomeDataset], context: &mut CallerContext<'_>) -> Result<()> {
    let (payer, now) = (HashCaller::present().payer, Instant::now());
    let delay_of = |home: &HomeDataset| home.active.wrong_tries.delay(payer, home.entry.guid, now);
    let delay = homes.iter().map(delay_of).max().unwrap_or_default();
    match delay.is_zero() || context.channel.pause(delay) {
        true => Ok(()),
        false => Err(Failure::other("the caller went away")),
    }
}

/// The first dataset of which the passphrase opens a key slot, also if its key is loaded.
fn opened_by<'a>(
    homes: &'a [HomeDataset],
    passphrase: &Secret,
) -> Result<(&'a HomeDataset, WrappingKey)> {
    let mut failures = Vec::new();
    for home in homes {
        match home.unlocked(passphrase) {
            Ok(key) => return Ok((home, key)),
            Err(failure) => failures.push(failure),
        }
    }
    // Another failure than a wrong passphrase says more.
    let is_wrong = |failure: &Failure| failure.kind == FailureKind::WrongKey;
    // The passphrase of one home is none of another one: it is wrong if it opens none.
    for (home, failure) in homes.iter().zip(&failures) {
        if is_wrong(failure) {
            home.active.count_wrong_key(&home.entry, &home.name);
        }
    }
    let at = failures.iter().position(|failure| !is_wrong(failure));
    Err(failures.swap_remove(at.unwrap_or(0)))
}

impl HomeDataset {
    fn unlocked(&self, passphrase: &Secret) -> Result<WrappingKey> {
        let keyring = self.active.keyring(&self.entry)?;
        let material = typed_material(MaterialFormat::Passphrase, passphrase.try_clone()?, false)?;
        let payer = HashCaller::present().payer;
        let key = self.active.wrong_tries.attempt(payer, self.entry.guid, || {
            Ok(unlocked(keyring.wrapping(), material)?)
        });
        key.map_err(|failure| failure.context(format_args!("the key of '{}'", self.name)))
    }
}

#[cfg(test)]
mod tests;
