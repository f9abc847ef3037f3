//! Making containers.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

use super::super::values;
use super::{LuksKey, LuksVersion};

/// Make a container of a file or a disk; what was there is lost
///
/// The key of the container is random; a passphrase (or a file, with --key-file) protects it. How long a
/// guess takes is measured here: two seconds, unless --iter-time or --pbkdf-force-iterations says otherwise.
/// Sectors have 4096 bytes where the device writes such units anyway, which is faster, else 512.
///
/// With --integrity each sector is authenticated, as cryptsetup does it with dm-integrity: one that was
/// changed or exchanged by somebody who can write to the device is an error when it is read, and not data.
/// Everything is written twice then, so that a power cut does not tear a sector from its tag, and there is
/// less room. All sectors are written once here, which takes a while; what was never written cannot be read.
///
/// With --header the header is made in that file, which is made if there is none, and data begins at the
/// first byte of the device: without that file nobody can open it, and it does not look like a container.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A container in a file, and one that any system with cryptsetup 1 opens:
    strongroom luks format secret.img
    strongroom luks format --type luks1 old.img

  In a script, with a key file:
    strongroom luks format -q --key-file /etc/keys/disk /dev/sdb

  Another encryption, and the header on a stick:
    strongroom luks format --cipher serpent-xts-plain64 --key-size 512 /dev/sdb
    strongroom luks format --header /media/stick/sdb.header /dev/sdb

  Sectors that cannot be changed unnoticed, by an HMAC beside the usual encryption, or by an AEAD:
    strongroom luks format --integrity hmac-sha256 /dev/sdb
    strongroom luks format --cipher aes-gcm-random --key-size 256 --integrity aead /dev/sdb

EXIT CODES
  2 if it makes no sense; 5 if the device is in use; 11 if it is too small.")]
pub(crate) struct LuksFormat {
    /// The version of the format
    #[arg(long = "type", value_enum, default_value = "luks2")]
    pub(crate) version: LuksVersion,
    /// How data is encrypted: cipher, mode and tweak, as dm-crypt names them
    #[arg(short, long, value_name = "CIPHER", default_value = "aes-xts-plain64")]
    pub(crate) cipher: String,
    /// The length of the key in bits; for XTS that of both keys together, without a key for an HMAC
    #[arg(short = 's', long, value_name = "BITS", default_value = "512")]
    pub(crate) key_size: usize,
    /// What authenticates sectors: hmac-sha256, hmac-sha512, aead (with aes-gcm-random or aes-ccm-random)
    /// or poly1305 (with chacha20-random)
    #[arg(long, value_name = "INTEGRITY", conflicts_with = "header")]
    pub(crate) integrity: Option<String>,
    /// Do not write all sectors now; what was never written cannot be read
    #[arg(long, requires = "integrity")]
    pub(crate) integrity_no_wipe: bool,
    /// What is encrypted as one, in bytes: 512, 1024, 2048 or 4096
    #[arg(long, value_name = "BYTES")]
    pub(crate) sector_size: Option<u32>,
    /// Where data begins, in sectors of 512 bytes; 16 MiB, or 2 MiB for luks1, if not given
    #[arg(short, long, value_name = "SECTORS")]
    pub(crate) offset: Option<u64>,
    /// How long each copy of the header is, as 16K
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) luks2_metadata_size: Option<u64>,
    /// How much room there is for key slots, as 1M
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) luks2_keyslots_size: Option<u64>,
    /// The UUID; a random one if not given
    #[arg(long, value_name = "UUID")]
    pub(crate) uuid: Option<String>,
    /// A name for people
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Which program owns it
    #[arg(long, value_name = "TEXT")]
    pub(crate) subsystem: Option<String>,
    /// Make the header in this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// The number of the key slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Do not ask whether it is meant
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    /// A file, a disk or a volume, as volume:tank/disk
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}

/// What a guess at a new passphrase costs.
#[derive(Args, Debug)]
#[command(next_help_heading = "What a guess costs")]
pub(crate) struct LuksKdf {
    /// The password hash; argon2id, or pbkdf2 for luks1, if not given
    #[arg(long, value_enum, value_name = "HASH")]
    pub(crate) pbkdf: Option<LuksPbkdf>,
    /// So many iterations or passes, whatever time they take
    #[arg(long, value_name = "NUMBER", conflicts_with = "iter_time")]
    pub(crate) pbkdf_force_iterations: Option<u32>,
    /// At most so much memory for Argon2, in KiB
    #[arg(long, value_name = "KIB")]
    pub(crate) pbkdf_memory: Option<u32>,
    /// So many lanes for Argon2
    #[arg(long, value_name = "NUMBER")]
    pub(crate) pbkdf_parallel: Option<u32>,
    /// How long opening shall take, in milliseconds
    #[arg(short, long, value_name = "MS")]
    pub(crate) iter_time: Option<u64>,
    /// The hash for everything else
    #[arg(long, value_name = "HASH", default_value = "sha256")]
    pub(crate) hash: String,
}

/// Password hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksPbkdf {
    Pbkdf2,
    Argon2i,
    Argon2id,
}

impl LuksPbkdf {
    pub(crate) fn kind(self) -> luks::KdfKind {
        match self {
            LuksPbkdf::Pbkdf2 => luks::KdfKind::Pbkdf2,
            LuksPbkdf::Argon2i => luks::KdfKind::Argon2(luks::Variant::Argon2i),
            LuksPbkdf::Argon2id => luks::KdfKind::Argon2(luks::Variant::Argon2id),
        }
    }
}
