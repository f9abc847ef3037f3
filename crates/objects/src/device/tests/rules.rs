//! Each rule of the line is necessary: without it the simulation finds a loss.
//!
//! One rule matters so rarely that a schedule shows the loss: see `schedules`.

use super::simulation;
use crate::device::line::LineRule;

/// The rules, each with a seed that finds a loss without it.
const RULES: [(LineRule, u64); 6] = [
    (LineRule::Fences, 5),
    (LineRule::SecondList, 0),
    (LineRule::UsedNumbers, 99),
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
        match seeds.find_map(|seed| Some((seed, simulation::run(seed, Some(rule)).fault?))) {
            Some((seed, fault)) => println!("without {rule:?} seed {seed} finds: {fault}"),
            None => missing.push(rule),
        }
    }
    assert!(missing.is_empty(), "nothing is lost without {missing:?}");
}
