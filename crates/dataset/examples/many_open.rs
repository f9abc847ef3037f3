//! Measures the cost of a commit while many datasets are open.
//!
//! ```text
//! cargo run --release -p strongroom-dataset --example many_open [COUNT]
//! ```
//!
//! The pool is in memory. Each figure is the median of 50 commits: one that makes a dataset, and one after a
//! change of one file.

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::sync::Arc;
use std::time::Instant;

use bench_pool::{BenchPool, OWNER};
use block::MemoryDevice;
use dataset::{Dataset, EngineOptions};
use vfs::{FileSystem, Kind, NewNode, ROOT};

fn main() {
    let count = std::env::args().nth(1);
    let count: u64 = count.map_or(900, |count| count.parse().expect("how many datasets"));
    let options = EngineOptions {
        cache_bytes: 64 << 20,
        dirty_bytes: 64 << 20,
        seal_threads: 1,
    };
    let pool = BenchPool::create(Arc::new(MemoryDevice::new(2 << 30)), options);
    let mut open: Vec<Arc<Dataset>> = Vec::new();
    for wanted in [1, count] {
        while (open.len() as u64) < wanted {
            let dataset = pool.dataset(open.len() as u64);
            make(&dataset, "file");
            open.push(dataset);
        }
        for _ in 0..3 {
            pool.commit();
        }
        let base = wanted * 1_000_000;
        let create = median(|n| {
            pool.make(base + n);
        });
        let change = median(|n| {
            make(&open[0], &format!("file-{base}-{n}"));
            pool.commit();
        });
        println!("{wanted:>6} open   create {create:7.3} ms   change of one {change:7.3} ms");
    }
}

fn make(files: &Dataset, name: &str) {
    let node = NewNode::new(Kind::File, 0o600);
    let made = files.create(&OWNER, ROOT, name.as_bytes(), &node);
    files.forget(made.expect("space").ino, 1);
}

fn median(mut act: impl FnMut(u64)) -> f64 {
    let mut times: Vec<f64> = (0..50)
        .map(|n| {
            let begin = Instant::now();
            act(n);
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
