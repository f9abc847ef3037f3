//! Devices that fail: the pool stops, and what was committed is there afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice};
use pool::{ArrayKind, DeviceState, Error, Pool};

#[test]
fn a_failed_write_or_flush_suspends_and_loses_nothing_committed() {
    // Every event of a commit in turn.
    for event in 0..40 {
        for short in [false, true] {
            let clock = FaultClock::new();
            let devices = fault_devices(1, &clock);
            let pool = create_on(&devices);
            let dataset = pool.open_dataset(1).unwrap();
            put(&pool, &dataset, ArrayKind::Data, 1, 1).unwrap();
            pool.commit().unwrap();
            let start = clock.now();
            devices[0].inject(if short {
                Fault::ShortWrite {
                    event: start + event,
                    written: 700,
                }
            } else {
                Fault::DeadFrom(start + event)
            });
            let result = put(&pool, &dataset, ArrayKind::Data, 1, 2).and_then(|()| pool.commit());
            let failed = result.is_err();
            if failed {
                assert!(pool.suspended().is_some());
                assert!(matches!(pool.commit(), Err(Error::Suspended { .. })));
                assert!(matches!(pool.enter().err(), Some(Error::Suspended { .. })));
            }
            drop((dataset, pool));
            devices[0].heal();
            let pool = open_on(&devices).unwrap();
            let dataset = pool.open_dataset(1).unwrap();
            let found = read_all(&dataset, ArrayKind::Data).unwrap();
            let (old, new) = (BTreeMap::from([(1, 1)]), BTreeMap::from([(1, 2)]));
            assert!(
                found == new || failed && found == old,
                "event {event}: {found:?}"
            );
            assert_clean(&pool);
        }
    }
}

#[test]
fn a_failed_flush_is_never_taken_for_success() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 1, 1).unwrap();
    for event in clock.now()..clock.now() + 64 {
        devices[1].inject(Fault::FailFlush(event));
    }
    assert!(pool.commit().is_err());
    devices[1].heal();
    // The kernel may have dropped what it could not write: trying again proves nothing.
    assert!(matches!(pool.commit(), Err(Error::Suspended { .. })));
}

#[test]
fn a_full_device_suspends_the_pool() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    devices[0].inject(Fault::FullAfter(devices[0].written() + 10_000));
    let mut result = Ok(());
    for slot in 0..100 {
        result = put(&pool, &dataset, ArrayKind::Data, slot, slot);
        if result.is_err() {
            break;
        }
    }
    assert!(result.is_err());
    assert!(pool.suspended().unwrap().contains("device"));
}

#[test]
fn unreadable_places_are_errors_that_say_where() {
    let clock = FaultClock::new();
    let devices = fault_devices(1, &clock);
    let pool = create_on(&devices);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 1, 1).unwrap();
    put(&pool, &dataset, ArrayKind::Pages, 1, 1).unwrap();
    pool.commit().unwrap();
    let ptr = dataset.get(ArrayKind::Data, 1).unwrap();
    let mut buf = Vec::new();
    let mut accept_all = |ptr: &pool::RecordPtr, bytes: &[u8]| dataset.is_undamaged(ptr, bytes);
    dataset
        .read(ArrayKind::Data, 1, &mut buf, &mut accept_all)
        .unwrap();

    // Data has one copy: it is gone.
    let header = header_size(&pool);
    let addr = ptr.place.addr[0];
    let at =
        header + u64::from(addr.segment().index()) * segment_size(&pool) + u64::from(addr.offset());
    devices[0].inject(Fault::BadBytes {
        offset: at,
        len: 4096,
    });
    let error = dataset
        .read(ArrayKind::Data, 1, &mut buf, &mut accept_all)
        .unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("fault device"), "{error}");

    // Metadata has two: the second serves.
    let ptr = dataset.get(ArrayKind::Pages, 1).unwrap();
    let addr = ptr.place.addr[0];
    let at =
        header + u64::from(addr.segment().index()) * segment_size(&pool) + u64::from(addr.offset());
    devices[0].inject(Fault::BadBytes {
        offset: at,
        len: 4096,
    });
    dataset
        .read(ArrayKind::Pages, 1, &mut buf, &mut accept_all)
        .unwrap();
    assert_eq!(buf, contents(1));
}

#[test]
fn a_device_that_fails_is_not_damage() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let dataset = pool.open_dataset(1).unwrap();
    put(&pool, &dataset, ArrayKind::Data, 1, 1).unwrap();
    pool.commit().unwrap();
    let addr = dataset.get(ArrayKind::Data, 1).unwrap().place.addr[0];
    let segment = u64::from(addr.segment().index()) * segment_size(&pool);
    let at = header_size(&pool) + segment + u64::from(addr.offset());
    let damage = |device: &FaultDevice| {
        let bytes = [std::io::IoSlice::new(&[0xa5; 512])];
        device.write_at(at, &bytes).unwrap();
    };
    let mut accept = |ptr: &pool::RecordPtr, bytes: &[u8]| dataset.is_undamaged(ptr, bytes);
    let mut read = || dataset.read(ArrayKind::Data, 1, &mut Vec::new(), &mut accept);

    damage(&devices[0]);
    read().unwrap();
    devices[1].inject(Fault::DeadFrom(clock.now()));
    // The copy on the failed device may be good.
    let error = read().unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
    devices[1].heal();
    read().unwrap();
    damage(&devices[1]);
    let error = read().unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

fn segment_size(_: &pool::Pool) -> u64 {
    1 << 20
}

/// A label, 32 superblocks and 32 key blocks, to the next 64 KiB.
fn header_size(_: &pool::Pool) -> u64 {
    (65 * 4096_u64).next_multiple_of(64 << 10)
}

/// A device whose flushes wait while they are held.
struct SlowFlush {
    inner: Arc<FaultDevice>,
    is_held: AtomicBool,
    waits: AtomicBool,
}

impl BlockDevice for SlowFlush {
    block::delegate!(self => self.inner; size refresh_size sector_sizes name read_at write_at drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn flush(&self) -> block::Result<()> {
        while self.is_held.load(Ordering::SeqCst) {
            self.waits.store(true, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.inner.flush()
    }
}

#[test]
fn the_dataset_table_can_be_read_while_a_commit_waits_for_the_device() {
    let devices = fault_devices(1, &FaultClock::new());
    drop(create_on(&devices));
    let slow = Arc::new(SlowFlush {
        inner: Arc::clone(&devices[0]),
        is_held: AtomicBool::new(false),
        waits: AtomicBool::new(false),
    });
    let pool = open_devices(vec![Arc::clone(&slow) as Arc<dyn BlockDevice>]).unwrap();
    slow.is_held.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| snapshot(&pool, "tank@s"));
        while !slow.waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let (done, seen) = std::sync::mpsc::channel();
        let pool = &pool;
        scope.spawn(move || {
            let listed = pool.list(1).unwrap().len();
            let _ = done.send((listed, pool.space().total));
        });
        let seen = seen.recv_timeout(std::time::Duration::from_secs(10));
        slow.is_held.store(false, Ordering::SeqCst);
        assert!(seen.is_ok(), "the reader waited for the device");
    });
    assert_eq!(pool.list(1).unwrap().len(), 2);
}

/// No command erases a device that a failed commit lists: the next import may find that commit.
#[test]
fn devices_that_may_have_joined_are_not_erased() {
    // The flush that fails; at first none does.
    let mut event = u64::MAX / 2;
    loop {
        let clock = FaultClock::new();
        let mut devices = fault_devices(2, &clock);
        let new = devices.pop().unwrap();
        let pool = create_on(&devices);
        let start = clock.now();
        devices[0].inject(Fault::FailFlush(start + event));
        let added = pool.add_group(&[new_member(&new, 50)], 0, &origin());
        let last = clock.now() - start;
        drop(pool);
        devices[0].heal();
        // As a file does that is opened again.
        devices[0].begin_anew().unwrap();
        devices.push(new);
        let pool = open_on(&devices).unwrap_or_else(|error| panic!("event {event}: {error}"));
        if added.is_ok() {
            assert_eq!(pool.devices().len(), 2, "event {event}");
        }
        assert_clean(&pool);
        match event.min(last) {
            0 => break,
            next => event = next - 1,
        }
    }
}

/// A device that fails while it is added takes nothing with it: another one can be added, and the pool can be
/// imported without it.
#[test]
fn a_device_that_fails_while_it_is_added_leaves_no_trace() {
    let mut refused = 0;
    for (event, fault) in (0..60).flat_map(|event| [(event, 0), (event, 1)]) {
        let clock = FaultClock::new();
        let devices = fault_devices(4, &clock);
        let pool = create_on(&devices[..1]);
        let at = clock.now() + event;
        devices[1].inject(match fault {
            0 => Fault::DeadFrom(at),
            _ => Fault::FailFlush(at),
        });
        let two = [new_member(&devices[2], 30), new_member(&devices[1], 31)];
        let added = match event % 2 {
            0 => pool.add_group(&two[1..], 0, &origin()),
            _ => pool.add_group(&two, 0, &origin()),
        };
        if added.is_ok() || pool.suspended().is_some() {
            continue;
        }
        refused += 1;
        assert_eq!(states(&pool), [DeviceState::Online], "event {event}");
        pool.add_group(&[new_member(&devices[3], 40)], 0, &origin())
            .unwrap_or_else(|error| panic!("event {event}: {error}"));
        assert_eq!(states(&pool), [DeviceState::Online; 2], "event {event}");
        let total = pool.space().total;
        put_many(&pool);
        assert_clean(&pool);
        drop(pool);
        let rest = [Arc::clone(&devices[0]), Arc::clone(&devices[3])];
        let pool = open_on(&rest).unwrap_or_else(|error| panic!("event {event}: {error}"));
        assert_eq!((pool.space().total, pool.devices().len()), (total, 2));
        assert_clean(&pool);
    }
    assert!(refused > 5, "{refused}");
}

/// Writes until there is something in each group.
fn put_many(pool: &Pool) {
    let dataset = pool.open_dataset(1).unwrap();
    for slot in 0..200 {
        put(pool, &dataset, ArrayKind::Data, slot, slot).unwrap();
    }
    pool.commit().unwrap();
}
