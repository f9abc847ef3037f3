//! `pool scrub`, `pool checkpoint`, `pool trim`, `pool initialize`, `pool wait` and `pool events`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::stamp::Stamp;

/// Read all data in pools, verify it and repair bad copies
///
/// Runs in the background and needs no key. After a restart it continues where it was, and a paused one stays
/// paused. `pool status` shows the progress. The property `scrub-schedule` starts scrubs by itself: `strongroom
/// pool set scrub-schedule=monthly tank`.
///
/// A provider of an object store takes money for reads. So the scrub of a pool on one first says how many GB and requests
/// it takes at least, and what they cost if the file with prices is there.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Start a scrub, and see its progress:
    strongroom pool scrub tank
    strongroom pool status tank

  Start a scrub and wait for its end; fails if data could not be repaired:
    strongroom pool scrub -w tank

  Pause it, and continue where it was:
    strongroom pool scrub -p tank
    strongroom pool scrub tank

  Stop it; the next scrub begins from the start:
    strongroom pool scrub -s tank

  See how much there is to read, before it costs money:
    strongroom pool scrub -n tank

JSON
  With -n: {\"pool\", \"bytes\", \"store\", \"requests\", \"cost\", \"currency\"}; several in a list.

EXIT CODES
  3 if there is no such pool, or no scrub to pause or stop; 5 if a scrub is running already (-w
  then waits for that one); with -w also 9 if data could not be repaired, and 1 if the scrub was
  paused or stopped.")]
pub(crate) struct PoolScrubArgs {
    /// Only say how much it would read at least. Nothing is started
    #[arg(short = 'n', conflicts_with_all = ["wait", "stop", "pause"])]
    pub(crate) dry_run: bool,
    /// Stop the scrub, also a paused one
    #[arg(short, conflicts_with_all = ["wait", "pause"])]
    pub(crate) stop: bool,
    /// Pause the running scrub
    #[arg(short, conflicts_with = "wait")]
    pub(crate) pause: bool,
    /// Wait for the end, and show the progress on a terminal. Ctrl-C ends the waiting, not the scrub
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pools
    #[arg(value_name = "POOL", required = true)]
    pub(crate) pools: Vec<String>,
}

/// Keep the state of a whole pool, to go back to it
///
/// The checkpoint has everything in the pool as it is now: files, datasets, snapshots, properties and keys. The pool can
/// have one. It takes no space at first. Space that is freed later is not free again until the checkpoint is
/// discarded; `pool status` shows how much that is. To go back, export the pool and use `pool import
/// --rewind-to-checkpoint`: everything that changed after the checkpoint is lost. Snapshots keep one dataset, and are
/// the better choice for files.
///
/// While there is a checkpoint, some commands are refused: devices do not join, leave, grow or replace others, spares do
/// not step in, and the keys of its datasets are not changed, rotated or shredded. Scrubs verify the checkpoint too.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before a risky change of many datasets; when all went well, give the space back:
    strongroom pool checkpoint tank
    strongroom pool checkpoint -d tank

  When it did not go well:
    strongroom pool export tank
    strongroom pool import --rewind-to-checkpoint tank

EXIT CODES
  1 if a device lacks data or is being removed, or a dataset with synced data waits for its key;
  3 if there is no such pool, or no checkpoint to discard; 4 if there is a checkpoint already; 11
  if there is no free space.")]
pub(crate) struct PoolCheckpointArgs {
    /// Discard the checkpoint. Its space is free when the command returns
    #[arg(short)]
    pub(crate) discard: bool,
    /// Wait until it is discarded, which -d does anyway
    #[arg(short, requires = "discard")]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Tell the devices of a pool which space is free
///
/// A solid-state disk can then erase it, and a file gives it back to its file system. Runs of free space from 64 KiB
/// on are told, in the background and in pieces of at most 4 MiB, except what the last commit freed: an import may
/// still need it. A pool without free space for a write is not trimmed. `pool status` shows the progress. The export
/// of the pool and the end of the daemon end a trim.
///
/// With the property `autotrim=on`, the default, devices are told of freed space by itself, soon after it is freed.
/// A trim also finds shorter runs that became long ones, and space that was freed while `autotrim` was off.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All devices, and wait for the end:
    strongroom pool trim -w tank

  One device:
    strongroom pool trim tank /dev/sdb

  Pause it, and continue where it was; end it:
    strongroom pool trim -s tank
    strongroom pool trim tank
    strongroom pool trim -c tank

EXIT CODES
  2 if the device is not in use; 3 if there is no such pool or device, or no trim to pause or end;
  5 if a trim is running already (-w then waits for that one); with -w also 1 if a device failed,
  or the trim was paused or ended.")]
pub(crate) struct PoolTrim {
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
}

/// Write a pattern to all free space of a pool
///
/// So a device that gets its space only when it is written to gets all of it now, and what was in free space before is
/// gone: old ciphertext too. Space in use is not touched. Space that the last commit freed is left out, because an
/// import may still need it. The work goes on in the background, while the pool is in use. `pool status` shows the
/// progress. The export of the pool and the end of the daemon end it.
///
/// With the property `autotrim=on`, the default, space that is freed later is given back to the devices.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All devices, and wait for the end:
    strongroom pool initialize -w tank

  One device:
    strongroom pool initialize tank /dev/sdb

  Pause it, and continue where it was; end it:
    strongroom pool initialize -s tank
    strongroom pool initialize tank
    strongroom pool initialize -c tank

EXIT CODES
  2 if the device is not in use; 3 if there is no such pool or device, or nothing to pause or end;
  5 if it runs already (-w then waits for that one); with -w also 1 if a device failed, or it was
  paused or ended.")]
pub(crate) struct PoolInitialize {
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
}

/// The arguments of work on free space.
#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// End the work, also if it is paused
    #[arg(short, conflicts_with_all = ["wait", "suspend", "device"])]
    pub(crate) cancel: bool,
    /// Pause the work
    #[arg(short, conflicts_with_all = ["wait", "device"])]
    pub(crate) suspend: bool,
    /// Wait for the end. Ctrl-C ends the waiting, not the work
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Device of the pool that alone is scanned, by its path or guid
    #[arg(value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
}

/// Wait until work in the background of a pool has ended
///
/// Returns when none of the activities is under way: at once if there is none. A paused scrub is not under way.
/// With an interval, prints for each activity the bytes that are left.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Wait for everything:
    strongroom pool wait tank

  Wait until a new device of a mirror has all data; print every ten seconds what is left:
    strongroom pool attach tank /dev/sdb /dev/sdc
    strongroom pool wait -t resilver tank 10

EXIT CODES
  3 if there is no such pool, or it is exported meanwhile. A scrub that finds damage is no failure
  of this command; see pool scrub -w.")]
pub(crate) struct PoolWait {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Print exact numbers
    #[arg(short)]
    pub(crate) parsable: bool,
    #[command(flatten)]
    pub(crate) stamp: Stamp,
    /// Activities to wait for; default: everything
    #[arg(short = 't', value_name = "ACTIVITY,...", value_delimiter = ',')]
    pub(crate) activities: Vec<Activity>,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Print what is left every so many seconds
    #[arg(value_name = "INTERVAL")]
    pub(crate) interval: Option<String>,
}

/// Work in the background of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Activity {
    /// A checkpoint is discarded; never under way, because `pool checkpoint -d` returns at the end.
    Discard,
    /// Destroyed datasets give their space back; yes if that is under way.
    Free,
    /// A group of devices is removed.
    Remove,
    /// A device is replaced.
    Replace,
    /// Devices get what they missed.
    Resilver,
    /// A scrub: everything is read and verified.
    Scrub,
    /// Devices are told which space is free.
    Trim,
    /// A pattern is written to free space.
    Initialize,
}

/// Show what happened to pools, and follow it
///
/// The daemon keeps the last 1,000 events in memory, until it ends. -v says more of each. -f waits for new events,
/// until Ctrl-C. The daemon sees a change within 5 seconds, and at once while this command follows.
///
/// Classes: `pool_create`, `pool_import`, `pool_export`, `pool_destroy`; `pool_suspend` and `pool_resume`;
/// `mapping_open` and `mapping_wait`, of mappings that the daemon opens at its start;
/// `pool_space` when 80, 90 or 96 % of the space is in use, and when it is free again;
/// `statechange`, `device_add` and `device_remove` of devices; `device_stall` and `device_answer`, of object
/// stores at once, of other devices when a command shows the pool or its events; `image_late` when the image in an object store is ten times older than it may be, and
/// `image_follows`; `dataset_rollback`, see `anchor accept`; `dataset_changed` without its key; `checksum` for bad copies, `io` for failed requests; `scrub_start`, `scrub_paused`, `scrub_resume`, `scrub_abort`, `scrub_finish`; `resilver_start`,
/// `resilver_finish`; `removal_start`, `removal_abort`, `removal_finish`; `key_load`, `key_unload`; `wrong_key` for the first wrong key of a user
/// and for the tenth within an hour, see `key tries`; `mount_cut` for a
/// mount in use that was ended; `unit_wait` for a volume that `ha start` does not serve, with the reason, and `unit_serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What happened since the daemon started:
    strongroom pool events -v

  Follow one pool, for a script:
    strongroom pool events -f -H tank

  Forget all events:
    strongroom pool events -c

JSON
  [{\"id\", \"time\", \"class\", \"pool\", \"text\"}, ...]; with -f one object on each line.

EXIT CODES
  0 also if there is no event.")]
pub(crate) struct PoolEventsArgs {
    /// Follow: wait for new events
    #[arg(short, conflicts_with = "clear")]
    pub(crate) follow: bool,
    /// Say what happened
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Forget all events
    #[arg(short, conflicts_with = "pool")]
    pub(crate) clear: bool,
    /// Only of this pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: Option<String>,
}
