//! Pools and their devices.

use protocol::api::{CheckpointUse, DeviceChange, Props, Reply, SpaceWork};

use super::done;
use super::line::{HistoryText, size};
use crate::ops::pools::health;
use crate::ops::pools::sweeps::kind;

root_only!(
    PoolCreate,
    |it| {
        let props = it.props.iter().cloned();
        let (place, props): (Props, Props) = props.partition(|(name, _)| name == "mountpoint");
        HistoryText::new("pool create")
            .flag("-f", it.force)
            .flag("-n", it.dry_run)
            .flag("-N", it.no_mount)
            .option("-s", it.size.map(size))
            .option("-t", it.temporary_name.as_ref())
            .option("-R", it.altroot.as_ref().map(|root| root.to_string_lossy()))
            .option("-m", place.first().map(|(_, dir)| dir))
            .props("-O", &props)
            .word(&it.pool)
            .devices(&it.devices)
    },
    |it, daemon, context| daemon.create_pool(it, context).map(done)
);

root_only!(
    PoolImportable,
    |it| HistoryText::new("pool import").search(&it.search),
    |it, daemon, _| daemon.importable(&it.search).map(Reply::Importable)
);

root_only!(
    PoolImport,
    |it| HistoryText::new("pool import")
        .flag("--accept", it.accept)
        .flag("-a", it.pool.is_none())
        .flag("-f", it.force)
        .flag("-l", it.load_keys)
        .flag("-m", it.without_logs)
        .flag("-N", it.no_mount)
        .flag("-t", it.temporary_name)
        .flag(
            "--rewind-to-checkpoint",
            it.checkpoint == CheckpointUse::Rewind
        )
        .flag(
            "--discard-checkpoint",
            it.checkpoint == CheckpointUse::Discard
        )
        .option("-o", it.read_only.then_some("readonly=on"))
        .option("-o", it.without_reservations.then_some("reservations=off"))
        .option("-R", it.altroot.as_ref().map(|root| root.to_string_lossy()))
        .search(&it.search)
        .words(&it.pool)
        .words(&it.new_name),
    |it, daemon, context| daemon.import_pools(it, None, context).map(Reply::Names)
);

root_only!(
    PoolExport,
    |it| HistoryText::new("pool export")
        .flag("-f", it.force)
        .word(&it.pool),
    |it, daemon, context| daemon.export_pool(&it.pool, it.force, context).map(done)
);

root_only!(
    PoolDestroy,
    |it| HistoryText::new("pool destroy")
        .flag("-f", it.force)
        .word(&it.pool),
    |it, daemon, context| daemon.destroy_pool(&it.pool, it.force, context).map(done)
);

root_only!(
    PoolStatus,
    |it| HistoryText::new("pool status").words(&it.pools),
    |it, daemon, _| daemon.status(&it.pools, it.names_files).map(Reply::Pools)
);

root_only!(
    PoolIo,
    |it| HistoryText::new("pool iostat").words(&it.pools),
    |it, daemon, _| daemon.pool_io(&it.pools).map(Reply::Io)
);

root_only!(
    PoolDevices,
    |it| of_devices(&it.pool, &it.change),
    |it, daemon, context| daemon
        .change_devices(&it.pool, &it.change, context)
        .map(done)
);

fn of_devices(pool: &str, change: &DeviceChange) -> HistoryText {
    match change {
        DeviceChange::Add {
            devices,
            force,
            dry_run,
        } => {
            let line = HistoryText::new("pool add").flag("-f", *force);
            let line = line.flag("-n", *dry_run);
            line.word(pool).devices(devices)
        }
        DeviceChange::Attach { device, new, force } => {
            let line = HistoryText::new("pool attach").flag("-f", *force);
            line.word(pool).word(device).path(new)
        }
        DeviceChange::Detach { device, force } => {
            let line = HistoryText::new("pool detach").flag("-f", *force);
            line.word(pool).word(device)
        }
        DeviceChange::Replace { device, new, force } => {
            let line = HistoryText::new("pool replace").flag("-f", *force);
            let line = line.word(pool).word(device);
            new.iter().fold(line, |line, path| line.path(path))
        }
        // Whether the caller waits for it is not what was done.
        DeviceChange::Remove { device, wait: _ } => {
            HistoryText::new("pool remove").word(pool).word(device)
        }
        DeviceChange::StopRemove => HistoryText::new("pool remove -s").word(pool),
        DeviceChange::Offline { device, temporary } => {
            let line = HistoryText::new("pool offline").flag("-t", *temporary);
            line.word(pool).word(device)
        }
        DeviceChange::Online { device, expand } => {
            let line = HistoryText::new("pool online").flag("-e", *expand);
            line.word(pool).word(device)
        }
        DeviceChange::Clear { device } => HistoryText::new("pool clear").word(pool).words(device),
        DeviceChange::Reopen => HistoryText::new("pool reopen").word(pool),
    }
}

root_only!(
    PoolSplit,
    |it| {
        let line = HistoryText::new("pool split")
            .flag("-n", it.dry_run)
            .flag("-l", it.load_keys)
            .option("-R", it.altroot.as_ref().map(|root| root.to_string_lossy()));
        line.word(&it.pool).word(&it.new).words(&it.devices)
    },
    |it, daemon, context| daemon.split_pool(it, context).map(Reply::Names)
);

root_only!(
    PoolReguid,
    |it| HistoryText::new("pool reguid")
        .flag("-l", it.load_keys)
        .word(&it.pool),
    |it, daemon, context| daemon
        .renumber_pool(&it.pool, it.load_keys, context)
        .map(done)
);

root_only!(
    PoolSync,
    |it| HistoryText::new("pool sync").words(&it.pools),
    |it, daemon, _| {
        let pools = daemon.pools_named(&it.pools)?;
        for active in pools.iter().filter(|p| !p.pool.is_read_only()) {
            active.pool.commit()?;
        }
        Ok(Reply::Nothing)
    }
);

root_only!(
    PoolScrub,
    |it| HistoryText::new("pool scrub")
        .flag("-p", it.pause)
        .flag("-s", it.stop)
        .word(&it.pool),
    |it, daemon, context| daemon
        .pool(&it.pool)?
        .scrub(it.stop, it.pause, context)
        .map(done)
);

root_only!(
    PoolCheckpoint,
    |it| HistoryText::new("pool checkpoint")
        .flag("-d", it.discard)
        .word(&it.pool),
    |it, daemon, context| daemon
        .pool(&it.pool)?
        .checkpoint(it.discard, context)
        .map(done)
);

root_only!(
    PoolSweep,
    |it| {
        let line = HistoryText::new(match it.what {
            SpaceWork::Trim => "pool trim",
            SpaceWork::Initialize => "pool initialize",
        });
        let line = line.flag("-c", it.stop).flag("-s", it.pause);
        line.word(&it.pool).words(&it.device)
    },
    |it, daemon, context| daemon
        .pool(&it.pool)?
        .sweep(
            kind(it.what),
            it.device.as_deref(),
            (it.stop, it.pause),
            context
        )
        .map(done)
);

root_only!(
    PoolEvents,
    |it| HistoryText::new("pool events").flag("-c", it.clear),
    |it, daemon, _| {
        for active in daemon.pools() {
            // A device that does not answer could keep the comparison waiting.
            if health::note_stalled(&active, &active.pool.devices()) {
                active.observe();
            }
        }
        if it.clear {
            daemon.events.clear();
            return Ok(Reply::Nothing);
        }
        Ok(Reply::Events(daemon.events.after(it.after)))
    }
);

root_only!(
    PoolLabelClear,
    |it| HistoryText::new("pool labelclear")
        .flag("-f", it.force)
        .path(&it.device),
    |it, daemon, _| daemon.clear_label(&it.device, it.force).map(done)
);

root_only!(
    PoolFeatures,
    |it| HistoryText::new("pool upgrade").words(&it.pools),
    |it, daemon, _| daemon.features(&it.pools).map(Reply::Features)
);

root_only!(
    PoolHistory,
    |it| HistoryText::new("pool history")
        .flag("-i", it.internal)
        .word(&it.pool),
    |it, daemon, _| daemon.history(&it.pool, it.internal).map(Reply::History)
);

root_only!(Inspect, |_| HistoryText::new("inspect"), |it, daemon, _| {
    let inspection = daemon.inspect(&it.target, it.detail, it.check)?;
    Ok(Reply::Inspection(Box::new(inspection)))
});
