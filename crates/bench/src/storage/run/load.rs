//! Requests, and how many of them a second something serves.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::BlockDevice;
use console::outcome::Result;

use super::stop::StopRequest;
use super::work::cannot;

pub(super) const MIB: usize = 1 << 20;
const SMALL: usize = 4 << 10;
/// The alignment with which a file can be read around the cache of the kernel.
const ALIGNED: usize = 4 << 10;
/// The number of small that files there are at most.
const FILES: u64 = 5000;
/// A prime, so it has no factor in common with a smaller number of places.
const STEP: u64 = 1_425_089_352_415_399_777;

pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// True if each request waits for the one before, so that the times of the parts add up.
    pub(super) waits: bool,
}

const fn measure(name: &'static str, unit: &'static str, waits: bool) -> Measure {
    Measure { name, unit, waits }
}

pub(super) const MEASURES: [Measure; 9] = [
    measure("sequential write, 1 MiB", "MiB/s", false),
    measure("sequential read, cold", "MiB/s", false),
    measure("random read 4 KiB, 1 job", "per s", true),
    measure("random read 4 KiB, 4 jobs", "per s", false),
    measure("random write 4 KiB, 1 job", "per s", false),
    measure("write 4 KiB and sync each", "per s", true),
    measure("create files of 1 KiB", "per s", true),
    measure("stat of them, mounted again", "per s", true),
    measure("unlink of them", "per s", true),
];

pub(super) const WRITE: usize = 0;
pub(super) const READ: usize = 1;
pub(super) const RANDOM_READ: usize = 2;
pub(super) const RANDOM_READ_4: usize = 3;
const RANDOM_WRITE: usize = 4;
const SYNCED_WRITE: usize = 5;
const CREATE: usize = 6;
const STAT: usize = 7;
const UNLINK: usize = 8;

/// The results, in the order of [`MEASURES`].
pub(super) type Figures = [Option<f64>; MEASURES.len()];

/// A file or device that data is written to and read from.
pub(super) trait LoadTarget: Sync {
    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()>;
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
}

impl LoadTarget for File {
    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buf, at)
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl LoadTarget for Arc<dyn BlockDevice> {
    fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_at(at, buf).map_err(io::Error::other)
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(at, &[io::IoSlice::new(data)])
            .map_err(io::Error::other)
    }

    fn sync(&self) -> io::Result<()> {
        self.flush().map_err(io::Error::other)
    }
}

/// The amount of data, and the time of a measurement.
pub(super) struct Load<'a> {
    pub(super) size: u64,
    pub(super) time: Duration,
    /// The data of one request: random bytes, which nothing compresses.
    pub(super) pattern: &'a [u8],
    pub(super) stop: &'a StopRequest,
}

/// The count and the rate of repeated requests.
#[derive(Clone, Copy)]
pub(super) struct LoadRate {
    pub(super) count: u64,
    pub(super) per_second: f64,
}

impl Load<'_> {
    /// Measures a file or device. `open` opens it again after all caches have forgotten it; `jobs` requests of the
    /// sequential measures run at a time.
    pub(super) fn contents<T: LoadTarget>(
        &self,
        jobs: usize,
        open: &mut dyn FnMut() -> Result<T>,
    ) -> Result<Figures> {
        let mut figures = Figures::default();
        let (file, most) = (open()?, self.size / MIB as u64);
        let write = |n, buf: &mut [u8]| {
            stamp(buf, n);
            in_turn(n, most, |at| file.write(at, buf))
        };
        let written = self.repeat(jobs, 4, MIB, &write, &|| file.sync())?;
        figures[WRITE] = Some(written.per_second);
        drop(file);
        // A slow disk has less than all of it.
        let size = written.count * MIB as u64;
        for (at, jobs) in [(RANDOM_READ, 1), (RANDOM_READ_4, 4)] {
            let file = open()?;
            // Each place once: what was read may be in a cache.
            let read = |n, buf: &mut [u8]| match n < size / SMALL as u64 {
                true => file.read(place(n, size), buf).map(|()| true),
                false => Ok(false),
            };
            figures[at] = Some(self.repeat(jobs, 1, SMALL, &read, &nothing)?.per_second);
        }
        let file = open()?;
        let read = |n, buf: &mut [u8]| in_turn(n, written.count, |at| file.read(at, buf));
        figures[READ] = Some(self.repeat(jobs, 2, MIB, &read, &nothing)?.per_second);
        let write = |n, buf: &mut [u8]| {
            stamp(buf, n);
            file.write(place(n, size), buf).map(|()| true)
        };
        let done = self.repeat(1, 1, SMALL, &write, &|| file.sync())?;
        figures[RANDOM_WRITE] = Some(done.per_second);
        let each = |n, buf: &mut [u8]| {
            let is_written = write(n, buf)?;
            file.sync().map(|()| is_written)
        };
        figures[SYNCED_WRITE] = Some(self.repeat(1, 1, SMALL, &each, &nothing)?.per_second);
        Ok(figures)
    }

    /// Measures small files in a directory. `cool` lets caches forget them.
    pub(super) fn small_files(
        &self,
        dir: &Path,
        cool: &mut dyn FnMut() -> Result<()>,
        figures: &mut Figures,
    ) -> Result<()> {
        let path = |n: u64| dir.join(format!("small-{n}"));
        let create = |n, buf: &mut [u8]| in_turn(n, FILES, |_| fs::write(path(n), buf));
        let made = self.repeat(1, 2, 1 << 10, &create, &nothing)?;
        cool()?;
        let look =
            |n, _: &mut [u8]| in_turn(n, made.count, |_| fs::symlink_metadata(path(n)).map(drop));
        let looked = self.repeat(1, 2, 0, &look, &nothing)?;
        let unlink = |n, _: &mut [u8]| in_turn(n, made.count, |_| fs::remove_file(path(n)));
        let removed = self.repeat(1, 2, 0, &unlink, &nothing)?;
        for (at, done) in [(CREATE, made), (STAT, looked), (UNLINK, removed)] {
            figures[at] = Some(done.per_second);
        }
        Ok(())
    }

    /// Makes requests by `jobs` threads until one of them finds nothing more to do, or for so often the time of a
    /// measurement, and then `end`. A request gets its number and a buffer of its thread.
    pub(super) fn repeat(
        &self,
        jobs: usize,
        times: u32,
        len: usize,
        one: &(dyn Fn(u64, &mut [u8]) -> io::Result<bool> + Sync),
        end: &dyn Fn() -> io::Result<()>,
    ) -> Result<LoadRate> {
        let next = AtomicU64::new(0);
        let (begin, time) = (Instant::now(), self.time * times);
        let job = || -> io::Result<u64> {
            let mut space = vec![0; len + ALIGNED];
            let skip = space.as_ptr().align_offset(ALIGNED);
            let buf = &mut space[skip..][..len];
            buf.copy_from_slice(&self.pattern[..len]);
            let mut count = 0;
            while !self.stop.came() && one(next.fetch_add(1, Ordering::Relaxed), buf)? {
                count += 1;
                if begin.elapsed() >= time {
                    break;
                }
            }
            Ok(count)
        };
        let counts: Vec<io::Result<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(job)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|count| count.unwrap_or_else(|_| Err(io::Error::other("a thread ended"))))
                .collect()
        });
        let count = counts.into_iter().sum::<io::Result<u64>>();
        let failed = |error| cannot(Path::new("the test data"), &error);
        let count = count
            .and_then(|count| end().map(|()| count))
            .map_err(failed)?;
        self.stop.check()?;
        Ok(LoadRate {
            count,
            per_second: count as f64 / begin.elapsed().as_secs_f64(),
        })
    }
}

/// Makes each 4 KiB of a request differ from all others.
fn stamp(buf: &mut [u8], n: u64) {
    for (at, page) in buf.chunks_exact_mut(SMALL).enumerate() {
        page[..8].copy_from_slice(&(n << 16 | at as u64).to_le_bytes());
    }
}

/// Does something to the `n`th MiB or file, if there are so many.
fn in_turn(n: u64, most: u64, one: impl FnOnce(u64) -> io::Result<()>) -> io::Result<bool> {
    match n < most {
        true => one(n * MIB as u64).map(|()| true),
        false => Ok(false),
    }
}

/// The address of the `n`th small request, in so many bytes: each offset comes once before the first comes again. None
/// is near the one before.
fn place(n: u64, size: u64) -> u64 {
    let places = size / SMALL as u64;
    let step = STEP % places;
    (u128::from(n) * u128::from(step) % u128::from(places)) as u64 * SMALL as u64
}

fn nothing() -> io::Result<()> {
    Ok(())
}
