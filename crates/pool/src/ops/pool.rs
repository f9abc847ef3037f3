//! An imported pool, and its transaction groups for its users.

use std::sync::Arc;

use crate::engine::context::TxgHold;
use crate::engine::gate::CommitEngine;
use crate::error::{Error, Result};

/// An imported pool.
#[derive(Clone)]
pub struct Pool {
    pub(crate) engine: Arc<CommitEngine>,
}

impl Pool {
    pub(crate) fn new(engine: CommitEngine) -> Pool {
        Pool {
            engine: Arc::new(engine),
        }
    }

    /// Joins the open transaction group, to change something in it.
    ///
    /// # Errors
    /// As [`Pool::check_writable`].
    pub fn enter(&self) -> Result<TxgHold<'_>> {
        self.engine.enter()
    }

    /// Returns once everything up to now is durable.
    ///
    /// # Errors
    /// [`Error::Suspended`]; [`Error::ReadOnly`] if there is
    /// something to commit. If a device fails ([`Error::Store`]), a dataset cannot be
    /// sealed ([`Error::StreamSealer`](Error::Sealing)), or the pool's own data cannot be read, the error is
    /// that of the cause, and the pool is suspended.
    pub fn commit(&self) -> Result<()> {
        self.engine.commit()
    }

    /// Returns once the transaction group is durable, committing it if no other thread does.
    ///
    /// # Errors
    /// As [`Pool::commit`].
    pub fn commit_through(&self, txg: u64) -> Result<()> {
        self.engine.commit_through(txg)
    }

    /// Suspends the pool until its next import, after a panic in `what`. On the devices the pool is whole.
    pub fn suspend_after_panic(&self, what: &'static str) {
        self.engine.suspend_for_good(Error::Fault { what });
    }

    /// The last transaction group that is durable.
    pub fn committed_txg(&self) -> u64 {
        self.engine.committed_txg()
    }

    /// The pool's name.
    pub fn name(&self) -> String {
        self.engine.state.visible().name.clone()
    }

    /// The pool's guid.
    pub fn guid(&self) -> u64 {
        self.engine.disk.store.pool_guid()
    }
}
