//! Counts the use of users and groups again, while programs go on.
//!
//! The count walks the inodes in the order of their numbers, some at a time. Changes to inodes that were already
//! counted change the sums too. The other inodes are counted in the state that they have at their turn.

use std::collections::BTreeMap;

use super::metadata::MetadataTree;
use super::owners::{self, Owner, Recount, Usage};
use super::reader::TreeReader;
use super::state::State;
use super::step::{TreeAttempt, TreeStep, TreeStop};
use super::view::{Changes, TreeView};
use crate::error::Result;
use crate::layout::{AttrValue, INO_LIMIT, attr_ino, attr_key};

/// The number of inodes that are counted in one operation.
const AT_ONCE: usize = 256;

impl MetadataTree {
    /// Begins a count. Forgets an earlier one.
    pub(crate) fn begin_recount(&self) {
        self.state.write().recount = Some(Recount::default());
    }

    /// Counts some more inodes. Returns whether there are any left.
    pub(crate) fn recount_some(&self) -> Result<TreeAttempt<bool>> {
        let state = &mut *self.state.write();
        let Some(mut recount) = state.recount.take() else {
            return Err(vfs::Error::Io.into());
        };
        let step = count_some(&TreeReader::new(state), &mut recount);
        state.recount = Some(recount);
        match step {
            Ok(value) => Ok(TreeAttempt::Done {
                value,
                changed: false,
                dirtied: 0,
            }),
            Err(TreeStop::Fail(error)) => Err(error.into()),
            Err(TreeStop::Miss(slot)) => Ok(TreeAttempt::Miss {
                slot,
                evictions: state.evictions,
            }),
        }
    }

    /// Forgets the count.
    pub(crate) fn end_recount(&self) {
        self.state.write().recount = None;
    }
}

fn count_some(reader: &TreeReader<'_>, recount: &mut Recount) -> TreeStep<bool> {
    for _ in 0..AT_ONCE {
        let mut found = None;
        reader.scan(&attr_key(recount.next.max(1)), &mut |key, value| {
            found = Some((attr_ino(key), AttrValue::decode(value)));
            false
        })?;
        match found {
            Some((Some(ino), Some(attr))) if ino < INO_LIMIT => {
                Usage::count(&mut recount.sums, &attr);
                recount.next = ino + 1;
            }
            Some(_) => return Err(vfs::Error::Io.into()),
            None => {
                recount.next = INO_LIMIT;
                return Ok(false);
            }
        }
    }
    Ok(true)
}

impl<'a> TreeReader<'a> {
    /// The result of a count, with later changes.
    pub(crate) fn recounted(&self) -> Option<&'a BTreeMap<Owner, Usage>> {
        let recount = self.state.recount.as_ref();
        recount.map(|recount| &recount.sums)
    }
}

impl State {
    /// The changes of accounts that these changes of the tree cause. If this fails, nothing has changed.
    pub(super) fn account(&mut self, changes: &Changes, is_free: bool) -> TreeStep<Changes> {
        let counts = self.header.counts_owners;
        let next = self.recount.as_ref().map_or(0, |recount| recount.next);
        if !counts && next == 0 {
            return Ok(Changes::new());
        }
        let reader = TreeReader::new(self);
        let recounted = owners::changes_of(&reader, changes, |ino| ino < next)?;
        let entered = match counts {
            true => {
                let all = owners::changes_of(&reader, changes, |_| true)?;
                owners::entered(&reader, all, is_free)?
            }
            false => Changes::new(),
        };
        if let Some(recount) = &mut self.recount {
            recount.follow(&recounted);
        }
        Ok(entered)
    }
}

#[cfg(test)]
mod tests {
    use vfs::{Ino, Kind, Time};
    use zerocopy::IntoBytes;

    use super::*;
    use crate::tree::Header;

    fn attr(uid: u32, allocated: u64) -> AttrValue {
        let mut attr = AttrValue::new(Kind::File, 0o644, 4096, Time::default());
        attr.uid = uid.into();
        attr.gid = 3.into();
        attr.allocated = allocated.into();
        attr
    }

    /// Changes inodes of a tree, all of whose pages are in memory, and of the model.
    fn change(
        tree: &MetadataTree,
        model: &mut BTreeMap<Ino, AttrValue>,
        changes: &[(Ino, Option<AttrValue>)],
    ) {
        for (ino, attr) in changes {
            let mut write = |w: &mut crate::tree::TreeWriter<'_>| {
                match attr {
                    Some(attr) => w.put(attr_key(*ino), attr.as_bytes().to_vec()),
                    None => w.delete(attr_key(*ino)),
                }
                Ok(())
            };
            let attempt = tree.try_write(1, false, &mut write, &|_, _| {});
            assert!(matches!(attempt, Ok(TreeAttempt::Done { .. })));
            match attr {
                Some(attr) => model.insert(*ino, *attr),
                None => model.remove(ino),
            };
        }
    }

    fn is_more_left(tree: &MetadataTree) -> bool {
        match tree.recount_some().unwrap() {
            TreeAttempt::Done { value, .. } => value,
            TreeAttempt::Miss { .. } => unreachable!("all pages are in memory"),
        }
    }

    #[test]
    fn what_changes_between_steps_is_counted_once() {
        let tree = MetadataTree::create(Header::new([0; 32]), 1000);
        let mut model = BTreeMap::new();
        let first: Vec<_> = (1..=600)
            .map(|ino| (ino, Some(attr(ino as u32 % 2, 4096))))
            .collect();
        change(&tree, &mut model, &first);
        tree.begin_recount();
        assert!(is_more_left(&tree));
        // Inodes before the position of the count, and inodes behind it.
        let changes = [
            (10, Some(attr(7, 8192))),
            (11, Some(attr(1, 12288))),
            (20, None),
            (500, Some(attr(7, 0))),
            (550, None),
            (601, Some(attr(8, 4096))),
        ];
        change(&tree, &mut model, &changes);
        while is_more_left(&tree) {}
        change(&tree, &mut model, &[(30, None), (602, Some(attr(9, 5)))]);
        let mut expected = BTreeMap::new();
        model
            .values()
            .for_each(|attr| Usage::count(&mut expected, attr));
        let state = tree.state.read();
        assert_eq!(state.recount.as_ref().unwrap().sums, expected);
    }
}
