//! What somebody who is neither root nor the daemon's user may have done: the commands that are listed here,
//! each with the permissions that it takes. Everything else is refused.

use std::sync::Arc;

use keys::{KeySource, Location};
use pool::{Entry, Reach};
use protocol::api::{
    Allowed, Command, DatasetRow, FailureKind, OwnerKind, Props, SendWhat, Value, WhoKind, command,
};

use crate::failure::{Failure, Result};
use crate::host::users::Peer;
use crate::state::active_pool::ActivePool;
use crate::state::context::reach;
use crate::state::daemon::Daemon;
use crate::state::properties;
use crate::state::zones::view::View;

/// The permissions to receive into a dataset, or to have a new one below it.
const RECEIVE: &[&str] = &["receive", "create", "mount"];

/// Why a caller is refused who may do nothing to a dataset, or who names one that is not there.
const NOTHING: &str = "nothing is allowed to you there";

/// A user, and what this user may do.
struct Check<'a> {
    daemon: &'a Daemon,
    peer: &'a Peer,
}

impl Daemon {
    /// Refuses what somebody may not have done. What comes through a zone is decided there, whoever it
    /// comes from, and becomes what it means to the daemon.
    pub(crate) fn authorize(
        &self,
        peer: &Peer,
        view: Option<&View>,
        command: Command,
    ) -> Result<Command> {
        if let Some(view) = view {
            return self.admit(view, command);
        }
        if !peer.is_admin {
            let check = Check { daemon: self, peer };
            check.datasets(&command)?;
        }
        Ok(command)
    }

    /// Leaves out of an answer the names of datasets on which nothing is allowed to a caller.
    pub(crate) fn seen_by(&self, peer: &Peer, mut rows: Vec<DatasetRow>) -> Vec<DatasetRow> {
        if peer.is_admin {
            return rows;
        }
        let check = Check { daemon: self, peer };
        for prop in rows.iter_mut().flat_map(|row| &mut row.props) {
            if let ("clones" | "origin", Value::Text(names)) = (&*prop.property, &prop.value) {
                prop.value = match check.seen(names) {
                    seen if seen.is_empty() => Value::None,
                    seen => Value::Text(seen),
                };
            }
        }
        rows
    }
}

impl Check<'_> {
    fn datasets(&self, command: &Command) -> Result<()> {
        match command {
            Command::Create(command::Create {
                name,
                props,
                parents,
                volume,
                ..
            }) => {
                self.make(name, props, *parents)?;
                match (volume, name.rsplit_once('/')) {
                    // Room is reserved for it.
                    (Some(volume), Some((above, _))) if !volume.sparse => {
                        self.need(above, &["refreservation"])
                    }
                    _ => Ok(()),
                }
            }
            Command::Destroy(command::Destroy {
                name,
                recursive,
                clones,
                ..
            })
            | Command::Shred(command::Shred {
                name,
                recursive,
                clones,
                ..
            }) => self.destroy(name, reach(*recursive, *clones)),
            Command::Clone(command::Clone {
                snapshot,
                name,
                props,
                parents,
                ..
            }) => {
                self.need(snapshot, &["clone"])?;
                self.make(name, props, *parents)
            }
            Command::Promote(command::Promote { name }) => {
                self.need(name, &["promote", "mount"])?;
                let (imported, entry) = self.find(name)?;
                match imported.pool.entry(entry.origin) {
                    Ok(origin) => self.need_of(name, &imported, &origin, &["promote", "mount"]),
                    // It says itself that it is no clone.
                    Err(_) => Ok(()),
                }
            }
            Command::Rename(command::Rename { from, to }) => {
                self.need(from, &["rename"])?;
                match to.rsplit_once('/').filter(|_| !from.contains('@')) {
                    None => Ok(()),
                    Some((above, _)) => {
                        self.need(from, &["mount"])?;
                        self.need(above, &["create", "mount"])
                    }
                }
            }
            Command::Set(command::Set { names, props, .. }) => {
                for name in names {
                    // Also where no property asks for a permission.
                    self.something_of(dataset_of(name))?;
                    self.properties(name, props)?;
                }
                Ok(())
            }
            Command::Inherit(command::Inherit {
                names,
                prop,
                recursive,
            }) => {
                let permission = properties::permission_for(prop);
                let mut names = names.iter();
                names.try_for_each(|name| self.need_below(name, *recursive, &[permission]))
            }
            other => self.snapshots(other),
        }
    }

    fn snapshots(&self, command: &Command) -> Result<()> {
        match command {
            Command::Snapshot(command::Snapshot { names, recursive }) => {
                self.need_all(names, *recursive, &["snapshot"])
            }
            Command::Rollback(command::Rollback {
                name, recursive, ..
            }) => {
                self.need(name, &["rollback", "mount"])?;
                match recursive {
                    true => self.destroy_later(name),
                    false => Ok(()),
                }
            }
            Command::Hold(command::Hold {
                names, recursive, ..
            }) => self.need_all(names, *recursive, &["hold"]),
            Command::Release(command::Release {
                names, recursive, ..
            }) => self.need_all(names, *recursive, &["release"]),
            // Where the stream goes on from may be another dataset's.
            Command::Send(command::Send {
                what: SendWhat::Snapshot { name, from, .. },
                raw,
                ..
            }) => {
                // A caller who may not have the contents opened can send them as long as they are sealed.
                let needed: &[&str] = match *raw && self.is_sealed(name) {
                    true => &["send"],
                    false => &["send", "key"],
                };
                self.need(name, needed)?;
                match from.as_ref().filter(|from| !from.starts_with('@')) {
                    Some(from) => self.need(from, needed),
                    None => Ok(()),
                }
            }
            Command::Diff(command::Diff { from, to }) => {
                self.need(from, &["diff"])?;
                match to.as_ref().filter(|to| !to.starts_with('@')) {
                    Some(to) => self.need(to, &["diff"]),
                    None => Ok(()),
                }
            }
            Command::Receive(command::Receive {
                target,
                force,
                props,
                ..
            }) => {
                self.receive(target)?;
                let (at, is_there) = self.receives_at(target)?;
                if *force && is_there {
                    self.need(at, &["rollback", "destroy"])?;
                }
                self.properties(at, props)
            }
            Command::ReceiveAbandon(command::ReceiveAbandon { target }) => self.receive(target),
            other => self.mounts(other),
        }
    }

    fn mounts(&self, command: &Command) -> Result<()> {
        match command {
            Command::Mount(command::Mount {
                name: Some(name),
                dir: None,
                overlay: false,
                allowed,
                load_keys,
                ..
            }) if *allowed == Allowed::default() => {
                self.need(name, &["mount"])?;
                match load_keys {
                    true => self.key_root(name),
                    false => Ok(()),
                }
            }
            Command::Mount(command::Mount { name: Some(_), .. }) | Command::Remount(_) => {
                Err(refused(
                    "where and how it is mounted is for root to say; mount it by its name alone",
                ))
            }
            Command::Unmount(command::Unmount {
                target: Some(name), ..
            }) if !name.starts_with('/') => self.need(name, &["mount"]),
            other => self.keys(other),
        }
    }

    fn keys(&self, command: &Command) -> Result<()> {
        match command {
            Command::KeyLoad(command::KeyLoad {
                names,
                recursive,
                location,
                keysource,
                ..
            }) if !names.is_empty() => {
                // The format does not matter here.
                let given = location.as_ref().map(|location| format!("raw,{location}"));
                let given = given.filter(|_| location.as_deref() != Some("prompt"));
                for source in [keysource, &given] {
                    if is_read(source.as_deref())? {
                        self.need_all(names, *recursive, &["keysource"])?;
                    }
                }
                self.need_all(names, *recursive, &["key"])
            }
            Command::KeyUnload(command::KeyUnload {
                names, recursive, ..
            }) if !names.is_empty() => self.need_all(names, *recursive, &["key"]),
            // It says what the daemon reads and runs.
            Command::KeyAccept(command::KeyAccept { names, recursive }) if !names.is_empty() => {
                self.need_all(names, *recursive, &["key", "keysource"])
            }
            Command::KeyChange(command::KeyChange {
                name, keysource, ..
            })
            | Command::KeyAdd(command::KeyAdd {
                name, keysource, ..
            })
            | Command::KeyRemove(command::KeyRemove {
                name, keysource, ..
            }) => {
                self.source(name, keysource.as_deref())?;
                self.need(name, &["keychange"])
            }
            Command::KeyRotate(command::KeyRotate { name, .. }) => self.need(name, &["keychange"]),
            other => self.looks(other),
        }
    }

    fn looks(&self, command: &Command) -> Result<()> {
        match command {
            Command::Get(command::Get {
                names,
                depth,
                snapshots,
                props,
            }) if !names.is_empty() => {
                for name in names {
                    let (imported, entry) = self.find(name)?;
                    let looks_below = *depth != Some(0) || *snapshots;
                    for head in below(&imported, &entry, looks_below)? {
                        self.something(name, &imported, &head)?;
                        for prop in props.iter().filter(|prop| prop.contains('@')) {
                            let permission = properties::permission_for(prop);
                            self.need_of(name, &imported, &head, &[permission])?;
                        }
                    }
                }
                Ok(())
            }
            Command::Userspace(command::Userspace { name, kind, .. }) => match kind {
                OwnerKind::User => self.need(name, &["userused", "userobjused"]),
                OwnerKind::Group => self.need(name, &["groupused", "groupobjused"]),
            },
            Command::Holds(command::Holds { names, recursive }) if !names.is_empty() => {
                for name in names.iter().map(|name| dataset_of(name)) {
                    let (imported, entry) = self.find(name)?;
                    for head in below(&imported, &entry, *recursive)? {
                        self.something(name, &imported, &head)?;
                    }
                }
                Ok(())
            }
            Command::KeyStatus(command::KeyStatus { names }) if !names.is_empty() => {
                let mut names = names.iter().map(|name| dataset_of(name));
                names.try_for_each(|name| self.something_of(name))
            }
            Command::KeySlots(command::KeySlots { name })
            | Command::KeyGenerations(command::KeyGenerations { name })
            | Command::Permissions(command::Permissions { name }) => self.something_of(name),
            Command::ChangePermissions(change) => {
                let own: Vec<&str> = change.permissions.iter().map(String::as_str).collect();
                // A set can have more tomorrow than whoever passes it on today.
                let is_set = own.iter().any(|permission| permission.starts_with('@'));
                if is_set || matches!(change.kind, Some(WhoKind::Set | WhoKind::Creator)) {
                    return Err(refused(
                        "sets, and what is allowed to whoever makes datasets, are for root to say",
                    ));
                }
                if change.remove && own.is_empty() {
                    return Err(refused("name what is to be allowed no longer"));
                }
                let (imported, entry) = self.find(&change.name)?;
                for head in below(&imported, &entry, change.below)? {
                    self.need_of(&change.name, &imported, &head, &["allow"])?;
                    self.need_of(&change.name, &imported, &head, &own)?;
                }
                Ok(())
            }
            _ => Err(refused(
                "only root and the user who runs the daemon may do this, or see all there is; name \
                 datasets on which something is allowed to you",
            )),
        }
    }

    /// Receiving into a dataset, or making one.
    fn receive(&self, target: &str) -> Result<()> {
        let (at, _) = self.receives_at(target)?;
        self.need(at, RECEIVE)
    }

    /// The dataset that says whether something may be received there, and whether it is that one: a new one
    /// is for the one above to say. A dataset that the caller may not see is refused as if it were not there.
    fn receives_at<'n>(&self, target: &'n str) -> Result<(&'n str, bool)> {
        let dataset = dataset_of(target);
        let there = self.daemon.find(dataset).ok();
        if let Some((imported, entry)) = &there
            && imported.allows_something(entry, self.peer)?
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

    /// Making a dataset with these properties.
    fn make(&self, name: &str, props: &Props, parents: bool) -> Result<()> {
        if parents {
            return Err(refused("make the datasets one by one, without -p"));
        }
        let Some((above, _)) = name.rsplit_once('/') else {
            return Err(refused("only root makes pools"));
        };
        self.need(above, &["create", "mount"])?;
        self.properties(above, props)
    }

    fn destroy(&self, name: &str, reach: Reach) -> Result<()> {
        // Before anything is looked for: a caller who may do nothing there learns nothing.
        self.need(dataset_of(name), &["destroy"])?;
        let imported = self.daemon.pool_of(dataset_of(name))?;
        let doomed = match imported.pool.doomed(name, reach) {
            Err(pool::Error::HasClones { name, clones }) => {
                return Err(self.has_clones(name, &clones));
            }
            doomed => doomed?,
        };
        for entry in doomed {
            self.need_of(name, &imported, &entry, &["destroy", "mount"])?;
        }
        Ok(())
    }

    /// Destroying the snapshots after this one.
    fn destroy_later(&self, name: &str) -> Result<()> {
        self.need(name, &["destroy"])?;
        let (imported, entry) = self.daemon.find(name)?;
        for later in imported.pool.snapshots(imported.head(&entry)?.id)? {
            let clones = imported.pool.clones(later.id).join(", ");
            if later.created_txg > entry.created_txg && !clones.is_empty() {
                return Err(self.has_clones(imported.pool.name_of(later.id)?, &clones));
            }
        }
        Ok(())
    }

    /// Says that clones are in the way, and names those that the caller may see.
    fn has_clones(&self, name: String, clones: &str) -> Failure {
        let seen = self.seen(clones);
        match seen.is_empty() {
            false => pool::Error::HasClones { name, clones: seen }.into(),
            true => Failure::new(
                FailureKind::Busy,
                format!(
                    "{name} has clones on which nothing is allowed to you; ask root to promote or destroy them"
                ),
            ),
        }
    }

    /// Those of these datasets on which something is allowed to the caller.
    fn seen(&self, names: &str) -> String {
        let seen = |name: &&str| self.something_of(name.trim()).is_ok();
        let seen: Vec<&str> = names.split(',').filter(seen).map(str::trim).collect();
        seen.join(",")
    }

    fn properties(&self, name: &str, props: &Props) -> Result<()> {
        for (property, value) in props {
            match property.as_str() {
                "keysource" => self.source(name, Some(value))?,
                property => self.need(name, &[properties::permission_for(property)])?,
            }
        }
        Ok(())
    }

    /// A source of keys. What the daemon reads or runs for somebody is for root to say, unless he allows
    /// the property; to be asked is no such thing.
    fn source(&self, name: &str, source: Option<&str>) -> Result<()> {
        match is_read(source)? {
            true => self.need(name, &["keysource"]),
            false => Ok(()),
        }
    }

    /// Whether the contents of a dataset are encrypted. What is not there has none.
    fn is_sealed(&self, name: &str) -> bool {
        let found = self.daemon.find(dataset_of(name));
        found.is_ok_and(|(_, entry)| entry.suite != 0)
    }

    /// Loading the key that opens a dataset.
    fn key_root(&self, name: &str) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        match imported.key_root(&entry)? {
            0 => Ok(()),
            root => self.need_of(name, &imported, &*imported.pool.entry(root)?, &["key"]),
        }
    }

    fn need_all(&self, names: &[String], recursive: bool, permissions: &[&str]) -> Result<()> {
        let mut names = names.iter().map(|name| dataset_of(name));
        names.try_for_each(|name| self.need_below(name, recursive, permissions))
    }

    fn need_below(&self, name: &str, recursive: bool, permissions: &[&str]) -> Result<()> {
        self.need(name, permissions)?;
        let (imported, entry) = self.find(dataset_of(name))?;
        for head in below(&imported, &entry, recursive)? {
            self.need_of(name, &imported, &head, permissions)?;
        }
        Ok(())
    }

    fn need(&self, name: &str, permissions: &[&str]) -> Result<()> {
        let name = dataset_of(name);
        let (imported, entry) = self.find(name)?;
        self.need_of(name, &imported, &entry, permissions)
    }

    /// What is not there and what he may do nothing to are the same to somebody.
    fn find(&self, name: &str) -> Result<(Arc<ActivePool>, Arc<Entry>)> {
        let found = self.daemon.find(name);
        found.map_err(|_| self.may_not(name, NOTHING))
    }

    /// Refuses a caller who lacks a permission on `entry`, which `named` stands for or brings with it.
    fn need_of(
        &self,
        named: &str,
        imported: &ActivePool,
        entry: &Entry,
        permissions: &[&str],
    ) -> Result<()> {
        for permission in permissions {
            if !imported.allows(entry, self.peer, permission)? {
                self.something(named, imported, entry)?;
                let name = imported.pool.name_of(entry.id)?;
                let why = format!("the permission '{permission}' is not allowed to you there");
                return Err(self.may_not(&name, &why));
            }
        }
        Ok(())
    }

    fn something_of(&self, name: &str) -> Result<()> {
        let (imported, entry) = self.find(name)?;
        self.something(name, &imported, &entry)
    }

    /// Refuses a caller to whom nothing is allowed on `entry`, and does not tell its name: the caller named `named`.
    fn something(&self, named: &str, imported: &ActivePool, entry: &Entry) -> Result<()> {
        if imported.allows_something(entry, self.peer)? {
            return Ok(());
        }
        let name = imported.pool.name_of(entry.id)?;
        Err(match dataset_of(&name) == dataset_of(named) {
            true => self.may_not(named, NOTHING),
            false => self.may_not(
                named,
                "this is also about a dataset on which nothing is allowed to you",
            ),
        })
    }

    fn may_not(&self, name: &str, why: &str) -> Failure {
        Failure::new(
            FailureKind::Permission,
            format!("'{name}': {why}; who may do what is said with 'strongroom allow'"),
        )
    }
}

/// A dataset, and with `recursive` those below it.
fn below(imported: &ActivePool, entry: &Arc<Entry>, recursive: bool) -> Result<Vec<Arc<Entry>>> {
    match recursive && !entry.is_snapshot() {
        true => imported.heads_below(entry),
        false => Ok(vec![Arc::clone(entry)]),
    }
}

/// The dataset of a snapshot's name, or of what stands for several.
pub(crate) fn dataset_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(dataset, _)| dataset)
}

/// Whether the daemon reads or runs something to have a key from a source.
fn is_read(source: Option<&str>) -> Result<bool> {
    let parsed = source.map(str::parse::<KeySource>).transpose()?;
    let location = parsed.as_ref().map(KeySource::location);
    Ok(location.is_some_and(|location| *location != Location::Prompt))
}

fn refused(why: &str) -> Failure {
    Failure::new(FailureKind::Permission, why)
}
