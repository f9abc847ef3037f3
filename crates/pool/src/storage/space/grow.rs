//! More space: a group of devices joins the pool, or gets more segments.

use std::sync::Arc;

use store::{SegmentId, UNIT};

use super::allocator::SpaceState;
use super::segments::picker::Summary;
use super::segments::table::Numbering;
use super::{ReserveFor, Space};
use crate::error::{Error, Result};
use crate::format::superblock::config::{Purpose, Stretch};
use crate::storage::space::counts::Total;
use crate::storage::space::segments::group_use::GroupUse;

impl Space {
    /// Adds the new group of the store, for this purpose. The commit that calls this enters the group into the segment
    /// table. [`Space::open_extended`] opens it for records when the commit is durable.
    pub(crate) fn grow(self: &Arc<Space>, purpose: Purpose) -> Result<()> {
        let counts = self.disk.store.groups();
        let shapes = (0..counts.len() as u32).map(|group| self.disk.store.shape(group));
        let mut numbering = Numbering::clone(&self.numbering());
        let known = self.inner.lock().groups.len();
        let new = counts.iter().zip(0..).skip(known);
        let new = new.map(|(segments, group)| (group, *segments));
        numbering.add_groups(new, shapes.collect());
        let wanted = self.system_segments_for(&numbering);
        let units = self.units_per_segment;
        let lacking = wanted.saturating_sub(self.inner.lock().system_segments());
        let _reserved = match purpose {
            // The bitmaps of a group for logs are in other groups.
            Purpose::Logs => {
                let bytes = lacking * u64::from(units) * u64::from(UNIT);
                Some(self.reserve(bytes, ReserveFor::Writing)?)
            }
            _ => None,
        };
        let for_logs = match purpose {
            Purpose::Logs => self.inner.lock().empty_segments(lacking as usize)?,
            _ => Vec::new(),
        };
        // First the numbers: a thread that sees a new segment has to find its number.
        *self.numbering.write() = Arc::new(numbering);
        let mut inner = self.inner.lock();
        for (group, segments) in counts.into_iter().enumerate().skip(known) {
            let group = group as u16;
            inner.groups.push(Vec::new());
            inner.totals.push(Total::new(0, units));
            inner.takes.push(GroupUse::of(purpose));
            match purpose {
                Purpose::Data => {
                    // The rest of the group is for data.
                    let own = lacking.min(u64::from(segments) / 2) as u32;
                    inner.append_unopened(group, segments, own, units);
                }
                _ => inner.append(group, segments, units),
            }
            for id in &for_logs {
                inner.make_system(*id, units);
            }
        }
        Ok(())
    }

    /// Adds `added` segments to a group that holds data. The commit that calls this enters them into the segment table.
    /// [`Space::open_extended`] opens them for records when the commit is durable.
    pub(crate) fn extend(&self, group: u16, added: u32) {
        let (numbering, own) = self.extended(group, added);
        *self.numbering.write() = Arc::new(numbering);
        let units = self.units_per_segment;
        let mut inner = self.inner.lock();
        inner.append_unopened(group, added, own, units);
    }

    /// The numbers of all segments if a group had `added` more, and how many of these would be system segments.
    fn extended(&self, group: u16, added: u32) -> (Numbering, u32) {
        let mut numbering = Numbering::clone(&self.numbering());
        let segments = added;
        numbering.append(Stretch { group, segments });
        let wanted = self.system_segments_for(&numbering);
        let lacking = wanted.saturating_sub(self.inner.lock().system_segments());
        (numbering, lacking.min(added.into()) as u32)
    }

    /// The space for records of the usual size in `added` more segments of a group, in bytes.
    pub(crate) fn gain(&self, group: u16, added: u32) -> u64 {
        if added == 0 {
            return 0;
        }
        let (_, own) = self.extended(group, added);
        let units = u64::from(added - own) * u64::from(self.units_per_segment);
        let shape = self.numbering().shape(group.into());
        shape.usable(units) * u64::from(UNIT)
    }

    /// Called when a commit that added segments is durable: opens them for records.
    pub(crate) fn open_extended(&self) {
        let units = self.units_per_segment;
        let mut inner = self.inner.lock();
        for id in std::mem::take(&mut inner.unopened) {
            inner.groups[id.group() as usize][id.index() as usize] = Summary::empty(units);
            // Counted only now: writers must not reserve space that no durable table has.
            inner.totals[id.group() as usize].free += u64::from(units);
        }
    }
}

impl SpaceState {
    /// Adds `added` empty segments to a group.
    fn append(&mut self, group: u16, added: u32, units: u32) {
        let known = &mut self.groups[usize::from(group)];
        known.resize(known.len() + added as usize, Summary::empty(units));
        let total = &mut self.totals[usize::from(group)];
        total.extend(added);
        total.free += u64::from(added) * u64::from(units);
    }

    /// Adds `added` segments to a group. `own` of them become system segments. In the others nothing is placed yet.
    fn append_unopened(&mut self, group: u16, added: u32, own: u32, units: u32) {
        debug_assert!(own <= added, "system segments are a part of the new ones");
        let first = self.groups[usize::from(group)].len() as u32;
        let (for_records, end) = (first + added - own, first + added);
        let known = &mut self.groups[usize::from(group)];
        known.resize(for_records as usize, Summary::unopened());
        self.totals[usize::from(group)].extend(added - own);
        self.append(group, own, units);
        // The last segments, as in a new pool.
        for index in (for_records..end).rev() {
            self.make_system(SegmentId::new(group, index), units);
        }
        let unopened = (first..for_records).map(|index| SegmentId::new(group, index));
        self.unopened.extend(unopened);
    }

    /// `count` empty segments of groups that take records, from the ends of the groups.
    pub(super) fn empty_segments(&self, count: usize) -> Result<Vec<SegmentId>> {
        let groups = self.groups_that_take(GroupUse::Records);
        let all = groups.flat_map(|group| {
            let segments = self.groups[usize::from(group)].iter().enumerate().rev();
            let empty = segments.filter(|(_, s)| s.class.is_none() && s.taken == 0);
            empty.map(move |(index, _)| SegmentId::new(group, index as u32))
        });
        let found: Vec<SegmentId> = all.take(count).collect();
        match found.len() == count {
            true => Ok(found),
            false => Err(Error::NoSpace),
        }
    }
}
