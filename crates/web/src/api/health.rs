//! What needs attention, in words: what the daemon says of its pools.

use protocol::api::{PoolReport, Reply, command};
use serde_json::{Value as Json, json};

use super::daemon::Caller;
use crate::http::Problem;

/// A pool with less of its space free slows down, and can fill up before anybody looks: one part of so many.
const FREE_PART: u64 = 10;

/// The advice for all pools, and the worst of it.
pub(super) fn report(caller: &Caller) -> Result<Json, Problem> {
    let pools = match caller.ask(command::PoolStatus::default())? {
        Reply::Pools(pools) => pools,
        _ => Vec::new(),
    };
    let advice: Vec<Json> = pools.iter().flat_map(of_pool).collect();
    let has = |severity: &str| advice.iter().any(|row| row["severity"] == severity);
    let status = match (has("critical"), has("warning")) {
        (true, _) => "critical",
        (false, true) => "warning",
        (false, false) => "ok",
    };
    Ok(json!({"status": status, "advice": advice}))
}

fn of_pool(pool: &PoolReport) -> Vec<Json> {
    let name = &pool.name;
    let row = |severity: &str, text: String, action: Option<String>| json!({"severity": severity, "pool": name, "text": text, "action": action});
    let mut advice = Vec::new();
    let is_down = matches!(&*pool.health, "SUSPENDED" | "UNAVAIL");
    if pool.trouble.is_some() || pool.health != "ONLINE" {
        let health = || format!("the pool is {}", pool.health);
        let text = pool.trouble.clone().unwrap_or_else(health);
        let severity = if is_down { "critical" } else { "warning" };
        advice.push(row(severity, text, pool.action.clone()));
    }
    if !pool.damage.is_empty() {
        let text = format!("damaged: {}", pool.damage.join(", "));
        advice.push(row("critical", text, None));
    }
    if let Some(late) = &pool.scrub_late {
        advice.push(row(
            "warning",
            "the last scrub is too long ago".into(),
            Some(late.clone()),
        ));
    }
    if !is_down && pool.size > 0 && pool.free < pool.size / FREE_PART {
        let percent = pool.allocated.saturating_mul(100) / pool.size;
        let action = "destroy snapshots or datasets, or add devices: strongroom pool add";
        let text = format!("{percent} % of the space is in use");
        advice.push(row("warning", text, Some(action.into())));
    }
    if !pool.waiting.is_empty() {
        let text = format!("keys are not loaded: {}", pool.waiting.join(", "));
        let action = "strongroom mount -a -l";
        advice.push(row("warning", text, Some(action.into())));
    }
    advice
}
