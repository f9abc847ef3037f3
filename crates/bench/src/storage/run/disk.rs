//! A pool, an encrypted directory and an encrypted device on a disk, beside what its parts allow.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, FileDevice};
use cipher::{Random, SystemRandom};
use console::outcome::Result;
use protocol::api::{Failure, FailureKind};

use super::load::{Figures, Load, MIB};
use super::report::{self, PartFigures};
use super::work::{Server, WorkDir, cannot, notice};
use super::{memory, parts};
use crate::storage::args::{BenchBlock, BenchHow};

/// A pool has space for this besides the data that is written over.
const POOL: u64 = 512 << 20;

/// The part of the data that is written over before its space is free again: some groups of transactions.
const COPIES: u64 = 4;

/// The cache of the daemon, smaller than the data: reads are to be cold.
const CACHE: &str = "--cache-size=64M";

/// The bytes of a device that one call encrypts.
const BLOCKS: usize = 128 << 10;

const DATASET: &str = "bench/data";

pub(super) fn pool(dir: &Path, how: &BenchHow, as_json: bool) -> Result {
    let size = how.size.saturating_mul(COPIES).saturating_add(POOL);
    // The pool is there until the end.
    let needed = size.saturating_add(how.size);
    run("pool", dir, how, needed, as_json, |load, work| {
        let reached = TestPool::new(work, size)?.measure(load)?;
        let cipher = parts::records(load)?;
        let disk = parts::disk(load, work)?;
        let fuse = parts::fuse(load, work)?;
        Ok(PartFigures {
            disk,
            cipher,
            fuse,
            reached,
        })
    })
}

pub(super) fn file(dir: &Path, how: &BenchHow, as_json: bool) -> Result {
    let size = how.size.saturating_mul(2).saturating_add(POOL / 8);
    run("file", dir, how, size, as_json, |load, work| {
        let reached = TestDirectory::new(work)?.measure(load)?;
        let cipher = parts::pages(load)?;
        let mut disk = parts::disk(load, work)?;
        let small = work.data.join("small");
        std::fs::create_dir(&small).map_err(|error| cannot(&small, &error))?;
        load.small_files(&small, &mut || Ok(()), &mut disk)?;
        let fuse = parts::fuse(load, work)?;
        Ok(PartFigures {
            disk,
            cipher,
            fuse,
            reached,
        })
    })
}

pub(super) fn block(dir: &Path, how: &BenchHow, args: &BenchBlock, as_json: bool) -> Result {
    let key = memory::key(args)?;
    let cipher = memory::cipher(args, &key)?;
    run("block", dir, how, how.size, as_json, |load, work| {
        let cipher = parts::sectors(load, &cipher, args.sector_size as usize, BLOCKS)?;
        let disk = parts::disk(load, work)?;
        let path = work.data.join("image");
        let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::create(&path, load.size)?);
        let mapping = memory::mapping(args, Arc::clone(&device), &key)?;
        let mapping: Arc<dyn BlockDevice> = Arc::new(mapping);
        let reached = load.contents(1, &mut || {
            device.flush()?;
            parts::forget(&path)?;
            Ok(Arc::clone(&mapping))
        })?;
        let fuse = Figures::default();
        Ok(PartFigures {
            disk,
            cipher,
            fuse,
            reached,
        })
    })
}

/// Measures in directories of its own, and reports it. `needed` is the space on the disk.
fn run(
    what: &'static str,
    dir: &Path,
    how: &BenchHow,
    needed: u64,
    as_json: bool,
    measure: impl FnOnce(&Load<'_>, &WorkDir) -> Result<PartFigures>,
) -> Result {
    if let Some(page) = how
        .report
        .as_ref()
        .filter(|page| page.symlink_metadata().is_ok())
    {
        let message = format!("{} exists already; name a new file", page.display());
        return Err(Failure::new(FailureKind::Exists, message));
    }
    let work = WorkDir::new(dir, how, needed)?;
    let mut pattern = vec![0; MIB];
    let filled = SystemRandom.fill(&mut pattern);
    filled.map_err(|error| Failure::other(error.to_string()))?;
    let load = Load {
        size: how.size - how.size % MIB as u64,
        time: Duration::from_secs_f64(how.seconds),
        pattern: &pattern,
        stop: &work.stop,
    };
    let found = measure(&load, &work)?;
    report::outcome(what, dir, how, &found, as_json)
}

/// A pool in a file, in a daemon of its own. Both are gone when it is dropped.
struct TestPool<'a> {
    work: &'a WorkDir,
    file: PathBuf,
    mountpoint: PathBuf,
    _daemon: Server,
}

impl<'a> TestPool<'a> {
    fn new(work: &'a WorkDir, size: u64) -> Result<TestPool<'a>> {
        let file = work.data.join("pool");
        let key = key_file(work)?;
        let state = work.near.join("state");
        let daemon = ["daemon", CACHE, "--state-dir"].map(OsString::from);
        let pool = TestPool {
            _daemon: work.serve(daemon.into_iter().chain([state.into()]))?,
            work,
            mountpoint: work.near.join("pool"),
            file,
        };
        let create = format!("pool create -s {size} -O mountpoint=none bench");
        let create = create.split(' ').map(OsString::from);
        work.program(create.chain([pool.file.clone().into()]))?;
        let source = format!("keysource=raw,file://{}", key.display());
        let place = format!("mountpoint={}", pool.mountpoint.display());
        let create = ["create", "-o", "encryption=on", "-o", &source, "-o", &place];
        work.program(create.into_iter().chain([DATASET]))?;
        Ok(pool)
    }

    fn measure(&self, load: &Load<'_>) -> Result<Figures> {
        let cool = || {
            self.work.program(["unmount", DATASET])?;
            parts::forget(&self.file)?;
            self.work.program(["mount", DATASET])
        };
        let data = self.mountpoint.join("data");
        let mut figures = load.contents(1, &mut || {
            cool()?;
            parts::open_or_make(&data)
        })?;
        load.small_files(&self.mountpoint, &mut || cool(), &mut figures)?;
        Ok(figures)
    }
}

impl Drop for TestPool<'_> {
    fn drop(&mut self) {
        // Also what fails to be made is destroyed.
        let _ = self.work.program(["pool", "destroy", "-f", "bench"]);
        if let Err(failure) = self.work.program(["daemon", "stop"]) {
            left(&failure);
        }
    }
}

/// A directory that is encrypted file by file, and its mount, which ends when it is dropped.
struct TestDirectory<'a> {
    work: &'a WorkDir,
    key: PathBuf,
    lower: PathBuf,
    mountpoint: PathBuf,
    mount: Option<Server>,
}

impl<'a> TestDirectory<'a> {
    fn new(work: &'a WorkDir) -> Result<TestDirectory<'a>> {
        let mut directory = TestDirectory {
            work,
            key: key_file(work)?,
            lower: work.data.join("lower"),
            mountpoint: work.mountpoint("stack")?,
            mount: None,
        };
        let lower = &directory.lower;
        std::fs::create_dir(lower).map_err(|error| cannot(lower, &error))?;
        let init = [
            "stack".as_ref(),
            "init".as_ref(),
            "-d".as_ref(),
            directory.key.as_os_str(),
        ];
        work.program(init.into_iter().chain([lower.as_os_str()]))?;
        directory.mount()?;
        Ok(directory)
    }

    fn mount(&mut self) -> Result<()> {
        let mount = ["stack", "mount", "--private", "-d"].map(OsString::from);
        let places = [&self.key, &self.lower, &self.mountpoint].map(OsString::from);
        self.mount = Some(self.work.serve(mount.into_iter().chain(places))?);
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        let unmount = ["stack", "unmount"].map(OsString::from);
        let place = OsString::from(&self.mountpoint);
        self.work.program(unmount.into_iter().chain([place]))?;
        self.mount = None;
        Ok(())
    }

    /// Mounts it again, and has the kernel forget the large file.
    fn cool(&mut self) -> Result<()> {
        self.unmount()?;
        let failed = |error| cannot(&self.lower, &error);
        for entry in std::fs::read_dir(&self.lower).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if std::fs::metadata(&path).is_ok_and(|found| found.len() >= MIB as u64) {
                parts::forget(&path)?;
            }
        }
        self.mount()
    }

    fn measure(mut self, load: &Load<'_>) -> Result<Figures> {
        let place = self.mountpoint.clone();
        let data = place.join("data");
        let mut figures = load.contents(1, &mut || {
            self.cool()?;
            parts::open_or_make(&data)
        })?;
        load.small_files(&place, &mut || self.cool(), &mut figures)?;
        Ok(figures)
    }
}

impl Drop for TestDirectory<'_> {
    fn drop(&mut self) {
        if self.mount.is_none() {
            return;
        }
        if let Err(failure) = self.unmount() {
            left(&failure);
        }
    }
}

fn key_file(work: &WorkDir) -> Result<PathBuf> {
    let key = work.near.join("key");
    work.program(["keygen".as_ref(), key.as_os_str()])?;
    Ok(key)
}

/// Says what could not be removed.
fn left(failure: &Failure) {
    let why = &failure.message;
    notice(&format!("something is left of the measurement: {why}"));
}
