//! `adopt`.

use std::path::{Path, PathBuf};

use clap::Args;

/// Copy a directory into a dataset, and verify the copy
///
/// Copies what is in SOURCE into the directory TARGET, which is in a mounted dataset or in a mounted stacked directory.
/// Anywhere else the files would be in clear, so the command refuses. It makes TARGET if only that is missing. It keeps what `rsync -aHAXS` keeps: owners, modes,
/// times, ACLs, extended attributes, hard links, holes, symbolic links, FIFOs, sockets and device nodes. It does not
/// change SOURCE.
///
/// Each file is written under another name, made durable, read back and compared. Then it gets its name and its time. What
/// is read back may come from the memory of the daemon: `strongroom pool scrub` reads all from the disks. A file with the
/// size and the time of its source was compared, so a second run leaves it alone. If the command is interrupted, run it
/// again: it goes on where it was, also inside of a large file.
///
/// A file of TARGET that is newer than its source stays, and is named. So is every file that cannot be read, or that
/// changes while it is copied. The command copies all others, and ends with exit code 1. Files that are only in TARGET
/// stay.
///
/// If SOURCE is the encrypted directory of gocryptfs, the command asks for its passphrase and copies the files in clear
/// into TARGET, where they are encrypted again. Meanwhile it mounts SOURCE read-only in a private directory. Mount
/// directories of fscrypt and pefs before, with `strongroom stack mount --read-only`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  See what would be copied; copy it; copy what has changed since:
    strongroom adopt -n -v /srv/data /tank/data
    strongroom adopt /srv/data /tank/data
    strongroom adopt /srv/data /tank/data

  A directory of gocryptfs; the passphrase is in a file:
    strongroom adopt --passfile ~/pass ~/vault.encrypted /tank/home/ann

WHAT IS LEFT OUT
  Of extended attributes: those of SELinux (security.selinux) and of the file system of SOURCE
  itself, such as btrfs.compression; of a gocryptfs directory, all but those of users (user.*).
  ACLs other than POSIX ones; the first is named. Flags of chattr, and birth times. A user who is
  not root cannot keep other owners: see --no-owner.

  A directory of TARGET that root or another user made is named, and left as it is: the owner of its
  source does not get it. With --no-owner, files are copied into it.

JSON
  {\"files\", \"bytes\", \"directories\", \"links\", \"symlinks\", \"special\", \"equal\", \"left\", \"dry_run\"}

EXIT CODES
  1 if something was left, or the command was interrupted; 2 if TARGET is not in a mounted dataset
  or stacked directory, or one of the two is inside the other; 3 if there is no such directory;
  5 if another command copies into TARGET; 7 if the passphrase is wrong; 11 if the space did not
  suffice.")]
pub struct Adopt {
    /// Change nothing; count what would be copied
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Print a line for each file that is copied
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Replace files of TARGET that are newer than their sources, too
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Compare the contents of files whose size and time are equal, too
    #[arg(short, long)]
    pub(crate) checksum: bool,
    /// Leave out other file systems that are mounted in SOURCE
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,
    /// Do not keep owners and groups; set-user-ID and set-group-ID bits of other owners are dropped
    #[arg(long)]
    pub(crate) no_owner: bool,
    /// Read the passphrase of a gocryptfs directory from the first line of this file, instead of asking
    #[arg(long, value_name = "FILE")]
    pub(crate) passfile: Option<PathBuf>,
    /// The directory whose contents are copied
    #[arg(value_name = "SOURCE")]
    pub(crate) source: PathBuf,
    /// The directory into which they are copied
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,
}

impl Adopt {
    /// Makes the arguments of a copy of some entries of one directory into another one, for another command.
    pub(crate) fn of_entries(source: &Path, target: &Path) -> Adopt {
        Adopt {
            dry_run: false,
            verbose: false,
            force: false,
            checksum: false,
            one_file_system: true,
            no_owner: false,
            passfile: None,
            source: source.to_owned(),
            target: target.to_owned(),
        }
    }
}
