//! Each rule of the line is necessary: without it the simulation finds a loss.
//!
//! Three rules matter so rarely that schedules show the loss: see `schedules`.

use std::time::Duration;

use super::simulation::{self, LIMITS};
use crate::device::line::{LineLimits, LineRule};

/// The rules, each with a seed that finds a loss without it.
const RULES: [(LineRule, u64); 6] = [
    (LineRule::Fences, 8),
    (LineRule::SecondList, 3),
    (LineRule::UsedNumbers, 69),
    (LineRule::Record, 0),
    (LineRule::After, 0),
    (LineRule::ReadBack, 0),
];
/// The most seeds that are tried for a rule, if the one above finds nothing any more.
const SEARCH: u64 = 400;

#[test]
fn without_any_of_the_rules_something_is_lost() {
    let mut missing = Vec::new();
    for (rule, seed) in RULES {
        let mut seeds = std::iter::once(seed).chain(0..SEARCH);
        match seeds.find_map(|seed| Some((seed, simulation::run_without(seed, rule).fault?))) {
            Some((seed, fault)) => println!("without {rule:?} seed {seed} finds: {fault}"),
            None => missing.push(rule),
        }
    }
    assert!(missing.is_empty(), "nothing is lost without {missing:?}");
}

#[test]
fn readers_lose_their_state_if_objects_are_removed_at_once() {
    let limits = LineLimits {
        removal: Duration::ZERO,
        ..LIMITS
    };
    let fault = (0..SEARCH).find_map(|seed| simulation::run(seed, limits).fault);
    assert!(fault.unwrap().contains("a reader"));
}
