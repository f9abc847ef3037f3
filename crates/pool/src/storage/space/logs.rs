//! Groups of log devices. They hold no records, and the space of the pool does not include theirs. Their segments are
//! in the segment table, and have bitmaps, like those of other groups.

use store::UNIT;

use super::Space;
use super::allocator::SpaceState;
use crate::error::Result;
use crate::format::records::extent::{Class, StoredExtent};
use crate::storage::space::segments::group_use::GroupUse;

/// The part of the free space in the groups for logs that a log takes at most.
const FREE_PART: u64 = 4;

impl SpaceState {
    pub(super) fn groups_that_take(&self, what: GroupUse) -> impl Iterator<Item = u16> {
        let groups = self.takes.iter().zip(0..);
        groups
            .filter(move |(takes, _)| **takes == what)
            .map(|(_, group)| group)
    }
}

impl Space {
    /// Returns whether a log may be written to in a group.
    pub(crate) fn takes_logs(&self, group: u32) -> bool {
        let takes = self.inner.lock().takes.get(group as usize).copied();
        match takes {
            Some(GroupUse::Records) => true,
            Some(GroupUse::Logs) => self.disk.store.works(group),
            Some(GroupUse::NoMore | GroupUse::Nothing) | None => false,
        }
    }

    /// Returns whether a group is for logs only, or was.
    pub(crate) fn is_for_logs(&self, group: u32) -> bool {
        let takes = self.inner.lock().takes.get(group as usize).copied();
        matches!(takes, Some(GroupUse::Logs | GroupUse::Nothing))
    }

    /// Takes the units of a record that only a log points to: they are in no bitmap. False if they are not all free.
    pub(crate) fn claim(&self, extent: &StoredExtent) -> Result<bool> {
        let numbering = self.numbering();
        let mut inner = self.inner.lock();
        let group = extent.segment.group() as usize;
        let exists = numbering.number(extent.segment).is_some()
            && matches!(inner.takes[group], GroupUse::Records | GroupUse::NoMore)
            && inner.class_of(extent.segment) != Some(Class::System);
        if !exists {
            return Ok(false);
        }
        let span = numbering.span(extent);
        let map = self.map(&mut inner, extent.segment)?;
        let is_free = map.taken.is_free(span.start, span.units);
        if is_free {
            self.take(&mut inner, Class::Data, span);
        }
        Ok(is_free)
    }

    /// The bytes that one log may take in groups for logs.
    pub(crate) fn log_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        let free = self.log_groups(&inner).into_iter();
        let free: u64 = free.map(|g| inner.totals[usize::from(g)].free).sum();
        free * u64::from(UNIT) / FREE_PART
    }

    /// Takes a run of units in a group for logs, if one of them works and has space.
    pub(crate) fn allocate_log(&self, units: u32) -> Result<Option<StoredExtent>> {
        let mut inner = self.inner.lock();
        let mut groups = self.log_groups(&inner);
        groups.sort_by_key(|group| self.fullness(&inner, *group));
        for group in groups {
            let found = self.allocate_in(&mut inner, Class::Data, group, units, None)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn log_groups(&self, inner: &SpaceState) -> Vec<u16> {
        let groups = inner.groups_that_take(GroupUse::Logs);
        groups
            .filter(|group| self.disk.store.works((*group).into()))
            .collect()
    }

    /// Stops allocation in a group for logs, or allows it again.
    pub(crate) fn bar(&self, group: u16, is_barred: bool) {
        self.inner.lock().takes[usize::from(group)] = match is_barred {
            true => GroupUse::Nothing,
            false => GroupUse::Logs,
        };
    }
}
