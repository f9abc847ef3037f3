//! Facts about a dataset that its seal covers and that are changed without a key.

use std::sync::Arc;

use crate::engine::datasets::facts::{self, UnsealedFacts};
use crate::engine::datasets::reseal::{Reseal, seal_again};
use crate::error::Result;
use crate::ops::pool::Pool;

impl Pool {
    /// The difference between the facts that the seal of a dataset covers and the present ones.
    ///
    /// # Errors
    /// As [`Pool::entry`].
    pub fn unsealed_facts(&self, id: u64) -> Result<UnsealedFacts> {
        let state = self.engine.state.read();
        Ok(facts::unsealed(&state, state.entry(id)?))
    }

    /// Gives a dataset whose facts were changed a new seal over the present ones, made by `reseal`. Its contents stay as
    /// they are.
    ///
    /// # Errors
    /// As [`Pool::entry`]; [`Error::Inconsistent`](crate::Error::Inconsistent) if `reseal` fails; as [`Pool::commit`].
    pub fn seal_facts(&self, id: u64, reseal: Reseal) -> Result<()> {
        self.engine.commit_with(|commit, state| {
            let entry = Arc::clone(state.entry(id)?);
            if facts::unsealed(state, &entry) == UnsealedFacts::default() {
                return Ok(());
            }
            let _reserved = commit.reserve_entries(1, 0)?;
            seal_again(state, &entry, (id, commit.txg), &mut Some(reseal))
        })
    }
}
