//! The requests of a pool to a device, through the cache of the system and past it, in turns.
//!
//! ```text
//! cargo run --release -p strongroom-block --example direct_io -- PATH [MIB [ROUNDS]]
//! ```
//!
//! What PATH holds is overwritten. If it does not exist, it is a new file in each round, so that the first writes go to
//! holes. Records have 128 KiB. Before each measure of reads the cache of the system is emptied. Memory is not aligned,
//! as that of records. Compare within one run only.

use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{BlockDevice, DeviceAccess, FileDevice};

const RECORD: u64 = 128 << 10;
const TIME: Duration = Duration::from_secs(2);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a file or a disk");
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let (size, rounds): (u64, u64) = (number(512) << 20, number(3));
    let path = Path::new(&path);
    let is_new = !path.exists();
    println!(
        "{:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "write", "again", "commits", "read", "2 jobs", "random", "4 jobs", "log"
    );
    for _ in 0..rounds {
        for is_direct in [false, true] {
            let device = match is_new {
                true => FileDevice::create(path, size).expect("a new file"),
                false => FileDevice::open(path, DeviceAccess::Exclusive).expect("a device"),
            };
            let device = match is_direct {
                true => device.past_cache(),
                false => device,
            };
            measure(&device, size);
            if is_new {
                std::fs::remove_file(path).expect("it was made for this");
            }
        }
    }
    println!("MiB/s five times, then operations a second");
}

fn measure(device: &FileDevice, size: u64) {
    let data: Vec<u8> = (0..(4 << 20) + 1).map(|n| random(n) as u8).collect();
    let record = &data[1..][..RECORD as usize];
    let mib = |begin: Instant| (size >> 20) as f64 / begin.elapsed().as_secs_f64();
    let mut figures = Vec::new();

    // Two threads that seal records, and a commit.
    for _ in 0..2 {
        let begin = Instant::now();
        in_order(2, size, |at| {
            let written = device.write_at(at, &[IoSlice::new(record)]);
            written.expect("space");
        });
        device.flush().expect("it works");
        figures.push(mib(begin));
    }
    // Commits of many nodes.
    let nodes: Vec<IoSlice<'_>> = data[1..].chunks(4096).map(IoSlice::new).collect();
    let begin = Instant::now();
    for at in (0..size - (4 << 20)).step_by(4 << 20) {
        device.write_at(at, &nodes).expect("space");
        if at.is_multiple_of(32 << 20) {
            device.flush().expect("it works");
        }
    }
    figures.push(mib(begin));

    for threads in [1, 2] {
        cold(device);
        let begin = Instant::now();
        in_order(threads, size, |at| read(device, at));
        figures.push(mib(begin));
    }
    for threads in [1, 4] {
        cold(device);
        let done = AtomicU64::new(0);
        let begin = Instant::now();
        on_threads(threads, |thread| {
            for n in 0.. {
                if begin.elapsed() > TIME {
                    break;
                }
                read(device, random(n << 8 | thread) % (size / RECORD) * RECORD);
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        figures.push(done.into_inner() as f64 / begin.elapsed().as_secs_f64());
    }
    let (begin, mut done) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        let entry = [IoSlice::new(&record[..4096])];
        device.write_at(done % 1024 * 4096, &entry).expect("space");
        device.flush().expect("it works");
        done += 1;
    }
    figures.push(done as f64 / begin.elapsed().as_secs_f64());

    let mode = device.io_mode().map_or("", |mode| mode.as_str());
    print!("{mode:>9}");
    figures.iter().for_each(|figure| print!(" {figure:>8.0}"));
    println!();
}

fn read(device: &FileDevice, at: u64) {
    let mut buf = vec![0; RECORD as usize + 1];
    device.read_at(at, &mut buf[1..]).expect("it was written");
}

fn cold(device: &FileDevice) {
    device.flush().expect("it works");
    device.drop_cached().expect("it works");
}

/// Has threads do something to each record, in the order of the device.
fn in_order(threads: u64, size: u64, act: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    on_threads(threads, |_| {
        loop {
            let at = next.fetch_add(RECORD, Ordering::Relaxed);
            if at >= size {
                break;
            }
            act(at);
        }
    });
}

fn on_threads(threads: u64, work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

/// SplitMix64.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
