//! Runs of the simulation: writers that are paused and killed, readers, collection, and a store with faults.
//!
//! `STRONGROOM_SEEDS=FIRST+COUNT` runs other seeds, and more of them. With `STRONGROOM_LOG` the objects of a run that failed
//! are printed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::actors::{self, Stage};
use super::ledger::{self, Ledger};
use super::store::StoreFaults;
use super::world::World;
use crate::device::line::{LineLimits, LineRule};

/// The figures of a run.
#[derive(Default)]
pub(super) struct RunOutcome {
    pub(super) fault: Option<String>,
    pub(super) takes: u64,
    pub(super) acknowledged: u64,
    pub(super) crash_points: u64,
    pub(super) states_read: u64,
}

/// Objects stay so long after they are on a list of deletions.
pub(super) const REMOVAL: Duration = Duration::from_secs(1);

pub(super) const LIMITS: LineLimits = LineLimits {
    window: 4,
    pending: 1 << 20,
    data: 2048,
    checkpoint: 5,
    removal: REMOVAL,
    copies: 1 << 20,
    opening: 0,
    without: None,
};
/// The actors of a run that write. At most three at the same time.
const WRITERS: usize = 6;

/// Faults that differ from run to run: some stores are good.
fn faults(world: &World) -> StoreFaults {
    let some = |limit: u64| match world.below(3) {
        0 => 0,
        _ => world.below(limit),
    };
    StoreFaults {
        late: some(120),
        unanswered: some(150),
        conflicts: some(60),
        refusals: some(8),
        split_lists: some(500),
        way: Duration::from_millis(1 + some(80)),
        latest: Duration::from_millis(10 + some(30_000)),
    }
}

/// Runs a seed without a rule.
pub(super) fn run_without(seed: u64, rule: LineRule) -> RunOutcome {
    let limits = LineLimits {
        without: Some(rule),
        ..LIMITS
    };
    run(seed, limits)
}

/// Runs a seed.
pub(super) fn run(seed: u64, limits: LineLimits) -> RunOutcome {
    let world = World::new(seed);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let stage = Stage {
        world: Arc::clone(&world),
        ledger: Arc::clone(&ledger),
        limits: LineLimits {
            opening: if world.happens(300) { 1 << 20 } else { 0 },
            ..limits
        },
        faults: faults(&world),
    };
    live(&stage);
    if ledger.lock().fault.is_none() {
        end(&stage);
    }
    for actor in 0..=2 * WRITERS {
        world.kill(actor);
    }
    let ledger = ledger.lock();
    if ledger.fault.is_some() && std::env::var_os("STRONGROOM_LOG").is_some() {
        println!("seed {seed}:\n{}", world.state().shelf.describe());
    }
    RunOutcome {
        fault: ledger.fault.clone(),
        takes: ledger.takes,
        acknowledged: ledger.acknowledged,
        crash_points: ledger.crash_points,
        states_read: ledger.states_read,
    }
}

/// The life of all actors but the last.
fn live(stage: &Stage) {
    let world = &stage.world;
    let mut started = 0;
    for _ in 0..20_000 {
        let actor = world.below(started.max(1) as u64) as usize;
        match world.below(4000) {
            0..20 if started < WRITERS && (started < 2 || world.happens(100)) => {
                let writer = actors::write(stage.clone(), started);
                world.spawn(started, Box::pin(writer));
                started += 1;
            }
            20..24 => world.pause(actor, world.some_time(20_000)),
            24..26 => {
                world.kill(actor);
                if world.happens(700) {
                    world.spawn(actor, Box::pin(actors::write(stage.clone(), actor)));
                }
            }
            26..30 => {
                let reader = WRITERS + world.below(WRITERS as u64) as usize;
                world.spawn(reader, Box::pin(actors::read(stage.clone(), reader)));
            }
            30..32 => {
                let time = world.some_time(10_000);
                let mut state = world.state();
                state.outage = state.now + time;
            }
            32..80 => ledger::judge_now(world, stage.limits, &mut stage.ledger.lock()),
            _ => {}
        }
        let is_over = !world.step() && started == WRITERS;
        if is_over || stage.ledger.lock().fault.is_some() {
            return;
        }
    }
}

/// The end: all machines stop, the store has no faults any more, and a last machine takes the line.
fn end(stage: &Stage) {
    let world = &stage.world;
    for actor in 0..2 * WRITERS {
        world.kill(actor);
    }
    let mut calm = stage.clone();
    calm.faults = StoreFaults {
        late: 0,
        unanswered: 0,
        conflicts: 0,
        refusals: 0,
        split_lists: 0,
        ..stage.faults
    };
    let has_ended = Arc::new(Mutex::new(false));
    let told = Arc::clone(&has_ended);
    let last = 2 * WRITERS;
    world.spawn(
        last,
        Box::pin(async move {
            for _ in 0..20 {
                let line = calm.line(last);
                if actors::take(&calm, &line).await.is_some() {
                    *told.lock() = true;
                    return;
                }
            }
        }),
    );
    let until = world.state().now + actors::LAST;
    while world.step() {
        if world.state().now > until {
            break;
        }
    }
    let mut ledger = stage.ledger.lock();
    if !*has_ended.lock() {
        ledger.note("the last machine did not get the line".into());
    }
    ledger::judge_now(world, stage.limits, &mut ledger);
}

/// The seeds to run: `FIRST+COUNT` of `STRONGROOM_SEEDS`, or some.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let given = std::env::var("STRONGROOM_SEEDS").unwrap_or_else(|_| format!("0+{count}"));
    let (first, count) = given.split_once('+').expect("FIRST+COUNT");
    let [first, count] = [first, count].map(|n| n.parse::<u64>().expect("FIRST+COUNT"));
    first..first + count
}

#[test]
fn nothing_is_lost_on_a_store_with_faults() {
    let mut sum = RunOutcome::default();
    let mut failed = Vec::new();
    for seed in seeds(60) {
        let is = run(seed, LIMITS);
        failed.extend(is.fault.map(|fault| format!("seed {seed}: {fault}")));
        sum.takes += is.takes;
        sum.acknowledged += is.acknowledged;
        sum.crash_points += is.crash_points;
        sum.states_read += is.states_read;
    }
    println!(
        "{} takes, {} acknowledged writes, {} crash points, {} states of readers",
        sum.takes, sum.acknowledged, sum.crash_points, sum.states_read
    );
    assert!(
        failed.is_empty(),
        "{} of the seeds failed: {:#?}",
        failed.len(),
        &failed[..failed.len().min(8)]
    );
    assert!(sum.takes > 0 && sum.acknowledged > 0 && sum.crash_points > 0 && sum.states_read > 0);
}
