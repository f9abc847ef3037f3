//! The health of a pool's devices, and advice for the administrator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use objects::StoreOutage;
use pool::{
    DeviceInfo, DeviceState, Expandable, Pool, Purpose, ResilverStatus, ScrubStatus, SuspensionEnd,
};
use protocol::api::{DeviceRow, Fullness};

use crate::ops::devices::meters::meter;
use crate::ops::devices::stores::object_stores::is_on_store;
use crate::ops::devices::stores::store_outages::{outage, waiting_requests};
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;
use crate::state::pools::events::state_name;

/// Returns whether a member of a group is not online.
pub(crate) fn degraded(devices: &[DeviceInfo]) -> bool {
    let mut members = devices.iter().filter(|device| device.group.is_some());
    members.any(|device| device.state != DeviceState::Online)
}

/// The time after which the thread that notes outages looks without being told.
const IDLE: Duration = Duration::from_secs(3600);

/// A device with requests that is silent for so long does not answer. A disk that works may be silent for a while: when it
/// spins up, when its cache is flushed, when a network finds another path.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A device with requests that were not answered.
pub(crate) struct SilentDevice<'a> {
    pub(crate) path: &'a str,
    /// The time for which it has not answered.
    pub(crate) time: Duration,
    /// The outage of its store, if it lies on one.
    outage: Option<StoreOutage>,
}

impl SilentDevice<'_> {
    /// Returns whether the device counts as one that does not answer. A store has said so itself, or has been asked several
    /// times.
    pub(crate) fn is_stalled(&self) -> bool {
        self.outage.is_some() || self.time >= SILENCE_MAX
    }

    /// The message about it, and the advice.
    pub(crate) fn advice(&self) -> (String, String) {
        let (path, time) = (self.path, self.time.as_secs());
        let Some(outage) = &self.outage else {
            return (
                format!("{path} has not answered for {time} s. Reads and changes wait for it."),
                "Look at the device and its connection, and at the log of the kernel.".into(),
            );
        };
        let since = Timestamp::now() - SignedDuration::from_secs(time as i64);
        let reason = outage.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| {
            format!(" The last failure: {reason}.")
        });
        (
            format!(
                "{path} has not answered for {time} s, since {}. {} wait for it.{reason}",
                since.strftime("%Y-%m-%d %H:%M:%S UTC"),
                waiting_requests(outage),
            ),
            "Look at the network and at the status page of the store. The pool goes on by itself when the store answers. \
             To give up what was not synced: 'strongroom pool export -f'."
                .into(),
        )
    }
}

/// The device that has not answered for the longest time, those that count as stalled first.
pub(crate) fn silent(devices: &[DeviceInfo]) -> Option<SilentDevice<'_>> {
    silences(devices).max_by_key(|found| (found.is_stalled(), found.time))
}

/// The devices with requests that were not answered. Devices that are not used any more are left out.
fn silences(devices: &[DeviceInfo]) -> impl Iterator<Item = SilentDevice<'_>> {
    let used = devices.iter().filter(|device| is_used(device));
    used.filter_map(|device| {
        let silence = meter(&device.path).and_then(|open| open.meter.silence());
        let outage = outage(&device.path);
        let time = { outage.as_ref() }.map(|outage| outage.time).or(silence)?;
        Some(SilentDevice {
            path: &device.path,
            time,
            outage,
        })
    })
}

fn is_used(device: &DeviceInfo) -> bool {
    matches!(device.state, DeviceState::Online | DeviceState::Resilvering)
}

/// Tells of devices that do not answer any more, or again: slow ones, that the pool does without, among them. Returns
/// whether nothing waits for a device.
pub(crate) fn note_stalled(active: &ActivePool, devices: &[DeviceInfo]) -> bool {
    let stalled = silences(devices).filter(SilentDevice::is_stalled);
    let mut stalled: BTreeSet<String> = stalled.map(|found| found.path.to_owned()).collect();
    let none_waits = stalled.is_empty();
    let slow = devices.iter().filter(|device| device.is_slow);
    stalled.extend(slow.map(|device| device.path.clone()));
    let caches = active.pool.cache_devices().list();
    let slow = caches.iter().filter(|cache| cache.is_slow);
    stalled.extend(slow.map(|cache| cache.path.clone()));
    active.note_stalled(stalled, |path| {
        let found = devices.iter().find(|device| device.path == path);
        found.is_some_and(is_used) || caches.iter().any(|cache| cache.path == path)
    });
    none_waits
}

/// The advice for a suspended pool.
pub(crate) fn end_of_suspension(pool: &Pool) -> String {
    let name = pool.name();
    match pool.suspended_until() {
        Some(SuspensionEnd::Imported) if pool.multihost().is_taken() => format!(
            "Run 'strongroom pool export -f {name}' here. The pool works on the other machine; to use it here again, \
             export it there first, or import it with -f if that machine is lost."
        ),
        Some(SuspensionEnd::Imported) => format!(
            "Repair the device, then run 'strongroom pool export -f {name}' and 'strongroom pool import {name}'."
        ),
        _ => format!("Run 'strongroom pool clear {name}' when the device works."),
    }
}

/// A device that lacks data although the resilver has ended.
pub(crate) fn incomplete<'a>(
    devices: &'a [DeviceInfo],
    resilver: &ResilverStatus,
) -> Option<&'a DeviceInfo> {
    let mut devices = devices.iter().filter(|_| !resilver.is_running());
    devices.find(|device| device.state == DeviceState::Resilvering)
}

/// The message for data without a good copy, and the advice.
pub(crate) fn advice_on_data(
    pool: &str,
    devices: &[DeviceInfo],
    scrub: &ScrubStatus,
    resilver: &ResilverStatus,
) -> (Option<String>, Option<String>) {
    if let Some(new) = incomplete(devices, resilver) {
        let old = devices.iter().find(|device| device.guid == new.replaces);
        let stays = old.map_or(String::new(), |old| {
            format!(" {} stays in the pool until they are copied.", old.path)
        });
        let is_for_good = |old: &&DeviceInfo| !new.was_spare && old.replaces == 0;
        let or_lose = old.filter(is_for_good).map_or(String::new(), |old| {
            format!(
                ", or what it lacks: 'strongroom pool detach -f {pool} {}'",
                old.path
            )
        });
        let (path, errors) = (&new.path, resilver.progress.errors);
        return (
            Some(format!(
                "{path} lacks {errors} records or nodes, of which the resilver found no good copy.{stays}"
            )),
            Some(format!(
                "Bring back devices that have a copy, or delete what is damaged ('pool status -v' names it). Then \
                 resilver again: 'strongroom pool clear {pool}'. Or give up {path}: 'strongroom pool detach {pool} \
                 {path}'{or_lose}."
            )),
        );
    }
    match scrub {
        ScrubStatus { errors: 0, .. } => (None, None),
        scrub if scrub.errors == scrub.unreadable => (
            Some(
                "Some data cannot be read, because a device fails. No other good copy was found."
                    .into(),
            ),
            Some(format!(
                "Repair the device or bring back others that have a copy. Then run 'strongroom pool scrub {pool}'."
            )),
        ),
        _ => (
            Some("Some data is damaged in every copy.".into()),
            Some(format!(
                "Restore the damaged files from a backup or a snapshot. 'strongroom pool status -v {pool}' names them."
            )),
        ),
    }
}

/// The message for the worst problem of a pool, and the advice.
pub(crate) fn advice(pool: &str, devices: &[DeviceInfo]) -> (Option<String>, Option<String>) {
    let some = |state| {
        let mut members = devices.iter().filter(|device| device.group.is_some());
        members
            .find(|device| device.state == state)
            .map(|device| device.path.as_str())
    };
    let say = |trouble: String, action: String| (Some(trouble), Some(action));
    if let Some(path) = some(DeviceState::Faulted) {
        return say(
            format!("{path} failed and is not used any more. The pool works without it."),
            format!(
                "Replace it: 'strongroom pool replace {pool} {path} NEW'. If it works again: 'strongroom pool \
                 clear {pool} {path}'."
            ),
        );
    }
    if let Some(path) = some(DeviceState::Missing) {
        return say(
            format!("{path} is missing. The pool works without it."),
            format!(
                "Attach it and run 'strongroom pool online {pool} {path}', or replace it: \
                 'strongroom pool replace {pool} {path} NEW'."
            ),
        );
    }
    if some(DeviceState::Resilvering).is_some() {
        return say(
            "A device is being resilvered. The pool works meanwhile.".into(),
            "Wait for the resilver to end.".into(),
        );
    }
    if let Some(path) = some(DeviceState::Offline) {
        return say(
            format!("{path} was taken offline. The pool works without it."),
            format!("Bring it back with 'strongroom pool online {pool} {path}'."),
        );
    }
    let has_failed = |device: &&DeviceInfo| device.errors != Default::default();
    match devices.iter().find(has_failed) {
        Some(device) => say(
            format!(
                "{} had errors. They were repaired where another copy was good.",
                device.path
            ),
            format!(
                "If errors continue, replace it: 'strongroom pool replace {pool} {}'. To reset the counts: \
                 'strongroom pool clear {pool}'.",
                device.path
            ),
        ),
        None => (None, None),
    }
}

/// The message about a pool that fills up, and the advice.
pub(crate) fn fullness(pool: &str, full: Fullness) -> (Option<String>, Option<String>) {
    let end = match full.level {
        0 => return (None, None),
        1 => "",
        2 => " Little is left.",
        _ => " Programs will soon get ENOSPC.",
    };
    (
        Some(format!("{} % of the space is in use.{end}", full.percent)),
        Some(format!(
            "To see what takes it: 'strongroom list -o space -r {pool}'. Free space, or add a device."
        )),
    )
}

/// The message about space that the pool could gain from larger devices, if it has no problem.
pub(crate) fn growth(
    pool: &str,
    devices: &[DeviceInfo],
    expandable: &[Expandable],
) -> (Option<String>, Option<String>) {
    let found = expandable
        .iter()
        .max_by_key(|device| (device.unused, device.gain));
    let device = found.and_then(|found| devices.iter().find(|d| d.guid == found.guid));
    let Some(DeviceInfo { path, .. }) = device else {
        return (None, None);
    };
    let what = match found.is_some_and(|found| found.unused > 0) {
        true => format!("{path} became larger, and the pool does not use all of it."),
        false => format!("The devices beside {path} are larger than the pool uses."),
    };
    let action = format!(
        "To use all of it: 'strongroom pool online -e {pool} {path}'. To do so each time: 'strongroom set \
         autoexpand=on {pool}'."
    );
    (Some(what), Some(action))
}

/// The rows of the devices for a report.
pub(crate) fn rows(
    devices: &[DeviceInfo],
    expandable: &[Expandable],
    resilver: &ResilverStatus,
) -> Vec<DeviceRow> {
    let unused_of = |guid: u64| {
        let found = expandable.iter().find(|device| device.guid == guid);
        found.map_or(0, |device| device.unused)
    };
    let path_of = |guid: u64| {
        let replaced = devices.iter().find(|device| device.guid == guid);
        replaced.map(|device| device.path.clone())
    };
    let row = |device: &DeviceInfo| DeviceRow {
        path: device.path.clone(),
        guid: device.guid,
        size: device.size,
        unused: unused_of(device.guid),
        state: match device.state {
            DeviceState::Online if device.purpose == Purpose::Leaving => "REMOVING",
            DeviceState::Resilvering if !resilver.is_running() => "INCOMPLETE",
            DeviceState::Online if device.is_slow => "SLOW",
            state => state_name(state),
        }
        .into(),
        group: device.group,
        is_log: device.purpose == Purpose::Logs,
        is_cache: false,
        parity: device.shape.parity(),
        column: device.column,
        replaces: path_of(device.replaces),
        was_spare: device.was_spare,
        read: device.errors.read,
        write: device.errors.write,
        checksum: device.errors.checksum,
        io: device.io_mode.map(|mode| mode.as_str().into()),
    };
    devices.iter().map(row).collect()
}

impl Daemon {
    /// Notes the begin and the end of outages as events, from now on.
    pub(crate) fn follow_outages(self: &Arc<Self>) -> std::io::Result<()> {
        let changes = Arc::clone(&self.store_changes);
        let daemon = Arc::downgrade(self);
        threads::start("store-outages", move || {
            let mut woken = 0;
            loop {
                woken = changes.wait(woken, IDLE);
                let Some(daemon) = daemon.upgrade() else {
                    return;
                };
                for active in daemon.pools() {
                    let devices = active.pool.devices();
                    if devices.iter().any(|device| is_on_store(&device.path)) {
                        note_stalled(&active, &devices);
                    }
                }
            }
        })
        .map(drop)
    }
}
