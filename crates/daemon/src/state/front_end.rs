//! Front ends: parts of the daemon that offer datasets and devices to other programs: mounts, exports, zones.
//!
//! `front_ends::FRONT_ENDS` lists them. `ops::front_end_calls` calls all of them.

use std::path::PathBuf;
use std::sync::Arc;

use pool::Entry;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::pools::active_pool::ActivePool;

/// The things that a command is about to take away, or to use alone.
pub(crate) enum ExclusiveUse<'a> {
    /// Files and disks, by their paths.
    Devices(&'a [PathBuf]),
    /// Datasets that are destroyed or renamed.
    Datasets(&'a ActivePool, &'a [Arc<Entry>]),
    /// The guid of a pool. The pool gets another one.
    Guid(&'a ActivePool),
}

/// Datasets and snapshots of a pool, by id.
pub(crate) type PoolEntries<'a> = (&'a Arc<ActivePool>, Vec<u64>);

/// A part of the daemon that offers datasets or devices to other programs. `D` is the daemon.
pub(crate) trait FrontEnd<D>: Sync {
    /// Takes over the remains of the last daemon, before pools are imported.
    fn prepare(&self, _daemon: &D) {}

    /// Offers everything again that the last daemon offered, after pools are imported.
    fn start(&self, daemon: &Arc<D>);

    /// Offers everything that could not be offered before: a key was loaded, or a device appeared.
    fn restore(&self, _daemon: &D) {}

    /// Offers these datasets, if they are offered without a command: they were made, their pool was imported or their
    /// key was loaded. Continues after a failure, and returns all failures. `owner` owns the root of a new dataset.
    fn offer(
        &self,
        _daemon: &Arc<D>,
        _active: &Arc<ActivePool>,
        _entries: &[Arc<Entry>],
        _owner: Caller,
    ) -> Vec<Failure> {
        Vec::new()
    }

    /// Withdraws these datasets, because a command changes them or takes them away. With `force` also datasets in use.
    /// If one cannot be withdrawn, all stay as they are.
    fn withdraw(
        &self,
        _daemon: &Arc<D>,
        _wanted: &[PoolEntries<'_>],
        _force: bool,
    ) -> Result<Option<Box<dyn WithdrawnDatasets<D>>>> {
        Ok(None)
    }

    /// Withdraws these datasets by force, for good. Continues after a failure, and returns all failures.
    fn withdraw_what_can(&self, _wanted: &[PoolEntries<'_>]) -> Vec<Failure> {
        Vec::new()
    }

    /// Refuses if it offers one of these things, and names the user.
    fn may_go(&self, _daemon: &D, _going: &ExclusiveUse<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns whether the front end would offer this dataset if its key were loaded.
    fn awaits(&self, _daemon: &D, _imported: &ActivePool, _entry: &Entry) -> Result<bool> {
        Ok(false)
    }

    /// Prevents new offers until this is dropped. It is taken before the lock of a pool.
    fn hold<'a>(&self, _daemon: &'a D) -> Option<Box<dyn FrontEndGuard + 'a>> {
        None
    }

    /// Forgets offers of destroyed volumes, by the guid of their pool and their names.
    fn forget(&self, _daemon: &D, _pool: u64, _is_gone: &dyn Fn(&str) -> bool) -> Result<()> {
        Ok(())
    }

    /// Closes all devices, because the daemon ends. If one is in use, nothing changes without `force`.
    fn close(&self, _daemon: &D, _force: bool) -> Result<()> {
        Ok(())
    }

    /// Stops listening at the end of the daemon.
    fn stop(&self, _daemon: &D) {}
}

/// Datasets that a front end offered until they were withdrawn.
pub(crate) trait WithdrawnDatasets<D> {
    /// Removes their remains, such as the directory of a mount.
    fn clear(&self);

    /// Offers the datasets that still exist again. Continues after a failure, and returns all failures.
    fn offer_again(self: Box<Self>, daemon: &Arc<D>) -> Vec<Failure>;
}

/// A front end that only one thread changes.
pub(crate) trait FrontEndGuard {
    /// Ends the offers of volumes that go away. Clients lose them at once. They are remembered, and offered again when
    /// the volumes can be opened.
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()>;
}
