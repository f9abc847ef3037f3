//! Random histories that travel over several pools, and back.

use crate::common::model::*;
use crate::common::streams::*;
use crate::common::*;
use block::fault::FaultClock;
use pool::{Error, Pool};

#[test]
fn random_histories_through_other_pools_and_back() {
    for seed in seeds(0, 6) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        let others: Vec<Pool> = (0..2)
            .map(|_| create_on(&fault_devices(2, &FaultClock::new())))
            .collect();
        let mut dice = Dice(seed ^ 0xabcd);
        let mut names: Vec<(u64, String)> = Vec::new();
        for round in 0..6 {
            workload.run(40);
            let model = normal(workload.model.clone());
            for (name, snapshots) in &model.snapshots {
                let id = workload.find(name).unwrap().id;
                let last: Vec<String> = snapshots
                    .iter()
                    .map(|(s, _)| format!("{name}@{s}"))
                    .collect();
                let known = names.iter().find(|(known, _)| *known == id);
                let target = match known {
                    Some((_, target)) => target.clone(),
                    None => {
                        names.push((id, format!("tank/r{}", names.len())));
                        names.last().unwrap().1.clone()
                    }
                };
                let mut hop = &workload.pool;
                let mut hop_name = name.clone();
                for (other, how) in others.iter().zip([How::Sealed, How::Plain]) {
                    carry(how, hop, &hop_name, &last, other, &target, &mut dice);
                    (hop, hop_name) = (other, target.clone());
                }
                for other in &others {
                    for (snapshot, arrays) in snapshots {
                        let got = format!("{target}@{snapshot}");
                        if other.find(&got).is_ok() {
                            assert_eq!(holds(other, &got), *arrays, "seed {seed} {round} {got}");
                        }
                    }
                }
            }
            for other in &others {
                assert_clean(other);
            }
        }
        // And back, beside what is there.
        let (_, target) = &names[0];
        let Ok(entry) = others[1].find(target) else {
            continue;
        };
        let newest = others[1].snapshots(entry.id).unwrap().pop().unwrap();
        let newest = others[1].name_of(newest.id).unwrap();
        let back = receive(
            &workload.pool,
            &stream(&others[1], &newest, None),
            "tank/back",
        );
        if !matches!(back, Err(Error::NoSpace)) {
            back.unwrap();
            assert_eq!(
                holds(&workload.pool, "tank/back"),
                holds(&others[1], &newest)
            );
        }
        settle(&workload.pool);
        assert_clean(&workload.pool);
    }
}

/// Brings the receiver the snapshots of a dataset that it lacks: some of them, broken off here and there.
fn carry(
    how: How,
    from: &Pool,
    name: &str,
    all: &[String],
    to: &Pool,
    target: &str,
    dice: &mut Dice,
) {
    let mine = |full: &String| {
        let (_, last) = full.split_once('@').unwrap();
        format!("{name}@{last}")
    };
    let all: Vec<String> = all
        .iter()
        .map(mine)
        .filter(|s| from.find(s).is_ok())
        .collect();
    let guid = |pool: &Pool, name: &str| pool.find(name).unwrap().guid;
    let newest_there = to.find(target).ok().and_then(|head| {
        let snapshots = to.snapshots(head.id).unwrap();
        Some(snapshots.last()?.guid)
    });
    let base = all.iter().position(|s| Some(guid(from, s)) == newest_there);
    let mut last = base.map(|at| all[at].clone());
    if base.is_none() && to.find(target).is_ok() {
        to.destroy_dataset(target, pool::Reach::Clones, &origin())
            .unwrap();
        settle(to);
    }
    for next in &all[base.map_or(0, |at| at + 1)..] {
        if dice.below(3) == 0 {
            continue;
        }
        let mut bytes = stream_as(how, from, next, last.as_deref());
        if dice.below(2) == 0 {
            let cut = dice.below(bytes.len() as u64) as usize;
            let is_resumable = how == How::Sealed;
            assert!(receive_as(to, &bytes[..cut], false, is_resumable, target).is_err());
            if let Some(token) = to.resume_token(target).unwrap() {
                bytes = stream_from(from, next, last.as_deref(), token.next).unwrap();
            }
        }
        match receive(to, &bytes, target) {
            Ok(()) => last = Some(next.clone()),
            Err(Error::NoSpace) => {
                let _ = to.abandon_receive(target, &origin());
                settle(to);
                return;
            }
            Err(error) => panic!("{next} into {target}: {error}"),
        }
    }
}
