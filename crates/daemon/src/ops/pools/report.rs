//! The report on a pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pool::{
    DeviceInfo, Expandable, RemovalPhase, RemovalStatus, ScrubPhase, ScrubStatus, SweepKind,
};
use protocol::api::{Fullness, PoolReport, RemovalRow, RetentionRow, ScrubRow};

use crate::failure::{Failure, Result};
use crate::ops::devices::caches;
use crate::ops::devices::followers;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::ops::pools::damage;
use crate::ops::pools::health;
use crate::ops::pools::scrubs;
use crate::state::pools::active_pool::ActivePool;

/// A device that has not answered for so long is not asked more.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

/// The report on a pool, with what `more` adds. While a store does not answer, the last report with the outage.
pub(crate) fn report_in_time(
    active: &Arc<ActivePool>,
    names_files: bool,
    more: impl FnOnce(&mut PoolReport) -> Result<()> + Send + 'static,
) -> Result<PoolReport> {
    let made = unless_stalled(active, move |active| {
        let mut report = report(active, names_files)?;
        more(&mut report)?;
        Ok::<_, Failure>(report)
    });
    match made {
        Some(report) => {
            let report = report?;
            active.last_report.note(&report);
            Ok(report)
        }
        None => Ok(stalled_report(active)),
    }
}

/// The report on a pool whose store does not answer.
fn stalled_report(active: &ActivePool) -> PoolReport {
    let devices = active.pool.devices();
    health::note_stalled(active, &devices);
    let last = active.last_report.get();
    let name = active.pool.name();
    let rest = match last.is_some() {
        true => "All else is as it was before the outage.",
        false => "All else is not known.",
    };
    let mut report = last.unwrap_or_else(|| blank(&name, active.pool.guid()));
    report.health = "STALLED".into();
    let advice = health::silent(&devices).map(|device| device.advice());
    let (trouble, action) = advice.unzip();
    let trouble = trouble.map(|trouble| format!("{trouble} {rest}"));
    (report.trouble, report.action) = (trouble.or(Some(rest.into())), action);
    report
}

/// A report on a pool of which nothing is known.
pub(crate) fn blank(name: &str, guid: u64) -> PoolReport {
    let none = ScrubRow {
        state: "none".into(),
        ..ScrubRow::default()
    };
    PoolReport {
        name: name.into(),
        guid,
        health: "UNAVAIL".into(),
        trouble: None,
        action: None,
        size: 0,
        allocated: 0,
        free: 0,
        space_low: None,
        expandable: 0,
        dedupratio: 1.0,
        freeing: false,
        read_only: false,
        txg: 0,
        devices: Vec::new(),
        scrub: none.clone(),
        scrub_late: None,
        altroot: None,
        resilver: none,
        removal: None,
        trim: None,
        checkpoint: None,
        retention: None,
        follower: None,
        initialize: None,
        damage: Vec::new(),
        waiting: Vec::new(),
        reader: None,
    }
}

/// The report on a pool. With `names_files` it names the files that are damaged, as far as their keys are loaded.
pub(crate) fn report(active: &ActivePool, names_files: bool) -> Result<PoolReport> {
    let pool = &active.pool;
    let space = pool.space();
    let scrub = pool.scrubber().status();
    let suspended = pool.suspended();
    let (devices, resilver) = (pool.devices(), pool.resilverer().status());
    let of_resilver = match health::incomplete(&devices, &resilver) {
        Some(_) => &resilver.progress.damage[..],
        None => &[],
    };
    let found: Vec<&pool::Damage> = scrub.damage.iter().chain(of_resilver).collect();
    let degraded = health::degraded(&devices);
    let waits = health::silent(&devices);
    let silent = waits.as_ref().filter(|found| found.is_stalled());
    health::note_stalled(active, &devices);
    let (trouble, action) = match &suspended {
        Some(reason) => (
            Some(format!("The pool accepts no changes: {reason}")),
            Some(health::end_of_suspension(pool)),
        ),
        None => match health::advice_on_data(&pool.name(), &devices, &scrub, &resilver) {
            (None, None) => match health::advice(&pool.name(), &devices) {
                (None, None) => active.advice_on_reencryption(),
                advice => advice,
            },
            advice => advice,
        },
    };
    let (trouble, action) = match (silent, &suspended) {
        (Some(device), None) => {
            let (trouble, action) = device.advice();
            (Some(trouble), Some(action))
        }
        _ => (trouble, action),
    };
    let (trouble, action) = match trouble {
        None => active.advice_on_state(),
        trouble => (trouble, action),
    };
    let shared = pool.dedup_info();
    // This uses the devices: not one that may not answer.
    let asked = { waits.as_ref() }.filter(|found| found.is_stalled() || found.time >= ASKED_AGAIN);
    let is_quiet = asked.is_none();
    let may_read = suspended.is_none() && is_quiet;
    let expandable = match may_read {
        true => pool.expandable(),
        false => Vec::new(),
    };
    let damage = damage::names(active, &found, names_files && may_read);
    let allocated = space.total.saturating_sub(space.free);
    let full = health::fullness(&pool.name(), Fullness::of(allocated, space.available));
    let (trouble, action, space_low) = match (trouble, full) {
        (None, (None, _)) => {
            let (trouble, action) = health::growth(&pool.name(), &devices, &expandable);
            (trouble, action, None)
        }
        (None, (full, advice)) => (full, advice, None),
        (trouble, (full, _)) => (trouble, action, full),
    };
    let mut rows = health::rows(&devices, &expandable, &resilver);
    rows.extend(caches::rows(pool));
    Ok(PoolReport {
        name: pool.name(),
        guid: pool.guid(),
        health: match (silent, &suspended, degraded) {
            (Some(_), ..) => "STALLED",
            (None, Some(_), _) => "SUSPENDED",
            (None, None, true) => "DEGRADED",
            (None, None, false) => "ONLINE",
        }
        .into(),
        trouble,
        action,
        size: space.total,
        allocated,
        free: space.available,
        space_low,
        expandable: gain(&devices, &expandable),
        dedupratio: ratio(shared.referenced, shared.stored) as f64 / 100.0,
        freeing: space.freeing + space.freeing_waits > 0,
        read_only: pool.is_read_only(),
        txg: pool.committed_txg(),
        devices: rows,
        scrub: scan_row(&scrub, None),
        scrub_late: scrubs::late(pool),
        altroot: active
            .altroot
            .as_ref()
            .map(|root| root.display().to_string()),
        resilver: scan_row(&resilver.progress, resilver.waits),
        removal: pool.removal().status().map(removal_row),
        trim: active.sweep_row(SweepKind::Trim),
        initialize: active.sweep_row(SweepKind::Initialize),
        checkpoint: active.checkpoint_row(),
        retention: pool.retained_until().map(|until| RetentionRow {
            until,
            pool_time: pool.time(),
        }),
        follower: followers::row(pool),
        damage,
        waiting: Vec::new(),
        reader: active.reader_row(),
    })
}

/// The space that all groups would gain together.
fn gain(devices: &[DeviceInfo], expandable: &[Expandable]) -> u64 {
    let groups = expandable.iter().filter_map(|found| {
        let device = devices.iter().find(|device| device.guid == found.guid)?;
        Some((device.group, found.gain))
    });
    groups.collect::<BTreeMap<_, _>>().into_values().sum()
}

fn scan_row(scan: &ScrubStatus, waits: Option<String>) -> ScrubRow {
    ScrubRow {
        state: match scan.phase {
            ScrubPhase::None => "none",
            ScrubPhase::Running => "running",
            ScrubPhase::Finished => "finished",
            ScrubPhase::Stopped => "stopped",
            ScrubPhase::Paused => "paused",
        }
        .into(),
        started: scan.started,
        ended: scan.ended,
        examined: scan.examined,
        total: scan.total,
        repaired: scan.repaired,
        errors: scan.errors,
        unreadable: scan.unreadable,
        waits,
    }
}

fn removal_row(removal: RemovalStatus) -> RemovalRow {
    RemovalRow {
        state: match removal.phase {
            RemovalPhase::Running => "running",
            RemovalPhase::Finished => "finished",
            RemovalPhase::Stopped => "stopped",
            RemovalPhase::Stopping => "stopping",
        }
        .into(),
        name: removal.name,
        started: removal.started,
        ended: removal.ended,
        total: removal.total,
        left: removal.left,
        waits: removal.waits,
    }
}

/// The ratio of bytes before compression to bytes on disk, in hundredths, at least 1.00.
pub(crate) fn ratio(logical: u64, on_disk: u64) -> u64 {
    match on_disk {
        0 => 100,
        _ => ((u128::from(logical) * 100 / u128::from(on_disk)) as u64).max(100),
    }
}
