//! Copying a file by reference.

use std::path::PathBuf;

use clap::Args;

/// Copy a file inside a mounted dataset by reference
///
/// The copy shares the records of the source until one of them changes. So it takes no time, and no space
/// for shared records. `cp --reflink=always` does this elsewhere, but FUSE does not pass that request on.
/// Both files are in the same mounted dataset. The command copies byte by byte what cannot be shared: small
/// files, files with another recordsize than the dataset has now, and files in a snapshot.
///
/// The copy gets the contents and the permissions, but no ACL and no extended attributes. The command needs
/// no daemon but the one that has the dataset mounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy of a disk image, to try something:
    strongroom cp /tank/vm/disk.img /tank/vm/try.img

EXIT CODES
  2 if the two are not files in the same mounted dataset; 3 if there is no such file; 4 if the
  copy exists already; 11 if there is no free space.")]
pub(crate) struct Cp {
    /// Replace the contents of an existing file
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The file to copy
    #[arg(value_name = "SOURCE")]
    pub(crate) from: PathBuf,
    /// The copy, or a directory for it
    #[arg(value_name = "TARGET")]
    pub(crate) to: PathBuf,
}
