//! Checkpoints of pools: the commands and the reports.

use pool::{AtCheckpoint, Superblock};
use protocol::api::{CheckpointRow, CheckpointUse, FailureKind, command};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::pools::active_pool::ActivePool;

impl ActivePool {
    pub(crate) fn checkpoint(&self, discard: bool, context: &CallerContext<'_>) -> Result<()> {
        let _admin = self.lock(context.decision)?;
        let (pool, name) = (&self.pool, self.pool.name());
        match (discard, pool.checkpoint_info()) {
            (true, None) => {
                let text = format!("the pool '{name}' has no checkpoint");
                return Err(Failure::new(FailureKind::NotFound, text));
            }
            (false, Some(_)) => {
                let text = format!(
                    "the pool '{name}' has a checkpoint already; discard it first: strongroom pool checkpoint -d {name}"
                );
                return Err(Failure::new(FailureKind::Exists, text));
            }
            (true, Some(_)) => pool.discard_checkpoint(&context.origin())?,
            (false, None) => pool.make_checkpoint(&context.origin())?,
        }
        Ok(())
    }

    /// The checkpoint for a report.
    pub(crate) fn checkpoint_row(&self) -> Option<CheckpointRow> {
        let info = self.pool.checkpoint_info()?;
        Some(CheckpointRow {
            txg: info.txg,
            created: info.time,
            bytes: info.bytes,
        })
    }
}

/// The engine's value for what an import does with the checkpoint.
pub(crate) fn at_checkpoint(wanted: CheckpointUse) -> AtCheckpoint {
    match wanted {
        CheckpointUse::Keep => AtCheckpoint::Keep,
        CheckpointUse::Rewind => AtCheckpoint::Rewind,
        CheckpointUse::Discard => AtCheckpoint::Discard,
    }
}

/// Returns whether the next start of the daemon does not import the pool again. An earlier state, read-only, is
/// imported only until then.
pub(crate) fn is_temporary(import: &command::PoolImport) -> bool {
    import.temporary || import.read_only && import.checkpoint == CheckpointUse::Rewind
}

/// Refuses a use of the checkpoint that is not possible with this pool.
pub(crate) fn refuse_use_of_checkpoint(
    superblock: &Superblock,
    import: &command::PoolImport,
) -> Result<()> {
    let (option, writes) = match import.checkpoint {
        CheckpointUse::Keep => return Ok(()),
        CheckpointUse::Rewind => ("--rewind-to-checkpoint", false),
        CheckpointUse::Discard => ("--discard-checkpoint", true),
    };
    if superblock.checkpoint.is_empty() {
        let text = format!("the pool '{}' has no checkpoint", superblock.name);
        return Err(Failure::new(FailureKind::NotFound, text));
    }
    if import.pool.is_none() || import.without_logs || writes && import.read_only {
        let text = format!(
            "{option} is for one named pool, without -m{}",
            match writes {
                true => " and readonly=on",
                false => "",
            }
        );
        return Err(Failure::usage(text));
    }
    Ok(())
}
