//! A container in re-encryption: what is encrypted how, and the hot zone, whose requests wait.
//!
//! Each request enters with its range and leaves. A piece of the hot zone is written when the requests in it have
//! left. Requests enter it when it is written. So inside of a range that has entered, nothing changes. Elsewhere in
//! the hot zone reads go on. Writes continue where it is new, if a recovery would leave them alone. Others wait, and
//! the piece for which one waits is written next. Outside of the hot zone nobody waits. Where the hot zone can be
//! neither finished nor given up, its requests fail.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use block::BlockDevice;
use parking_lot::{Condvar, Mutex};

use super::sectors::SectorCore;
use crate::header::luks2::{DataExtent, DataPart, ReencryptionState, Resilience, State};
use crate::reencryption::{AllowedRequests, Traffic};
use crate::{BothKeys, Error, Result};

/// The server of a container in re-encryption.
pub(super) struct Regions {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) encryption: String,
    /// True if a hot zone is protected, so that it can be recovered.
    is_kept: bool,
    /// The old data, the new data, and the moved part. One that no part of the data needs may be missing.
    old: Option<SectorCore>,
    new: Option<SectorCore>,
    moved: Option<SectorCore>,
    now: Mutex<RegionTable>,
    /// Notifies that more requests may begin.
    opened: Condvar,
    /// A request has left.
    left: Condvar,
}

/// The regions of now, and the requests in them.
struct RegionTable {
    /// The address of each region, one behind the other.
    starts: Arc<[(u64, State)]>,
    hot: Option<Hot>,
    /// The requests that have entered.
    running: Vec<Request>,
}

#[derive(Clone, PartialEq)]
struct Request {
    access: RequestKind,
    range: Range<u64>,
}

/// The kind of a request. A discard counts as a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
}

struct Hot {
    range: Range<u64>,
    goes_on: AllowedRequests,
    /// The piece that is being written, and the pieces that are new.
    piece: Range<u64>,
    new: Vec<Range<u64>>,
    /// The address for which a write waits.
    wanted: Option<u64>,
    /// True if the requests to the zone fail.
    is_lost: bool,
}

impl Hot {
    /// Returns whether a request that touches the hot zone may begin.
    fn admits(&self, request: &Request) -> bool {
        if touch(&self.piece, &request.range) {
            return false;
        }
        match self.goes_on {
            AllowedRequests::Nothing => false,
            AllowedRequests::Reads => request.access == RequestKind::Read,
            AllowedRequests::Blocks(_) if request.access == RequestKind::Read => true,
            AllowedRequests::Blocks(block) => {
                let part = self.part(&request.range);
                let mut ends = [part.start, part.end].into_iter();
                let is_whole = ends.all(|at| (at - self.range.start).is_multiple_of(block.into()));
                is_whole && self.first_old(&part).is_none()
            }
        }
    }

    /// The part of a range that is hot.
    fn part(&self, range: &Range<u64>) -> Range<u64> {
        range.start.max(self.range.start)..range.end.min(self.range.end)
    }

    /// The first address in a part of the hot zone that is not new.
    fn first_old(&self, part: &Range<u64>) -> Option<u64> {
        let mut at = part.start;
        while let Some(piece) = self.new.iter().find(|piece| piece.contains(&at)) {
            at = piece.end;
        }
        (at < part.end).then_some(at)
    }
}

/// A request that has entered, until this is dropped.
pub(super) struct RequestPermit<'a> {
    regions: &'a Regions,
    request: Request,
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let mut now = self.regions.now.lock();
        let own = now.running.iter().position(|of| *of == self.request);
        debug_assert!(own.is_some(), "a request leaves once");
        if let Some(own) = own {
            now.running.swap_remove(own);
        }
        drop(now);
        self.regions.left.notify_one();
    }
}

fn touch(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn range_of(part: &DataPart) -> Range<u64> {
    part.at..part.at + part.len
}

impl Regions {
    /// Makes the regions that the header describes, with the keys that are there.
    pub(super) fn new(
        state: &ReencryptionState,
        device: &Arc<dyn BlockDevice>,
        keys: &BothKeys,
    ) -> Result<Regions> {
        let core = |segment, key: &Option<_>| match key {
            None if !crate::Segment::is_linear(segment) => Ok(None),
            key => SectorCore::part(segment, Arc::clone(device), key.as_ref()).map(Some),
        };
        let [old, new] = [&state.old, &state.new].map(|side| match side.segment.is_linear() {
            true => "no encryption",
            false => &side.segment.cipher,
        });
        let moved = state.moved.as_ref();
        let regions = Regions {
            device: Arc::clone(device),
            encryption: format!("{old} in re-encryption to {new}"),
            is_kept: state.resilience != Resilience::None,
            old: core(&state.old.segment, &keys.old)?,
            new: core(&state.new.segment, &keys.new)?,
            moved: moved.map_or(Ok(None), |moved| core(moved, &keys.old))?,
            now: Mutex::new(RegionTable {
                starts: starts(state),
                hot: None,
                running: Vec::new(),
            }),
            opened: Condvar::new(),
            left: Condvar::new(),
        };
        let mut needed = state.pieces.iter().map(|piece| piece.state);
        match needed.all(|state| regions.core(state).is_some()) {
            true => Ok(regions),
            false => Err(Error::usage("both keys of the container are needed")),
        }
    }

    fn core(&self, state: State) -> Option<&SectorCore> {
        match state {
            State::Old => self.old.as_ref(),
            State::New | State::Hot => self.new.as_ref(),
            State::Moved => self.moved.as_ref(),
        }
    }

    /// Returns whether both serve the same bytes everywhere.
    pub(super) fn is_like(&self, other: &Regions) -> Result<bool> {
        for (one, two) in [(&self.old, &other.old), (&self.new, &other.new)] {
            if let (Some(one), Some(two)) = (one, two)
                && !one.is_like(two)?
            {
                return Ok(false);
            }
        }
        let starts = Arc::clone(&other.now.lock().starts);
        let now = self.now.lock();
        Ok(now.hot.is_none() && now.starts == starts)
    }

    /// Returns whether all data is old, and served as by `before`.
    pub(super) fn is_all_like(&self, before: &SectorCore) -> Result<bool> {
        match (&self.old, &self.now.lock().starts[..]) {
            (Some(old), [(0, State::Old)]) => old.is_like(before),
            _ => Ok(false),
        }
    }

    /// Returns whether a request would have to wait now.
    pub(super) fn would_wait(&self, access: RequestKind, offset: u64, len: u64) -> bool {
        let range = offset..offset.saturating_add(len);
        let request = Request { access, range };
        let now = self.now.lock();
        let hot = now.hot.as_ref().filter(|hot| !hot.is_lost);
        hot.is_some_and(|hot| touch(&hot.range, &request.range) && !hot.admits(&request))
    }

    /// Waits until a request may begin, and counts it.
    pub(super) fn enter(
        &self,
        access: RequestKind,
        offset: u64,
        len: u64,
    ) -> block::Result<RequestPermit<'_>> {
        let range = offset..offset + len;
        let request = Request { access, range };
        let mut now = self.now.lock();
        while let Some(hot) = &mut now.hot
            && touch(&hot.range, &request.range)
        {
            if hot.is_lost {
                return Err(self.lost(offset, len));
            }
            if hot.admits(&request) {
                break;
            }
            if access == RequestKind::Write {
                hot.wanted = hot.first_old(&hot.part(&request.range)).or(hot.wanted);
            }
            self.opened.wait(&mut now);
        }
        now.running.push(request.clone());
        Ok(RequestPermit {
            regions: self,
            request,
        })
    }

    fn lost(&self, offset: u64, len: u64) -> block::Error {
        block::Error::Io {
            device: self.device.name(),
            operation: "use of a part that was being re-encrypted",
            offset,
            len,
            source: io::Error::other(match self.is_kept {
                true => "close the mapping, and open it again, which recovers that part",
                false => {
                    "nothing was kept of that part, and some of it may be lost: close the mapping, open it again, \
                     and compare that part with a backup"
                }
            }),
        }
    }

    /// The parts of a range that has entered: what serves each, where it begins in that, and how long it is.
    pub(super) fn parts(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (&SectorCore, u64, u64)> {
        let starts = Arc::clone(&self.now.lock().starts);
        let end = offset + len;
        (0..starts.len()).filter_map(move |n| {
            let (at, state) = starts[n];
            let next = starts.get(n + 1).map_or(u64::MAX, |next| next.0);
            let (from, to) = (offset.max(at), end.min(next));
            let core = self.core(state).filter(|_| from < to)?;
            Some((core, from, to - from))
        })
    }
}

/// Returns the address and the state of each region.
fn starts(state: &ReencryptionState) -> Arc<[(u64, State)]> {
    let pieces = state.pieces.iter();
    pieces.map(|piece| (piece.at, piece.state)).collect()
}

/// Returns the regions when this range is new, too.
fn with_new(starts: &[(u64, State)], new: Range<u64>) -> Arc<[(u64, State)]> {
    let state_at_end = starts.iter().rev().find(|(at, _)| *at <= new.end);
    let rest = state_at_end.map(|(_, state)| (new.end, *state));
    let before = starts.iter().filter(|(at, _)| *at < new.start);
    let after = starts.iter().filter(|(at, _)| *at > new.end);
    let new = (new.start, State::New);
    before
        .copied()
        .chain([new])
        .chain(rest)
        .chain(after.copied())
        .collect()
}

impl Traffic for Regions {
    fn goes_on(&self) -> bool {
        true
    }

    fn hold(&self, part: &DataPart, goes_on: AllowedRequests) {
        let range = range_of(part);
        let mut now = self.now.lock();
        now.hot = Some(Hot {
            range: range.clone(),
            goes_on,
            piece: 0..0,
            new: Vec::new(),
            wanted: None,
            is_lost: false,
        });
        let is_held =
            |of: &Request| of.access == RequestKind::Write || goes_on == AllowedRequests::Nothing;
        while now
            .running
            .iter()
            .any(|of| is_held(of) && touch(&of.range, &range))
        {
            self.left.wait(&mut now);
        }
    }

    fn wanted(&self) -> Option<u64> {
        self.now.lock().hot.as_mut()?.wanted.take()
    }

    fn hold_piece(&self, at: u64, len: u64) {
        let piece = at..at + len;
        let mut now = self.now.lock();
        if let Some(hot) = &mut now.hot {
            debug_assert!(hot.piece.is_empty(), "one piece at a time");
            debug_assert!(hot.range.start <= at && piece.end <= hot.range.end);
            hot.piece = piece.clone();
        }
        while now.running.iter().any(|of| touch(&of.range, &piece)) {
            self.left.wait(&mut now);
        }
    }

    fn release_piece(&self) {
        let mut now = self.now.lock();
        if let Some(hot) = &mut now.hot {
            let piece = std::mem::replace(&mut hot.piece, 0..0);
            debug_assert!(!piece.is_empty(), "a piece is released once");
            hot.new.push(piece.clone());
            now.starts = with_new(&now.starts, piece);
        }
        drop(now);
        self.opened.notify_all();
    }

    fn release(&self, layout: &[DataExtent]) {
        let mut now = self.now.lock();
        now.starts = layout.iter().map(|of| (of.at, of.state)).collect();
        now.hot = None;
        drop(now);
        self.opened.notify_all();
    }

    fn fail(&self) {
        if let Some(hot) = &mut self.now.lock().hot {
            hot.is_lost = true;
        }
        self.opened.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(goes_on: AllowedRequests) -> Hot {
        Hot {
            range: 8192..32768,
            goes_on,
            piece: 16384..20480,
            new: vec![12288..16384, 8192..12288],
            wanted: None,
            is_lost: false,
        }
    }

    #[test]
    fn a_request_goes_on_where_a_recovery_leaves_it_alone() {
        use RequestKind::{Read, Write};
        let all = [
            AllowedRequests::Nothing,
            AllowedRequests::Reads,
            AllowedRequests::Blocks(4096),
        ];
        for (access, range, admitted) in [
            (Read, 8192..8704, [false, true, true]),
            (Read, 20480..40960, [false, true, true]),
            // A piece that is being written.
            (Read, 16384..16896, [false; 3]),
            (Read, 0..65536, [false; 3]),
            (Write, 8192..16384, [false, false, true]),
            (Write, 0..12288, [false, false, true]),
            // A part of a block with one checksum: after a power cut the block may be neither old nor new.
            (Write, 8192..8704, [false; 3]),
            (Write, 12288..15872, [false; 3]),
            // It is old.
            (Write, 20480..24576, [false; 3]),
            (Write, 28672..40960, [false; 3]),
        ] {
            let request = Request { access, range };
            let found = all.map(|goes_on| hot(goes_on).admits(&request));
            assert_eq!(found, admitted, "{access:?} {:?}", request.range);
        }
        let first_old = |part| hot(AllowedRequests::Reads).first_old(&part);
        assert_eq!(first_old(8192..16384), None);
        assert_eq!(first_old(8704..32768), Some(16384));
        assert_eq!(first_old(24576..28672), Some(24576));
    }

    #[test]
    fn a_new_piece_is_a_region() {
        use State::{New, Old};
        let starts = [(0, New), (100, Old)];
        let with = |range| with_new(&starts, range).to_vec();
        assert_eq!(with(100..150), [(0, New), (100, New), (150, Old)]);
        assert_eq!(
            with(120..150),
            [(0, New), (100, Old), (120, New), (150, Old)]
        );
        let backward = [(0, Old), (100, New)];
        let found = with_new(&backward, 50..100);
        assert_eq!(*found, [(0, Old), (50, New), (100, New)]);
    }
}
