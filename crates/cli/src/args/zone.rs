//! Zones: what tenants get.

use clap::{Args, Subcommand};

/// Give tenants a part of the pool as if it were theirs
///
/// A zone is a dataset, with everything below it, and a socket. Whoever comes in by that socket, a
/// container for example, finds a pool of the dataset's name (--alias gives another) and nothing else:
/// no other datasets, pools, zones or devices. What is set above, or by you on the zone's root where the
/// tenant could not, he sees as `inherited from $globalzone`.
///
/// The tenant makes, renames, mounts, snapshots, clones, rolls back and destroys what is below the root.
/// What he makes uses the key that he inherits, which he never has: he can neither load nor unload it,
/// change it, look at its slots, nor send what it encrypts. Or he gives a dataset a key of his own, typed
/// only, with `create -o keysource=passphrase,prompt`; with that one he does all this. He sets no
/// mountpoint, setuid, devices, exec or reservation, and no quota of the root: set one, and a mountpoint,
/// before. What he receives has setuid=off and devices=off, and else what he could set.
///
/// The root keeps its name and stays until the zone is destroyed. Root may use the socket as well, and is
/// a tenant there.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A zone for a container that runs as user 100000, with at most 20 GiB:
    strongroom create -o encryption=on -o quota=20G -o mountpoint=/zones/web tank/web
    strongroom zone create web --dataset tank/web --owner 100000
    strongroom zone list

  In the container, at the socket that 'zone list' shows:
    strongroom --socket /run/strongroom/zones/web get encryption,keysource web
    strongroom --socket /run/strongroom/zones/web create web/data

EXIT CODES
  2 if it makes no sense; 3 if there is no such zone, dataset, user or group; 4 if the name is
  taken; 5 if something still runs; 6 if this is not allowed.")]
pub(crate) enum Zone {
    Create(ZoneCreate),
    /// Destroy a zone; its datasets stay
    ///
    /// Closes the socket, and breaks off what the tenant has running. Nothing else changes: what he made is
    /// there, with his keys, and so is the property readonly of an immutable zone's root.
    #[command(after_help = "\
EXAMPLES
  The datasets go separately:
    strongroom zone destroy web
    strongroom destroy -r tank/web

EXIT CODES
  3 if there is no such zone; 5 if a command of the tenant's still runs: destroy it again then.")]
    Destroy {
        /// The zone
        #[arg(value_name = "ZONE")]
        name: String,
    },
    List(ZoneList),
}

/// Make a zone of a dataset
///
/// It is there until `zone destroy`, also when the daemon starts again or the pool is away meanwhile. Its
/// socket, in the directory zones beside the daemon's, is root's alone unless it has an owner.
///
/// An immutable zone has a root that its tenant cannot change in any way, snapshots of it included; the
/// property readonly is turned on there, and what he makes below begins with readonly=off. Directories for
/// that to be mounted at have to be in the root already.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For the members of a group, and called rpool in the zone:
    strongroom zone create web --dataset tank/web --alias rpool --owner :staff

  With a root that cannot be changed; to change it yourself, set readonly=off for that time:
    strongroom zone create kiosk --dataset tank/kiosk --immutable
    strongroom set readonly=off tank/kiosk

EXIT CODES
  2 if the name or the dataset cannot be; 3 if there is no such dataset, user or group; 4 if there
  is such a zone.")]
pub(crate) struct ZoneCreate {
    /// The dataset that is its root; not that of a pool
    #[arg(long, value_name = "DATASET")]
    pub(crate) dataset: String,
    /// What the root is called in the zone; the last part of its name if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) alias: Option<String>,
    /// The tenant cannot change the root itself
    #[arg(long)]
    pub(crate) immutable: bool,
    /// Who besides root may use it: a user, or after a colon a group; names or numbers
    #[arg(long, value_name = "USER|:GROUP")]
    pub(crate) owner: Option<String>,
    /// The zone
    #[arg(value_name = "ZONE")]
    pub(crate) name: String,
}

/// List zones
///
/// Shows each with the dataset that is its root, what that is called in it, whether it is immutable, who may
/// use it, and where it listens. The dataset of a pool that is not imported is `-`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All of them, and where one listens:
    strongroom zone list
    strongroom zone list -H | awk '$1 == \"web\" { print $6 }'

JSON
  [{\"name\", \"dataset\": NAME|null, \"alias\", \"immutable\", \"owner\": USER|:GROUP|null, \"socket\"}, ...]")]
pub(crate) struct ZoneList {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
