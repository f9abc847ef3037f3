//! Mappings.

use clap::{Args, ValueEnum};

use super::super::values;
use super::{LuksContainer, LuksKey};

/// What is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksOpenType {
    Luks,
    Plain,
}

/// Open a container as a mapping
///
/// The daemon asks for the passphrase, tries the key slots in the order of their priorities, and keeps the
/// container for itself until `luks close` or its own end. The mapping is not a file: other programs
/// reach it by `strongroom nbd export luks:NAME`. While a container on a volume is open, that volume is in use:
/// its pool is not exported, nor the daemon stopped, before it is closed.
///
/// A request is served on the thread that asks (inline), which is fastest for small requests, or by a pool of
/// threads (a workqueue, as the kernel has it), which uses several processors for a large one.
///
/// --type plain opens a device without a header: cipher, key length and hash are what is typed, and a wrong
/// passphrase is not noticed but gives noise.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  By passphrase, and by a key file:
    strongroom luks open secret.img secret
    strongroom luks open --key-file /etc/keys/disk /dev/sdb data

  To look only; with a header on a stick:
    strongroom luks open --readonly secret.img secret
    strongroom luks open --header /media/stick/sdb.header /dev/sdb data

  What an old mapping without a header was:
    strongroom luks open --type plain --cipher aes-cbc-essiv:sha256 --hash ripemd160 /dev/sdb old

EXIT CODES
  2 if it makes no sense; 3 if there is no header; 4 if the name is taken; 5 if the container is in
  use; 7 if no key slot opens with the passphrase; 8 if the key cannot be read; 9 if the header or
  key material is damaged; 10 if the header asks for what is not known here.")]
pub(crate) struct LuksOpen {
    /// What it is
    #[arg(long = "type", value_enum, default_value = "luks")]
    pub(crate) kind: LuksOpenType,
    /// Only this key slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Refuse writes
    #[arg(short, long)]
    pub(crate) readonly: bool,
    /// Pass on what is not needed any more; shows which sectors are in use
    #[arg(long)]
    pub(crate) allow_discards: bool,
    /// Queue reads
    #[arg(long)]
    pub(crate) read_workqueue: bool,
    /// Queue writes
    #[arg(long)]
    pub(crate) write_workqueue: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    /// What the mapping is called
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) plain: LuksPlain,
}

/// What a header would say.
#[derive(Args, Debug)]
#[command(next_help_heading = "For --type plain")]
pub(crate) struct LuksPlain {
    /// The cipher
    #[arg(short, long, value_name = "CIPHER", default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// The length of the key in bits
    #[arg(short = 's', long, value_name = "BITS", default_value = "256")]
    pub(crate) key_size: usize,
    /// What makes the key of a passphrase; a key file is the key itself
    #[arg(long, value_name = "HASH", default_value = "sha256")]
    pub(crate) hash: String,
    /// Where data begins on the device, in sectors of 512 bytes
    #[arg(short, long, value_name = "SECTORS", default_value = "0")]
    pub(crate) offset: u64,
    /// How long it is, in sectors of 512 bytes; to the end of the device if not given
    #[arg(short = 'b', long, value_name = "SECTORS")]
    pub(crate) size: Option<u64>,
    /// The number of the first sector for its tweak
    #[arg(short = 'p', long, value_name = "SECTORS", default_value = "0")]
    pub(crate) skip: u64,
    /// What is encrypted as one, in bytes
    #[arg(long, value_name = "BYTES", default_value = "512")]
    pub(crate) sector_size: u32,
}

/// Close a mapping
///
/// What was written is durable when this returns, and the key is gone.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Close it:
    strongroom luks close secret

EXIT CODES
  3 if there is no such mapping; 5 if it is exported.")]
pub(crate) struct LuksClose {
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Show open mappings: how they are encrypted and served
///
/// With how many requests each form (inline and queued) has served, how many bytes, and in what time: p50
/// is what half of them took at most, p99 what 99 of 100 did. Times are of one request in eleven.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One; all of them for a program:
    strongroom luks status secret
    strongroom luks status --json

JSON
  [{\"name\", \"kind\", \"device\", \"header\", \"uuid\", \"slot\", \"cipher\", \"key_bits\", \"sector_size\",
  \"offset\", \"size\", \"read_only\", \"allow_discards\", \"read_workqueue\", \"write_workqueue\", \"users\",
  \"read_inline\": {\"count\", \"bytes\", \"errors\", \"p50_ns\", \"p99_ns\", \"p999_ns\"}, \"read_queued\",
  \"write_inline\", \"write_queued\"}, ...]

EXIT CODES
  3 if there is no such mapping.")]
pub(crate) struct LuksStatus {
    /// Mappings; all if none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Change how a mapping is served, while it is in use
///
/// Takes effect with the next request; requests that run are not disturbed. What is not named stays.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Large writes by several processors, small reads on the thread that asks:
    strongroom luks refresh --write-workqueue --no-read-workqueue secret

EXIT CODES
  3 if there is no such mapping.")]
pub(crate) struct LuksRefresh {
    /// Queue reads
    #[arg(long, overrides_with = "no_read_workqueue")]
    pub(crate) read_workqueue: bool,
    /// Serve reads inline
    #[arg(long)]
    pub(crate) no_read_workqueue: bool,
    /// Queue writes
    #[arg(long, overrides_with = "no_write_workqueue")]
    pub(crate) write_workqueue: bool,
    /// Serve writes inline
    #[arg(long)]
    pub(crate) no_write_workqueue: bool,
    /// Pass on what is not needed any more
    #[arg(long, overrides_with = "no_allow_discards")]
    pub(crate) allow_discards: bool,
    /// Keep to oneself what is not needed any more
    #[arg(long)]
    pub(crate) no_allow_discards: bool,
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Make an open mapping as large as its device has become
///
/// Or as large as --device-size says, which only this mapping knows: the next one has its whole size again.
/// The header does not say how long data is, and is not changed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After the file has grown:
    truncate -s 2G secret.img
    strongroom luks resize secret

EXIT CODES
  2 if it is no whole number of sectors; 3 if there is no such mapping; 11 if the device is smaller.")]
pub(crate) struct LuksResize {
    /// The new size, as 1G
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) device_size: Option<u64>,
    /// The mapping
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
