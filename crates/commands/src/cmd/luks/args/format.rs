//! Making containers.

use std::path::PathBuf;

use clap::Args;
use console::values;

use super::common::{LuksKdf, LuksKey, LuksVersion};

/// Create a container on a file or disk; its old data is lost
///
/// The key of the container is random. A passphrase, or a file with --key-file, protects it. The command
/// measures this machine, so that one guess takes two seconds; --iter-time or --pbkdf-force-iterations
/// changes that. Sectors have 4096 bytes if the device writes in such units, which is faster, or else 512.
///
/// With --integrity each sector is authenticated, as cryptsetup does with dm-integrity. Reading a sector
/// that an attacker changed or swapped is an error. All data is written twice, so that a power cut does not
/// separate a sector from its tag. There is less space for data. The command writes all sectors once, which
/// takes time; sectors that were never written cannot be read.
///
/// With --header the header is in that file, which is created if needed, and data begins at the first byte
/// of the device. Without that file the container cannot be opened, and the device does not look like one.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A container in a file; a container that cryptsetup 1 opens:
    strongroom luks format secret.img
    strongroom luks format --type luks1 old.img

  In a script, with a key file:
    strongroom luks format -q --key-file /etc/keys/disk /dev/sdb

  Another cipher; the header on a USB stick:
    strongroom luks format --cipher serpent-xts-plain64 --key-size 512 /dev/sdb
    strongroom luks format --header /media/stick/sdb.header /dev/sdb

  Authenticated sectors, by an HMAC beside the usual cipher, or by an AEAD:
    strongroom luks format --integrity hmac-sha256 /dev/sdb
    strongroom luks format --cipher aes-gcm-random --key-size 256 --integrity aead /dev/sdb

EXIT CODES
  2 for a wrong argument; 5 if the device is in use; 11 if it is too small.")]
pub(crate) struct LuksFormat {
    /// The version of LUKS
    #[arg(long = "type", value_enum, default_value = "luks2")]
    pub(crate) version: LuksVersion,
    /// The cipher, mode and tweak, with the names of dm-crypt
    #[arg(short, long, value_name = "CIPHER", default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// The length of the key in bits; for XTS, of both keys together, without a key for an HMAC
    #[arg(short = 's', long, value_name = "BITS", default_value = "512")]
    pub(crate) key_size: usize,
    /// Authenticate sectors by hmac-sha256, hmac-sha512, aead (with aes-gcm-random or aes-ccm-random) or
    /// poly1305 (with chacha20-random)
    #[arg(long, value_name = "INTEGRITY", conflicts_with = "header")]
    pub(crate) integrity: Option<String>,
    /// Do not write all sectors now; sectors that were never written cannot be read
    #[arg(long, requires = "integrity")]
    pub(crate) integrity_no_wipe: bool,
    /// The sector size in bytes: 512, 1024, 2048 or 4096
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// The start of the data in sectors of 512 bytes; default: 16 MiB, or 2 MiB for luks1
    #[arg(short, long, value_name = "SECTORS")]
    pub(crate) offset: Option<u64>,
    /// The size of each copy of the header, such as 16K
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) luks2_metadata_size: Option<u64>,
    /// The size of the area for key slots, such as 1M
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) luks2_keyslots_size: Option<u64>,
    /// The UUID; default: a random one
    #[arg(long, value_name = "UUID")]
    pub(crate) uuid: Option<String>,
    /// The label, a name for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The subsystem, the program that owns the container
    #[arg(long, value_name = "TEXT")]
    pub(crate) subsystem: Option<String>,
    /// Put the header into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// The number of the key slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Do not ask for confirmation
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    /// A file, a disk, volume:POOL/DATASET or nbd://HOST/EXPORT
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}
