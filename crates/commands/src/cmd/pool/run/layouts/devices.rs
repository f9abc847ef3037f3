//! `pool add`, `attach` and so on: which devices a pool is made of.

use std::path::PathBuf;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, usage};
use protocol::api::{
    DeviceChange, DeviceGroup, DeviceRow, Failure, FailureKind, NewPoolDevices, PoolReport, command,
};

use super::device_words::{device, devices, member};
use super::layout::layout_of;
use crate::cmd::pool::args::{Activity, PoolCommand};
use crate::cmd::pool::run::wait::{self, INCOMPLETE, until_ended};

/// Has the devices of a pool changed.
pub(crate) fn run(args: PoolCommand, session: &mut Session) -> Result {
    let awaited = match &args {
        PoolCommand::Attach(args) if args.wait => Some(Activity::Resilver),
        PoolCommand::Replace(args) if args.wait => Some(Activity::Resilver),
        _ => None,
    };
    let (pool, change) = change(args)?;
    let would_be = match &change {
        DeviceChange::Add {
            devices,
            dry_run: true,
            ..
        } => Some(added(&pool, devices, session)?),
        _ => None,
    };
    let command = command::PoolDevices {
        pool: pool.clone(),
        change,
    };
    let done = call_quiet(session, command)?;
    if let Some(activity) = awaited {
        let report = until_ended(&pool, activity, session)?;
        let mut devices = report.devices.iter();
        if let Some(device) = devices.find(|device| device.state == INCOMPLETE) {
            return Err(Failure {
                kind: FailureKind::Damaged,
                message: format!(
                    "the resilver of '{pool}' ended, and {} lacks {} records: strongroom pool status -v {pool}",
                    device.path, report.resilver.errors
                ),
            });
        }
    }
    Ok(would_be.map_or(done, Outcome::text))
}

/// The output of `pool add -n`: the devices of the pool, then the new ones.
fn added(pool: &str, new: &NewPoolDevices, session: &mut Session) -> Result<String> {
    let report = wait::report(pool, session)?;
    let mut all = present(&report);
    all.groups.extend(new.groups.iter().cloned());
    all.logs.extend(new.logs.iter().cloned());
    all.caches.extend(new.caches.iter().cloned());
    all.spares.extend(new.spares.iter().cloned());
    Ok(format!(
        "would update '{pool}' to the following configuration:\n\n\t{pool}\n{}",
        layout_of(&all)
    ))
}

fn present(pool: &PoolReport) -> NewPoolDevices {
    let path = |device: &DeviceRow| PathBuf::from(&device.path);
    let mut present = NewPoolDevices::default();
    let same = |a: &DeviceRow, b: &DeviceRow| (a.group, a.is_cache) == (b.group, b.is_cache);
    for group in pool.devices.chunk_by(same) {
        let first = &group[0];
        let devices = group.iter().map(path);
        match (first.group, first.is_cache) {
            (None, true) => present.caches.extend(devices),
            (None, false) => present.spares.extend(devices),
            (Some(_), _) => {
                let groups = match first.is_log {
                    true => &mut present.logs,
                    false => &mut present.groups,
                };
                groups.push(DeviceGroup {
                    devices: devices.collect(),
                    parity: first.parity,
                });
            }
        }
    }
    present
}

fn change(args: PoolCommand) -> Result<(String, DeviceChange)> {
    Ok(match args {
        PoolCommand::Add(args) => {
            let change = DeviceChange::Add {
                devices: Box::new(devices(&args.words, false)?),
                force: args.force,
                dry_run: args.dry_run,
            };
            (args.pool, change)
        }
        PoolCommand::Attach(args) => {
            let change = DeviceChange::Attach {
                device: member(&args.device)?,
                new: device(&args.new)?,
                force: args.force,
                follow: args.follow,
            };
            (args.pool, change)
        }
        PoolCommand::Detach(args) => {
            let device = member(&args.device)?;
            let force = args.force;
            (args.pool, DeviceChange::Detach { device, force })
        }
        PoolCommand::Replace(args) => {
            let change = DeviceChange::Replace {
                device: member(&args.device)?,
                new: args.new.as_deref().map(device).transpose()?,
                force: args.force,
            };
            (args.pool, change)
        }
        PoolCommand::Offline(args) => {
            let change = DeviceChange::Offline {
                device: member(&args.device)?,
                temporary: args.temporary,
            };
            (args.pool, change)
        }
        PoolCommand::Online(args) => {
            let (device, expand) = (member(&args.device)?, args.expand);
            (args.pool, DeviceChange::Online { device, expand })
        }
        PoolCommand::Remove(args) => {
            let wait = args.wait;
            let device = args.device.as_deref().map(member).transpose()?;
            let remove = |device| DeviceChange::Remove { device, wait };
            (args.pool, device.map_or(DeviceChange::StopRemove, remove))
        }
        PoolCommand::Clear(args) => {
            let device = args.device.as_deref().map(member).transpose()?;
            (args.pool, DeviceChange::Clear { device })
        }
        other => return Err(usage(format!("{other:?} does not change devices"))),
    })
}
