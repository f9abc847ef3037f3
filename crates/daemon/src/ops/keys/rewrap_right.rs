//! The users who may wrap data keys with another wrapping key.
//!
//! One rule applies to all commands. A user with a wrapping key can read all data that the data keys below it seal. So
//! a command that wraps the data keys of a dataset with another wrapping key needs the permissions `key` and
//! `keychange` on that dataset. It needs them also on each older dataset with some of the same data keys: clones, and
//! copies that were received sealed, have their data keys from an older dataset. This may be in another imported pool.
//! In a zone the tenant must have given the key that wraps the data keys now.
//!
//! The same applies to a key that the daemon reads from a place that a delegate names: the file with the key of the
//! older dataset also opens the copy. So this needs `key` on each older dataset.
//!
//! Functions that wrap generations again, or add a way to unwrap a wrapping key, take a [`RewrapRight`]. So no command can
//! forget the check.

use std::sync::Arc;

use keys::{KeySource, Location};
use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::keys::keyring::has_generation;
use crate::state::pools::active_pool::ActivePool;

/// The permissions that this needs.
pub(crate) const NEEDED: [&str; 2] = ["key", "keychange"];

/// The permissions that a command needs on datasets with the same data keys, and what it does with the keys.
struct NeededPermissions<'a> {
    permissions: &'a [&'a str],
    what: &'a str,
}

/// Proof of a check: the caller may wrap the data keys of a dataset with a given wrapping key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RewrapRight(());

impl CallerContext<'_> {
    /// Refuses a caller who may not have the data keys of a dataset or snapshot wrapped with another wrapping key. `to`
    /// is that key if it exists already; `None` if the caller brings a new one.
    pub(crate) fn may_hand(
        &self,
        active: &ActivePool,
        entry: &Entry,
        to: Option<&[u8; 16]>,
    ) -> Result<RewrapRight> {
        let head = active.head(entry)?;
        let is_there = |pool: &ActivePool, entry: &Entry| {
            let keyring = pool.keyring(entry);
            keyring.is_ok_and(|ring| to == Some(ring.wrapping().id()))
        };
        if is_there(active, &head) {
            return Ok(RewrapRight(()));
        }
        if let Some(view) = self.view {
            view.own_key(&head)?;
        } else if !self.peer.is_admin {
            let needed = NeededPermissions {
                permissions: &NEEDED,
                what: "puts its data keys under another key",
            };
            self.need_for_keys(&needed, (active, &head), (active, &head))?;
            for (pool, older) in self.older_with_its_keys(active, &head)? {
                if !is_there(&pool, &older) {
                    self.need_for_keys(&needed, (active, &head), (&pool, &older))?;
                }
            }
        }
        Ok(RewrapRight(()))
    }

    /// Refuses a caller who names or accepts the place from which the daemon reads the key of a key root, if the data
    /// keys come from a dataset whose key the caller may not load. Root may name any place.
    pub(crate) fn may_have_read(
        &self,
        active: &ActivePool,
        key_root: &Entry,
        source: &KeySource,
    ) -> Result<()> {
        if self.peer.is_admin || *source.location() == Location::Prompt {
            return Ok(());
        }
        let needed = NeededPermissions {
            permissions: &["key"],
            what: "opens its data keys with a key that the daemon reads",
        };
        for head in active.heads_below(key_root)? {
            if head.key_root != key_root.id {
                continue;
            }
            for (pool, older) in self.older_with_its_keys(active, &head)? {
                let is_here = pool.pool.guid() == active.pool.guid();
                // A dataset with the same key root is opened by the same key anyway.
                if !is_here || older.key_root != key_root.id {
                    self.need_for_keys(&needed, (active, &head), (&pool, &older))?;
                }
            }
        }
        Ok(())
    }

    /// Makes the check of [`CallerContext::may_hand`] for a dataset and those below it that inherit its key.
    pub(crate) fn may_hand_all(
        &self,
        active: &ActivePool,
        entry: &Entry,
        to: Option<&[u8; 16]>,
    ) -> Result<RewrapRight> {
        let handed = self.may_hand(active, entry, to)?;
        for below in active.heads_below(entry)? {
            if below.key_root == entry.key_root {
                self.may_hand(active, &below, to)?;
            }
        }
        Ok(handed)
    }

    /// Refuses a delegate who lacks permissions on `source`, which has data keys of `copy`. The message does not name a
    /// dataset on which the delegate has no permission.
    fn need_for_keys(
        &self,
        needed: &NeededPermissions<'_>,
        (active, copy): (&ActivePool, &Entry),
        (pool, source): (&ActivePool, &Entry),
    ) -> Result<()> {
        for permission in needed.permissions {
            if pool.allows(source, &self.peer, permission)? {
                continue;
            }
            let (whose, place) = match pool.allows_something(source, &self.peer)? {
                true => (pool.pool.name_of(source.id)?, "there"),
                false => (
                    active.pool.name_of(copy.id)?,
                    "where these data keys come from",
                ),
            };
            let what = needed.what;
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "'{whose}': you do not have the permission '{permission}' {place}, and this command \
                     {what}; root gives permissions with 'strongroom allow'"
                ),
            ));
        }
        Ok(())
    }

    /// The datasets of all pools that are older than this one and share a data key or the wrapping key with it. A
    /// dataset whose keyring cannot be read counts as one of them.
    fn older_with_its_keys(
        &self,
        active: &ActivePool,
        head: &Entry,
    ) -> Result<Vec<(Arc<ActivePool>, Arc<Entry>)>> {
        let own = active.keyring(head)?;
        let mut found = Vec::new();
        for pool in (self.pools)() {
            let is_here = pool.pool.guid() == active.pool.guid();
            for other in pool.all_heads()? {
                // Transaction groups of two pools say nothing about time.
                let is_older = match is_here {
                    true => other.id != head.id && other.created_txg <= head.created_txg,
                    false => other.created <= head.created,
                };
                if !is_older || other.family != head.family || other.suite == 0 {
                    continue;
                }
                let shares = pool.keyring(&other).map_or(true, |ring| {
                    let mut generations = own.generations().iter();
                    ring.wrapping().id() == own.wrapping().id()
                        || generations.any(|generation| has_generation(&ring, generation))
                });
                if shares {
                    found.push((Arc::clone(&pool), other));
                }
            }
        }
        Ok(found)
    }
}
