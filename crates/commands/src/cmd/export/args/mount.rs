//! Mounting and unmounting.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use console::mount_options::{MountOption, mount_option};
use console::values::HashCost;

/// Mount datasets, or list mounted datasets
///
/// Without an argument, lists the mounted datasets. A dataset is mounted at its property `mountpoint`, or
/// at DIRECTORY. A snapshot needs a DIRECTORY. -a mounts all datasets with `canmount=on` and a mountpoint.
/// The key of an encrypted dataset must be loaded; -l loads it first, and asks for it if it is a prompt.
/// -a -l loads only keys of datasets that it mounts and of exported volumes. If one dataset cannot be mounted, -l
/// unloads the key that it loaded for it.
///
/// A directory with files in it is no mountpoint: the mount would hide them. --take-in moves them into the dataset
/// first, and keeps what `strongroom adopt` keeps. It copies all of them, verifies the copies, makes them durable, and
/// removes the files then. It moves nothing if the dataset has something of the same name, if something cannot be
/// kept, or if something is mounted in the directory. If it is interrupted, run it again. Stop programs that write
/// there before.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  List the mounted datasets:
    strongroom mount

  Mount all datasets, and load their keys:
    strongroom mount -a -l

  One dataset at its mountpoint; one elsewhere, read-only:
    strongroom mount -l tank/home
    strongroom mount -o ro,noexec tank/home /mnt/look

  Make a mounted dataset read-only, and writable again:
    strongroom mount -o remount,ro tank/home
    strongroom mount -o remount,rw tank/home

  Files were written to the directory while the dataset was locked:
    strongroom mount -l --take-in tank/home

  A snapshot:
    strongroom mount tank/home@monday /mnt/monday

  The log is not of the present state (exit code 14): give up what does not belong to it:
    strongroom mount -l --give-up-log tank/home

JSON
  Without an argument: [{\"name\", \"dir\", \"read_only\"}, ...]
  --take-in: {\"moved\"}

EXIT CODES
  3 if there is no such dataset; 4 if the dataset has something of the name of a file to take in;
  5 if it is mounted already, or the directory is not empty and neither -O nor --take-in is given; 6
  if canmount is off, or the system refuses the mount; 7 if the key is wrong; 8 if it is not loaded;
  9 if the machine saw a later state, see --accept-rollback; 14 if the log has entries that are not
  of the present state, see --give-up-log. With -a, the exit code is that of the first failure; the
  other datasets are mounted.")]
pub(crate) struct Mount {
    /// Mount all datasets with canmount=on and a mountpoint
    #[arg(short, conflicts_with_all = ["name", "dir"])]
    pub(crate) all: bool,
    /// Load the keys first
    #[arg(short)]
    pub(crate) load_keys: bool,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    /// Mount over a directory that is not empty
    #[arg(short = 'O')]
    pub(crate) overlay: bool,
    /// Move the files of the directory into the dataset, and mount it there then
    #[arg(long, conflicts_with_all = ["all", "overlay"])]
    pub(crate) take_in: bool,
    /// Replay the log only as far as it is of the present state, and give up the rest. A volume is not
    /// mounted
    #[arg(long, requires = "name")]
    pub(crate) give_up_log: bool,
    /// Accept the state of the dataset, although this machine has seen a later one: as `anchor accept`
    #[arg(long, conflicts_with = "all", requires = "name")]
    pub(crate) accept_rollback: bool,
    /// Options for this mount, which override properties: `ro` or `rw`, `noexec` or `exec`, `nosuid` or
    /// `suid`, `nodev` or `dev`, `noatime`, `relatime` or `strictatime`, `nodiratime` or `diratime`.
    /// `remount` changes the options of a mounted dataset. Words of fstab, such as `noauto`, have no effect
    #[arg(
        short = 'o',
        value_name = "OPTION,...",
        value_delimiter = ',',
        value_parser = mount_option
    )]
    pub(crate) options: Vec<MountOption>,
    /// A dataset, or a snapshot
    #[arg(value_name = "DATASET")]
    pub(crate) name: Option<String>,
    /// Mount here instead of the mountpoint
    #[arg(value_name = "DIRECTORY")]
    pub(crate) dir: Option<PathBuf>,
}

/// Unmount datasets
///
/// All writes are durable when this command returns. Keys stay loaded; see `strongroom key unload`. A name
/// that begins with a slash or a dot is a directory.
///
/// A directory that the daemon made for the mountpoint stays, and takes no writes. Root's is immutable, that of another
/// user has mode 0111. To remove it without the daemon: `chattr -i DIRECTORY`, then `rmdir`.
#[derive(Args, Debug)]
#[command(
    visible_alias = "umount",
    group = ArgGroup::new("which").args(["all", "target"]).required(true),
    override_usage = "strongroom unmount [-f] <-a|DATASET|DIRECTORY>",
    after_help = "\
EXAMPLES
  By name; by directory:
    strongroom unmount tank/home
    strongroom unmount /tank/home

  All datasets, even if files are open:
    strongroom unmount -a -f

EXIT CODES
  3 if there is no such dataset, or it is not mounted; 5 if files in it are open."
)]
pub(crate) struct Unmount {
    /// Unmount all datasets
    #[arg(short, conflicts_with = "target")]
    pub(crate) all: bool,
    /// Unmount even if it is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// A dataset, or the directory where it is mounted
    #[arg(value_name = "DATASET|DIRECTORY")]
    pub(crate) target: Option<String>,
}
