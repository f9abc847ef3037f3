//! The metrics. Their names begin with `strongroom_`, except for those that every process has.
//!
//! Labels name pools, devices, datasets and operations. They contain no names or contents from inside a dataset.

use std::sync::Arc;
use std::time::Instant;

use block::DeviceMeter;
use luks::MappingMeter;
use meter::{CacheTotals, Times, Totals};
use protocol::api::{DeviceRow, Fullness, PoolReport};

use crate::failure::{Failure, Result};
use crate::ops::devices::meters;
use crate::ops::devices::stores::store_outages::unless_stalled;
use crate::ops::devices::stores::store_prices::store_io;
use crate::ops::pools::report;
use crate::serve::metrics::text::{Labels, MetricsPage};
use crate::state::daemon::Daemon;
use crate::state::exports::registry::ExportStatus;
use crate::state::pools::active_pool::ActivePool;

/// The state of a pool at one moment.
struct PoolNow {
    report: PoolReport,
    commits: Times,
    nodes: CacheTotals,
    second: CacheTotals,
    keys: usize,
    key_roots: Vec<KeySample>,
    devices: Vec<DeviceSample>,
    mounts: Vec<MountSample>,
}

/// A dataset with a key of its own.
struct KeySample {
    dataset: String,
    is_loaded: bool,
}

struct DeviceSample {
    row: DeviceRow,
    operations: Vec<(&'static str, Totals)>,
}

struct MountSample {
    dataset: String,
    operations: Vec<(&'static str, Totals)>,
    io_errors: u64,
}

impl Daemon {
    /// All metrics, as a page.
    pub(crate) fn metrics(&self) -> Result<String> {
        let pools = self
            .pools()
            .iter()
            .map(pool_now)
            .collect::<Result<Vec<_>>>()?;
        let mut page = MetricsPage::default();
        self.whole(&mut page, &pools);
        of_pools(&mut page, &pools);
        of_scrubs(&mut page, &pools);
        of_devices(&mut page, &pools);
        of_mounts(&mut page, &pools);
        let exports = self.exports_now();
        of_exports(&mut page, &exports);
        self.of_initiators(&mut page, &exports);
        self.of_replications(&mut page);
        of_mappings(&mut page, &self.mapping_meters());
        crate::serve::metrics::process::write(&mut page);
        Ok(page.into_text())
    }

    fn whole(&self, page: &mut MetricsPage, pools: &[PoolNow]) {
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        page.gauge("strongroom_info", "The version.", [(version, 1)]);
        let keys: usize = pools.iter().map(|pool| pool.keys).sum();
        page.gauge("strongroom_keys", "Loaded wrapping keys.", one(keys));
        let roots = pools.iter().flat_map(|pool| &pool.key_roots);
        page.gauge(
            "strongroom_key_loaded",
            "1 if the key of the dataset is loaded, 0 if not.",
            roots.map(|key| {
                let labels = vec![("dataset", key.dataset.clone())];
                (labels, u8::from(key.is_loaded))
            }),
        );
        page.gauge(
            "strongroom_wrong_keys",
            "Wrong keys that a user tried on a dataset or container within the last hour.",
            { self.events.wrong_keys.rows(Instant::now()).into_iter() }.map(|row| {
                let labels = vec![("name", row.name), ("user", row.user)];
                (labels, row.count)
            }),
        );
        page.gauge(
            "strongroom_dirty_bytes",
            "Written by programs and not yet in a pool.",
            one(self.engine.dirty_bytes()),
        );
        let records = self.engine.record_cache();
        cache(page, "record", "plaintext of records", [(vec![], records)]);
    }
}

fn pool_now(active: &Arc<ActivePool>) -> Result<PoolNow> {
    let report = report::report_in_time(active, false, |_| Ok(()))?;
    let more = unless_stalled(active, |active| {
        Ok::<_, Failure>((key_roots_now(active)?, mounts_now(active)?))
    });
    let (key_roots, mounts) = more.transpose()?.unwrap_or_default();
    Ok(of_report(active, report, (key_roots, mounts)))
}

fn of_report(
    active: &ActivePool,
    mut report: PoolReport,
    (key_roots, mounts): (Vec<KeySample>, Vec<MountSample>),
) -> PoolNow {
    let rows = std::mem::take(&mut report.devices);
    let devices = rows.into_iter().map(|row| DeviceSample {
        operations: meters::meter(&row.path)
            .map(|open| device_totals(&open.meter))
            .unwrap_or_default(),
        row,
    });
    PoolNow {
        commits: active.pool.commits(),
        nodes: active.pool.node_cache(),
        second: active.pool.cache_devices().totals(),
        keys: active.keys.roots().len(),
        key_roots,
        devices: devices.collect(),
        mounts,
        report,
    }
}

fn key_roots_now(active: &ActivePool) -> Result<Vec<KeySample>> {
    let datasets = active.pool.datasets()?.into_iter();
    let roots = datasets.filter(|entry| entry.suite != 0 && entry.key_root == entry.id);
    let mut found = Vec::new();
    for entry in roots {
        // Without an entry it was destroyed meanwhile.
        let Ok(dataset) = active.pool.name_of(entry.id) else {
            continue;
        };
        found.push(KeySample {
            dataset,
            is_loaded: active.keys.has(entry.id),
        });
    }
    Ok(found)
}

pub(super) fn device_totals(meter: &DeviceMeter) -> Vec<(&'static str, Totals)> {
    vec![
        ("read", meter.read.totals()),
        ("write", meter.write.totals()),
        ("flush", meter.flush.totals()),
        ("discard", meter.discard.totals()),
    ]
}

fn mounts_now(active: &ActivePool) -> Result<Vec<MountSample>> {
    let mounts = active.mounts.lock();
    mounts
        .iter()
        .map(|(id, state)| {
            Ok(MountSample {
                dataset: active.pool.name_of(*id)?,
                operations: state.meter.totals(),
                io_errors: state.meter.io_errors(),
            })
        })
        .collect()
}

fn one<V>(value: V) -> [(Labels, V); 1] {
    [(Labels::new(), value)]
}

fn cache(
    page: &mut MetricsPage,
    which: &str,
    of: &str,
    caches: impl IntoIterator<Item = (Labels, CacheTotals)>,
) {
    let caches: Vec<(Labels, CacheTotals)> = caches.into_iter().collect();
    let each = |value: fn(&CacheTotals) -> u64| {
        let values = caches.iter().map(move |(labels, cache)| (labels, cache));
        values.map(move |(labels, cache)| (labels.clone(), value(cache)))
    };
    let name = |what: &str| format!("strongroom_{which}_cache_{what}");
    let help = |what: &str| format!("Cache of {of}: {what}.");
    page.gauge(&name("bytes"), &help("bytes held"), each(|c| c.bytes));
    page.gauge(
        &name("capacity_bytes"),
        &help("bytes it may hold"),
        each(|c| c.capacity),
    );
    page.counter(&name("hits_total"), &help("found"), each(|c| c.hits));
    page.counter(
        &name("misses_total"),
        &help("not found"),
        each(|c| c.misses),
    );
}

/// A value of each pool.
fn each_pool<'a, V: 'a>(
    pools: &'a [PoolNow],
    value: impl Fn(&PoolNow) -> V + 'a,
) -> impl Iterator<Item = (Labels, V)> + 'a {
    pools.iter().map(move |pool| (pool.labels(), value(pool)))
}

impl PoolNow {
    fn labels(&self) -> Labels {
        vec![("pool", self.report.name.clone())]
    }

    fn device_labels(&self, device: &DeviceSample) -> Labels {
        let mut labels = self.labels();
        labels.push(("device", device.row.path.clone()));
        labels
    }
}

fn of_pools(page: &mut MetricsPage, pools: &[PoolNow]) {
    let state = pools.iter().map(|pool| {
        let mut labels = pool.labels();
        labels.push(("state", pool.report.health.clone()));
        (labels, 1)
    });
    page.gauge("strongroom_pool_state", "The pool is in this state.", state);
    page.gauge(
        "strongroom_pool_suspended",
        "1 if a device failed and the pool takes no changes.",
        each_pool(pools, |pool| u8::from(pool.report.health == "SUSPENDED")),
    );
    page.gauge(
        "strongroom_pool_size_bytes",
        "Space for records, in all copies.",
        each_pool(pools, |pool| pool.report.size),
    );
    page.gauge(
        "strongroom_pool_allocated_bytes",
        "Space that is taken.",
        each_pool(pools, |pool| pool.report.allocated),
    );
    page.gauge(
        "strongroom_pool_free_bytes",
        "Space that is not taken.",
        each_pool(pools, |pool| pool.report.free),
    );
    page.gauge(
        "strongroom_pool_used_percent",
        "The part that is taken of the space that writers may use.",
        each_pool(pools, |pool| {
            Fullness::of(pool.report.allocated, pool.report.free).percent
        }),
    );
    page.gauge(
        "strongroom_pool_txg",
        "The last transaction group that is durable.",
        each_pool(pools, |pool| pool.report.txg),
    );
    let followed = pools.iter().filter_map(|pool| {
        let follower = pool.report.follower.as_ref()?;
        Some((pool.labels(), follower.behind))
    });
    page.gauge(
        "strongroom_pool_image_behind_seconds",
        "How long the image of the pool in an object store lacks a commit.",
        followed,
    );
    page.histogram(
        "strongroom_pool_commit_seconds",
        "How long commits took, with those of fsync and of commands.",
        each_pool(pools, |pool| pool.commits.clone()),
    );
    let nodes = each_pool(pools, |pool| pool.nodes);
    cache(page, "node", "nodes of record trees", nodes);
    let second = each_pool(pools, |pool| pool.second);
    cache(
        page,
        "second_level",
        "sealed records on cache devices",
        second,
    );
}

fn of_scrubs(page: &mut MetricsPage, pools: &[PoolNow]) {
    page.gauge(
        "strongroom_pool_scrub_running",
        "1 while a scrub runs.",
        each_pool(pools, |pool| u8::from(pool.report.scrub.state == "running")),
    );
    page.gauge(
        "strongroom_pool_scrub_examined_bytes",
        "What this scrub, or the last one, has read.",
        each_pool(pools, |pool| pool.report.scrub.examined),
    );
    page.gauge(
        "strongroom_pool_scrub_expected_bytes",
        "What it had to read when it began.",
        each_pool(pools, |pool| pool.report.scrub.total),
    );
    page.gauge(
        "strongroom_pool_scrub_repaired",
        "Copies that it repaired.",
        each_pool(pools, |pool| pool.report.scrub.repaired),
    );
    page.gauge(
        "strongroom_pool_scrub_errors",
        "Records and nodes that it could not repair.",
        each_pool(pools, |pool| pool.report.scrub.errors),
    );
    page.gauge(
        "strongroom_pool_scrub_end_time_seconds",
        "When the last one ended, seconds since 1970; 0 if none did.",
        each_pool(pools, |pool| pool.report.scrub.ended),
    );
}

fn of_devices(page: &mut MetricsPage, pools: &[PoolNow]) {
    let devices = || {
        let all = pools
            .iter()
            .flat_map(|pool| pool.devices.iter().map(move |device| (pool, device)));
        all.map(|(pool, device)| (pool.device_labels(device), device))
    };
    let operations = || {
        devices().flat_map(|(labels, device)| {
            let each = device.operations.iter();
            each.map(move |(op, totals)| (with_op(&labels, op), *op, totals))
        })
    };
    let stores =
        || devices().filter_map(|(labels, device)| Some((labels, store_io(&device.row.path)?)));
    let kinds = stores().flat_map(|(labels, io)| {
        let kinds = [
            ("put", io.puts),
            ("get", io.gets),
            ("list", io.lists),
            ("delete", io.deletes),
            ("repeated", io.repeated),
        ];
        kinds.map(|(kind, count)| (with_op(&labels, kind), count))
    });
    page.counter(
        "strongroom_store_requests_total",
        "Requests to object stores; the repeated ones count as another kind too.",
        kinds,
    );
    let bytes = stores().flat_map(|(labels, io)| {
        let both = [("sent", io.sent), ("received", io.received)];
        both.map(|(way, count)| (with_op(&labels, way), count))
    });
    page.counter(
        "strongroom_store_bytes_total",
        "Bytes of objects that were sent to object stores, or received.",
        bytes,
    );
    let state = devices().map(|(mut labels, device)| {
        labels.push(("state", device.row.state.clone()));
        (labels, 1)
    });
    page.gauge(
        "strongroom_device_state",
        "The device is in this state.",
        state,
    );
    page.gauge(
        "strongroom_device_size_bytes",
        "Bytes that the pool uses of the device.",
        devices().map(|(labels, device)| (labels, device.row.size)),
    );
    let moved = operations().filter(|(_, op, _)| *op != "flush");
    page.counter(
        "strongroom_device_bytes_total",
        "Bytes that were read, written or discarded.",
        moved.map(|(labels, _, totals)| (labels, totals.bytes)),
    );
    page.counter(
        "strongroom_device_errors_total",
        "Operations that failed.",
        operations().map(|(labels, _, totals)| (labels, totals.errors)),
    );
    page.histogram(
        "strongroom_device_operation_seconds",
        "How long operations took, with those that failed.",
        operations().map(|(labels, _, totals)| (labels, totals.times.clone())),
    );
}

fn of_mounts(page: &mut MetricsPage, pools: &[PoolNow]) {
    let mounts = || {
        pools.iter().flat_map(|pool| &pool.mounts).map(|mount| {
            let labels: Labels = vec![("dataset", mount.dataset.clone())];
            (labels, mount)
        })
    };
    let operations = || {
        mounts().flat_map(|(labels, mount)| {
            let each = mount.operations.iter();
            each.map(move |(op, totals)| (with_op(&labels, op), *op, totals))
        })
    };
    let moved = operations().filter(|(_, op, _)| ["read", "write", "copy"].contains(op));
    page.counter(
        "strongroom_mount_bytes_total",
        "Bytes that the kernel read or wrote, or had copied, since the mount.",
        moved.map(|(labels, _, totals)| (labels, totals.bytes)),
    );
    page.counter(
        "strongroom_mount_errors_total",
        "Operations that were answered with an error of any kind.",
        operations().map(|(labels, _, totals)| (labels, totals.errors)),
    );
    page.counter(
        "strongroom_mount_io_errors_total",
        "Operations that were answered with an input/output error; the log says why.",
        mounts().map(|(labels, mount)| (labels, mount.io_errors)),
    );
    page.histogram(
        "strongroom_mount_operation_seconds",
        "How long operations took, of those that the kernel has asked for since the mount.",
        operations().map(|(labels, _, totals)| (labels, totals.times.clone())),
    );
}

fn of_exports(page: &mut MetricsPage, exports: &[ExportStatus]) {
    let labels = |export: &ExportStatus| -> Labels { vec![("export", export.name.clone())] };
    let operations = || {
        exports.iter().flat_map(|export| {
            let each = device_totals(&export.meter).into_iter();
            each.map(move |(op, totals)| (with_op(&labels(export), op), op, totals))
        })
    };
    page.gauge(
        "strongroom_export_connections",
        "Connections that use the export.",
        exports.iter().map(|e| (labels(e), e.clients)),
    );
    let moved = operations().filter(|(_, op, _)| *op != "flush");
    page.counter(
        "strongroom_export_bytes_total",
        "Bytes that clients read, wrote or discarded.",
        moved.map(|(labels, _, totals)| (labels, totals.bytes)),
    );
    page.counter(
        "strongroom_export_errors_total",
        "Operations that failed.",
        operations().map(|(labels, _, totals)| (labels, totals.errors)),
    );
    page.histogram(
        "strongroom_export_operation_seconds",
        "How long the device took, with what failed.",
        operations().map(|(labels, _, totals)| (labels, totals.times)),
    );
}

fn of_mappings(page: &mut MetricsPage, mappings: &[(String, Arc<MappingMeter>)]) {
    let operations = || {
        mappings.iter().flat_map(|(name, meter)| {
            let forms = [
                ("read", "inline", &meter.read_inline),
                ("read", "queued", &meter.read_queued),
                ("write", "inline", &meter.write_inline),
                ("write", "queued", &meter.write_queued),
            ];
            forms.into_iter().map(move |(op, form, operation)| {
                let mut labels = with_op(&vec![("mapping", name.clone())], op);
                labels.push(("form", form.to_owned()));
                (labels, operation.totals())
            })
        })
    };
    page.counter(
        "strongroom_mapping_operations_total",
        "Operations on a LUKS mapping, with what failed.",
        operations().map(|(labels, totals)| (labels, totals.requests)),
    );
    page.counter(
        "strongroom_mapping_bytes_total",
        "Bytes that were read from a LUKS mapping or written to it, inline or queued.",
        operations().map(|(labels, totals)| (labels, totals.bytes)),
    );
    page.counter(
        "strongroom_mapping_errors_total",
        "Operations on a LUKS mapping that failed.",
        operations().map(|(labels, totals)| (labels, totals.errors)),
    );
    page.histogram(
        "strongroom_mapping_operation_seconds",
        "How long operations on a LUKS mapping took, with what failed: one in eleven of them.",
        operations().map(|(labels, totals)| (labels, totals.times)),
    );
}

pub(super) fn with_op(labels: &Labels, op: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push(("op", op.to_owned()));
    labels
}
