//! Members that do not answer: the others do without them, and they come back only when they have answered.

mod common;

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::BlockDevice;
use block::fault::FaultDevice;
use block::gate::{DeviceGate, GatedDevice};
use common::*;
use store::{DeviceFault, Error, MemberInfo, MemberState, Store};

/// A group whose devices can be held up.
struct Slow {
    store: Store,
    devices: Vec<Arc<FaultDevice>>,
    gates: Vec<Arc<DeviceGate>>,
}

impl Slow {
    fn new(count: usize, parity: usize) -> Slow {
        let devices = devices(count);
        let gated = devices.iter().map(GatedDevice::new);
        let (gated, gates): (Vec<_>, Vec<_>) = gated.unzip();
        let dynamic = gated
            .into_iter()
            .map(|it| Arc::new(it) as Arc<dyn BlockDevice>);
        let store = new_group(dynamic.collect(), parity);
        store.write_superblock(1, b"first").unwrap();
        store.flush().unwrap();
        store.commit_labels().unwrap();
        store.set_deadline(Duration::from_millis(400));
        Slow {
            store,
            devices,
            gates,
        }
    }

    fn write(&self, text: &[u8]) {
        self.store
            .write(PLACE, 0, &[IoSlice::new(&unit(text))])
            .unwrap();
    }

    fn read_soon(&self, len: usize) -> (bool, Vec<u8>) {
        let mut buf = vec![0; len];
        let (is_first, read) = self.store.read_soon(PLACE, 0, &mut buf);
        read.unwrap();
        (is_first, buf)
    }

    fn info(&self, nth: usize) -> MemberInfo {
        let members = self.store.members();
        members
            .into_iter()
            .find(|m| m.guid == 100 + nth as u64)
            .unwrap()
    }

    /// Waits until a device has answered everything.
    fn answered(&self, nth: usize) {
        self.gates[nth].open();
        while self.info(nth).is_slow {
            std::thread::yield_now();
        }
    }

    /// The members that were faulted.
    fn faulted(&self) -> Vec<u64> {
        self.store
            .take_faults()
            .into_iter()
            .map(|fault| fault.guid)
            .collect()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.gates.iter().for_each(|gate| gate.open());
    }
}

#[test]
fn a_write_that_one_side_does_not_answer_is_degraded() {
    for (count, parity) in [(2, 0), (3, 0), (3, 1), (4, 2)] {
        for nth in 0..count {
            let slow = Slow::new(count, parity);
            slow.gates[nth].close();
            slow.write(&[7; 8192]);
            slow.store.write_superblock(2, b"root").unwrap();
            slow.store.flush().unwrap();
            assert_eq!(slow.faulted(), [100 + nth as u64], "{count} {parity} {nth}");
            assert_eq!(slow.info(nth).state, MemberState::Faulted);
            assert!(slow.info(nth).is_slow);
            assert_eq!(slow.read_soon(8192).1, [7; 8192]);
        }
    }
}

#[test]
fn a_flush_that_one_side_does_not_answer_is_degraded() {
    for nth in 0..2 {
        let slow = Slow::new(2, 0);
        slow.write(b"text");
        slow.gates[nth].close();
        slow.store.flush().unwrap();
        assert_eq!(slow.faulted(), [100 + nth as u64]);
    }
}

#[test]
fn a_device_without_redundancy_is_waited_for() {
    for count in [1, 2] {
        let slow = Slow::new(count, 0);
        slow.write(b"text");
        slow.gates.iter().for_each(|gate| gate.close());
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| slow.store.flush());
            // The deadline is over, and none of the sides is worse than the others.
            let (_, over) = std::sync::mpsc::channel::<()>();
            let _ = over.recv_timeout(Duration::from_millis(900));
            assert!(!flush.is_finished());
            assert!(slow.faulted().is_empty());
            slow.gates.iter().for_each(|gate| gate.open());
            flush.join().unwrap().unwrap();
        });
        assert!(slow.faulted().is_empty());
    }
}

#[test]
fn a_late_write_lands_before_the_device_may_come_back() {
    let slow = Slow::new(2, 0);
    slow.write(b"old");
    slow.store.flush().unwrap();
    slow.gates[0].close();
    slow.write(b"late");
    assert_eq!(slow.faulted(), [100]);
    // Its place was freed, and used again.
    slow.write(b"new");
    slow.store.flush().unwrap();
    let device = Arc::clone(&slow.devices[0]) as Arc<dyn BlockDevice>;
    for refused in [
        slow.store.check_answered(100),
        slow.store.take_back(Arc::clone(&device), 100),
    ] {
        assert!(
            matches!(refused, Err(Error::StillUnanswered { .. })),
            "{refused:?}"
        );
    }
    slow.answered(0);
    let mut buf = [0; 4];
    slow.store.check_answered(100).unwrap();
    slow.store.take_back(device, 100).unwrap();
    slow.store.set_state(100, MemberState::Resilvering);
    // What landed late is there, and nothing of it is read: the others hold everything.
    let bytes = slow.devices[0].to_bytes();
    assert!(bytes.chunks(4096).any(|unit| unit.starts_with(b"late")));
    slow.store.read_nth(0, PLACE, 0, &mut buf).unwrap();
    assert_eq!(&buf[..3], b"new");
    assert_eq!(&slow.read_soon(3).1, b"new");
    // From now on it gets what is written, after all that is late.
    slow.write(b"next");
    let bytes = slow.devices[0].to_bytes();
    assert!(!bytes.chunks(4096).any(|unit| unit.starts_with(b"late")));
}

#[test]
fn a_read_asks_another_device_and_the_slow_one_comes_back() {
    for (count, parity) in [(2, 0), (3, 1)] {
        let text: Vec<u8> = (0..8192u32).map(|n| n as u8).collect();
        for nth in 0..count {
            let slow = Slow::new(count, parity);
            slow.write(&text);
            slow.store.flush().unwrap();
            slow.gates[nth].close();
            for _ in 0..4 {
                assert_eq!(slow.read_soon(8192).1, text, "{count} {parity} {nth}");
            }
            // A slow read is no failure, and nothing more was asked.
            assert!(slow.faulted().is_empty());
            let info = slow.info(nth);
            assert_eq!(info.state, MemberState::Online);
            assert!(info.given_up <= 1);
            assert_eq!(info.is_slow, info.given_up == 1);
            slow.answered(nth);
            // On a busy machine another one may be slow for a moment too.
            while slow.read_soon(8192) != (true, text.clone()) {}
        }
    }
}

#[test]
fn the_first_device_is_asked_at_last_if_the_others_are_bad() {
    let slow = Slow::new(2, 0);
    slow.write(b"good");
    let mut first = [0; 4];
    // The one that is asked first for this place is given up, if it does not answer.
    let nth = (0..2).find(|nth| {
        slow.gates[*nth].close();
        slow.read_soon(4);
        let is_first = slow.info(*nth).given_up > 0;
        slow.answered(*nth);
        is_first
    });
    let (nth, other) = (nth.unwrap(), 1 - nth.unwrap());
    let bytes = slow.devices[other].to_bytes();
    let at = bytes
        .chunks(4096)
        .position(|unit| unit.starts_with(b"good"));
    slow.devices[other].flip(at.unwrap() as u64 * 4096, 0xff);
    slow.gates[nth].close();
    let (is_first, found) = slow.read_soon(4);
    assert!(!is_first && found != b"good");
    slow.gates[nth].open();
    let width = slow.store.width(0);
    let good = (1..=width).any(|nth| {
        slow.store.read_nth(nth, PLACE, 0, &mut first).unwrap();
        &first == b"good"
    });
    assert!(good);
}

#[test]
fn heartbeats_go_on_when_one_device_does_not_answer() {
    let slow = Slow::new(2, 0);
    assert!(slow.store.has_heartbeat_block());
    slow.gates[0].close();
    for sequence in 1..=3 {
        slow.store.write_heartbeat(sequence, b"alive").unwrap();
    }
    assert!(slow.info(0).is_slow);
    assert_eq!(slow.info(0).given_up, 1);
    assert!(slow.faulted().is_empty());
}

type Act = fn(&Store) -> store::Result<()>;

/// Operations of a pool on headers, on free space and for repairs.
const OTHERS: [(&str, Act); 10] = [
    ("write a key", |store| store.write_key_block(1, b"key")),
    ("wipe a key", |store| store.wipe_key_block(0)),
    ("check headers", |store| {
        store.check_headers(1, &[0], true).map(drop)
    }),
    ("discard", |store| store.discard(PLACE, 0, 1 << 20)),
    ("fill", |store| {
        store.fill_on(None, PLACE, (0, 1 << 20), [7; 8])
    }),
    ("repair", |store| {
        let guids = store.members().into_iter().map(|member| member.guid);
        { guids }.try_for_each(|guid| store.write_part(guid, PLACE, 0, &[7; 8192]))
    }),
    ("read a key", |store| store.read_key_block(0).map(drop)),
    ("examine", |store| {
        let parts = store.read_parts(PLACE, 0, 8192, MemberState::Online)?;
        assert!(parts.bad(&[7; 8192]).is_empty());
        Ok(())
    }),
    ("erase", |store| {
        // Which devices keep their keys, the failure says.
        match store.erase() {
            Err(Error::Unanswered { .. }) => Ok(()),
            other => panic!("{other:?}"),
        }
    }),
    ("find a key", |store| store.key_block_is_blank(1).map(drop)),
];

#[test]
fn headers_free_space_and_repairs_are_done_without_a_device_that_hangs() {
    for (what, act) in OTHERS {
        for (count, parity) in [(2, 0), (3, 1)] {
            for nth in 0..count {
                let slow = Slow::new(count, parity);
                slow.store.write_key_block(0, b"old").unwrap();
                slow.write(&[7; 8192]);
                slow.store.flush().unwrap();
                slow.gates[nth].close();
                act(&slow.store).unwrap();
                let faulted = slow.faulted();
                match what {
                    // A read is not a failure, and the other one may have been asked.
                    "read a key" | "find a key" => assert!(faulted.is_empty()),
                    _ => assert_eq!(faulted, [100 + nth as u64], "{what} {count} {nth}"),
                }
                slow.store.flush().unwrap();
                let has_key = !["wipe a key", "erase"].contains(&what);
                assert_eq!(slow.store.read_key_block(0).is_ok(), has_key);
            }
        }
    }
}

#[test]
fn a_key_that_a_device_may_have_is_not_called_destroyed() {
    let slow = Slow::new(2, 0);
    slow.store.write_key_block(0, b"old").unwrap();
    slow.store.flush().unwrap();
    slow.gates[0].close();
    slow.store.wipe_key_block(0).unwrap();
    slow.store.flush().unwrap();
    // The device was given up. What it has counts again only after its keys were made like those of the others.
    assert_eq!(slow.faulted(), [100]);
    let has_old = |slow: &Slow| {
        let bytes = slow.devices[0].to_bytes();
        bytes.windows(3).any(|part| part == b"old")
    };
    assert!(has_old(&slow));
    slow.answered(0);
    let device = Arc::clone(&slow.devices[0]) as Arc<dyn BlockDevice>;
    slow.store.take_back(device, 100).unwrap();
    slow.store.set_state(100, MemberState::Resilvering);
    slow.store.refresh_headers(100, &[]).unwrap();
    assert!(!has_old(&slow));
    // One that does not answer, and is not given up, is not known to be blank.
    let slow = Slow::new(2, 0);
    assert!(slow.store.key_block_is_blank(0).unwrap());
    slow.gates[1].close();
    assert!(!slow.store.key_block_is_blank(0).unwrap());
}

#[test]
fn labels_are_not_waited_for() {
    for nth in 0..2 {
        let slow = Slow::new(2, 0);
        slow.gates[nth].close();
        let refused = slow.store.renumber(7, &[100, 101]).unwrap_err();
        assert!(matches!(refused, Error::Unanswered { .. }), "{refused}");
        assert_eq!(slow.faulted(), [100 + nth as u64]);
    }
}

/// The network stops in a repair of one device: no device is worse than the others.
#[test]
fn one_device_is_given_up_only_if_the_others_answer() {
    let slow = Slow::new(2, 0);
    slow.write(&[7; 8192]);
    slow.store.flush().unwrap();
    slow.gates.iter().for_each(|gate| gate.close());
    std::thread::scope(|scope| {
        let repair = scope.spawn(|| slow.store.write_part(100, PLACE, 0, &[7; 8192]));
        // The other one has been asked, and does not answer.
        while !slow.info(1).is_slow {
            std::thread::yield_now();
        }
        assert!(!repair.is_finished());
        slow.gates.iter().for_each(|gate| gate.open());
        repair.join().unwrap().unwrap();
    });
    assert!(slow.faulted().is_empty());
}

/// A device with a defect of the program.
struct Defect {
    device: Arc<FaultDevice>,
    is_there: Arc<AtomicBool>,
}

impl Defect {
    fn check(&self) {
        assert!(!self.is_there.load(Ordering::Relaxed), "a defect");
    }
}

impl BlockDevice for Defect {
    block::delegate!(self => self.device; size refresh_size sector_sizes name drop_cached begin_anew discard zero io_mode settle read_at);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.check();
        self.device.write_at(offset, pieces)
    }

    fn flush(&self) -> block::Result<()> {
        self.check();
        self.device.flush()
    }
}

/// A mirror, and whether its devices have defects.
fn defective() -> (Store, [Arc<AtomicBool>; 2]) {
    let defects: [Arc<AtomicBool>; 2] = Default::default();
    let devices = devices(2).into_iter().zip(&defects);
    let devices = devices.map(|(device, is_there)| {
        let is_there = Arc::clone(is_there);
        Arc::new(Defect { device, is_there }) as Arc<dyn BlockDevice>
    });
    let store = new_group(devices.collect(), 0);
    store.write_superblock(1, b"first").unwrap();
    store.commit_labels().unwrap();
    (store, defects)
}

#[test]
fn a_request_that_panics_has_failed() {
    let (store, defects) = defective();
    let write = || store.write(PLACE, 0, &[IoSlice::new(&unit(b"text"))]);
    write().unwrap();
    defects[0].store(true, Ordering::Relaxed);
    // The flush of the other one covers everything.
    store.flush().unwrap();
    let faults = store.take_faults();
    assert!(matches!(
        faults[..],
        [DeviceFault {
            guid: 100,
            error: Error::Panicked,
            ..
        }]
    ));
    write().unwrap();
    store.flush().unwrap();
    assert!(store.take_faults().is_empty());
}

#[test]
fn no_flush_succeeds_after_one_that_panicked() {
    let (store, defects) = defective();
    store
        .write(PLACE, 0, &[IoSlice::new(&unit(b"text"))])
        .unwrap();
    defects
        .iter()
        .for_each(|it| it.store(true, Ordering::Relaxed));
    // Of the two, one is the last.
    assert!(matches!(store.flush(), Err(Error::Panicked)));
    defects
        .iter()
        .for_each(|it| it.store(false, Ordering::Relaxed));
    store.flush().unwrap_err();
    assert!(store.retry().unwrap());
    store.flush().unwrap();
}

#[test]
fn a_device_that_leaves_or_grows_is_not_waited_for() {
    for is_leaving in [true, false] {
        let slow = Slow::new(2, 0);
        slow.devices[0].resize(SIZE + (64 << 20));
        slow.gates[0].close();
        let done = match is_leaving {
            true => slow.store.let_go(100, true),
            false => slow.store.extend(100, &[], (1, b"first")).map(drop),
        };
        assert!(matches!(done, Err(Error::Unanswered { .. })), "{done:?}");
        slow.write(b"text");
        slow.store.flush().unwrap();
    }
}
