//! Copies the records of a group of devices that is being removed. Needs no key.
//!
//! It walks the pool like a scrub, and verifies the records like a scrub. A later commit enters the copies into the
//! remap table, if the originals still exist.

use std::io::IoSlice;

use store::{SegmentId, UNIT};

use super::examine::{Copies, Fetch};
use super::{RecordFinding, VisitStep, VisitTask};
use crate::engine::dedup;
use crate::error::{Error, Result};
use crate::format::jobs::scrub_status::ScrubPosition;
use crate::format::records::extent::{Class, StoredExtent};
use crate::storage::gang::GangPiece;

impl VisitStep<'_> {
    /// Copies what it finds, from where it was. True at the end of the pool.
    pub(crate) fn evacuate(&mut self) -> Result<bool> {
        if self.status.position == ScrubPosition::default() {
            self.pool_arrays()?;
            self.go_to(1, 0, 0);
        }
        if !self.datasets()? {
            return Ok(false);
        }
        self.shared_records()?;
        Ok(true)
    }

    /// Records of the dedup table to which nothing points yet, or any more.
    fn shared_records(&mut self) -> Result<()> {
        let engine = self.engine;
        let root = engine.state.read().root.dedup;
        let mut unused = Vec::new();
        dedup::each(&engine.disk, &root, &mut |shared| {
            if shared.count() == 0 {
                unused.push(shared.pointer());
            }
        })?;
        for ptr in unused {
            self.examine(&ptr.place, &|| Ok(true))?;
        }
        Ok(())
    }

    /// Copies those parts of a record, node or map that lie in the group.
    pub(super) fn copy_out(&mut self, copies: &Copies, fetch: Fetch<'_>) -> Result<RecordFinding> {
        let engine = self.engine;
        let disk = &engine.disk;
        let VisitTask::Evacuate(evacuated) = &mut self.task else {
            return Ok(RecordFinding::Good);
        };
        let group = u32::from(evacuated.group);
        let mut wanted: Vec<(GangPiece, Option<SegmentId>)> = Vec::new();
        for (copy, run) in copies.each_run() {
            let extent = run.extent();
            let is_new = run.segment.group() == group
                && disk.remap.copy_of(&extent)?.is_none()
                && !evacuated.seen.contains(&(extent.segment, extent.start));
            if is_new {
                let mut others = copies.each_run().filter(|(other, _)| *other != copy);
                let apart = others.find(|(_, other)| other.segment.group() != group);
                wanted.push((run.clone(), apart.map(|(_, other)| other.segment)));
            }
        }
        if wanted.is_empty() {
            // Passing over something is work too.
            self.left = self.left.saturating_sub(u64::from(UNIT) / 4);
            return Ok(RecordFinding::Good);
        }
        let good = match fetch(disk) {
            Ok(good) => good,
            Err(found) => return Ok(found),
        };
        for (run, apart) in wanted {
            let extent = run.extent();
            let bytes = &good[run.bytes.clone()];
            let pieces = self.place_copy(&extent, apart, bytes)?;
            self.left = self.left.saturating_sub(bytes.len() as u64);
            if let VisitTask::Evacuate(evacuated) = &mut self.task {
                evacuated.seen.insert((extent.segment, extent.start));
                evacuated.copies.push((extent, pieces));
            }
        }
        Ok(RecordFinding::Good)
    }

    /// Writes the copy of an extent to other groups, in one piece if there is space for that, and not in the
    /// segment `apart` where there is a choice.
    fn place_copy(
        &self,
        extent: &StoredExtent,
        apart: Option<SegmentId>,
        bytes: &[u8],
    ) -> Result<Vec<StoredExtent>> {
        let engine = self.engine;
        let class = engine.space.class_at(extent.segment);
        let mut pieces = Vec::new();
        if let Err(error) = self.allocate_pieces(class, extent.units, apart, &mut pieces) {
            engine.space.release(pieces);
            return Err(error);
        }
        let mut rest = bytes;
        for piece in &pieces {
            let (now, later) = rest.split_at((piece.units * UNIT) as usize);
            let store = &engine.disk.store;
            store
                .write(piece.segment, piece.start * UNIT, &[IoSlice::new(now)])
                .map_err(|error| engine.suspend(error.into()))?;
            rest = later;
        }
        Ok(pieces)
    }

    fn allocate_pieces(
        &self,
        class: Class,
        units: u32,
        apart: Option<SegmentId>,
        pieces: &mut Vec<StoredExtent>,
    ) -> Result<()> {
        let (mut left, mut run) = (units, units);
        while left > 0 {
            run = run.min(left);
            match self.engine.space.allocate(class, run, apart) {
                Ok(piece) => {
                    pieces.push(piece);
                    left -= run;
                }
                Err(Error::NoSpace) if run > 1 => run /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
