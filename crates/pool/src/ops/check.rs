//! Checks that every unit of the pool has exactly one owner, without any key.
//!
//! The check visits everything that the superblock reaches, and claims its units. Then it compares the claims with
//! the bitmaps. A unit that is claimed twice, or claimed and free in its bitmap, means that data will be lost. A
//! unit that is allocated and not claimed is lost space.

use crate::engine::gate::CommitEngine;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use store::{SegmentId, UNIT};

use crate::engine::dedup;
use crate::engine::frees::deadlist::{self, DeadEntry};
use crate::error::Result;
use crate::format::datasets::entry::Entry;
use crate::format::jobs::free_job::FreeTarget;
use crate::format::records::array_kind::ArrayKind;
use crate::format::records::extent::StoredExtent;
use crate::format::records::node::ArrayNode;
use crate::format::records::pointer::{RecordLocation, RecordPtr, ShareId};
use crate::ops::lifecycle::checkpoint::kept_state;
use crate::ops::pool::Pool;
use crate::storage::array::walk::{self, Visit};
use crate::storage::space::Bitmap;

/// The largest number of findings in a report. Others are only counted.
const FINDINGS_MAX: usize = 1000;

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Two owners have the same place.
    UsedTwice {
        /// The owner that was visited second.
        what: String,
        /// The segment with two owners.
        segment: SegmentId,
        /// The first byte.
        offset: u32,
    },
    /// A used place is free in its bitmap.
    NotAllocated {
        /// The segment whose bitmap lacks the units.
        segment: SegmentId,
        /// The number of these units.
        units: u32,
    },
    /// An allocated place has no owner.
    Leaked {
        /// The segment whose bitmap has units without an owner.
        segment: SegmentId,
        /// The number of units.
        units: u32,
    },
    /// A deadlist is wrong: space would be lost, or freed while it is in use.
    Deadlist {
        /// The dataset or snapshot with the deadlist.
        name: String,
        /// The dead records and nodes that it lacks, or has in the wrong sublist.
        missing: u64,
        /// The records and nodes in it that are not dead.
        surplus: u64,
    },
    /// A deadlist has a wrong sum of bytes before compression.
    Logical {
        /// The dataset or snapshot with the deadlist.
        name: String,
        /// The sum in it.
        listed: u64,
        /// The bytes of what died.
        found: u64,
    },
    /// The dedup table lacks a shared record, or has a wrong number of pointers to it.
    Shared {
        /// The segment of the record.
        segment: SegmentId,
        /// The first byte.
        offset: u32,
        /// The number of pointers that were found.
        pointers: u64,
        /// The number of pointers in the table.
        listed: u64,
    },
    /// The pointer to a node says something else of what is stored below than the pointers in it do: the blocks that files
    /// show are wrong.
    StoredSum {
        /// The owner of the node.
        what: String,
        /// The segment of the node.
        segment: SegmentId,
        /// The first byte.
        offset: u32,
        /// The units that its pointer says.
        says: u64,
        /// The units that there are, if the pointers in it say that.
        found: Option<u64>,
    },
    /// A record or node cannot be read.
    Unreadable {
        /// The record or node.
        what: String,
        /// The reason why it cannot be read.
        why: String,
    },
}

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Datasets and snapshots visited.
    pub datasets: u64,
    /// Records visited.
    pub records: u64,
    /// Nodes visited.
    pub nodes: u64,
    /// Bytes claimed.
    pub bytes: u64,
    /// The part of these bytes that records and nodes of datasets and snapshots have, without records in the dedup
    /// table.
    pub contents: u64,
    /// The problems; at most the first thousand.
    pub findings: Vec<Finding>,
    /// The number of problems.
    pub count: u64,
}

impl CheckReport {
    /// Returns whether there are no problems.
    pub fn is_clean(&self) -> bool {
        self.count == 0
    }

    /// Adds what is wrong with the state of the checkpoint.
    fn add(&mut self, other: CheckReport) {
        let unlisted = other.count - other.findings.len() as u64;
        other
            .findings
            .into_iter()
            .for_each(|finding| self.find(finding));
        self.count += unlisted;
    }

    fn find(&mut self, finding: Finding) {
        self.count += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

impl Pool {
    /// Checks the last committed state of the pool, and the checkpoint. Commits wait meanwhile. Only the first is
    /// counted.
    ///
    /// # Errors
    /// A bitmap or a table of the pool cannot be read. Other damage is in the report.
    pub fn check(&self) -> Result<CheckReport> {
        let committing = self.engine.lock_commits();
        let mut report = check_state(&self.engine)?;
        match kept_state(&self.engine, &committing) {
            Ok(None) => {}
            Ok(Some(kept)) => report.add(check_state(&kept)?),
            Err(error) => report.find(Finding::Unreadable {
                what: "the checkpoint".into(),
                why: error.to_string(),
            }),
        }
        Ok(report)
    }
}

fn check_state(engine: &Arc<CommitEngine>) -> Result<CheckReport> {
    let units = engine.disk.store.segment_size() / UNIT;
    let mut check = PoolCheck {
        engine,
        claims: HashMap::new(),
        shared: HashMap::new(),
        units,
        left: 2 * engine.disk.units(),
        report: CheckReport::default(),
    };
    check.pool_records();
    check.datasets();
    check.free_queue();
    check.dedup_table();
    check.compare()?;
    Ok(check.report)
}

struct PoolCheck<'a> {
    engine: &'a Arc<CommitEngine>,
    claims: HashMap<SegmentId, Bitmap>,
    /// The number of pointers to each shared record.
    shared: HashMap<ShareId, u64>,
    units: u32,
    /// The records and nodes that may still be visited: twice the number that the pool can have, so that units with
    /// two owners are found.
    left: u64,
    report: CheckReport,
}

impl PoolCheck<'_> {
    fn claim(&mut self, what: &str, place: &RecordLocation) {
        if let Some(share) = place.share() {
            // The dedup table claims it, once.
            return *self.shared.entry(share).or_default() += 1;
        }
        let extents = match self.engine.disk.extents(place) {
            Ok(extents) => extents,
            Err(error) => {
                return self.report.find(Finding::Unreadable {
                    what: what.into(),
                    why: error.to_string(),
                });
            }
        };
        self.claim_extents(what, extents);
    }

    fn claim_extents(&mut self, what: &str, extents: impl IntoIterator<Item = StoredExtent>) {
        let numbering = self.engine.space.numbering();
        let remap = &self.engine.disk.remap;
        let mut places = Vec::new();
        for extent in extents {
            match remap.all_places(extent) {
                Ok(all) => places.extend(all),
                Err(error) => self.report.find(Finding::Unreadable {
                    what: what.into(),
                    why: error.to_string(),
                }),
            }
        }
        for extent in places {
            let span = numbering.span(&extent);
            self.report.bytes += u64::from(span.units) * u64::from(UNIT);
            let units = self.units;
            let map = self
                .claims
                .entry(span.segment)
                .or_insert_with(|| Bitmap::new(units));
            if !map.set(span.start, span.units) {
                self.report.find(Finding::UsedTwice {
                    what: what.into(),
                    segment: span.segment,
                    offset: span.start * UNIT,
                });
            }
        }
    }

    /// Claims the records and nodes of an array that were born after `min_birth`, and shows each
    /// record.
    fn array(
        &mut self,
        what: &str,
        root: &RecordPtr,
        (from, min_birth): (u64, u64),
        mut each: impl FnMut(&mut Self, &RecordPtr) -> Result<()>,
    ) {
        let disk = &self.engine.disk;
        let mut left = self.left;
        let slots = (from, min_birth);
        let visited = walk::visit_within::<()>(disk, root, slots, &mut left, &mut |visit| {
            match visit {
                Visit::Node(_, ptr, node) => {
                    self.report.nodes += 1;
                    self.claim(what, &ptr.place);
                    self.compare_stored(what, ptr, node);
                }
                Visit::Record(_, ptr) => {
                    self.report.records += 1;
                    self.claim(what, &ptr.place);
                    each(self, ptr)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        });
        self.left = left;
        if let Err(error) = visited {
            self.report.find(Finding::Unreadable {
                what: what.into(),
                why: error.to_string(),
            });
        }
    }

    fn compare_stored(&mut self, what: &str, ptr: &RecordPtr, node: &ArrayNode) {
        let found = node.stored();
        if let Some(says) = ptr.stored()
            && found != Some(says)
        {
            let addr = &ptr.place.addr[0];
            self.report.find(Finding::StoredSum {
                what: what.into(),
                segment: addr.segment(),
                offset: addr.offset(),
                says,
                found,
            });
        }
    }

    fn pool_records(&mut self) {
        let root = self.engine.state.read().root.clone();
        self.claim("the configuration", &root.config.place);
        if root.has_checkpoint() {
            self.claim("the checkpoint", &root.checkpoint.place);
        }
        for (what, array) in [
            ("the dataset table", root.datasets),
            ("the history", root.history),
            ("the free queue", root.async_free),
            ("the dedup table", root.dedup),
            ("the remap table", root.remap),
        ] {
            self.array(what, &array, (0, 0), |_, _| Ok(()));
        }
    }

    fn datasets(&mut self) {
        let entries: Vec<_> = {
            let state = self.engine.state.read();
            state
                .all()
                .map(|entry| (state.name_of(entry), entry.clone()))
                .collect()
        };
        for (name, entry) in entries {
            self.report.datasets += 1;
            let before = self.report.bytes;
            for root in &entry.roots {
                self.array(&name, root, (0, entry.prev_snap_txg), |_, _| Ok(()));
            }
            self.report.contents += self.report.bytes - before;
            self.deadlist(&format!("the deadlist of {name}"), &entry.deadlist);
            if let Err(error) = self.compare_deadlist(&name, &entry) {
                self.report.find(Finding::Unreadable {
                    what: format!("what died in {name}"),
                    why: error.to_string(),
                });
            }
            self.claim_extents(&format!("the log of {name}"), entry.log.extents());
        }
    }

    fn deadlist(&mut self, what: &str, root: &RecordPtr) {
        self.array(what, root, (0, 0), |_, _| Ok(()));
        match deadlist::sublists(&self.engine.disk, root) {
            Ok(sublists) => {
                for (_, sublist) in sublists {
                    self.array(what, &sublist.root, (0, 0), |_, _| Ok(()));
                }
            }
            Err(error) => self.report.find(Finding::Unreadable {
                what: what.into(),
                why: error.to_string(),
            }),
        }
    }

    /// Compares a deadlist with the difference between the entry and the snapshot before it.
    fn compare_deadlist(&mut self, name: &str, entry: &Entry) -> Result<()> {
        let disk = &self.engine.disk;
        let (before, line) = {
            let state = self.engine.state.read();
            (state.before(entry).cloned(), state.line(entry))
        };
        // What is listed, less what died.
        let mut listed: HashMap<(u64, DeadEntry), i64> = HashMap::new();
        deadlist::each_dead(disk, &entry.deadlist, &mut |snapshot, dead| {
            *listed.entry((snapshot, dead)).or_default() += 1;
        })?;
        let mut logical: HashMap<u64, u64> = HashMap::new();
        let oldest = |birth| {
            let mut line = line.iter().rev();
            let oldest = line.find(|snapshot| snapshot.created_txg >= birth);
            oldest.map_or(0, |snapshot| snapshot.id)
        };
        for array in ArrayKind::ALL {
            let Some(before) = &before else { break };
            let roots = [before, entry].map(|entry: &Entry| entry.roots[array as usize]);
            walk::gone(disk, &roots[0], &roots[1], &mut |ptr| {
                let key = (oldest(ptr.place.birth()), DeadEntry::new(ptr));
                *logical.entry(key.0).or_default() += u64::from(ptr.identity.logical_size());
                *listed.entry(key).or_default() -= 1;
                Ok(())
            })?;
        }
        let missing = listed
            .values()
            .filter(|n| **n < 0)
            .map(|n| n.unsigned_abs());
        let surplus = listed
            .values()
            .filter(|n| **n > 0)
            .map(|n| n.unsigned_abs());
        let (missing, surplus) = (missing.sum(), surplus.sum());
        if missing > 0 || surplus > 0 {
            self.report.find(Finding::Deadlist {
                name: name.into(),
                missing,
                surplus,
            });
        }
        for (snapshot, sublist) in deadlist::sublists(disk, &entry.deadlist)? {
            let found = logical.get(&snapshot).copied().unwrap_or(0);
            if let Some(listed) = sublist.logical().filter(|listed| *listed != found) {
                self.report.find(Finding::Logical {
                    name: name.into(),
                    listed,
                    found,
                });
            }
        }
        Ok(())
    }

    fn free_queue(&mut self) {
        let jobs = self.engine.state.read().async_free.clone();
        let what = "what is being destroyed";
        let unread = self.engine.unread.lock().clone();
        for place in unread {
            self.claim(what, &place);
        }
        for job in jobs.values() {
            let min_birth = match job.what {
                FreeTarget::Tree { min_birth } => min_birth,
                FreeTarget::DeadRecords | FreeTarget::ListOnly => 0,
            };
            self.array(what, &job.root, (job.cursor, min_birth), |check, ptr| {
                if job.what == FreeTarget::DeadRecords {
                    let chunk = check.engine.disk.clear_record(ptr)?;
                    for dead in deadlist::decode_chunk(&chunk)? {
                        check.claim(what, &dead.place());
                    }
                }
                Ok(())
            });
        }
    }

    fn dedup_table(&mut self) {
        let root = self.engine.state.read().root.dedup;
        let mut listed = Vec::new();
        let read = dedup::each(&self.engine.disk, &root, &mut |shared| {
            listed.push(*shared);
        });
        if let Err(error) = read {
            self.report.find(Finding::Unreadable {
                what: "the dedup table".into(),
                why: error.to_string(),
            });
        }
        for shared in listed {
            self.claim_extents("a shared record", [shared.extent()]);
            let pointers = self.shared.remove(&shared.share()).unwrap_or(0);
            self.compare_shared(&shared.share(), pointers, shared.count());
        }
        for (share, pointers) in std::mem::take(&mut self.shared) {
            self.compare_shared(&share, pointers, 0);
        }
    }

    fn compare_shared(&mut self, share: &ShareId, pointers: u64, listed: u64) {
        if pointers != listed {
            self.report.find(Finding::Shared {
                segment: share.addr.segment(),
                offset: share.addr.offset(),
                pointers,
                listed,
            });
        }
    }

    fn compare(&mut self) -> Result<()> {
        let empty = Bitmap::new(self.units);
        for (segment, on_disk) in self.engine.space.bitmaps_on_disk()? {
            let claimed = self
                .claims
                .remove(&segment)
                .unwrap_or_else(|| empty.clone());
            let missing = claimed.count_without(&on_disk);
            if missing > 0 {
                self.report.find(Finding::NotAllocated {
                    segment,
                    units: missing,
                });
            }
            let leaked = on_disk.count_without(&claimed);
            if leaked > 0 {
                self.report.find(Finding::Leaked {
                    segment,
                    units: leaked,
                });
            }
        }
        for (segment, claimed) in std::mem::take(&mut self.claims) {
            self.report.find(Finding::NotAllocated {
                segment,
                units: claimed.count(),
            });
        }
        Ok(())
    }
}
