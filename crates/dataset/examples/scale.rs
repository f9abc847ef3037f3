//! Measures an operation on a file in datasets of 10^4, 10^5 and 10^6 files, and the time in which a pool
//! with so many is opened.
//!
//! ```text
//! cargo run --release -p strongroom-dataset --example scale [flat] [accounts] [cache=MIB] [bytes=N] [file=PATH] [COUNT...]
//! ```
//!
//! The files are empty, or of so many bytes, in directories of a thousand, or with `flat` in a single
//! one; with `accounts` it is counted what users and groups have. The pool is in memory, or in a file that is made for it. Each figure but the last two is
//! processor time of all threads, commits included, over 10,000 operations at random places: what
//! else runs on the machine matters little for it. Without a kernel: the way through FUSE is the same
//! for any size.

#[path = "common/bench_pool.rs"]
mod bench_pool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench_pool::{BenchPool, OWNER};
use block::{BlockDevice, DeviceMeter, FileDevice, MemoryDevice, MeteredDevice};
use dataset::{Dataset, EngineOptions, Settings};
use rustix::time::{ClockId, clock_gettime};
use vfs::{FileSystem, Ino, Kind, NewNode, ROOT, RenameMode};

/// Operations of each kind that are measured.
const SAMPLE: u64 = 10_000;
/// Entries of a directory, unless there is only one.
const SPREAD: u64 = 1000;

fn main() {
    let mut counts = Vec::new();
    let mut how = How::default();
    let mut options = EngineOptions {
        cache_bytes: 2 << 30,
        dirty_bytes: 64 << 20,
        seal_threads: 0,
    };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            None if argument == "flat" => how.flat = true,
            None if argument == "accounts" => how.accounts = true,
            None => counts.push(argument.parse().expect("how many files")),
            Some(("cache", cache)) => {
                options.cache_bytes = cache.parse::<u64>().expect("MiB") << 20;
            }
            Some(("bytes", bytes)) => how.contents = vec![7; bytes.parse().expect("bytes")],
            Some(("file", path)) => how.file = Some(path.into()),
            Some((other, _)) => panic!("{other}=: there is no such argument"),
        }
    }
    if counts.is_empty() {
        counts = vec![10_000, 100_000, 1_000_000];
    }
    println!(
        "{:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>10} {:>8} {:>8}",
        "files",
        "create",
        "cold",
        "warm",
        "setattr",
        "rename",
        "readdir",
        "unlink",
        "open ms",
        "read KiB",
        "pool MiB",
        "peak MiB"
    );
    for count in counts {
        measure(count, &how, options);
    }
    println!("microseconds of processor time for each operation (readdir: each entry)");
}

/// The kind and the place of the files.
#[derive(Default)]
struct How {
    flat: bool,
    accounts: bool,
    contents: Vec<u8>,
    file: Option<PathBuf>,
}

impl How {
    fn spread(&self) -> u64 {
        if self.flat { u64::MAX } else { SPREAD }
    }

    fn device(&self, bytes: usize, meter: &Arc<DeviceMeter>) -> Arc<dyn BlockDevice> {
        let meter = Arc::clone(meter);
        match &self.file {
            Some(path) => {
                let file = FileDevice::create(path, bytes as u64).expect("a new file");
                Arc::new(MeteredDevice::new(file, meter))
            }
            None => Arc::new(MeteredDevice::new(MemoryDevice::new(bytes), meter)),
        }
    }
}

struct Tree {
    files: Arc<Dataset>,
    dirs: Vec<Ino>,
    spread: u64,
    contents: Vec<u8>,
}

fn name(number: u64) -> Vec<u8> {
    format!("file-{number:08}").into_bytes()
}

impl Tree {
    fn fs(&self) -> &dyn FileSystem {
        self.files.as_ref()
    }

    fn dir(&mut self, number: u64) -> Ino {
        let at = (number / self.spread) as usize;
        while self.dirs.len() <= at {
            let name = format!("dir-{:04}", self.dirs.len());
            let node = node(Kind::Directory);
            let made = self.fs().mkdir(&OWNER, ROOT, name.as_bytes(), &node);
            let ino = made.expect("a directory").ino;
            self.dirs.push(ino);
        }
        self.dirs[at]
    }

    fn create(&mut self, number: u64) {
        let dir = self.dir(number);
        let made = self
            .fs()
            .create(&OWNER, dir, &name(number), &node(Kind::File));
        let ino = made.expect("a file").ino;
        if !self.contents.is_empty() {
            let written = self.fs().write(ino, 0, &self.contents, false);
            written.expect("space");
        }
        self.fs().forget(ino, 1);
    }

    fn lookup(&mut self, number: u64) -> Ino {
        let dir = self.dir(number);
        let ino = self
            .fs()
            .lookup(dir, &name(number))
            .expect("it is there")
            .ino;
        self.fs().forget(ino, 1);
        ino
    }
}

fn node(kind: Kind) -> NewNode {
    NewNode::new(kind, 0o644)
}

fn measure(count: u64, how: &How, options: EngineOptions) {
    let bytes = (64 << 20) + count as usize * (3072 + 3 * how.contents.len());
    let meter = Arc::new(DeviceMeter::default());
    let device = how.device(bytes, &meter);
    let pool = BenchPool::create(Arc::clone(&device), options);
    let mut tree = Tree {
        files: pool.open(Settings::default()),
        dirs: Vec::new(),
        spread: how.spread(),
        contents: how.contents.clone(),
    };
    if how.accounts {
        tree.files.count_owners().expect("space");
    }
    for number in 0..count - SAMPLE.min(count) {
        tree.create(number);
    }
    tree.fs().sync().expect("space");
    let last = count.saturating_sub(SAMPLE)..count;
    let create = each(&mut tree, last, Tree::create);

    // Closed, and opened again.
    let dirs = std::mem::take(&mut tree.dirs);
    tree.files.close().expect("space");
    let used = pool.used() >> 20;
    drop(tree);
    pool.export();
    let before = meter.read.totals().bytes;
    let begin = Instant::now();
    let pool = BenchPool::import(device, options);
    let files = pool.open(Settings::default());
    let opened = begin.elapsed();
    let read = meter.read.totals().bytes - before;
    let mut tree = Tree {
        files,
        dirs,
        spread: how.spread(),
        contents: Vec::new(),
    };

    let chosen = || (0..SAMPLE).map(|n| random(n) % count);
    let look_up = |tree: &mut Tree, number| {
        tree.lookup(number);
    };
    let cold = each(&mut tree, chosen(), look_up);
    let warm = each(&mut tree, chosen(), look_up);
    let setattr = each(&mut tree, chosen(), |tree, number| {
        let ino = tree.lookup(number);
        let set = vfs::SetAttr {
            mode: Some(0o600),
            ..Default::default()
        };
        tree.fs().setattr(&OWNER, ino, &set).expect("it is there");
    });
    let rename = each(&mut tree, chosen(), |tree, number| {
        let dir = tree.dir(number);
        let (old, new) = (name(number), [&name(number)[..], b"~"].concat());
        for (from, to) in [(&old, &new), (&new, &old)] {
            let renamed = tree.fs().rename(dir, from, dir, to, RenameMode::Replace);
            renamed.expect("it is there");
        }
    });
    let readdir = list(&mut tree, count.min(100_000));
    // Each once: from a place that is as good as any, in steps that meet none twice.
    let unlink = each(
        &mut tree,
        (0..SAMPLE.min(count)).map(|n| n * 7919 % count),
        |tree, number| {
            let dir = tree.dir(number);
            tree.fs().unlink(dir, &name(number)).expect("it is there");
        },
    );
    println!(
        "{count:>9} {create:>8.2} {cold:>8.2} {warm:>8.2} {setattr:>8.2} {:>8.2} {readdir:>8.3} \
         {unlink:>8.2} {:>9.1} {:>10} {used:>8} \
         {:>8}",
        rename / 2.0,
        opened.as_secs_f64() * 1e3,
        read >> 10,
        peak_mib(),
    );
    if let Some(path) = &how.file {
        std::fs::remove_file(path).expect("it was made for this");
    }
}

/// The most memory that this process has had so far; with a pool in memory, that as well.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number") >> 10
}

/// Microseconds of processor time that one of them takes, with the commit at the end.
fn each(
    tree: &mut Tree,
    numbers: impl Iterator<Item = u64>,
    mut act: impl FnMut(&mut Tree, u64),
) -> f64 {
    let begin = processor_time();
    let mut done = 0u32;
    for number in numbers {
        act(tree, number);
        done += 1;
    }
    tree.fs().sync().expect("space");
    (processor_time() - begin).as_secs_f64() * 1e6 / f64::from(done)
}

/// Microseconds that an entry takes, with its attributes, over some directories.
fn list(tree: &mut Tree, wanted: u64) -> f64 {
    let begin = processor_time();
    let mut seen = 0u64;
    for dir in tree.dirs.clone() {
        let (mut cookie, mut more) = (0, true);
        while more && seen < wanted {
            more = false;
            let mut inos = Vec::new();
            let listed = tree.fs().readdir(dir, cookie, true, &mut |entry| {
                if inos.len() == 128 {
                    return false;
                }
                inos.extend(entry.attr.map(|attr| attr.ino));
                cookie = entry.cookie;
                more = true;
                true
            });
            listed.expect("a directory");
            seen += inos.len() as u64;
            inos.into_iter().for_each(|ino| tree.fs().forget(ino, 1));
        }
    }
    (processor_time() - begin).as_secs_f64() * 1e6 / seen as f64
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// SplitMix64.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
