//! Writes to several members at the same time, where each would wait for its device.
//!
//! The writer waits for all of them: what it does next, such as a flush, comes after every write. Members whose
//! devices do not wait are written one after the other by the caller, which costs less than waking a thread.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;
use crate::group::member::Member;
use crate::group::mirror::{Groups, StoreLayout};

/// The writes to one member, in this order.
pub(crate) struct MemberBatch {
    member: Arc<Member>,
    writes: Vec<(u64, Arc<[u8]>)>,
    /// The number of writes that are made.
    made: AtomicUsize,
}

/// Returns whether other threads write to some members. They gain from being written to at the same time, or the
/// caller may
/// have to do without one that does not answer.
pub(crate) fn is_worthwhile(layout: &StoreLayout, members: &[Arc<Member>]) -> bool {
    let mut active = members.iter().filter(|member| member.is_active());
    active.any(|member| member.waits_on_write && layout.can_spare(member))
}

impl MemberBatch {
    pub(crate) fn new(member: &Arc<Member>, writes: Vec<(u64, Arc<[u8]>)>) -> MemberBatch {
        let member = Arc::clone(member);
        MemberBatch {
            member,
            writes,
            made: AtomicUsize::new(0),
        }
    }

    /// Adds a write to the batches of a caller that takes one member after the other.
    pub(crate) fn add(
        batches: &mut Vec<MemberBatch>,
        member: &Arc<Member>,
        write: (u64, Arc<[u8]>),
    ) {
        match batches.last_mut() {
            Some(last) if last.member.guid() == member.guid() => last.writes.push(write),
            _ => batches.push(MemberBatch::new(member, vec![write])),
        }
    }

    /// Makes the writes, up to one that fails. It ends when the member was given up.
    fn write(&self) -> Result<()> {
        let writes = self.writes.iter();
        for (at, bytes) in writes.take_while(|_| self.member.is_active()) {
            let pieces = [IoSlice::new(bytes)];
            if !self.member.owe_more(*at, &pieces) {
                self.member.write(*at, &pieces)?;
            }
            self.made.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

/// The bytes of some pieces, for several threads.
pub(crate) fn bytes_of(pieces: &[IoSlice<'_>]) -> Arc<[u8]> {
    match pieces {
        [only] => Arc::from(&only[..]),
        _ => pieces.iter().flat_map(|p| p.iter().copied()).collect(),
    }
}

impl Groups {
    /// Does the same as [`Groups::write`], to several members at the same time.
    pub(crate) fn write_batches(&self, layout: &StoreLayout, batches: &[Arc<MemberBatch>]) {
        let task = |batch: &Arc<MemberBatch>| (Arc::clone(&batch.member), Arc::clone(batch));
        let tasks: Vec<_> = batches.iter().map(task).collect();
        let outcomes = self.on_all(layout, &tasks, |_, batch| batch.write());
        for (batch, outcome) in batches.iter().zip(outcomes) {
            let Some(Err(error)) = outcome else {
                continue;
            };
            let Err(kept) = self.failed(layout, &batch.member, error) else {
                continue;
            };
            for (at, bytes) in &batch.writes[batch.made.load(Ordering::Acquire)..] {
                batch.member.owe(*at, &[IoSlice::new(bytes)], &kept);
            }
        }
    }
}
