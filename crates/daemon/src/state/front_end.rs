//! Front ends: parts of the daemon that offer datasets and devices to other programs: mounts, exports, zones.
//!
//! `front_ends::FRONT_ENDS` lists them. `ops::front_end_calls` calls all of them. No method has a default, because a
//! front end that forgets one would let a command destroy what it offers. A front end states each method, or names it in
//! [`offers_nothing!`].

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
    fn prepare(&self, daemon: &D);

    /// Offers everything again that the last daemon offered, after pools are imported.
    fn start(&self, daemon: &Arc<D>);

    /// Offers everything that could not be offered before: a key was loaded, or a device appeared.
    fn restore(&self, daemon: &D);

    /// Offers these datasets, if they are offered without a command: they were made, their pool was imported or their
    /// key was loaded. Continues after a failure, and returns all failures. `owner` owns the root of a new dataset.
    fn offer(
        &self,
        daemon: &Arc<D>,
        active: &Arc<ActivePool>,
        entries: &[Arc<Entry>],
        owner: Caller,
    ) -> Vec<Failure>;

    /// Withdraws these datasets, because a command changes them or takes them away. With `force` also datasets in use.
    /// If one cannot be withdrawn, all stay as they are.
    fn withdraw(
        &self,
        daemon: &Arc<D>,
        wanted: &[PoolEntries<'_>],
        force: bool,
    ) -> Result<Option<Box<dyn WithdrawnDatasets<D>>>>;

    /// Withdraws these datasets by force, for good. Continues after a failure, and returns all failures.
    fn withdraw_what_can(&self, wanted: &[PoolEntries<'_>]) -> Vec<Failure>;

    /// Refuses if it offers one of these things, and names the user.
    fn may_go(&self, daemon: &D, going: &ExclusiveUse<'_>) -> Result<()>;

    /// Returns whether the front end would offer this dataset if its key were loaded.
    fn awaits(&self, daemon: &D, imported: &ActivePool, entry: &Entry) -> Result<bool>;

    /// Prevents new offers until this is dropped. It is taken before the lock of a pool.
    fn hold<'a>(&self, daemon: &'a D) -> Option<Box<dyn FrontEndGuard + 'a>>;

    /// Forgets offers of destroyed volumes, by the guid of their pool and their names.
    fn forget(&self, daemon: &D, pool: u64, is_gone: &dyn Fn(&str) -> bool) -> Result<()>;

    /// Closes all devices, because the daemon ends. If one is in use, nothing changes without `force`.
    fn close(&self, daemon: &D, force: bool) -> Result<()>;

    /// Stops listening at the end of the daemon.
    fn stop(&self, daemon: &D);
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

/// The named methods of a front end of `$daemon` that offers nothing of this kind: nothing is to be done, and a command
/// may go on.
macro_rules! offers_nothing {
    ($daemon:ty: $($method:ident)*) => {
        $($crate::state::front_end::offers_nothing! { @$method $daemon })*
    };
    (@prepare $daemon:ty) => {
        fn prepare(&self, _: &$daemon) {}
    };
    (@start $daemon:ty) => {
        fn start(&self, _: &std::sync::Arc<$daemon>) {}
    };
    (@restore $daemon:ty) => {
        fn restore(&self, _: &$daemon) {}
    };
    (@offer $daemon:ty) => {
        fn offer(
            &self,
            _: &std::sync::Arc<$daemon>,
            _: &std::sync::Arc<ActivePool>,
            _: &[std::sync::Arc<pool::Entry>],
            _: vfs::Caller,
        ) -> Vec<Failure> {
            Vec::new()
        }
    };
    (@withdraw $daemon:ty) => {
        fn withdraw(
            &self,
            _: &std::sync::Arc<$daemon>,
            _: &[$crate::state::front_end::PoolEntries<'_>],
            _: bool,
        ) -> Result<Option<Box<dyn $crate::state::front_end::WithdrawnDatasets<$daemon>>>> {
            Ok(None)
        }
    };
    (@withdraw_what_can $daemon:ty) => {
        fn withdraw_what_can(
            &self,
            _: &[$crate::state::front_end::PoolEntries<'_>],
        ) -> Vec<Failure> {
            Vec::new()
        }
    };
    (@may_go $daemon:ty) => {
        fn may_go(
            &self,
            _: &$daemon,
            _: &$crate::state::front_end::ExclusiveUse<'_>,
        ) -> Result<()> {
            Ok(())
        }
    };
    (@awaits $daemon:ty) => {
        fn awaits(&self, _: &$daemon, _: &ActivePool, _: &pool::Entry) -> Result<bool> {
            Ok(false)
        }
    };
    (@hold $daemon:ty) => {
        fn hold<'a>(
            &self,
            _: &'a $daemon,
        ) -> Option<Box<dyn $crate::state::front_end::FrontEndGuard + 'a>> {
            None
        }
    };
    (@forget $daemon:ty) => {
        fn forget(&self, _: &$daemon, _: u64, _: &dyn Fn(&str) -> bool) -> Result<()> {
            Ok(())
        }
    };
    (@close $daemon:ty) => {
        fn close(&self, _: &$daemon, _: bool) -> Result<()> {
            Ok(())
        }
    };
    (@stop $daemon:ty) => {
        fn stop(&self, _: &$daemon) {}
    };
}
pub(crate) use offers_nothing;
