//! Copying a file by reference.

use std::path::PathBuf;

use clap::Args;

/// Copy a file inside a mounted dataset by reference
///
/// The copy shares the records of the source until one of both changes. It takes no time and no space for what is shared, as `cp --reflink=always` does elsewhere: FUSE does not pass that
/// request on. Both files are in the same mounted dataset. What cannot be shared is copied byte by byte: small files,
/// files with another recordsize than the dataset has now, and what lies in a snapshot.
///
/// The copy gets the contents and the permissions, but no ACL and no extended attributes. Needs no daemon but the one
/// that has the dataset mounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy of a disk image, to try something:
    strongroom cp /tank/vm/disk.img /tank/vm/try.img

EXIT CODES
  2 if both are not in the same mounted dataset, or one is no file; 3 if there is no such file; 4 if
  the copy exists already; 11 if there is no room.")]
pub(crate) struct Cp {
    /// Replace the contents of a file that exists
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The file to copy
    #[arg(value_name = "SOURCE")]
    pub(crate) from: PathBuf,
    /// The copy, or the directory that it gets its name in
    #[arg(value_name = "TARGET")]
    pub(crate) to: PathBuf,
}
