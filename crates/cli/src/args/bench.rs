//! Measuring this machine.

use clap::{Args, Subcommand};

use super::values;

/// Measure what this machine can do
///
/// In memory, so that the device has no part in it. Measure on a machine that does nothing else, several
/// times; only ratios carry over to other machines.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  What encryption costs a block device:
    strongroom bench block")]
pub(crate) enum Bench {
    Block(BenchBlock),
}

/// Measure block devices in memory, plain and encrypted
///
/// Reads and writes of 4 KiB by turns, one after the other (the test of an article of Cloudflare's about
/// dm-crypt); random ones of 4 KiB, 32 at a time; and sequential ones of 1 MiB. Each of a plain device and of
/// a LUKS mapping on it, inline and queued, in MB/s (10^6 bytes), with the time that 99 of 100 requests took
/// at most.
///
/// Encryption alone has a speed, and so has the plain device. Who first does the one and then the other, with
/// nothing between, reaches plain * crypto / (plain + crypto): this bound is shown, and what part of it each
/// form reached.
///
/// SWITCHED is the speed while the form changes every two milliseconds under the requests. All are measured five
/// times in turn, and what is in the middle is shown.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  As it is usual; with small sectors:
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
    /// The length of its key in bits
    #[arg(short = 's', long, value_name = "BITS", default_value = "512")]
    pub(crate) key_size: usize,
    /// What is encrypted as one, in bytes
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    pub(crate) sector_size: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub(crate) seconds: f64,
    /// How large the device is
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "256M")]
    pub(crate) size: u64,
}
