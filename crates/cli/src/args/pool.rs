//! `strongroom pool ...`: what `zpool` does.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::devices::{
    PoolAdd, PoolAttach, PoolClear, PoolDetach, PoolOffline, PoolOnline, PoolRemove, PoolReplace,
};
use super::values;

/// Make, import, export and look after pools
///
/// A pool keeps records on files and disks. It stores, checks, repairs and frees them without any
/// key: scrubbing and destroying need none, and whoever has the devices sees the names of datasets
/// and how much they hold, but none of what is in an encrypted one.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A pool on a disk; everything in it is encrypted:
    strongroom pool create -O encryption=on tank /dev/sdb

  Take it to another machine:
    strongroom pool export tank
    strongroom pool import -d /dev tank")]
pub(crate) enum Pool {
    Create(PoolCreate),
    Import(PoolImport),
    Export(PoolExport),
    List(PoolList),
    Status(PoolStatus),
    Iostat(PoolIostat),
    Sync(PoolSync),
    Scrub(PoolScrub),
    Add(PoolAdd),
    Attach(PoolAttach),
    Detach(PoolDetach),
    Replace(PoolReplace),
    Offline(PoolOffline),
    Online(PoolOnline),
    Remove(PoolRemove),
    Clear(PoolClear),
    History(PoolHistory),
    Upgrade(PoolUpgrade),
    Destroy(PoolDestroy),
}

/// Make everything durable that was written so far
///
/// What programs write is durable when they sync it, and otherwise within five seconds. The commands sync
/// and `sync -f` do not reach file systems in user space; this one does, and returns when it is done.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before the power is cut:
    strongroom pool sync

EXIT CODES
  3 if there is no such pool; 12 if a device fails.")]
pub(crate) struct PoolSync {
    /// Pools; all if none is named
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Make a pool with a root dataset
///
/// The devices are files or disks; a name without a slash that is no file here is looked for in
/// /dev. Each is a group of its own, over which data is spread, unless `mirror` stands before those
/// that are to hold the same, or `raidz1` or `raidz2` before 3 to 32 of which one or two may be lost;
/// `spare` stands before those that wait until one fails. Devices that hold something are refused
/// unless -f is given, and groups of different redundancy too. The root dataset has the pool's name
/// and is mounted on /POOL unless -m or -O mountpoint=... say otherwise. Whether it is encrypted is
/// decided now and cannot be changed later; datasets below it decide for themselves.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A pool in a new file of 4 GiB:
    strongroom pool create -s 4G tank /var/lib/tank.pool

  Two disks, everything encrypted by a passphrase, which is asked for twice:
    strongroom pool create -O encryption=on tank /dev/sdb /dev/sdc

  Two mirrors and a spare:
    strongroom pool create tank mirror sdb sdc mirror sdd sde spare sdf

  Six disks of which any two may fail:
    strongroom pool create tank raidz2 sdb sdc sdd sde sdf sdg

  Encrypted by a key in a file, compressed, mounted elsewhere:
    strongroom keygen /etc/keys/tank
    strongroom pool create -O encryption=on -O keysource=raw,file:///etc/keys/tank \\
        -O compression=zstd-3 -m /srv/tank tank /dev/sdb

EXIT CODES
  2 for a property that is not known, a value that is not allowed or a device that is too small;
  4 if there is a pool of that name, or a device belongs to one; 5 if a device is in use.")]
pub(crate) struct PoolCreate {
    /// Use devices even if they hold something, which is lost; accept groups of different redundancy
    #[arg(short)]
    pub(crate) force: bool,
    /// Make the devices first, as files of this size
    #[arg(short, value_name = "SIZE", value_parser = values::size)]
    pub(crate) size: Option<u64>,
    /// Where to mount the root dataset; `none` and `legacy` keep it from being mounted
    #[arg(short, value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: Option<String>,
    /// Set a property of the root dataset
    #[arg(short = 'O', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// Do not mount the root dataset
    #[arg(short = 'N')]
    pub(crate) no_mount: bool,
    /// The name of the pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Files or disks; `mirror`, `raidz1` or `raidz2` before those of one group, `spare` before spares
    #[arg(value_name = "mirror|raidz|spare|DEVICE", required = true)]
    pub(crate) words: Vec<PathBuf>,
}

/// Import pools, or list those that can be imported
///
/// Without POOL and -a, lists what is found. A pool is found by its devices: those given by -d, or
/// the disks in /dev and the pools that this daemon had before. A pool that another host did not
/// export is refused unless -f is given: two hosts that write to one pool destroy it. Datasets whose
/// keys are in files are mounted with -l; those that need a person wait for `strongroom mount -l`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What can be imported:
    strongroom pool import
    strongroom pool import -d /var/lib/tank.pool

  Everything that is found, with keys that are in files:
    strongroom pool import -a -l

  One pool, under another name; one without changing anything on its devices:
    strongroom pool import -d /mnt/rescue tank rescued
    strongroom pool import -d /mnt/rescue -o readonly=on tank

JSON
  [{\"name\", \"guid\", \"state\", \"host\", \"active\", \"devices\": [...], \"missing\": [...]}, ...]
  for what can be imported; an array of names for what was.

EXIT CODES
  3 if there is no such pool; 4 if it is imported already; 5 if another host or daemon has it;
  9 if it is damaged; 10 if a newer version wrote it; 12 if devices are missing that it cannot do
  without, or that logs wait on (see -m), or devices went different ways since.")]
pub(crate) struct PoolImport {
    /// Look here: a device, or a directory of such; may be repeated
    #[arg(short, value_name = "PATH")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Import everything that is found
    #[arg(short, conflicts_with = "pool")]
    pub(crate) all: bool,
    /// Import even what another host did not export
    #[arg(short)]
    pub(crate) force: bool,
    /// Mount nothing
    #[arg(short = 'N')]
    pub(crate) no_mount: bool,
    /// Load the keys that nobody has to type
    #[arg(short)]
    pub(crate) load_keys: bool,
    /// Do without log devices that are missing: what was synced last and waits there is lost
    #[arg(short = 'm')]
    pub(crate) without_logs: bool,
    /// Accept where the pool says that its keys are, now and later
    #[arg(long = "accept")]
    pub(crate) accept: bool,
    /// `readonly=on`: change nothing on the devices
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = read_only_option)]
    pub(crate) read_only: Option<bool>,
    /// The pool to import
    #[arg(value_name = "POOL|GUID")]
    pub(crate) pool: Option<String>,
    /// Another name for it, from now on
    #[arg(value_name = "NEWNAME")]
    pub(crate) new_name: Option<String>,
}

fn read_only_option(text: &str) -> Result<bool, String> {
    match text {
        "readonly=on" => Ok(true),
        "readonly=off" => Ok(false),
        _ => Err("the only option is readonly=on or readonly=off".into()),
    }
}

/// Unmount a pool's datasets, unload its keys and let go of its devices
///
/// What was written is durable when this returns. The pool can then be imported here or on another
/// machine without -f.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Let go of one pool:
    strongroom pool export tank

  Of two, even if files in them are open:
    strongroom pool export -f tank backup

EXIT CODES
  3 if there is no such pool; 5 if something in it is in use.")]
pub(crate) struct PoolExport {
    /// Unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The pools
    #[arg(value_name = "POOL", required = true)]
    pub(crate) pools: Vec<String>,
}

/// List imported pools with their space and health
///
/// SIZE is what the devices have for records, in all copies; ALLOC is what is taken of it, and CAP the
/// part that is taken. FREE is what can still be written. The rest is a reserve for deletes. EXPANDSZ is
/// what there would be more if each device that became larger were used whole (`pool online -e`). DEDUP is how many times as much shared records would
/// take if each file had its own (`dedup=on`).
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools:
    strongroom pool list

  For a script: no header, tabs, exact numbers:
    strongroom pool list -H -p -o name,free tank

  Again every five seconds:
    strongroom pool list 5

JSON
  [{\"name\", \"guid\", \"health\", \"size\", \"allocated\", \"free\", ...}, ...], as for `pool status`.

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolList {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers
    #[arg(short)]
    pub(crate) parsable: bool,
    /// Columns
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,size,alloc,free,expandsz,cap,dedup,health"
    )]
    pub(crate) columns: Vec<PoolColumn>,
    /// Pools, all if none is named; then every how many seconds, and how often
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// A column of `pool list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolColumn {
    Name,
    Size,
    #[value(name = "alloc", alias = "allocated")]
    Allocated,
    Free,
    #[value(name = "cap", alias = "capacity")]
    Capacity,
    #[value(name = "expandsz", alias = "expandsize")]
    Expandable,
    #[value(alias = "dedupratio")]
    Dedup,
    Health,
    Guid,
    #[value(name = "readonly")]
    ReadOnly,
    Txg,
}

/// Show the health of pools, their devices, scrubs and damage
///
/// Says what is wrong, what it means and what to do about it. READ, WRITE and CKSUM count reads that
/// failed, writes and flushes that failed, and copies that were not what they should be. Damage is what neither another copy
/// nor a retry could mend; -v names the files and datasets that it is in, as far as they are known
/// without a key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools:
    strongroom pool status

  One, with the names of what is damaged:
    strongroom pool status -v tank

  How a scrub gets on, every ten seconds:
    strongroom pool status tank 10

JSON
  [{\"name\", \"guid\", \"health\", \"trouble\", \"action\", \"size\", \"allocated\", \"free\",
    \"expandable\", \"dedupratio\", \"freeing\", \"read_only\", \"txg\",
    \"devices\": [{\"path\", \"guid\", \"size\", \"unused\", \"state\", \"group\", \"replaces\",
    \"was_spare\", \"read\", \"write\", \"checksum\"}, ...],
    \"scrub\": {\"state\", \"started\", \"ended\", \"examined\", \"total\", \"repaired\", \"errors\"},
    \"resilver\": as scrub, and \"waits\": null or why it does not go on,
    \"removal\": {\"state\", \"name\", \"started\", \"ended\", \"total\", \"left\", \"waits\"} or null,
    \"damage\": [...], \"waiting\": [what waits for a key, ...]}, ...]

EXIT CODES
  3 if there is no such pool. A pool that is not well is no failure of this command.")]
pub(crate) struct PoolStatus {
    /// Name what is damaged
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Pools, all if none is named; then every how many seconds, and how often
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// Show what pools read and write
///
/// The first line is the average since the devices were opened; with an interval, each later one is
/// what happened since the one before. READS, WRITES, RBYTES and WBYTES are of one second. With -l,
/// RWAIT, WWAIT and FWAIT are how long a read, a write and a flush took, as an average. It counts what
/// the pool asks of its devices, metadata and all copies included.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools, every second, until it is interrupted:
    strongroom pool iostat 1

  The devices of one, with times, three times:
    strongroom pool iostat -v -l tank 5 3

JSON
  [{\"name\", \"allocated\", \"free\", \"devices\": [{\"path\", \"elapsed\",
    \"read\": {\"operations\", \"bytes\", \"errors\", \"nanos\"}, \"write\", \"flush\", \"discard\"},
    ...]}, ...], counted since the array before; \"elapsed\" and \"nanos\" are nanoseconds.

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolIostat {
    /// Each device too
    #[arg(short)]
    pub(crate) verbose: bool,
    /// How long operations took
    #[arg(short)]
    pub(crate) latencies: bool,
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Exact numbers; times in nanoseconds
    #[arg(short)]
    pub(crate) parsable: bool,
    /// Pools, all if none is named; then every how many seconds, and how often
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// Read and check everything in a pool, and mend what can be mended
///
/// Runs in the background, needs no key, and goes on after a restart where it was. `pool status`
/// shows how far it is.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Begin, and look:
    strongroom pool scrub tank
    strongroom pool status tank

  Begin and wait for the end; fails if something could not be mended:
    strongroom pool scrub -w tank

  Stop it:
    strongroom pool scrub -s tank

EXIT CODES
  3 if there is no such pool; 5 if a scrub runs already (with -w, that one is waited for);
  with -w also 9 if something is damaged that could not be mended, and 1 if the scrub was
  stopped.")]
pub(crate) struct PoolScrub {
    /// Stop it
    #[arg(short, conflicts_with = "wait")]
    pub(crate) stop: bool,
    /// Wait for its end; shows how far it is if there is a terminal. An interrupt ends the waiting,
    /// not the scrub
    #[arg(short)]
    pub(crate) wait: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Show what was done to a pool, and when
///
/// The pool keeps every command that changed it, as it could be typed, and with -i what it did to carry them out, such as
/// the creation of keys. Secrets are never part of a command, and so never of the history.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What was done:
    strongroom pool history tank

  Also what the pool did, and who did it on which host:
    strongroom pool history -i -l tank

JSON
  [{\"time\", \"txg\", \"internal\", \"who\", \"text\"}, ...]

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolHistory {
    /// Also what the pool did by itself, with its transaction groups
    #[arg(short)]
    pub(crate) internal: bool,
    /// Also who, and on which host
    #[arg(short)]
    pub(crate) long: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Show which formats and features pools have, and bring them up to date
///
/// A pool has a format and features; a program that does not know one of them refuses to import the pool. A
/// feature is switched on by its first use, and there is nothing to enable: as long as nobody uses what is
/// new, a pool stays open to older programs. So this command changes nothing so far. It shows what each
/// pool has, which version of this program it needs at least, and what would switch the rest on.
///
/// Without a name, shows the pools that are imported and the features that they do not use. A feature stays
/// when what used it is gone.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Which programs can import the pools, and what the pools do not use:
    strongroom pool upgrade

  Whether anything is to be done for one, and what would keep older programs away from it:
    strongroom pool upgrade tank

  What this program knows:
    strongroom pool upgrade -v

JSON
  Of pools: [{\"name\", \"format\", \"features\": [{\"name\", \"active\", \"since\", \"what\", \"begins\"}, ...]}, ...];
  with -v: {\"formats\": [{\"format\", \"since\"}, ...], \"features\": [...]}.

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolUpgrade {
    /// Show the formats and features that this program knows; needs no daemon
    #[arg(short, conflicts_with_all = ["all", "pools"])]
    pub(crate) verbose: bool,
    /// Upgrade all pools
    #[arg(short, conflicts_with = "pools")]
    pub(crate) all: bool,
    /// The pools to upgrade
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Destroy a pool with everything in it
///
/// On a terminal, asks for the pool's name to be typed; without one, -f is needed. The devices are
/// marked as free. What was encrypted cannot be read again by anybody who has no copy of the devices:
/// the keys in the pool are overwritten.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Asks for the name:
    strongroom pool destroy tank

  In a script, even if files in it are open:
    strongroom pool destroy -f tank

EXIT CODES
  1 if the name was not typed; 2 if there is neither a terminal nor -f; 3 if there is no such
  pool; 5 if something in it is in use.")]
pub(crate) struct PoolDestroy {
    /// Do not ask, and unmount what is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}
