//! `versions`.

use std::path::PathBuf;

use clap::Args;

/// List the versions of a file in all snapshots, or restore one
///
/// Looks for FILE in each snapshot of the mounted dataset, and shows a row for each version: when it was
/// changed, its size, its owner, and the snapshots that have it. The oldest is first. `now` marks the version
/// that the dataset has at present. FILE may be a file that was removed, also with its directory. A file that
/// was renamed is found under its old name only; `strongroom diff` shows renames.
///
/// With -r, the version of one snapshot is copied back: under another name first, then it is read back,
/// compared, and gets its name. Owner, mode, times, ACLs and extended attributes are those of the snapshot.
/// If the present version is in no snapshot, it would be lost, and the command refuses: take a snapshot
/// first, or use -f or --to. End programs that write to the file before.
///
/// A directory has a version for each change of its entries. With -r, a directory is restored with all that
/// is in it. Files that the snapshot lacks stay.
///
/// The command has the rights of its user, and needs no others. The key of the dataset must be loaded.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Which versions of a letter are there? Restore that of Monday:
    strongroom versions /tank/home/letter
    strongroom versions -r monday /tank/home/letter

  Restore it beside the present one, into another directory of a dataset:
    strongroom versions -r monday --to /tank/home/old /tank/home/letter

JSON
  {\"versions\": [{\"kind\", \"changed\", \"bytes\", \"uid\", \"user\", \"snapshots\": [...], \"is_present\"}, ...],
  \"unreadable\": [{\"snapshot\", \"reason\"}, ...]}; \"changed\" is in seconds since 1970. With -r as
  'strongroom adopt'.

EXIT CODES
  1 if a snapshot could not be read, or not all could be restored; 2 if FILE is not in a mounted
  dataset; 3 if no snapshot has it; 4 if the present version would be lost; 11 if the space did not
  suffice.")]
pub struct VersionsArgs {
    /// Copy the version of this snapshot back, which is named without its dataset
    #[arg(short, long, value_name = "SNAPSHOT")]
    pub(crate) restore: Option<String>,
    /// Restore into this directory, which is in a mounted dataset or stacked directory
    #[arg(long, value_name = "DIR", requires = "restore")]
    pub(crate) to: Option<PathBuf>,
    /// Replace a present version that is in no snapshot; write into a directory that exists
    #[arg(short, long, requires = "restore")]
    pub(crate) force: bool,
    /// Print no header, tabs between columns, all snapshots with commas, and numbers
    #[arg(short = 'H', conflicts_with = "restore")]
    pub(crate) script: bool,
    /// The file, as it is or was named in the mounted dataset
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
