//! Compares a snapshot with its copy, by what both sides say of it.

use std::sync::Arc;

use dataset::SealChecker;
use encoding::unhex;
use pool::{Entry, RecordPtr, SealInput};
use protocol::api::{CopyCondition, CopyRow, FailureKind, SealFinding, VerifiedSnapshot};
use protocol::characters::is_hidden;

use crate::state::pools::active_pool::ActivePool;

/// The longest name of a copy that is shown, in characters.
const NAME_MAX: usize = 600;
/// The reason for a snapshot with another guid.
const ANOTHER: &str = "it is another snapshot";

/// The keys of a source, to check the seals of its copies with.
pub(super) enum CopySeals {
    Keys {
        source: Arc<Entry>,
        checker: SealChecker,
    },
    NoKey,
    Clear,
}

impl CopySeals {
    pub(super) fn of(active: &ActivePool, source: &Arc<Entry>) -> CopySeals {
        let keys = active.data_keys(source);
        let checker = keys.and_then(|keys| {
            let new = |keys| SealChecker::new(source.family, keys);
            Ok(keys.map(new).transpose()?)
        });
        match checker {
            Ok(Some(checker)) => CopySeals::Keys {
                source: Arc::clone(source),
                checker,
            },
            Ok(None) => CopySeals::Clear,
            Err(failure) => {
                if failure.kind != FailureKind::NoKey {
                    let reason = failure.message;
                    tracing::warn!(reason, "seals of copies are not checked");
                }
                CopySeals::NoKey
            }
        }
    }

    /// Checks the seal over a copy. `own` is the guid in the seal of the source, if the source has the snapshot.
    fn check(&self, read: &VerifiedSnapshot, own: Option<u64>) -> SealFinding {
        let (source, checker) = match self {
            CopySeals::Keys { source, checker } => (source, checker),
            CopySeals::NoKey => return SealFinding::NoKey,
            CopySeals::Clear => return SealFinding::Clear,
        };
        let seal = unhex(&read.seal).and_then(|seal| seal.try_into().ok());
        let (Some(input), Some(seal)) = (input_of(read), seal) else {
            return SealFinding::Wrong;
        };
        if is_unwritten(&input) && seal == [0; 32] {
            return SealFinding::Unsealed;
        }
        // A key may seal several datasets.
        let is_its = input.guid == own.unwrap_or(SealInput::of(source, source.guid).guid)
            || input.guid == source.guid;
        match is_its && checker.is_right(&input, &seal) {
            true => SealFinding::Right,
            false => SealFinding::Wrong,
        }
    }
}

/// Returns whether a state is that of a dataset that nothing was written to.
fn is_unwritten(input: &SealInput) -> bool {
    input.sequence == 0 && input.roots == [RecordPtr::EMPTY.identity; 2]
}

/// The data under the seal of a snapshot, as a side says it.
pub(super) fn input_of(read: &VerifiedSnapshot) -> Option<SealInput> {
    SealInput::from_report(&unhex(&read.sealed)?)
}

/// The proofs of one request. Each covers what the snapshot before does not have, so it is worth nothing without the
/// proofs before it.
pub(super) struct ProofChain {
    is_whole: bool,
}

impl ProofChain {
    pub(super) fn new() -> ProofChain {
        ProofChain { is_whole: true }
    }

    /// Adds the next snapshot. Returns whether the target has proved all of its records.
    fn add(&mut self, held: &VerifiedSnapshot, read: &VerifiedSnapshot) -> bool {
        self.is_whole &= held.proof.is_some() && held.proof == read.proof;
        self.is_whole
    }
}

/// The row of the next snapshot that both sides have.
pub(super) fn row_of_pair(
    held: &VerifiedSnapshot,
    read: &VerifiedSnapshot,
    seals: &CopySeals,
    chain: &mut ProofChain,
) -> CopyRow {
    let was_whole = chain.is_whole;
    let is_proved = chain.add(held, read);
    let (state, why) = judge(held, read, was_whole);
    let own = input_of(held).map(|input| input.guid);
    CopyRow {
        source: Some(held.name.clone()),
        state,
        why: why.map(str::to_owned),
        proved: is_proved,
        seal: seals.check(read, own),
        ..row(read)
    }
}

/// The row of a snapshot that only the copy has. `guid` is that of the snapshot that was asked for.
pub(super) fn row_of_copy(read: &VerifiedSnapshot, guid: u64, seals: &CopySeals) -> CopyRow {
    let (state, why) = match lost(read) {
        _ if read.guid != guid => (CopyCondition::Replaced, Some(ANOTHER)),
        Some(why) => (CopyCondition::Damaged, Some(why)),
        None => (CopyCondition::Claimed, None),
    };
    CopyRow {
        state,
        why: why.map(str::to_owned),
        seal: seals.check(read, None),
        ..row(read)
    }
}

/// A row, with what the target read.
pub(super) struct ReadCopy {
    pub(super) row: CopyRow,
    pub(super) read: VerifiedSnapshot,
}

impl ReadCopy {
    /// The number of the seal, and the data that it is made over. `None` if the snapshot is clear.
    fn state(&self) -> Option<(u64, &str)> {
        let input = input_of(&self.read).filter(|_| self.read.encrypted)?;
        Some((input.sequence, &self.read.sealed))
    }
}

/// Finds snapshots without a source whose states do not lie between those of their neighbours. `copies` are all of a dataset,
/// the oldest first. A host may show the right seal of another snapshot. Snapshots of a dataset that was not written between
/// have the same state.
pub(super) fn check_order(copies: &mut [ReadCopy]) {
    let follows = |before: (u64, &str), after: (u64, &str)| before.0 < after.0 || before == after;
    let is_wrong = |at: usize| {
        let Some(state) = copies[at].state() else {
            return false;
        };
        let mut before = copies[..at].iter().rev().filter_map(ReadCopy::state);
        let mut after = copies[at + 1..].iter();
        let after = after.find(|copy| copy.row.state == CopyCondition::Whole);
        let after = after.and_then(ReadCopy::state);
        before.next().is_some_and(|before| !follows(before, state))
            || after.is_some_and(|after| !follows(state, after))
    };
    let wrong: Vec<usize> = (0..copies.len())
        .filter(|at| copies[*at].row.state == CopyCondition::Claimed && is_wrong(*at))
        .collect();
    for at in wrong {
        let row = &mut copies[at].row;
        row.state = CopyCondition::Replaced;
        row.why = Some("its state is not between those of the snapshots around it".into());
        row.anchor = None;
    }
}

/// The row of a copy that is not there. `guid` is that of the snapshot that the job copied last.
pub(super) fn row_without(copy: &str, guid: Option<u64>, state: CopyCondition) -> CopyRow {
    let why = match state {
        CopyCondition::Missing => "the job has copied it, and the target does not have it any more",
        _ => "the target does not have the snapshot any more that the job copied last",
    };
    empty_row(copy, guid, state, why)
}

/// The row of a snapshot of the source that the target does not list, although the job has copied a later one.
pub(super) fn row_of_gap(source: String, copy: &str, guid: u64) -> CopyRow {
    let why = "the target does not have it, and the job has copied a later one";
    CopyRow {
        source: Some(source),
        ..empty_row(copy, Some(guid), CopyCondition::Missing, why)
    }
}

fn empty_row(copy: &str, guid: Option<u64>, state: CopyCondition, why: &str) -> CopyRow {
    CopyRow {
        source: None,
        copy: copy.to_owned(),
        guid: guid.unwrap_or(0),
        created: None,
        state,
        why: Some(why.into()),
        proved: false,
        seal: SealFinding::NoKey,
        records: 0,
        bytes: 0,
        lost: Vec::new(),
        anchor: None,
    }
}

fn row(read: &VerifiedSnapshot) -> CopyRow {
    CopyRow {
        source: None,
        copy: shown(&read.name),
        guid: read.guid,
        created: Some(read.created),
        state: CopyCondition::Unproved,
        why: None,
        proved: false,
        seal: SealFinding::Clear,
        records: read.records,
        bytes: read.bytes,
        lost: read.lost.clone(),
        anchor: None,
    }
}

/// The name of a snapshot of another host, for a terminal.
fn shown(name: &str) -> String {
    let shown = name.chars().filter(|c| !is_hidden(*c));
    shown.take(NAME_MAX).collect()
}

fn lost(read: &VerifiedSnapshot) -> Option<&'static str> {
    const LOST: &str = "records are damaged or cannot be read there";
    (read.lost_count > 0).then_some(LOST)
}

/// The state of a copy, and the reason. `was_proved` says that the snapshots before it were proved.
fn judge(
    held: &VerifiedSnapshot,
    read: &VerifiedSnapshot,
    was_proved: bool,
) -> (CopyCondition, Option<&'static str>) {
    const NOT_HELD: &str = "the target does not prove that it has the records: they are others, or it does not have them";
    const SOURCE: &str =
        "the source itself is damaged, so the records are not proved; see 'strongroom verify'";
    const SHARED: &str = "it shares records with an earlier snapshot that is not proved; --newest proves the newest copy alone";
    if let Some(found) = judge_state(held, read) {
        return found;
    }
    if let Some(why) = lost(read) {
        return (CopyCondition::Damaged, Some(why));
    }
    match (&held.proof, &read.proof) {
        (None, _) if held.lost_count > 0 => (CopyCondition::SourceDamaged, Some(SOURCE)),
        (Some(held), Some(read)) if held != read => (CopyCondition::Damaged, Some(NOT_HELD)),
        (Some(_), None) if was_proved => (CopyCondition::Damaged, Some(NOT_HELD)),
        (Some(_), Some(_)) if was_proved => (CopyCondition::Whole, None),
        _ => (CopyCondition::Unproved, Some(SHARED)),
    }
}

/// Compares the states that the two sides have. `None` if they are the same.
fn judge_state(
    held: &VerifiedSnapshot,
    read: &VerifiedSnapshot,
) -> Option<(CopyCondition, Option<&'static str>)> {
    let replaced = |why| Some((CopyCondition::Replaced, Some(why)));
    let (Some(own), Some(other)) = (input_of(held), input_of(read)) else {
        return replaced("its state is not understood");
    };
    if held.guid != read.guid || held.encrypted != read.encrypted {
        return replaced(ANOTHER);
    }
    let equal_roots = own.roots.iter().zip(&other.roots);
    let equal_roots = equal_roots.filter(|(own, other)| own == other).count();
    let is_same_seal = held.seal == read.seal;
    let is_same = match held.encrypted {
        true => is_same_seal && held.sealed == read.sealed,
        // The seal of a clear dataset says nothing.
        false => equal_roots == 2 && own.volume == other.volume,
    };
    if is_same {
        return None;
    }
    if held.encrypted && is_same_seal {
        return Some((
            CopyCondition::Mixed,
            Some("its seal is over a state that it does not have"),
        ));
    }
    if held.encrypted && other.sequence < own.sequence {
        return Some((
            CopyCondition::Older,
            Some("it has an older state of the dataset"),
        ));
    }
    match equal_roots {
        1.. => Some((
            CopyCondition::Mixed,
            Some("its parts are of several states of the dataset"),
        )),
        _ => replaced("it has a state that the source never had"),
    }
}

#[cfg(test)]
mod tests {
    use encoding::hex;
    use pool::{RecordIdentity, SealInput};

    use super::*;

    fn identity(byte: u8) -> RecordIdentity {
        RecordIdentity::record([byte; 24], [byte; 16], 0, 1, 0, 4096)
    }

    fn snapshot(sequence: u64, roots: [u8; 2]) -> VerifiedSnapshot {
        let input = SealInput {
            guid: 7,
            sequence,
            roots: roots.map(identity),
            log: [0; 3],
            log_states: [[0; 16]; 2],
            volume: [0; 2],
            waiting: None,
            facts: None,
        };
        VerifiedSnapshot {
            name: "tank/a@1".into(),
            guid: 1,
            created: 2,
            encrypted: true,
            seal: hex(&[sequence as u8 * 16 + roots[0] + roots[1]; 32]),
            sealed: hex(&input.to_report()),
            records: 3,
            bytes: 4,
            unchecked: 0,
            lost: Vec::new(),
            lost_count: 0,
            proof: Some("aa".into()),
        }
    }

    #[test]
    fn a_copy_that_differs_is_named() {
        let held = snapshot(5, [1, 2]);
        let state = |read: &VerifiedSnapshot| judge(&held, read, true).0;
        let same = judge(&held, &held.clone(), true);
        assert_eq!(same, (CopyCondition::Whole, None));
        assert_eq!(state(&snapshot(4, [1, 3])), CopyCondition::Older);
        assert_eq!(state(&snapshot(5, [1, 3])), CopyCondition::Mixed);
        assert_eq!(state(&snapshot(6, [4, 5])), CopyCondition::Replaced);
        let forged = VerifiedSnapshot {
            seal: held.seal.clone(),
            ..snapshot(4, [4, 5])
        };
        assert_eq!(state(&forged), CopyCondition::Mixed);
        type Change = fn(&mut VerifiedSnapshot);
        let cases: [(Change, CopyCondition); 6] = [
            (|it| it.lost_count = 1, CopyCondition::Damaged),
            (|it| it.proof = None, CopyCondition::Damaged),
            (|it| it.proof = Some("ab".into()), CopyCondition::Damaged),
            (|it| it.guid = 2, CopyCondition::Replaced),
            (|it| it.encrypted = false, CopyCondition::Replaced),
            (|it| it.sealed = "00".into(), CopyCondition::Replaced),
        ];
        for (number, (change, wanted)) in cases.into_iter().enumerate() {
            let mut read = held.clone();
            change(&mut read);
            assert_eq!(state(&read), wanted, "{number}");
        }
    }

    #[test]
    fn a_damaged_source_proves_nothing() {
        let held = VerifiedSnapshot {
            proof: None,
            lost_count: 1,
            ..snapshot(5, [1, 2])
        };
        let read = snapshot(5, [1, 2]);
        let pair = |held: &VerifiedSnapshot, read: &VerifiedSnapshot| {
            row_of_pair(held, read, &CopySeals::NoKey, &mut ProofChain::new())
        };
        let row = pair(&held, &read);
        assert_eq!(
            (row.state, row.proved),
            (CopyCondition::SourceDamaged, false)
        );
        assert!(row.why.unwrap().contains("the source itself is damaged"));
        // Two proofs that are missing are not equal.
        let row = pair(&held, &held);
        assert_eq!((row.state, row.proved), (CopyCondition::Damaged, false));
        // The source lost only an earlier snapshot.
        let held = VerifiedSnapshot {
            lost_count: 0,
            ..held
        };
        assert_eq!(pair(&held, &read).state, CopyCondition::Unproved);
    }

    #[test]
    fn a_proof_is_worth_nothing_without_those_before_it() {
        let held = snapshot(5, [1, 2]);
        let lost = VerifiedSnapshot {
            proof: None,
            lost_count: 1,
            ..held.clone()
        };
        let mut chain = ProofChain::new();
        let mut states = Vec::new();
        for read in [&held, &lost, &held] {
            let row = row_of_pair(&held, read, &CopySeals::NoKey, &mut chain);
            states.push((row.state, row.proved));
        }
        let wanted = [
            (CopyCondition::Whole, true),
            (CopyCondition::Damaged, false),
            (CopyCondition::Unproved, false),
        ];
        assert_eq!(states, wanted);
    }

    #[test]
    fn a_snapshot_without_a_source_is_only_claimed_and_lies_between_its_neighbours() {
        let states = |sequences: [u64; 4]| {
            let copy = |(number, sequence): (usize, u64)| {
                let read = snapshot(sequence, [sequence as u8, 2]);
                let row = match number {
                    0 | 3 => row_of_pair(&read, &read, &CopySeals::NoKey, &mut ProofChain::new()),
                    _ => row_of_copy(&read, 1, &CopySeals::NoKey),
                };
                ReadCopy { row, read }
            };
            let mut copies: Vec<ReadCopy> = sequences.into_iter().enumerate().map(copy).collect();
            check_order(&mut copies);
            [copies[1].row.state, copies[2].row.state]
        };
        let (claimed, replaced) = (CopyCondition::Claimed, CopyCondition::Replaced);
        assert_eq!(states([1, 2, 3, 4]), [claimed; 2]);
        // Nothing was written between the snapshots.
        assert_eq!(states([1, 1, 4, 4]), [claimed; 2]);
        assert_eq!(states([3, 2, 3, 4]), [replaced, claimed]);
        assert_eq!(states([1, 2, 5, 4]), [claimed, replaced]);
        let other = row_of_copy(&snapshot(1, [1, 2]), 9, &CopySeals::NoKey);
        assert_eq!((other.state, other.guid), (replaced, 1));
    }

    #[test]
    fn only_a_state_that_was_never_written_has_no_seal() {
        let unwritten = |sequence, root| {
            let mut input = input_of(&snapshot(0, [0, 0])).unwrap();
            (input.sequence, input.roots) = (sequence, [root; 2]);
            is_unwritten(&input)
        };
        let empty = RecordPtr::EMPTY.identity;
        assert!(unwritten(0, empty));
        assert!(!unwritten(1, empty) && !unwritten(0, identity(1)));
    }

    #[test]
    fn a_clear_volume_has_the_size_of_its_source() {
        let clear = |size: u64| {
            let it = snapshot(5, [1, 2]);
            let mut input = input_of(&it).unwrap();
            input.volume = [size, 4096];
            VerifiedSnapshot {
                encrypted: false,
                sealed: hex(&input.to_report()),
                ..it
            }
        };
        let state = |size| judge(&clear(1 << 20), &clear(size), true).0;
        assert_eq!(state(1 << 20), CopyCondition::Whole);
        assert_eq!(state(2 << 20), CopyCondition::Mixed);
    }
}
