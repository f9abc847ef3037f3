//! Measures a cache device: random reads of 4 KiB from a pool on a device that takes a while for each,
//! without a cache device, with an empty one, and with one that has what is read.
//!
//! ```text
//! cargo run --release -p strongroom-dataset --example second_level [READS [MICROSECONDS]]
//! ```
//!
//! The pool is in memory behind a delay for each read, 5,000 microseconds unless another is given, as a disk
//! has them; the cache is in memory without. Nearly nothing is kept in memory above (`primarycache=metadata`,
//! a cache of 4 MiB).

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_pool::{BenchPool, OWNER};
use block::{BlockDevice, DeviceMeter, MemoryDevice, MeteredDevice, Result};
use dataset::{Dataset, EngineOptions, PrimaryCache, Settings};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT};

const FILE: u64 = 256 << 20;
const PIECE: u64 = 1 << 20;

fn main() {
    let mut numbers = std::env::args().skip(1);
    let mut number = |default| {
        numbers
            .next()
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let (reads, delay) = (number(1000), Duration::from_micros(number(5000)));
    println!(
        "{:>8} {:>12} {:>12} {:>12} {:>14}",
        "record", "without /s", "filling /s", "filled /s", "from the pool"
    );
    for record_size in [16 << 10, 128 << 10] {
        measure(record_size, reads, delay);
    }
    println!("KiB; reads a second; bytes read from the pool's device once all is in the cache");
}

/// A device of which each read takes at least a while.
struct Slow(MemoryDevice, Duration);

impl BlockDevice for Slow {
    block::delegate!(self => self.0; size refresh_size sector_sizes write_at flush drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn name(&self) -> String {
        "a slow device".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        std::thread::sleep(self.1);
        self.0.read_at(offset, buf)
    }
}

fn measure(record_size: u32, reads: u64, delay: Duration) {
    let options = EngineOptions {
        cache_bytes: 4 << 20,
        dirty_bytes: 64 << 20,
        seal_threads: 0,
    };
    let meter = Arc::new(DeviceMeter::default());
    let slow = Slow(MemoryDevice::new(FILE as usize * 2), delay);
    let device: Arc<dyn BlockDevice> = Arc::new(MeteredDevice::new(slow, Arc::clone(&meter)));
    let pool = BenchPool::create(device, options);
    let settings = Settings {
        record_size,
        primary_cache: PrimaryCache::Metadata,
        ..Settings::default()
    };
    let files = pool.open(settings);
    let ino = write_file(&files);

    let without = random_reads(&files, ino, reads, 1);
    pool.add_cache(Arc::new(MemoryDevice::new(FILE as usize * 2)));
    let filling = random_reads(&files, ino, reads, 1);
    for at in (0..FILE).step_by(PIECE as usize) {
        files.read(ino, at, PIECE as u32).expect("it was written");
        pool.drain_caches();
    }
    let before = meter.read.totals().bytes;
    let filled = random_reads(&files, ino, reads, 2);
    let from_pool = meter.read.totals().bytes - before;
    println!(
        "{:>8} {without:>12.0} {filling:>12.0} {filled:>12.0} {from_pool:>14}",
        record_size >> 10
    );
}

fn write_file(files: &Arc<Dataset>) -> Ino {
    let node = NewNode::new(Kind::File, 0o644);
    let ino = files
        .create(&OWNER, ROOT, b"file", &node)
        .expect("space")
        .ino;
    let mut state = 1_u64;
    for at in (0..FILE).step_by(PIECE as usize) {
        let piece: Vec<u8> = (0..PIECE / 8)
            .flat_map(|_| random(&mut state).to_le_bytes())
            .collect();
        files.write(ino, at, &piece, false).expect("space");
    }
    files.sync_all().expect("space");
    ino
}

/// Returns the number of reads a second.
fn random_reads(files: &Arc<Dataset>, ino: Ino, reads: u64, seed: u64) -> f64 {
    let mut state = seed;
    let begin = Instant::now();
    for _ in 0..reads {
        let at = random(&mut state) % (FILE / 4096) * 4096;
        files.read(ino, at, 4096).expect("it was written");
    }
    reads as f64 / begin.elapsed().as_secs_f64()
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}
