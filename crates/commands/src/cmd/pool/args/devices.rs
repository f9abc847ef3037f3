//! `strongroom pool add`, `attach` and so on: which devices a pool is made of.

use std::path::PathBuf;

use clap::Args;
use console::values;

/// Add device groups, log devices, cache devices or spares to a pool
///
/// A group is one device. `mirror` before several devices makes a group that holds the same data on each.
/// `raidz1`, `raidz2` or `raidz3` before 3 to 32 devices (raidz3: 4 to 32) makes a group that survives the loss of
/// one, two or three. A new group is empty and gets its share of later writes. `pool remove` takes a group out again.
///
/// `log` begins groups for logs only: synced writes go there at once, and a few seconds later to the other devices. So
/// a small fast device makes fsync fast. If it fails while the pool is in use, nothing is lost. If it is missing after
/// a power cut, the last synced writes are lost (see `pool import -m`); a mirror of two prevents this.
///
/// `cache` begins devices that hold copies of data that was read from the others. So a small fast device
/// speeds up reads from large slow devices. It holds ciphertext, as the other devices do. It is empty after
/// an import, and may fail or go at any time without loss. The property `secondarycache` chooses what a
/// dataset puts there. The index of a cache device takes 0.4 MiB of memory for each GiB with records of 128
/// KiB, 13 MiB with records of 4 KiB, and at most 300 MiB.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One more mirror, and a spare that replaces a failed device by itself:
    strongroom pool add tank mirror /dev/sde /dev/sdf
    strongroom pool add tank spare /dev/sdg

  A mirror of two fast devices for logs:
    strongroom pool add tank log mirror /dev/nvme0n1 /dev/nvme1n1

  A fast device as cache, or a file on one:
    strongroom pool add tank cache /dev/nvme2n1
    truncate -s 20G /fast/tank.cache && strongroom pool add tank cache /fast/tank.cache

  Only say whether they could be added, and how the pool would look:
    strongroom pool add -n tank mirror /dev/sde /dev/sdf

EXIT CODES
  2 if a device is too small, or the new group has another redundancy and -f is not given; 3 if
  there is no such pool or device; 4 if a device holds data; 5 if a device is in use.")]
pub(crate) struct PoolAdd {
    /// Use devices even if they hold data, which is lost; accept groups of different redundancy
    #[arg(short)]
    pub(crate) force: bool,
    /// Add nothing; show the layout after it, or why the devices could not be added
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Files, disks, or devices as nbd://host/disk, volume:tank/disk or luks:NAME; `mirror`, `raidz1`, `raidz2` or `raidz3` begins a group, `log` begins groups for logs, `cache`
    /// begins cache devices, `spare` begins spares
    #[arg(value_name = "mirror|raidz|log|cache|spare|DEVICE", required = true)]
    pub(crate) words: Vec<PathBuf>,
}

/// Attach a device to another one, as its mirror
///
/// A single device becomes a mirror. A mirror gets one more device. Devices of a raidz group can only be
/// replaced. The new device is resilvered in the background; `pool status` shows the progress. It must be
/// as large as its group needs.
///
/// An address of an object store as NEW makes an image of the whole pool there. The image follows the pool: it has the
/// whole state of one commit, about 30 s old, or as old as `-o follow=TIME` allows. No program waits for the store. If the
/// disks are lost, import the image: `pool import s3://BUCKET/PREFIX`. The pool may have one disk or one mirror.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Turn one disk into a mirror of two:
    strongroom pool attach tank /dev/sdb /dev/sdc

  Keep an image of the pool in a bucket, at most about a minute old:
    strongroom pool attach -o follow=60s tank /dev/sdb s3://bucket/tank

EXIT CODES
  2 if the new device is too small, or if the pool cannot be followed; 3 if there is no such pool
  or device; 4 if the new device holds data and -f is not given, or if the address has objects;
  5 if it is in use.")]
pub(crate) struct PoolAttach {
    /// Use the new device even if it holds data, which is lost
    #[arg(short)]
    pub(crate) force: bool,
    /// Wait until the new device holds all data
    #[arg(short)]
    pub(crate) wait: bool,
    /// The age that an image in an object store may have, such as 30s, 5m or 1h
    #[arg(short = 'o', value_name = "follow=TIME", value_parser = follow_time)]
    pub(crate) follow: Option<u32>,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// The new device of the mirror, or the address of an object store
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
}

/// Detach a device from its mirror
///
/// Another device of the mirror must hold all data. The labels and wrapped keys on the detached device are
/// overwritten if the device can be reached. A spare that had replaced a device becomes a spare again.
///
/// With -f, a device leaves although the one in its place is INCOMPLETE, because no good copy was found of some
/// records. They are lost then for good if they are damaged, or cannot be read, on the old device too.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Take one of two devices away:
    strongroom pool detach tank /dev/sdc

  Finish a replacement that cannot copy everything:
    strongroom pool detach -f tank /dev/sdc

EXIT CODES
  2 if no other device holds all data, or with -f no device in its place is INCOMPLETE; 3 if there
  is no such pool or device.")]
pub(crate) struct PoolDetach {
    /// Give up what the device in its place lacks
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Replace a device by another one
///
/// The new device is resilvered, and then the old device leaves the pool. The old device may be missing.
/// Without NEW, the device that is now at the same path replaces the old one.
///
/// If no good copy is found of a record, the old device stays, and the new device is INCOMPLETE. The old device may be
/// the only one that has this record. Another resilver begins when a device is back, when the pool is imported, and
/// with 'pool clear'. Data that is damaged in every copy must be deleted first; 'pool status -v' names it. If that is
/// not possible, 'pool detach -f' of the old device gives up what the new one lacks. To give the new device up, detach
/// it. To use another one in its place, replace it.
///
/// NEW can be a spare of the pool. In the place of a device that is offline, faulted or missing it stands in: it is
/// a spare again when that device is back, or when you detach the spare. If you detach the old device instead, the
/// spare stays for good. A device that works leaves the pool when the spare holds all data.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Replace a failed disk by a disk in another slot; by a disk in the same slot:
    strongroom pool replace tank /dev/sdc /dev/sdd
    strongroom pool replace tank /dev/sdc

  Have the spare /dev/sdg stand in for an offline disk; make it a spare again:
    strongroom pool replace -w tank /dev/sdc /dev/sdg
    strongroom pool detach tank /dev/sdg

EXIT CODES
  2 if the new device is too small, or the old one is being replaced already; 3 if there is no
  such pool or device; 4 if the new device holds data and -f is not given; 5 if it is in use; 9 if
  the new device lacks something at the end (-w).")]
pub(crate) struct PoolReplace {
    /// Use the new device even if it holds data, which is lost
    #[arg(short)]
    pub(crate) force: bool,
    /// Wait until the old device has left the pool, or a spare holds all data
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// The old device, by its path or guid
    #[arg(value_name = "OLD")]
    pub(crate) device: PathBuf,
    /// The new device
    #[arg(value_name = "NEW")]
    pub(crate) new: Option<PathBuf>,
}

/// Take a device of a mirror or raidz group offline
///
/// The device is closed, and neither read nor written until `pool online` brings it back. The other devices
/// of its group must hold all data. A log device needs no other: logs go to other devices meanwhile. A
/// cache device is offline until the next import of the pool at the latest.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  While you change cables, and until the next import at the latest:
    strongroom pool offline -t tank /dev/sdc

EXIT CODES
  2 if no other device holds all data; 3 if there is no such pool or device.")]
pub(crate) struct PoolOffline {
    /// Only until the next import of the pool
    #[arg(short)]
    pub(crate) temporary: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Bring a device online again; -e also uses new space on it
///
/// Only the writes that the device missed are copied to it, in the background.
///
/// With -e the pool uses all of a device that became larger: a file, a disk or a volume. The pool stays in
/// use. A mirror or a raidz group grows when each of its devices is larger. `pool list` shows the possible
/// gain under EXPANDSZ. The property `autoexpand=on` of the root dataset does the same automatically,
/// within seconds. A pool does not shrink.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After `pool offline`, or when a missing disk is back:
    strongroom pool online tank /dev/sdc

  A file became larger:
    truncate -s 200G /srv/tank.pool
    strongroom pool online -e tank /srv/tank.pool

  Always use new space automatically:
    strongroom set autoexpand=on tank

EXIT CODES
  2 if -e is given and the device cannot grow, or became smaller; 3 if there is no such pool, or
  the device is missing; 5 if it is in use; 12 if it was used in another pool, or apart from this
  one.")]
pub(crate) struct PoolOnline {
    /// Use all of a device that became larger
    #[arg(short)]
    pub(crate) expand: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid; one that has another path now, by that path
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// Remove a spare, a log or cache device, or a group with data
///
/// The data of a group is copied to the other groups while the pool is in use. Then its devices belong to
/// no pool. No key is needed. `pool status` shows the progress; -w waits for the end. The removal continues
/// after an export, a crash or a power cut. -s stops it: the group is then used as before. A mirror or
/// raidz group goes as a whole, by the name that `pool status` shows; `pool detach` takes a single device
/// out of a mirror.
///
/// The command refuses if the data does not fit on the rest of the pool, if a device of the group has a
/// fault, and for the last group. If a block cannot be read, or the rest of the pool becomes full, the
/// removal waits. `pool status` then says why, and nothing is lost. A small table of the moved data stays
/// in the pool until that data is overwritten or destroyed.
///
/// Logs move to other devices first, also logs that wait for a key. A cache device goes at once.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Remove a device that holds data; remove a mirror:
    strongroom pool remove tank /dev/sdc
    strongroom pool remove tank mirror-1

  The same, and wait until the device can be unplugged:
    strongroom pool remove -w tank /dev/sdc

  Stop the removal:
    strongroom pool remove -s tank

  Remove a spare; remove a log or cache device:
    strongroom pool remove tank /dev/sdg
    strongroom pool remove tank /dev/nvme0n1

EXIT CODES
  1 if the removal cannot go on (-w); 2 if it is refused; 3 if there is no such pool or device; 11
  if the other devices have no space for a log that waits.")]
pub(crate) struct PoolRemove {
    /// Stop the running removal, and use the group as before
    #[arg(short, conflicts_with_all = ["device", "wait"])]
    pub(crate) stop: bool,
    /// Wait for the end
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid, or the name of a mirror or raidz group
    #[arg(value_name = "DEVICE", required_unless_present = "stop")]
    pub(crate) device: Option<PathBuf>,
}

/// Clear the error counts of devices, and use failed devices again
///
/// A faulted device is resilvered. If it fails again, it is faulted again. A device that is INCOMPLETE is resilvered
/// again.
///
/// If the devices of a suspended pool work again, the pool continues: the refused writes are repeated now. Mounts
/// and exports stay. If a device still fails, the command names it and changes nothing. If a device has lost data
/// that it had accepted, only 'pool export' and 'pool import' help. Then all writes since the last commit are lost.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All devices, after you changed a cable; one device:
    strongroom pool clear tank
    strongroom pool clear tank /dev/sdc
  A suspended pool, after you made free space in the file system of its file:
    strongroom pool clear tank

EXIT CODES
  3 if there is no such pool or device; 12 if a device still fails, or lost accepted data.")]
pub(crate) struct PoolClear {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A device of the pool, by its path or guid; all devices if none is named
    #[arg(value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
}

/// Look again for devices that are missing
///
/// A device that is where it was last joins the pool again, and gets the writes that it missed. What is still
/// missing is told, and is no failure. Devices that you took offline stay offline; see pool online.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  After you connected a shelf of disks again:
    strongroom pool reopen tank

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolReopen {
    /// Pools; all pools if none is named
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Make one device of each mirror a pool of its own
///
/// The new pool has all datasets, snapshots and keys of the pool, as of one moment, while both go on. Of each mirror the
/// last device is taken, or the one that you name. Log devices, cache devices and spares stay. Each group with data must
/// be a mirror, of which one more device holds all data.
///
/// The new pool is exported. With -R it is imported, and its mountpoints are below ROOT. Without it, both pools would
/// mount their datasets at the same places.
///
/// Both pools have the same keys. Each key slot opens both, and a key change in one does not change the other. After
/// `strongroom key rotate` in one of them, new data there has keys that the other does not have.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Only say which devices would leave:
    strongroom pool split -n tank archive

  Split, and take the disks to another machine:
    strongroom pool split tank archive

  Choose the device of the first mirror, and mount the new pool below /mnt:
    strongroom pool split -R /mnt -l tank archive /dev/sdb

EXIT CODES
  2 if a group is no mirror, a device does not hold all data, or a resilver, a scrub or a removal
  runs; 3 if there is no such pool or device; 4 if a pool of the new name is imported.")]
pub(crate) struct PoolSplitArgs {
    /// Split nothing; show the new pool, or why it cannot be
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Import the new pool, and put this directory before all its mountpoints
    #[arg(short = 'R', value_name = "ROOT")]
    pub(crate) altroot: Option<PathBuf>,
    /// Load the keys of the new pool that need no typing
    #[arg(short, requires = "altroot")]
    pub(crate) load_keys: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// The name of the new pool
    #[arg(value_name = "NEWPOOL")]
    pub(crate) new: String,
    /// Devices to take, by their paths or guids
    #[arg(value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,
}

/// Give a pool another guid
///
/// So a copy of the devices of a pool can be imported beside that pool: import the copy where the other devices are not
/// looked for (pool import -d), give it another guid, and then it is a pool of its own.
///
/// All devices must be online. The pool is exported and imported for this: nothing in it may be in use, and keys are
/// unloaded. After a power cut the pool has the old guid, or it gets the new one at the next import. Anchors
/// (strongroom anchor) name the guid: make new ones afterwards.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A copy of the device, to be used beside it:
    cp /srv/tank.pool /srv/copy/tank.pool
    strongroom pool import -N -d /srv/copy tank copied
    strongroom pool reguid copied

EXIT CODES
  2 if a device is not online, or synced writes wait for a key; 3 if there is no such pool; 5 if a
  dataset in it is in use; 12 if a device fails.")]
pub(crate) struct PoolReguidArgs {
    /// Load the keys again that need no typing
    #[arg(short)]
    pub(crate) load_keys: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Make a device that belonged to a pool one that belongs to none
///
/// Overwrites the labels at both ends of the device, with the superblocks and wrapped keys beside them. Data stays on
/// the device, encrypted data without its keys. A device of an imported pool is refused: use pool detach or pool
/// remove. -f accepts a device of a pool that was exported, that another host may be using, or that is unknown.
/// Of a place in an object store, as s3://bucket/tank, all objects of the pool are removed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A disk that left a pool while it could not be reached:
    strongroom pool labelclear /dev/sdc

  A disk of a pool that is not needed any more; the objects of one on an object store:
    strongroom pool labelclear -f /dev/sdc
    strongroom pool labelclear -f s3://bucket/tank

EXIT CODES
  3 if there is no such device, or no label on it; 5 if a pool has it or may need it; 9 if no copy
  of the label is whole, so that it is not known where the keys are: overwrite the device.")]
pub(crate) struct PoolLabelClearArgs {
    /// Accept a device of a pool that is not imported
    #[arg(short)]
    pub(crate) force: bool,
    /// The device
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

/// The seconds in `follow=5m`.
fn follow_time(text: &str) -> Result<u32, String> {
    let seconds = text.strip_prefix("follow=").and_then(values::seconds);
    let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    seconds
        .ok_or_else(|| "use follow= and a number with s, m, h or d, such as follow=30s".to_owned())
}
