//! Measuring this machine.

use clap::{Args, Subcommand};

use crate::cmd::values;

/// Measure the speed of this machine
///
/// Measures in memory, so the device has no influence. Measure several times, on a machine that does
/// nothing else. Only ratios are comparable between machines.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  The cost of encryption for a block device:
    strongroom bench block")]
pub(crate) enum Bench {
    Block(BenchBlock),
}

/// Measure block devices in memory, plain and encrypted
///
/// Three workloads: alternating reads and writes of 4 KiB, one after the other (the test of an article of
/// Cloudflare on dm-crypt); random ones of 4 KiB, 32 at a time; sequential ones of 1 MiB. Each runs on a
/// plain device and on a LUKS mapping on it, inline and queued. Shown are MB/s (10^6 bytes) and the time
/// that 99 of 100 requests do not exceed.
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
  The default; small sectors:
    strongroom bench block
    strongroom bench block --sector-size 512 --seconds 5

JSON
  [{\"workload\", \"plain_mb_s\", \"plain_p99_ns\", \"crypto_mb_s\", \"bound_mb_s\", \"inline_mb_s\",
  \"inline_p99_ns\", \"inline_of_bound\", \"queued_mb_s\", \"queued_p99_ns\", \"queued_of_bound\",
  \"switched_mb_s\", \"switches\"}, ...]")]
pub(crate) struct BenchBlock {
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
}
