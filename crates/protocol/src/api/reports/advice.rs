//! The problems of a pool that need attention, in words.

use serde::Serialize;

use super::fullness::Fullness;
use super::pools::PoolReport;

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A state in which everything works, and something is to be done.
    Warning,
    /// A state in which programs cannot use the pool, or soon will not; or data is damaged.
    Critical,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The pool or a device does not work as it should.
    Health,
    /// Data is damaged.
    Damage,
    /// The last scrub is too long ago.
    Scrub,
    /// The pool fills up.
    Space,
    /// Keys are not loaded.
    Keys,
}

/// A problem of a pool, and the advice about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolAdvice {
    /// The severity of the problem.
    pub severity: Severity,
    /// The name of the pool.
    pub pool: String,
    /// The problem.
    pub text: String,
    /// The advice.
    pub action: Option<String>,
    /// The kind of the problem.
    #[serde(skip)]
    pub kind: ProblemKind,
}

/// The problems of a pool, the worst ones not always first.
pub fn advice(pool: &PoolReport) -> Vec<PoolAdvice> {
    let row = |kind, severity, text: String, action: Option<String>| PoolAdvice {
        severity,
        pool: pool.name.clone(),
        text,
        action,
        kind,
    };
    let mut advice = Vec::new();
    let is_down = matches!(&*pool.health, "SUSPENDED" | "STALLED" | "UNAVAIL");
    let is_full = Fullness::of(pool.allocated, pool.free).is_critical();
    let severity = |is_critical: bool| match is_critical {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    if pool.trouble.is_some() || pool.health != "ONLINE" {
        let health = || format!("the pool is {}", pool.health);
        let text = pool.trouble.clone().unwrap_or_else(health);
        // Without `space_low` the trouble of a full pool is that it is full.
        let is_critical = is_down || is_full && pool.space_low.is_none();
        advice.push(row(
            ProblemKind::Health,
            severity(is_critical),
            text,
            pool.action.clone(),
        ));
    }
    if !pool.damage.is_empty() {
        let text = format!("damaged: {}", pool.damage.join(", "));
        advice.push(row(ProblemKind::Damage, Severity::Critical, text, None));
    }
    if let Some(late) = &pool.scrub_late {
        let text = "the last scrub is too long ago".into();
        advice.push(row(
            ProblemKind::Scrub,
            Severity::Warning,
            text,
            Some(late.clone()),
        ));
    }
    if let Some(low) = &pool.space_low {
        advice.push(row(
            ProblemKind::Space,
            severity(is_full),
            low.clone(),
            None,
        ));
    }
    if !pool.waiting.is_empty() {
        let text = format!("keys are not loaded: {}", pool.waiting.join(", "));
        let action = "strongroom mount -a -l";
        advice.push(row(
            ProblemKind::Keys,
            Severity::Warning,
            text,
            Some(action.into()),
        ));
    }
    advice
}
