//! The places of keys that the owner of this daemon has accepted.
//!
//! A property of a dataset names the place of its key. An attacker who writes to the devices, or makes a stream,
//! chooses the property. So the daemon reads a key from a place only if its owner accepted the place on this machine:
//! by a command that set it, or by `key accept`. Accepted places are in the state directory and not in the pool. If the
//! property names another place, that place is only proposed.

use std::collections::BTreeSet;

use keys::{KeySource, Location};
use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::keys::acceptances::AcceptedLocation;
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    /// The record that accepts the place of a source for a key root.
    fn place_of_key(&self, key_root: &Entry, source: &KeySource) -> AcceptedLocation {
        let text = source.to_string();
        let (_, location) = text.split_once(',').unwrap_or(("", &text));
        AcceptedLocation {
            pool: self.pool.guid(),
            dataset: key_root.guid,
            location: location.to_owned(),
        }
    }

    /// Returns whether a source names a place that was not accepted for this key root. The prompt has no place.
    pub(crate) fn is_proposed(&self, key_root: &Entry, source: &KeySource) -> bool {
        *source.location() != Location::Prompt
            && !self.accepted.has(&self.place_of_key(key_root, source))
    }

    /// The source of the key of a key root, if its place was accepted.
    pub(crate) fn accepted_source(&self, key_root: &Entry) -> Result<KeySource> {
        let source = self.keysource(key_root)?;
        if !self.is_proposed(key_root, &source) {
            return Ok(source);
        }
        let name = self.pool.name_of(key_root.id)?;
        Err(Failure::new(
            FailureKind::NoKey,
            format!(
                "the key of '{name}' was not read: its keysource '{source}' came with a stream or a pool, and \
                 is only proposed; to accept it: strongroom key accept {name}; to use another one once: \
                 strongroom key load -L LOCATION {name}"
            ),
        ))
    }

    /// Accepts the present sources of the keys of these key roots.
    pub(crate) fn accept_sources(&self, key_roots: &[&Entry]) -> Result<()> {
        let mut new = Vec::new();
        for entry in key_roots.iter().filter(|entry| entry.key_root == entry.id) {
            let source = self.keysource(entry)?;
            if *source.location() != Location::Prompt {
                new.push(self.place_of_key(entry, &source));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let there: BTreeSet<u64> = self.all_heads()?.iter().map(|head| head.guid).collect();
        let pool = self.pool.guid();
        // Datasets that were destroyed need no place any more.
        let is_stale = |one: &AcceptedLocation| one.pool == pool && !there.contains(&one.dataset);
        self.accepted.add(new, is_stale)
    }

    /// Accepts a place that a command of the owner has set. The command is already done, so a failure is only reported.
    pub(crate) fn accept_as_set(&self, id: u64) {
        let accepted = self.pool.entry(id).map_err(Failure::from);
        if let Err(failure) = accepted.and_then(|entry| self.accept_sources(&[&*entry])) {
            tracing::error!(
                reason = failure.message,
                dataset = self.pool.name_of(id).unwrap_or_default(),
                "its key location is only proposed; accept it with 'strongroom key accept'"
            );
        }
    }

    /// Accepts the places of all keys of the pool.
    pub(crate) fn accept_all(&self) -> Result<()> {
        let heads = self.all_heads()?;
        let heads: Vec<&Entry> = heads.iter().map(|head| &**head).collect();
        self.accept_sources(&heads)
    }
}
