//! The speed of the parts of Strongroom: the disk, the cipher and FUSE, each alone.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use cipher::{Random, RecordCipher, SectorCipher, SectorSpec, Suite, SystemRandom};
use console::outcome::Result;
use fuse::FuseMount;
use protocol::api::Failure;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use super::load::{Figures, Load, MIB, RANDOM_READ, RANDOM_READ_4, READ, WRITE};
use super::null::Null;
use super::work::{WorkDir, cannot};

/// The number of sequential requests that a disk gets at a time.
const QUEUE: usize = 4;

/// The length of a record of a dataset.
const RECORD: usize = 128 << 10;

/// A file on the disk, around the cache of the kernel. Nothing where its file system does not allow this.
pub(super) fn disk(load: &Load<'_>, work: &WorkDir) -> Result<Figures> {
    let path = work.data.join("plain");
    let failed = |error: io::Error| cannot(&path, &error);
    let file = new_file(&path).map_err(failed)?;
    // Where it is not supported, the file grows as it is written.
    let _ = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, load.size);
    drop(file);
    let figures = match around_cache(&path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(Figures::default()),
        _ => load.contents(QUEUE, &mut || {
            forget(&path)?;
            around_cache(&path).map_err(failed)
        }),
    };
    std::fs::remove_file(&path).map_err(failed)?;
    figures
}

/// Opens a file around the cache of the kernel.
fn around_cache(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    let how = how.read(true).write(true);
    how.custom_flags(OFlags::DIRECT.bits() as i32).open(path)
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create_new(true);
    how.mode(Mode::RUSR.union(Mode::WUSR).bits()).open(path)
}

/// Makes a file durable, and has the kernel forget it.
pub(super) fn forget(path: &Path) -> Result<()> {
    let forgotten = File::open(path).and_then(|file| {
        file.sync_all()?;
        Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?)
    });
    forgotten.map_err(|error| cannot(path, &error))
}

/// A mount that stores nothing.
pub(super) fn fuse(load: &Load<'_>, work: &WorkDir) -> Result<Figures> {
    let place = work.mountpoint("null")?;
    let fs: Arc<Null> = Arc::new(Null::new());
    let options = fuse::Options {
        fs_name: "bench".to_owned(),
        ..fuse::Options::default()
    };
    let mount = RefCell::new(None);
    // A new mount knows nothing of the files.
    let cool = || -> Result<()> {
        drop(mount.take());
        mount.replace(Some(FuseMount::new(
            Arc::clone(&fs) as _,
            &place,
            &options,
        )?));
        Ok(())
    };
    let path = place.join("data");
    let mut figures = load.contents(1, &mut || {
        cool()?;
        open_or_make(&path)
    })?;
    load.small_files(&place, &mut || cool(), &mut figures)?;
    Ok(figures)
}

/// Opens a file of a mount, and makes it if there is none.
pub(super) fn open_or_make(path: &Path) -> Result<File> {
    let mut how = OpenOptions::new();
    let opened = how
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    opened.map_err(|error| cannot(path, &error))
}

/// The cipher of records. A small read opens a whole record.
pub(super) fn records(load: &Load<'_>) -> Result<Figures> {
    let failed = |error: cipher::Error| Failure::other(error.to_string());
    let io = |error: cipher::Error| io::Error::other(error.to_string());
    let cipher = RecordCipher::new(Suite::DEFAULT, &load.pattern[..Suite::DEFAULT.key_len()]);
    let cipher = cipher.map_err(failed)?;
    let nonce = SystemRandom.nonce().map_err(failed)?;
    let mut sealed = vec![0; RECORD];
    let tag = cipher.seal(&nonce, &[], &load.pattern[..RECORD], &mut sealed);
    let tag = tag.map_err(failed)?;
    let seal = |_, buf: &mut [u8]| {
        let nonce = SystemRandom.nonce().map_err(io)?;
        cipher.seal_in_place(&nonce, &[], buf).map_err(io)?;
        Ok(true)
    };
    let open = |_, buf: &mut [u8]| {
        cipher.open(&nonce, &[], &sealed, &tag, buf).map_err(io)?;
        Ok(true)
    };
    by_cipher(load, RECORD, RECORD, &seal, &open)
}

/// The cipher of stacked directories, which encrypts a page at a time.
pub(super) fn pages(load: &Load<'_>) -> Result<Figures> {
    const PAGE: usize = 4 << 10;
    let failed = |error: cipher::Error| Failure::other(error.to_string());
    let spec = SectorSpec::parse("aes-xts-plain64").map_err(failed)?;
    let cipher = SectorCipher::new(spec, &load.pattern[..64]).map_err(failed)?;
    sectors(load, &cipher, PAGE, PAGE)
}

/// A cipher of sectors, which are encrypted `len` bytes at a time.
pub(super) fn sectors(
    load: &Load<'_>,
    cipher: &SectorCipher,
    sector: usize,
    len: usize,
) -> Result<Figures> {
    let io = |error: cipher::Error| io::Error::other(error.to_string());
    let step = (sector / 512) as u64;
    let encrypt = |n, buf: &mut [u8]| {
        cipher.encrypt(n, step, sector, buf).map_err(io)?;
        Ok(true)
    };
    let decrypt = |n, buf: &mut [u8]| {
        cipher.decrypt(n, step, sector, buf).map_err(io)?;
        Ok(true)
    };
    by_cipher(load, len, 4 << 10, &encrypt, &decrypt)
}

type LoadCall<'a> = &'a (dyn Fn(u64, &mut [u8]) -> io::Result<bool> + Sync);

/// The figures of a cipher that works on `len` bytes at a time, of which a small read takes `small`.
fn by_cipher(
    load: &Load<'_>,
    len: usize,
    small: usize,
    seal: LoadCall,
    open: LoadCall,
) -> Result<Figures> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let run = |jobs, call| -> Result<f64> {
        let done = load.repeat(jobs, 1, len, call, &|| Ok(()))?;
        Ok(done.per_second * len as f64)
    };
    let mut figures = Figures::default();
    figures[WRITE] = Some(run(processors, seal)? / MIB as f64);
    figures[READ] = Some(run(processors, open)? / MIB as f64);
    for (at, jobs) in [(RANDOM_READ, 1), (RANDOM_READ_4, 4)] {
        figures[at] = Some(run(processors.min(jobs), open)? / small as f64);
    }
    Ok(figures)
}
