//! Changing who can open a container, and what else its header says.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{LuksContainer, LuksKdf, LuksKey};

/// Versions of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksVersion {
    Luks1,
    Luks2,
}

impl LuksVersion {
    pub(crate) fn version(self) -> luks::Version {
        match self {
            LuksVersion::Luks1 => luks::Version::V1,
            LuksVersion::Luks2 => luks::Version::V2,
        }
    }
}

/// When a key slot is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksPriority {
    Ignore,
    Normal,
    Prefer,
}

/// Let another passphrase open a container
///
/// Asks for one that opens it, then twice for the new one. Prints the number of the key slot that the new
/// one got.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A second passphrase; a key file:
    strongroom luks add-key secret.img
    strongroom luks add-key secret.img --new-keyfile /etc/keys/disk

EXIT CODES
  4 if the slot is in use; 5 if something else has the container; 7 if the passphrase is
  wrong; 11 if there is no room for another slot.")]
pub(crate) struct LuksAddKey {
    /// The number of the new slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Read the new passphrase from this file, all of it
    #[arg(long, value_name = "FILE")]
    pub(crate) new_keyfile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}

/// Exchange a passphrase
///
/// The new one is complete before the old one goes, so one slot must be free; whatever happens between, one
/// of them opens the container. Prints the number of the slot: in LUKS2 it stays, in LUKS1 it is another.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Asks for the old one, then twice for the new one:
    strongroom luks change-key secret.img

  So that LUKS1 can hold it:
    strongroom luks change-key --pbkdf pbkdf2 secret.img

EXIT CODES
  5 if something else has the container; 7 if the passphrase is wrong; 11 if no slot is free.")]
pub(crate) struct LuksChangeKey {
    /// Only of this slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Read the new passphrase from this file, all of it
    #[arg(long, value_name = "FILE")]
    pub(crate) new_keyfile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}

/// Take a passphrase away: the one that is given
///
/// Its key material is overwritten. The last one stays, unless -q is given: without it what is in the
/// container is lost for good.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The one that is typed:
    strongroom luks remove-key secret.img

EXIT CODES
  5 if something else has the container, or this is the last one; 7 if the passphrase is wrong.")]
pub(crate) struct LuksRemoveKey {
    /// Also the last one
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Take a key slot away, without its passphrase
///
/// Its key material is overwritten. The last one stays, unless -q is given.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  That of somebody who left; 'luks dump' shows which there are:
    strongroom luks kill-slot secret.img 2

EXIT CODES
  3 if there is no such slot; 5 if something else has the container, or this is the last one.")]
pub(crate) struct LuksKillSlot {
    /// Also the last one
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) slot: LuksSlot,
}

/// A key slot of a container.
#[derive(Args, Debug)]
pub(crate) struct LuksSlot {
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    /// The slot
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u32,
}

/// Say when a key slot is tried
///
/// Those that are preferred come first; those that are ignored only if they are asked for by their number.
/// LUKS2 only.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The escrow key is not tried with what people type:
    strongroom luks set-priority secret.img 3 ignore

EXIT CODES
  3 if there is no such slot; 5 if something else has the container.")]
pub(crate) struct LuksSetPriority {
    #[command(flatten)]
    pub(crate) slot: LuksSlot,
    /// When
    #[arg(value_enum, value_name = "PRIORITY")]
    pub(crate) priority: LuksPriority,
}

/// Tokens: what programs keep in a LUKS2 header to find passphrases
///
/// Strongroom keeps them as they are and uses none itself.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Where the kernel's keyring has the passphrase:
    strongroom luks token add --key-description my:disk secret.img

  From one container to another:
    strongroom luks token export --token-id 0 secret.img > token.json
    strongroom luks token import --json-file token.json other.img")]
pub(crate) enum LuksToken {
    Add(LuksTokenAdd),
    Remove(LuksTokenRemove),
    Import(LuksTokenImport),
    Export(LuksTokenExport),
}

/// Add a token that names a key of the kernel's keyring
///
/// Prints its number. cryptsetup and systemd look there for a passphrase before they ask.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For all key slots; for one:
    strongroom luks token add --key-description my:disk secret.img
    strongroom luks token add --key-description my:disk --key-slot 1 secret.img

EXIT CODES
  2 if there is no such slot; 5 if something else has the container; 11 if there is no room.")]
pub(crate) struct LuksTokenAdd {
    /// The description of the key
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_description: String,
    /// For this key slot; for all if not given
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// The number of the token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token_id: Option<u32>,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Remove a token
///
/// The key slots that it is for stay as they are.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The first one:
    strongroom luks token remove --token-id 0 secret.img

EXIT CODES
  3 if there is no such token; 5 if something else has the container.")]
pub(crate) struct LuksTokenRemove {
    /// The token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token_id: u32,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Add a token from a file
///
/// It is JSON, with at least a type and the key slots that it is for. Prints its number.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  From a file:
    strongroom luks token import --json-file token.json secret.img

EXIT CODES
  2 if it is no token; 5 if something else has the container; 11 if there is no room.")]
pub(crate) struct LuksTokenImport {
    /// The file; the standard input if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) json_file: Option<PathBuf>,
    /// The number of the token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token_id: Option<u32>,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Print a token
///
/// As JSON, as it stands in the header, for a program or for 'luks token import'.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To a file:
    strongroom luks token export --token-id 0 secret.img > token.json

EXIT CODES
  3 if there is no such token.")]
pub(crate) struct LuksTokenExport {
    /// The token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token_id: u32,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Copy a header with its key material to a file
///
/// The file is as cryptsetup's, and opens with the passphrases of today, whatever is changed later: keep it
/// as you would keep the passphrases, and make a new one after a change.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To a stick:
    strongroom luks header-backup /dev/sdb --header-backup-file /media/stick/sdb.header

EXIT CODES
  3 if there is no header; 4 if the file is there already; 9 if the header is damaged.")]
pub(crate) struct LuksHeaderBackup {
    /// The file; it must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Put a header back from a file
///
/// The key slots of now are lost. A backup of other data, which lies elsewhere or has another key length, is
/// refused. Data is not touched. The old header is in a file beside the backup until all is done, as
/// sdb.header.old-header. If the power fails in the middle, restore one of the two again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  From a stick:
    strongroom luks header-restore /dev/sdb --header-backup-file /media/stick/sdb.header

EXIT CODES
  2 if it is a backup of other data, or nobody can be asked; 5 if the container is open; 9 if the
  backup is damaged.")]
pub(crate) struct LuksHeaderRestore {
    /// The file
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Do not ask whether it is meant
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Overwrite all key slots: nobody can open the container any more
///
/// What is in it is lost for good, unless there is a backup of the header. Takes no passphrase.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before a disk leaves the house:
    strongroom luks erase /dev/sdb

EXIT CODES
  2 if nobody can be asked; 3 if there is no header; 5 if the container is open.")]
pub(crate) struct LuksErase {
    /// Do not ask whether it is meant
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Make a container one of the other version of the format
///
/// Data stays where it is, and opens with the same passphrases; a power cut leaves one version or the other.
/// LUKS1 holds containers with sectors of 512 bytes, no tokens, and key slots 0 to 7 that use pbkdf2.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To the newer version:
    strongroom luks convert --type luks2 old.img

EXIT CODES
  2 if the other version cannot hold it; 5 if the container is open; 11 if there is no room.")]
pub(crate) struct LuksConvert {
    /// To this version
    #[arg(long = "type", value_enum)]
    pub(crate) version: LuksVersion,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Write a copy of the header again over which something was written
///
/// A LUKS2 header has two copies. If one is damaged, any command that opens or changes the container mends it
/// from the other. But if the first does not even begin as one, a file system or a partition table may have
/// been put there, and whoever did that may have meant it: then it is mended by this command only.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After something was written to the beginning of a disk by mistake:
    strongroom luks repair /dev/sdb

EXIT CODES
  2 if nothing is wrong; 3 if there is no header; 9 if no copy is whole.")]
pub(crate) struct LuksRepair {
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}
