//! `autolock`: keys are unloaded when no program has used their data for some time.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pool::Entry;
use protocol::api::FailureKind;

use crate::failure::Result;
use crate::host::process::system::now_secs;
use crate::host::process::wakeup::Wakeup;
use crate::ops::mounts::unmounts::EndedMount;
use crate::state::daemon::Daemon;
use crate::state::datasets::properties;
use crate::state::devices::leases::LeasedObject;
use crate::state::keys::idle_keys::KeyActivity;
use crate::state::pools::active_pool::ActivePool;

/// The name of the property.
const AUTOLOCK: &str = "autolock";
/// The time between two looks at the keys.
const LOOK: Duration = Duration::from_secs(5);

/// Starts the thread that looks for keys that no program uses. It ends when the daemon does.
pub(crate) fn start(daemon: &Arc<Daemon>) -> std::io::Result<()> {
    let daemon = Arc::downgrade(daemon);
    threads::start(AUTOLOCK, move || look(&daemon)).map(drop)
}

fn look(daemon: &Weak<Daemon>) {
    let pause = Wakeup::default();
    loop {
        let Some(daemon) = daemon.upgrade() else {
            return;
        };
        daemon.lock_idle_keys(Instant::now());
        drop(daemon);
        pause.wait(0, LOOK);
    }
}

impl Daemon {
    /// Unmounts the datasets that no program uses at a time, and unloads their keys, where `autolock` asks for it.
    pub(crate) fn lock_idle_keys(self: &Arc<Self>, now: Instant) {
        for active in self.pools() {
            let mut limited = Vec::new();
            for root in active.keys.roots() {
                match self.lock_if_idle(&active, root, now) {
                    Ok(true) => limited.push(root),
                    Ok(false) => {}
                    // It is tried again.
                    Err(failure) => {
                        limited.push(root);
                        let reason = failure.message;
                        tracing::warn!(reason, "a key that is not used could not be unloaded");
                    }
                }
            }
            active.idle_keys.keep(&limited);
        }
    }

    /// Unloads a key if it was not used for as long as its property says. Returns whether there is such a property.
    fn lock_if_idle(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        root: u64,
        now: Instant,
    ) -> Result<bool> {
        // Without an entry it was destroyed meanwhile.
        let Ok(entry) = active.pool.entry(root) else {
            return Ok(false);
        };
        let Some(length) = active.autolock_of(&entry)? else {
            return Ok(false);
        };
        let activity = active.activity_of(root)?;
        let since = active.idle_keys.note(root, &activity, now);
        if now.saturating_duration_since(since) < length {
            return Ok(true);
        }
        // A command works on the pool: it may use this one.
        let Some(admin) = active.try_lock() else {
            return Ok(true);
        };
        if active.activity_of(root)? != activity {
            return Ok(true);
        }
        let name = active.pool.name_of(root)?;
        let mounted: Vec<u64> = activity.mounts.keys().copied().collect();
        match self.unload_idle_key(active, &entry, &mounted) {
            Ok(()) => {}
            // A file is open, a program works in the directory, or a command began meanwhile.
            Err(failure) if failure.kind == FailureKind::Busy => {
                active.idle_keys.note_use(root, now);
                return Ok(true);
            }
            Err(failure) => return Err(failure),
        }
        drop(admin);
        // Commands that use data keys may have waited for the lock of the pool.
        active.end_uses(&entry)?;
        let seconds = length.as_secs();
        tracing::info!(
            dataset = name,
            "the key was unloaded: no program used it for {seconds} s (autolock)"
        );
        Ok(false)
    }

    /// Unmounts datasets, and unloads their key. If one of both fails, all are mounted as before.
    fn unload_idle_key(
        self: &Arc<Self>,
        active: &Arc<ActivePool>,
        root: &Entry,
        mounted: &[u64],
    ) -> Result<()> {
        let unmounted = self.unmount_all(active, mounted, false)?;
        if let Err(failure) = self.unload_key(active, root, false) {
            // Without its mount, programs would write into the directory below.
            for failure in self.mount_again(unmounted) {
                tracing::error!(reason = failure.message, "could not be mounted again");
            }
            return Err(failure);
        }
        unmounted.iter().rev().for_each(EndedMount::remove_dir);
        Ok(())
    }
}

impl ActivePool {
    /// The time after which the key of a key root is unloaded if no program uses it.
    fn autolock_of(&self, root: &Entry) -> Result<Option<Duration>> {
        let (length, _) = properties::effective(&self.pool, root, AUTOLOCK)?;
        Ok(pool::retention_length(&length).map(Duration::from_secs))
    }

    /// The time when the key of a dataset will be unloaded if no program uses it until then, in seconds since 1970.
    pub(in crate::ops) fn locks_at(&self, entry: &Entry) -> Result<Option<u64>> {
        let root = self.key_root(entry)?;
        let Some(since) = self.idle_keys.since(root) else {
            return Ok(None);
        };
        let Some(length) = self.autolock_of(&*self.pool.entry(root)?)? else {
            return Ok(None);
        };
        let left = length.saturating_sub(since.elapsed());
        Ok(Some(now_secs().saturating_add(left.as_secs())))
    }

    /// The present use of the data of a key.
    fn activity_of(&self, root: u64) -> Result<KeyActivity> {
        let mut activity = KeyActivity {
            mounts: self.requests_by_mount(),
            is_held: !self.leases.users(&LeasedObject::Key(root)).is_empty(),
        };
        let mut own = Vec::new();
        for id in self.used_ids() {
            // Without an entry it was destroyed meanwhile.
            let Ok(entry) = self.pool.entry(id) else {
                continue;
            };
            if entry.suite != 0 && self.key_root(&entry)? == root {
                activity.is_held |= !activity.mounts.contains_key(&id);
                own.push(id);
            }
        }
        activity.mounts.retain(|id, _| own.contains(id));
        Ok(activity)
    }

    /// The number of requests that each mount has served.
    fn requests_by_mount(&self) -> BTreeMap<u64, u64> {
        let mounts = self.mounts.lock();
        let mounts = mounts.iter();
        mounts
            .map(|(id, state)| (*id, state.meter.requests()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::tests::{command, create, create_pool, daemon, encrypted, key_file};

    const MINUTE: Duration = Duration::from_secs(60);

    /// A daemon with a dataset `tank/a` whose key is loaded.
    fn place(dir: &Path, mountpoint: &str) -> (Arc<Daemon>, Arc<ActivePool>, u64) {
        let daemon = daemon(dir);
        let active = create_pool(&daemon, dir, "tank");
        let mut props = encrypted(&key_file(dir, "key"));
        props.push((AUTOLOCK.into(), "15m".into()));
        props.push(("mountpoint".into(), mountpoint.into()));
        create(&daemon, "tank/a", &props);
        let root = active.pool.find("tank/a").unwrap().id;
        assert!(active.has_key(root));
        (daemon, active, root)
    }

    #[test]
    fn a_key_that_nothing_uses_is_unloaded_after_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (daemon, active, root) = place(dir.path(), "none");
        let start = Instant::now();
        let entry = active.pool.entry(root).unwrap();
        daemon.lock_idle_keys(start);
        assert!(active.locks_at(&entry).unwrap().is_some());
        daemon.lock_idle_keys(start + 14 * MINUTE);
        assert!(active.has_key(root));
        // A command that has data keys.
        let using = active.use_key(root, "a test", None);
        daemon.lock_idle_keys(start + 15 * MINUTE);
        assert!(active.has_key(root), "it is in use");
        drop(using);
        daemon.lock_idle_keys(start + 16 * MINUTE);
        daemon.lock_idle_keys(start + 29 * MINUTE);
        assert!(active.has_key(root), "it was in use a minute ago");
        // A command that works on the pool.
        let admin = active.try_lock().unwrap();
        daemon.lock_idle_keys(start + 31 * MINUTE);
        assert!(active.has_key(root));
        drop(admin);
        daemon.lock_idle_keys(start + 31 * MINUTE);
        assert!(!active.has_key(root));
        assert_eq!(active.locks_at(&entry).unwrap(), None);
    }

    #[test]
    fn a_key_that_is_used_as_it_goes_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (_daemon, active, root) = place(dir.path(), "none");
        let entry = active.pool.entry(root).unwrap();
        // A stream that began after the look at the uses.
        let using = active.use_key(root, "a test", None);
        let failure = active.remove_unused_key(&entry).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy);
        assert!(active.has_key(root));
        drop(using);
        active.remove_unused_key(&entry).unwrap();
        assert!(!active.has_key(root));
    }

    #[test]
    fn a_mount_stays_if_its_key_cannot_go() {
        if fs::File::open("/dev/fuse").is_err() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: there is no FUSE");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mnt = dir.path().join("mnt");
        let (daemon, active, root) = place(dir.path(), mnt.to_str().unwrap());
        let request = serde_json::from_value(json!({"name": "tank/a", "load_keys": true}));
        let request = request.unwrap();
        command(|context| daemon.mount_named("tank/a", &request, context)).unwrap();
        fs::write(mnt.join("file"), "kept").unwrap();
        let entry = active.pool.entry(root).unwrap();
        let using = active.use_key(root, "a test", None);
        let failed = daemon.unload_idle_key(&active, &entry, &[root]);
        assert_eq!(failed.unwrap_err().kind, FailureKind::Busy);
        assert_eq!(fs::read(mnt.join("file")).unwrap(), b"kept");
        drop(using);
        daemon.unload_idle_key(&active, &entry, &[root]).unwrap();
        assert!(!active.has_key(root) && !mnt.exists());
    }

    #[test]
    fn an_idle_mount_goes_with_its_key_and_a_busy_one_stays() {
        if fs::File::open("/dev/fuse").is_err() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: there is no FUSE");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mnt = dir.path().join("mnt");
        let (daemon, active, root) = place(dir.path(), mnt.to_str().unwrap());
        let mount = || {
            let request = json!({"name": "tank/a", "load_keys": true});
            let request = serde_json::from_value(request).unwrap();
            command(|context| daemon.mount_named("tank/a", &request, context)).unwrap();
        };
        mount();
        let start = Instant::now();
        fs::write(mnt.join("file"), "kept").unwrap();
        daemon.lock_idle_keys(start);
        let open = fs::File::open(mnt.join("file")).unwrap();
        daemon.lock_idle_keys(start + MINUTE);
        daemon.lock_idle_keys(start + 16 * MINUTE);
        assert!(active.has_key(root), "a file is open");
        drop(open);
        daemon.lock_idle_keys(start + 20 * MINUTE);
        // A request within the time.
        daemon.lock_idle_keys(start + 30 * MINUTE);
        fs::write(mnt.join("other"), "kept").unwrap();
        daemon.lock_idle_keys(start + 34 * MINUTE);
        daemon.lock_idle_keys(start + 48 * MINUTE);
        assert!(active.has_key(root), "it was used 14 minutes ago");
        daemon.lock_idle_keys(start + 49 * MINUTE);
        assert!(!active.has_key(root) && active.mounts.lock().is_empty());
        // What was written and not synced is there.
        mount();
        assert_eq!(fs::read(mnt.join("file")).unwrap(), b"kept");
    }
}
