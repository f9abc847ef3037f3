//! Snapshots of files free what listings promised, to the block, with compression, copies and equal records.

use crate::common::driver::Driver;
use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Compression, Settings};
use pool::{Pool, Reach};

fn settings(dice: &mut Dice) -> Settings {
    let compressions = [Compression::Lz4, Compression::Off, Compression::Zstd(1)];
    Settings {
        compression: compressions[dice.below(3) as usize],
        record_size: [4096, 131_072, 16_384][dice.below(3) as usize],
        dedup: dice.below(2) == 0,
        copies: 1 + dice.below(2) as u8,
        ..Settings::default()
    }
}

/// The bytes of everything in datasets and snapshots. Equal records count as often as they are written.
fn contents(pool: &Pool) -> u64 {
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    pool.commit().unwrap();
    let report = pool.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    report.contents + pool.dedup_info().referenced
}

fn run(seed: u64) -> usize {
    let device = fault_device(96 << 20, &FaultClock::new());
    let suite = [Some(Suite::Xaes256Gcm), None][seed as usize % 2];
    let pool = create_pool(&device, suite);
    let mut dice = Dice(seed);
    let files = open_files(&pool, suite, settings(&mut dice), 0);
    let mut driver = Driver::new(seed);
    for n in 0..8 {
        for _ in 0..40 {
            driver.step(files.as_ref()).unwrap();
        }
        files.sync_all().unwrap();
        snapshot(&pool, &format!("tank@{n}"));
        files.set_settings(settings(&mut dice));
    }
    for _ in 0..40 {
        driver.step(files.as_ref()).unwrap();
    }
    files.close().unwrap();
    drop(files);
    let top = pool.top().unwrap().id;
    let mut freed_some = 0;
    loop {
        let head = pool.listed_one(top).unwrap();
        assert_eq!(head.used_by_dataset, head.entry.referenced);
        let snapshots = pool.snapshots(top).unwrap();
        if snapshots.is_empty() {
            assert_eq!(head.used_by_snapshots, 0);
            return freed_some;
        }
        let from = dice.below(snapshots.len() as u64) as usize;
        let to = from + dice.below((snapshots.len() - from).min(2) as u64) as usize;
        let name = format!("tank@{}%{}", snapshots[from].name, snapshots[to].name);
        let promised = pool.freed_by_destroying(&name, Reach::Named).unwrap();
        if from == to {
            let used = pool.listed_one(snapshots[from].id).unwrap().used;
            assert_eq!(promised, used, "seed {seed}: {name}");
        }
        let before = contents(&pool);
        pool.destroy_dataset(&name, Reach::Named, &origin())
            .unwrap();
        let freed = before - contents(&pool);
        assert_eq!(promised, freed, "seed {seed}: {name}");
        let after = pool.listed_one(top).unwrap();
        assert_eq!(head.used_by_snapshots - after.used_by_snapshots, freed);
        freed_some += usize::from(freed > 0);
    }
}

#[test]
fn snapshots_free_what_was_promised() {
    let freed: usize = seeds(0, 6).map(run).sum();
    assert!(freed > 10, "{freed}");
}
