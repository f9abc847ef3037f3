//! Differences between snapshots.

use clap::Args;

/// Show which files changed since a snapshot
///
/// Compares a snapshot with a later one of the same dataset, or with the dataset as it is now. The first
/// character of a row says what happened: `+` a new file, or a new name of a file; `-` a removed file or
/// name; `M` changed contents, attributes or directory entries; `R` a renamed file, with both names.
///
/// Files that were only read are not shown. The time depends on the number of changes, not of files. Paths
/// begin at the mountpoint, or at the root of the dataset if it is not mounted. Spaces, backslashes and
/// unprintable characters are written in octal, as \\0040. If the key is not loaded, there are no names;
/// the numbers of changed records are shown.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Since Monday; from Monday to Tuesday:
    strongroom diff tank/home@monday
    strongroom diff tank/home@monday @tuesday

  For scripts, with file types and times:
    strongroom diff -FHt tank/home@monday tank/home

JSON
  {\"files\": [{\"change\": +|-|M|R, \"kind\", \"path\", \"new_path\", \"time\", \"nanos\"}, ...] or null
  without the key, \"metadata\": [ONLY OLD, ONLY NEW], \"contents\": [ONLY OLD, ONLY NEW]}: numbers
  of records.

EXIT CODES
  2 if the first is no earlier snapshot of the second, or too much has changed to compare it in the
  memory of this user; 3 if there is no such snapshot; 9 if data is damaged.")]
pub(crate) struct DiffArgs {
    /// Show the type of each file: / directory, F file, @ symbolic link, | FIFO, = socket, B and C devices
    #[arg(short = 'F')]
    pub(crate) kinds: bool,
    /// Show the time of the last change, in seconds since 1970
    #[arg(short = 't')]
    pub(crate) times: bool,
    /// Print tabs between columns, and between the two names of a renamed file
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The earlier snapshot
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) from: String,
    /// The later snapshot, as DATASET@SNAPSHOT or @SNAPSHOT, or a dataset
    #[arg(value_name = "SNAPSHOT|DATASET")]
    pub(crate) to: Option<String>,
}
