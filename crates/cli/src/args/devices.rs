//! `strongroom pool add`, `attach` and so on: which devices a pool is made of.

use std::path::PathBuf;

use clap::Args;

/// Add groups of devices to a pool, log or cache devices, or spares
///
/// A group is one device, or with `mirror` several that hold the same, or with `raidz1` or `raidz2` 3 to
/// 32 of which one or two may be lost. It is empty, and gets its share of what is written from now on.
/// `pool remove` takes a group out again.
///
/// The groups behind the word `log` take logs only: what programs sync goes there first, and a few
/// seconds later with all else to the other devices. So a small fast device makes fsync fast. If it fails
/// while the pool is in use nothing is lost, and the other devices have the logs again. If it is gone
/// after a power cut, what was synced last is gone with it (see `pool import -m`): a mirror of two
/// prevents that.
///
/// The devices behind the word `cache` hold copies of what was read from the others, for the next time: so
/// a small fast device makes reading from large slow ones fast. What lies there is ciphertext, as on the
/// other devices. It is filled while the pool is used, is empty after an import, and may fail or go at any
/// time without loss. The property `secondarycache` says what of a dataset goes there. What is where takes
/// 0.4 MiB of memory for each GiB with records of 128 KiB, 13 MiB with ones of 4 KiB, and never more
/// than 300 MiB for each device.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One more mirror, and a spare that steps in by itself when a device fails:
    strongroom pool add tank mirror /dev/sde /dev/sdf
    strongroom pool add tank spare /dev/sdg

  Two fast devices for logs, which hold the same:
    strongroom pool add tank log mirror /dev/nvme0n1 /dev/nvme1n1

  A fast device for copies, or a file on one:
    strongroom pool add tank cache /dev/nvme2n1
    truncate -s 20G /fast/tank.cache && strongroom pool add tank cache /fast/tank.cache

EXIT CODES
  2 if a device is too small, or the group has another redundancy than those of the pool and -f is
  not given; 3 if there is no such pool or device; 4 if a device holds something; 5 if it is
  in use.")]
pub(crate) struct PoolAdd {
    /// Use devices even if they hold something, which is lost; accept groups of different redundancy
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Files or disks; `mirror`, `raidz1` or `raidz2` before those of one group, `log` before groups for
    /// logs, `cache` before cache devices, `spare` before spares
    #[arg(value_name = "mirror|raidz|log|cache|spare|DEVICE", required = true)]
    pub(crate) words: Vec<PathBuf>,
}

/// Make a device hold the same as another one
///
/// A single device becomes a mirror, a mirror gets one member more. Devices of a raidz group are
/// replaced only. The new device is resilvered in
/// the background: `pool status` shows how far that is. It must be as large as its group needs.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Make a mirror of a pool on one disk:
    strongroom pool attach tank /dev/sdb /dev/sdc

EXIT CODES
  2 if the new device is too small; 3 if there is no such pool or device; 4 if the new device holds
  something and -f is not given; 5 if it is in use.")]
pub(crate) struct PoolAttach {
    /// Use the new device even if it holds something, which is lost
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// The device that joins it
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
}

/// Take a device out of its mirror
///
/// Another member must hold everything. What the pool keeps about itself on the device, wrapped keys
/// included, is overwritten if it can be reached. A spare that had stepped in waits again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Take one of two away:
    strongroom pool detach tank /dev/sdc

EXIT CODES
  2 if no other device holds everything; 3 if there is no such pool or device.")]
pub(crate) struct PoolDetach {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Put a device in the place of another
///
/// The new device is resilvered, and then the old one is taken out. The old one may be there or not.
/// Without NEW, the device that is now where the failed one was takes its place.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A disk that failed, by one in another slot; by one in the same:
    strongroom pool replace tank /dev/sdc /dev/sdd
    strongroom pool replace tank /dev/sdc

EXIT CODES
  2 if the new device is too small, or the old one is being replaced already; 3 if there is no such
  pool or device; 4 if the new device holds something and -f is not given; 5 if it is in use.")]
pub(crate) struct PoolReplace {
    /// Use the new device even if it holds something, which is lost
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// The old device, by its path or guid
    #[arg(value_name = "OLD")]
    pub(crate) device: PathBuf,
    /// The new one
    #[arg(value_name = "NEW")]
    pub(crate) new: Option<PathBuf>,
}

/// Leave a device of a mirror or raidz group alone
///
/// It is closed, and neither read nor written until `pool online` brings it back. The others of its
/// group must hold everything, unless it is there for logs: they go to other devices meanwhile. A cache
/// device is offline until the pool is imported next at the latest.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  To look after its cables, until the pool is imported next at the latest:
    strongroom pool offline -t tank /dev/sdc

EXIT CODES
  2 if no other device holds everything; 3 if there is no such pool or device.")]
pub(crate) struct PoolOffline {
    /// Only until the pool is imported next
    #[arg(short)]
    pub(crate) temporary: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Bring a device back that was away or had failed
///
/// What was written meanwhile is copied to it in the background, and no more than that.
///
/// With -e the pool uses all of a device that became larger: a file, a disk, or a volume. The pool stays in
/// use meanwhile. A mirror or a raidz group grows when each of its devices is larger. `pool list` shows under
/// EXPANDSZ what there is to gain. The property `autoexpand=on` of the pool's root does the same by itself,
/// within seconds. A pool does not shrink.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After `pool offline`, or when a missing disk is there again:
    strongroom pool online tank /dev/sdc

  A file became larger:
    truncate -s 200G /srv/tank.pool
    strongroom pool online -e tank /srv/tank.pool

  Each time that a device becomes larger:
    strongroom set autoexpand=on tank

EXIT CODES
  2 if -e is given and the device cannot grow, or became smaller; 3 if there is no such pool, or the
  device is not there; 5 if it is in use; 12 if it was used in another pool meanwhile, or without
  this one.")]
pub(crate) struct PoolOnline {
    /// Use all of a device that became larger
    #[arg(short)]
    pub(crate) expand: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Take a spare, a log or cache device or a group with data out of a pool
///
/// What a single device, a mirror or a raidz group holds is copied to the other groups, while the pool is
/// in use; then its devices belong to no pool. No key is needed. `pool status` shows how far that is; -w
/// waits for it. It goes on after an export, a crash or a power cut, and may be stopped with -s until the
/// end: the group is used as before then. Devices that hold the same go together, by the name that
/// `pool status` gives them; to take a single member out of a mirror, use `pool detach`.
///
/// It is refused if the data does not fit into the rest of the pool, if a device of the group is not well,
/// and for the last group. Nothing new is placed there meanwhile. If something there cannot be read, or the
/// rest of the pool fills up, it waits, `pool status` says why, and nothing is lost. A small table of where
/// the data went stays in the pool until that data is overwritten or destroyed.
///
/// Logs move to other devices first, also those that wait for a key. A cache device goes at once.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A device that holds data; a mirror:
    strongroom pool remove tank /dev/sdc
    strongroom pool remove tank mirror-1

  The same, and not to return before it can be unplugged:
    strongroom pool remove -w tank /dev/sdc

  On second thoughts:
    strongroom pool remove -s tank

  A spare that is wanted elsewhere; a log or cache device:
    strongroom pool remove tank /dev/sdg
    strongroom pool remove tank /dev/nvme0n1

EXIT CODES
  1 if it waits for something (-w); 2 if it is refused, for the reason that it says; 3 if there is
  no such pool or device; 11 if the other devices have no room for a log that waits.")]
pub(crate) struct PoolRemove {
    /// Stop the removal under way, and use the group as before
    #[arg(short, conflicts_with_all = ["device", "wait"])]
    pub(crate) stop: bool,
    /// Return when it is done
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid, or the name of a mirror or raidz group
    #[arg(value_name = "DEVICE", required_unless_present = "stop")]
    pub(crate) device: Option<PathBuf>,
}

/// Forget how often devices failed, and use those again that did
///
/// A device that was faulted is resilvered. If it fails again it is faulted again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All devices, after a cable was changed; one:
    strongroom pool clear tank
    strongroom pool clear tank /dev/sdc

EXIT CODES
  3 if there is no such pool or device; 12 if a device still fails.")]
pub(crate) struct PoolClear {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid; all if none is named
    #[arg(value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
}
