//! `strongroom pool ...`: what `zpool` does.

mod devices;
mod inspect;
mod properties;
mod scans;
mod stamp;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use console::values::{self, HashCost, TableStyle};
use devices::{
    PoolAdd, PoolAttach, PoolClear, PoolDetach, PoolLabelClearArgs, PoolOffline, PoolOnline,
    PoolRemove, PoolReopen, PoolReplace,
};

pub(crate) use devices::{PoolReguidArgs, PoolSplitArgs};
pub(crate) use inspect::Inspect;
pub(crate) use properties::{PoolGet, PoolSet};
pub(crate) use scans::{
    Activity, PoolCheckpointArgs, PoolEventsArgs, PoolInitialize, PoolScrubArgs, PoolTrim,
    PoolWait, SweepArgs,
};
pub(crate) use stamp::{Stamp, StampForm};

/// Create, import, export and manage pools
///
/// A pool stores datasets on files and disks. It stores, checks, repairs and frees records without any key:
/// a scrub and a destroy need none. Anyone who has the devices sees the names of datasets and how much they
/// hold. The contents of an encrypted dataset stay secret.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A pool on a disk; everything in it is encrypted:
    strongroom pool create -O encryption=on tank /dev/sdb

  Take it to another machine:
    strongroom pool export tank
    strongroom pool import -d /dev tank")]
pub(crate) enum PoolCommand {
    Create(PoolCreateArgs),
    Import(PoolImportArgs),
    Export(PoolExportArgs),
    Refresh(PoolRefreshArgs),
    List(PoolList),
    Status(PoolStatusArgs),
    Get(PoolGet),
    Set(PoolSet),
    Iostat(PoolIostat),
    Sync(PoolSyncArgs),
    Scrub(PoolScrubArgs),
    Trim(PoolTrim),
    Initialize(PoolInitialize),
    Checkpoint(PoolCheckpointArgs),
    Wait(PoolWait),
    Add(PoolAdd),
    Attach(PoolAttach),
    Detach(PoolDetach),
    Replace(PoolReplace),
    Offline(PoolOffline),
    Online(PoolOnline),
    Remove(PoolRemove),
    Clear(PoolClear),
    Reopen(PoolReopen),
    Split(PoolSplitArgs),
    Reguid(PoolReguidArgs),
    #[command(name = "labelclear")]
    LabelClear(PoolLabelClearArgs),
    History(PoolHistoryArgs),
    Events(PoolEventsArgs),
    Upgrade(PoolUpgrade),
    Destroy(PoolDestroyArgs),
}

/// Make all writes so far durable
///
/// A write is durable when the program syncs it, and otherwise within five seconds. The commands `sync` and
/// `sync -f` do not reach file systems in user space. This command does, and returns when all writes are
/// durable.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before the power is cut:
    strongroom pool sync

EXIT CODES
  3 if there is no such pool; 12 if a device fails.")]
pub(crate) struct PoolSyncArgs {
    /// Pools; all pools if none is named
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Create a pool with a root dataset
///
/// The devices are files or disks. A name without a slash that is no file here is a disk in /dev.
/// volume:POOL/DATASET is a volume of another pool, luks:NAME an open LUKS mapping, nbd://HOST/EXPORT an export of an NBD
/// server. s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX and file:///DIRECTORY are places in object stores,
/// which are made. Each device is a group of its own, and data is spread over the groups. `mirror` before several devices makes
/// a group that holds the same data on each. `raidz1`, `raidz2` or `raidz3` before 3 to 32 devices
/// (raidz3: 4 to 32) makes a group that survives the loss of one, two or three. `spare` comes before devices that wait until another device fails.
///
/// Devices that hold something are refused, and so are groups of different redundancy; -f accepts both. The
/// root dataset has the name of the pool. It is mounted on /POOL; -m or -O mountpoint=... changes that.
/// Choose now whether the root dataset is encrypted: this cannot change later. Datasets below it can choose
/// differently.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A pool in a new file of 4 GiB:
    strongroom pool create -s 4G tank /var/lib/tank.pool

  Two disks, everything encrypted; asks twice for a passphrase:
    strongroom pool create -O encryption=on tank /dev/sdb /dev/sdc

  Two mirrors and a spare:
    strongroom pool create tank mirror sdb sdc mirror sdd sde spare sdf

  Six disks of which any two may fail:
    strongroom pool create tank raidz2 sdb sdc sdd sde sdf sdg

  Encrypted by a key in a file, compressed, mounted elsewhere:
    strongroom keygen /etc/keys/tank
    strongroom pool create -O encryption=on -O keysource=raw,file:///etc/keys/tank \\
        -O compression=zstd-3 -m /srv/tank tank /dev/sdb

  Only say whether it could be made, and how:
    strongroom pool create -n tank mirror sdb sdc

  A mirror of a disk here and an export of another host, which is reached with TLS:
    strongroom pool create tank mirror /dev/sdb \\
        'nbds://server.example.org/disk?tls-certificates=/etc/nbd'

  On an object store; the daemon has the credentials in its environment:
    strongroom pool create -O encryption=on tank s3://bucket/tank

EXIT CODES
  2 for a property that a new pool does not take, a wrong value or a device that is too small; 3 if
  there is no such property; 4 if a pool of that name exists, or a device belongs to a pool; 5 if a
  device is in use; 11 if there is no space for a new file.")]
pub(crate) struct PoolCreateArgs {
    /// Use devices even if they hold data, which is lost; accept groups of different redundancy
    #[arg(short)]
    pub(crate) force: bool,
    /// Create the devices as files of this size. Places in object stores get this size, and without -s 16 TiB
    #[arg(short, value_name = "SIZE", value_parser = values::size)]
    pub(crate) size: Option<u64>,
    /// Mountpoint of the root dataset; `none` and `legacy` keep it from being mounted
    #[arg(short, value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: Option<String>,
    /// Make nothing; show the layout, or why the pool could not be made
    #[arg(short = 'n')]
    pub(crate) dry_run: bool,
    /// Set a property of the pool, such as scrub-schedule=monthly
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) pool_props: Vec<(String, String)>,
    /// Set a property of the root dataset
    #[arg(short = 'O', value_name = "PROPERTY=VALUE", value_parser = values::property)]
    pub(crate) props: Vec<(String, String)>,
    /// Do not mount the root dataset
    #[arg(short = 'N')]
    pub(crate) no_mount: bool,
    /// Put this directory before all mountpoints. Also after a restart of the daemon, until an export
    #[arg(short = 'R', value_name = "ROOT")]
    pub(crate) altroot: Option<PathBuf>,
    /// Use the pool by this name until it is exported; the devices get the name POOL. A restart of the daemon does not
    /// import it
    #[arg(short = 't', value_name = "NAME")]
    pub(crate) temporary_name: Option<String>,
    /// The name of the pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// Files or disks; `mirror`, `raidz1`, `raidz2` or `raidz3` begins a group, `spare` begins the spares
    #[arg(value_name = "mirror|raidz|spare|DEVICE", required = true)]
    pub(crate) words: Vec<PathBuf>,
}

/// Import pools, or list pools that can be imported
///
/// Without POOL and -a, lists the pools that are found. The daemon looks at the devices of -d. Without -d it looks at
/// the disks in /dev, and at the devices of pools that were imported here before. A pool that another host
/// did not export is refused; -f imports it. Never do this while the other host uses the pool: two hosts that write
/// to one pool destroy it. On an object store they do not: the host that imports it last has the pool, and the other
/// one stops. With -o readonly=on any number of hosts can read such a pool beside the one that writes. Hosts differ by name or by hostid: 4 bytes in /etc/hostid, or else a number derived from
/// /etc/machine-id.
///
/// -l also loads keys that need no typing, and mounts their datasets. For other keys use `strongroom mount
/// -l`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  List the pools that can be imported:
    strongroom pool import
    strongroom pool import -d /var/lib/tank.pool

  Import all pools that are found, and load keys that are in files:
    strongroom pool import -a -l

  A pool on an object store, even if a host that is lost did not export it:
    strongroom pool import s3://bucket/tank
    strongroom pool import -f s3://bucket/tank tank

  Read it while another host writes to it, and follow that each minute:
    strongroom pool import -o readonly=on -o refresh=1m s3://bucket/tank tank

  Look at the pool of another system, whose mountpoints are those of this one:
    strongroom pool import -R /mnt -f tank

  Import one pool under another name; import one and change nothing on its devices:
    strongroom pool import -d /mnt/rescue tank rescued
    strongroom pool import -d /mnt/rescue -t tank for-now
    strongroom pool import -d /mnt/rescue -o readonly=on tank

  Look at the checkpoint of a pool, then go back to it:
    strongroom pool export tank
    strongroom pool import --rewind-to-checkpoint -o readonly=on tank
    strongroom pool export tank
    strongroom pool import --rewind-to-checkpoint tank

JSON
  [{\"name\", \"guid\", \"state\", \"host\", \"host_id\", \"last_written\", \"active\",
    \"devices\": [...], \"missing\": [...]}, ...]
  for pools that can be imported; an array of names for pools that were imported.

EXIT CODES
  3 if there is no such pool or checkpoint; 4 if it is imported already; 5 if another host or
  daemon uses it; 9 if it is damaged; 10 if a newer version wrote it; 12 if required devices are
  missing, or a log device with synced writes is (see -m), or two devices were used apart from
  each other.")]
pub(crate) struct PoolImportArgs {
    /// Look here: a device, a directory of devices, or an address as nbd://host/disk or s3://bucket/tank; may be repeated
    #[arg(short, value_name = "PATH")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Import all pools that are found
    #[arg(short, conflicts_with = "pool")]
    pub(crate) all: bool,
    /// Import a pool even if another host did not export it
    #[arg(short)]
    pub(crate) force: bool,
    /// Do not mount datasets
    #[arg(short = 'N')]
    pub(crate) no_mount: bool,
    /// Load the keys that need no typing
    #[arg(short)]
    pub(crate) load_keys: bool,
    #[command(flatten)]
    pub(crate) cost: HashCost,
    /// Import without missing log devices; the last synced writes on them are lost
    #[arg(short = 'm')]
    pub(crate) without_logs: bool,
    /// Go back to the checkpoint: everything that changed after it is lost. With readonly=on only show it
    #[arg(long, requires = "pool", conflicts_with_all = ["without_logs", "all"])]
    pub(crate) rewind_to_checkpoint: bool,
    /// Discard a checkpoint that is damaged, so that the pool can be imported
    #[arg(long, requires = "pool", conflicts_with_all = ["without_logs", "all", "rewind_to_checkpoint"])]
    pub(crate) discard_checkpoint: bool,
    /// Accept the key locations of the pool, now and later
    #[arg(long = "accept")]
    pub(crate) accept: bool,
    /// Put this directory before all mountpoints. Also after a restart of the daemon, until an export
    #[arg(short = 'R', value_name = "ROOT")]
    pub(crate) altroot: Option<PathBuf>,
    /// `readonly=on`: change nothing on the devices; `refresh=TIME` or `off`: with readonly=on, how often to read the newest
    /// state on an object store (10s to 9m, 5m if not given); `cachefile=none`: the next start of the daemon does not import
    /// it; `reservations=off`: reserve no disks, and set this property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE", value_parser = import_option)]
    pub(crate) options: Vec<ImportOption>,
    /// Use NEWNAME until the export only, and do not write it to the devices. A restart of the daemon does not import
    /// the pool
    #[arg(short = 't', requires = "new_name")]
    pub(crate) temporary_name: bool,
    /// The pool to import; or the place of one in an object store, and then its name
    #[arg(value_name = "POOL|GUID")]
    pub(crate) pool: Option<String>,
    /// The new name of the pool
    #[arg(value_name = "NEWNAME")]
    pub(crate) new_name: Option<String>,
}

/// An option of an import, after `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImportOption {
    ReadOnly(bool),
    /// Seconds, 0 for `off`.
    Refresh(u64),
    Temporary,
    WithoutReservations,
}

fn import_option(text: &str) -> Result<ImportOption, String> {
    match text {
        "readonly=on" => Ok(ImportOption::ReadOnly(true)),
        "readonly=off" => Ok(ImportOption::ReadOnly(false)),
        "cachefile=none" => Ok(ImportOption::Temporary),
        "reservations=off" => Ok(ImportOption::WithoutReservations),
        _ => match text.strip_prefix("refresh=") {
            Some(time) => refresh_interval(time).map(ImportOption::Refresh),
            None => Err(
                "the options are readonly=on, readonly=off, refresh=TIME, cachefile=none and reservations=off"
                    .into(),
            ),
        },
    }
}

/// Reads the time between refreshes. It ends before the objects of a state are removed.
fn refresh_interval(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60)];
    let given = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match (text, given) {
        ("off", _) => Ok(0),
        (_, Some(seconds)) if REFRESH.contains(&seconds) => Ok(seconds),
        _ => Err("refresh is off, or a time from 10s to 9m".into()),
    }
}

/// The seconds that can be between refreshes.
const REFRESH: std::ops::RangeInclusive<u64> = 10..=540;

/// Read the newest state of a pool that another host writes
///
/// A pool on an object store can be imported with -o readonly=on by any number of hosts, while one host writes to it. They
/// read the state of one commit. This command goes to the newest one, and prints both. Mounts stay. Open files have the new
/// contents; files that are gone, and open files below .snapshot, give ESTALE.
/// Datasets that are gone are unmounted, renamed ones are mounted again, and new ones are mounted. A key that was changed
/// is loaded again if that needs no typing.
///
/// A reader does this by itself every 5 minutes, or as -o refresh=TIME of the import says. The writer removes objects 10
/// minutes after they are not needed any more. A reader that is further behind gets errors until the next refresh.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Read a pool while another host writes, and see what it wrote since:
    strongroom pool import -o readonly=on s3://bucket/tank tank
    strongroom pool refresh tank

JSON
  {\"pool\", \"from\": {\"time\", \"txg\"}, \"to\": {\"time\", \"txg\"}}
  Times are seconds since 1970, by the clock of the writer.

EXIT CODES
  2 if the pool is not read from an object store; 3 if there is no such pool; 5 if a volume in it is
  in use; 12 if the store does not answer.")]
pub(crate) struct PoolRefreshArgs {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Close pools: unmount datasets, unload keys, release devices
///
/// All writes are durable when this command returns. The pool can then be imported here or on another
/// machine without -f.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  One pool:
    strongroom pool export tank

  Two pools, even if files in them are open:
    strongroom pool export -f tank backup

  All pools:
    strongroom pool export -a

EXIT CODES
  3 if there is no such pool; 5 if a dataset in it is in use.")]
pub(crate) struct PoolExportArgs {
    /// Export all pools
    #[arg(short, conflicts_with = "pools")]
    pub(crate) all: bool,
    /// Unmount datasets even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The pools
    #[arg(value_name = "POOL", required_unless_present = "all")]
    pub(crate) pools: Vec<String>,
}

/// List imported pools with their space and health
///
/// SIZE is the space of the devices for records, all copies included. ALLOC is the used part of it, and CAP
/// is that part in percent. FREE is what can still be written; a small part of the space is a reserve for
/// deletes. EXPANDSZ is the space that `pool online -e` would add after devices became larger. DEDUP is the
/// factor that shared records save (`dedup=on`).
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools:
    strongroom pool list

  With groups and devices:
    strongroom pool list -v tank

  For a script: no header, tabs, exact numbers:
    strongroom pool list -H -p -o name,free tank

  Every five seconds:
    strongroom pool list 5

JSON
  [{\"name\", \"guid\", \"health\", \"size\", \"allocated\", \"free\", ...}, ...], as for `pool status`.

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolList {
    #[command(flatten)]
    pub(crate) table: TableStyle,
    #[command(flatten)]
    pub(crate) stamp: Stamp,
    /// Columns to print
    #[arg(
        short = 'o',
        value_name = "COLUMN,...",
        value_delimiter = ',',
        default_value = "name,size,alloc,free,expandsz,cap,dedup,health"
    )]
    pub(crate) columns: Vec<PoolColumn>,
    /// Also list the groups and devices of each pool
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Pools (default: all); then an interval in seconds, and a count
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
    /// Space that only the checkpoint has
    #[value(name = "ckpoint", alias = "checkpoint")]
    Checkpoint,
    #[value(name = "expandsz", alias = "expandsize")]
    Expandable,
    #[value(alias = "dedupratio")]
    Dedup,
    Health,
    Guid,
    #[value(name = "readonly")]
    ReadOnly,
    Altroot,
    Txg,
}

/// Show the health of pools, their devices, scrubs and damage
///
/// Says what is wrong, what that means and what to do. READ counts failed reads, WRITE counts failed writes
/// and flushes, CKSUM counts copies with a wrong checksum. Damage is data that neither another copy nor a
/// retry could repair. Data is unreadable if a device fails to read a copy of it, which may be good. -v names
/// the damaged and unreadable files. Names are encrypted, so the key of the dataset must be loaded. Otherwise, and
/// in datasets with very many files, it gives the dataset and the number of the record or inode. UNAVAIL is a pool
/// that was in use here and could not be imported when the daemon started. INCOMPLETE is a device that lacks data
/// of which the resilver found no good copy: see 'help pool replace'.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools:
    strongroom pool status

  Pools with problems only:
    strongroom pool status -x

  One pool, with the names of damaged files and datasets. IO: a device is read and written past the
  cache of the system (direct) or through it (buffered):
    strongroom pool status -v tank

  The progress of a scrub, every ten seconds:
    strongroom pool status tank 10

JSON
  [{\"name\", \"guid\", \"health\", \"trouble\", \"action\", \"size\", \"allocated\", \"free\",
    \"expandable\", \"dedupratio\", \"freeing\", \"read_only\", \"txg\",
    \"devices\": [{\"path\", \"guid\", \"size\", \"unused\", \"state\", \"group\", \"replaces\",
    \"was_spare\", \"read\", \"write\", \"checksum\",
    \"io\": \"direct\" (past the cache of the system), \"buffered\" or null}, ...],
    \"scrub\": {\"state\", \"started\", \"ended\", \"examined\", \"total\", \"repaired\", \"errors\",
      \"unreadable\": how many of the errors a device failed to read},
    \"scrub_late\": null or what to do about a scrub that is too long ago,
    \"space_low\": null or how full the pool is, if \"trouble\" is something else,
    \"resilver\": as scrub, and \"waits\": null or the reason why it waits,
    \"removal\": {\"state\", \"name\", \"started\", \"ended\", \"total\", \"left\", \"waits\"} or null,
    \"trim\": {\"state\", \"started\", \"ended\", \"examined\", \"total\", \"bytes\", \"errors\",
      \"error\", \"device\"} or null,
    \"initialize\": as trim,
    \"reader\": null or {\"time\", \"checked\", \"is_outdated\", \"refresh\"}: the state that is read from an
      object store while another host writes, and when it was the newest one,
    \"damage\": [...], \"waiting\": [datasets that wait for a key, ...]}, ...]

EXIT CODES
  3 if there is no such pool. A pool with problems is no failure of this command.")]
pub(crate) struct PoolStatusArgs {
    /// Only pools with problems
    #[arg(short = 'x')]
    pub(crate) unhealthy: bool,
    /// Name the damaged files and datasets, and say how each device is read and written
    #[arg(short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) stamp: Stamp,
    /// Pools (default: all); then an interval in seconds, and a count
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// Show how much pools read and write
///
/// The first line is the average since the devices were opened. With an interval, each later line is for
/// the time since the line before. READS, WRITES, RBYTES and WBYTES are per second. With -l, RWAIT, WWAIT
/// and FWAIT are the average times of a read, a write and a flush. All requests to the devices count,
/// metadata and copies included.
///
/// With -r, the numbers are the requests of pools on object stores since the devices were opened, or since the
/// line before, by kind: PUTS create objects, GETS read them, LISTS list and DELETES remove them. REPEATED of
/// these had no answer and were sent again. SENT and RECEIVED are bytes of objects. COST needs prices for 1,000
/// requests and for 1 GB of received bytes, in /etc/strongroom/store-prices or the file that
/// STRONGROOM_STORE_PRICES of the daemon names. A line has the beginning of addresses, and prices:
/// `s3://bucket put=0.005 get=0.0004 list=0.005 out=0.09 currency=USD`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools, every second, until Ctrl-C:
    strongroom pool iostat 1

  The devices of one pool with times, every five seconds, three times:
    strongroom pool iostat -v -l tank 5 3

  The requests to object stores of each hour, and their cost:
    strongroom pool iostat -r 3600

JSON
  [{\"name\", \"allocated\", \"free\", \"devices\": [{\"path\", \"elapsed\",
    \"read\": {\"operations\", \"bytes\", \"errors\", \"nanos\"}, \"write\", \"flush\", \"discard\",
    \"store\": null or {\"puts\", \"gets\", \"lists\", \"deletes\", \"repeated\", \"sent\", \"received\",
      \"cost\": null or a number, \"currency\"}}, ...]}, ...], counted since the array before;
    \"elapsed\" and \"nanos\" are nanoseconds.

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolIostat {
    /// Show each device
    #[arg(short)]
    pub(crate) verbose: bool,
    /// Show how long operations take
    #[arg(short)]
    pub(crate) latencies: bool,
    /// Show the requests to object stores, and what they cost, in place of the operations
    #[arg(short, conflicts_with = "latencies")]
    pub(crate) requests: bool,
    /// Leave out the average since the devices were opened, and wait for the first interval
    #[arg(short = 'y')]
    pub(crate) skip_first: bool,
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// Print exact numbers; times in nanoseconds
    #[arg(short)]
    pub(crate) parsable: bool,
    #[command(flatten)]
    pub(crate) stamp: Stamp,
    /// Pools (default: all); then an interval in seconds, and a count
    #[arg(value_name = "POOL|INTERVAL|COUNT")]
    pub(crate) words: Vec<String>,
}

/// Show the commands that changed pools, with their times
///
/// A pool records every command that changed it. With -i it also shows the steps that the pool took, such
/// as the creation of keys. Commands contain no secrets, so the history contains none.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All commands:
    strongroom pool history tank

  Also the steps of the pool, with users and hosts:
    strongroom pool history -i -l tank

JSON
  [{\"time\", \"txg\", \"internal\", \"who\", \"text\"}, ...] of the pool that is named; of several
  pools {\"POOL\": [...], ...}

EXIT CODES
  3 if there is no such pool.")]
pub(crate) struct PoolHistoryArgs {
    /// Also show the steps of the pool, with their transaction groups
    #[arg(short)]
    pub(crate) internal: bool,
    /// Also show the user and the host
    #[arg(short)]
    pub(crate) long: bool,
    /// The pools; default: all pools
    #[arg(value_name = "POOL")]
    pub(crate) pools: Vec<String>,
}

/// Show the format and the features of pools
///
/// A pool has a format and features. A program that does not know one of them refuses to import the pool.
/// The first use of a feature switches it on, and it stays on. Until then older programs can import the
/// pool. So there is nothing to enable, and this command changes nothing in this version.
///
/// Without a name, shows the imported pools and the features that they do not use yet. For each pool it
/// shows the oldest version of this program that can import it, and what would switch on the other
/// features.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Which programs can import the pools, and which features are unused:
    strongroom pool upgrade

  The same for one pool:
    strongroom pool upgrade tank

  The formats and features that this program knows:
    strongroom pool upgrade -v

JSON
  Of pools: [{\"name\", \"format\", \"features\": [{\"name\", \"active\", \"since\", \"what\",
    \"begins\"}, ...]}, ...];
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

/// Destroy a pool with all its datasets
///
/// On a terminal, asks you to type the name of the pool. Without a terminal, -f is needed. The devices become free. The
/// keys in the pool are overwritten. So encrypted data is lost for everyone who has no copy of the devices. The
/// objects of a pool on an object store are removed; `strongroom pool export` keeps them.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  On a terminal; asks for the name:
    strongroom pool destroy tank

  In a script, even if files in it are open:
    strongroom pool destroy -f tank

EXIT CODES
  1 if the name was not typed; 2 if there is neither a terminal nor -f; 3 if there is no such
  pool; 5 if a dataset in it is in use.")]
pub(crate) struct PoolDestroyArgs {
    /// Do not ask, and unmount datasets even if they are in use
    #[arg(short)]
    pub(crate) force: bool,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}
