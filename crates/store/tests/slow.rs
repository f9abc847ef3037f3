//! Members that do not answer: the others do without them, and they come back only when they have answered.

mod common;

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use block::BlockDevice;
use block::fault::FaultDevice;
use block::gate::{Gate, Gated};
use common::*;
use store::{Error, MemberInfo, MemberState, Store};

/// A group whose devices can be held up.
struct Slow {
    store: Store,
    devices: Vec<Arc<FaultDevice>>,
    gates: Vec<Arc<Gate>>,
}

impl Slow {
    fn new(count: usize, parity: usize) -> Slow {
        let devices = devices(count);
        let gated = devices.iter().map(Gated::new);
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
