//! Growing: a group of devices that joins the pool.

use std::sync::Arc;

use store::{SegmentId, UNIT};

use super::allocator::Inner;
use super::logs::Takes;
use super::picker::Summary;
use super::table::Numbering;
use super::totals::Total;
use super::{ReserveFor, Space};
use crate::config::Purpose;
use crate::error::{Error, Result};

impl Space {
    /// Takes in the group that the store has more than before, for this purpose. The commit that calls
    /// this enters it into the segment table.
    pub(crate) fn grow(self: &Arc<Space>, purpose: Purpose) -> Result<()> {
        let counts = self.disk.store.groups();
        let numbering = Numbering::of(self.disk.store.as_ref());
        let wanted = self.system_segments_for(&numbering);
        let units = self.units_per_segment;
        let lacking = wanted.saturating_sub(self.inner.lock().system_segments());
        let _room = match purpose {
            // The bitmaps of a group for logs lie in the others.
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
        *self.numbering.write() = Arc::new(numbering);
        let mut inner = self.inner.lock();
        let known = inner.groups.len();
        for (group, segments) in counts.into_iter().enumerate().skip(known) {
            inner
                .groups
                .push(vec![Summary::empty(units); segments as usize]);
            inner.totals.push(Total::new(segments, units));
            inner.takes.push(Takes::of(purpose));
            let own = match purpose {
                // The last segments, as when a pool is made. The rest of the group is for data.
                Purpose::Data => lacking.min(u64::from(segments) / 2) as u32,
                _ => 0,
            };
            let own = (0..own).map(|n| SegmentId::new(group as u16, segments - 1 - n));
            for id in own.chain(for_logs.iter().copied()) {
                inner.make_system(id, units);
            }
        }
        Ok(())
    }
}

impl Inner {
    /// So many empty segments of groups that take records, from their ends.
    pub(super) fn empty_segments(&self, count: usize) -> Result<Vec<SegmentId>> {
        let groups = self.groups_that_take(Takes::Records);
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
