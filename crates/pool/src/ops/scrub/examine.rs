//! Examines one record or node: reads every copy, and rewrites copies that are bad or missing.

use std::collections::BTreeSet;
use std::sync::Arc;

use store::{ColumnParts, MemberState, UNIT};

use super::{RecordFinding, VisitStep, VisitTask};
use crate::engine::log::{LogReader, RawEntry};
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::pointer::{RecordLocation, checksum};
use crate::storage::gang::GangPiece;
use crate::storage::reader::{NoGoodCopy, PoolReader};

/// A part of a copy on a member that is to be written.
struct RepairPart {
    copy: usize,
    guid: u64,
    run: GangPiece,
    /// True if it was read and is wrong.
    is_damaged: bool,
}

/// The data of the members for a run.
struct MemberData {
    copy: usize,
    run: GangPiece,
    parts: ColumnParts,
}

/// The extents of the copies of a record or node, by their numbers. Copies that the remap table has for later come
/// behind, with numbers of their own.
pub(super) struct Copies {
    list: Vec<(usize, Vec<GangPiece>)>,
    /// True if a part of it is not at the address in its pointer.
    is_moved: bool,
    /// The version of the remap table at the look-up.
    generation: u64,
}

impl Copies {
    fn find(
        disk: &PoolReader,
        runs: impl Iterator<Item = Result<(usize, Vec<GangPiece>)>>,
    ) -> Result<Copies> {
        let mut copies = Copies {
            list: Vec::new(),
            is_moved: false,
            generation: disk.remap.generation(),
        };
        for found in runs {
            let (copy, runs) = found?;
            let (mut now, mut later) = (Vec::new(), Vec::new());
            for run in runs {
                let moved = run.cut(&disk.remap.resolve(run.extent())?);
                copies.is_moved |= moved[..] != [run];
                for run in &moved {
                    let pieces = disk.remap.copy_of(&run.extent())?;
                    later.extend(run.cut(&pieces.unwrap_or_default()));
                }
                now.extend(moved);
            }
            copies.list.push((copy, now));
            if !later.is_empty() {
                copies.is_moved = true;
                copies.list.push((copy + COPIES_MAX, later));
            }
        }
        Ok(copies)
    }

    pub(super) fn each_run(&self) -> impl Iterator<Item = (usize, &GangPiece)> {
        let copies = self.list.iter();
        copies.flat_map(|(copy, runs)| runs.iter().map(move |run| (*copy, run)))
    }
}

/// The most copies of a pointer.
const COPIES_MAX: usize = 2;

/// Says whether a record or node is still at its place.
type Current<'a> = &'a dyn Fn() -> Result<bool>;

/// Reads a good copy from any place, or returns why there is none.
pub(super) type Fetch<'a> = &'a dyn Fn(&PoolReader) -> std::result::Result<Vec<u8>, RecordFinding>;

impl From<NoGoodCopy> for RecordFinding {
    fn from(lost: NoGoodCopy) -> RecordFinding {
        match lost.is_unreadable() {
            true => RecordFinding::Unreadable,
            false => RecordFinding::Damaged,
        }
    }
}

impl VisitStep<'_> {
    /// Does the work of this step on the logs of all datasets, as far as they are not replayed or committed, and on the
    /// records that they point to.
    pub(crate) fn logs(&mut self) -> Result<()> {
        let engine = self.engine;
        let mut claims = Vec::new();
        {
            // No commit happens meanwhile, so no entry is overwritten.
            let _committing = engine.lock_commits();
            let state = engine.state.read();
            let logs = state.all().filter(|entry| entry.log.exists());
            let logs: Vec<Arc<Entry>> = logs.cloned().collect();
            drop(state);
            for dataset in logs {
                let places = self.log_entries(&dataset)?;
                claims.extend(
                    places
                        .into_iter()
                        .map(|place| (Arc::clone(&dataset), place)),
                );
            }
        }
        for (dataset, place) in claims {
            // A commit puts it into an array, or frees it.
            let waits = || {
                let state = engine.state.read();
                let entry = state.get(dataset.id);
                Ok(entry.is_some_and(|entry| entry.log.points_to(dataset.log.chain, &place)))
            };
            let found = self.examine(&place, &waits)?;
            if found != RecordFinding::Good && waits()? {
                self.report(found, dataset.id, Some(ArrayKind::Data), (0, 0));
            }
        }
        Ok(())
    }

    /// Examines the entries of one log. Returns the records that they point to.
    fn log_entries(&mut self, dataset: &Entry) -> Result<Vec<RecordLocation>> {
        let disk = Arc::clone(&self.engine.disk);
        let mut places = Vec::new();
        let mut log = LogReader::new(&disk, &dataset.log, dataset.guid);
        let mut entries = log.raw().peekable();
        while let Some(entry) = entries.next() {
            // The last entry may not have reached all members yet. This is no damage.
            if entries.peek().is_some() || matches!(self.task, VisitTask::Fill(_)) {
                self.log_entry(&entry)?;
                places.extend(entry.claims(dataset.log.base));
            }
        }
        drop(entries);
        if matches!(self.task, VisitTask::Fill(_)) {
            // A member that is whole is believed when it says that there is no more.
            let state = self.engine.state.read();
            state.refuse_unknown_log(dataset)?;
            state.refuse_unreadable(dataset, &log)?;
        }
        Ok(places)
    }

    fn log_entry(&mut self, entry: &RawEntry) -> Result<()> {
        let store = Arc::clone(&self.engine.disk.store);
        if self.engine.read_only {
            return Ok(());
        }
        let wanted = match &self.task {
            VisitTask::Repair => MemberState::Online,
            VisitTask::Fill(_) => MemberState::Resilvering,
            VisitTask::Evacuate(_) => return Ok(()),
        };
        // With parity each unit is a stripe.
        let shape = store.shape(entry.segment.group());
        let piece = match shape.has_parity() {
            true => UNIT as usize,
            false => entry.bytes.len(),
        };
        for (bytes, n) in entry.bytes.chunks(piece).zip(0..) {
            let offset = entry.offset + n * shape.cell() * UNIT;
            let parts = store.read_parts(entry.segment, offset, bytes.len(), wanted)?;
            for guid in parts.bad(bytes) {
                store.write_part(guid, entry.segment, offset, bytes)?;
                if let VisitTask::Repair = self.task {
                    if parts.was_read(guid) {
                        store.count_damage(guid);
                    }
                    self.status.repaired = self.status.repaired.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Does the work of this step on a record or node, if its pointer is still `current`.
    pub(crate) fn examine(
        &mut self,
        place: &RecordLocation,
        current: Current<'_>,
    ) -> Result<RecordFinding> {
        self.forget_missed();
        if self.is_passed_over(place) {
            // The check counts as work too.
            self.left = self.left.saturating_sub(u64::from(UNIT));
            return Ok(RecordFinding::Good);
        }
        if place.is_gang() {
            let map = self.examine_map(place, current)?;
            if map != RecordFinding::Good {
                return Ok(map);
            }
        }
        let is_good = |bytes: &[u8]| checksum(bytes) == place.checksum;
        let fetch = |disk: &PoolReader| {
            let mut buf = vec![0; place.disk_size() as usize];
            disk.fetch(place, &mut buf, &mut |bytes| is_good(bytes))?;
            Ok(buf)
        };
        let disk = Arc::clone(&self.engine.disk);
        let runs = || {
            let copies = place.copy_numbers();
            copies.map(|copy| Ok((copy, disk.runs_of_pointer(place, copy)?)))
        };
        let find = || Copies::find(&disk, runs());
        self.work(place.birth(), &find, &is_good, &fetch, current)
    }

    /// Examines a gang map. Every copy of it is one unit.
    fn examine_map(
        &mut self,
        place: &RecordLocation,
        current: Current<'_>,
    ) -> Result<RecordFinding> {
        let disk = Arc::clone(&self.engine.disk);
        let (mut good, mut lost) = (None, NoGoodCopy::default());
        for addr in place.copies() {
            match disk.read_map(place, &addr) {
                Ok((_, bytes)) => {
                    good = Some(bytes);
                    break;
                }
                Err(why) => lost = lost.or(why),
            }
        }
        let lost = RecordFinding::from(lost);
        let runs = || {
            let copies = place.copy_numbers();
            copies.map(|copy| Ok((copy, vec![GangPiece::of_map(&place.addr[copy])])))
        };
        let find = || Copies::find(&disk, runs());
        let is_good = |bytes: &[u8]| good.as_deref() == Some(bytes);
        let fetch = |_: &PoolReader| good.clone().ok_or(lost);
        self.work(place.birth(), &find, &is_good, &fetch, current)
    }

    fn work(
        &mut self,
        birth: u64,
        find: &dyn Fn() -> Result<Copies>,
        is_good: &dyn Fn(&[u8]) -> bool,
        fetch: Fetch<'_>,
        current: Current<'_>,
    ) -> Result<RecordFinding> {
        loop {
            let copies = match find() {
                // Its place is unknown.
                Err(error) if error.is_loss() => return Ok(RecordFinding::of_loss(&error)),
                copies => copies?,
            };
            let done = match &self.task {
                VisitTask::Fill(filling) => {
                    let birth = match copies.is_moved {
                        true => birth.max(self.moved_till()),
                        false => birth,
                    };
                    let lack_it = |&&(_, from): &&(u64, u64)| from < birth;
                    let members = filling.members.iter();
                    let members: Vec<u64> = members.filter(lack_it).map(|m| m.0).collect();
                    self.fill(&members, &copies, fetch, current)?
                }
                VisitTask::Repair => self.repair(&copies, is_good, fetch, current)?,
                VisitTask::Evacuate(_) => Some(self.copy_out(&copies, fetch)?),
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Returns when a record or node was last copied from a group under removal. At its present place it may be newer
    /// than its pointer.
    pub(crate) fn moved_till(&self) -> u64 {
        let state = self.engine.state.read();
        let removal = state.config.removal.as_ref();
        removal.map_or(0, |removal| removal.moved_till)
    }

    /// Writes what the members named are to have of it. `None` if it is somewhere else by now.
    fn fill(
        &mut self,
        members: &[u64],
        copies: &Copies,
        fetch: Fetch<'_>,
        current: Current<'_>,
    ) -> Result<Option<RecordFinding>> {
        let disk = &self.engine.disk;
        let mut parts = Vec::new();
        for (copy, run) in copies.each_run() {
            self.status.examined = self.status.examined.saturating_add(run.bytes.len() as u64);
            let holders = disk.store.holders(run.segment, run.offset, run.bytes.len());
            let lacking = holders.into_iter().filter(|(guid, state)| {
                *state == MemberState::Resilvering && members.contains(guid)
            });
            parts.extend(lacking.map(|(guid, _)| RepairPart {
                copy,
                guid,
                run: run.clone(),
                is_damaged: false,
            }));
        }
        if parts.is_empty() {
            // Skipping counts as work too.
            self.left = self.left.saturating_sub(u64::from(UNIT));
            return Ok(Some(RecordFinding::Good));
        }
        let bytes: usize = parts.iter().map(|part| part.run.bytes.len()).sum();
        self.left = self.left.saturating_sub(bytes as u64);
        let good = match fetch(disk) {
            Ok(good) => good,
            Err(found) => {
                if let VisitTask::Fill(filling) = &mut self.task {
                    filling.missed = parts.iter().map(|part| part.guid).collect();
                }
                return Ok(Some(found));
            }
        };
        let Some(written) = self.write(&parts, copies, &good, current)? else {
            return Ok(None);
        };
        if written > 0 {
            self.status.repaired = self.status.repaired.saturating_add(bytes as u64);
        }
        Ok(Some(RecordFinding::Good))
    }

    /// Reads it on every member that holds everything, and rewrites what is bad. `None` if it is somewhere
    /// else by now.
    fn repair(
        &mut self,
        copies: &Copies,
        is_good: &dyn Fn(&[u8]) -> bool,
        fetch: Fetch<'_>,
        current: Current<'_>,
    ) -> Result<Option<RecordFinding>> {
        let disk = Arc::clone(&self.engine.disk);
        let store = &disk.store;
        let mut found = Vec::new();
        for (copy, run) in copies.each_run() {
            let online = MemberState::Online;
            let parts = store.read_parts(run.segment, run.offset, run.bytes.len(), online);
            let Ok(parts) = parts else {
                // The place does not exist: the pointer is damaged.
                let is_same = copies.generation == disk.remap.generation();
                return Ok(is_same.then_some(RecordFinding::Damaged));
            };
            self.count(parts.bytes());
            let run = run.clone();
            found.push(MemberData { copy, run, parts });
        }
        let good = match whole(&found, is_good).map_or_else(|| fetch(&disk), Ok) {
            Ok(good) => good,
            Err(why) => {
                // The failed reads are counted. It is unknown which of the other copies are bad.
                if why == RecordFinding::Damaged {
                    self.blame(&found, current)?;
                }
                return Ok(Some(why));
            }
        };
        let bad = found.iter().flat_map(|MemberData { copy, run, parts }| {
            let bad = parts.bad(&good[run.bytes.clone()]).into_iter();
            bad.map(|guid| RepairPart {
                copy: *copy,
                guid,
                run: run.clone(),
                is_damaged: parts.was_read(guid),
            })
        });
        let bad: Vec<RepairPart> = bad.collect();
        if bad.is_empty() {
            return Ok(Some(RecordFinding::Good));
        }
        let Some(written) = self.write(&bad, copies, &good, current)? else {
            return Ok(None);
        };
        self.status.repaired = self.status.repaired.saturating_add(written as u64);
        Ok(Some(RecordFinding::Good))
    }

    /// Counts damage that cannot be repaired.
    fn blame(&self, found: &[MemberData], current: Current<'_>) -> Result<()> {
        if current()? {
            let guids = found.iter().flat_map(|found| found.parts.members());
            let guids: BTreeSet<u64> = guids.collect();
            let store = &self.engine.disk.store;
            guids.into_iter().for_each(|guid| store.count_damage(guid));
        }
        Ok(())
    }

    /// Rewrites parts with the bytes that they should have, and says how many copies these belong to. `None`
    /// if they may be somewhere else by now.
    fn write(
        &self,
        parts: &[RepairPart],
        of: &Copies,
        good: &[u8],
        current: Current<'_>,
    ) -> Result<Option<usize>> {
        let engine = self.engine;
        if engine.read_only {
            return Ok(Some(0));
        }
        // Records in the tree of the last commit keep their places until the next commit is durable.
        let _committing = engine.lock_commits();
        engine.check_lease()?;
        if !current()? {
            return Ok(Some(0));
        }
        if of.generation != engine.disk.remap.generation() {
            return Ok(None);
        }
        let store = &engine.disk.store;
        let (mut copies, mut damaged) = (BTreeSet::new(), BTreeSet::new());
        for part in parts {
            let run = &part.run;
            let bytes = &good[run.bytes.clone()];
            store.write_part(part.guid, run.segment, run.offset, bytes)?;
            copies.insert((part.copy, part.guid));
            if part.is_damaged {
                damaged.insert((part.copy, part.guid));
            }
        }
        damaged
            .iter()
            .for_each(|(_, guid)| store.count_damage(*guid));
        Ok(Some(copies.len()))
    }
}

/// A copy that is good, put together in one way or another.
fn whole(found: &[MemberData], is_good: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let same_copy = |a: &MemberData, b: &MemberData| a.copy == b.copy;
    found.chunk_by(same_copy).find_map(|runs| {
        let ways = runs.iter().map(|found| found.parts.ways()).max()?;
        (0..ways).find_map(|way| {
            let mut bytes = Vec::new();
            for found in runs {
                let way = way.checked_rem(found.parts.ways())?;
                bytes.extend(found.parts.whole(way)?);
            }
            is_good(&bytes).then_some(bytes)
        })
    })
}
