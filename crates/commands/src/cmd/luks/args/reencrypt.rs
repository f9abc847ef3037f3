//! Changing the key or cipher of a container in place.

use clap::{Args, ValueEnum};

use super::common::{LuksContainer, LuksKdf, LuksKey, size};

/// The protection of data while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksResilience {
    Checksum,
    Journal,
    None,
    Datashift,
    DatashiftChecksum,
    DatashiftJournal,
}

/// Re-encrypt a container in place, or encrypt or decrypt a device
///
/// Encrypts all data with a new random key. Can also change the cipher, the key length or the sector size. The data
/// stays where it is. The container must be LUKS2 (`luks convert` makes it so) without --integrity. It can be open
/// and in use; then the sector size stays. Back up the data first. Old backups of the header do not open the data afterwards.
///
/// The new key needs your passphrases. Without options, the command asks for the passphrase of each key slot.
/// With --key-slot or a key file it keeps one slot. At the end all other slots are removed. A kept slot gets
/// another number.
///
/// Ctrl-C pauses the work, and so does `luks close`. After that, or after a power cut, continue it with --resume-only.
/// `cryptsetup reencrypt --resume-only` continues it too, and this command continues what cryptsetup began.
/// Until it is complete, the container opens with the same passphrases (`luks open`).
///
/// Data is written in parts, the hot zones. With --resilience checksum the header gets checksums of the sectors of a
/// hot zone before the zone is written. This relies on a device that writes whole sectors. With journal, the data
/// itself is stored there: slower, and safe on any device. With none, a power cut destroys data.
///
/// --encrypt encrypts a device that is not encrypted. The header needs space. Make the file system smaller
/// first, so that the end of the device is free, and name the size of the free space with --reduce-device-size:
/// the data moves by half of it. Or put the header into another file with --header; then the device keeps its size.
///
/// --decrypt decrypts the device. Its header must be in another file, which --header names. If the header is
/// on the device, name a new file: the header is exported to it, and the data moves to where the header was. Keep
/// that file until the command is complete: it holds the key.
///
/// --device-size takes the beginning of the data as all of it, as for a device that was copied to a larger one. What is
/// behind it stays as it is and cannot be read afterwards. It is for data that does not move. Name the size again to
/// continue: at the beginning and at the end the header does not say it, as with cryptsetup. Sizes are written as for
/// cryptsetup: in bytes, or with S for 512, K, M, G or T for powers of 1024, KB, MB, GB or TB for powers of 1000.
///
/// With --resilience datashift, data is written beside where it was, so the old data is its copy. This is the only
/// way of --encrypt with --reduce-device-size. When a decryption moves data, the first part of the data does
/// not move at the end: checksum and journal (or datashift-checksum and datashift-journal) protect that.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new key; asks for the passphrase of each key slot:
    strongroom luks reencrypt secret.img

  The same for a container that is open as the mapping `secret`:
    strongroom luks reencrypt secret

  Another cipher, by a key file that opens key slot 0; only that slot is kept:
    strongroom luks reencrypt --cipher serpent-xts-plain64 --key-file /etc/keys/disk -S 0 /dev/sdb

  Encrypt a disk whose last 32 MiB are free, or with the header on a USB stick:
    strongroom luks reencrypt --encrypt --reduce-device-size 32M /dev/sdb
    strongroom luks reencrypt --encrypt --header /media/stick/sdb.header /dev/sdb

  Decrypt a disk; the header goes to a new file:
    strongroom luks reencrypt --decrypt --header sdb.header /dev/sdb

  Prepare only; continue later, with a line of JSON each 10 seconds:
    strongroom luks reencrypt --init-only secret.img
    strongroom luks reencrypt --resume-only --progress-json --progress-frequency 10 secret.img

EXIT CODES
  1 if it was interrupted; 2 for a wrong argument; 3 if no re-encryption is running, with
  --resume-only; 4 if one is running, with --init-only or options for a new one, or if a device
  to encrypt is a container; 5 if another command changes it; 7 if the passphrase is wrong; 9 if the
  header is damaged or was changed; 10 if the container cannot be
  re-encrypted; 11 if the header or the device has no free space.")]
pub(crate) struct LuksReencryptArgs {
    /// Encrypt a device that is not encrypted
    #[arg(long, conflicts_with_all = ["decrypt", "resume_only"])]
    pub(crate) encrypt: bool,
    /// Decrypt a container
    #[arg(long, conflicts_with_all = ["resume_only", "cipher", "key_size", "sector_size"])]
    pub(crate) decrypt: bool,
    /// The free space at the end of the device, such as 32M; half of it becomes the header
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "encrypt")]
    pub(crate) reduce_device_size: Option<u64>,
    /// Re-encrypt only so much of the data, such as 10G; the rest is lost. Repeat this with --resume-only
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "reduce_device_size")]
    pub(crate) device_size: Option<u64>,
    /// The new cipher; default: the present one
    #[arg(short, long, value_name = "CIPHER", conflicts_with = "resume_only")]
    pub(crate) cipher: Option<String>,
    /// The length of the new key in bits; default: as it is, or what the cipher takes
    #[arg(short = 's', long, value_name = "BITS", conflicts_with = "resume_only")]
    pub(crate) key_size: Option<usize>,
    /// The new sector size in bytes: 512, 1024, 2048 or 4096; a file system may need the old one
    #[arg(long, value_name = "BYTES", conflicts_with = "resume_only")]
    pub(crate) sector_size: Option<u32>,
    /// Keep only this key slot
    #[arg(short = 'S', long, value_name = "SLOT", conflicts_with = "resume_only")]
    pub(crate) key_slot: Option<u32>,
    /// Protect the data that is being written; default: checksum
    #[arg(long, value_enum, conflicts_with = "resume_only")]
    pub(crate) resilience: Option<LuksResilience>,
    /// The hash of --resilience checksum; default: sha256
    #[arg(long, value_name = "HASH", conflicts_with = "resume_only")]
    pub(crate) resilience_hash: Option<String>,
    /// The largest size of a hot zone, such as 64M; default: 32M, or 4M while the mapping is open
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) hotzone_size: Option<u64>,
    /// Prepare the header and stop; no data is written
    #[arg(long, conflicts_with = "resume_only")]
    pub(crate) init_only: bool,
    /// Continue a re-encryption, and do not begin one
    #[arg(long)]
    pub(crate) resume_only: bool,
    /// Print the progress as a line each so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) progress_frequency: Option<u64>,
    /// Print the progress as lines of JSON
    #[arg(long)]
    pub(crate) progress_json: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}
