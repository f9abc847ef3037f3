//! The accounts of users and groups in a dataset: their use and their quotas.
//!
//! An account counts bytes and inodes. Bytes are those of records before compression, without holes, and of the
//! contents of small files. Both count for the owner and for the group of each inode, so `chown` moves them. The counts
//! are keys of the metadata tree. So they are sealed with it, and they match the rest of the tree in a snapshot, in a
//! clone, after a rollback and after a power cut.
//!
//! Callers do not count. The tree compares old and new attributes, changes the counts in the same step
//! ([`changes_of`]), and refuses changes that exceed a quota. So the counts are always exact, and no quota is exceeded.
//! The log does not need the counts, because a replay changes the attributes too.

use std::collections::BTreeMap;

use vfs::Ino;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use super::step::TreeStep;
use super::view::{Changes, TreeView};
use crate::layout::{AttrValue, DATASET, KeyKind, attr_ino, owner_key, owner_suffix, suffix};

/// A user or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// By uid.
    User(u32),
    /// By gid.
    Group(u32),
}

/// The use of a user or group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes before compression.
    pub bytes: u64,
    /// Inodes.
    pub objects: u64,
}

/// The use and the quotas of a user or group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerAccount {
    /// The use.
    pub used: Usage,
    /// The quota in bytes; 0: no limit.
    pub quota: u64,
    /// The quota in inodes; 0: no limit.
    pub object_quota: u64,
}

/// A change of the counts of a user or group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageChange {
    bytes: i64,
    objects: i64,
}

impl Owner {
    pub(crate) fn key(self) -> Vec<u8> {
        match self {
            Owner::User(id) => owner_key(1, id),
            Owner::Group(id) => owner_key(2, id),
        }
    }

    /// The owner in a key of an account.
    pub(crate) fn of_key(key: &[u8]) -> Option<Owner> {
        match owner_suffix(key)? {
            (1, id) => Some(Owner::User(id)),
            (2, id) => Some(Owner::Group(id)),
            _ => None,
        }
    }
}

impl Usage {
    fn of(attr: &AttrValue) -> Usage {
        Usage {
            bytes: attr.taken(),
            objects: 1,
        }
    }

    /// Counts an inode for its owner and its group.
    pub(crate) fn count(all: &mut BTreeMap<Owner, Usage>, attr: &AttrValue) {
        let used = Usage::of(attr);
        for owner in owners_of(attr) {
            let sum = all.entry(owner).or_default();
            sum.bytes = sum.bytes.saturating_add(used.bytes);
            sum.objects += used.objects;
        }
    }

    pub(crate) fn changed(self, change: UsageChange) -> Usage {
        Usage {
            bytes: self.bytes.saturating_add_signed(change.bytes),
            objects: self.objects.saturating_add_signed(change.objects),
        }
    }
}

impl OwnerAccount {
    /// Decodes a value; `None` if it is malformed.
    pub(crate) fn decode(value: &[u8]) -> Option<OwnerAccount> {
        let [bytes, objects, quota, object_quota] =
            <[U64; 4]>::read_from_bytes(value).ok()?.map(U64::get);
        Some(OwnerAccount {
            used: Usage { bytes, objects },
            quota,
            object_quota,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Usage { bytes, objects } = self.used;
        let numbers = [bytes, objects, self.quota, self.object_quota].map(U64::new);
        numbers.as_bytes().to_vec()
    }

    /// Returns whether use and quotas are 0.
    pub(crate) fn is_empty(&self) -> bool {
        *self == OwnerAccount::default()
    }

    /// Returns whether a quota forbids a change. A decrease is always allowed.
    fn forbids(&self, change: UsageChange) -> bool {
        let after = self.used.changed(change);
        let over = |change: i64, limit: u64, after: u64| change > 0 && limit > 0 && after > limit;
        over(change.bytes, self.quota, after.bytes)
            || over(change.objects, self.object_quota, after.objects)
    }
}

/// A running count.
#[derive(Default)]
pub(super) struct Recount {
    /// The inodes below this one are counted.
    pub(super) next: Ino,
    pub(super) sums: BTreeMap<Owner, Usage>,
}

impl Recount {
    /// Follows changes of the tree.
    pub(super) fn follow(&mut self, changes: &BTreeMap<Owner, UsageChange>) {
        for (owner, change) in changes {
            let sum = self.sums.entry(*owner).or_default();
            *sum = sum.changed(*change);
            if *sum == Usage::default() {
                self.sums.remove(owner);
            }
        }
    }
}

fn owners_of(attr: &AttrValue) -> [Owner; 2] {
    [Owner::User(attr.uid.get()), Owner::Group(attr.gid.get())]
}

/// The changes of accounts that changes of the tree cause, for inodes that `counts` selects.
pub(crate) fn changes_of(
    before: &dyn TreeView,
    changes: &Changes,
    counts: impl Fn(Ino) -> bool,
) -> TreeStep<BTreeMap<Owner, UsageChange>> {
    let mut all: BTreeMap<Owner, UsageChange> = BTreeMap::new();
    for (key, after) in changes {
        if !attr_ino(key).is_some_and(&counts) {
            continue;
        }
        let before = before.get(key)?.and_then(AttrValue::decode);
        let after = after.as_deref().and_then(AttrValue::decode);
        for (attr, sign) in [(before, -1), (after, 1)] {
            let Some(attr) = attr else { continue };
            let bytes = i64::try_from(attr.taken()).unwrap_or(i64::MAX);
            for owner in owners_of(&attr) {
                let change = all.entry(owner).or_default();
                change.bytes = change.bytes.saturating_add(sign * bytes);
                change.objects += sign;
            }
        }
    }
    all.retain(|_, change| *change != UsageChange::default());
    Ok(all)
}

/// The changes of accounts, as changes of the tree.
///
/// # Errors
/// [`vfs::Error::Quota`] if a quota does not allow it, unless `is_free`.
pub(crate) fn entered(
    before: &dyn TreeView,
    changes: BTreeMap<Owner, UsageChange>,
    is_free: bool,
) -> TreeStep<Changes> {
    let mut entered = Changes::new();
    for (owner, change) in changes {
        let key = owner.key();
        let value = before.get(&key)?;
        let mut account = value.and_then(OwnerAccount::decode).unwrap_or_default();
        if !is_free && account.forbids(change) {
            return Err(vfs::Error::Quota.into());
        }
        account.used = account.used.changed(change);
        entered.insert(key, (!account.is_empty()).then(|| account.encode()));
    }
    Ok(entered)
}

/// The number of accounts that are read at a time.
const SHOWN_AT_ONCE: usize = 256;

/// Some accounts of a dataset, in order, from the first one after `after` on; empty if there are no more.
pub(crate) fn some_accounts(
    view: &dyn TreeView,
    after: Option<Owner>,
) -> TreeStep<Vec<(Owner, OwnerAccount)>> {
    let from = after.map_or_else(|| owner_key(0, 0), Owner::key);
    let mut some = Vec::new();
    view.scan(&from, &mut |key, value| {
        if suffix(key, DATASET, KeyKind::Owner).is_none() {
            return false;
        }
        if let (Some(owner), Some(account)) = (Owner::of_key(key), OwnerAccount::decode(value))
            && after.is_none_or(|after| after < owner)
        {
            some.push((owner, account));
        }
        some.len() < SHOWN_AT_ONCE
    })?;
    Ok(some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_round_trip_and_their_bytes_never_change() {
        let account = OwnerAccount {
            used: Usage {
                bytes: 1,
                objects: 2,
            },
            quota: 3,
            object_quota: 4,
        };
        let expected: Vec<u8> = (1..=4u64).flat_map(u64::to_le_bytes).collect();
        assert_eq!(account.encode(), expected);
        assert_eq!(OwnerAccount::decode(&expected), Some(account));
        assert_eq!(OwnerAccount::decode(&expected[1..]), None);
        let key = Owner::Group(0x0102_0304).key();
        assert_eq!(key, [0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 1, 2, 3, 4]);
        assert_eq!(Owner::of_key(&key), Some(Owner::Group(0x0102_0304)));
        assert_eq!(Owner::of_key(&key[..13]), None);
    }

    #[test]
    fn a_quota_forbids_more_and_never_less() {
        let account = OwnerAccount {
            used: Usage {
                bytes: 100,
                objects: 5,
            },
            quota: 110,
            object_quota: 5,
        };
        let change = |bytes, objects| UsageChange { bytes, objects };
        assert!(!account.forbids(change(10, 0)));
        assert!(account.forbids(change(11, 0)));
        assert!(account.forbids(change(0, 1)));
        assert!(!account.forbids(change(-1, -1)));
        let lowered = OwnerAccount {
            quota: 1,
            object_quota: 1,
            ..account
        };
        assert!(!lowered.forbids(change(-1, -1)));
        assert!(!lowered.forbids(change(0, 0)));
        let none = OwnerAccount::default();
        assert!(!none.forbids(change(i64::MAX, i64::MAX)));
    }
}
