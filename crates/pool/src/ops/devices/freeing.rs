//! The free queue, for work that needs it to be empty.

use crate::error::Result;
use std::sync::Arc;

use crate::engine::gate::CommitEngine;

/// The state of the free queue.
pub(crate) enum Frees {
    /// No space is left to free.
    Done,
    /// The caller must free more at once.
    More,
    /// A device fails to read needed data. This is tried again.
    Wait(String),
}

/// Frees more space of destroyed datasets. Jobs that wait for a failing device are dropped after some time, because
/// the caller must be able to finish.
pub(crate) fn end_frees(engine: &Arc<CommitEngine>) -> Result<Frees> {
    let now = engine.env.now();
    let (is_empty, has_due, is_hopeless) = {
        let state = engine.state.read();
        (
            state.async_free.is_empty() && !engine.has_unread(),
            state.frees_due(now) > 0 || engine.has_unread(),
            state.free_waits.is_hopeless(now),
        )
    };
    if is_empty {
        return Ok(Frees::Done);
    }
    if !has_due && !is_hopeless {
        let why = "a device fails to read what is needed to free the space of destroyed data";
        return Ok(Frees::Wait(why.into()));
    }
    engine.commit_with(|_, state| {
        state.free_waits.give_up = is_hopeless;
        Ok(())
    })?;
    Ok(Frees::More)
}
