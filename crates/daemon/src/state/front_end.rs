//! Front ends: parts of the daemon that offer datasets and devices to other programs: mounts, exports, zones.
//!
//! `front_ends::FRONT_ENDS` lists them. `ops::offers` calls all of them.

use std::path::PathBuf;
use std::sync::Arc;

use pool::Entry;
use vfs::Caller;

use crate::failure::{Failure, Result};
use crate::state::active_pool::ActivePool;

/// What a command is about to take away, or to use alone.
pub(crate) enum Going<'a> {
    /// Files and disks, by their paths.
    Devices(&'a [PathBuf]),
    /// Datasets that are destroyed or renamed.
    Datasets(&'a ActivePool, &'a [Arc<Entry>]),
    /// The guid of a pool, which gets another one.
    Guid(&'a ActivePool),
}

/// Datasets and snapshots of a pool, by id.
pub(crate) type InPool<'a> = (&'a Arc<ActivePool>, Vec<u64>);

/// Something that offers datasets or devices to other programs. `D` is the daemon, which has a list of these.
pub(crate) trait FrontEnd<D>: Sync {
    /// Takes up what the last daemon left, before pools are imported.
    fn prepare(&self, _daemon: &D) {}

    /// Offers again what the last daemon offered, once pools are imported.
    fn start(&self, daemon: &Arc<D>);

    /// Offers what could not be offered so far: a key was loaded, a device came.
    fn restore(&self, _daemon: &D) {}

    /// Offers those of these datasets that are offered without a command: they were made, or their pool or key has
    /// come. Returns what could not be offered, but goes on. `owner` owns the root of a new dataset.
    fn offer(
        &self,
        _daemon: &Arc<D>,
        _active: &Arc<ActivePool>,
        _entries: &[Arc<Entry>],
        _owner: Caller,
    ) -> Vec<Failure> {
        Vec::new()
    }

    /// Offers these datasets no longer: a command changes them, or takes them away. With `force` also those in use. If
    /// one cannot be withdrawn, all stay as they are.
    fn withdraw(
        &self,
        _daemon: &Arc<D>,
        _wanted: &[InPool<'_>],
        _force: bool,
    ) -> Result<Option<Box<dyn Withdrawn<D>>>> {
        Ok(None)
    }

    /// As `withdraw` by force, for good. What cannot be withdrawn keeps no other; it is returned.
    fn withdraw_what_can(&self, _wanted: &[InPool<'_>]) -> Vec<Failure> {
        Vec::new()
    }

    /// Refuses to let go what it offers, and names the user.
    fn may_go(&self, _daemon: &D, _going: &Going<'_>) -> Result<()> {
        Ok(())
    }

    /// Whether it would offer this dataset if its key were loaded.
    fn awaits(&self, _daemon: &D, _imported: &ActivePool, _entry: &Entry) -> Result<bool> {
        Ok(false)
    }

    /// Offers nothing more until this is dropped. It comes before the lock of a pool.
    fn hold<'a>(&self, _daemon: &'a D) -> Option<Box<dyn Held + 'a>> {
        None
    }

    /// Forgets what it offers of volumes that are gone, by the guid of their pool and their names.
    fn forget(&self, _daemon: &D, _pool: u64, _is_gone: &dyn Fn(&str) -> bool) -> Result<()> {
        Ok(())
    }

    /// Lets go of all devices, since the daemon ends. Without `force` nothing changes if one is in use.
    fn close(&self, _daemon: &D, _force: bool) -> Result<()> {
        Ok(())
    }

    /// Stops listening: the daemon has ended.
    fn stop(&self, _daemon: &D) {}
}

/// Datasets that a front end offered until they were withdrawn.
pub(crate) trait Withdrawn<D> {
    /// Removes what was there for them, as the directory of a mount.
    fn clear(&self);

    /// Offers those that are still there as before. Returns what could not be offered, but goes on.
    fn offer_again(self: Box<Self>, daemon: &Arc<D>) -> Vec<Failure>;
}

/// A front end that only one thread changes.
pub(crate) trait Held {
    /// Ends what is offered of volumes that go. Clients lose them at once. They are remembered, and offered again
    /// when the volumes can be opened.
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()>;
}
