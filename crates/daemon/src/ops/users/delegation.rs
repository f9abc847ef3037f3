//! Delegation: the permissions of users and groups on datasets, as with `zfs allow`.
//!
//! A dataset has its permissions among its properties, under a name that no property can have. Each line is
//! `WHO SCOPE PERMISSION,...`:
//!
//! - `WHO` is `u` or `g` with a number, or `e` for everyone; `c` for the creator of a dataset below, on that dataset;
//!   or `@NAME`, which defines a set of permissions.
//! - `SCOPE` is `l` for the dataset itself, or `d` for the datasets below. `c` and `@NAME` have the scope `l`.
//!
//! A malformed line allows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool::Entry;
use protocol::accounts;
use protocol::api::{FailureKind, PermissionRow, WhoKind, command};
use protocol::property::Property;

use crate::failure::{Failure, Result};
use crate::host::callers::scope::PeerToken;
use crate::host::callers::users::Peer;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::state::callers::context::{CallerContext, ENTRY_TEXTS};
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

const PROPERTY: &str = "@allow";

/// Permissions that are not names of properties.
pub(crate) const PERMISSIONS: &[&str] = &[
    "allow",
    "bookmark",
    "clone",
    "create",
    "destroy",
    "diff",
    "groupobjquota",
    "groupobjused",
    "groupquota",
    "groupused",
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
    "userobjquota",
    "userobjused",
    "userprop",
    "userquota",
    "userused",
    "volblocksize",
    "volsize",
];

/// The user or users who have a permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Grantee {
    User(u32),
    Group(u32),
    Everyone,
    /// The user who makes a dataset below has the permission on that dataset.
    Creator,
    /// No user: a set of permissions with a name.
    Set(String),
}

impl Grantee {
    fn parse(text: &str) -> Option<Grantee> {
        match text.split_at_checked(1)? {
            ("u", uid) => uid.parse().ok().map(Grantee::User),
            ("g", gid) => gid.parse().ok().map(Grantee::Group),
            ("e", "") => Some(Grantee::Everyone),
            ("c", "") => Some(Grantee::Creator),
            ("@", name) if is_set_name(name) => Some(Grantee::Set(name.into())),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Grantee::User(uid) => format!("u{uid}"),
            Grantee::Group(gid) => format!("g{gid}"),
            Grantee::Everyone => "e".into(),
            Grantee::Creator => "c".into(),
            Grantee::Set(name) => format!("@{name}"),
        }
    }

    fn is(&self, peer: &Peer) -> bool {
        match self {
            Grantee::User(uid) => *uid == peer.uid,
            Grantee::Group(gid) => peer.groups.contains(gid),
            Grantee::Everyone => true,
            Grantee::Creator | Grantee::Set(_) => false,
        }
    }

    /// Returns whether this is a user, a group or everyone, and not a set or the creators.
    fn is_named(&self) -> bool {
        !matches!(self, Grantee::Creator | Grantee::Set(_))
    }
}

/// Returns whether users have permissions on a dataset itself. They may set its properties.
pub(crate) fn has_grants(entry: &Entry) -> bool {
    let mut grants = Grants::of(entry).0.into_iter();
    grants.any(|(who, granted)| {
        who.is_named() && !(granted.local.is_empty() && granted.below.is_empty())
    })
}

/// Returns whether users have permissions on a dataset above this one. They may decide what has its name.
pub(crate) fn is_delegated(active: &ActivePool, entry: &Entry) -> bool {
    let mut above = active.pool.entry(entry.parent).ok();
    while let Some(parent) = above {
        let is_near = parent.id == entry.parent;
        let mut grants = Grants::of(&parent).0.into_iter();
        if grants.any(|(who, granted)| {
            let is_granted = !granted.below.is_empty() || is_near && !granted.local.is_empty();
            who.is_named() && is_granted
        }) {
            return true;
        }
        above = active.pool.entry(parent.parent).ok();
    }
    false
}

/// The permissions on a dataset, and on the datasets below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GrantedPermissions {
    local: BTreeSet<String>,
    below: BTreeSet<String>,
}

/// The permissions that are set on one dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Grants(BTreeMap<Grantee, GrantedPermissions>);

impl Grants {
    fn of(entry: &Entry) -> Grants {
        let text = entry.props.get(PROPERTY).map_or("", String::as_str);
        Grants::parse(text)
    }

    fn parse(text: &str) -> Grants {
        let mut grants = Grants::default();
        for line in text.split('\n') {
            let mut words = line.split(' ');
            let (Some(who), Some(scope), Some(permissions), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(who) = Grantee::parse(who) else {
                continue;
            };
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

    /// The permissions and sets that a user has on the dataset, or on the datasets below it.
    fn granted(&self, peer: &Peer, is_below: bool) -> impl Iterator<Item = &String> {
        let is_for_peer = self.0.iter().filter(|(who, _)| who.is(peer));
        is_for_peer.flat_map(move |(_, granted)| match is_below {
            false => &granted.local,
            true => &granted.below,
        })
    }

    /// The permissions of a set, or of the creators of datasets below, as they are set on this dataset.
    fn defined(&self, who: &Grantee) -> impl Iterator<Item = &String> {
        self.0
            .get(who)
            .into_iter()
            .flat_map(|granted| &granted.local)
    }

    fn concerns(&self, peer: &Peer) -> bool {
        let mut found = self.0.iter();
        found.any(|(who, granted)| who.is(peer) && *granted != GrantedPermissions::default())
    }
}

/// Reads the permissions that are stored in a pool, and queries them.
#[cfg(fuzzing)]
pub fn read_grants(text: &str) {
    let grants = Grants::parse(text);
    let again = grants.to_text();
    assert_eq!(Grants::parse(&again).to_text(), again);
    let peer = Peer {
        uid: 7,
        gid: 7,
        groups: vec![7],
        is_admin: false,
        token: None,
        who: "ann".into(),
    };
    let lineage = GrantChain {
        grants: vec![grants.clone(), grants],
        guids: Vec::new(),
    };
    if lineage.allows(&peer, "mount") {
        assert!(lineage.allows_something(&peer));
    }
    lineage.for_creator();
}

/// The permissions that are set on a dataset, then those on each dataset above it.
#[derive(Default)]
struct GrantChain {
    grants: Vec<Grants>,
    guids: Vec<u64>,
}

impl GrantChain {
    /// Adds the next dataset above.
    fn push(&mut self, entry: &Entry) {
        self.grants.push(Grants::of(entry));
        self.guids.push(entry.guid);
    }

    /// Returns whether a user has a permission on the first dataset.
    fn allows(&self, peer: &Peer, permission: &str) -> bool {
        (0..self.grants.len()).any(|level| {
            let mut granted = self.grants[level].granted(peer, level > 0);
            granted.any(|granted| {
                granted == permission || self.expand(level, granted).contains(permission)
            })
        })
    }

    /// Returns whether a user has any permission on the first dataset.
    fn allows_something(&self, peer: &Peer) -> bool {
        let mut levels = self.grants.iter().enumerate();
        levels.any(|(level, grants)| grants.granted(peer, level > 0).next().is_some())
    }

    /// The permissions of a set that is used on the dataset at `level`, as it is defined there and above. Sets may name
    /// other sets. The result is empty if there is no set with this name.
    fn expand(&self, level: usize, set: &str) -> BTreeSet<&str> {
        let mut all = BTreeSet::new();
        let mut waiting = vec![set];
        let mut seen = BTreeSet::new();
        while let Some(set) = waiting.pop() {
            let Some(name) = set.strip_prefix('@').filter(|_| seen.insert(set)) else {
                continue;
            };
            let who = Grantee::Set(name.into());
            for permission in self.grants[level..]
                .iter()
                .flat_map(|grants| grants.defined(&who))
            {
                match permission.starts_with('@') {
                    true => waiting.push(permission),
                    false => drop(all.insert(permission.as_str())),
                }
            }
        }
        all
    }

    /// The permissions of a user on a dataset that this user creates directly below the first dataset.
    fn for_creator(&self) -> BTreeSet<String> {
        let levels = self.grants.iter();
        let granted = levels.flat_map(|grants| grants.defined(&Grantee::Creator));
        granted.cloned().collect()
    }
}

impl ActivePool {
    /// Returns whether a user has a permission on a dataset.
    pub(crate) fn allows(&self, entry: &Entry, peer: &Peer, permission: &str) -> Result<bool> {
        let lineage = self.lineage(entry)?;
        let (is_denied, is_given) = match &peer.token {
            Some(token) => (token.denies(permission), token.gives_all()),
            None => (false, false),
        };
        Ok(!is_denied
            && self.is_in_scope(&lineage, peer)
            && (is_given || lineage.allows(peer, permission)))
    }

    /// Returns whether a user has any permission on a dataset.
    pub(crate) fn allows_something(&self, entry: &Entry, peer: &Peer) -> Result<bool> {
        let lineage = self.lineage(entry)?;
        let is_given = peer.token.as_ref().is_some_and(PeerToken::gives_all);
        Ok(self.is_in_scope(&lineage, peer) && (is_given || lineage.allows_something(peer)))
    }

    /// Refuses a delegate who may not destroy all of these. The command has checked that; a clone may have come since.
    pub(crate) fn may_destroy(&self, doomed: &[Arc<Entry>], peer: &Peer) -> Result<()> {
        for entry in doomed {
            if !self.allows(entry, peer, "destroy")? || !self.allows(entry, peer, "mount")? {
                let why =
                    "meanwhile a clone was made that you may not destroy; nothing is destroyed";
                return Err(Failure::new(FailureKind::Permission, why));
            }
        }
        Ok(())
    }

    /// The property that gives the user with this uid the permissions of a creator on a new dataset below `above`;
    /// `None` if creators get no permissions there.
    pub(crate) fn grants_for_creator(
        &self,
        above: &Entry,
        uid: u32,
    ) -> Result<Option<(String, String)>> {
        let local = self.lineage(above)?.for_creator();
        if local.is_empty() {
            return Ok(None);
        }
        let below = BTreeSet::new();
        let granted = GrantedPermissions { local, below };
        let grants = Grants(BTreeMap::from([(Grantee::User(uid), granted)]));
        Ok(Some((PROPERTY.into(), grants.to_text())))
    }

    /// Returns whether the token of a caller reaches a dataset.
    fn is_in_scope(&self, lineage: &GrantChain, peer: &Peer) -> bool {
        peer.dataset().is_none_or(|dataset| {
            self.pool.guid() == dataset.pool && lineage.guids.contains(&dataset.guid)
        })
    }

    fn lineage(&self, entry: &Entry) -> Result<GrantChain> {
        #[cfg(test)]
        lookups::count();
        let head = match entry.is_snapshot() {
            true => entry.parent,
            false => entry.id,
        };
        let mut at = self.pool.entry(head)?;
        let mut lineage = GrantChain::default();
        lineage.push(&at);
        while at.parent != 0 {
            at = self.pool.entry(at.parent)?;
            lineage.push(&at);
        }
        Ok(lineage)
    }
}

impl Daemon {
    /// Returns whether a user has a permission on any dataset.
    pub(crate) fn knows(&self, peer: &Peer) -> bool {
        // Of a pool whose store does not answer nothing is allowed.
        let Some(bound) = peer.dataset() else {
            return self.any_grants(false, |grants| grants.concerns(peer));
        };
        let pools = self.pools();
        let mut pools = pools.iter().filter(|it| it.pool.guid() == bound.pool);
        pools.any(|active| {
            let peer = peer.clone();
            let sees_any = unless_stalled(active, move |active| {
                let heads = active.all_heads().unwrap_or_default();
                let mut allowed = heads
                    .iter()
                    .map(|head| active.allows_something(head, &peer));
                allowed.any(std::result::Result::unwrap_or_default)
            });
            sees_any.unwrap_or_default()
        })
    }

    /// Returns whether any user but root has a permission, on any dataset.
    pub(crate) fn has_delegates(&self) -> bool {
        // A pool whose store does not answer may have some. Each command is checked all the same.
        self.any_grants(true, |grants| grants.0.keys().any(Grantee::is_named))
    }

    /// `unknown` is the answer for a pool whose store does not answer.
    fn any_grants(&self, unknown: bool, is_so: impl Fn(&Grants) -> bool) -> bool {
        let pools = self.pools();
        pools.iter().any(|active| {
            let heads = unless_stalled(active, |active| active.all_heads().unwrap_or_default());
            heads.map_or(unknown, |heads| {
                heads.iter().any(|head| is_so(&Grants::of(head)))
            })
        })
    }

    /// Gives or takes away permissions.
    pub(crate) fn change_permissions(
        &self,
        change: &command::ChangePermissions,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let (active, _) = self.find(&change.name)?;
        for permission in &change.permissions {
            check_known(permission)?;
        }
        let named: Vec<Grantee> = change
            .who
            .iter()
            .map(|name| resolve(change.kind, name))
            .collect::<Result<_>>()?;
        let _admin = active.lock(context.decision)?;
        let entry = active.pool.find(&change.name)?;
        if entry.is_snapshot() {
            return Err(Failure::usage(format!(
                "'{}' is a snapshot; permissions belong to its dataset: name that",
                change.name
            )));
        }
        if !change.remove {
            context.check_texts(&active, ENTRY_TEXTS)?;
        }
        let mut grants = Grants::of(&entry);
        for who in named {
            let is_named = who.is_named();
            let granted = grants.0.entry(who).or_default();
            // Sets and the permissions of creators are always stored as local.
            let sets = [
                (change.local || !is_named, &mut granted.local),
                (change.below && is_named, &mut granted.below),
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
        active
            .pool
            .set_props(&names, &[(PROPERTY.to_owned(), value)], &origin)?;
        self.open_to_delegates();
        Ok(())
    }

    /// The permissions that are set on a dataset, then those on the datasets above it.
    pub(crate) fn permissions(&self, name: &str) -> Result<Vec<PermissionRow>> {
        let (active, entry) = self.find(name)?;
        let mut rows = Vec::new();
        let mut at: Arc<Entry> = match entry.is_snapshot() {
            true => active.pool.entry(entry.parent)?,
            false => entry,
        };
        loop {
            let dataset = active.pool.name_of(at.id)?;
            rows.extend(rows_of(&dataset, &Grants::of(&at)));
            if at.parent == 0 {
                return Ok(rows);
            }
            at = active.pool.entry(at.parent)?;
        }
    }
}

fn rows_of(dataset: &str, grants: &Grants) -> Vec<PermissionRow> {
    let mut rows = Vec::new();
    for (who, granted) in &grants.0 {
        let both: BTreeSet<&String> = granted.local.intersection(&granted.below).collect();
        let local = granted.local.difference(&granted.below).collect();
        let below = granted.below.difference(&granted.local).collect();
        let local_scope = match who {
            Grantee::Set(_) => "set",
            Grantee::Creator => "create",
            _ => "local",
        };
        for (scope, set) in [
            (local_scope, local),
            ("descendent", below),
            ("local+descendent", both),
        ] {
            if set.is_empty() {
                continue;
            }
            let (kind, name) = match who {
                Grantee::User(uid) => (
                    WhoKind::User,
                    accounts::user_name(*uid).unwrap_or_else(|| uid.to_string()),
                ),
                Grantee::Group(gid) => (
                    WhoKind::Group,
                    accounts::group_name(*gid).unwrap_or_else(|| gid.to_string()),
                ),
                Grantee::Everyone => (WhoKind::Everyone, String::new()),
                Grantee::Creator => (WhoKind::Creator, String::new()),
                Grantee::Set(name) => (WhoKind::Set, format!("@{name}")),
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

/// Returns whether a set can have this name, without the `@` before it.
fn is_set_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

/// Refuses a word that is not a permission, the name of a property or a set.
fn check_known(permission: &str) -> Result<()> {
    let is_set = permission.strip_prefix('@').is_some_and(is_set_name);
    let is_known = PERMISSIONS.contains(&permission) || Property::settable(permission).is_some();
    match is_known || is_set {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "there is no permission '{permission}'; there are {}, the names of properties, and \
             sets: @NAME",
            PERMISSIONS.join(", ")
        ))),
    }
}

/// The user with this name, or the group if there is no such user; or the id, if it is a number.
fn resolve(kind: Option<WhoKind>, name: &str) -> Result<Grantee> {
    let user = || accounts::uid_of(name).map(Grantee::User);
    let group = || accounts::gid_of(name).map(Grantee::Group);
    let found = match kind {
        Some(WhoKind::Everyone) => Some(Grantee::Everyone),
        Some(WhoKind::User) => user(),
        Some(WhoKind::Group) => group(),
        Some(WhoKind::Creator) => Some(Grantee::Creator),
        Some(WhoKind::Set) => {
            let is_set = name.strip_prefix('@').filter(|name| is_set_name(name));
            let set = is_set.map(|name| Grantee::Set(name.into()));
            return set.ok_or_else(|| {
                Failure::usage(format!(
                    "'{name}' cannot be the name of a permission set; a name is @ and then letters, digits and \
                     the characters '-_.:'"
                ))
            });
        }
        None if name == "everyone" => Some(Grantee::Everyone),
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

/// A count of the lookups of permissions by the thread of a test.
#[cfg(test)]
pub(crate) mod lookups {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.with(|count| count.set(count.get() + 1));
    }

    /// The lookups since the last call.
    pub(crate) fn take() -> usize {
        COUNT.with(Cell::take)
    }
}

#[cfg(test)]
mod tests;
