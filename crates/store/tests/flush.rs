//! A flush covers everything whose write had returned before it began, also while other threads flush.

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use block::fault::{Fault, FaultClock, FaultDevice};
use block::{BlockDevice, MemoryDevice};
use store::{CreateOptions, SegmentId, Store};

type Hook = Box<dyn FnOnce() + Send>;

/// A device that calls back once, in the middle of a write or a flush.
struct Hooked {
    inner: MemoryDevice,
    during_write: Mutex<Option<Hook>>,
    during_flush: Mutex<Option<Hook>>,
    flushes: AtomicUsize,
}

fn run(hook: &Mutex<Option<Hook>>) {
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

impl BlockDevice for Hooked {
    block::delegate!(self => self.inner; name size refresh_size sector_sizes read_at drop_cached begin_anew discard zero waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn write_at(&self, at: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        run(&self.during_write);
        self.inner.write_at(at, pieces)
    }

    fn flush(&self) -> block::Result<()> {
        run(&self.during_flush);
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.inner.flush()
    }
}

fn create_on(device: Arc<dyn BlockDevice>) -> Store {
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: vec![2],
        created: 3,
        force: false,
    };
    let store = Store::create(vec![device], &options).unwrap();
    store.flush().unwrap();
    store
}

fn store_on_hooked() -> (Arc<Hooked>, Arc<Store>) {
    let device = Arc::new(Hooked {
        inner: MemoryDevice::new(16 << 20),
        during_write: Mutex::default(),
        during_flush: Mutex::default(),
        flushes: AtomicUsize::new(0),
    });
    let store = create_on(device.clone());
    (device, Arc::new(store))
}

fn write(store: &Store) {
    let segment = SegmentId::new(0, 0);
    store
        .write(segment, 0, &[IoSlice::new(&[1; 4096])])
        .unwrap();
}

#[test]
fn a_flush_in_the_middle_of_a_write_does_not_cover_it() {
    let (device, store) = store_on_hooked();
    let during = Arc::clone(&store);
    *device.during_write.lock().unwrap() = Some(Box::new(move || during.flush().unwrap()));
    write(&store);
    let before = device.flushes.load(Ordering::SeqCst);
    store.flush().unwrap();
    assert_eq!(device.flushes.load(Ordering::SeqCst), before + 1);
}

#[test]
fn after_a_failed_flush_none_succeeds() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new(16 << 20, &clock));
    let store = create_on(Arc::clone(&device) as Arc<dyn BlockDevice>);
    write(&store);
    device.inject(Fault::FailFlush(clock.now()));
    assert!(store.flush().is_err());
    // The device works again, and what it lost does not come back.
    device.heal();
    assert!(store.flush().is_err());
}

#[test]
fn a_flush_does_not_return_before_the_one_that_covers_it() {
    let (device, store) = store_on_hooked();
    write(&store);
    let flushed = Arc::new(AtomicBool::new(false));
    let (overtaken, overtook) = mpsc::channel();
    let (second, is_flushed) = (Arc::clone(&store), Arc::clone(&flushed));
    *device.during_flush.lock().unwrap() = Some(Box::new(move || {
        std::thread::spawn(move || {
            second.flush().unwrap();
            let _ = overtaken.send(is_flushed.load(Ordering::SeqCst));
        });
        // It may take its chance now, if it has one.
        let early = overtook.recv_timeout(Duration::from_millis(200));
        assert!(early.is_err(), "the second flush overtook the first");
        flushed.store(true, Ordering::SeqCst);
    }));
    store.flush().unwrap();
}
