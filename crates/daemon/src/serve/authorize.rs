//! Checks the permissions of delegates: callers that are neither root nor the daemon's user. Each command names the
//! permissions that it needs (`serve::commands`).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use keys::{KeySource, Location};
use pool::{Entry, Reach};
use protocol::api::{DatasetRow, FailureKind, PropertyValue, Props};

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::serve::subjects::{Subjects, replaced};
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::pools::active_pool::ActivePool;

/// The permissions to receive into a dataset, or into a new dataset below it.
const RECEIVE: &[&str] = &["receive", "create", "mount"];

/// The refusal for a dataset on which the caller has no permission, and for a missing dataset.
const NOTHING: &str = "you have no permission on it";

/// The permissions that were looked up, by the guid of the pool and the id of the dataset. Without a permission: any.
type LookedUp = HashMap<(u64, u64, Option<String>), bool>;

/// A delegate whose permissions are checked.
pub(crate) struct PermissionCheck<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) peer: &'a Peer,
    /// The datasets that the decision is about, if it is to be made again.
    subjects: Option<&'a RefCell<Subjects>>,
    known: RefCell<LookedUp>,
}

impl Daemon {
    /// Returns whether a caller has a permission on a dataset, or on that of a snapshot or bookmark.
    pub(crate) fn may_see(&self, peer: &Peer, name: &str) -> bool {
        let check = PermissionCheck::new(self, peer);
        peer.is_admin || check.something_of(dataset_of(name)).is_ok()
    }

    /// Removes names of datasets without a permission for the caller from the properties of an answer.
    pub(crate) fn seen_by(&self, peer: &Peer, mut rows: Vec<DatasetRow>) -> Vec<DatasetRow> {
        if peer.is_admin {
            return rows;
        }
        let check = PermissionCheck::new(self, peer);
        for prop in rows.iter_mut().flat_map(|row| &mut row.props) {
            if let ("clones" | "origin", PropertyValue::Text(names)) =
                (&*prop.property, &prop.value)
            {
                prop.value = match check.seen(names) {
                    seen if seen.is_empty() => PropertyValue::None,
                    seen => PropertyValue::Text(seen),
                };
            }
        }
        rows
    }
}

impl<'a> PermissionCheck<'a> {
    /// A check whose decision is not made again.
    pub(super) fn new(daemon: &'a Daemon, peer: &'a Peer) -> PermissionCheck<'a> {
        PermissionCheck {
            daemon,
            peer,
            subjects: None,
            known: RefCell::default(),
        }
    }

    /// A check whose decision is about these datasets.
    pub(super) fn of(
        daemon: &'a Daemon,
        peer: &'a Peer,
        subjects: &'a RefCell<Subjects>,
    ) -> PermissionCheck<'a> {
        PermissionCheck {
            subjects: Some(subjects),
            ..PermissionCheck::new(daemon, peer)
        }
    }

    /// Returns whether the caller has a permission on a dataset, or any without one named. A request can name a dataset
    /// many times, and the decision may be made under the lock of the pool: each is looked up once.
    fn allows(&self, active: &ActivePool, entry: &Entry, permission: Option<&str>) -> Result<bool> {
        let head = match entry.is_snapshot() {
            true => entry.parent,
            false => entry.id,
        };
        let key = (active.pool.guid(), head, permission.map(str::to_owned));
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(*known);
        }
        let allows = match permission {
            Some(permission) => active.allows(entry, self.peer, permission)?,
            None => active.allows_something(entry, self.peer)?,
        };
        self.known.borrow_mut().insert(key, allows);
        Ok(allows)
    }

    /// Checks the datasets in names, with `recursive` those below too, each once.
    pub(super) fn each_named(
        &self,
        names: &[String],
        recursive: bool,
        check: &mut dyn FnMut(&str, &ActivePool, &Entry) -> Result<()>,
    ) -> Result<()> {
        // A dataset comes before those below it.
        let names: BTreeSet<&str> = names.iter().map(|name| dataset_of(name)).collect();
        let mut done = HashSet::new();
        for name in names {
            let (active, entry) = self.find(name)?;
            let pool = active.pool.guid();
            if done.contains(&(pool, entry.id)) {
                continue;
            }
            check(name, &active, &entry)?;
            for head in below(&active, &entry, recursive)? {
                if done.insert((pool, head.id)) {
                    check(name, &active, &head)?;
                }
            }
        }
        Ok(())
    }

    /// Refuses a delegate who names no dataset, because that means all datasets.
    pub(super) fn all_named(&self, names: &[String]) -> Result<()> {
        match names.is_empty() {
            true => Err(only_root()),
            false => Ok(()),
        }
    }

    /// Refuses a delegate without any permission. With `may` false, refuses every delegate who names no dataset.
    pub(super) fn something_anywhere(&self, may: bool) -> Result<()> {
        for active in self.daemon.pools() {
            for head in active.pool.datasets()? {
                if may && self.allows(&active, &head, None)? {
                    return Ok(());
                }
            }
        }
        Err(only_root())
    }

    /// Checks a receive into a dataset or into a new one.
    pub(super) fn receive(&self, target: &str) -> Result<()> {
        let (at, _) = self.receives_at(target)?;
        self.need(at, RECEIVE)
    }

    /// Checks that a receive may go on with a dataset that it has made itself.
    pub(super) fn receive_new(&self, target: &str) -> Result<()> {
        match dataset_of(target).rsplit_once('/') {
            Some((above, _)) => self.need(above, RECEIVE),
            None => Err(refused("only root makes pools")),
        }
    }

    /// The dataset whose permissions decide about a receive, and whether it is the target itself. For a new dataset,
    /// the one above decides. A dataset that the caller must not see is refused like a missing one.
    pub(super) fn receives_at<'n>(&self, target: &'n str) -> Result<(&'n str, bool)> {
        let dataset = dataset_of(target);
        let there = self.daemon.find(dataset).ok();
        if let Some((active, entry)) = &there
            && self.allows(active, entry, None)?
        {
            return Ok((dataset, true));
        }
        let Some((above, _)) = dataset.rsplit_once('/') else {
            return Err(refused("only root makes pools"));
        };
        if there.is_some() {
            // A caller who could make the dataset finds out anyway.
            self.need(above, RECEIVE)?;
            return Err(self.may_not(dataset, NOTHING));
        }
        Ok((above, false))
    }

    /// Checks making a dataset with these properties.
    pub(super) fn make(&self, name: &str, props: &Props, parents: bool) -> Result<()> {
        if parents {
            return Err(one_by_one());
        }
        let Some((above, _)) = name.rsplit_once('/') else {
            return Err(refused("only root makes pools"));
        };
        self.need(above, &["create", "mount"])?;
        self.properties(above, props)
    }

    /// The dataset whose permissions decide about a name: for the name of an interrupted receive the dataset above, if
    /// the caller may see that.
    pub(super) fn decides<'n>(&self, name: &'n str) -> &'n str {
        let interrupted = || {
            let pool = &self.daemon.pool_of(name).ok()?.pool;
            pool.interrupted_as(name).ok()?
        };
        match name.rsplit_once('/') {
            Some((above, _)) if self.something_of(above).is_ok() && interrupted().is_some() => {
                above
            }
            _ => name,
        }
    }

    pub(super) fn destroy(&self, name: &str, reach: Reach) -> Result<()> {
        let above = self.decides(name);
        if above != name {
            return self.need(above, &["destroy", "mount"]);
        }
        // Before anything is looked for: a caller who may do nothing there learns nothing.
        self.need(dataset_of(name), &["destroy"])?;
        let active = self.daemon.pool_of(dataset_of(name))?;
        let doomed = match active.pool.doomed(name, reach) {
            Err(pool::Error::HasClones { name, clones }) => {
                return Err(self.has_clones(name, &clones));
            }
            // Of a clone, it may be on a snapshot that the caller must not see.
            Err(
                pool::Error::Held { name: held, .. } | pool::Error::Retained { name: held, .. },
            ) if self.something_of(dataset_of(&held)).is_err() => {
                return Err(self.also_of_others(name));
            }
            doomed => doomed?,
        };
        for entry in doomed {
            self.need_of(name, &active, &entry, &["destroy", "mount"])?;
        }
        Ok(())
    }

    /// Checks destroying snapshots now, or as soon as nothing keeps them.
    pub(super) fn defer(&self, name: &str, recursive: bool) -> Result<()> {
        self.need(name, &["destroy"])?;
        let active = self.daemon.pool_of(dataset_of(name))?;
        let pool::Deferral { now, later } = active.pool.deferral(name, recursive)?;
        for entry in now.iter().chain(&later) {
            self.need_of(name, &active, entry, &["destroy", "mount"])?;
        }
        Ok(())
    }

    /// Checks destroying the snapshots after this one.
    pub(super) fn destroy_later(&self, name: &str) -> Result<()> {
        self.need(name, &["destroy"])?;
        let (active, _) = self.daemon.find(name)?;
        let doomed = match active.pool.doomed_by_rollback(name, Reach::Below) {
            Err(pool::Error::HasClones { name, clones }) => {
                return Err(self.has_clones(name, &clones));
            }
            doomed => doomed?,
        };
        for entry in doomed {
            self.need_of(name, &active, &entry, &["destroy", "mount"])?;
        }
        Ok(())
    }

    /// The failure that clones exist. Names only clones that the caller may see.
    fn has_clones(&self, name: String, clones: &str) -> Failure {
        let seen = self.seen(clones);
        match seen.is_empty() {
            false => pool::Error::HasClones { name, clones: seen }.into(),
            true => Failure::new(
                FailureKind::Busy,
                format!(
                    "{name} has clones on which you have no permission; ask root to promote or destroy them"
                ),
            ),
        }
    }

    /// The ones of these datasets on which the caller has a permission.
    fn seen(&self, names: &str) -> String {
        let seen = |name: &&str| self.something_of(name.trim()).is_ok();
        let seen: Vec<&str> = names.split(',').filter(seen).map(str::trim).collect();
        seen.join(",")
    }

    pub(super) fn properties(&self, name: &str, props: &Props) -> Result<()> {
        let mut needed = BTreeSet::new();
        for (property, value) in props {
            match property.as_str() {
                "keysource" => self.source(name, Some(value))?,
                property => drop(needed.insert(properties::permission_for(property))),
            }
        }
        self.need(name, &Vec::from_iter(needed))
    }

    /// Checks a source of keys. Only root chooses files and programs that the daemon reads or runs for a user, unless
    /// root delegates the property. The prompt needs no permission.
    fn source(&self, name: &str, source: Option<&str>) -> Result<()> {
        match is_read(source)? {
            true => self.need(name, &["keysource"]),
            false => Ok(()),
        }
    }

    /// Checks changing the key of a dataset to one from this source.
    pub(super) fn change_key(&self, name: &str, source: Option<&str>) -> Result<()> {
        self.source(name, source)?;
        self.need(name, &["keychange"])
    }

    /// Checks sending a dataset with those below it. A stream that is not sealed shows all files.
    pub(super) fn send_below(&self, name: &str, raw: bool) -> Result<()> {
        self.need(name, &["send"])?;
        let (active, entry) = self.find(dataset_of(name))?;
        for head in below(&active, &entry, true)? {
            let needed: &[&str] = match raw && head.suite != 0 {
                true => &["send"],
                false => &["send", "key"],
            };
            self.need_of(name, &active, &head, needed)?;
        }
        Ok(())
    }

    /// Checks sending a dataset as it is sealed, with `recursive` those below it too. Contents that are not sealed show
    /// everything.
    pub(super) fn send_dataset(&self, name: &str, recursive: bool) -> Result<()> {
        match recursive {
            true => self.send_below(name, true),
            false if self.is_sealed(name) => self.need(name, &["send"]),
            false => self.need(name, &["send", "key"]),
        }
    }

    /// Returns whether the caller showed a token that reaches one dataset.
    pub(super) fn has_token_of_dataset(&self) -> bool {
        self.peer.dataset().is_some()
    }

    /// Returns whether the contents of a dataset are encrypted.
    pub(super) fn is_sealed(&self, name: &str) -> bool {
        let found = self.daemon.find(dataset_of(name));
        found.is_ok_and(|(_, entry)| entry.suite != 0)
    }

    /// Checks loading the key that opens a dataset.
    pub(super) fn key_root(&self, name: &str) -> Result<()> {
        let (active, entry) = self.find(name)?;
        match active.key_root(&entry)? {
            0 => Ok(()),
            root => self.need_of(name, &active, &*active.pool.entry(root)?, &["key"]),
        }
    }

    pub(super) fn need_all(
        &self,
        names: &[String],
        recursive: bool,
        permissions: &[&str],
    ) -> Result<()> {
        self.each_named(names, recursive, &mut |name, active, entry| {
            self.need_of(name, active, entry, permissions)
        })
    }

    pub(super) fn need_below(
        &self,
        name: &str,
        recursive: bool,
        permissions: &[&str],
    ) -> Result<()> {
        self.need(name, permissions)?;
        let (active, entry) = self.find(dataset_of(name))?;
        for head in below(&active, &entry, recursive)? {
            self.need_of(name, &active, &head, permissions)?;
        }
        Ok(())
    }

    pub(super) fn need(&self, name: &str, permissions: &[&str]) -> Result<()> {
        let name = dataset_of(name);
        let (active, entry) = self.find(name)?;
        self.need_of(name, &active, &entry, permissions)
    }

    /// A user cannot tell a missing dataset from one without any permission.
    pub(super) fn find(&self, name: &str) -> Result<(Arc<ActivePool>, Arc<Entry>)> {
        let found = self.daemon.find(name);
        let (active, entry) = found.map_err(|_| self.may_not(name, NOTHING))?;
        if let Some(subjects) = self.subjects {
            let dataset = active.dataset_guid(&entry)?;
            if !subjects.borrow_mut().enter(dataset_of(name), dataset) {
                self.something(name, &active, &entry)?;
                return Err(replaced(dataset_of(name)));
            }
        }
        Ok((active, entry))
    }

    /// Refuses a caller without a permission on `entry`. The caller named `named`, which means or includes `entry`.
    pub(super) fn need_of(
        &self,
        named: &str,
        active: &ActivePool,
        entry: &Entry,
        permissions: &[&str],
    ) -> Result<()> {
        for permission in permissions {
            if !self.allows(active, entry, Some(permission))? {
                self.something(named, active, entry)?;
                let name = active.pool.name_of(entry.id)?;
                let why = format!("you do not have the permission '{permission}' on it");
                return Err(self.may_not(&name, &why));
            }
        }
        self.allow(active, entry)
    }

    /// Enters a dataset whose permissions were enough.
    fn allow(&self, active: &ActivePool, entry: &Entry) -> Result<()> {
        if let Some(subjects) = self.subjects {
            subjects.borrow_mut().allow(active.dataset_guid(entry)?);
        }
        Ok(())
    }

    pub(super) fn something_of(&self, name: &str) -> Result<()> {
        let (active, entry) = self.find(name)?;
        self.something(name, &active, &entry)
    }

    /// Refuses a caller without any permission on `entry`. The refusal has only the name that the caller used, `named`.
    pub(super) fn something(&self, named: &str, active: &ActivePool, entry: &Entry) -> Result<()> {
        if self.allows(active, entry, None)? {
            return self.allow(active, entry);
        }
        let name = active.pool.name_of(entry.id)?;
        Err(match dataset_of(&name) == dataset_of(named) {
            true => self.may_not(named, NOTHING),
            false => self.also_of_others(named),
        })
    }

    fn also_of_others(&self, named: &str) -> Failure {
        self.may_not(
            named,
            "the command also concerns a dataset on which you have no permission",
        )
    }

    fn may_not(&self, name: &str, why: &str) -> Failure {
        let hint = match self.peer.dataset() {
            Some(_) => "the token reaches one dataset and those below it",
            None => "root gives permissions with 'strongroom allow'",
        };
        Failure::new(FailureKind::Permission, format!("'{name}': {why}; {hint}"))
    }
}

/// A dataset, and with `recursive` those below it.
pub(super) fn below(
    active: &ActivePool,
    entry: &Arc<Entry>,
    recursive: bool,
) -> Result<Vec<Arc<Entry>>> {
    match recursive && !entry.is_snapshot() {
        true => active.heads_below(entry),
        false => Ok(vec![Arc::clone(entry)]),
    }
}

/// The dataset in the name of a snapshot or bookmark, or of several snapshots.
pub(crate) fn dataset_of(name: &str) -> &str {
    name.split(['@', '#']).next().unwrap_or(name)
}

/// Returns whether the daemon reads a file, asks a server or runs a program to get a key from a source.
pub(super) fn is_read(source: Option<&str>) -> Result<bool> {
    let parsed = source.map(str::parse::<KeySource>).transpose()?;
    let location = parsed.as_ref().map(KeySource::location);
    Ok(location.is_some_and(|location| *location != Location::Prompt))
}

/// Refuses a delegate who would make datasets above the one that is named.
pub(super) fn one_by_one() -> Failure {
    refused("make the datasets one by one, without -p")
}

pub(super) fn refused(why: &str) -> Failure {
    Failure::new(FailureKind::Permission, why)
}

/// Refuses a command that no permission allows.
pub(super) fn only_root() -> Failure {
    refused(
        "only root and the user who runs the daemon may do this, or see everything; name datasets on which you \
         have a permission",
    )
}
