//! Commits go on while each deadlist is read once for the sum over many snapshots.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use crate::common::streams::*;
use crate::common::*;
use block::BlockDevice;
use block::fault::{FaultClock, FaultDevice};
use pool::ArrayKind::Data;
use pool::Pool;

/// More than are read in one piece.
const SNAPSHOTS: u64 = 600;

/// A device that counts reads, and waits at one of them.
struct Watched {
    device: Arc<FaultDevice>,
    reads: AtomicU64,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl BlockDevice for Watched {
    block::delegate!(self => self.device; size refresh_size sector_sizes name flush drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let gate = self.gate.lock().unwrap().take();
        if let Some((reached, go)) = gate {
            reached.send(()).unwrap();
            go.recv().unwrap();
        }
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.device.write_at(offset, pieces)
    }
}

fn pool_with_snapshots() -> (Arc<Watched>, Pool) {
    let device = Arc::new(FaultDevice::new(96 << 20, &FaultClock::new()));
    let pool = create_on(&[Arc::clone(&device)]);
    fill(&pool, "tank", Data, &[(0, 1), (1, 2)]);
    for number in 0..SNAPSHOTS {
        snapshot(&pool, &format!("tank@{number}"));
        // Something dies, that the snapshot has.
        fill(&pool, "tank", Data, &[(number % 2, 10 + number)]);
    }
    export(pool);
    let watched = Arc::new(Watched {
        device,
        reads: AtomicU64::new(0),
        gate: Mutex::default(),
    });
    let pool = open_devices(vec![Arc::clone(&watched) as Arc<dyn BlockDevice>]).unwrap();
    (watched, pool)
}

#[test]
fn each_deadlist_is_read_once() {
    let (device, pool) = pool_with_snapshots();
    let id = pool.top().unwrap().id;
    let all = |pool: &Pool| {
        for number in 0..SNAPSHOTS {
            let written = pool.written_since(id, &number.to_string()).unwrap();
            assert!(written > Some(0));
        }
        assert!(pool.logical_used(id).unwrap() > Some(0));
    };
    let reads = || device.reads.swap(0, Ordering::Relaxed);
    reads();
    all(&pool);
    let first = reads();
    // A sublist, and the node above it.
    assert!((SNAPSHOTS..6 * SNAPSHOTS).contains(&first), "{first}");
    // A commit changes what the dataset has itself, and an end of a snapshot changes the list of the next one.
    fill(&pool, "tank", Data, &[(0, 5000)]);
    pool.destroy_dataset("tank@300", false, &origin()).unwrap();
    reads();
    for number in (0..SNAPSHOTS).filter(|number| *number != 300) {
        pool.written_since(id, &number.to_string()).unwrap();
    }
    assert!(reads() < 50);
    assert_eq!(pool.written_since(id, "300").unwrap(), None);
}

/// The state of a thread of this process, as the kernel names it.
fn is_asleep(thread: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap();
    let state = stat.rsplit(')').next().unwrap().trim_start();
    state.starts_with('S')
}

#[test]
fn a_commit_comes_in_between() {
    let (device, pool) = pool_with_snapshots();
    let id = pool.top().unwrap().id;
    let (reached, at_gate) = mpsc::channel();
    let (open_gate, go) = mpsc::channel();
    *device.gate.lock().unwrap() = Some((reached, go));
    let committed = &AtomicBool::new(false);
    let pool = &pool;
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let used = pool.logical_used(id).unwrap();
            (used, committed.load(Ordering::SeqCst))
        });
        at_gate.recv().unwrap();
        let (say, said) = mpsc::channel();
        scope.spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            say.send(own.to_str().unwrap().to_owned()).unwrap();
            pool.record(&origin()).unwrap();
            committed.store(true, Ordering::SeqCst);
        });
        // Until the commit waits, for the reader or for what the reader has.
        let thread: String = said.recv().unwrap();
        while !is_asleep(&thread) {
            std::thread::yield_now();
        }
        open_gate.send(()).unwrap();
        let (used, was_committed) = asked.join().unwrap();
        assert!(was_committed, "it waited for all deadlists");
        assert_eq!(pool.logical_used(id).unwrap(), used);
    });
}
