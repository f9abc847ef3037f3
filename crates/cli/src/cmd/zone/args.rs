//! Zones: datasets for tenants.

use clap::{Args, Subcommand};

/// Give tenants a part of a pool as a pool of their own
///
/// A zone is a dataset with all datasets below it, and a socket. A tenant, such as a container, uses that
/// socket. The tenant sees a pool with the name of the dataset (--alias sets another name), and no other
/// datasets, pools, zones or devices. The tenant sees values that you set above the zone as `inherited from
/// $globalzone`. This also holds for values at the root of the zone that the tenant could not set.
///
/// The tenant creates, renames, mounts, snapshots, clones, rolls back and destroys datasets below the root.
/// These use the inherited key, which the tenant never gets. The tenant cannot load, unload or change that
/// key, see its slots, or send data that it encrypts. A tenant can do all this with an own key, typed only:
/// `create -o keysource=passphrase,prompt`.
///
/// The tenant cannot set mountpoint, setuid, devices, exec or reservation, nor the quota of the root. Set a
/// quota and a mountpoint before you create the zone. Datasets that the tenant receives have setuid=off and
/// devices=off.
///
/// The root of the zone keeps its name, and stays until the zone is destroyed. The user root can use the
/// socket too, and is a tenant there.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A zone for a container that runs as user 100000, with at most 20 GiB:
    strongroom create -o encryption=on -o quota=20G -o mountpoint=/zones/web tank/web
    strongroom zone create web --dataset tank/web --owner 100000
    strongroom zone list

  In the container, through the socket that 'zone list' shows:
    strongroom --socket /run/strongroom/zones/web get encryption,keysource web
    strongroom --socket /run/strongroom/zones/web create web/data

EXIT CODES
  2 for a wrong argument; 3 if there is no such zone, dataset, user or group; 4 if the name is
  taken; 5 if a command of the tenant still runs; 6 if this is not allowed.")]
pub(crate) enum Zone {
    Create(ZoneCreate),
    /// Destroy a zone; its datasets stay
    ///
    /// Closes the socket and stops running commands of the tenant. The datasets of the tenant stay, with
    /// their keys. The root of an immutable zone keeps readonly=on.
    #[command(after_help = "\
EXAMPLES
  Destroy the zone, then its datasets:
    strongroom zone destroy web
    strongroom destroy -r tank/web

EXIT CODES
  3 if there is no such zone; 5 if a command of the tenant still runs: then try again.")]
    Destroy {
        /// The name of the zone
        #[arg(value_name = "ZONE")]
        name: String,
    },
    List(ZoneList),
}

/// Create a zone from a dataset
///
/// The zone exists until `zone destroy`, also after the daemon restarts or while the pool is exported. Its
/// socket is in the directory zones beside the socket of the daemon. Only root can use it, unless the zone
/// has an owner.
///
/// The root gets limits where it has none, because no quota counts these: filesystem_limit=1000,
/// snapshot_limit=10000, mount_limit=200 and property_limit=4M. Change them with `set`.
///
/// The tenant cannot change the root of an immutable zone in any way, snapshots included. Its property
/// readonly is on. Datasets that the tenant creates below begin with readonly=off. Create directories for
/// their mountpoints before.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For the members of a group, with the name rpool in the zone:
    strongroom zone create web --dataset tank/web --alias rpool --owner :staff

  With an immutable root; to change it yourself, set readonly=off for that time:
    strongroom zone create kiosk --dataset tank/kiosk --immutable
    strongroom set readonly=off tank/kiosk

EXIT CODES
  2 if the name or the dataset is not possible; 3 if there is no such dataset, user or group; 4 if
  the zone exists.")]
pub(crate) struct ZoneCreate {
    /// The dataset that becomes the root; not the root of a pool
    #[arg(long, value_name = "DATASET")]
    pub(crate) dataset: String,
    /// The name of the root in the zone; default: the last part of the dataset name
    #[arg(long, value_name = "NAME")]
    pub(crate) alias: Option<String>,
    /// Make the root immutable for the tenant
    #[arg(long)]
    pub(crate) immutable: bool,
    /// The owner, who can use the zone: a user, or after a colon a group; names or numbers
    #[arg(long, value_name = "USER|:GROUP")]
    pub(crate) owner: Option<String>,
    /// The name of the zone
    #[arg(value_name = "ZONE")]
    pub(crate) name: String,
}

/// List zones
///
/// Shows each zone with its root dataset, the name of the root in the zone, whether it is immutable, its
/// owner and its socket. The dataset is `-` if its pool is not imported.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All zones; the socket of one zone:
    strongroom zone list
    strongroom zone list -H | awk '$1 == \"web\" { print $6 }'

JSON
  [{\"name\", \"dataset\": NAME|null, \"alias\", \"immutable\", \"owner\": USER|:GROUP|null, \"socket\"}, ...]")]
pub(crate) struct ZoneList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
