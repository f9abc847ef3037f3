//! A model of what seals, logs, anchors and streams promise, and of an attacker who owns the devices.
//!
//! A dataset of two files is written, synced, rotated, cloned and put back in every order of a few steps. After each step the
//! attacker combines every state, record and log entry that was ever on the devices with what its keys can forge. A claim
//! of THREATS is broken if a reader accepts what never existed.
//!
//! Hashes, tags and seals are perfect here: equal only for equal values, and made only with the key. The one exception is
//! AES-GCM's: whoever has the data key makes other ciphertexts with the same tag.
//!
//! `STRONGROOM_STEPS=5` tries longer runs.

#![allow(missing_docs)]

mod attacker;
mod reader;
mod world;

use std::collections::BTreeMap;

use attacker::{ReadmeClaim, broken};
use reader::{follows_anchor, may_seal_head, open, takes_entry};
use world::{Entry, FormatRules, ModelFiles, ModelStep, Moment, World};

/// Returns the length of the runs.
fn steps() -> usize {
    let given = std::env::var("STRONGROOM_STEPS");
    given.map_or(4, |steps| steps.parse().expect("a number of steps"))
}

/// Visits the world after each run of at most so many steps.
fn visit(world: &World, steps: usize, see: &mut impl FnMut(&World)) {
    see(world);
    if steps > 0 {
        for step in world.next_steps() {
            let mut next = world.clone();
            next.take(step);
            visit(&next, steps - 1, see);
        }
    }
}

/// For each claim that does not hold, one of the shortest runs that break it.
fn findings(rules: FormatRules) -> BTreeMap<ReadmeClaim, Vec<ModelStep>> {
    let mut found: BTreeMap<ReadmeClaim, Vec<ModelStep>> = BTreeMap::new();
    visit(&World::new(rules), steps(), &mut |world| {
        for claim in broken(world) {
            let run = found.entry(claim).or_insert_with(|| world.steps.clone());
            if world.steps.len() < run.len() {
                run.clone_from(&world.steps);
            }
        }
    });
    found
}

fn claims(rules: FormatRules) -> Vec<ReadmeClaim> {
    findings(rules).into_keys().collect()
}

#[test]
fn the_rules_before_break_all_claims() {
    let found = findings(FormatRules::BEFORE);
    let all = [
        ReadmeClaim::NoMixture,
        ReadmeClaim::CloneCannotWrite,
        ReadmeClaim::CloneCannotRead,
        ReadmeClaim::AnchorProvesAncestry,
        ReadmeClaim::StreamProvesItself,
    ];
    assert!(found.keys().eq(&all), "{found:?}");
    // An older tree with a newer entry of the log.
    assert_eq!(found[&ReadmeClaim::NoMixture].len(), 2, "{found:?}");
    // The origin goes on with keys that the clone has.
    assert_eq!(found[&ReadmeClaim::CloneCannotWrite], [ModelStep::Clone]);
}

#[test]
fn the_present_rules_break_none() {
    assert_eq!(findings(FormatRules::PRESENT), BTreeMap::new());
}

#[test]
fn each_rule_is_needed() {
    let all = FormatRules::PRESENT;
    let without = |leave_out: fn(&mut FormatRules)| {
        let mut rules = all;
        leave_out(&mut rules);
        claims(rules)
    };
    assert_eq!(
        without(|rules| rules.identity_has_checksum = false),
        [
            ReadmeClaim::CloneCannotWrite,
            ReadmeClaim::StreamProvesItself
        ]
    );
    for leave_out in [
        (|rules| rules.entry_names_state = false) as fn(&mut FormatRules),
        |rules| rules.open_begins_log = false,
    ] {
        assert_eq!(without(leave_out), [ReadmeClaim::NoMixture]);
    }
    assert_eq!(
        without(|rules| rules.clone_rotates_origin = false),
        [ReadmeClaim::CloneCannotWrite, ReadmeClaim::CloneCannotRead]
    );
    assert_eq!(
        without(|rules| rules.seal_has_history = false),
        [ReadmeClaim::AnchorProvesAncestry]
    );
    for leave_out in [
        (|rules| rules.entry_has_seal = false) as fn(&mut FormatRules),
        |rules| rules.clone_lacks_seal_keys = false,
    ] {
        assert_eq!(without(leave_out), [ReadmeClaim::CloneCannotWrite]);
    }
}

/// Returns the contents that a program shows after it mounts honest devices with so much of the log.
fn mounted(rules: FormatRules, moment: &Moment, entries: &[Entry]) -> Option<ModelFiles> {
    let (keyring, head) = (moment.keyring, &moment.head);
    let mut files = [0, 1].map(|file| open(keyring, &head.identities[file], &moment.records[file]));
    for (number, entry) in (head.first_entry..).zip(entries) {
        if !takes_entry(rules, keyring, head, number, entry) {
            return None;
        }
        if entry.txg > head.base {
            files[entry.file] = Some(entry.contents);
        }
    }
    let [Some(first), Some(second)] = files else {
        return None;
    };
    may_seal_head(keyring, head).then_some([first, second])
}

#[test]
fn honest_devices_and_power_cuts_are_accepted() {
    for rules in [FormatRules::BEFORE, FormatRules::PRESENT] {
        visit(&World::new(rules), steps(), &mut |world| {
            let (now, run) = (&world.now, &world.steps);
            for count in 0..=now.entries.len() {
                let shown = mounted(rules, now, &now.entries[..count]);
                let is_right = shown.is_some_and(|files| world.durable.contains(&files));
                assert!(is_right, "{run:?}, {count} entries: {shown:?}");
            }
            assert_eq!(
                mounted(rules, now, &now.entries),
                Some(now.files),
                "{run:?}"
            );
            let mut anchors = world.heads.iter();
            let is_grown = |seal| now.head.history.contains(&seal) || seal == now.head.seal;
            assert!(
                anchors.all(|anchor| {
                    !is_grown(anchor.seal) || follows_anchor(rules, anchor, &now.head)
                }),
                "{run:?}"
            );
        });
    }
}
