//! What users and groups have: what `zfs userspace` does.

use clap::{Args, ValueEnum};

/// Show what each user has in a dataset, and may have
///
/// Counted is what `du` shows, for the owner of each file: records before compression, without holes and without
/// what only snapshots have; and how many files, directories and the like there are. The first time, every file is
/// looked at once; from then on the dataset counts as it goes. All of this, names and quotas, is inside the sealed
/// data: the dataset has to be mounted.
///
/// Quotas are set as properties: userquota@USER, userobjquota@USER, for groups groupquota@GROUP and
/// groupobjquota@GROUP. What would be more than a quota allows is refused at once (`EDQUOT`), also to root, and
/// also a `chown` to somebody who would have too much. What is there can be overwritten and removed always.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Userspace {
    #[command(flatten)]
    pub(crate) how: Accounts,
}

/// Show what each group has in a dataset, and may have
///
/// As `strongroom userspace`, for the groups of files.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Groupspace {
    #[command(flatten)]
    pub(crate) how: Accounts,
}

const EXAMPLES: &str = "\
EXAMPLES
  Who has most:
    strongroom userspace -S used tank/home
    strongroom groupspace -S used tank/home

  A user's quota, and what she has; no quota:
    strongroom set userquota@ann=10G userobjquota@ann=100K tank/home
    strongroom get userquota@ann,userused@ann tank/home
    strongroom set userquota@ann=none tank/home

  For a script, and by number instead of name:
    strongroom userspace -Hpn -o name,used tank/home

COLUMNS
  type, name, used, quota, objused, objquota

JSON
  [{\"kind\": user|group, \"id\", \"name\", \"used\", \"quota\", \"objects_used\", \"object_quota\"}, ...]
  Sizes are bytes; the name is null if the number has none, a quota if there is none.

EXIT CODES
  3 if there is no such dataset, or it is not mounted; 9 if --check finds another count.";

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

/// What is shown, and how.
#[derive(Args, Debug)]
pub(crate) struct Accounts {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers
    #[arg(short)]
    pub(crate) parsable: bool,
    /// Numbers instead of names
    #[arg(short)]
    pub(crate) numeric: bool,
    /// Columns
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "type,name,used,quota,objused,objquota"
    )]
    pub(crate) columns: Vec<AccountField>,
    /// Sort by a column, the smallest first; may be repeated
    #[arg(short = 's', value_name = "COLUMN")]
    pub(crate) ascending: Vec<AccountField>,
    /// Sort by a column, the largest first; may be repeated, and comes after all -s
    #[arg(short = 'S', value_name = "COLUMN")]
    pub(crate) descending: Vec<AccountField>,
    /// Count anew first, while programs go on, and fail if something else was counted
    #[arg(long)]
    pub(crate) check: bool,
    /// The dataset
    #[arg(value_name = "DATASET")]
    pub(crate) name: String,
}
