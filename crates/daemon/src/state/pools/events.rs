//! Recent events of pools: a bounded list in memory, for `pool events`.
//!
//! Most events are found by comparison. The worker of a pool, and each command that asks for events, compares the pool
//! with its state at the last comparison. So no code that changes a pool can forget an event.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use parking_lot::Mutex;
use pool::{DeviceState, Pool, RemovalPhase, ScrubPhase, ScrubStatus};
use protocol::api::{EventRow, Fullness};
use store::ErrorCounts;

use crate::host::process::system::now_secs;
use crate::state::keys::wrong_keys::{WrongKey, WrongKeys};

/// The number of events that are kept. Older ones are dropped.
const EVENTS_MAX: usize = 1000;
/// The largest number of characters in the text of an event.
const TEXT_MAX: usize = 1000;

/// The events of all pools.
#[derive(Default)]
pub(crate) struct EventLog {
    ring: Mutex<EventRing>,
    /// The wrong keys that users tried lately. Many of them are one event.
    pub(crate) wrong_keys: WrongKeys,
}

#[derive(Default)]
struct EventRing {
    last: u64,
    events: VecDeque<EventRow>,
}

impl EventLog {
    /// Adds an event. Exported pools can have events too.
    pub(crate) fn add(&self, class: &str, pool: &str, text: &str) {
        let mut ring = self.ring.lock();
        ring.last += 1;
        let event = EventRow {
            id: ring.last,
            time: now_secs(),
            class: class.into(),
            pool: pool.into(),
            text: text.chars().take(TEXT_MAX).collect(),
        };
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
    }

    /// Counts a wrong key, and adds an event if it is worth one. `pool` is `-` for a container.
    pub(crate) fn add_wrong_key(&self, pool: &str, wrong: &WrongKey<'_>) {
        if let Some(text) = self.wrong_keys.add(wrong, Instant::now(), now_secs()) {
            self.add("wrong_key", pool, &text);
        }
    }

    /// The events with greater numbers, the oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<EventRow> {
        let ring = self.ring.lock();
        let newer = ring.events.iter().filter(|event| event.id > id);
        newer.cloned().collect()
    }

    /// Drops all events. The numbers continue.
    pub(crate) fn clear(&self) {
        self.ring.lock().events.clear();
    }
}

/// The compared state of a pool.
#[derive(Clone, Default)]
pub(crate) struct PoolObservation {
    devices: BTreeMap<u64, (String, DeviceState, ErrorCounts)>,
    scrub: ScrubStatus,
    resilver: ScrubStatus,
    removal: Option<(RemovalPhase, String)>,
    suspended: Option<String>,
    full: Fullness,
    /// The datasets whose keys are loaded.
    keys: BTreeMap<u64, String>,
}

impl PoolObservation {
    /// The present state of a pool, and the datasets whose keys are loaded.
    pub(crate) fn of(pool: &Pool, keys: impl IntoIterator<Item = u64>) -> PoolObservation {
        let devices = pool.devices().into_iter();
        let space = pool.space();
        let named = |id: u64| {
            let name = pool.name_of(id);
            (id, name.unwrap_or_else(|_| format!("dataset {id}")))
        };
        PoolObservation {
            devices: devices
                .map(|device| (device.guid, (device.path, device.state, device.errors)))
                .collect(),
            scrub: pool.scrubber().status(),
            resilver: pool.resilverer().status().progress,
            removal: pool
                .removal()
                .status()
                .map(|removal| (removal.phase, removal.name)),
            suspended: pool.suspended(),
            full: Fullness::of(space.total.saturating_sub(space.free), space.available),
            keys: keys.into_iter().map(named).collect(),
        }
    }
}

impl PoolObservation {
    /// Returns this state as one that follows another one.
    pub(crate) fn after(self, before: &PoolObservation) -> PoolObservation {
        PoolObservation {
            full: self.full.after(before.full),
            ..self
        }
    }
}

/// The events between two states.
pub(crate) fn changes(
    before: &PoolObservation,
    now: &PoolObservation,
) -> Vec<(&'static str, String)> {
    let mut events = Vec::new();
    of_devices(before, now, &mut events);
    of_scans(before, now, &mut events);
    if before.removal != now.removal
        && let Some((phase, name)) = &now.removal
    {
        let (class, what) = match phase {
            RemovalPhase::Running => ("removal_start", "is being removed"),
            RemovalPhase::Finished => ("removal_finish", "was removed"),
            RemovalPhase::Stopped | RemovalPhase::Stopping => ("removal_abort", "stays"),
        };
        events.push((class, format!("{name} {what}")));
    }
    match (&before.suspended, &now.suspended) {
        (None, Some(reason)) => events.push(("pool_suspend", reason.clone())),
        (Some(_), None) => events.push(("pool_resume", "changes are accepted again".into())),
        _ => {}
    }
    if before.full.level != now.full.level {
        let text = format!("{} % of the space is in use", now.full.percent);
        events.push(("pool_space", text));
    }
    let without = |all: &PoolObservation, other: &PoolObservation| -> Vec<String> {
        let new = all
            .keys
            .iter()
            .filter(|(id, _)| !other.keys.contains_key(id));
        new.map(|(_, name)| name.clone()).collect()
    };
    events.extend(
        without(now, before)
            .into_iter()
            .map(|name| ("key_load", name)),
    );
    events.extend(
        without(before, now)
            .into_iter()
            .map(|name| ("key_unload", name)),
    );
    events
}

fn of_devices(
    before: &PoolObservation,
    now: &PoolObservation,
    events: &mut Vec<(&'static str, String)>,
) {
    for (guid, (path, state, errors)) in &now.devices {
        let Some((_, old_state, old_errors)) = before.devices.get(guid) else {
            events.push(("device_add", format!("{path} is {}", state_name(*state))));
            continue;
        };
        if state != old_state {
            let text = format!(
                "{path} was {} and is {}",
                state_name(*old_state),
                state_name(*state)
            );
            events.push(("statechange", text));
        }
        let more = errors.checksum.saturating_sub(old_errors.checksum);
        if more > 0 {
            let all = errors.checksum;
            events.push((
                "checksum",
                format!("{path}: {more} bad copies, {all} in all"),
            ));
        }
        let failed = |counts: &ErrorCounts| counts.read.saturating_add(counts.write);
        let more = failed(errors).saturating_sub(failed(old_errors));
        if more > 0 {
            let all = failed(errors);
            events.push((
                "io",
                format!("{path}: {more} failed requests, {all} in all"),
            ));
        }
    }
    for (guid, (path, ..)) in &before.devices {
        if !now.devices.contains_key(guid) {
            events.push(("device_remove", format!("{path} left the pool")));
        }
    }
}

fn of_scans(
    before: &PoolObservation,
    now: &PoolObservation,
    events: &mut Vec<(&'static str, String)>,
) {
    let (old, new) = (&before.scrub, &now.scrub);
    let is_other = (old.started, old.phase) != (new.started, new.phase) || old.ended != new.ended;
    let text = || format!("{} copies repaired, {} errors", new.repaired, new.errors);
    // One that began and ended between two looks has both events.
    let began = is_other && old.phase != ScrubPhase::Running;
    match (new.phase, old.phase) {
        (ScrubPhase::None, _) => {}
        (ScrubPhase::Running, ScrubPhase::Paused) if is_other && old.started == new.started => {
            events.push(("scrub_resume", "it goes on where it was".into()));
        }
        (phase, old_phase) => {
            if began && (new.started != old.started || phase == ScrubPhase::Running) {
                events.push(("scrub_start", "all data is read and verified".into()));
            }
            let has_changed = is_other && (phase != old_phase || new.started != old.started);
            match phase {
                ScrubPhase::Finished if is_other => events.push(("scrub_finish", text())),
                ScrubPhase::Stopped if has_changed => events.push(("scrub_abort", text())),
                ScrubPhase::Paused if has_changed => events.push(("scrub_paused", text())),
                _ => {}
            }
        }
    }
    let (old, new) = (&before.resilver, &now.resilver);
    let was_running = old.phase == ScrubPhase::Running;
    if new.phase == ScrubPhase::Running && !was_running {
        events.push(("resilver_start", "a device gets what it missed".into()));
    }
    let has_ended = was_running || new.ended != old.ended;
    if new.phase == ScrubPhase::Finished && has_ended {
        events.push((
            "resilver_finish",
            format!("{} bytes copied, {} errors", new.repaired, new.errors),
        ));
    }
}

/// The word for the state of a device.
pub(crate) fn state_name(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Online => "ONLINE",
        DeviceState::Resilvering => "RESILVERING",
        DeviceState::Offline => "OFFLINE",
        DeviceState::Faulted => "FAULTED",
        DeviceState::Missing => "MISSING",
        DeviceState::Spare => "AVAIL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(before: &PoolObservation, now: &PoolObservation) -> Vec<&'static str> {
        let all = changes(before, now).into_iter();
        all.map(|(class, _)| class).collect()
    }

    fn scrub(phase: ScrubPhase, started: u64, ended: u64) -> PoolObservation {
        let mut observed = PoolObservation::default();
        observed.scrub.phase = phase;
        observed.scrub.started = started;
        observed.scrub.ended = ended;
        observed
    }

    #[test]
    fn scrubs_begin_and_end() {
        use ScrubPhase::{Finished, Paused, Running, Stopped};
        let none = PoolObservation::default();
        #[rustfmt::skip]
        let cases: &[(PoolObservation, PoolObservation, &[&str])] = &[
            (none.clone(), none.clone(), &[]),
            (none.clone(), scrub(Running, 5, 0), &["scrub_start"]),
            (scrub(Running, 5, 0), scrub(Running, 5, 0), &[]),
            (scrub(Running, 5, 0), scrub(Paused, 5, 6), &["scrub_paused"]),
            (scrub(Paused, 5, 6), scrub(Running, 5, 6), &["scrub_resume"]),
            (scrub(Running, 5, 6), scrub(Finished, 5, 9), &["scrub_finish"]),
            (scrub(Paused, 5, 6), scrub(Stopped, 5, 7), &["scrub_abort"]),
            (scrub(Finished, 5, 9), scrub(Finished, 5, 9), &[]),
            // All of it between two looks.
            (scrub(Finished, 5, 9), scrub(Finished, 20, 21), &["scrub_start", "scrub_finish"]),
            (none, scrub(Finished, 20, 21), &["scrub_start", "scrub_finish"]),
        ];
        for (before, now, expected) in cases {
            let found = classes(before, now);
            assert_eq!(&found, expected, "{:?} {:?}", before.scrub, now.scrub);
        }
    }

    #[test]
    fn devices_and_keys_come_and_go() {
        let device = |state, checksum| {
            let errors = ErrorCounts {
                checksum,
                ..ErrorCounts::default()
            };
            PoolObservation {
                devices: [(1, ("/a".to_owned(), state, errors))].into(),
                ..PoolObservation::default()
            }
        };
        let none = PoolObservation::default();
        let online = device(DeviceState::Online, 0);
        assert_eq!(classes(&none, &online), ["device_add"]);
        assert_eq!(classes(&online, &none), ["device_remove"]);
        let failed = device(DeviceState::Faulted, 3);
        assert_eq!(classes(&online, &failed), ["statechange", "checksum"]);
        assert_eq!(classes(&failed, &online), ["statechange"]);
        let loaded = PoolObservation {
            keys: [(7, "tank/a".to_owned())].into(),
            ..PoolObservation::default()
        };
        assert_eq!(changes(&none, &loaded), [("key_load", "tank/a".to_owned())]);
        assert_eq!(classes(&loaded, &none), ["key_unload"]);
        let suspended = PoolObservation {
            suspended: Some("why".into()),
            ..PoolObservation::default()
        };
        assert_eq!(
            changes(&none, &suspended),
            [("pool_suspend", "why".to_owned())]
        );
        assert_eq!(classes(&suspended, &none), ["pool_resume"]);
    }

    #[test]
    fn a_pool_fills_up_and_is_emptied() {
        let full = |percent| PoolObservation {
            full: Fullness::of(percent, 100 - percent),
            ..PoolObservation::default()
        };
        let mut now = full(79);
        let mut told = Vec::new();
        for percent in [80, 79, 80, 91, 97, 95, 70, 98] {
            let next = full(percent).after(&now);
            told.extend(changes(&now, &next));
            now = next;
        }
        let texts = [80, 91, 97, 70, 98].map(|n| format!("{n} % of the space is in use"));
        assert_eq!(told, texts.map(|text| ("pool_space", text)));
    }

    #[test]
    fn the_list_is_bounded() {
        let events = EventLog::default();
        for n in 0..=EVENTS_MAX {
            events.add("io", "tank", &format!("{n}"));
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].id), (EVENTS_MAX, 2), "the oldest went");
        assert_eq!(events.after(EVENTS_MAX as u64).len(), 1);
        events.add("io", "tank", &"x".repeat(1 << 20));
        assert_eq!(events.after(0).pop().unwrap().text.len(), TEXT_MAX);
        events.clear();
        events.add("io", "tank", "after");
        assert_eq!(
            events.after(0)[0].id,
            EVENTS_MAX as u64 + 3,
            "numbers go on"
        );
    }
}
