//! Measuring this machine.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use console::values;

/// Measure what this machine allows, and what Strongroom reaches
///
/// `bench pool`, `bench file` and `bench block DIR` measure Strongroom on the disk of a directory. With the same
/// requests they measure the disk, the cipher and FUSE, each alone. A run takes less than a minute. It writes to new
/// files only, and removes them at the end, also after an error or Ctrl-C. If it is killed (SIGKILL), its daemon and its
/// mounts end, but the directories strongroom-bench-* stay, in DIR and in TMPDIR; while it measures FUSE alone, a mount
/// without a server stays there too. Figures are comparable within one run only: other work on the machine changes them.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A pool, an encrypted directory and an encrypted block device on the disk of a directory:
    strongroom bench pool /var/tmp
    strongroom bench file /var/tmp
    strongroom bench block /var/tmp

  A page with a chart:
    strongroom bench pool --report bench.html /var/tmp

  The cost of encryption for a block device in memory:
    strongroom bench block")]
pub enum Bench {
    Pool(BenchPool),
    File(BenchFile),
    Block(BenchBlock),
}

/// Measure a pool with an encrypted dataset, beside disk, cipher and FUSE
///
/// Makes a pool in a new file in DIR, with a daemon of its own. Other pools and daemons are not used. The dataset has
/// the default properties; the data cannot be compressed.
///
/// DISK is a file in DIR without the cache of the kernel. CIPHER is sealing and opening records of 128 KiB. FUSE is a
/// mount that stores nothing. ALLOWED is the slowest of the three. Where each request waits for the one before, it is
/// all three one after the other. REACHED is the mounted dataset, cold for reads: nothing of the file is in a cache. The
/// ratio is above 1 where Strongroom needs the disk less often than its user, as it gathers writes.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  On the disk of /var/tmp:
    strongroom bench pool /var/tmp

  With more data than a disk has in its own cache, and a report:
    strongroom bench pool --size 4G --report bench.html /mnt/disk

JSON
  {\"what\", \"place\", \"bytes\", \"rows\": [{\"measure\", \"unit\", \"disk\", \"cipher\", \"fuse\", \"allowed\",
  \"limit\", \"reached\", \"ratio\"}]}; what was not measured is null.

EXIT CODES
  1 if it was interrupted, or there is no FUSE; 3 if there is no such directory; 6 if nothing can be
  written there; 11 if it has too little free space.")]
pub struct BenchPool {
    #[command(flatten)]
    pub(crate) how: BenchHow,
    /// A directory on the disk to measure
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Measure an encrypted directory, beside disk, cipher and FUSE
///
/// Makes a new directory in DIR, encrypted file by file as `stack init` does (format fscrypt), and mounts it as `stack
/// mount --private` does.
///
/// DISK is a file in DIR without the cache of the kernel, and small files in DIR. CIPHER is AES-256-XTS. FUSE is a mount
/// that stores nothing. ALLOWED is the slowest of the three. Where each request waits for the one before, it is all three
/// one after the other. REACHED is the mounted directory, cold for reads.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  On the file system of /srv:
    strongroom bench file /srv

JSON
  As `strongroom bench pool`.

EXIT CODES
  1 if it was interrupted, there is no FUSE, or the file system has no extended attributes; 3 if
  there is no such directory; 6 if nothing can be written there; 11 if it has too little free space.")]
pub struct BenchFile {
    #[command(flatten)]
    pub(crate) how: BenchHow,
    /// A directory on the file system to measure
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Measure encrypted block devices: on a disk, or in memory
///
/// With DIR, makes an image in a new file in DIR, and measures a LUKS container in it. The table has the columns of
/// `bench pool`, without FUSE.
///
/// Without DIR, measures in memory. Three workloads: alternating reads and writes of 4 KiB, one after the other (the
/// test of an article of Cloudflare on dm-crypt); random ones of 4 KiB, 32 at a time; sequential ones of 1 MiB. Each runs
/// on a plain device and on a LUKS mapping on it, inline and queued. Shown are MB/s (10^6 bytes) and the time that 99 of
/// 100 requests do not exceed.
///
/// Encryption alone has a speed, and so has the plain device. Doing one after the other without a pause
/// reaches plain * crypto / (plain + crypto). The table shows this bound, and the part of it that each form
/// reaches.
///
/// SWITCHED is the speed while the form changes every two milliseconds. Everything is measured five times
/// in turns, and the median is shown.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  On the disk of /var/tmp:
    strongroom bench block /var/tmp

  In memory, with the default; with small sectors:
    strongroom bench block
    strongroom bench block --sector-size 512 --seconds 5

JSON
  With DIR as `strongroom bench pool`. Without it [{\"workload\", \"plain_mb_s\", \"plain_p99_ns\",
  \"crypto_mb_s\", \"bound_mb_s\", \"inline_mb_s\", \"inline_p99_ns\", \"inline_of_bound\", \"queued_mb_s\",
  \"queued_p99_ns\", \"queued_of_bound\", \"switched_mb_s\", \"switches\"}, ...].

EXIT CODES
  1 if it was interrupted; 3 if there is no such directory; 6 if nothing can be written there; 11 if
  it has too little free space.")]
pub struct BenchBlock {
    /// The cipher
    #[arg(short, long, value_name = "CIPHER", default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// The length of the key in bits
    #[arg(short = 's', long, value_name = "BITS", default_value = "512")]
    pub(crate) key_size: usize,
    /// The sector size, in bytes
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(crate) sector_size: u32,
    /// The time of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub(crate) seconds: f64,
    /// The size of the device
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "256M")]
    pub(crate) size: u64,
    /// With DIR: also write a page with a chart
    #[arg(long, value_name = "FILE", requires = "dir")]
    pub(crate) report: Option<PathBuf>,
    /// A directory on the disk to measure
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// The time and the amount of a measurement.
#[derive(Args, Clone, Debug)]
pub struct BenchHow {
    /// The time of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub(crate) seconds: f64,
    /// The size of the file
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "256M")]
    pub(crate) size: u64,
    /// Also write a page with a chart
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}
