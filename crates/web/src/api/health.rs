//! The problems that need attention, in words, as the daemon reports them of its pools.

use protocol::api::{PoolAdvice, Reply, Severity, advice, command};
use serde_json::{Value as Json, json};

use super::daemon::ApiCaller;
use crate::http::Problem;

/// The advice for all pools, and the worst of it.
pub(super) fn report(caller: &ApiCaller) -> Result<Json, Problem> {
    let pools = match caller.ask(command::PoolStatus::default())? {
        Reply::Pools(pools) => pools,
        _ => Vec::new(),
    };
    let advice: Vec<PoolAdvice> = pools.iter().flat_map(advice).collect();
    let worst = advice.iter().map(|row| row.severity).max();
    let status = match worst {
        Some(Severity::Critical) => "critical",
        Some(Severity::Warning) => "warning",
        None => "ok",
    };
    Ok(json!({"status": status, "advice": advice}))
}
