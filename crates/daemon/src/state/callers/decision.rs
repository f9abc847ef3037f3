//! Decisions about the rights of callers. A decision is made before the work of a command, and again where the command
//! becomes effective: data, a prompt, a lock or a queue may have come between, and with them commands of other users.
//!
//! Commands that change datasets, names or rights hold the lock of the pool until their commit. So a decision that is
//! made under this lock is true in that commit (`ActivePool::lock`).

use crate::failure::Result;

/// The guid of a pool, and the guid of a dataset in it.
pub(crate) type DatasetGuid = (u64, u64);

/// A decision that a caller may carry out a command.
pub(crate) trait Decide {
    /// Decides again. Refuses a command whose caller has lost a right or a token since, and names that now mean another
    /// dataset than before.
    fn again(&self) -> Result<()>;

    /// Refuses a caller whose token or zone has ended.
    fn check_caller(&self) -> Result<()>;

    /// Refuses a dataset that the last decision was not about. `name` is for the message.
    fn covers(&self, dataset: DatasetGuid, name: &str) -> Result<()>;
}

/// The decision for actions of the daemon itself.
pub(crate) struct Internal;

impl Decide for Internal {
    fn again(&self) -> Result<()> {
        Ok(())
    }

    fn check_caller(&self) -> Result<()> {
        Ok(())
    }

    fn covers(&self, _: DatasetGuid, _: &str) -> Result<()> {
        Ok(())
    }
}
