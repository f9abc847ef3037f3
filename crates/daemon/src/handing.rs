//! Who may put data keys under another wrapping key.
//!
//! One rule for all commands. Whoever has a wrapping key can read what the data keys below it seal. So a command
//! that wraps the data keys of a dataset by another wrapping key takes the permissions `key` and `keychange` on
//! that dataset. It takes them also on each older dataset that has some of the same data keys: a clone, and a copy
//! that was received sealed, have their data keys from there. In a zone the tenant must have given the key that
//! wraps them now.
//!
//! What wraps generations anew, or adds a way to a wrapping key, takes a [`Handed`], so that no command forgets.

use std::sync::Arc;

use pool::Entry;

use crate::api::{Failure, FailureKind};
use crate::clones::has_generation;
use crate::failure::Result;
use crate::imported::Imported;
use crate::server::Context;

/// The permissions that it takes.
pub(crate) const NEEDED: [&str; 2] = ["key", "keychange"];

/// The caller may have the data keys of a dataset under the wrapping key that is named with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed(());

impl Context<'_> {
    /// Refuses to put the data keys of a dataset or snapshot under a wrapping key, if the caller may not have that
    /// done. `to` is the wrapping key if it is there already; a new one is the caller's.
    pub(crate) fn may_hand(
        &self,
        imported: &Imported,
        entry: &Entry,
        to: Option<&[u8; 16]>,
    ) -> Result<Handed> {
        let head = imported.head(entry)?;
        let is_there = |entry: &Entry| {
            let keyring = imported.keyring(entry);
            keyring.is_ok_and(|ring| to == Some(ring.wrapping().id()))
        };
        if is_there(&head) {
            return Ok(Handed(()));
        }
        if let Some(view) = self.view {
            view.own_key(&head)?;
        } else if !self.peer.is_master {
            self.need_for_keys(imported, &head, &head)?;
            for older in imported.older_with_its_keys(&head)? {
                if !is_there(&older) {
                    self.need_for_keys(imported, &head, &older)?;
                }
            }
        }
        Ok(Handed(()))
    }

    /// The same of a dataset and of those below it that have their key from where it has its key.
    pub(crate) fn may_hand_all(
        &self,
        imported: &Imported,
        entry: &Entry,
        to: Option<&[u8; 16]>,
    ) -> Result<Handed> {
        let handed = self.may_hand(imported, entry, to)?;
        for below in imported.heads_below(entry)? {
            if below.key_root == entry.key_root {
                self.may_hand(imported, &below, to)?;
            }
        }
        Ok(handed)
    }

    /// Refuses a delegate who lacks the permissions on `source`, which has data keys of `entry`. A dataset on which
    /// nothing is allowed to the delegate is not named.
    fn need_for_keys(&self, imported: &Imported, entry: &Entry, source: &Entry) -> Result<()> {
        for permission in NEEDED {
            if imported.allows(source, &self.peer, permission)? {
                continue;
            }
            let known = imported.allows_something(source, &self.peer)?;
            let whose = match known {
                true => imported.pool.name_of(source.id)?,
                false => imported.pool.name_of(entry.id)?,
            };
            let place = match known {
                true => "there",
                false => "where these data keys come from",
            };
            return Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "'{whose}': the permission '{permission}' is not allowed to you {place}, and this puts its \
                     data keys under another key; who may do what is said with 'strongroom allow'"
                ),
            ));
        }
        Ok(())
    }
}

impl Imported {
    /// The datasets that were there before this one and have some of the same data keys. A keyring that cannot be
    /// read is taken to have them.
    fn older_with_its_keys(&self, head: &Entry) -> Result<Vec<Arc<Entry>>> {
        let own = self.keyring(head)?;
        let mut found = self.all_heads()?;
        found.retain(|other| {
            let may_be = other.id != head.id
                && other.family == head.family
                && other.suite != 0
                && other.created_txg <= head.created_txg;
            may_be
                && self.keyring(other).map_or(true, |ring| {
                    let mut generations = own.generations().iter();
                    generations.any(|generation| has_generation(&ring, generation))
                })
        });
        Ok(found)
    }
}
