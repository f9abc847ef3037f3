//! Counts, shows and limits the space of users and groups in a dataset.
//!
//! Counting begins at the first request, with a walk over all inodes. After that, each change updates one more key of
//! the tree. Only a rollback to an earlier state turns counting off again.

use std::collections::BTreeMap;
use std::ops::Bound;

use pool::ReserveFor;

use crate::core::log::Scope;
use crate::core::{Dataset, PAGE_SPACE, Settings};
use crate::error::Result;
use crate::tree::owners::{Owner, OwnerAccount, Usage, some_accounts};
use crate::tree::{PAGE, TreeAttempt, TreeView};

/// The bytes that an account takes in the tree, with its key and the empty space after splits.
const ACCOUNT_BYTES: u64 = 128;

/// An account whose stored count is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miscount {
    /// The user or group.
    pub owner: Owner,
    /// The stored count.
    pub said: Usage,
    /// The count that a walk over all inodes finds.
    pub found: Usage,
}

impl Dataset {
    /// Returns whether the use of users and groups is counted.
    pub fn counts_owners(&self) -> bool {
        self.tree.counts_owners()
    }

    /// The accounts of users and groups; empty if they are not counted. Each account is as of some moment during the
    /// call.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn accounts(&self) -> Result<BTreeMap<Owner, OwnerAccount>> {
        let mut all = BTreeMap::new();
        loop {
            let after = all.last_key_value().map(|(owner, _)| *owner);
            let some = self.read_tree(|r| some_accounts(r, after))?;
            if some.is_empty() {
                return Ok(all);
            }
            all.extend(some);
        }
    }

    /// The account of one user or group; `None` if accounts are not counted.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn account(&self, owner: Owner) -> Result<Option<OwnerAccount>> {
        if !self.counts_owners() {
            return Ok(None);
        }
        self.read_tree(|r| {
            let value = r.get(&owner.key())?;
            Ok(Some(
                value.and_then(OwnerAccount::decode).unwrap_or_default(),
            ))
        })
    }

    /// Begins to count the use of users and groups, unless it is counted already. Reads every inode once, while
    /// programs go on.
    ///
    /// # Errors
    /// The dataset cannot be changed, too little space is free, or the tree cannot be read or made durable.
    pub fn count_owners(&self) -> Result<()> {
        let _counting = self.counting.lock();
        if self.counts_owners() {
            return Ok(());
        }
        let settings = self.check_writable()?;
        let entered = self.recount().and_then(|()| self.enter_recount(&settings));
        self.tree.end_recount();
        entered?;
        self.sync_all()
    }

    /// Counts again, and returns the accounts whose stored counts differ.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn check_owners(&self) -> Result<Vec<Miscount>> {
        let _counting = self.counting.lock();
        if !self.counts_owners() {
            return Ok(Vec::new());
        }
        let compared = self.recount().and_then(|()| self.compare_recount());
        self.tree.end_recount();
        compared
    }

    /// Changes the limits of a user or group. They apply when this returns.
    ///
    /// # Errors
    /// As [`Dataset::count_owners`].
    pub fn set_account_limits(
        &self,
        owner: Owner,
        change: impl Fn(&mut OwnerAccount),
    ) -> Result<()> {
        self.count_owners()?;
        self.change_in(
            Scope::Unlogged,
            ReserveFor::Freeing,
            |w| {
                let key = owner.key();
                let value = w.get(&key)?;
                let mut account = value.and_then(OwnerAccount::decode).unwrap_or_default();
                change(&mut account);
                match account.is_empty() {
                    true => w.delete(key),
                    false => w.put(key, account.encode()),
                }
                Ok(())
            },
            |_, ()| (),
        )?;
        self.sync_all()
    }

    fn recount(&self) -> Result<()> {
        let _use = self.tree.begin_use();
        self.tree.begin_recount();
        loop {
            match self.tree.recount_some()? {
                TreeAttempt::Done { value: true, .. } => {}
                TreeAttempt::Done { value: false, .. } => return Ok(()),
                TreeAttempt::Miss { slot, evictions } => self.tree.fetch(self, slot, evictions)?,
            }
        }
    }

    fn enter_recount(&self, settings: &Settings) -> Result<()> {
        // The feature comes first: programs that do not count must not change the dataset after this commit.
        self.pool.note_owners();
        let owners = self.read_tree(|r| Ok(r.recounted().map_or(0, BTreeMap::len)))? as u64;
        let pages = (owners * ACCOUNT_BYTES).div_ceil(PAGE as u64);
        let reserved = self.reserve(settings, pages * PAGE_SPACE, ReserveFor::Writing)?;
        self.change_in(
            Scope::Unlogged,
            ReserveFor::Writing,
            |w| {
                for (owner, used) in w.recounted().cloned().unwrap_or_default() {
                    let account = OwnerAccount {
                        used,
                        ..OwnerAccount::default()
                    };
                    w.put(owner.key(), account.encode());
                }
                w.header.counts_owners = true;
                Ok(())
            },
            |_, ()| (),
        )?;
        self.page_reservations.lock().push(reserved);
        Ok(())
    }

    fn compare_recount(&self) -> Result<Vec<Miscount>> {
        let mut wrong = Vec::new();
        let mut after = None;
        loop {
            // Both counts are of the same moment.
            let (said, found) = self.read_tree(|r| {
                let said = some_accounts(r, after)?;
                let to = said
                    .last()
                    .map_or(Bound::Unbounded, |(last, _)| Bound::Included(*last));
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let found = r
                    .recounted()
                    .into_iter()
                    .flat_map(|sums| sums.range((from, to)));
                let found: BTreeMap<Owner, Usage> =
                    found.map(|(owner, used)| (*owner, *used)).collect();
                Ok((said, found))
            })?;
            let mut both: BTreeMap<Owner, (Usage, Usage)> = BTreeMap::new();
            for (owner, account) in &said {
                both.entry(*owner).or_default().0 = account.used;
            }
            for (owner, used) in found {
                both.entry(owner).or_default().1 = used;
            }
            let differs = both.into_iter().filter(|(_, (said, found))| said != found);
            wrong.extend(differs.map(|(owner, (said, found))| Miscount { owner, said, found }));
            after = match said.last() {
                Some((last, _)) => Some(*last),
                None => return Ok(wrong),
            };
        }
    }
}
