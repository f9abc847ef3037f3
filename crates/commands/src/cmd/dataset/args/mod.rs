//! Datasets: what `zfs` does, without the commands for snapshots.

mod copy;
mod delegation;
mod properties;
mod userspace;

use clap::{Args, ValueEnum};
use console::show::properties as shown;
use console::values::{self, TableStyle};

pub(crate) use copy::Cp;
pub(crate) use delegation::{Allow, DelegationScope, Unallow};
pub(crate) use properties::Properties;
pub(crate) use userspace::{AccountField, Accounts, Groupspace, Userspace};

/// Create a dataset: a file system, or with -V a volume
///
/// The dataset above it must exist, or use -p. The new dataset inherits the properties that you do not set. So a
/// dataset below an encrypted one is encrypted by the same key, unless you choose otherwise. Its data keys are its own.
/// Choose encryption now: it cannot change later. The default is `keysource=passphrase,prompt`: the command asks twice
/// for a passphrase. If the standard input is no terminal, it reads one line from there.
///
/// With -V the dataset is a volume: a block device of this size, without files. Its blocks have 16K, or
/// `volblocksize`, a power of two from 4K to 1M; 4K is the unit of devices. Smaller requests cost as much as
/// a whole block. Blocks of 4K cannot be compressed. The pool reserves space for the whole volume, metadata
/// included (refreservation), so it can always be written. With -s it reserves none, and the volume can be
/// larger than the pool. A volume is encrypted, compressed, cloned and sent as other datasets are. It is not
/// mounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset that inherits everything:
    strongroom create tank/home/ann

  Encrypted by a passphrase, compressed:
    strongroom create -o encryption=on -o keysource=passphrase,prompt \\
        -o compression=zstd-3 tank/home

  With another cipher, and a key from a file:
    strongroom keygen --format hex /etc/keys/mail
    strongroom create -o encryption=aes-128-ccm -o keysource=hex,file:///etc/keys/mail tank/mail

  A volume, and a volume that takes only the space that is written:
    strongroom create -V 10G tank/disk
    strongroom create -s -V 1T -o volblocksize=64K tank/thin

  Only show what would be created:
    strongroom create -n -v -p -o atime=off tank/web/logs

JSON
  With -n, -v or -P, an array of names.

EXIT CODES
  2 for a wrong value; 3 if there is no such property, or the dataset above does not exist; 4 if the
  name is taken; 8 if the key cannot be read; 11 if there is not enough free space to reserve.")]
pub(crate) struct CreateArgs {
    /// Create the datasets above it too; no error if it exists
    #[arg(short)]
    pub(crate) parents: bool,
    /// Do not mount it
    #[arg(short = 'u')]
    pub(crate) no_mount: bool,
    /// Only check, and create nothing
    ///
    /// It asks for no key, and does not look for free space.
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Show what is created
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Show it for programs: words with tabs between them
    #[arg(short = 'P')]
    pub(crate) parsable: bool,
    /// Create a volume of this size
    #[arg(short = 'V', value_name = "SIZE", value_parser = values::size)]
    pub(crate) volume: Option<u64>,
    /// Reserve no space for the volume
    #[arg(short = 's', requires = "volume")]
    pub(crate) sparse: bool,
    /// Set a property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// The name, as POOL/PATH
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Destroy a dataset or a snapshot
///
/// On a terminal, lists what goes and asks for confirmation. Without a terminal, -f is needed. A dataset
/// with snapshots or datasets below it needs -r. A snapshot with clones needs -R, which destroys the clones
/// too. DATASET@FIRST%LAST names several snapshots; either end may be left out, and commas separate names.
/// The keys of encrypted data are overwritten. No key is needed.
///
/// With -d, a snapshot that is held or has clones is not refused. It is marked, and destroyed with the last hold
/// or clone. The property defer_destroy says so. Only 'promote' takes a mark away, from snapshots that move to another
/// dataset.
///
/// With --shred the destruction of the keys can be proven. Each keyring is wrapped by a random key that is not kept,
/// and the old keyring is overwritten. Then the dataset is destroyed and its new keyring is overwritten too. At last
/// the overwritten blocks are read back from every device. The command lists what stays readable with other keys. It
/// refuses, and changes nothing, in three cases: a device is missing, the dataset is not encrypted, or a clone that
/// stays has the newest data keys. Keys that are not loaded are only overwritten.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset; a snapshot; both ask first:
    strongroom destroy tank/home/ann
    strongroom destroy tank/home@monday

  Only show what -r would destroy, and how much space that would free:
    strongroom destroy -r -n -v tank/home

  Snapshots from one to another; all snapshots up to one:
    strongroom destroy tank/home@monday%friday
    strongroom destroy tank/home@%friday

  A snapshot with its clones:
    strongroom destroy -R tank/home@1

  As soon as the last hold is released and the last clone destroyed:
    strongroom destroy -d tank/home@1

  In a script:
    strongroom destroy -r -f tank/home

  With its keys; first show what would stay readable:
    strongroom destroy --shred -r -n tank/secret
    strongroom destroy --shred -r tank/secret

JSON
  With -n or -v, an array of names; with both {\"destroyed\": [NAME, ...], \"freed\": BYTES}.
  With -d {\"destroyed\": [NAME, ...], \"later\": [NAME, ...]}.
  With --shred {\"destroyed\": [NAME, ...], \"rewrapped\",
  \"not_rewrapped\": [NAME, ...], \"key_blocks\", \"devices\", \"survivors\": [{\"dataset\",
  \"kept_by\", \"generations\": [N, ...], \"records\", \"bytes\"}, ...]}.

EXIT CODES
  1 if the answer was no; 2 if there is neither a terminal nor -f, or --shred names a dataset that
  is not encrypted; 3 if there is no such dataset or snapshot; 5 if it is in use or held, needs -r
  or -R, or shares its newest data keys; 12 if a device is missing or fails.")]
pub(crate) struct DestroyArgs {
    /// With its snapshots and all datasets below; for a snapshot, also snapshots of this name below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The same as -r, and also all clones of what is destroyed
    #[arg(short = 'R')]
    pub(crate) clones: bool,
    /// Destroy snapshots that are held or have clones later, with the last of these
    #[arg(short, conflicts_with_all = ["clones", "shred"])]
    pub(crate) defer: bool,
    /// Do not ask, and unmount datasets even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Only show what would be destroyed
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Show what was destroyed; with -n, the space that would be freed
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Destroy the keys too, and prove it
    #[arg(long)]
    pub(crate) shred: bool,
    /// A dataset, a snapshot as DATASET@SNAPSHOT, or a bookmark as DATASET#BOOKMARK
    #[arg(value_name = "DATASET|SNAPSHOT|BOOKMARK")]
    pub(crate) name: String,
}

/// Rename a dataset or a snapshot
///
/// A dataset moves with all datasets below it and stays in its pool. Inherited mountpoints follow the name. What is
/// mounted is mounted again under the new name. A volume that is exported, attached or used by a pool is not renamed,
/// also not with -f. What -p created stays, also if the rename then fails.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset:
    strongroom rename tank/home/ann tank/home/anna

  To below datasets that do not exist yet:
    strongroom rename -p tank/home/ann tank/old/2026/ann

  A snapshot; you can leave out the dataset in the new name:
    strongroom rename tank/home@monday @before-upgrade

  The snapshots of one name of a dataset and of all datasets below it, all or none:
    strongroom rename -r tank@monday @before-upgrade

EXIT CODES
  3 if there is no such dataset or snapshot; 4 if the new name is taken, with -r that of any of the
  snapshots; 5 if it is in use.")]
pub(crate) struct RenameArgs {
    /// Unmount datasets even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Create the datasets above the new name too
    #[arg(short, conflicts_with = "recursive")]
    pub(crate) parents: bool,
    /// With a snapshot: also snapshots of the same name in all datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The old name
    #[arg(value_name = "OLD")]
    pub(crate) from: String,
    /// The new name
    #[arg(value_name = "NEW")]
    pub(crate) to: String,
}

/// The types that `list` and `get` can be restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DatasetType {
    #[value(alias = "fs")]
    Filesystem,
    #[value(alias = "vol")]
    Volume,
    #[value(alias = "snap")]
    Snapshot,
    Bookmark,
    All,
}

/// List datasets, volumes, snapshots and bookmarks
///
/// Without a name, lists all datasets of all pools. A snapshot counts as one level below its dataset: -d 1
/// shows the children and the snapshots of a dataset.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All datasets; one dataset with all datasets below it:
    strongroom list
    strongroom list -r tank/home

  The snapshots of a dataset, largest last:
    strongroom list -t snapshot -s used tank/home

  The bookmarks of all datasets:
    strongroom list -t bookmark -o name,creation,guid

  The volumes:
    strongroom list -t volume -o name,volsize,used,refer

  How the space is used:
    strongroom list -o space

  For a script: no header, tabs, exact numbers:
    strongroom list -H -p -o name,used,keystatus -r tank

COLUMNS
  name, and every property (see `strongroom get all`), also by the short names avail, refer,
  compress, recsize, ratio, rdonly, enc, reserv, refreserv, usedsnap, usedds, usedrefreserv,
  usedchild; userused@ANN and the like (see `strongroom userspace`); written@SNAPSHOT and
  written#BOOKMARK, what is new since then, and `-` for what is not later. `space` stands for
  name,avail,used,usedsnap,usedds,usedrefreserv,usedchild.

JSON
  [{\"name\", \"type\", \"properties\": {\"used\": {\"value\": 98304, \"source\": \"none\"}, ...}}, ...]
  Sizes are bytes, times are seconds since 1970, guids are strings, `null` means not applicable.
  A source is none, default, local, temporary, proposed or inherited; inherited has \"from\": DATASET.

EXIT CODES
  2 if the answer would be too large: then name fewer datasets or properties; 3 if there is no such
  dataset, snapshot or property; 5 if the user has too many listings at the same time.")]
pub(crate) struct List {
    /// With all datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// With datasets at most this many levels below
    #[arg(short, value_name = "DEPTH")]
    pub(crate) depth: Option<u32>,
    /// Only these types; default: file systems, volumes and named snapshots
    #[arg(short = 't', value_name = "TYPE,...", value_delimiter = ',')]
    pub(crate) types: Vec<DatasetType>,
    #[command(flatten)]
    pub(crate) table: TableStyle,
    /// Columns to print
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,used,avail,refer,mountpoint"
    )]
    pub(crate) columns: Vec<String>,
    /// Sort by a property, smallest first; may be repeated
    #[arg(short = 's', value_name = "PROPERTY")]
    pub(crate) ascending: Vec<String>,
    /// Sort by a property, largest first; may be repeated; applies after all -s
    #[arg(short = 'S', value_name = "PROPERTY")]
    pub(crate) descending: Vec<String>,
    /// Datasets or snapshots; default: all datasets
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// A column of `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetField {
    Name,
    Property,
    Value,
    Source,
}

/// The source of a value, as `get -s` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceKind {
    Local,
    Default,
    Inherited,
    Temporary,
    Proposed,
    None,
}

/// Show properties, and where their values come from
///
/// SOURCE is `local` (set on this dataset), `inherited from` a dataset above, `default`, `temporary` (an
/// option of the mount), `proposed` (see `strongroom key accept`), or `-` for values that are counted or
/// fixed.
#[derive(Args, Debug)]
#[command(after_help = format!("\
EXAMPLES
  All properties of a dataset:
    strongroom get all tank/home

  The encryption of a pool, and where it was set:
    strongroom get -r encryption,keysource,keystatus tank

  All values that were set, on all datasets:
    strongroom get -s local all

  One value, for a script:
    strongroom get -H -p -o value used tank/home

PROPERTIES
{}

JSON
  [{{\"name\", \"type\", \"properties\": {{\"used\": {{\"value\": 98304, \"source\": \"none\"}}, ...}}}}, ...]
  as for `list`.

EXIT CODES
  2 if the answer would be too large: then name fewer datasets or properties; 3 if there is no such
  dataset, snapshot or property; 5 if the user has too many listings at the same time.", shown::explained()))]
pub(crate) struct Get {
    /// With all datasets and snapshots below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// With datasets at most this many levels below
    #[arg(short, value_name = "DEPTH")]
    pub(crate) depth: Option<u32>,
    #[command(flatten)]
    pub(crate) table: TableStyle,
    /// Columns to print
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,property,value,source"
    )]
    pub(crate) fields: Vec<GetField>,
    /// Only values from these sources
    #[arg(short = 's', value_name = "SOURCE,...", value_delimiter = ',')]
    pub(crate) sources: Vec<SourceKind>,
    /// Only these types
    #[arg(short = 't', value_name = "TYPE,...", value_delimiter = ',')]
    pub(crate) types: Vec<DatasetType>,
    /// Properties with commas between them, or `all`
    #[arg(value_name = "all|PROPERTY,...")]
    pub(crate) props: String,
    /// Datasets or snapshots; default: all datasets
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Set properties of datasets
///
/// Datasets below inherit the values that they do not set themselves. The command sets all properties or
/// none. A property with a colon in its name, such as org.example:owner, is yours: it means nothing to this
/// program.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom set [OPTIONS] <PROPERTY=VALUE>... <DATASET>...",
    after_help = format!(
        "\
EXAMPLES
  One property:
    strongroom set compression=zstd-3 tank/home

  Two properties of two datasets:
    strongroom set atime=off recordsize=1M tank/home/ann tank/home/bob

  A limit for a dataset with its snapshots and all datasets below it; a limit for the dataset
  itself, without snapshots:
    strongroom set quota=10G tank/home/ann
    strongroom set refquota=8G tank/home/ann

  Free space that is kept for a dataset, its snapshots and all datasets below it; for the dataset
  alone, so that all its data can be overwritten:
    strongroom set reservation=20G tank/db
    strongroom set refreservation=15G tank/db

  Make a volume larger, also while it is in use; make it smaller with -f, which loses the data
  behind its new end:
    strongroom set volsize=20G tank/disk
    strongroom set -f volsize=5G tank/disk

PROPERTIES
{}

EXIT CODES
  2 for a property that cannot be set, or a wrong value; 3 if there is no such dataset or
  property; 11 for a quota below the used or reserved space, or a reservation above the free
  space, or more properties than property_limit allows.",
        shown::values()
    )
)]
pub(crate) struct Set {
    /// Allow a volume to become smaller
    #[arg(short)]
    pub(crate) force: bool,
    /// Properties with their values, then datasets
    #[arg(value_name = "PROPERTY=VALUE|DATASET", num_args = 2.., required = true)]
    pub(crate) words: Vec<String>,
}

/// Clear a property, so that the dataset inherits it again
///
/// If no dataset above sets the property, it has its default again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One dataset:
    strongroom inherit compression tank/home/ann

  With all datasets below:
    strongroom inherit -r mountpoint tank/home

EXIT CODES
  2 for a property that is not inherited; 3 if there is no such dataset or property.")]
pub(crate) struct Inherit {
    /// Also for all datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The property
    #[arg(value_name = "PROPERTY")]
    pub(crate) property: String,
    /// The datasets
    #[arg(value_name = "DATASET", required = true)]
    pub(crate) names: Vec<String>,
}
