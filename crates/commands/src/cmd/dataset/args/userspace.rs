//! Space of users and groups, as of `zfs userspace`.

use clap::{Args, ValueEnum};
use console::values::TableStyle;

/// Show the used space and the quota of each user of a dataset
///
/// Counts for the owner of each file what `du` shows: records before compression. Holes and data that only snapshots
/// have are not counted. Also counts files, directories and so on. The first time, the dataset looks at every file;
/// later it counts each change. Names and quotas are inside the sealed data, so the dataset must be mounted.
///
/// Quotas are properties: userquota@USER, userobjquota@USER, groupquota@GROUP and groupobjquota@GROUP. A
/// write above the quota fails at once (`EDQUOT`), for root too. So does a `chown` to a user whose quota is
/// too small. Existing data can always be overwritten and removed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Userspace {
    #[command(flatten)]
    pub(crate) how: Accounts,
}

/// Show the used space and the quota of each group of a dataset
///
/// The same as `strongroom userspace`, for the groups of files.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Groupspace {
    #[command(flatten)]
    pub(crate) how: Accounts,
}

const EXAMPLES: &str = "\
EXAMPLES
  Users and groups, largest first:
    strongroom userspace -S used tank/home
    strongroom groupspace -S used tank/home

  Set the quotas of a user; show them; remove one:
    strongroom set userquota@ann=10G userobjquota@ann=100K tank/home
    strongroom get userquota@ann,userused@ann tank/home
    strongroom set userquota@ann=none tank/home

  For a script, with numbers instead of names:
    strongroom userspace -Hpn -o name,used tank/home

COLUMNS
  type, name, used, quota, objused, objquota

JSON
  [{\"kind\": user|group, \"id\", \"name\", \"used\", \"quota\", \"objects_used\", \"object_quota\"}, ...]
  Sizes are bytes; `name` is null if the number has no name, a quota if there is none.

EXIT CODES
  3 if there is no such dataset, or it is not mounted; 9 if --check finds a wrong count.";

/// A column of `userspace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccountField {
    Type,
    Name,
    Used,
    Quota,
    Objused,
    Objquota,
}

/// The columns and the order of accounts.
#[derive(Args, Debug)]
pub(crate) struct Accounts {
    #[command(flatten)]
    pub(crate) table: TableStyle,
    /// Print numbers instead of names
    #[arg(short)]
    pub(crate) numeric: bool,
    /// Columns to print
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "type,name,used,quota,objused,objquota"
    )]
    pub(crate) columns: Vec<AccountField>,
    /// Sort by a column, smallest first; may be repeated
    #[arg(short = 's', value_name = "COLUMN")]
    pub(crate) ascending: Vec<AccountField>,
    /// Sort by a column, largest first; may be repeated; applies after all -s
    #[arg(short = 'S', value_name = "COLUMN")]
    pub(crate) descending: Vec<AccountField>,
    /// Count again first, while programs go on, and fail if the old count was wrong
    #[arg(long)]
    pub(crate) check: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}
