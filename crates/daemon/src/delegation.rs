//! Delegation: which users and groups may do what to which datasets, as `zfs allow`.
//!
//! What is allowed lies among the properties of a dataset, under a name that no property can have, in
//! lines of `WHO SCOPE PERMISSION,...`: who is `u` or `g` with a number, or `e` for everyone; the scope is `l`
//! for the dataset itself or `d` for what is below it. A line that is not understood allows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool::Entry;

use crate::api::{Failure, FailureKind, PermissionChange, PermissionRow, WhoKind};
use crate::failure::Result;
use crate::imported::Imported;
use crate::properties;
use crate::server::Context;
use crate::state::Daemon;
use crate::users::{self, Peer};

const PROPERTY: &str = "@allow";

/// Permissions that are not names of properties.
pub(crate) const PERMISSIONS: &[&str] = &[
    "allow",
    "clone",
    "create",
    "destroy",
    "diff",
    "hold",
    "key",
    "keychange",
    "mount",
    "promote",
    "receive",
    "release",
    "rename",
    "rollback",
    "send",
    "snapshot",
    "userprop",
];

/// Whom something is allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    User(u32),
    Group(u32),
    Everyone,
}

impl Who {
    fn parse(text: &str) -> Option<Who> {
        match text.split_at_checked(1)? {
            ("u", uid) => uid.parse().ok().map(Who::User),
            ("g", gid) => gid.parse().ok().map(Who::Group),
            ("e", "") => Some(Who::Everyone),
            _ => None,
        }
    }

    fn to_text(self) -> String {
        match self {
            Who::User(uid) => format!("u{uid}"),
            Who::Group(gid) => format!("g{gid}"),
            Who::Everyone => "e".into(),
        }
    }

    fn is(self, peer: &Peer) -> bool {
        match self {
            Who::User(uid) => uid == peer.uid,
            Who::Group(gid) => peer.groups.contains(&gid),
            Who::Everyone => true,
        }
    }
}

/// What somebody may do to a dataset, and to what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Granted {
    local: BTreeSet<String>,
    below: BTreeSet<String>,
}

/// What a dataset itself says of who may do what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grants(BTreeMap<Who, Granted>);

impl Grants {
    fn of(entry: &Entry) -> Grants {
        let text = entry.props.get(PROPERTY).map_or("", String::as_str);
        Grants::parse(text)
    }

    fn parse(text: &str) -> Grants {
        let mut grants = Grants::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (Some(who), Some(scope), Some(permissions), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(who) = Who::parse(who) else { continue };
            let granted = grants.0.entry(who).or_default();
            let set = match scope {
                "l" => &mut granted.local,
                "d" => &mut granted.below,
                _ => continue,
            };
            set.extend(permissions.split(',').map(str::to_owned));
        }
        grants
    }

    fn to_text(&self) -> String {
        let mut lines = Vec::new();
        for (who, granted) in &self.0 {
            for (scope, set) in [("l", &granted.local), ("d", &granted.below)] {
                if !set.is_empty() {
                    let all: Vec<&str> = set.iter().map(String::as_str).collect();
                    lines.push(format!("{} {scope} {}", who.to_text(), all.join(",")));
                }
            }
        }
        lines.join("\n")
    }

    fn allows(&self, peer: &Peer, permission: &str, is_below: bool) -> bool {
        let is_for_peer = self.0.iter().filter(|(who, _)| who.is(peer));
        is_for_peer.into_iter().any(|(_, granted)| match is_below {
            false => granted.local.contains(permission),
            true => granted.below.contains(permission),
        })
    }

    fn concerns(&self, peer: &Peer) -> bool {
        let mut found = self.0.iter();
        found.any(|(who, granted)| who.is(peer) && *granted != Granted::default())
    }
}

impl Imported {
    /// Whether somebody may do something to a dataset.
    pub(crate) fn allows(&self, entry: &Entry, peer: &Peer, permission: &str) -> Result<bool> {
        self.lineage(entry, |grants, is_below| {
            grants.allows(peer, permission, is_below)
        })
    }

    /// Whether somebody may do anything to a dataset.
    pub(crate) fn allows_something(&self, entry: &Entry, peer: &Peer) -> Result<bool> {
        self.lineage(entry, |grants, is_below| {
            let for_peer = grants.0.iter().filter(|(who, _)| who.is(peer));
            for_peer.into_iter().any(|(_, granted)| match is_below {
                false => !granted.local.is_empty(),
                true => !granted.below.is_empty(),
            })
        })
    }

    /// Whether it is so for what the dataset says, or one above it says for what is below.
    fn lineage(&self, entry: &Entry, is_so: impl Fn(&Grants, bool) -> bool) -> Result<bool> {
        let head = match entry.is_snapshot() {
            true => entry.parent,
            false => entry.id,
        };
        let mut at = self.pool.entry(head)?;
        let mut is_below = false;
        loop {
            if is_so(&Grants::of(&at), is_below) {
                return Ok(true);
            }
            if at.parent == 0 {
                return Ok(false);
            }
            at = self.pool.entry(at.parent)?;
            is_below = true;
        }
    }
}

impl Daemon {
    /// Whether anything is allowed to somebody, anywhere.
    pub(crate) fn knows(&self, peer: &Peer) -> bool {
        self.any_grants(|grants| grants.concerns(peer))
    }

    /// Whether anything is allowed to anybody who is not root, anywhere.
    pub(crate) fn has_delegates(&self) -> bool {
        self.any_grants(|grants| !grants.0.is_empty())
    }

    fn any_grants(&self, is_so: impl Fn(&Grants) -> bool) -> bool {
        let pools = self.pools().into_iter();
        let mut heads = pools.flat_map(|imported| imported.all_heads().unwrap_or_default());
        heads.any(|head| is_so(&Grants::of(&head)))
    }

    /// Allows something, or allows it no longer.
    pub(crate) fn change_permissions(
        &self,
        change: &PermissionChange,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (imported, _) = self.find(&change.name)?;
        for permission in &change.permissions {
            check_known(permission)?;
        }
        let named: Vec<Who> = change
            .who
            .iter()
            .map(|name| resolve(change.kind, name))
            .collect::<Result<_>>()?;
        let _admin = imported.lock()?;
        let entry = imported.pool.find(&change.name)?;
        if entry.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{}' is a snapshot; what is allowed is said of its dataset",
                change.name
            )));
        }
        let mut grants = Grants::of(&entry);
        for who in named {
            let granted = grants.0.entry(who).or_default();
            let sets = [
                (change.local, &mut granted.local),
                (change.below, &mut granted.below),
            ];
            for (_, set) in sets.into_iter().filter(|(is_meant, _)| *is_meant) {
                match (change.remove, change.permissions.is_empty()) {
                    (false, _) => set.extend(change.permissions.iter().cloned()),
                    (true, true) => set.clear(),
                    (true, false) => set.retain(|p| !change.permissions.contains(p)),
                }
            }
        }
        let text = grants.to_text();
        let value = (!text.is_empty()).then_some(text);
        let names = [change.name.clone()];
        let origin = context.origin();
        imported
            .pool
            .set_props(&names, &[(PROPERTY.to_owned(), value)], &origin)?;
        self.open_to_delegates();
        Ok(())
    }

    /// What is allowed on a dataset, its own first, then what those above it say.
    pub(crate) fn permissions(&self, name: &str) -> Result<Vec<PermissionRow>> {
        let (imported, entry) = self.find(name)?;
        let mut rows = Vec::new();
        let mut at: Arc<Entry> = match entry.is_snapshot() {
            true => imported.pool.entry(entry.parent)?,
            false => entry,
        };
        loop {
            let dataset = imported.pool.name_of(at.id)?;
            rows.extend(rows_of(&dataset, &Grants::of(&at)));
            if at.parent == 0 {
                return Ok(rows);
            }
            at = imported.pool.entry(at.parent)?;
        }
    }
}

fn rows_of(dataset: &str, grants: &Grants) -> Vec<PermissionRow> {
    let mut rows = Vec::new();
    for (who, granted) in &grants.0 {
        let both: BTreeSet<&String> = granted.local.intersection(&granted.below).collect();
        let local = granted.local.difference(&granted.below).collect();
        let below = granted.below.difference(&granted.local).collect();
        for (scope, set) in [
            ("local", local),
            ("descendent", below),
            ("local+descendent", both),
        ] {
            if set.is_empty() {
                continue;
            }
            let (kind, name) = match who {
                Who::User(uid) => (
                    WhoKind::User,
                    users::user_name(*uid).unwrap_or_else(|| uid.to_string()),
                ),
                Who::Group(gid) => (
                    WhoKind::Group,
                    users::group_name(*gid).unwrap_or_else(|| gid.to_string()),
                ),
                Who::Everyone => (WhoKind::Everyone, String::new()),
            };
            rows.push(PermissionRow {
                dataset: dataset.to_owned(),
                scope: scope.into(),
                kind,
                name,
                permissions: set.into_iter().cloned().collect(),
            });
        }
    }
    rows
}

/// Refuses what is neither a permission nor the name of a property.
fn check_known(permission: &str) -> Result<()> {
    let is_known =
        PERMISSIONS.contains(&permission) || properties::definition(permission).is_some();
    match is_known {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "there is no permission '{permission}'; there are {}, and the names of properties",
            PERMISSIONS.join(", ")
        ))),
    }
}

/// Whom a name stands for: a user, or if there is none, a group; or a number.
fn resolve(kind: Option<WhoKind>, name: &str) -> Result<Who> {
    let user = || users::uid_of(name).map(Who::User);
    let group = || users::gid_of(name).map(Who::Group);
    let found = match kind {
        Some(WhoKind::Everyone) => Some(Who::Everyone),
        Some(WhoKind::User) => user(),
        Some(WhoKind::Group) => group(),
        None if name == "everyone" => Some(Who::Everyone),
        None => user().or_else(group),
    };
    found.ok_or_else(|| {
        let what = match kind {
            Some(WhoKind::User) => "user",
            Some(WhoKind::Group) => "group",
            _ => "user or group",
        };
        Failure::new(
            FailureKind::NotFound,
            format!("there is no {what} '{name}' on this machine"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        Peer {
            uid,
            gid: uid,
            groups: groups.to_vec(),
            is_master: false,
            who: "someone".into(),
        }
    }

    #[test]
    fn what_is_allowed_is_written_and_read_back() {
        let text = "u7 l create,mount\nu7 d mount\ng50 d snapshot\ne l hold";
        let grants = Grants::parse(text);
        assert_eq!(Grants::parse(&grants.to_text()), grants);
        assert!(grants.allows(&peer(7, &[]), "create", false));
        assert!(!grants.allows(&peer(7, &[]), "create", true));
        assert!(grants.allows(&peer(7, &[]), "mount", true));
        assert!(grants.allows(&peer(8, &[50]), "snapshot", true));
        assert!(!grants.allows(&peer(8, &[]), "snapshot", true));
        assert!(grants.allows(&peer(8, &[]), "hold", false));
        assert!(grants.concerns(&peer(8, &[])));
    }

    /// Whoever can write to a device can write anything there.
    #[test]
    fn what_is_not_understood_allows_nothing() {
        for text in [
            "",
            "u l create",
            "u7",
            "u7 l",
            "u7 x create",
            "u7 l create mount",
            "u-1 l create",
            "u4294967303 l create",
            "x7 l create",
            "everyone l create",
            "\u{e9}7 l create",
        ] {
            let grants = Grants::parse(text);
            assert!(!grants.allows(&peer(7, &[]), "create", false), "{text:?}");
        }
    }

    #[test]
    fn permissions_are_known() {
        for known in ["key", "keychange", "compression", "mountpoint"] {
            check_known(known).unwrap();
        }
        for unknown in ["", "used", "@allow", "anything"] {
            assert!(check_known(unknown).is_err(), "{unknown}");
        }
    }
}
