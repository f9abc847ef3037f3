//! Front ends: what offers datasets and devices to other programs, as mounts, exports and zones do.
//!
//! The list of them is `front_ends::FRONT_ENDS`; `ops::offers` asks all of them.

use std::path::PathBuf;
use std::sync::Arc;

use pool::Entry;

use crate::failure::Result;
use crate::state::active_pool::ActivePool;

/// What a command is about to take away, or to use alone.
pub(crate) enum Going<'a> {
    /// Files and disks, by their paths.
    Devices(&'a [PathBuf]),
    /// An open mapping, by its name.
    Mapping(&'a str),
    /// Datasets that are destroyed or renamed.
    Datasets(&'a ActivePool, &'a [Arc<Entry>]),
}

/// Something that offers datasets or devices to other programs. `D` is the daemon, which has a list of these.
pub(crate) trait FrontEnd<D>: Sync {
    /// Takes up what the last daemon left, before pools are imported.
    fn prepare(&self, _daemon: &D) {}

    /// Offers again what the last daemon offered, once pools are imported.
    fn start(&self, daemon: &Arc<D>);

    /// Offers what could not be offered so far: a key was loaded, a device came.
    fn restore(&self, _daemon: &D) {}

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

/// A front end that only one thread changes.
pub(crate) trait Held {
    /// Ends what is offered of volumes that go. Clients lose them at once. They are remembered, and offered again
    /// when the volumes can be opened.
    fn suspend(&self, volumes: &[String], why: &str) -> Result<()>;
}
