//! Clones of snapshots, and what keeps snapshots.

use clap::Args;

use super::values;

/// Create a clone: a writable dataset that begins as a snapshot
///
/// A clone takes no time and no space at first: it shares the records of the snapshot. While the clone
/// exists, the snapshot cannot be destroyed. A clone of an encrypted dataset is encrypted, with the data
/// keys of the snapshot. With -K it gets new data keys for its own writes, so these can be made unreadable
/// without the origin.
///
/// The clone inherits the wrapping key of the dataset above it. If there is none, or with `-o
/// keysource=...`, it gets one of its own; the command asks for a passphrase if the keysource says so.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy to try something in:
    strongroom snapshot tank/home@1
    strongroom clone tank/home@1 tank/try

  With data keys of its own, and a key from a file:
    strongroom keygen /etc/keys/try
    strongroom clone -K -o keysource=raw,file:///etc/keys/try tank/home@1 tank/try2

EXIT CODES
  2 for an unknown or forbidden property; 3 if the snapshot, or the dataset above the clone, does
  not exist; 4 if the name is taken; 8 if the key of the origin or of the dataset above is not
  loaded.")]
pub(crate) struct Clone {
    /// Make new data keys for the writes of the clone
    #[arg(short = 'K')]
    pub(crate) rekey: bool,
    /// Create the datasets above it too
    #[arg(short)]
    pub(crate) parents: bool,
    /// Do not mount it
    #[arg(short = 'u')]
    pub(crate) no_mount: bool,
    /// Set a property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// The snapshot to clone
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: String,
    /// The name of the clone, as POOL/PATH
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Promote a clone: exchange the roles of clone and origin
///
/// The snapshot that the clone was made of, and all earlier ones, move to the clone. The original dataset
/// becomes a clone and can then be destroyed. Nothing is copied. The key of an encrypted clone must be
/// loaded, because the snapshots get new seals. Each dataset keeps its wrapping key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Try a change in a clone, and replace the original by it:
    strongroom clone tank/home@1 tank/try
    strongroom promote tank/try
    strongroom rename tank/home tank/home-old
    strongroom rename tank/try tank/home
    strongroom destroy tank/home-old

EXIT CODES
  2 if it is not a clone, or has a snapshot with the name of one that it would get; 3 if there is
  no such dataset; 8 if its key is not loaded.")]
pub(crate) struct Promote {
    /// The clone
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Hold snapshots: keep them from being destroyed
///
/// A hold is a tag on a snapshot. A snapshot with a tag cannot be destroyed, neither alone nor with its
/// dataset, until `release` removes the tag. A snapshot can have several tags.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Until the copy elsewhere is made:
    strongroom hold copying tank/home@monday

  On the snapshots of a whole pool:
    strongroom hold -r audit tank@2026

EXIT CODES
  3 if there is no such snapshot; 4 if it has the tag already.")]
pub(crate) struct Hold {
    /// Also snapshots of the same name in datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The tag
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

/// Release held snapshots: remove a tag
///
/// A snapshot without tags can be destroyed again. The command releases all named snapshots or none.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One snapshot:
    strongroom release copying tank/home@monday

EXIT CODES
  2 if it has no such tag; 3 if there is no such snapshot.")]
pub(crate) struct Release {
    /// Also snapshots of the same name in datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The tag
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

/// List the holds on snapshots
///
/// Each line is a tag on a snapshot, with the time of the hold.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One snapshot; all snapshots of a dataset:
    strongroom holds tank/home@monday
    strongroom holds tank/home@%

JSON
  [{\"name\", \"tag\", \"time\"}, ...] with times in seconds since 1970.

EXIT CODES
  3 if there is no such snapshot.")]
pub(crate) struct Holds {
    /// Also snapshots of the same name in datasets below
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}
