//! Finds pools that can be imported: searches for devices, and groups them by pool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{BlockDevice, Claimant, DeviceAccess};
use pool::{DeviceState, Pool, PoolState, Superblock};
use protocol::api::FailureKind;
use protocol::device_name::DeviceName;
use store::Store;

use crate::failure::{Failure, Result};
use crate::host::process::system::System;
use crate::ops::devices::meters::metered;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::state::daemon::Daemon;
use crate::state::devices::remote_devices::SCAN;
use crate::state::memory::KnownPool;

/// The devices that say they belong to one pool.
pub(crate) struct FoundPool {
    pub(crate) guid: u64,
    pub(crate) paths: Vec<PathBuf>,
    /// The newest superblock, or the reason why it cannot be read.
    pub(crate) superblock: std::result::Result<Superblock, Failure>,
    /// True if devices are missing or not up to date, and the pool can be imported without them.
    pub(crate) is_degraded: bool,
    /// The last paths of missing devices.
    pub(crate) missing: Vec<String>,
    /// True if the present state of the pool asks for reservations of its devices. `None` if that cannot be read.
    pub(crate) wants_claims: Option<bool>,
}

impl FoundPool {
    /// Returns whether the pool was destroyed. Such a pool is imported only by its name or guid.
    pub(crate) fn is_destroyed(&self) -> bool {
        let superblock = self.superblock.as_ref();
        superblock.is_ok_and(|superblock| superblock.state == PoolState::Destroyed)
    }

    /// Returns whether all devices keep out other hosts by themselves, so that no time is lost with looking for them.
    pub(crate) fn has_fences(&self) -> bool {
        self.paths.iter().all(is_on_store)
    }
}

/// The pools that were found, and the failures for named places that could not be read.
pub(crate) struct ImportScan {
    pub(crate) pools: Vec<FoundPool>,
    pub(crate) failures: Vec<Failure>,
}

impl Daemon {
    /// Finds pools on the devices in these places; in the usual places if `search` is empty.
    pub(crate) fn scan_for_pools(&self, search: &[PathBuf]) -> ImportScan {
        let mut failures = Vec::new();
        let mut all = Vec::new();
        let places = self.places(search, &mut failures);
        let paths: Vec<&Path> = places.keys().map(PathBuf::as_path).collect();
        let probed = self.probe_all(&paths);
        for ((path, is_named), probed) in places.iter().zip(probed) {
            match probed {
                Ok(found) => all.push((path.clone(), found)),
                // A device that the user named is not skipped in silence.
                Err(failure) if *is_named => failures.push(failure),
                Err(_) => {}
            }
        }
        for (path, whole) in leave_out_cut_copies(&mut all) {
            let why = format!(
                "{} is left out: it is a copy of {} that was cut off",
                path.display(),
                whole.display()
            );
            tracing::warn!("{why}");
            if places[&path] {
                failures.push(Failure::new(FailureKind::Damaged, why));
            }
        }
        let pools = self.group(all).into_iter();
        ImportScan {
            pools: pools
                .map(|(guid, paths)| self.read_found(guid, paths))
                .collect(),
            failures,
        }
    }

    /// Groups devices by their pools. It drops a device that names a pool and does not belong to it.
    fn group(&self, mut all: Vec<(PathBuf, store::DeviceIdentity)>) -> BTreeMap<u64, Vec<PathBuf>> {
        loop {
            let pools = store::by_pool(all.clone());
            let strangers = pools.values().flat_map(|paths| {
                let is_changing = |(path, found): &(PathBuf, store::DeviceIdentity)| {
                    found.other_guid != 0 && paths.contains(path)
                };
                let store = all.iter().any(is_changing);
                let store =
                    store.then(|| self.open_store(paths, DeviceAccess::ReadOnly, SCAN).ok());
                let store = store.flatten();
                store.map_or_else(Vec::new, |store| pool::strangers(&Arc::new(store)))
            });
            let strangers: Vec<PathBuf> = strangers.map(|it| it.name.into()).collect();
            for path in &strangers {
                tracing::warn!(device = %path.display(), "a device names a pool, and is none of it");
            }
            let before = all.len();
            all.retain(|(path, _)| !strangers.contains(path));
            if all.len() == before {
                return pools;
            }
        }
    }

    /// Reads from a device which pool it belongs to.
    pub(crate) fn probe(&self, path: &Path) -> Result<store::DeviceIdentity> {
        let name = DeviceName::parse(path);
        let device = self.open(name, DeviceAccess::ReadOnly, SCAN)?;
        Ok(store::probe(&device)?)
    }

    /// Reads from devices which pools they belong to. Devices that may not answer, as on other hosts, are read at the
    /// same time: each is waited for until a timeout.
    fn probe_all(&self, paths: &[&Path]) -> Vec<Result<store::DeviceIdentity>> {
        let may_wait = |path: &Path| DeviceName::parse(path).kind().may_wait;
        std::thread::scope(|scope| {
            let probes: Vec<_> = paths
                .iter()
                .map(|path| may_wait(path).then(|| scope.spawn(|| self.probe(path))))
                .collect();
            let probes = probes.into_iter().zip(paths);
            let done = probes.map(|(thread, path)| match thread {
                None => self.probe(path),
                Some(thread) => thread.join().unwrap_or_else(|_| {
                    Err(Failure::other("a thread that looked for pools failed"))
                }),
            });
            done.collect()
        })
    }

    /// The devices to read, and whether the user named each one itself.
    fn places(&self, search: &[PathBuf], failures: &mut Vec<Failure>) -> BTreeMap<PathBuf, bool> {
        let mut places = BTreeMap::new();
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut usual = Vec::new();
        if search.is_empty() {
            usual.extend(self.pool_table.remembered_devices());
            usual.extend(self.pool_table.exported.devices());
            usual.extend(disks());
        }
        for place in search {
            let name = DeviceName::parse(place);
            if !name.is_path() {
                // A wrong name is reported when it is opened.
                let name = name
                    .canonical()
                    .map_or_else(|_| place.clone(), PathBuf::from);
                places.insert(name, true);
                continue;
            }
            let failed = |error| {
                Failure::from(block::Error::Open {
                    path: place.display().to_string(),
                    source: error,
                })
            };
            match std::fs::metadata(place) {
                Err(error) => failures.push(failed(error)),
                Ok(found) if found.is_dir() => match std::fs::read_dir(place) {
                    Ok(entries) => {
                        usual.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
                    }
                    Err(error) => failures.push(failed(error)),
                },
                Ok(_) => {
                    places.insert(canonical(place), true);
                }
            }
        }
        // A store in use has nothing to import, and may not answer.
        let is_free = |path: &PathBuf| !(is_on_store(path) && self.has_object_device(path));
        for path in usual.into_iter().filter(is_free) {
            places.entry(canonical(&path)).or_insert(false);
        }
        places
    }
}

impl Daemon {
    /// A pool that was imported before. Its devices are looked for at their last paths, and at the other paths in
    /// `places`, where devices of any remembered pool were. A device of another pool is ignored.
    pub(crate) fn known_candidate(
        &self,
        name: &str,
        guid: u64,
        known: &KnownPool,
        places: &[PathBuf],
    ) -> Result<FoundPool> {
        let mut members: BTreeMap<u64, PathBuf> = BTreeMap::new();
        let (mut foreign, mut away) = (Vec::new(), Vec::new());
        let own = known.paths();
        // A pool of files and disks must not wait for the servers of other pools.
        let elsewhere = places
            .iter()
            .filter(|path| !own.contains(path) && DeviceName::parse(path).is_path());
        let paths: Vec<&Path> = own.iter().chain(elsewhere).map(PathBuf::as_path).collect();
        let probed = self.probe_all(&paths);
        let labels: Vec<store::DeviceIdentity> = probed.iter().flatten().copied().collect();
        let is_named = |found: &store::DeviceIdentity| {
            let mut guids = [Some(guid), known.becomes].into_iter().flatten();
            known.has_device(found.device_guid) && guids.any(|guid| found.is_of(guid))
        };
        let is_beside = |found: &store::DeviceIdentity| {
            let mut named = labels.iter().filter(|label| is_named(label));
            known.has_device(found.device_guid) && named.any(|label| found.changes_with(label))
        };
        for (path, found) in paths.iter().zip(probed) {
            let found = match found {
                Ok(found) => found,
                Err(failure) => {
                    // A missing file needs no reason. A server may give one.
                    away.extend((!DeviceName::parse(path).is_path()).then_some(failure.message));
                    continue;
                }
            };
            if is_named(&found) || is_beside(&found) {
                members
                    .entry(found.device_guid)
                    .or_insert_with(|| path.to_path_buf());
            } else if own.iter().any(|own| own == path) {
                foreign.push(explain_foreign(path, &found, guid));
            }
        }
        for reason in foreign.iter().chain(&away) {
            tracing::warn!(pool = name, reason, "a device is ignored");
        }
        if !members.is_empty() {
            return Ok(self.read_found(guid, members.into_values().collect()));
        }
        Err(match foreign.is_empty() {
            true => Failure::new(
                FailureKind::NotFound,
                away.iter().fold(
                    format!("no device of pool '{name}' (guid {guid}) was found"),
                    |said, reason| format!("{said}; {reason}"),
                ),
            ),
            false => Failure::new(
                FailureKind::Permission,
                format!(
                    "pool '{name}' is not imported: {}; to import the pool on these devices, name it by its \
                     guid: strongroom pool import -d PATH GUID",
                    foreign.join("; ")
                ),
            ),
        })
    }

    /// Reads the superblock of a pool from those of its devices that can be opened.
    fn read_found(&self, guid: u64, paths: Vec<PathBuf>) -> FoundPool {
        let read = || {
            let store = Arc::new(self.open_store(&paths, DeviceAccess::ReadOnly, SCAN)?);
            let superblocks = store.superblocks()?;
            let (txg, payload) = superblocks.first().ok_or(store::Error::NoSuperblock)?;
            let mut superblock = Superblock::decode(*txg, payload)?;
            if let Some(name) = store.name_of_split() {
                superblock.name = name;
            }
            // Only the pool knows which devices there should be.
            match Pool::open(store, Arc::new(System), true) {
                Err(
                    error @ (pool::Error::Store(store::Error::MissingDevices { .. })
                    | pool::Error::OtherHistory { .. }),
                ) => Err(name_found(error.into(), &paths)),
                Err(_) => Ok((superblock, Vec::new(), None)),
                Ok(pool) => Ok((
                    superblock,
                    pool.devices(),
                    pool.multihost().wants_claims().ok(),
                )),
            }
        };
        let (superblock, devices, wants_claims) = match read() {
            Ok((superblock, devices, wants)) => (Ok(superblock), devices, wants),
            Err(failure) => (Err(failure), Vec::new(), None),
        };
        let missing = devices
            .iter()
            .filter(|device| device.state == DeviceState::Missing);
        FoundPool {
            guid,
            wants_claims,
            superblock,
            missing: missing.map(|device| device.path.clone()).collect(),
            is_degraded: devices
                .iter()
                .any(|device| device.group.is_some() && device.state != DeviceState::Online),
            paths,
        }
    }

    /// Opens a store on the devices with these paths. It skips devices that cannot be opened, if another one can be. A
    /// device in use is an error: another host or process has the pool.
    pub(crate) fn open_store(
        &self,
        paths: &[PathBuf],
        access: DeviceAccess,
        user: &str,
    ) -> Result<Store> {
        let open = |path: &Path| self.open_device(path, access, user);
        open_store_with(paths, open, Store::open)
    }

    /// Opens the store for changes. It reserves the devices before it reads them, if that is asked for. By force it also
    /// takes devices in object stores from a host that may still write to them.
    pub(crate) fn open_claimed(
        &self,
        paths: &[PathBuf],
        by: Option<&Claimant>,
        is_forced: bool,
        user: &str,
    ) -> Result<Store> {
        let open = |path: &Path| match is_forced && is_on_store(path) {
            true => {
                let taken = self.take_over_object_device(&path.to_string_lossy(), user)?;
                Ok(metered(taken))
            }
            false => self.open_device(path, DeviceAccess::Exclusive, user),
        };
        open_store_with(paths, open, |devices| match by {
            None => Store::open(devices),
            Some(by) => Store::open_claimed(devices, by),
        })
    }
}

/// Opens the devices with these paths, and the store on them.
fn open_store_with(
    paths: &[PathBuf],
    open_device: impl Fn(&Path) -> Result<Arc<dyn BlockDevice>>,
    open: impl FnOnce(Vec<Arc<dyn BlockDevice>>) -> store::Result<Store>,
) -> Result<Store> {
    let mut opened: Vec<Arc<dyn BlockDevice>> = Vec::new();
    let mut failures = Vec::new();
    for path in paths {
        match open_device(path) {
            Ok(device) => opened.push(device),
            Err(failure) if failure.kind == FailureKind::Busy => return Err(failure),
            Err(failure) => failures.push(failure),
        }
    }
    if let (true, Some(failure)) = (opened.is_empty(), failures.first()) {
        return Err(failure.clone());
    }
    let store = open(opened)?;
    let reasons = failures.iter().map(|failure| &failure.message);
    for reason in reasons.chain(store.passed_over()) {
        tracing::warn!(reason, "a device of a pool is ignored");
    }
    Ok(store)
}

/// Takes out copies of devices that are shorter than their labels say, where the whole device is there too. Each with the
/// path of that.
fn leave_out_cut_copies(
    all: &mut Vec<(PathBuf, store::DeviceIdentity)>,
) -> Vec<(PathBuf, PathBuf)> {
    let id = |found: &store::DeviceIdentity| (found.pool_guid, found.device_guid);
    let whole = all.iter().filter(|(_, found)| !found.is_cut);
    let whole: BTreeMap<_, _> = whole
        .map(|(path, found)| (id(found), path.clone()))
        .collect();
    let mut left_out = Vec::new();
    all.retain(|(path, found)| match whole.get(&id(found)) {
        Some(other) if found.is_cut => {
            left_out.push((path.clone(), other.clone()));
            false
        }
        _ => true,
    });
    left_out
}

/// Explains why the device at the path of a pool's device is another one.
fn explain_foreign(path: &Path, found: &store::DeviceIdentity, guid: u64) -> String {
    let path = path.display();
    match found.pool_guid == guid {
        true => format!(
            "the label of {path} names this pool, but no device with the guid {} was imported with it",
            found.device_guid
        ),
        false => format!(
            "{path} belongs to a pool with the guid {}, and the pool that was imported has the guid {guid}",
            found.pool_guid
        ),
    }
}

/// Adds to a failure the devices of the pool that are there. Of the missing ones nothing is known.
fn name_found(mut failure: Failure, paths: &[PathBuf]) -> Failure {
    let found: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    failure.message = format!("{}; found: {}", failure.message, found.join(", "));
    failure
}

/// The pools to import: the wanted one, or all. `search` has the places that the user named.
pub(crate) fn choose(
    found: Vec<FoundPool>,
    wanted: Option<&str>,
    search: &[PathBuf],
    failures: &[Failure],
) -> Result<Vec<FoundPool>> {
    let Some(wanted) = wanted else {
        return Ok(found);
    };
    let by_guid = wanted.parse::<u64>().ok();
    let unreadable = found
        .iter()
        .find_map(|candidate| candidate.superblock.as_ref().err().cloned());
    let unnamed = failures.first().cloned();
    let mut chosen: Vec<FoundPool> = found
        .into_iter()
        .filter(|candidate| {
            Some(candidate.guid) == by_guid
                || candidate
                    .superblock
                    .as_ref()
                    .is_ok_and(|superblock| superblock.name == wanted)
        })
        .collect();
    match chosen.len() {
        1 => Ok(chosen),
        0 => Err(match unreadable {
            // This pool may be the wanted one.
            Some(failure) => failure.context(format_args!(
                "no pool '{wanted}' was found, but a pool that cannot be read"
            )),
            None => unnamed
                .unwrap_or_else(|| Failure::new(FailureKind::NotFound, not_found(wanted, search))),
        }),
        _ => {
            let guids: Vec<String> = chosen.drain(..).map(|c| c.guid.to_string()).collect();
            Err(Failure::usage(format!(
                "there are several pools '{wanted}'; import one by its guid: {}",
                guids.join(", ")
            )))
        }
    }
}

fn not_found(wanted: &str, search: &[PathBuf]) -> String {
    if search.is_empty() {
        return format!("no pool '{wanted}' was found; say where its files are with -d");
    }
    let places: Vec<String> = search.iter().map(|p| p.display().to_string()).collect();
    format!("no pool '{wanted}' was found in {}", places.join(", "))
}

/// The disks of the system.
fn disks() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/sys/class/block") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(Path::new("/dev").join(entry.ok()?.file_name())))
        .collect()
}

#[cfg(test)]
mod tests {
    use store::CreateOptions;

    use super::*;
    use crate::tests::{command, create_mirror, create_pool, daemon};

    #[test]
    fn a_device_of_no_pool_gives_none_another_guid() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        let guid = create_pool(&daemon, dir.path(), "tank").pool.guid();
        command(|context| daemon.export_pool("tank", false, context)).unwrap();
        let forged = dir.path().join("forged");
        std::fs::File::create(&forged)
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
        let device = daemon.open_device(&forged, DeviceAccess::Exclusive, "a test");
        let options = CreateOptions {
            pool_guid: guid,
            device_guids: vec![99],
            created: 1,
            force: false,
        };
        let other = Store::create(vec![device.unwrap()], &options).unwrap();
        other.commit_labels().unwrap();
        other.renumber(77, &[99]).unwrap();
        drop(other);
        let found = daemon.scan_for_pools(&[dir.path().to_owned()]).pools;
        let [pool] = &found[..] else {
            panic!("{} pools", found.len());
        };
        assert_eq!((pool.guid, pool.paths.len()), (guid, 1));
        assert!(pool.superblock.is_ok() && !pool.is_degraded);
    }

    /// A device that became too small itself stays one of the pool.
    #[test]
    fn a_copy_that_was_cut_off_is_no_device() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        let active = create_pool(&daemon, dir.path(), "tank");
        let whole = active.known().paths().remove(0);
        drop(active);
        command(|context| daemon.export_pool("tank", false, context)).unwrap();
        let copy = dir.path().join("copy");
        std::fs::copy(&whole, &copy).unwrap();
        let cut = |path: &Path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(32 << 20).unwrap();
        };
        cut(&copy);
        let found = daemon.scan_for_pools(&[dir.path().to_owned()]);
        assert_eq!(found.pools[0].paths, std::slice::from_ref(&whole));
        assert!(found.failures.is_empty());
        let found = daemon.scan_for_pools(&[copy.clone(), whole.clone()]);
        assert_eq!(found.pools[0].paths, std::slice::from_ref(&whole));
        let said = &found.failures[0].message;
        assert!(said.contains("copy is left out: it is a copy of"), "{said}");
        cut(&whole);
        let found = daemon.scan_for_pools(&[dir.path().to_owned()]).pools;
        assert_eq!(found[0].paths, [copy, whole]);
        assert!(found[0].superblock.is_err());
    }

    #[test]
    fn a_pool_is_known_by_both_guids_while_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        let active = create_mirror(&daemon, dir.path(), "tank", &["a", "b"]);
        let (guid, mut known) = (active.pool.guid(), active.known());
        let devices: Vec<u64> = known.devices.iter().filter_map(|it| it.guid).collect();
        drop(active);
        command(|context| daemon.export_pool("tank", false, context)).unwrap();
        let renumber = |paths: &[PathBuf], devices: &[u64]| {
            let store = daemon.open_store(paths, DeviceAccess::Exclusive, "a test");
            store.unwrap().renumber(77, devices)
        };
        let paths = known.paths();
        let find = |guid: u64, known: &KnownPool| daemon.known_candidate("tank", guid, known, &[]);
        renumber(&paths, &[devices[0], devices[1], 99]).unwrap_err();
        // The power fails after the first label.
        renumber(&paths[..1], &devices[..1]).unwrap();
        for guid in [guid, 77] {
            let found = find(guid, &known).unwrap();
            assert_eq!(found.paths.len(), 2, "{guid}");
            assert!(found.superblock.is_ok() && found.missing.is_empty());
        }
        // It ends after the last one, and the daemon has not noted it.
        let store = daemon.open_store(&paths, DeviceAccess::Exclusive, "a test");
        let pool = Pool::open(Arc::new(store.unwrap()), Arc::new(System), false).unwrap();
        pool.claim("host").unwrap();
        drop(pool);
        assert!(find(guid, &known).is_err());
        known.becomes = Some(77);
        assert_eq!(find(guid, &known).unwrap().paths.len(), 2);
    }
}
