//! What differs between snapshots.

use clap::Args;

/// Show which files changed since a snapshot, and how
///
/// Compares a snapshot with a later one of the same dataset, or with the dataset as it is now. A row begins with
/// what became of a file or directory: `+` it is new, or has this name too; `-` it is gone, or has this name no
/// longer; `M` its contents or attributes changed, or the names in it; `R` it has another name, and both are shown.
///
/// What was read only is not shown. It takes as long as there are changes, not files. Paths begin where the
/// dataset is mounted, or at its root; in them spaces, backslashes and what cannot be printed are written in octal,
/// as \\0040. If the key is not loaded there are no names, and the numbers of records that differ are shown.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Since monday, and from then to tuesday:
    strongroom diff tank/home@monday
    strongroom diff tank/home@monday @tuesday

  For scripts, with the kind of each and when it changed:
    strongroom diff -FHt tank/home@monday tank/home

JSON
  {\"files\": [{\"change\": +|-|M|R, \"kind\", \"path\", \"new_path\", \"time\", \"nanos\"}, ...] or null
  without the key, \"metadata\": [ONLY OLD, ONLY NEW], \"contents\": [ONLY OLD, ONLY NEW]}: numbers
  of records.

EXIT CODES
  2 if the first is no earlier snapshot of the second; 3 if there is no such snapshot; 9 if
  something is damaged.")]
pub(crate) struct Diff {
    /// With the kind of each: / directory, F file, @ symbolic link, | FIFO, = socket, B and C devices
    #[arg(short = 'F')]
    pub(crate) kinds: bool,
    /// With the time of the last change, in seconds since 1970
    #[arg(short = 't')]
    pub(crate) times: bool,
    /// A tab between columns, and between the two names of what was renamed
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The snapshot to begin at
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) from: String,
    /// A later one, as DATASET@SNAPSHOT or @SNAPSHOT, or a dataset
    #[arg(value_name = "SNAPSHOT|DATASET")]
    pub(crate) to: Option<String>,
}
