//! Pools and their devices.

use protocol::api::Reply;

use super::done;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::ops::pools::health;
use crate::ops::pools::sweeps::kind;

root_only! {
    PoolCreate: |it, daemon, context| daemon.create_pool(it, context).map(done);
    PoolImportable: |it, daemon, _| daemon.importable(&it.search).map(Reply::Importable);
    PoolImport: |it, daemon, context| daemon.import_pools(it, None, context).map(Reply::Names);
    PoolExport: |it, daemon, context| daemon.export_pool(&it.pool, it.force, context).map(done);
    PoolRefresh: |it, daemon, context| daemon.refresh_pool(&it.pool, context).map(Reply::Refreshed);
    PoolDestroy: |it, daemon, context| daemon.destroy_pool(&it.pool, it.force, context).map(done);
    PoolStatus: |it, daemon, _| daemon.status(&it.pools, it.names_files).map(Reply::Pools);
    PoolIo: |it, daemon, _| daemon.pool_io(&it.pools).map(Reply::Io);
    PoolDevices: |it, daemon, context| daemon.change_devices(&it.pool, &it.change, context).map(done);
    PoolSplit: |it, daemon, context| daemon.split_pool(it, context).map(Reply::Names);
    PoolReguid: |it, daemon, context| daemon.renumber_pool(&it.pool, it.load_keys, context).map(done);
    PoolSync: |it, daemon, _| {
        let pools = daemon.pools_named(&it.pools)?;
        for active in pools.iter().filter(|p| !p.pool.is_read_only()) {
            active.pool.commit()?;
        }
        Ok(Reply::Nothing)
    };
    PoolScrub: |it, daemon, context| {
        let active = daemon.pool(&it.pool)?;
        if it.dry_run {
            return Ok(Reply::ScrubEstimate(active.scrub_estimate()));
        }
        active.scrub(it.stop, it.pause, context).map(done)
    };
    PoolCheckpoint: |it, daemon, context| daemon.pool(&it.pool)?.checkpoint(it.discard, context).map(done);
    PoolSweep: |it, daemon, context| {
        let (device, end) = (it.device.as_deref(), (it.stop, it.pause));
        daemon.pool(&it.pool)?.sweep(kind(it.what), device, end, context).map(done)
    };
    PoolEvents: |it, daemon, _| {
        for active in daemon.pools() {
            // A device that does not answer could keep the comparison waiting.
            if health::note_stalled(&active, &active.pool.devices()) {
                unless_stalled(&active, |active| active.observe());
            }
        }
        if it.clear {
            daemon.events.clear();
            return Ok(Reply::Nothing);
        }
        Ok(Reply::Events(daemon.events.after(it.after)))
    };
    PoolLabelClear: |it, daemon, context| daemon.clear_label(&it.device, it.force, context).map(done);
    ObjectsProbe: |it, daemon, _| daemon.probe_store(&it.address).map(Reply::StoreProbe);
    PoolFeatures: |it, daemon, _| daemon.features(&it.pools).map(Reply::Features);
    PoolHistory: |it, daemon, _| daemon.history(&it.pool, it.internal).map(Reply::History);
    Audit: |it, daemon, context| daemon.audit(&it.pool, it.from, context).map(Reply::Audit);
    AuditVerify: |it, daemon, _| daemon.audit_report(&it.pool, it.anchor.as_ref()).map(Reply::AuditReport);
    Inspect: |it, daemon, _| {
        let inspection = daemon.inspect(&it.target, it.detail, it.check)?;
        Ok(Reply::Inspection(Box::new(inspection)))
    };
}
