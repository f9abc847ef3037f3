//! Members whose devices wait are written to at the same time.

mod common;

use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::fault::{Fault, FaultDevice};
use block::{BlockDevice, Error};
use common::*;
use store::{SegmentId, Store};

/// Devices whose writes go on only when all of them have one under way.
#[derive(Default)]
struct Meeting {
    /// The number of devices that meet; 0 if none do.
    of: Mutex<usize>,
    come: Mutex<usize>,
    complete: Condvar,
}

impl Meeting {
    /// False if the others do not come: the limit only keeps a failing test from waiting for ever.
    fn wait(&self) -> bool {
        let of = *self.of.lock().unwrap();
        if of == 0 {
            return true;
        }
        let mut come = self.come.lock().unwrap();
        *come += 1;
        let all = come.div_ceil(of) * of;
        self.complete.notify_all();
        let limit = Duration::from_secs(20);
        let waiting = |come: &mut usize| *come < all;
        let waited = self.complete.wait_timeout_while(come, limit, waiting);
        !waited.unwrap().1.timed_out()
    }
}

struct Waiting {
    inner: Arc<FaultDevice>,
    meeting: Arc<Meeting>,
}

impl BlockDevice for Waiting {
    block::delegate!(self => self.inner; size refresh_size sector_sizes name read_at flush drop_cached begin_anew discard zero io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn write_at(&self, at: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        match self.meeting.wait() {
            true => self.inner.write_at(at, pieces),
            false => Err(Error::ReadOnly {
                device: "a device that was written to alone".into(),
            }),
        }
    }
}

fn waiting_group(devices: &[Arc<FaultDevice>], parity: usize) -> (Store, Arc<Meeting>) {
    let meeting = Arc::new(Meeting::default());
    let waiting = devices.iter().map(|inner| {
        let (inner, meeting) = (Arc::clone(inner), Arc::clone(&meeting));
        Arc::new(Waiting { inner, meeting }) as Arc<dyn BlockDevice>
    });
    let store = new_group(waiting.collect(), parity);
    store.commit_labels().unwrap();
    *meeting.of.lock().unwrap() = devices.len();
    (store, meeting)
}

fn write(store: &Store, segment: SegmentId, text: &[u8]) {
    let text = unit(text);
    let (front, back) = text.split_at(text.len() / 2);
    let pieces = [IoSlice::new(front), IoSlice::new(back)];
    store.write(segment, 0, &pieces).unwrap();
}

fn read(store: &Store, nth: usize, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    store.read_nth(nth, PLACE, 0, &mut buf).unwrap();
    buf
}

#[test]
fn members_of_a_mirror_are_written_to_at_the_same_time() {
    let devices = devices(3);
    let (store, _) = waiting_group(&devices, 0);
    write(&store, PLACE, b"here");
    store.write_superblock(1, b"root").unwrap();
    assert!(store.take_faults().is_empty());
    assert!((0..3).all(|nth| read(&store, nth, 4) == b"here"));
    for device in &devices {
        let alone = Store::open(dynamic(std::slice::from_ref(device))).unwrap();
        assert_eq!(alone.superblocks().unwrap()[0].0, 1);
    }
}

#[test]
fn columns_are_written_to_at_the_same_time() {
    let (store, _) = waiting_group(&devices(3), 1);
    let text: Vec<u8> = (0..2 * 4096u32).map(|n| n as u8).collect();
    write(&store, PLACE, &text);
    assert!(store.take_faults().is_empty());
    assert!((0..store.width(0)).all(|nth| read(&store, nth, text.len()) == text));
}

#[test]
fn a_member_that_fails_among_others_is_faulted_and_the_last_one_is_owed() {
    let devices = devices(2);
    let (store, meeting) = waiting_group(&devices, 0);
    devices[0].inject(Fault::DeadFrom(0));
    write(&store, PLACE, b"more");
    let faults = store.take_faults();
    assert_eq!(faults.iter().map(|f| f.guid).collect::<Vec<_>>(), [100]);
    assert_eq!(read(&store, 0, 4), b"more");
    // The other is alone now, and waits for none.
    *meeting.of.lock().unwrap() = 0;
    store.flush().unwrap();

    let devices = common::devices(2);
    let (store, meeting) = waiting_group(&devices, 0);
    devices.iter().for_each(|d| d.inject(Fault::DeadFrom(0)));
    write(&store, PLACE, b"owed");
    assert_eq!(store.take_faults().len(), 1);
    assert!(store.flush().is_err());
    assert_eq!(read(&store, 0, 4), b"owed");
    devices.iter().for_each(|d| d.heal());
    *meeting.of.lock().unwrap() = 0;
    store.retry().unwrap();
    store.flush().unwrap();
    assert_eq!(read(&store, 0, 4), b"owed");
}
