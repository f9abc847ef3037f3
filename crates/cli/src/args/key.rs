//! Keys: loading, unloading and changing them, and making key files.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Load, unload and change the keys of encrypted datasets
///
/// A dataset that is created encrypted has a wrapping key, or uses the one of the dataset above it. The
/// property `keysource=FORMAT,LOCATION` says where that key comes from: FORMAT is `passphrase`, `hex` or
/// `raw`, LOCATION is `prompt` or `file:///PATH`. Only `prompt` ever asks somebody. While the key is not
/// loaded, names, contents and sizes of files are unreadable; scrubs, snapshots and destruction still
/// work.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Which keys are loaded:
    strongroom key status

  Load one, and unload it:
    strongroom key load tank/home
    strongroom key unload tank/home")]
pub(crate) enum Key {
    Load(KeyLoad),
    Unload(KeyUnload),
    Change(KeyChange),
    Status(KeyStatus),
}

/// Load the keys of datasets
///
/// Reads each key from where `keysource` says, or asks for it. On a terminal a passphrase is read
/// without showing it; if the standard input is no terminal, one line is read from there for each key.
/// Datasets that use the key of one above them need nothing of their own. Nothing is mounted; see
/// `strongroom mount -l`.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom key load [-r] [-n] [-L LOCATION] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key, from where it belongs:
    strongroom key load tank/home

  All keys of a pool:
    strongroom key load -r tank

  From a copy in another place; or only try whether it is the right one:
    strongroom key load -L file:///media/stick/home.key tank/home
    strongroom key load -n -L file:///media/stick/home.key tank/home

  In a script:
    strongroom key load tank/home < passphrase

EXIT CODES
  3 if there is no such dataset; 4 if the key is loaded already; 7 if the key is wrong; 8 if it
  cannot be read; 9 if what it unlocks is damaged."
)]
pub(crate) struct KeyLoad {
    /// The keys of all datasets of all pools
    #[arg(short, conflicts_with = "names", required_unless_present = "names")]
    pub(crate) all: bool,
    /// Of datasets below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Only try whether the key is the right one
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Read it from here instead: `prompt` or `file:///PATH`
    #[arg(short = 'L', value_name = "LOCATION")]
    pub(crate) location: Option<String>,
    /// Datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Unload the keys of datasets
///
/// Afterwards names and contents cannot be reached, and what was cached of them is wiped. Datasets that
/// use the key must not be mounted, unless -f is given, which unmounts them.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom key unload [-r] [-f] <-a|DATASET...>",
    after_help = "\
EXAMPLES
  One key:
    strongroom unmount tank/home
    strongroom key unload tank/home

  All keys at once, whatever is open:
    strongroom key unload -a -f

EXIT CODES
  3 if there is no such dataset; 5 if something that uses the key is mounted; 8 if the key is
  not loaded."
)]
pub(crate) struct KeyUnload {
    /// The keys of all datasets of all pools
    #[arg(short, conflicts_with = "names", required_unless_present = "names")]
    pub(crate) all: bool,
    /// Of datasets below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Datasets
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// Put another key or passphrase in the place of a dataset's
///
/// The key must be loaded; the old passphrase is not asked for. No data is read or written: only the
/// wrapped keys are replaced, and the old ones are overwritten on the devices. A dataset that used the
/// key of one above it has one of its own afterwards. Copies of the devices made earlier can still be
/// opened with the old key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A new passphrase:
    strongroom key change tank/home

  A key in a file instead:
    strongroom keygen /etc/keys/home
    strongroom key change -o keysource=raw,file:///etc/keys/home tank/home

EXIT CODES
  2 for a keysource that makes no sense, or a passphrase that was not typed the same twice; 3 if
  there is no such dataset; 8 if the key is not loaded, or the new one cannot be read.")]
pub(crate) struct KeyChange {
    /// Where the new key comes from: `keysource=FORMAT,LOCATION`
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = keysource_option)]
    pub(crate) keysource: Option<String>,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

fn keysource_option(text: &str) -> Result<String, String> {
    match text.strip_prefix("keysource=") {
        Some(value) => Ok(value.into()),
        None => {
            Err("only keysource can be changed, as in keysource=hex,file:///etc/keys/home".into())
        }
    }
}

/// Show whether keys are loaded, and where they come from
///
/// KEYROOT is the dataset whose key unlocks this one: itself, or one above it. Datasets that are not
/// encrypted are not shown unless they are named.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All encrypted datasets:
    strongroom key status

  For a script:
    strongroom key status -H tank/home

JSON
  [{\"name\", \"key_root\", \"status\", \"keysource\"}, ...]

EXIT CODES
  3 if there is no such dataset.")]
pub(crate) struct KeyStatus {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Datasets; all if none is named
    #[arg(value_name = "DATASET")]
    pub(crate) names: Vec<String>,
}

/// How `keygen` writes a key down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyFormat {
    /// 32 bytes as they are
    Raw,
    /// 64 hexadecimal digits and a newline
    Hex,
}

/// Make a file with a new random key
///
/// The key has 256 bits. Only the owner can read the file, and a file that exists is never overwritten:
/// it may hold the only copy of a key. Keep a copy elsewhere: what is encrypted by a key that is lost is
/// lost.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A key, and a dataset that uses it:
    strongroom keygen /etc/keys/home
    strongroom create -o encryption=on -o keysource=raw,file:///etc/keys/home tank/home

  One that can be printed on paper:
    strongroom keygen --format hex home.key

EXIT CODES
  4 if the file exists; 6 if it may not be written.")]
pub(crate) struct Keygen {
    /// How to write it down
    #[arg(long, value_enum, default_value = "raw")]
    pub(crate) format: KeyFormat,
    /// The file to make
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
