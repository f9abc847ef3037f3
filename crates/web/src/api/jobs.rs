//! Long work, as far as the daemon has it: scrubs, resilvers, removals, trims, re-encryption of mappings.

use protocol::api::{Command, PoolReport, Reply, ScrubRow, SweepRow, command};
use serde_json::{Value as Json, json};

use super::daemon::ApiCaller;
use crate::http::Problem;

/// The jobs that run, and those that ran last.
pub(super) fn list(caller: &ApiCaller) -> Result<Json, Problem> {
    let pools = match caller.ask(command::PoolStatus::default())? {
        Reply::Pools(pools) => pools,
        _ => Vec::new(),
    };
    let mut jobs = of_pools(&pools);
    if let Reply::Mappings(mappings) = caller.ask(command::LuksStatus { names: Vec::new() })? {
        let rows = mappings.into_iter().filter_map(|row| {
            let at = row.reencryption?;
            Some(json!({
                "id": format!("{}/luks-reencryption", row.name), "kind": "luks-reencryption", "pool": null,
                "state": if at.running { "running" } else { "paused" }, "done": at.done, "total": at.total,
                "unit": "bytes", "started": 0, "ended": 0, "errors": 0, "waits": null, "cancel": null,
                "pause": null,
            }))
        });
        jobs.extend(rows);
    }
    Ok(jobs.into())
}

/// The jobs of pools.
pub(super) fn of_pools(pools: &[PoolReport]) -> Vec<Json> {
    pools.iter().flat_map(of_pool).collect()
}

fn of_pool(pool: &PoolReport) -> Vec<Json> {
    let name = &pool.name;
    let scrub = |stop, pause| {
        let pool = name.clone();
        let dry_run = false;
        act(Command::PoolScrub(command::PoolScrub {
            pool,
            stop,
            pause,
            dry_run,
        }))
    };
    let mut jobs = Vec::new();
    jobs.extend(reading(pool, "scrub", &pool.scrub).map(|mut job| {
        if job["state"] == "running" {
            job["cancel"] = scrub(true, false);
            job["pause"] = scrub(false, true);
        }
        job
    }));
    jobs.extend(reading(pool, "resilver", &pool.resilver));
    jobs.extend(pool.removal.as_ref().map(|row| {
        let change = protocol::api::DeviceChange::StopRemove;
        let stop = act(Command::PoolDevices(command::PoolDevices {
            pool: name.clone(),
            change,
        }));
        json!({
            "id": format!("{name}/removal"), "kind": "removal", "pool": name, "state": row.state,
            "done": row.total.saturating_sub(row.left), "total": row.total, "unit": "bytes",
            "started": row.started, "ended": row.ended, "errors": 0, "waits": row.waits,
            "cancel": if row.state == "running" { stop } else { Json::Null }, "pause": null,
        })
    }));
    let sweeps = [
        ("trim", protocol::api::SpaceWork::Trim, &pool.trim),
        (
            "initialize",
            protocol::api::SpaceWork::Initialize,
            &pool.initialize,
        ),
    ];
    for (kind, what, row) in sweeps {
        jobs.extend(row.as_ref().map(|row| sweep(pool, kind, what, row)));
    }
    jobs
}

/// The request that ends or pauses a job.
fn act(command: Command) -> Json {
    match json!(command) {
        Json::Object(one) => one.into_iter().next().map_or(
            Json::Null,
            |(name, body)| json!({"command": name, "body": body}),
        ),
        _ => Json::Null,
    }
}

/// A scrub or resilver; none if there was none.
fn reading(pool: &PoolReport, kind: &str, row: &ScrubRow) -> Option<Json> {
    (row.state != "none").then(|| {
        json!({
            "id": format!("{}/{kind}", pool.name), "kind": kind, "pool": pool.name, "state": row.state,
            "done": row.examined, "total": row.total, "unit": "bytes", "started": row.started,
            "ended": row.ended, "errors": row.errors, "waits": row.waits, "cancel": null, "pause": null,
        })
    })
}

fn sweep(pool: &PoolReport, kind: &str, what: protocol::api::SpaceWork, row: &SweepRow) -> Json {
    let change = |stop, pause| {
        let (pool, device) = (pool.name.clone(), None);
        let is_now = row.state == "running" || (row.state == "paused" && stop);
        match is_now {
            true => act(Command::PoolSweep(command::PoolSweep {
                pool,
                what,
                device,
                stop,
                pause,
            })),
            false => Json::Null,
        }
    };
    json!({
        "id": format!("{}/{kind}", pool.name), "kind": kind, "pool": pool.name, "state": row.state,
        "done": row.examined, "total": row.total, "unit": "segments", "started": row.started,
        "ended": row.ended, "errors": row.errors, "waits": null, "cancel": change(true, false),
        "pause": change(false, true),
    })
}
