//! Growing: a group of devices that joins the pool.

use std::sync::Arc;

use store::SegmentId;

use super::Space;
use super::picker::Summary;
use super::table::Numbering;
use super::totals::Total;

impl Space {
    /// Takes in the groups that the store has more than before. The commit that calls this enters
    /// them into the segment table.
    pub(crate) fn grow(&self) {
        let counts = self.disk.store.groups();
        *self.numbering.write() = Arc::new(Numbering::of(self.disk.store.as_ref()));
        let wanted = self.system_segments_wanted();
        let units = self.units_per_segment;
        let mut inner = self.inner.lock();
        let known = inner.groups.len();
        for (group, segments) in counts.into_iter().enumerate().skip(known) {
            inner
                .groups
                .push(vec![Summary::empty(units); segments as usize]);
            inner.totals.push(Total::new(segments, units));
            // The last segments, as when a pool is made. The rest of the group is for data.
            let lacking = wanted.saturating_sub(inner.system_segments());
            for n in 0..lacking.min(u64::from(segments) / 2) as u32 {
                inner.make_system(SegmentId::new(group as u16, segments - 1 - n), units);
            }
        }
    }
}
