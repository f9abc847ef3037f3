//! Snapshots, clones and holds.

mod diff;

use clap::Args;
use console::time_argument::TimeArgument;
use console::values;

pub(crate) use diff::DiffArgs;

/// Create snapshots
///
/// A snapshot is the state of a dataset at one moment. It takes no time and no space at first, and keeps
/// the data that is changed or removed later. All snapshots of one command are of the same moment. The
/// directory .snapshot of a mounted dataset shows its snapshots. No key is needed.
///
/// The daemon makes and prunes snapshots by itself where the property snapshot-schedule says so, also for the
/// datasets that inherit it. `hourly:24,daily:30` makes one in each hour and in each day of UTC, and keeps the
/// newest 24 and 30. The kinds are 1min, 5min, 10min, 15min, 20min, 30min, hourly, daily, weekly, monthly and
/// yearly. The name has the time when a snapshot was made: auto-hourly-2026-11-25-0300Z. With `,local` at the
/// end days begin in the time of the machine, and names have its offset: auto-daily-2026-11-25-0000p0100.
/// After a pause of the daemon one of each kind is made. Snapshots with other names, with a hold, with a clone, or in use stay. `pool history`
/// shows what was made and destroyed, and what failed. --prune destroys now what the schedule no longer keeps.
#[derive(Args, Debug)]
#[command(
    visible_alias = "snap",
    after_help = "\
EXAMPLES
  One dataset:
    strongroom snapshot tank/home@monday

  All datasets of a pool, at the same moment:
    strongroom snapshot -r tank@before-upgrade

  By a schedule, for a dataset and all datasets below it:
    strongroom set snapshot-schedule=hourly:24,daily:30,monthly:12 tank/home

  What a shorter schedule would destroy now, and destroying it:
    strongroom snapshot --prune -n -r tank/home
    strongroom snapshot --prune -r tank/home

  A copy that another host sends has no schedule; keep a year of its days:
    strongroom snapshot --prune -r --keep daily:365 backup/home

JSON
  With --prune, an array of names.

EXIT CODES
  1 if --prune names a dataset without a schedule; 3 if there is no such dataset; 4 if it has a
  snapshot of that name; 11 if there would be more than snapshot_limit."
)]
pub(crate) struct Snapshot {
    /// Also for all datasets below, with the same snapshot name
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Destroy the snapshots that snapshot-schedule no longer keeps, instead of creating some
    #[arg(long)]
    pub(crate) prune: bool,
    /// With --prune, only show what would be destroyed
    #[arg(short = 'n', requires = "prune")]
    pub(crate) dry_run: bool,
    /// With --prune, what is kept, in place of snapshot-schedule: hourly:24,daily:30
    #[arg(long, value_name = "SCHEDULE", requires = "prune")]
    pub(crate) keep: Option<String>,
    /// The snapshots to create; with --prune, datasets
    #[arg(value_name = "DATASET@SNAPSHOT|DATASET", required = true)]
    pub(crate) names: Vec<String>,
}

/// Create a bookmark of a snapshot, for `send -i`
///
/// A bookmark keeps what an incremental stream needs to know of a snapshot, and none of its data. So the snapshot can
/// be destroyed, and `send -i #BOOKMARK` still sends the changes since then. The receiver needs the snapshot itself.
/// A bookmark belongs to the dataset of its snapshot. `list -t bookmark` shows bookmarks, and `destroy
/// DATASET#BOOKMARK` destroys one. A rollback to an earlier snapshot destroys it too.
///
/// The stream of an encrypted dataset goes on from a bookmark only with -w. No key is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Keep no snapshot for the next incremental stream:
    strongroom bookmark tank/home@monday tank/home#monday
    strongroom destroy tank/home@monday
    strongroom send -w -i '#monday' tank/home@tuesday | strongroom receive backup/home

  All bookmarks:
    strongroom list -t bookmark -r tank

EXIT CODES
  2 if the bookmark and the snapshot name different datasets; 3 if there is no such snapshot; 4 if
  the name is taken.")]
pub(crate) struct BookmarkArgs {
    /// The snapshot, or a bookmark to copy
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) of: String,
    /// The bookmark, as DATASET#BOOKMARK or #BOOKMARK
    #[arg(value_name = "BOOKMARK")]
    pub(crate) name: String,
}

/// Roll a dataset back to a snapshot
///
/// All later writes are lost. Only the last snapshot is possible, unless -r destroys the later ones and later
/// bookmarks. -R also destroys the clones of later snapshots, with everything below them. It is not for tenants, and
/// not for users to whom root gave permissions. They destroy the clones one by one.
///
/// To a snapshot that is to be destroyed (destroy -d), an encrypted dataset goes back only with its key loaded: the
/// snapshot may be gone when the key comes.
///
/// A snapshot from before a `key rotate` has a seal of the older keys. With the key loaded, rollback makes a new
/// seal. Without the key, the dataset keeps the old seal and does not mount. Then roll back again with the key
/// loaded. This accepts the state of the snapshot, so look at it first.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To the last snapshot:
    strongroom rollback tank/home@monday

  To an earlier one:
    strongroom rollback -r tank/home@sunday

  With the clones of later snapshots; first see what these are:
    strongroom get -t snapshot clones tank/home
    strongroom rollback -R tank/home@sunday

  Accept what was received, or rolled back without the key:
    strongroom key load backup/home
    strongroom rollback backup/home@monday

EXIT CODES
  3 if there is no such snapshot; 5 if there are later snapshots and -r is not given, or later ones
  have holds, or clones and -R is not given, or the dataset is in use; 5 also if the snapshot is to
  be destroyed and the key of the dataset is not loaded.")]
pub(crate) struct Rollback {
    /// Destroy later snapshots and bookmarks
    #[arg(short)]
    pub(crate) recursive: bool,
    /// The same as -r, and also all clones of later snapshots
    #[arg(short = 'R')]
    pub(crate) clones: bool,
    /// Unmount the dataset, and clones to destroy, even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) name: String,
}

/// Create a clone: a writable dataset that begins as a snapshot
///
/// A clone takes no time and no space at first: it shares the records of the snapshot. While the clone
/// exists, the snapshot cannot be destroyed. A clone of an encrypted dataset is encrypted, with the data
/// keys of the snapshot. With -K it gets new data keys for its own writes, so these can be made unreadable
/// without the origin.
///
/// The clone inherits the wrapping key of the dataset above it. If there is none, or with `-o
/// keysource=...`, it gets one of its own; the command asks for a passphrase if the keysource says so.
///
/// If that is another wrapping key than that of the origin, the clone reads what it shares, and gets data
/// keys for its own writes. The keys of the origin are rotated then, as with `key rotate`, so the key of
/// the clone opens nothing that the origin writes later. Under the same wrapping key both trust each
/// other: each can read and change the other.
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
  2 for a forbidden property; 3 if the snapshot, the property, or the dataset above the clone does
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
/// loaded, because the snapshots get new seals. If the clone has another key than its origin, both must be
/// loaded. Each dataset keeps its wrapping key.
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
  2 if the dataset is not a clone, or has a snapshot with the same name as one of its origin; 3 if
  there is no such dataset; 8 if its key is not loaded, or that of its origin where it is needed.")]
pub(crate) struct Promote {
    /// The clone
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}

/// Hold snapshots: keep them from being destroyed
///
/// A hold is a tag on a snapshot. A snapshot with a tag cannot be destroyed, neither alone nor with its
/// dataset, until `release` removes the tag. A snapshot can have several tags.
///
/// With --until nobody removes the tag before that time, root included. Until then no command destroys the snapshot, its
/// dataset or its pool, or makes the time earlier. The same command with a later time moves it. Afterwards the tag
/// keeps nothing. The time is that of the pool, which `pool status` shows: setting the clock of the machine forward
/// does not end a hold. The files, volumes and disks that the pool lies in can still be destroyed, and keys changed. A
/// delegate needs the permissions hold and retention.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Until the copy elsewhere is made:
    strongroom hold copying tank/home@monday

  On the snapshots of a whole pool:
    strongroom hold -r audit tank@2026

  So that nobody destroys it this year:
    strongroom hold --until 2027-01-01 audit tank/home@monday

EXIT CODES
  2 if the time is over, or more than 30 years away; 3 if there is no such snapshot; 4 if it has the
  tag already; 5 if it has the tag until later.")]
pub(crate) struct HoldArgs {
    /// A time before which nobody removes the tag: a date, or with hours as in 2027-01-31T18:00
    #[arg(long, value_name = "DATE")]
    pub(crate) until: Option<TimeArgument>,
    #[command(flatten)]
    pub(crate) tagged: HoldTagArgs,
}

/// A tag, and the snapshots that have it or get it.
#[derive(Args, Debug)]
pub(crate) struct HoldTagArgs {
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
  2 if it has no such tag; 3 if there is no such snapshot; 5 before the end of a tag that has one.")]
pub(crate) struct Release {
    #[command(flatten)]
    pub(crate) tagged: HoldTagArgs,
}

/// List the holds on snapshots
///
/// Each line is a tag on a snapshot, with the time of the hold, and its end if it has one.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One snapshot; all snapshots of a dataset:
    strongroom holds tank/home@monday
    strongroom holds tank/home@%

JSON
  [{\"name\", \"tag\", \"time\", \"until\"}, ...]
  Times are seconds since 1970; `until` is null without an end.

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
