//! Receiving without any change: the same checks as at the beginning of a receive, and every frame is verified.
//!
//! What only shows when records are placed is not checked: whether they make up the roots that the stream names, and
//! whether quotas and the free space hold them.

use std::collections::BTreeMap;

use crate::engine::table::DatasetTable;
use crate::error::{Error, Result};
use crate::format::stream::{Begin, Frame, Position};
use crate::ops::pool::Pool;
use crate::ops::receive::plan::{Plan, When};
use crate::ops::receive::policy::{ReceiveInto, ReceivePolicy};
use crate::ops::receive::streams::{Incoming, check_resumable, check_shares};

/// Nothing is kept of what is sealed here, so the dataset can be of any family.
const ANY_FAMILY: u64 = 1;

/// What streams that were checked would have made, for those behind them.
#[derive(Default)]
pub struct DryRun {
    /// By the name of the dataset: the last stream, and the keyring after it.
    made: BTreeMap<String, (Begin, Option<Vec<u8>>)>,
}

impl DryRun {
    /// Checks the stream that begins with `begin`, the last that `incoming` gave, and that is for `dataset`. If datasets
    /// above that one are missing, `into` names the first of them instead. Returns the name of the snapshot.
    ///
    /// # Errors
    /// As [`Pool::receive_stream`].
    pub fn check(
        &mut self,
        pool: &Pool,
        dataset: &str,
        begin: &Begin,
        incoming: &mut Incoming<'_>,
        into: &ReceiveInto<'_>,
        policy: &dyn ReceivePolicy,
    ) -> Result<String> {
        check_resumable(begin, into)?;
        let named = into.target.split_once('@');
        let snapshot = named.map_or(begin.snapshot(), |(_, snapshot)| snapshot);
        let keyring = match self.made.get(dataset) {
            Some((last, keyring)) => {
                follows(dataset, begin, last)?;
                next_keyring(dataset, begin, keyring.as_deref(), policy)?
            }
            None => plan(pool, begin, into, policy)?,
        };
        loop {
            match incoming.frames.next()? {
                Some(Frame::End) => break,
                Some(Frame::Begin(_)) | None => return Err(Error::stream("ends too early")),
                Some(_) => {}
            }
        }
        self.made.insert(dataset.into(), (begin.clone(), keyring));
        Ok(snapshot.into())
    }
}

/// Makes the checks that a receive begins with. Returns the keyring that the dataset would have.
fn plan(
    pool: &Pool,
    begin: &Begin,
    into: &ReceiveInto<'_>,
    policy: &dyn ReceivePolicy,
) -> Result<Option<Vec<u8>>> {
    let (plan, keyring, partial) = {
        let state = pool.engine.state.read();
        let plan = Plan::new(pool, &state, begin, into, When::Begin)?;
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
        None => Position::START,
    };
    if begin.start > next {
        return Err(Error::refused(
            into.target,
            "the stream goes on further than what was received",
        ));
    }
    if begin.plain.is_some() {
        let sealing = policy.sealing(begin, ANY_FAMILY, begin.created);
        let sealing = sealing.map_err(|reason| Error::refused(into.target, reason))?;
        if let (None, Some(base)) = (&plan.head, &plan.base) {
            check_shares(&pool.engine.state.read(), base, into, &sealing)?;
        }
    }
    Ok(keyring)
}

/// What is there of an interrupted receive, if the stream goes on with it.
fn partial(pool: &Pool, state: &DatasetTable, plan: &Plan, begin: &Begin) -> Result<Option<u64>> {
    let Some(partial) = state.partial_of(plan.parent, &plan.last) else {
        return Ok(None);
    };
    let goes_on = pool.goes_on(state, plan, partial, begin)?;
    Ok(goes_on.then_some(partial.id))
}

/// Checks that a stream goes on from the state that the one before it would make.
fn follows(dataset: &str, begin: &Begin, last: &Begin) -> Result<()> {
    let same = match (&begin.plain, &last.plain) {
        (Some([from, _]), Some([_, to])) => from == to,
        (None, None) => {
            (begin.family, begin.suite, begin.from_roots) == (last.family, last.suite, last.roots)
        }
        _ => false,
    };
    match same && begin.from_guid == last.to_guid {
        true => Ok(()),
        false => Err(Error::refused(
            dataset,
            "a stream does not go on from the one before it",
        )),
    }
}

/// The keyring after a further stream.
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
