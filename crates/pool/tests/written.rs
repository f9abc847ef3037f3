//! How much is new since an earlier state: counters and deadlists say the same as the births in the trees.

mod common;

use block::fault::FaultClock;
use common::model::*;
use common::streams::*;
use common::*;
use pool::ArrayKind::Data;

/// In histories with clones, promotions, rollbacks and frees.
#[test]
fn counters_and_births_say_the_same() {
    let (mut since_one, mut since_many) = (0, 0);
    for seed in seeds(40, 6) {
        let devices = fault_devices(2, &FaultClock::new());
        let mut workload = Workload::new(create_on(&devices), seed);
        for _ in 0..4 {
            workload.run(40);
            let pool = &workload.pool;
            let all = pool.list(pool.top().unwrap().id).unwrap();
            for listed in all.iter().filter(|listed| listed.entry.is_snapshot()) {
                let name = &listed.name;
                let _ = pool.bookmark(name, &name.replace('@', "#"), &origin());
                let own = pool.written_since(listed.entry.id, name).unwrap();
                assert_eq!(own, Some(0), "{seed} {name}");
            }
            for (at, listed) in all.iter().enumerate() {
                let id = listed.entry.id;
                let head = listed.name.split('@').next().unwrap();
                let older = all.iter().filter(|older| {
                    older.entry.is_snapshot() && older.name.starts_with(&format!("{head}@"))
                });
                for older in older {
                    let last = older.entry.name.as_str();
                    let counted = pool.written_since(id, last).unwrap();
                    let is_later = all[..at]
                        .iter()
                        .any(|before| before.entry.id == older.entry.id);
                    // A dataset is listed before its snapshots.
                    let is_before = is_later || !listed.entry.is_snapshot() || older.entry.id == id;
                    assert_eq!(
                        counted.is_some(),
                        is_before,
                        "{seed} {} {last}",
                        listed.name
                    );
                    let born = pool.written_since_bookmark(id, last).unwrap();
                    if let (Some(born), Some(counted)) = (born, counted) {
                        assert_eq!(born, counted, "{seed} {} {last}", listed.name);
                        match older.entry.id == listed.entry.prev_snap {
                            true => {
                                assert_eq!(counted, listed.written);
                                since_one += 1;
                            }
                            false => since_many += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(
        since_one > 50 && since_many > 50,
        "{since_one} {since_many}"
    );
}

#[test]
fn what_is_not_earlier_is_no_answer() {
    let pool = with_history();
    let id = |name: &str| pool.find(name).unwrap().id;
    pool.clone_snapshot("tank/a@two", "tank/c", new_clone(60), &origin())
        .unwrap();
    fill(&pool, "tank/c", Data, &[(3, 3)]);
    let clone = id("tank/c");
    let own = pool.listed_one(clone).unwrap().written;
    assert!(own > 0);
    assert_eq!(pool.written_since(clone, "tank/a@two").unwrap(), Some(own));
    assert!(pool.written_since(clone, "tank/a@one").unwrap() > Some(own));
    // Neither is what comes after it, nor what is not there.
    for other in [
        "two",
        "tank/a@three",
        "tank/a@none",
        "none",
        "@",
        "",
        "//@x",
    ] {
        assert_eq!(pool.written_since(clone, other).unwrap(), None, "{other}");
    }
    assert_eq!(pool.written_since(id("tank/a@one"), "two").unwrap(), None);
    pool.bookmark("tank/a@two", "tank/a#two", &origin())
        .unwrap();
    assert_eq!(
        pool.written_since_bookmark(id("tank/a@one"), "two")
            .unwrap(),
        None
    );
    assert_eq!(pool.written_since_bookmark(clone, "two").unwrap(), None);
    assert_eq!(
        pool.written_since_bookmark(id("tank/a@two"), "two")
            .unwrap(),
        Some(0)
    );
}
