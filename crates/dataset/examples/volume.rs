//! A volume beside a file with records of the same size, in one pool in memory, without FUSE or NBD between.
//!
//! ```text
//! cargo run --release -p strongroom-dataset --example volume [block=KIB] [size=MIB] [ROUNDS]
//! ```
//!
//! Each line is one kind of request, by one thread or by four, first to the file and then to the volume; each
//! number is one round. Cold is after the dataset was opened anew. What is written last is committed within the
//! time. Random requests are as many 4 KiB as a quarter of the size holds.

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use bench_pool::{BenchPool, OWNER};
use block::{BlockDevice, MemoryDevice};
use dataset::{Compression, Dataset, EngineOptions, PrimaryCache, Settings, Volume};
use pool::VolumeShape;
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT};

const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

/// The operations of both.
trait Bytes: Sync {
    fn read(&self, offset: u64, buf: &mut [u8]);
    fn write(&self, offset: u64, data: &[u8]);
    fn sync(&self);
}

struct File(Arc<Dataset>, Ino);

impl Bytes for File {
    fn read(&self, offset: u64, buf: &mut [u8]) {
        let mut at = 0;
        for piece in self
            .0
            .read(self.1, offset, buf.len() as u32)
            .expect("whole")
        {
            buf[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.0.write(self.1, offset, data, false).expect("space");
    }

    fn sync(&self) {
        self.0.fsync(self.1, false).expect("a log");
    }
}

impl Bytes for Volume {
    fn read(&self, offset: u64, buf: &mut [u8]) {
        self.read_at(offset, buf).expect("whole");
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.write_at(offset, &[IoSlice::new(data)]).expect("space");
    }

    fn sync(&self) {
        self.flush().expect("a log");
    }
}

fn random(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// A kind of request, `count` times by each of some threads.
struct Work<'a> {
    name: &'a str,
    threads: u64,
    count: u64,
    len: usize,
    act: &'a (dyn Fn(&dyn Bytes, u64, u64) + Sync),
}

fn main() {
    let (mut block, mut size, mut rounds) = (16u64, 256u64, 3);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("block", kib)) => block = kib.parse().expect("KiB"),
            Some(("size", mib)) => size = mib.parse().expect("MiB"),
            _ => rounds = argument.parse().expect("how many rounds"),
        }
    }
    let (block, size) = (block << 10, size << 20);
    let options = EngineOptions {
        cache_bytes: size,
        dirty_bytes: size,
        seal_threads: 2,
    };
    let settings = Settings {
        record_size: block as u32,
        compression: Compression::Off,
        ..Settings::default()
    };
    let device = Arc::new(MemoryDevice::new(6 * size as usize));
    let pool = BenchPool::create(device, options);
    let files = pool.open(settings);
    let node = NewNode::new(Kind::File, 0o600);
    let ino = files
        .mknod(&OWNER, ROOT, b"file", &node)
        .expect("a file")
        .ino;
    let file = File(files, ino);
    let shape = VolumeShape::new(size, block as u32).expect("a shape");
    let volume = pool.volume(shape, settings);
    let data: Vec<u8> = (0..PIECE as u64 / 8)
        .flat_map(|n| random(n).to_le_bytes())
        .collect();
    let data = &data;
    let small = size / SMALL as u64 / 4;
    let at = move |n: u64, salt: u64| random(n << 8 | salt) % (size / SMALL as u64) * SMALL as u64;
    let write_all = move |on: &dyn Bytes, _: u64, n: u64| on.write(n * PIECE as u64, data);
    let read_all = |on: &dyn Bytes, _: u64, n: u64| {
        let mut buf = vec![0; PIECE];
        on.read(n * PIECE as u64, &mut buf);
    };
    let write_small = move |on: &dyn Bytes, thread: u64, n: u64| {
        on.write(at(n, thread), &data[..SMALL]);
    };
    let read_small = move |on: &dyn Bytes, thread: u64, n: u64| {
        on.read(at(n, thread), &mut [0; SMALL]);
    };
    let write_synced = move |on: &dyn Bytes, thread: u64, n: u64| {
        on.write(at(n, thread), &data[..SMALL]);
        on.sync();
    };
    let kind = |name, threads, count, len, act| Work {
        name,
        threads,
        count,
        len,
        act,
    };
    let pieces = size / PIECE as u64;
    let kinds = [
        kind("write 1 MiB, sequential", 1, pieces, PIECE, &write_all as _),
        kind(
            "read 1 MiB, sequential, cold",
            1,
            pieces,
            PIECE,
            &read_all as _,
        ),
        kind("write 4 KiB, random", 1, small, SMALL, &write_small as _),
        kind(
            "write 4 KiB, random, 4 threads",
            4,
            small / 4,
            SMALL,
            &write_small as _,
        ),
        kind(
            "read 4 KiB, random, cold",
            1,
            small,
            SMALL,
            &read_small as _,
        ),
        kind(
            "read 4 KiB, random, 4 threads, warm",
            4,
            small / 4,
            SMALL,
            &read_small as _,
        ),
        kind("write 4 KiB and sync", 1, 2000, SMALL, &write_synced as _),
        kind(
            "write 4 KiB and sync, 4 threads",
            4,
            1000,
            SMALL,
            &write_synced as _,
        ),
    ];
    println!("MB/s, of a file and of a volume; blocks of {block} bytes, {size} in all");
    for kind in &kinds {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (on, figures) in [&file as &dyn Bytes, &volume].into_iter().zip(&mut figures) {
                if kind.name.ends_with("cold") {
                    forget(&file.0, settings);
                    forget(volume.dataset(), settings);
                }
                figures.push(format!("{:.0}", run(kind, on, &pool)));
            }
        }
        let [of_file, of_volume] = figures.map(|figures| figures.join(" "));
        println!("{:38}{of_file:24}{of_volume}", kind.name);
    }
}

/// Empties the record cache of a dataset.
fn forget(files: &Dataset, settings: Settings) {
    files.set_settings(Settings {
        primary_cache: PrimaryCache::None,
        ..settings
    });
    files.set_settings(settings);
}

/// Megabytes in a second.
fn run(kind: &Work<'_>, on: &dyn Bytes, pool: &BenchPool) -> f64 {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..kind.threads {
            scope.spawn(move || {
                for n in 0..kind.count {
                    (kind.act)(on, thread, n);
                }
            });
        }
    });
    if kind.name.starts_with("write") {
        pool.commit();
    }
    let bytes = (kind.threads * kind.count * kind.len as u64) as f64;
    bytes / begin.elapsed().as_secs_f64() / 1e6
}
