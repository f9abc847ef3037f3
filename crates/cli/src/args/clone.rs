//! Clones of snapshots, and what keeps snapshots.

use clap::Args;

use super::values;

/// Make a dataset that begins as a snapshot
///
/// A clone takes no time and no space at first: it shares what the snapshot holds, and is written to like
/// any dataset. While it exists the snapshot cannot be destroyed. A clone of an encrypted dataset is
/// encrypted, with the data keys of the time of the snapshot; with -K what is written to it has keys of its
/// own, so that it can be made unreadable apart from its origin. Its wrapping key is that of the dataset
/// above it; where there is none, or with `-o keysource=...`, it gets one of its own, and a passphrase is
/// asked for if that is what it says.
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
  2 for a property that is not known or not allowed; 3 if there is no such snapshot, or nothing above
  the clone; 4 if the name is taken; 8 if the key of the origin or of the dataset above is not loaded.")]
pub(crate) struct Clone {
    /// Give it data keys of its own for what is written to it
    #[arg(short = 'K')]
    pub(crate) rekey: bool,
    /// Make the datasets above it too
    #[arg(short)]
    pub(crate) parents: bool,
    /// Do not mount it
    #[arg(short = 'u')]
    pub(crate) no_mount: bool,
    /// Set a property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// The snapshot to begin with
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: String,
    /// The name of the clone, as POOL/PATH
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Make a clone the owner of the snapshots that it shares
///
/// The snapshot that it was cloned from, and those before that, become its own; the dataset that had them
/// becomes a clone. So that one can be destroyed. Nothing is copied. Of an encrypted clone the key must be
/// loaded, for the seals over the snapshots are made anew; each dataset keeps the wrapping key that it has.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Try something in a clone, and keep it in the place of the original:
    strongroom clone tank/home@1 tank/try
    strongroom promote tank/try
    strongroom rename tank/home tank/home-old
    strongroom rename tank/try tank/home
    strongroom destroy tank/home-old

EXIT CODES
  2 if it is not a clone, or has a snapshot of the same name as one that it would get; 3 if there is
  no such dataset; 8 if its key is not loaded.")]
pub(crate) struct Promote {
    /// The clone
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Keep snapshots from being destroyed
///
/// A snapshot with a tag on it is not destroyed, neither by itself nor with its dataset, until `release`
/// takes the tag away. There can be several.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Until the copy elsewhere is made:
    strongroom hold copying tank/home@monday

  On all of one moment:
    strongroom hold -r audit tank@2026

EXIT CODES
  3 if there is no such snapshot; 4 if it has the tag already.")]
pub(crate) struct Hold {
    /// Those of the same names below too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// What to call it
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

/// Take a tag away from snapshots
///
/// A snapshot without tags can be destroyed again. All are released or none.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One:
    strongroom release copying tank/home@monday

EXIT CODES
  2 if it has no such tag; 3 if there is no such snapshot.")]
pub(crate) struct Release {
    /// Those of the same names below too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// What it is called
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}

/// Show the tags that keep snapshots
///
/// Each line is a tag on a snapshot, with the time when it was put there.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Of one snapshot, and of all that a dataset has:
    strongroom holds tank/home@monday
    strongroom holds tank/home@%

JSON
  [{\"name\", \"tag\", \"time\"}, ...] with times in seconds since 1970.

EXIT CODES
  3 if there is no such snapshot.")]
pub(crate) struct Holds {
    /// Those of the same names below too
    #[arg(short)]
    pub(crate) recursive: bool,
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The snapshots, also as DATASET@FIRST%LAST
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub(crate) names: Vec<String>,
}
