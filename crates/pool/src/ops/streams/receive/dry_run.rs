//! Receives without any change: it makes the checks at the start of a receive, and verifies each frame.
//!
//! Two checks need the records to be stored, so they are not made: that the records result in the roots that the stream
//! names, and that quotas and free space are sufficient.

use std::collections::BTreeMap;

use crate::engine::datasets::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::records::pointer::RecordIdentity;
use crate::format::stream::{Begin, Lineage, StreamFrame, StreamPosition};
use crate::ops::pool::Pool;
use crate::ops::streams::receive::plan::{PlanTime, ReceivePlan};
use crate::ops::streams::receive::policy::{ReceiveInto, ReceivePolicy};
use crate::ops::streams::receive::streams::{IncomingStreams, check_shares};

/// A family for the seals of a dry run. The sealed records are dropped, so any family will do.
const ANY_FAMILY: u64 = 1;

/// The limits of the memory for checked streams: their number, and the bytes of their keyrings.
const STREAMS_MAX: usize = 20_000;
const KEYRINGS_MAX: usize = 64 << 20;

/// The datasets and snapshots that the checked streams would have made, for the streams after them.
#[derive(Default)]
pub struct DryRun {
    /// The states of the snapshots, by guid.
    states: BTreeMap<u64, State>,
    /// The last snapshot and the keyring of each dataset, by name.
    made: BTreeMap<String, (u64, Option<Vec<u8>>)>,
    /// The bytes of all received keyrings.
    keyrings: usize,
}

/// A state that an incremental stream can start from.
#[derive(Clone, Copy)]
struct State {
    family: u64,
    suite: u8,
    roots: [RecordIdentity; 2],
    lineage: Option<Lineage>,
}

impl DryRun {
    /// Checks the stream that begins with `begin`, the last that `incoming` gave, and that is for `dataset`. If
    /// datasets above that one are missing, `into` names the first of them instead. Returns the name of the snapshot.
    ///
    /// # Errors
    /// As [`Pool::receive_stream`]; [`Error::Refused`] if there is more than can be remembered.
    pub fn check(
        &mut self,
        pool: &Pool,
        dataset: &str,
        begin: &Begin,
        incoming: &mut IncomingStreams<'_>,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
    ) -> Result<String> {
        self.count(dataset, begin)?;
        let named = into.target.split_once('@');
        let snapshot = named.map_or(begin.snapshot(), |(_, snapshot)| snapshot);
        let keyring = match self.made.get(dataset) {
            Some((last, keyring)) => {
                self.follows(dataset, begin, *last)?;
                next_keyring(dataset, begin, keyring.as_deref(), policy)?
            }
            None if self.makes_clone(pool, into, begin) => {
                self.follows(dataset, begin, begin.from_guid)?;
                let refused = |reason| Error::refused(dataset, reason);
                policy.props(begin).map_err(refused)?;
                next_keyring(dataset, begin, None, policy)?
            }
            None => plan(pool, begin, into, policy)?,
        };
        loop {
            match incoming.frames.next()? {
                Some(StreamFrame::End) => break,
                Some(StreamFrame::Begin(_) | StreamFrame::Package(_)) | None => {
                    return Err(Error::stream("ends too early"));
                }
                Some(_) => {}
            }
        }
        let state = State {
            family: begin.family,
            suite: begin.suite,
            roots: begin.roots,
            lineage: begin.plain.as_ref().map(|[_, to]| *to),
        };
        self.states.insert(begin.to_guid, state);
        self.made.insert(dataset.into(), (begin.to_guid, keyring));
        Ok(snapshot.into())
    }

    fn count(&mut self, dataset: &str, begin: &Begin) -> Result<()> {
        self.keyrings = self.keyrings.saturating_add(begin.keyring.len());
        match self.states.len() < STREAMS_MAX && self.keyrings <= KEYRINGS_MAX {
            true => Ok(()),
            false => Err(Error::refused(
                dataset,
                format!("so many streams cannot be checked at once ({STREAMS_MAX} at most)"),
            )),
        }
    }

    /// Returns whether the dataset would be a clone of a snapshot that an earlier stream would have made.
    fn makes_clone(&self, pool: &Pool, into: &ReceiveInto<'_>, begin: &Begin) -> bool {
        let (dataset, _) = into.target.split_once('@').unwrap_or((into.target, ""));
        !begin.is_full()
            && begin.plain.is_none_or(|_| begin.suite == 0)
            && self.states.contains_key(&begin.from_guid)
            && pool.find(dataset).is_err()
    }

    /// Checks that a stream starts from the state that an earlier one would make.
    fn follows(&self, dataset: &str, begin: &Begin, last: u64) -> Result<()> {
        let same = self
            .states
            .get(&last)
            .is_some_and(|last| match &begin.plain {
                Some([from, _]) => last.lineage == Some(*from),
                None => {
                    let from = (begin.family, begin.suite, begin.from_roots);
                    last.lineage.is_none() && from == (last.family, last.suite, last.roots)
                }
            });
        match same && begin.from_guid == last {
            true => Ok(()),
            false => Err(Error::refused(
                dataset,
                "a stream does not go on from the one before it",
            )),
        }
    }
}

/// Makes the checks at the start of a receive. Returns the keyring that the dataset would have.
fn plan(
    pool: &Pool,
    begin: &Begin,
    into: &ReceiveInto<'_>,
    policy: &dyn ReceivePolicy,
) -> Result<Option<Vec<u8>>> {
    let (plan, keyring, partial) = {
        let state = pool.engine.state.read();
        let plan = ReceivePlan::new(pool, &state, begin, into, PlanTime::Begin)?;
        let keyring = match plan.keyring(pool, begin, policy)? {
            Some(keyring) => Some(keyring),
            None => plan.current_keyring(pool)?,
        };
        plan.check_new(begin, policy)?;
        let partial = partial(pool, &state, &plan, begin)?;
        (plan, keyring, partial)
    };
    let next = match partial {
        Some(partial) => pool.next_to_receive(&*pool.entry(partial)?)?,
        None => StreamPosition::START,
    };
    if begin.start > next {
        return Err(Error::refused(
            into.target,
            "the stream goes on further than what was received",
        ));
    }
    if begin.plain.is_some() {
        let sealing = policy.sealing(begin, ANY_FAMILY, begin.created, None);
        let sealing = sealing.map_err(|reason| Error::refused(into.target, reason))?;
        if let (None, Some(base)) = (&plan.head, &plan.base) {
            check_shares(&pool.engine.state.read(), base, into, &sealing)?;
        }
    }
    Ok(keyring)
}

/// The part of an interrupted receive, if the stream continues it.
fn partial(
    pool: &Pool,
    state: &DatasetTable,
    plan: &ReceivePlan,
    begin: &Begin,
) -> Result<Option<u64>> {
    let Some(partial) = state.partial_of(plan.parent, &plan.last) else {
        return Ok(None);
    };
    let goes_on = pool.goes_on(state, plan, partial, begin)?;
    Ok(goes_on.then_some(partial.id))
}

/// The keyring after another stream.
fn next_keyring(
    dataset: &str,
    begin: &Begin,
    keyring: Option<&[u8]>,
    policy: &dyn ReceivePolicy,
) -> Result<Option<Vec<u8>>> {
    if begin.suite == 0 || begin.plain.is_some() {
        return Ok(None);
    }
    let merged = policy.keyring(begin, keyring);
    let merged = merged.map_err(|reason| Error::refused(dataset, reason))?;
    Ok(merged.or_else(|| keyring.map(<[u8]>::to_vec)))
}
