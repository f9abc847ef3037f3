//! Directories of pefs: mounts, their keys, and key chains.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use console::mount_options::{MountOption, stack_option};

/// Use directories of pefs, and change their keys
///
/// These commands have the words, the options and the exit codes of pefs on FreeBSD. A mount begins without
/// keys. It shows what is stored then, and nothing can be changed. Keys are added and deleted while it is
/// mounted, by root and by the user who mounted it. New files in the top directory get the first key.
///
/// The record of a key in the file .pefs.db of the lower directory seals the next key of its chain. So one
/// passphrase can open what several keys have encrypted. All keys of a chain are added together, the typed one first.
///
/// A passphrase is asked for unless -p or -j is given. The link .pefs.conf overrides -a and -i.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Mount a directory over itself, use it, and take the keys away:
    strongroom pefs mount ~/private ~/private
    strongroom pefs addkey ~/private
    strongroom pefs flushkeys ~/private

  Give a directory a key with a passphrase, and a second passphrase that leads to it:
    strongroom pefs addchain -f -Z ~/private.encrypted
    strongroom pefs addchain -f ~/private.encrypted

EXIT CODES
  2 for wrong usage; 3 if a file cannot be read or written; 4 if the caller may not do it; 5 if
  there is no such directory or key; 6 if the key has a record; 7 if the key has none, or it is
  damaged; 255 if a key cannot be added; 1 for all else.")]
pub enum Pefs {
    /// Mount a directory, without keys
    ///
    /// Serves it in the background until it is unmounted. The mount point may be the directory itself. Without
    /// arguments the command lists the mounts of encrypted directories.
    #[command(after_help = MOUNT_EXAMPLES)]
    Mount(PefsMount),
    /// Unmount a directory
    ///
    /// A mount that a program uses stays as it is. With -f it disappears at once.
    #[command(visible_alias = "umount", after_help = UNMOUNT_EXAMPLES)]
    Unmount(PefsUnmount),
    /// Add a key to a mount
    ///
    /// Adds the key and those that it leads to, the key itself first. Without -c any passphrase is accepted: a
    /// wrong one is one more key, with which nothing decrypts.
    #[command(after_help = ADDKEY_EXAMPLES)]
    Addkey(AddKey),
    /// Delete a key from a mount
    ///
    /// Deletes the key and those that it leads to. Files that are open with them give errors from then on.
    #[command(after_help = DELKEY_EXAMPLES)]
    Delkey(DelKey),
    /// Delete all keys from a mount
    ///
    /// Files that are open with them give errors from then on. What programs have written is written before.
    #[command(after_help = FLUSH_EXAMPLES)]
    Flushkeys(OfMount),
    /// Show the keys of a mount
    ///
    /// Prints the identifier and the algorithm of each key, never the keys themselves.
    #[command(visible_alias = "status", after_help = SHOWKEYS_EXAMPLES)]
    Showkeys(ShowKeys),
    /// Give a directory in a mount another key
    ///
    /// What is made in it afterwards gets the key too. What is in it keeps its own.
    #[command(after_help = SETKEY_EXAMPLES)]
    Setkey(SetKey),
    /// Show the key of a file or directory in a mount
    ///
    /// Prints the identifier and the algorithm of the key.
    #[command(after_help = GETKEY_EXAMPLES)]
    Getkey(GetKey),
    /// Have a key lead to another one
    ///
    /// Asks for the passphrase of the key, then for that of the next one. The options in capital letters are
    /// for the next key. With -Z the key has a record, but leads nowhere.
    #[command(alias = "setchain", after_help = ADD_EXAMPLES)]
    Addchain(AddChain),
    /// Take away what a key leads to
    ///
    /// Removes the record of the key. Files encrypted with the keys that it led to need another way to them.
    #[command(after_help = DEL_EXAMPLES)]
    Delchain(DelChain),
    /// Show the keys to which a key leads
    ///
    /// Prints the identifier and the algorithm of each key of the chain, never the keys themselves.
    #[command(alias = "showchain", after_help = SHOW_EXAMPLES)]
    Showchains(ShowChains),
    /// Add records that no key opens, so that the number of keys is hidden
    ///
    /// Adds between half of -n and half of -N of them. They stay, since nothing tells them from records of keys.
    #[command(after_help = RANDOM_EXAMPLES)]
    Randomchain(RandomChain),
    /// Show the algorithms
    ///
    /// Prints the names that the options -a and -A take. The first key of an empty directory has aes256-xts, and the
    /// link .pefs.conf is made to say so. Other directories without that link have aes128-xts.
    #[command(after_help = ALGS_EXAMPLES)]
    Showalgs,
}

const MOUNT_EXAMPLES: &str = "\
EXAMPLES
  Over itself, so that what is stored is hidden:
    strongroom pefs mount ~/private ~/private";

const UNMOUNT_EXAMPLES: &str = "\
EXAMPLES
  End a mount:
    strongroom pefs unmount ~/private";

const ADDKEY_EXAMPLES: &str = "\
EXAMPLES
  A passphrase that the directory has a record for:
    strongroom pefs addkey -c ~/private

  A key file, without a passphrase:
    strongroom pefs addkey -p -k card.key ~/private";

const DELKEY_EXAMPLES: &str = "\
EXAMPLES
  The key of a passphrase, and those that it leads to:
    strongroom pefs delkey -v ~/private";

const FLUSH_EXAMPLES: &str = "\
EXAMPLES
  Before leaving:
    strongroom pefs flushkeys ~/private";

const SHOWKEYS_EXAMPLES: &str = "\
EXAMPLES
  The keys of a mount:
    strongroom pefs showkeys ~/private

JSON
  [{\"id\", \"algorithm\"}, ...]";

const SETKEY_EXAMPLES: &str = "\
EXAMPLES
  A directory with a key of its own:
    strongroom pefs setkey -x ~/private/secret";

const GETKEY_EXAMPLES: &str = "\
EXAMPLES
  The key of a directory:
    strongroom pefs getkey ~/private/secret

JSON
  {\"id\", \"algorithm\"}, or null if it has no key.";

const ADD_EXAMPLES: &str = "\
EXAMPLES
  A key file that leads to the key of a passphrase:
    strongroom pefs addchain -f -p -k card.key -v ~/private.encrypted

  The first record, of a key that leads nowhere:
    strongroom pefs addchain -f -Z ~/private.encrypted";

const DEL_EXAMPLES: &str = "\
EXAMPLES
  A passphrase is not to open the directory any more:
    strongroom pefs delchain -f -v ~/private.encrypted";

const SHOW_EXAMPLES: &str = "\
EXAMPLES
  The keys that a passphrase opens:
    strongroom pefs showchains -f ~/private.encrypted

JSON
  [{\"id\", \"algorithm\"}, ...]";

const RANDOM_EXAMPLES: &str = "\
EXAMPLES
  Between 8 and 32 more records:
    strongroom pefs randomchain -f ~/private.encrypted";

const ALGS_EXAMPLES: &str = "\
EXAMPLES
  The names that -a takes:
    strongroom pefs showalgs

JSON
  An array of names.";

/// A directory of pefs.
#[derive(Args, Debug)]
pub struct PefsDirectory {
    /// DIRECTORY is the lower directory, which need not be mounted
    #[arg(short = 'f')]
    pub(crate) is_lower: bool,
    /// Directory where it is mounted; with -f, the lower directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
}

/// A key, by what leads to it.
#[derive(Args, Debug)]
pub struct KeyOf {
    /// Use no passphrase
    #[arg(short = 'p', conflicts_with = "passfiles")]
    pub(crate) no_passphrase: bool,
    /// Rounds of hashing of the passphrase; 0 is none; default: 50000
    #[arg(short = 'i', value_name = "NUMBER")]
    pub(crate) iterations: Option<u32>,
    /// Read the passphrase from the first line of this file; of several, the lines together
    #[arg(short = 'j', value_name = "FILE")]
    pub(crate) passfiles: Vec<PathBuf>,
    /// Use what is in this file too; - is the standard input
    #[arg(short = 'k', value_name = "FILE")]
    pub(crate) key_files: Vec<PathBuf>,
}

/// The use of the chain of a key.
#[derive(Args, Debug)]
pub struct ChainOf {
    /// Refuse a key that has no record
    #[arg(short = 'c', conflicts_with = "no_chain")]
    pub(crate) must_have_chain: bool,
    /// Use the key alone, and no chain
    #[arg(short = 'C')]
    pub(crate) no_chain: bool,
}

/// The next key of a chain.
#[derive(Args, Debug)]
pub struct ChildOf {
    /// The key leads nowhere
    #[arg(short = 'Z', conflicts_with_all = ["child_algorithm", "child_iterations", "child_passfiles",
        "child_key_files", "child_no_passphrase"])]
    pub(crate) ends: bool,
    /// Use no passphrase for the next key
    #[arg(short = 'P', conflicts_with = "child_passfiles")]
    pub(crate) child_no_passphrase: bool,
    /// The algorithm of the next key
    #[arg(short = 'A', value_name = "ALGORITHM")]
    pub(crate) child_algorithm: Option<String>,
    /// The same as -i, for the next key
    #[arg(short = 'I', value_name = "NUMBER")]
    pub(crate) child_iterations: Option<u32>,
    /// The same as -j, for the next key
    #[arg(short = 'J', value_name = "FILE")]
    pub(crate) child_passfiles: Vec<PathBuf>,
    /// The same as -k, for the next key
    #[arg(short = 'K', value_name = "FILE")]
    pub(crate) child_key_files: Vec<PathBuf>,
}

/// `addchain`.
#[derive(Args, Debug)]
pub struct AddChain {
    #[command(flatten)]
    pub(crate) place: PefsDirectory,
    #[command(flatten)]
    pub(crate) key: KeyOf,
    /// The algorithm of the key
    #[arg(short = 'a', value_name = "ALGORITHM")]
    pub(crate) algorithm: Option<String>,
    #[command(flatten)]
    pub(crate) child: ChildOf,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
}

/// `delchain`.
#[derive(Args, Debug)]
pub struct DelChain {
    #[command(flatten)]
    pub(crate) place: PefsDirectory,
    #[command(flatten)]
    pub(crate) key: KeyOf,
    /// Take away the records of all keys of the chain
    #[arg(short = 'F')]
    pub(crate) all: bool,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
}

/// `showchains`.
#[derive(Args, Debug)]
pub struct ShowChains {
    #[command(flatten)]
    pub(crate) place: PefsDirectory,
    #[command(flatten)]
    pub(crate) key: KeyOf,
}

/// `randomchain`.
#[derive(Args, Debug)]
pub struct RandomChain {
    #[command(flatten)]
    pub(crate) place: PefsDirectory,
    /// The fewest records, twice
    #[arg(short = 'n', value_name = "NUMBER", default_value_t = 16)]
    pub(crate) least: u32,
    /// The most records, twice
    #[arg(short = 'N', value_name = "NUMBER", default_value_t = 64)]
    pub(crate) most: u32,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
}

/// `mount`.
#[derive(Args, Debug)]
pub struct PefsMount {
    /// Options of the mount, as of `stack mount`; `nodircache` lists a directory for each new name
    #[arg(short = 'o', value_name = "OPTION,...", value_delimiter = ',', value_parser = stack_option)]
    pub(crate) options: Vec<MountOption>,
    /// The lower directory
    #[arg(value_name = "FROM", requires = "mountpoint")]
    pub(crate) from: Option<PathBuf>,
    /// The directory where the files are shown
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: Option<PathBuf>,
}

/// `unmount`.
#[derive(Args, Debug)]
pub struct PefsUnmount {
    /// Unmount it even if it is in use
    #[arg(short = 'f')]
    pub(crate) force: bool,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
    /// Directory that shows the files
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// The mountpoint of a command.
#[derive(Args, Debug)]
pub struct OfMount {
    /// Directory where it is mounted
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// `addkey`.
#[derive(Args, Debug)]
pub struct AddKey {
    #[command(flatten)]
    pub(crate) of: DelKey,
    /// The algorithm of the key, if its record does not say it; see `showalgs` for the default
    #[arg(short = 'a', value_name = "ALGORITHM")]
    pub(crate) algorithm: Option<String>,
}

/// `delkey`.
#[derive(Args, Debug)]
pub struct DelKey {
    #[command(flatten)]
    pub(crate) chain: ChainOf,
    #[command(flatten)]
    pub(crate) key: KeyOf,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) of: OfMount,
}

/// `showkeys`.
#[derive(Args, Debug)]
pub struct ShowKeys {
    /// Print nothing; the exit code is 7 if there is no key
    #[arg(short = 't')]
    pub(crate) test: bool,
    #[command(flatten)]
    pub(crate) of: OfMount,
}

/// `setkey`.
#[derive(Args, Debug)]
pub struct SetKey {
    #[command(flatten)]
    pub(crate) chain: ChainOf,
    #[command(flatten)]
    pub(crate) key: KeyOf,
    /// The algorithm of the key, if its record does not say it
    #[arg(short = 'a', value_name = "ALGORITHM")]
    pub(crate) algorithm: Option<String>,
    /// Add the key to the mount first
    #[arg(short = 'x', conflicts_with = "must_have_chain")]
    pub(crate) adds: bool,
    /// Say what was done
    #[arg(short = 'v')]
    pub(crate) verbose: bool,
    /// The directory, in a mount
    #[arg(value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
}

/// `getkey`.
#[derive(Args, Debug)]
pub struct GetKey {
    /// Print nothing; the exit code is 1 if it has no key
    #[arg(short = 't')]
    pub(crate) test: bool,
    /// The file or directory, in a mount
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
