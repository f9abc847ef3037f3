//! Datasets and snapshots: what `zfs` does.

use clap::{Args, ValueEnum};

use super::values;

/// Make a dataset
///
/// The dataset above it must exist, unless -p is given. Properties that are not set are inherited
/// from it, so a dataset below an encrypted one is encrypted by the same key unless it says otherwise;
/// its data keys are its own. Encryption is chosen now and cannot be changed later. With
/// `keysource=passphrase,prompt`, which is the default, the passphrase is asked for twice; if the
/// standard input is no terminal, it is read from there, one line.
///
/// With -V it is a volume: a block device of this size, without files. Its blocks have 16K, or what
/// `volblocksize` says, a power of two from 4K to 1M; smaller requests cost as much as a whole block, and
/// blocks of 4K cannot be compressed. Room for all of it is reserved, with what it takes to keep it
/// (refreservation), so that it can always be written; with -s nothing is, and it can be larger than the
/// pool. A volume is encrypted, compressed, cloned and sent as other datasets are, and is not mounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset that inherits everything:
    strongroom create tank/home/ann

  Encrypted by a passphrase, compressed:
    strongroom create -o encryption=on -o keysource=passphrase,prompt -o compression=zstd-3 tank/home

  With another cipher, and a key from a file:
    strongroom keygen --format hex /etc/keys/mail
    strongroom create -o encryption=aes-128-ccm -o keysource=hex,file:///etc/keys/mail tank/mail

  A volume, and one that takes only the room of what is written to it:
    strongroom create -V 10G tank/disk
    strongroom create -s -V 1T -o volblocksize=64K tank/thin

EXIT CODES
  2 for a property that is not known or a value that is not allowed; 3 if there is nothing above
  it; 4 if the name is taken; 8 if the key cannot be read; 11 if there is no room to reserve.")]
pub(crate) struct Create {
    /// Make the datasets above it too, and do not mind if it exists
    #[arg(short)]
    pub(crate) parents: bool,
    /// Do not mount it
    #[arg(short = 'u')]
    pub(crate) no_mount: bool,
    /// Make a volume of this size
    #[arg(short = 'V', value_name = "SIZE", value_parser = values::size)]
    pub(crate) volume: Option<u64>,
    /// Reserve no room for the volume
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
/// On a terminal, lists what goes and asks; without one, -f is needed. A dataset with snapshots or
/// datasets below it needs -r, and a snapshot with clones -R, which takes these too. Several snapshots are
/// named as DATASET@FIRST%LAST, where either may be left out, and with commas. The keys of what was
/// encrypted are overwritten. No key is needed.
///
/// With --shred the keys are destroyed so that it can be shown: each keyring is wrapped by a random key
/// that nobody knows, the old one is overwritten, the dataset destroyed and its keyring overwritten again,
/// and what was overwritten is read back from every device. It is refused, with nothing changed, while a
/// device is away, for what is not encrypted, and while a clone that stays has the newest data keys. It says
/// what stays readable to whom. Keys that are not loaded are only overwritten.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Asks first:
    strongroom destroy tank/home/ann
    strongroom destroy tank/home@monday

  What would go with everything below it:
    strongroom destroy -r -n tank/home

  Snapshots from one to another, and all up to one:
    strongroom destroy tank/home@monday%friday
    strongroom destroy tank/home@%friday

  What was cloned of a snapshot, with it:
    strongroom destroy -R tank/home@1

  In a script:
    strongroom destroy -r -f tank/home

  So that nobody can read it again; first what would stay readable all the same:
    strongroom destroy --shred -r -n tank/secret
    strongroom destroy --shred -r tank/secret

JSON
  With -n or -v, an array of names. With --shred {\"destroyed\": [NAME, ...], \"rewrapped\",
  \"not_rewrapped\": [NAME, ...], \"key_blocks\", \"devices\", \"survivors\": [{\"dataset\",
  \"kept_by\", \"generations\": [N, ...], \"records\", \"bytes\"}, ...]}.

EXIT CODES
  1 if the answer was no; 2 if there is neither a terminal nor -f, or it is not encrypted; 3 if
  there is no such thing; 5 if it is in use, or held, has something below it and -r is not given, or
  clones and no -R, or shares its newest data keys; 12 if a device is away or fails.")]
pub(crate) struct Destroy {
    /// With snapshots and everything below it; of a snapshot, also those of the same name below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// With all that, and with clones of what goes, wherever they are
    #[arg(short = 'R')]
    pub(crate) clones: bool,
    /// Do not ask, and unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Only say what would go
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Say what went
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Destroy the keys of a dataset with it, and prove it
    #[arg(long)]
    pub(crate) shred: bool,
    /// A dataset, or a snapshot as DATASET@SNAPSHOT
    #[arg(value_name = "DATASET|SNAPSHOT")]
    pub(crate) name: String,
}

/// Give a dataset or a snapshot another name
///
/// A dataset moves with everything below it and stays in its pool. Mountpoints that are inherited
/// follow the name.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A dataset:
    strongroom rename tank/home/ann tank/home/anna

  A snapshot; the dataset need not be repeated:
    strongroom rename tank/home@monday @before-upgrade

EXIT CODES
  3 if there is no such thing; 4 if the new name is taken; 5 if it is in use.")]
pub(crate) struct Rename {
    /// The name it has
    #[arg(value_name = "OLD")]
    pub(crate) from: String,
    /// The name it gets
    #[arg(value_name = "NEW")]
    pub(crate) to: String,
}

/// What `list` and `get` can be restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Type {
    #[value(alias = "fs")]
    Filesystem,
    #[value(alias = "vol")]
    Volume,
    #[value(alias = "snap")]
    Snapshot,
    All,
}

/// List datasets, and snapshots if asked for
///
/// Without a name, lists all datasets of all pools. A snapshot counts as one level below its dataset,
/// so -d 1 shows a dataset's children and its own snapshots.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Everything, then one dataset with all below it:
    strongroom list
    strongroom list -r tank/home

  The snapshots of a dataset, the largest last:
    strongroom list -t snapshot -s used tank/home

  The volumes:
    strongroom list -t volume -o name,volsize,used,refer

  Where the space is:
    strongroom list -o space

  For a script: no header, tabs, exact numbers:
    strongroom list -H -p -o name,used,keystatus -r tank

COLUMNS
  name, and every property (see `strongroom get all`), also by the short names avail, refer,
  compress, recsize, ratio, rdonly, enc, reserv, refreserv, usedsnap, usedds, usedrefreserv,
  usedchild; userused@ANN and the like (see `strongroom userspace`). `space` stands for
  name,avail,used,usedsnap,usedds,usedrefreserv,usedchild.

JSON
  [{\"name\", \"type\", \"properties\": {\"used\": {\"value\": 98304, \"source\": \"none\"}, ...}}, ...]
  Sizes are bytes, times are seconds since 1970, `null` does not apply, guids are strings.
  A source is none, default, local, temporary, proposed or inherited; the last with \"from\": DATASET.

EXIT CODES
  3 if there is no such dataset, snapshot or property.")]
pub(crate) struct List {
    /// With everything below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// With what is at most so many levels below
    #[arg(short, value_name = "DEPTH")]
    pub(crate) depth: Option<u32>,
    /// Of these types; file systems and volumes if not given, and snapshots that are named
    #[arg(short = 't', value_name = "TYPE,...", value_delimiter = ',')]
    pub(crate) types: Vec<Type>,
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers
    #[arg(short)]
    pub(crate) parsable: bool,
    /// Columns
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,used,avail,refer,mountpoint"
    )]
    pub(crate) columns: Vec<String>,
    /// Sort by a property, the smallest first; may be repeated
    #[arg(short = 's', value_name = "PROPERTY")]
    pub(crate) ascending: Vec<String>,
    /// Sort by a property, the largest first; may be repeated, and comes after all -s
    #[arg(short = 'S', value_name = "PROPERTY")]
    pub(crate) descending: Vec<String>,
    /// Datasets or snapshots; everything if none is named
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

/// Where a value comes from, as `get -s` takes it.
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
/// The source of a value is `local` (set on this dataset), `inherited from` a dataset above,
/// `default`, `temporary` (given to the command that mounted it), `proposed` (see `strongroom key accept`), or `-` for what is counted or
/// fixed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Everything about a dataset:
    strongroom get all tank/home

  How it is encrypted, and where that was said:
    strongroom get -r encryption,keysource,keystatus tank

  What was set by hand, anywhere:
    strongroom get -s local all

  One value, for a script:
    strongroom get -H -p -o value used tank/home

JSON
  [{\"name\", \"type\", \"properties\": {\"used\": {\"value\": 98304, \"source\": \"none\"}, ...}}, ...]
  as for `list`.

EXIT CODES
  3 if there is no such dataset, snapshot or property.")]
pub(crate) struct Get {
    /// With everything below, and snapshots
    #[arg(short)]
    pub(crate) recursive: bool,
    /// With what is at most so many levels below
    #[arg(short, value_name = "DEPTH")]
    pub(crate) depth: Option<u32>,
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers
    #[arg(short)]
    pub(crate) parsable: bool,
    /// Columns
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
    /// Only of these types
    #[arg(short = 't', value_name = "TYPE,...", value_delimiter = ',')]
    pub(crate) types: Vec<Type>,
    /// Properties, or `all`
    #[arg(value_name = "all|PROPERTY,...")]
    pub(crate) props: String,
    /// Datasets or snapshots; everything if none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

/// Set properties of datasets
///
/// Datasets below inherit what they do not set themselves. All is set or nothing is. A property whose
/// name has a colon in it, as in org.example:owner, is yours: it means nothing to this program.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom set [OPTIONS] <PROPERTY=VALUE>... <DATASET>...",
    after_help = "\
EXAMPLES
  One property:
    strongroom set compression=zstd-3 tank/home

  Two, of two datasets:
    strongroom set atime=off recordsize=1M tank/home/ann tank/home/bob

  How much a dataset may take, with its snapshots and everything below it; what it refers to itself,
  without snapshots:
    strongroom set quota=10G tank/home/ann
    strongroom set refquota=8G tank/home/ann

  Room that is kept for a dataset with its snapshots and everything below it, until it has taken
  that much; for it alone, besides its snapshots, so that what it has can be overwritten:
    strongroom set reservation=20G tank/db
    strongroom set refreservation=15G tank/db

  A volume becomes larger, also while it is in use; smaller only with -f, as what lies behind its
  new end is lost:
    strongroom set volsize=20G tank/disk
    strongroom set -f volsize=5G tank/disk

EXIT CODES
  2 for a property that is not known or cannot be set, or a value that is not allowed; 3 if there
  is no such dataset; 11 for a quota that is less than what is taken or reserved, and for a
  reservation that is more than is left."
)]
pub(crate) struct Set {
    /// Let a volume become smaller
    #[arg(short)]
    pub(crate) force: bool,
    /// Properties with their values, then datasets
    #[arg(value_name = "PROPERTY=VALUE|DATASET", num_args = 2.., required = true)]
    pub(crate) words: Vec<String>,
}

/// Unset a property, so that it is inherited again
///
/// A property that nothing above sets has its default again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One dataset:
    strongroom inherit compression tank/home/ann

  With everything below it:
    strongroom inherit -r mountpoint tank/home

EXIT CODES
  2 for a property that is not known or is not inherited; 3 if there is no such dataset.")]
pub(crate) struct Inherit {
    /// Below them too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The property
    #[arg(value_name = "PROPERTY")]
    pub(crate) property: String,
    /// The datasets
    #[arg(value_name = "DATASET", required = true)]
    pub(crate) names: Vec<String>,
}

/// Make snapshots
///
/// A snapshot is what a dataset held at one moment. It takes no time and no space at first, and keeps
/// what is later changed or removed. All snapshots of one command are of the same moment. Snapshots can
/// be looked at in the directory .snapshot of a dataset, if it is mounted. No key is needed.
#[derive(Args, Debug)]
#[command(
    visible_alias = "snap",
    after_help = "\
EXAMPLES
  One dataset:
    strongroom snapshot tank/home@monday

  Everything in a pool, of the same moment:
    strongroom snapshot -r tank@before-upgrade

EXIT CODES
  3 if there is no such dataset; 4 if it has a snapshot of that name."
)]
pub(crate) struct Snapshot {
    /// Below them too, with the same name
    #[arg(short)]
    pub(crate) recursive: bool,
    /// What to make
    #[arg(value_name = "DATASET@SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

/// Take a dataset back to what it was at a snapshot
///
/// What was written since is lost. Only the last snapshot can be gone back to, unless -r is given,
/// which destroys the later ones.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To the last snapshot:
    strongroom rollback tank/home@monday

  To an earlier one:
    strongroom rollback -r tank/home@sunday

EXIT CODES
  3 if there is no such snapshot; 5 if there are later ones and -r is not given, or the dataset
  is in use.")]
pub(crate) struct Rollback {
    /// Destroy later snapshots
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) name: String,
}
