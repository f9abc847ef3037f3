//! The output of `strongroom` alone: how things are, and what to do next.

use console::outcome::{Outcome, Result};
use console::session::{Session, answer};
use console::show::{size, text};
use protocol::api::{Command, Failure, FailureKind, PoolReport, command};

use crate::cmd::pool::run::is_healthy;

/// A command, and what it is for.
type WelcomeStep = (&'static str, &'static str);

const FIRST: [WelcomeStep; 3] = [
    ("strongroom doctor", "check this machine"),
    (
        "strongroom pool create -s 4G tank FILE",
        "make a pool in a new file",
    ),
    (
        "strongroom create -o encryption=on tank/home",
        "make an encrypted dataset in it",
    ),
];

/// Starts no daemon.
pub(crate) fn run(session: &mut Session) -> Result {
    let head = concat!("Strongroom ", env!("CARGO_PKG_VERSION"));
    let every = command::PoolStatus::default();
    let pools = session.call_running(Command::from(every));
    let text = match pools.and_then(|reply| answer!(reply, Pools)) {
        Ok(pools) if pools.is_empty() => without_pools(head, "no pool is imported"),
        Ok(pools) => with_pools(head, &pools),
        Err(Failure {
            kind: FailureKind::NoDaemon,
            ..
        }) => without_pools(head, "the daemon is not running; a command starts it"),
        Err(failure) => return Err(failure),
    };
    Ok(Outcome::text(text))
}

fn without_pools(head: &str, state: &str) -> String {
    let import = ("strongroom pool import", "list pools that can be imported");
    let steps: Vec<WelcomeStep> = FIRST.into_iter().chain([import]).collect();
    format!("{head}: {state}\n\n{}", next(&steps))
}

fn with_pools(head: &str, pools: &[PoolReport]) -> String {
    let mut out = format!("{head}\n\n");
    for pool in pools {
        let name = text::in_a_cell(&pool.name);
        let (used, free) = (size::human(pool.allocated), size::human(pool.free));
        out += &format!("pool {name}: {}, {used} used, {free} free\n", pool.health);
    }
    let waiting: usize = pools.iter().map(|pool| pool.waiting.len()).sum();
    if waiting > 0 {
        out += &format!("datasets that wait for a key: {waiting}\n");
    }
    let mut steps = Vec::new();
    if !pools.iter().all(is_healthy) {
        steps.push((
            "strongroom pool status -x",
            "see what is wrong, and what to do",
        ));
    }
    if waiting > 0 {
        steps.push(("strongroom mount -a -l", "load the keys and mount"));
    }
    steps.extend([
        ("strongroom list", "list datasets"),
        (
            "strongroom create -o encryption=on NAME",
            "make an encrypted dataset",
        ),
        (
            "strongroom snapshot NAME@TODAY",
            "keep the state of a dataset",
        ),
    ]);
    out + "\n" + &next(&steps)
}

fn next(steps: &[WelcomeStep]) -> String {
    let width = steps.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    let lines = steps
        .iter()
        .map(|(line, what)| format!("  {line:<width$}  {what}\n"));
    format!(
        "Next:\n{}\n'strongroom help' lists all commands, 'strongroom help COMMAND' explains one.\n",
        lines.collect::<String>()
    )
}
