//! Writes to a mirror of two devices, one member after the other and both at the same time.
//!
//!     cargo run --release -p strongroom-store --example mirror_writes -- DIR
//!
//! Devices with a delay of 1 ms for each write, and files in DIR. Both ways take turns; each line has the
//! microseconds of a write in the median of the rounds, and the ratio.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, FileDevice, MemoryDevice};
use store::{CreateOptions, NewGroup, SegmentId, Store};

const SIZE: u64 = 64 << 20;
const ROUNDS: usize = 9;

/// A device whose writes take longer, and that says so or not.
struct Delayed {
    inner: Arc<dyn BlockDevice>,
    delay: Duration,
    says_so: bool,
}

impl BlockDevice for Delayed {
    block::delegate!(self => self.inner; size refresh_size sector_sizes name read_at flush drop_cached begin_anew discard zero io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        self.says_so
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn write_at(&self, at: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        self.inner.write_at(at, pieces)
    }
}

fn mirror(devices: &[Arc<dyn BlockDevice>], delay: Duration, says_so: bool) -> Store {
    let devices = devices.iter().map(|inner| {
        let inner = Arc::clone(inner);
        Arc::new(Delayed {
            inner,
            delay,
            says_so,
        }) as Arc<dyn BlockDevice>
    });
    let group = NewGroup {
        devices: devices.collect(),
        parity: 0,
    };
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: (2..).take(group.devices.len()).collect(),
        created: 1,
        force: true,
    };
    Store::create_groups(vec![group], vec![], &options).expect("a mirror")
}

/// Microseconds of a write.
fn measure(store: &Store, len: usize, count: u32) -> f64 {
    let bytes = vec![7; len];
    let begin = Instant::now();
    for n in 0..count {
        let offset = n * len as u32 % (store.segment_size() - len as u32);
        let offset = offset - offset % store::UNIT;
        let pieces = [IoSlice::new(&bytes)];
        store
            .write(SegmentId::new(0, 0), offset, &pieces)
            .expect("a write");
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let dir = std::env::args()
        .nth(1)
        .expect("a directory for two files of 64 MiB");
    let path = |n| std::path::Path::new(&dir).join(format!("mirror-{n}"));
    let file = |n| -> Arc<dyn BlockDevice> {
        let _ = std::fs::remove_file(path(n));
        Arc::new(FileDevice::create(&path(n), SIZE).expect("a new file"))
    };
    let memory = || -> Arc<dyn BlockDevice> { Arc::new(MemoryDevice::new(SIZE as usize)) };
    let kinds = [
        ("1 ms", [memory(), memory()], Duration::from_millis(1), 200),
        ("files", [file(0), file(1)], Duration::ZERO, 2000),
    ];
    for (kind, devices, delay, count) in kinds {
        for len in [4 << 10, 128 << 10] {
            let (mut one, mut both) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                one.push(measure(&mirror(&devices, delay, false), len, count));
                both.push(measure(&mirror(&devices, delay, true), len, count));
            }
            let (one, both) = (median(one), median(both));
            println!(
                "{kind:6} {:4} KiB  one after the other {one:7.1}  at the same time {both:7.1}  ratio {:.2}",
                len >> 10,
                one / both
            );
        }
    }
    for n in 0..2 {
        let _ = std::fs::remove_file(path(n));
    }
}
