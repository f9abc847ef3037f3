//! Measures how long commits stop writers.
//!
//! ```text
//! cargo run --release -p strongroom-dataset --example commit_stops [file=PATH] [threads=N] [dirty=MIB] [SECONDS]
//! ```
//!
//! Threads write 4 KiB at random places of files of their own and make files, each as fast as it can,
//! while another commits once a second and when much is dirty, as the daemon does; the pool is in
//! memory, or in a file that is made for it. `dirty` is how much of what was written may wait in memory (256
//! MiB by default): above that writers are held up by what they wrote before, not by commits. Each operation is timed by the wall, so what else runs on
//! the machine counts too: an idle thread that only sleeps for a millisecond shows how much.

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench_pool::{BenchPool, OWNER};
use block::{BlockDevice, FileDevice, MemoryDevice};
use dataset::{Dataset, EngineOptions, Settings};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT};

const POOL: u64 = 6 << 30;
/// Blocks of the file that a thread writes to.
const BLOCKS: u64 = 16 << 10;

fn main() {
    let (mut path, mut threads, mut seconds) = (None::<PathBuf>, 2, 20);
    let mut dirty = 256;
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("file", file)) => path = Some(file.into()),
            Some(("threads", count)) => threads = count.parse().expect("how many threads"),
            Some(("dirty", mib)) => dirty = mib.parse().expect("MiB"),
            _ => seconds = argument.parse().expect("seconds"),
        }
    }
    let device: Arc<dyn BlockDevice> = match &path {
        Some(path) => Arc::new(FileDevice::create(path, POOL).expect("a new file")),
        None => Arc::new(MemoryDevice::new(POOL as usize)),
    };
    let options = EngineOptions {
        cache_bytes: (2 * dirty) << 20,
        dirty_bytes: dirty << 20,
        seal_threads: 2,
    };
    let pool = BenchPool::create(device, options);
    let files = pool.open(Settings::default());
    let is_over = AtomicBool::new(false);
    let commits = AtomicU64::new(0);
    let run = |name: &'static str, act: &mut dyn FnMut(u64)| {
        let mut times = Vec::new();
        for n in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let begin = Instant::now();
            act(n);
            times.push(begin.elapsed());
        }
        (name, times)
    };
    let (files, run) = (&files, &run);
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for thread in 0..threads {
            all.push(scope.spawn(move || {
                let ino = make(files, &format!("file-{thread}"));
                let data = [thread as u8; 4096];
                run("write 4 KiB", &mut |n| {
                    let at = random(n << 8 | thread) % BLOCKS * 4096;
                    files.write(ino, at, &data, false).expect("space");
                })
            }));
        }
        all.push(scope.spawn(move || {
            run("create", &mut |n| {
                let ino = make(files, &format!("small-{n}"));
                files.forget(ino, 1);
            })
        }));
        all.push(scope.spawn(move || {
            run("sleep 1 ms", &mut |_| {
                std::thread::sleep(Duration::from_millis(1))
            })
        }));
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_secs(1));
            files.sync_all().expect("space");
            commits.fetch_add(1, Ordering::Relaxed);
        }
        is_over.store(true, Ordering::Relaxed);
        println!(
            "{:<12} {:>10} {:>9} {:>9} {:>9} {:>9}   milliseconds",
            "", "count", "p50", "p99", "p99.9", "most"
        );
        for thread in all {
            let (name, times) = thread.join().expect("it ends");
            report(name, times);
        }
    });
    println!("{} commits", commits.into_inner());
    if let Some(path) = path {
        std::fs::remove_file(path).expect("it was made for this");
    }
}

fn make(files: &Dataset, name: &str) -> Ino {
    let node = NewNode::new(Kind::File, 0o600);
    let made = files.create(&OWNER, ROOT, name.as_bytes(), &node);
    made.expect("space").ino
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: f64| {
        let index = ((times.len() - 1) as f64 * part) as usize;
        times[index].as_secs_f64() * 1e3
    };
    println!(
        "{name:<12} {:>10} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
        times.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// SplitMix64.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
