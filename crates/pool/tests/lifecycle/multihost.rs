//! Heartbeats: a host that uses a pool is noticed, and one that cannot show it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::*;
use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice, Survival};
use pool::{Env, Error, HEARTBEAT_INTERVAL, Host, ImportWait, Pool, SuspensionEnd, await_no_other};
use store::{CreateOptions, Store};

/// A machine with a clock of its own, which only tests move.
struct Machine {
    host: Host,
    millis: AtomicU64,
    guids: AtomicU64,
}

impl Machine {
    fn new(id: u32, name: &str) -> Arc<Machine> {
        Arc::new(Machine {
            host: Host {
                id,
                name: name.into(),
            },
            millis: AtomicU64::new(1000 * u64::from(id)),
            guids: AtomicU64::new(u64::from(id) << 32),
        })
    }

    fn pass(&self, time: Duration) {
        let millis = time.as_millis() as u64;
        self.millis.fetch_add(millis, Ordering::Relaxed);
    }

    fn import(self: &Arc<Self>, store: Arc<Store>) -> Pool {
        let pool = Pool::open(store, Arc::clone(self) as _, false).unwrap();
        pool.claim(self.host.clone()).unwrap();
        pool
    }

    /// Looks for other hosts, and returns how long that took. `meanwhile` is called after each wait.
    fn look(&self, store: &Store, meanwhile: &mut dyn FnMut(Duration)) -> pool::Result<Duration> {
        let mut waited = Duration::ZERO;
        let mut told = None;
        let mut pass = |passing: ImportWait<'_>| {
            match passing {
                ImportWait::Begin(host, time) => told = Some((host.clone(), time)),
                ImportWait::Step(time) => {
                    waited += time;
                    self.pass(time);
                    meanwhile(time);
                }
            }
            true
        };
        await_no_other(store, &self.host, self, &mut pass)?;
        // A look at a pool without heartbeats is too short to be told.
        match told {
            Some((_, time)) => assert_eq!(time, waited),
            None => assert!(waited <= GLANCE),
        }
        Ok(waited)
    }
}

impl Env for Machine {
    fn now(&self) -> u64 {
        1_700_000_000 + self.millis.load(Ordering::Relaxed) / 1000
    }

    fn lease_clock(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn guid(&self) -> u64 {
        self.guids.fetch_add(1, Ordering::Relaxed)
    }
}

/// Two devices that all machines reach.
struct Shared(Vec<Arc<FaultDevice>>);

impl Shared {
    /// With a pool that a machine has imported.
    fn new(machine: &Arc<Machine>) -> (Shared, Pool) {
        let shared = Shared(fault_devices(2, &FaultClock::new()));
        let options = CreateOptions {
            pool_guid: 7,
            device_guids: vec![8, 9],
            created: 1,
            force: false,
        };
        let store = Arc::new(Store::create(shared.devices(), &options).unwrap());
        let env = Arc::clone(machine) as Arc<dyn Env>;
        let pool = Pool::create(Arc::clone(&store), env, "tank", new_dataset(1)).unwrap();
        pool.claim(machine.host.clone()).unwrap();
        store.commit_labels().unwrap();
        (shared, pool)
    }

    fn devices(&self) -> Vec<Arc<dyn BlockDevice>> {
        let all = self.0.iter();
        all.map(|it| Arc::clone(it) as Arc<dyn BlockDevice>)
            .collect()
    }

    fn store(&self) -> Arc<Store> {
        Arc::new(Store::open(self.devices()).unwrap())
    }
}

fn set(pool: &Pool, value: &str) {
    let change = ("multihost".to_owned(), Some(value.to_owned()));
    pool.set_props(&["tank".into()], &[change], &origin())
        .unwrap();
    pool.multihost().beat().unwrap();
}

/// Changes something, durably.
fn change(pool: &Pool) -> pool::Result<()> {
    let change = ("a:b".to_owned(), Some("c".to_owned()));
    pool.set_props(&["tank".into()], &[change], &origin())
}

const DEAD: Duration = Duration::from_secs(22);
/// The longest look at a pool without heartbeats.
const GLANCE: Duration = Duration::from_secs(2);

#[test]
fn a_host_that_writes_is_seen_without_heartbeats() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    let busy = |machine: &Machine| {
        let looked = machine.look(&shared.store(), &mut |_| change(&pool).unwrap());
        let error = looked.unwrap_err();
        assert!(matches!(&error, Error::OtherHost { host, id: 1, .. } if host == "a"));
    };
    busy(&b);
    // This machine in another container, or a copy of it.
    busy(&a);
    // One that writes nothing is not seen.
    let look = |machine: &Machine| machine.look(&shared.store(), &mut |_| ()).unwrap();
    assert_eq!((look(&b), look(&a)), (GLANCE, GLANCE / 2));
    export(pool);
    assert_eq!(look(&b), Duration::ZERO);
}

#[test]
fn a_host_that_lives_keeps_its_pool() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    // It is slow, but not too slow, and the last to look is the first to see.
    for silent in [1, 5, 9] {
        let mut steps = 0;
        let looked = b.look(&shared.store(), &mut |time| {
            a.pass(time);
            steps += 1;
            if steps % silent == 0 {
                pool.multihost().beat().unwrap();
            }
        });
        let error = looked.unwrap_err();
        assert!(
            matches!(&error, Error::OtherHost { host, id: 1, .. } if host == "a"),
            "{error}"
        );
    }
    change(&pool).unwrap();
    // What the pool itself writes is noticed too.
    let looked = b.look(&shared.store(), &mut |_| change(&pool).unwrap());
    assert!(matches!(looked, Err(Error::OtherHost { .. })));
}

#[test]
fn a_host_that_is_dead_loses_its_pool_and_does_not_come_back() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    let store = shared.store();
    assert_eq!(b.look(&store, &mut |time| a.pass(time)).unwrap(), DEAD);
    let other = b.import(store);
    other.multihost().beat().unwrap();
    change(&other).unwrap();
    let txg = other.committed_txg();
    // It was only asleep. It writes nothing, and goes on with nothing.
    let error = change(&pool).unwrap_err();
    assert!(error.to_string().contains("heartbeat"), "{error}");
    assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Imported));
    for tried in [
        pool.resume(&origin()),
        pool.multihost().beat(),
        pool.export(),
        change(&pool),
    ] {
        tried.unwrap_err();
    }
    drop(pool);
    change(&other).unwrap();
    assert_eq!(other.committed_txg(), txg + 1);
    assert!(other.check().unwrap().is_clean());
    export(other);
    // What was exported is nobody's.
    assert_eq!(
        a.look(&shared.store(), &mut |_| ()).unwrap(),
        Duration::ZERO
    );
}

#[test]
fn without_heartbeats_nothing_is_acknowledged_after_the_time() {
    let a = Machine::new(1, "a");
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    a.pass(Duration::from_secs(9));
    change(&pool).unwrap();
    a.pass(Duration::from_secs(1));
    let error = pool.commit().and_then(|()| change(&pool)).unwrap_err();
    assert!(error.to_string().contains("for 10 s"), "{error}");
    drop((pool, shared));
}

#[test]
fn nothing_is_repaired_after_the_time() {
    let a = Machine::new(1, "a");
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    let table = pool.superblock().datasets;
    let damage = || {
        let addr = table.place.copies().next().unwrap();
        let offset = u64::from(addr.segment().index()) << 20;
        let header = (65 * 4096_u64).next_multiple_of(64 << 10);
        shared.0[0].flip(header + offset + u64::from(addr.offset()), 1);
    };
    damage();
    pool.scrubber().start().unwrap();
    while pool.scrubber().step(u64::MAX).unwrap() {}
    assert_eq!(pool.scrubber().status().repaired, 1);
    damage();
    pool.scrubber().start().unwrap();
    a.pass(Duration::from_secs(10));
    let before = shared.0[0].to_bytes();
    while let Ok(true) = pool.scrubber().step(u64::MAX) {}
    assert!(shared.0[0].to_bytes() == before, "it was repaired");
    assert!(pool.suspended().unwrap().contains("for 10 s"));
}

#[test]
fn another_host_that_did_not_wait_is_noticed_after_a_pause() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    let other = b.import(shared.store());
    other.multihost().beat().unwrap();
    a.pass(3 * HEARTBEAT_INTERVAL);
    assert!(matches!(
        pool.multihost().beat(),
        Err(Error::OtherHost { id: 2, .. })
    ));
    assert_eq!(pool.suspended_until(), Some(SuspensionEnd::Imported));
}

#[test]
fn of_two_that_wait_at_once_one_gets_it() {
    let (a, b, c) = (
        Machine::new(1, "a"),
        Machine::new(2, "b"),
        Machine::new(3, "c"),
    );
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    drop(pool);
    let mut steps = 0;
    let mut second = None;
    let looked = b.look(&shared.store(), &mut |_| {
        steps += 1;
        // The claim of the first is the last that this one waits for, so that it begins anew.
        if steps == 21 {
            second = Some(c.look(&shared.store(), &mut |_| ()));
        }
    });
    // The first one sees the claim of the second one.
    assert!(matches!(looked, Err(Error::OtherHost { id: 3, .. })));
    second.unwrap().unwrap();
}

#[test]
fn it_ends_where_it_is_switched_off_or_the_host_is_the_same() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    let look = |machine: &Machine| machine.look(&shared.store(), &mut |_| ()).unwrap();
    assert_eq!(look(&b), GLANCE);
    set(&pool, "on");
    pool.multihost().beat().unwrap();
    // A copy of the host, or a second process of it, would be seen.
    assert_eq!(look(&a), 3 * HEARTBEAT_INTERVAL);
    pool.multihost().beat().unwrap();
    assert_eq!(look(&b), DEAD);
    set(&pool, "off");
    assert_eq!(look(&b), GLANCE);
    a.pass(DEAD);
    change(&pool).unwrap();
    let unnamed = Machine::new(0, "a");
    let (_, pool) = Shared::new(&unnamed);
    let change = ("multihost".to_owned(), Some("on".to_owned()));
    pool.set_props(&["tank".into()], &[change], &origin())
        .unwrap();
    assert!(
        pool.multihost()
            .beat()
            .unwrap_err()
            .to_string()
            .contains("hostid")
    );
}

#[test]
fn a_second_import_of_the_same_host_sees_heartbeats() {
    let a = Machine::new(1, "a");
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    pool.multihost().beat().unwrap();
    let looked = a.look(&shared.store(), &mut |_| pool.multihost().beat().unwrap());
    assert!(matches!(looked, Err(Error::OtherHost { id: 1, .. })));
}

#[test]
fn torn_heartbeats_do_not_hide_a_host() {
    let (a, b) = (Machine::new(1, "a"), Machine::new(2, "b"));
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    for _ in 0..2 {
        a.pass(HEARTBEAT_INTERVAL);
        pool.multihost().beat().unwrap();
    }
    let end = DEVICE_SIZE as u64;
    // The last block of the front header, and that before the label of the back one.
    let places = [5 * 65536 - 4096, end - 8192];
    let tear = |at: u64| {
        for device in &shared.0 {
            let mut block = [0; 4096];
            device.read_at(at, &mut block).unwrap();
            assert_eq!(&block[..8], b"SR-BEAT_");
            block[2048..].fill(0xff);
            let pieces = [std::io::IoSlice::new(&block)];
            device.write_at(at, &pieces).unwrap();
        }
    };
    for at in places {
        tear(at);
        let looked = b.look(&shared.store(), &mut |time| {
            a.pass(time);
            pool.multihost().beat().unwrap();
        });
        assert!(matches!(looked, Err(Error::OtherHost { .. })), "{at}");
    }
    for at in places {
        tear(at);
    }
    assert_eq!(b.look(&shared.store(), &mut |_| ()).unwrap(), DEAD);
}

/// An import that is interrupted leaves the pool to anybody: also to the host that it was interrupted on.
#[test]
fn a_wait_can_be_interrupted_at_any_step() {
    let a = Machine::new(1, "a");
    let (shared, pool) = Shared::new(&a);
    set(&pool, "on");
    drop(pool);
    for steps in 0..=22 {
        let b = Machine::new(2, "b");
        let mut left = steps;
        let mut pass = |passing: ImportWait<'_>| match passing {
            ImportWait::Begin(..) => true,
            ImportWait::Step(_) if left == 0 => false,
            ImportWait::Step(time) => {
                b.pass(time);
                left -= 1;
                true
            }
        };
        let copies: Vec<_> = shared.0.iter().map(|device| copy_of(device)).collect();
        let copied = Shared(copies);
        let found = await_no_other(&copied.store(), &b.host, b.as_ref(), &mut pass);
        match steps {
            22 => found.unwrap(),
            _ => {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("interrupted"), "{steps}: {error}");
            }
        }
        // Another host still waits before it uses the pool.
        let c = Machine::new(3, "c");
        assert_eq!(
            c.look(&copied.store(), &mut |_| ()).unwrap(),
            DEAD,
            "{steps}"
        );
        assert_clean(&c.import(copied.store()));
    }
}

/// A power cut at any write of the first heartbeats, of those that follow, and of the claim of another host: no host that
/// imports the pool afterwards does it without waiting, if the pool has said that it has heartbeats.
#[test]
fn a_power_cut_at_any_write_of_heartbeats() {
    let a = Machine::new(1, "a");
    let (shared, pool) = Shared::new(&a);
    let take = || -> Vec<_> {
        shared
            .0
            .iter()
            .map(|device| device.take_journal())
            .collect()
    };
    take();
    let times = |journals: &[block::fault::Journal]| -> Vec<u64> {
        let mut all: Vec<u64> = journals
            .iter()
            .flat_map(|journal| journal.times())
            .collect();
        all.sort_unstable();
        all
    };
    set(&pool, "on");
    let begin = take();
    for _ in 0..3 {
        a.pass(HEARTBEAT_INTERVAL);
        pool.multihost().beat().unwrap();
    }
    let beats = take();
    drop(pool);
    let b = Machine::new(2, "b");
    assert_eq!(b.look(&shared.store(), &mut |_| ()).unwrap(), DEAD);
    let claim = take();
    let mut waited = [0; 3];
    for (phase, journals) in [begin, beats, claim].iter().enumerate() {
        let times = times(journals);
        let (first, last) = (times[0], times[times.len() - 1]);
        for cut in first..=last + 1 {
            let survival = Survival::in_turn(cut, cut);
            let shared = Shared(after_cut(journals, cut, survival));
            let when = format!("phase {phase}, cut {cut} of {first} to {last}, {survival:?}");
            let c = Machine::new(3, "c");
            let looked = c.look(&shared.store(), &mut |_| ());
            let looked = looked.unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(looked == DEAD || phase == 0 && looked <= GLANCE, "{when}");
            waited[phase] += usize::from(looked == DEAD);
            let pool = c.import(shared.store());
            assert_clean(&pool);
            if pool.multihost().is_on().unwrap() {
                pool.multihost().beat().unwrap();
                drop(pool);
                let b = Machine::new(2, "b");
                assert_eq!(
                    b.look(&shared.store(), &mut |_| ()).unwrap(),
                    DEAD,
                    "{when}"
                );
            }
        }
    }
    assert!(waited.iter().all(|times| *times > 0), "{waited:?}");
}
