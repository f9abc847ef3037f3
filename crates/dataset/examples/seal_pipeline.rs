//! Measures how fast records are sealed on their way into the pool, beside the parts of that work alone.
//!
//! `cargo run --release -p strongroom-dataset --example seal_pipeline`
//!
//! The pipeline compresses (off here, or LZ4 on contents that do not compress), seals with
//! XAES-256-GCM, checksums with BLAKE3, allocates, and copies to a device in memory. GB/s are 10^9
//! bytes of plaintext a second; medians of several runs that take turns, since the clock frequency
//! and other work on the machine change.

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_pool::{BenchPool, SUITE};
use block::MemoryDevice;
use cipher::{Random, RecordCipher, SystemRandom};
use dataset::{Compression, Dataset, EngineOptions, SealPipeline, Settings};

const SIZES: [usize; 4] = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
const RUNS: usize = 15;
const RUN_TIME: Duration = Duration::from_millis(30);

fn main() {
    println!("{}", cipher::hardware());
    println!(
        "{:>8} {:>10} {:>10} {:>10} {:>12} {:>12} {:>8}   GB/s",
        "bytes", "cipher", "BLAKE3", "copy", "pipeline", "with LZ4", "of parts"
    );
    let (off, lz4) = (open(Compression::Off), open(Compression::Lz4));
    for size in SIZES {
        measure(size, &off, &lz4);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("\nThe pipeline on several threads, records of 128 KiB:");
    for threads in 1..=cores {
        println!("{threads:>8} {:>10.2} GB/s", on_threads(&off, threads));
    }
}

fn measure(size: usize, off: &Arc<Dataset>, lz4: &Arc<Dataset>) {
    let mut plain = vec![0; size];
    SystemRandom.fill(&mut plain).expect("random");
    let mut out = vec![0; size];
    let cipher = RecordCipher::new(SUITE, &[7; 32]).expect("key length");
    let nonce = SystemRandom.nonce().expect("random");
    let (plain_line, lz4_line) = (
        SealPipeline::new(off, &plain),
        SealPipeline::new(lz4, &plain),
    );
    let (mut a, mut b, mut c, mut d, mut e) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..RUNS {
        a.push(rate(size, || {
            black_box(
                cipher
                    .seal(&nonce, &[7; 32], &plain, &mut out)
                    .expect("seal"),
            );
        }));
        b.push(rate(size, || {
            black_box(blake3::hash(&plain));
        }));
        c.push(rate(size, || {
            out.copy_from_slice(black_box(&plain));
            black_box(&out);
        }));
        d.push(rate(size, || plain_line.run().expect("seal")));
        e.push(rate(size, || lz4_line.run().expect("seal")));
    }
    let [a, b, c, d, e] = [a, b, c, d, e].map(median);
    let parts = 1.0 / (1.0 / a + 1.0 / b + 1.0 / c);
    println!(
        "{size:>8} {a:>10.2} {b:>10.2} {c:>10.2} {d:>12.2} {e:>12.2} {:>7.0}%",
        100.0 * d / parts
    );
}

/// GB/s of one thing that is done to so many bytes.
fn rate(size: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < RUN_TIME {
        for _ in 0..8 {
            work();
        }
        count += 8;
    }
    (count * size) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn on_threads(files: &Arc<Dataset>, threads: usize) -> f64 {
    let size = 128 << 10;
    let mut plain = vec![0; size];
    SystemRandom.fill(&mut plain).expect("random");
    let once = || {
        std::thread::scope(|scope| {
            let work = || {
                let line = SealPipeline::new(files, &plain);
                rate(size, || line.run().expect("seal"))
            };
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            all.into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum()
        })
    };
    median((0..RUNS).map(|_| once()).collect())
}

fn open(compression: Compression) -> Arc<Dataset> {
    let options = EngineOptions {
        cache_bytes: 32 << 20,
        dirty_bytes: 32 << 20,
        seal_threads: 0,
    };
    let pool = BenchPool::create(Arc::new(MemoryDevice::new(256 << 20)), options);
    pool.open(Settings {
        compression,
        ..Settings::default()
    })
}
