use crate::host::pool_lock::PoolLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::FileDevice;
use pool::{DatasetKind, Env, NewDataset, Pool};
use store::{CreateOptions, Store};

use super::*;
use crate::host::process::wakeup::Wakeup;
use crate::state::callers::decision::Internal;
use crate::state::keys::acceptances::Acceptances;
use crate::state::memory::StateDir;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// 2026-11-25 00:00 UTC, a Wednesday.
const BEGIN: u64 = 1_795_564_800;

/// A clock that is set by hand.
struct ManualClock(AtomicU64);

impl Env for ManualClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn guid(&self) -> u64 {
        crate::host::process::system::new_guid()
    }
}

/// A pool whose clock is set by hand, and for which nothing is done unless the test says so.
struct Tank {
    active: Arc<ActivePool>,
    clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

impl Tank {
    fn new() -> Tank {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock(AtomicU64::new(BEGIN)));
        let device = FileDevice::create(&dir.path().join("pool"), 64 << 20).unwrap();
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: vec![8],
            created: BEGIN,
            force: false,
        };
        let store = Arc::new(Store::create(vec![Arc::new(device)], &options).unwrap());
        let env: Arc<dyn Env> = Arc::clone(&clock) as Arc<dyn Env>;
        let pool = Pool::create(Arc::clone(&store), env, "tank", dataset(&[])).unwrap();
        store.commit_labels().unwrap();
        let accepted = Acceptances::new(&Arc::new(StateDir::new(dir.path())));
        let active = ActivePool::new(
            (pool, PoolLock::none()),
            &accepted,
            &Arc::new(Wakeup::default()),
            &Arc::default(),
            &Arc::default(),
            None,
        )
        .unwrap();
        active.stop_worker();
        active.snapshots_looked_at.forget();
        Tank {
            active,
            clock,
            _dir: dir,
        }
    }

    fn create(&self, name: &str, props: &[(&str, &str)]) {
        let pool = &self.active.pool;
        pool.create_dataset(name, dataset(props), &origin())
            .unwrap();
    }

    fn set(&self, name: &str, property: &str, value: &str) {
        let change = (property.to_owned(), Some(value.to_owned()));
        let pool = &self.active.pool;
        pool.set_props(&[name.into()], &[change], &origin())
            .unwrap();
        self.active.snapshots_looked_at.forget();
    }

    /// Does at a time what the pool's thread does; again and again.
    fn at(&self, time: u64) {
        self.clock.0.store(time, Ordering::Relaxed);
        for _ in 0..3 {
            self.active.snapshots_by_schedule().unwrap();
        }
    }

    /// The snapshots of a dataset, from the oldest.
    fn snapshots(&self, name: &str) -> Vec<String> {
        let pool = &self.active.pool;
        let all = pool.snapshots(pool.find(name).unwrap().id).unwrap();
        all.iter().map(|snapshot| snapshot.name.clone()).collect()
    }

    fn txg(&self) -> u64 {
        self.active.pool.committed_txg()
    }

    fn history(&self, wanted: &str) -> usize {
        let lines = self.active.pool.history().unwrap();
        lines
            .iter()
            .filter(|line| line.text.contains(wanted))
            .count()
    }
}

fn origin() -> Origin {
    Origin {
        who: "test".into(),
        text: "test".into(),
        uid: None,
    }
}

fn dataset(props: &[(&str, &str)]) -> NewDataset {
    let props = props
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    NewDataset {
        kind: DatasetKind::FileSystem,
        guid: crate::host::process::system::new_guid(),
        suite: 0,
        keyring: None,
        is_key_root: false,
        props: props.collect(),
    }
}

#[test]
fn each_period_has_one_snapshot_and_the_newest_are_kept() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "hourly:2,daily:1")]);
    tank.create("tank/a/inherits", &[]);
    tank.create("tank/a/not", &[(PROPERTY, "none")]);
    tank.create("tank/other", &[]);
    tank.at(BEGIN + 5);
    let first = [
        "auto-hourly-2026-11-25-0000Z",
        "auto-daily-2026-11-25-0000Z",
    ];
    assert_eq!(tank.snapshots("tank/a"), first);
    assert_eq!(tank.snapshots("tank/a/inherits"), first);
    assert!(tank.snapshots("tank/a/not").is_empty() && tank.snapshots("tank/other").is_empty());
    // Nothing is committed, or even looked at, before the next hour.
    let before = tank.txg();
    tank.at(BEGIN + HOUR - 1);
    assert_eq!(tank.txg(), before);
    tank.at(BEGIN + HOUR);
    assert_eq!(tank.txg(), before + 1, "all at the same moment");
    tank.at(BEGIN + 2 * HOUR);
    let third = [
        "auto-daily-2026-11-25-0000Z",
        "auto-hourly-2026-11-25-0100Z",
        "auto-hourly-2026-11-25-0200Z",
    ];
    assert_eq!(tank.snapshots("tank/a"), third);
    assert_eq!(
        tank.history("snapshot @auto-hourly-2026-11-25-0200Z of 2 datasets, by snapshot-schedule"),
        1
    );
    assert_eq!(
        tank.history("destroy tank/a@auto-hourly-2026-11-25-0000Z"),
        1
    );
}

#[test]
fn a_daemon_that_was_off_makes_one_of_each_kind() {
    let tank = Tank::new();
    tank.create(
        "tank/a",
        &[(PROPERTY, "hourly:24,daily:30,weekly:4,monthly:12,yearly:1")],
    );
    tank.at(BEGIN);
    assert_eq!(tank.snapshots("tank/a").len(), 5);
    // It was off until the 28th of February.
    tank.at(BEGIN + 95 * DAY + 90);
    let made = tank.snapshots("tank/a").split_off(4);
    assert_eq!(
        made,
        [
            "auto-hourly-2027-02-28-0001Z",
            "auto-daily-2027-02-28-0001Z",
            "auto-weekly-2027-02-28-0001Z",
            "auto-monthly-2027-02-28-0001Z",
            "auto-yearly-2027-02-28-0001Z",
        ]
    );
}

#[test]
fn a_clock_that_jumps_neither_doubles_nor_empties() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "hourly:4")]);
    for hour in 0..4 {
        tank.at(BEGIN + hour * HOUR);
    }
    let four = tank.snapshots("tank/a");
    assert_eq!(four.len(), 4);
    // Back: those periods have theirs.
    tank.at(BEGIN + HOUR);
    tank.at(BEGIN + 3 * HOUR + 50);
    assert_eq!(tank.snapshots("tank/a"), four);
    // Forward by years and back: one is made, and one goes.
    tank.at(BEGIN + 1000 * DAY);
    tank.at(BEGIN + 3 * HOUR);
    let after = tank.snapshots("tank/a");
    assert_eq!(after[..3], four[1..]);
    assert_eq!(after.len(), 4);
    // It goes on with the true time, and forgets the oldest, not the one with the oldest name.
    tank.at(BEGIN + 4 * HOUR);
    assert_eq!(tank.snapshots("tank/a")[..2], four[2..]);
    assert!(
        tank.snapshots("tank/a")
            .contains(&"auto-hourly-2026-11-25-0400Z".into())
    );
    // Times of no calendar make nothing.
    tank.at(u64::MAX);
    assert_eq!(tank.snapshots("tank/a").len(), 4);
}

#[test]
fn what_is_held_cloned_open_or_made_by_hand_stays() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "hourly:1")]);
    let pool = &tank.active.pool;
    let name = |hour: u64| format!("tank/a@auto-hourly-2026-11-25-0{hour}00Z");
    pool.snapshot(&["tank/a@mine".into()], false, &origin())
        .unwrap();
    tank.at(BEGIN);
    pool.hold(&[name(0)], "keep", false, &origin()).unwrap();
    tank.at(BEGIN + HOUR);
    let clone = pool::NewClone {
        guid: 77,
        keyring: None,
        is_key_root: false,
        reseal: None,
        props: Default::default(),
        is_rekeyed: false,
        rotation: None,
    };
    pool.clone_snapshot(&name(1), "tank/clone", clone, &origin())
        .unwrap();
    tank.at(BEGIN + 2 * HOUR);
    let open = pool.open_dataset(pool.find(&name(2)).unwrap().id).unwrap();
    tank.at(BEGIN + 3 * HOUR);
    tank.at(BEGIN + 4 * HOUR);
    let hours = |tank: &Tank| -> Vec<String> {
        let all = tank.snapshots("tank/a").into_iter();
        all.map(|name| name.replace("auto-hourly-2026-11-25-", ""))
            .collect()
    };
    assert_eq!(hours(&tank), ["mine", "0000Z", "0100Z", "0200Z", "0400Z"]);
    // What nothing keeps any more goes next time.
    drop(open);
    pool.release(&[name(0)], "keep", false, &origin()).unwrap();
    tank.at(BEGIN + 5 * HOUR);
    assert_eq!(hours(&tank), ["mine", "0100Z", "0500Z"]);
    // Without a schedule nothing is pruned, nor what another kind made.
    tank.set("tank/a", PROPERTY, "daily:1");
    tank.at(BEGIN + 6 * HOUR);
    assert_eq!(tank.snapshots("tank/a").len(), 4);
}

#[test]
fn one_that_cannot_be_made_holds_up_no_other_and_is_told() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "hourly:3")]);
    tank.create("tank/b", &[(PROPERTY, "hourly:3"), ("snapshot_limit", "1")]);
    tank.at(BEGIN);
    tank.at(BEGIN + HOUR);
    assert_eq!(tank.snapshots("tank/a").len(), 2);
    assert_eq!(tank.snapshots("tank/b").len(), 1);
    let said = "snapshot tank/b@auto-hourly-2026-11-25-0100Z failed";
    assert_eq!(tank.history(said), 1);
    // It is tried once for each hour, even if another schedule has shorter periods.
    tank.create("tank/c", &[(PROPERTY, "1min:3")]);
    for minute in [1, 2] {
        tank.at(BEGIN + HOUR + minute * 60);
    }
    assert_eq!(tank.history(said), 1);
    tank.set("tank/b", "snapshot_limit", "3");
    tank.at(BEGIN + HOUR + 70);
    assert_eq!(tank.snapshots("tank/b").len(), 2);
}

#[test]
fn each_quarter_of_an_hour_has_a_snapshot() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "15min:3")]);
    for minute in [0, 14, 15, 29, 30, 44, 45] {
        tank.at(BEGIN + minute * 60);
    }
    let made = ["0015Z", "0030Z", "0045Z"].map(|at| format!("auto-15min-2026-11-25-{at}"));
    assert_eq!(tank.snapshots("tank/a"), made);
}

#[test]
fn snapshots_of_an_earlier_program_count_for_their_periods() {
    let tank = Tank::new();
    tank.clock.0.store(BEGIN + 5, Ordering::Relaxed);
    tank.create("tank/a", &[]);
    let old = ["auto-yearly-2026-01-01-0000", "auto-hourly-2026-11-25-0000"];
    for name in old {
        let name = format!("tank/a@{name}");
        tank.active
            .pool
            .snapshot(&[name], false, &origin())
            .unwrap();
    }
    tank.set("tank/a", PROPERTY, "hourly:2,yearly:1");
    tank.at(BEGIN + 10 * 60);
    assert_eq!(tank.snapshots("tank/a"), old);
    tank.at(BEGIN + HOUR);
    tank.at(BEGIN + 2 * HOUR);
    let made = [
        old[0],
        "auto-hourly-2026-11-25-0100Z",
        "auto-hourly-2026-11-25-0200Z",
    ];
    assert_eq!(tank.snapshots("tank/a"), made);
}

#[test]
fn a_local_schedule_names_the_offset() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "daily:3,local")]);
    tank.at(BEGIN + HOUR);
    let names = tank.snapshots("tank/a");
    let zone = TimeZone::system();
    let name = Kind::Daily.name_at(BEGIN + HOUR, &zone).unwrap();
    assert_eq!(names, [name]);
    // Of the same day in UTC and here.
    tank.set("tank/a", PROPERTY, "daily:3");
    tank.at(BEGIN + 90 * 60);
    assert_eq!(tank.snapshots("tank/a").len(), 1);
}

#[test]
fn another_command_goes_first() {
    let tank = Tank::new();
    tank.create("tank/a", &[(PROPERTY, "hourly:3")]);
    let admin = tank.active.lock(&Internal).unwrap();
    tank.at(BEGIN);
    assert!(tank.snapshots("tank/a").is_empty());
    drop(admin);
    tank.at(BEGIN);
    assert_eq!(tank.snapshots("tank/a").len(), 1);
}
