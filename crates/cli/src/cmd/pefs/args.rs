//! Key chains of directories of pefs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Change the key chains of directories of pefs
///
/// `stack mount` mounts such a directory. These commands have the words, the options and the exit codes of
/// pefs on FreeBSD. The record of a key in the file .pefs.db of the lower directory seals the next key of its
/// chain. So one passphrase can open what several keys have encrypted. A mount with a passphrase uses all keys
/// of its chain; new files in the top directory get the first one.
///
/// A passphrase is asked for unless -p or -j is given. The link .pefs.conf overrides -a and -i.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Give a directory a key with a passphrase, and a second passphrase that leads to it:
    strongroom pefs addchain -f -Z ~/private.encrypted
    strongroom pefs addchain -f ~/private.encrypted

EXIT CODES
  2 for wrong usage; 3 if a file cannot be read or written; 5 if there is no such directory;
  6 if the key has a record; 7 if the key has none, or it is damaged; 1 for all else.")]
pub(crate) enum Pefs {
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
    /// Prints the names that the options -a and -A take. The default is aes128-xts.
    #[command(after_help = ALGS_EXAMPLES)]
    Showalgs,
}

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
    strongroom pefs showchains -f ~/private.encrypted";

const RANDOM_EXAMPLES: &str = "\
EXAMPLES
  Between 8 and 32 more records:
    strongroom pefs randomchain -f ~/private.encrypted";

const ALGS_EXAMPLES: &str = "\
EXAMPLES
  The names that -a takes:
    strongroom pefs showalgs";

/// Which directory.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// DIRECTORY is the lower directory, which need not be mounted
    #[arg(short = 'f')]
    pub(crate) is_lower: bool,
    /// Where it is mounted; with -f, the lower directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
}

/// A key, by what leads to it.
#[derive(Args, Debug)]
pub(crate) struct KeyOf {
    /// Use no passphrase
    #[arg(short = 'p', conflicts_with = "passfiles")]
    pub(crate) no_passphrase: bool,
    /// How often the passphrase is hashed; 0 is not at all; default: 50000
    #[arg(short = 'i', value_name = "NUMBER")]
    pub(crate) iterations: Option<u32>,
    /// Read the passphrase from the first line of this file; of several, the lines together
    #[arg(short = 'j', value_name = "FILE")]
    pub(crate) passfiles: Vec<PathBuf>,
    /// Use what is in this file too; - is the standard input
    #[arg(short = 'k', value_name = "FILE")]
    pub(crate) key_files: Vec<PathBuf>,
}

/// The next key of a chain.
#[derive(Args, Debug)]
pub(crate) struct ChildOf {
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
    /// As -i, for the next key
    #[arg(short = 'I', value_name = "NUMBER")]
    pub(crate) child_iterations: Option<u32>,
    /// As -j, for the next key
    #[arg(short = 'J', value_name = "FILE")]
    pub(crate) child_passfiles: Vec<PathBuf>,
    /// As -k, for the next key
    #[arg(short = 'K', value_name = "FILE")]
    pub(crate) child_key_files: Vec<PathBuf>,
}

/// `addchain`.
#[derive(Args, Debug)]
pub(crate) struct AddChain {
    #[command(flatten)]
    pub(crate) place: Place,
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
pub(crate) struct DelChain {
    #[command(flatten)]
    pub(crate) place: Place,
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
pub(crate) struct ShowChains {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) key: KeyOf,
}

/// `randomchain`.
#[derive(Args, Debug)]
pub(crate) struct RandomChain {
    #[command(flatten)]
    pub(crate) place: Place,
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
