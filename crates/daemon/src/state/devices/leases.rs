//! Leases: a thing with a lease cannot be taken away, and the refusal names its user.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};

/// The leases of things of one kind. `K` identifies a thing.
pub(crate) struct Leases<K>(Arc<Mutex<LeaseTable<K>>>);

/// A thing of a pool that can be in use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeasedObject {
    /// A dataset or snapshot, by its id: a mount uses it, or the users of a volume.
    Dataset(u64),
    /// The key of a key root, by its id: a command has its data keys.
    Key(u64),
}

struct LeaseTable<K> {
    next: u64,
    /// The things in use and their users, in the order in which the uses began.
    all: BTreeMap<u64, (K, String)>,
}

/// A thing is in use while this exists.
pub(crate) struct Lease<K> {
    all: Leases<K>,
    number: u64,
}

impl<K> Default for Leases<K> {
    fn default() -> Leases<K> {
        let (next, all) = (0, BTreeMap::new());
        Leases(Arc::new(Mutex::new(LeaseTable { next, all })))
    }
}

impl<K: Ord + Clone> Leases<K> {
    /// Begins the use of a thing by `user`, such as `the mount at /srv`.
    pub(crate) fn take(&self, thing: K, user: impl Into<String>) -> Lease<K> {
        let mut taken = self.0.lock();
        taken.next += 1;
        let number = taken.next;
        taken.all.insert(number, (thing, user.into()));
        Lease {
            all: Leases(Arc::clone(&self.0)),
            number,
        }
    }

    /// The users of a thing, in the order in which they began.
    pub(crate) fn users(&self, thing: &K) -> Vec<String> {
        let taken = self.0.lock();
        let of_thing = taken.all.values().filter(|(of, _)| of == thing);
        of_thing.map(|(_, user)| user.clone()).collect()
    }

    /// All things in use.
    pub(crate) fn things(&self) -> Vec<K> {
        let taken = self.0.lock();
        let mut things: Vec<K> = taken.all.values().map(|(thing, _)| thing.clone()).collect();
        things.sort();
        things.dedup();
        things
    }

    /// Refuses to take away a thing in use. `name` is its name for users.
    pub(crate) fn may_go(&self, thing: &K, name: &str) -> Result<()> {
        match self.users(thing).first() {
            None => Ok(()),
            Some(user) => Err(Failure::new(
                FailureKind::Busy,
                format!("{name} is in use, by {user}; end that first"),
            )),
        }
    }

    /// Ends the use of a thing that is taken away by force.
    pub(crate) fn end(&self, thing: &K) {
        self.0.lock().all.retain(|_, (of, _)| of != thing);
    }
}

/// A refusal for a tenant, without the names of pools and exports, because these belong to the administrator.
pub(crate) fn without_names(message: &str) -> String {
    let ends = |name: &str| {
        [
            format!("unexport {name})"),
            format!("detach {name})"),
            "'".to_owned(),
        ]
    };
    let mut text = message.to_owned();
    for (which, any) in [("the pool '", "a pool"), ("the export '", "an export")] {
        while let Some(at) = text.find(which) {
            let rest = &text[at + which.len()..];
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            let found = ends(&name)
                .into_iter()
                .find_map(|end| Some(rest.find(&end)? + end.len()));
            let end = at + which.len() + found.unwrap_or(rest.len());
            text.replace_range(at..end, any);
        }
    }
    text
}

impl<K> Drop for Lease<K> {
    fn drop(&mut self) {
        self.all.0.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_user_is_named_until_its_lease_ends() {
        let leases = Leases::default();
        let first = leases.take(1, "the first");
        let second = leases.take(1, "the second");
        let other = leases.take(2, "another");
        let refused = leases.may_go(&1, "it").unwrap_err();
        assert_eq!(
            refused.message,
            "it is in use, by the first; end that first"
        );
        drop(first);
        assert_eq!(leases.users(&1), ["the second"]);
        // By force; a lease that was ended ends no later one.
        leases.end(&1);
        leases.may_go(&1, "it").unwrap();
        let third = leases.take(1, "the third");
        drop(second);
        assert_eq!(
            (leases.users(&1), leases.things()),
            (vec!["the third".into()], vec![1, 2])
        );
        drop((third, other));
        assert!(leases.things().is_empty());
    }

    #[test]
    fn a_tenant_learns_no_names() {
        let is = |message: &str, shown: &str| assert_eq!(without_names(message), shown);
        is(
            "it is in use, by the pool 'payroll'; end that first",
            "it is in use, by a pool; end that first",
        );
        is(
            "used by the export 'a b' (strongroom nbd unexport a b) and the pool 'x'; use -f",
            "used by an export and a pool; use -f",
        );
        is(
            "in use, by the export 'tank/a' (strongroom nbd detach tank/a); end that first",
            "in use, by an export; end that first",
        );
        is("by the mount at /srv", "by the mount at /srv");
        is("by the pool 'cut", "by a pool");
    }
}
