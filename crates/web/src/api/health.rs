//! The problems that need attention, in words, as the daemon reports them of its pools.

use protocol::api::{Fullness, PoolReport, Reply, command};
use serde_json::{Value as Json, json};

use super::daemon::ApiCaller;
use crate::http::Problem;

/// The advice for all pools, and the worst of it.
pub(super) fn report(caller: &ApiCaller) -> Result<Json, Problem> {
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
    let is_full = Fullness::of(pool.allocated, pool.free).is_critical();
    let severity = |is_critical: bool| if is_critical { "critical" } else { "warning" };
    if pool.trouble.is_some() || pool.health != "ONLINE" {
        let health = || format!("the pool is {}", pool.health);
        let text = pool.trouble.clone().unwrap_or_else(health);
        // Without `space_low` the trouble of a full pool is that it is full.
        let is_critical = is_down || is_full && pool.space_low.is_none();
        advice.push(row(severity(is_critical), text, pool.action.clone()));
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
    if let Some(low) = &pool.space_low {
        advice.push(row(severity(is_full), low.clone(), None));
    }
    if !pool.waiting.is_empty() {
        let text = format!("keys are not loaded: {}", pool.waiting.join(", "));
        let action = "strongroom mount -a -l";
        advice.push(row("warning", text, Some(action.into())));
    }
    advice
}
