//! Changing who can open a container, and what else its header says.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::common::{LuksContainer, LuksKdf, LuksKey, LuksVersion};

/// The priority of a key slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LuksPriority {
    Ignore,
    Normal,
    Prefer,
}

/// A new passphrase, and what opens the container now.
#[derive(Args, Debug)]
pub(crate) struct LuksNewKey {
    /// Read the new passphrase from this whole file
    #[arg(long, value_name = "FILE")]
    pub(crate) new_keyfile: Option<PathBuf>,
    /// Skip this many bytes of the new key file
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "0",
        requires = "new_keyfile"
    )]
    pub(crate) new_keyfile_offset: u64,
    /// Read only this many bytes of the new key file
    #[arg(long, value_name = "BYTES", requires = "new_keyfile")]
    pub(crate) new_keyfile_size: Option<usize>,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
    // Last: what follows would stand below its heading.
    #[command(flatten)]
    pub(crate) kdf: LuksKdf,
}

/// Add a passphrase or key file to a container
///
/// Asks for a passphrase that opens the container, then twice for the new one. Prints the number of the new
/// key slot.
///
/// With --unbound the slot gets a key of its own, for other programs. Its passphrase does not open the
/// container, and no passphrase of the container is needed. `luks open --test-passphrase -S SLOT` tests it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A second passphrase; a key file:
    strongroom luks add-key secret.img
    strongroom luks add-key secret.img --new-keyfile /etc/keys/disk

  A key of 256 bits for another program:
    strongroom luks add-key --unbound --key-size 256 secret.img

EXIT CODES
  4 if the slot is in use; 5 if another program uses the container; 7 if the passphrase is wrong;
  8 if no key slot can be used; 11 if there is no space for another slot.")]
pub(crate) struct LuksAddKey {
    /// The number of the new slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Put a new random key into the slot, which encrypts no data
    #[arg(long, requires = "key_size", conflicts_with = "key_file")]
    pub(crate) unbound: bool,
    /// The length of that key, in bits
    #[arg(short = 's', long, value_name = "BITS", requires = "unbound")]
    pub(crate) key_size: Option<usize>,
    #[command(flatten)]
    pub(crate) new: LuksNewKey,
}

/// Change a passphrase
///
/// The new slot is complete before the old one goes, so there must be space for one more. After an interruption,
/// one of the two passphrases opens the container. Prints the number of the slot: LUKS2 keeps it, LUKS1 uses
/// another one.
///
/// If there is no space, --in-place writes the new key material over the old one. If the power fails then, neither
/// passphrase may open the container; other passphrases do. Make a backup of the header first.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Asks for the old passphrase, then twice for the new one:
    strongroom luks change-key secret.img

  With a password hash that LUKS1 supports:
    strongroom luks change-key --pbkdf pbkdf2 secret.img

EXIT CODES
  5 if another program uses the container; 7 if the passphrase is wrong; 8 if no key slot can be
  used; 11 if no slot is free.")]
pub(crate) struct LuksChangeKey {
    /// Change only this slot
    #[arg(short = 'S', long, value_name = "SLOT")]
    pub(crate) key_slot: Option<u32>,
    /// Overwrite the slot itself; another slot must remain
    #[arg(long)]
    pub(crate) in_place: bool,
    #[command(flatten)]
    pub(crate) new: LuksNewKey,
}

/// Remove a passphrase: the one that you enter
///
/// The key material of its slot is overwritten. The last one cannot be removed without -q: then the data in
/// the container is lost.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The passphrase that you type:
    strongroom luks remove-key secret.img

EXIT CODES
  5 if another program uses the container, or this is the last passphrase; 7 if the passphrase is
  wrong; 8 if no key slot can be used.")]
pub(crate) struct LuksRemoveKey {
    /// Allow the last one too
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) key: LuksKey,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Remove a key slot without its passphrase
///
/// Its key material is overwritten. The last one cannot be removed without -q.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Slot 2; 'luks dump' shows the slots:
    strongroom luks kill-slot secret.img 2

EXIT CODES
  3 if there is no such slot; 5 if another program uses the container, or this is the last slot.")]
pub(crate) struct LuksKillSlot {
    /// Allow the last one too
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

/// Set the priority of a key slot
///
/// Preferred slots are tried first. Ignored slots are tried only if their number is given. LUKS2 only.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Do not try the escrow key with typed passphrases:
    strongroom luks set-priority secret.img 3 ignore

EXIT CODES
  3 if there is no such slot; 5 if another program uses the container.")]
pub(crate) struct LuksSetPriority {
    #[command(flatten)]
    pub(crate) slot: LuksSlot,
    /// The priority
    #[arg(value_enum, value_name = "PRIORITY")]
    pub(crate) priority: LuksPriority,
}

/// Manage tokens, which help programs to find passphrases
///
/// A token is data in a LUKS2 header. Strongroom keeps tokens as they are and uses none itself.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A token for a passphrase in the keyring of the kernel:
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

/// Add a token that names a key in the keyring of the kernel
///
/// Prints the number of the token. cryptsetup and systemd look for a passphrase there before they ask.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For all key slots; for one:
    strongroom luks token add --key-description my:disk secret.img
    strongroom luks token add --key-description my:disk --key-slot 1 secret.img

EXIT CODES
  2 if there is no such slot; 5 if another program uses the container; 11 if there is no space.")]
pub(crate) struct LuksTokenAdd {
    /// The description of the key
    #[arg(long, value_name = "TEXT")]
    pub(crate) key_description: String,
    /// The key slot; default: all slots
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
/// Its key slots stay as they are. A program that used the token then asks for the passphrase.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The first one:
    strongroom luks token remove --token-id 0 secret.img

EXIT CODES
  3 if there is no such token; 5 if another program uses the container.")]
pub(crate) struct LuksTokenRemove {
    /// The token
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token_id: u32,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Add a token from a file
///
/// The file is JSON, with at least a type and its key slots. Prints the number of the token.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  From a file:
    strongroom luks token import --json-file token.json secret.img

EXIT CODES
  2 if it is no token; 5 if another program uses the container; 11 if there is no space.")]
pub(crate) struct LuksTokenImport {
    /// The file; default: the standard input
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
/// Prints the JSON of the header, for a program or for 'luks token import'.
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

/// Back up a header with its key material to a file
///
/// The file has the form of cryptsetup. It opens with the passphrases of today, even after you change them.
/// So keep it as you keep the passphrases, and make a new one after each change.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To a USB stick:
    strongroom luks header-backup /dev/sdb --header-backup-file /media/stick/sdb.header

EXIT CODES
  3 if there is no header; 4 if the file exists; 9 if the header is damaged.")]
pub(crate) struct LuksHeaderBackup {
    /// The file; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Restore a header from a backup
///
/// The present key slots are lost. A backup with another data area or key length is refused. So is one of another
/// moment of a re-encryption. Data is not changed. The old header stays in a file beside the backup until the command
/// ends, such as sdb.header.old-header. If the power fails during the command, restore one of the two again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  From a USB stick:
    strongroom luks header-restore /dev/sdb --header-backup-file /media/stick/sdb.header

EXIT CODES
  2 if it is a backup of other data, or of another moment of a re-encryption, or there is neither a
  terminal nor -q; 5 if the container is open; 9 if the backup is damaged.")]
pub(crate) struct LuksHeaderRestore {
    /// The file
    #[arg(long, value_name = "FILE")]
    pub(crate) header_backup_file: PathBuf,
    /// Do not ask for confirmation
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Overwrite all key slots: nothing opens the container again
///
/// The data in the container is lost, unless there is a backup of the header. Needs no passphrase.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before you give a disk away:
    strongroom luks erase /dev/sdb

EXIT CODES
  2 if there is neither a terminal nor -q; 3 if there is no header; 5 if the container is open.")]
pub(crate) struct LuksErase {
    /// Do not ask for confirmation
    #[arg(short = 'q', long)]
    pub(crate) batch_mode: bool,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Convert a container to the other version of LUKS
///
/// Data stays where it is and opens with the same passphrases. After a power cut the container has one
/// version or the other. LUKS1 supports only sectors of 512 bytes, no tokens, and key slots 0 to 7 with
/// pbkdf2.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To the newer version:
    strongroom luks convert --type luks2 old.img

EXIT CODES
  2 if the other version does not support it; 5 if the container is open; 11 if there is no space.")]
pub(crate) struct LuksConvert {
    /// The version to convert to
    #[arg(long = "type", value_enum)]
    pub(crate) version: LuksVersion,
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}

/// Repair a header from its second copy
///
/// A LUKS2 header has two copies. If one is damaged, any command that opens or changes the container
/// repairs it from the other. But if the beginning of the first copy is gone, a new file system or
/// partition table may be there on purpose. And if the device cannot read a copy, that copy may be the newer one.
/// Only this command repairs these.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After something was written to the beginning of a disk by mistake:
    strongroom luks repair /dev/sdb

EXIT CODES
  2 if nothing is damaged; 3 if there is no header; 9 if both copies are damaged.")]
pub(crate) struct LuksRepair {
    #[command(flatten)]
    pub(crate) container: LuksContainer,
}
