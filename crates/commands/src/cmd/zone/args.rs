//! Zones: datasets for tenants.

use clap::{Args, Subcommand};
use protocol::api::ZoneProfile;

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
///
/// An immutable zone has a profile, which fixes datasets: `zone create --profile`. The tenant cannot change
/// a fixed dataset in any way, snapshots included, nor unmount it. Its property readonly is on.
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
pub(crate) enum ZoneCommand {
    Create(ZoneCreate),
    /// Change the profile of a zone
    ///
    /// The property is called as in Solaris, or just `profile`. The new profile counts from then on, also for
    /// commands of the tenant that run. With `none` the root inherits readonly again. Datasets below that have
    /// readonly=on of their own keep it.
    #[command(after_help = "\
EXAMPLES
  Nothing in the zone changes any more; later the tenant works below the root again:
    strongroom zone set file-mac-profile=strict web
    strongroom zone set file-mac-profile=fixed-configuration web

EXIT CODES
  2 for a wrong profile; 3 if there is no such zone, or its pool is not imported.")]
    Set {
        /// The new profile: none, flexible-configuration, fixed-configuration or strict
        #[arg(value_name = "file-mac-profile=PROFILE", value_parser = profile_property)]
        profile: ZoneProfile,
        /// The name of the zone
        #[arg(value_name = "ZONE")]
        name: String,
    },
    /// Destroy a zone; its datasets stay
    ///
    /// Closes the socket and stops running commands of the tenant. The datasets of the tenant stay, with
    /// their keys. The datasets of an immutable zone keep their property readonly.
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
/// A profile, called file-mac-profile in Solaris, makes the zone immutable. It fixes the root and datasets
/// below it by their names, with all datasets below these:
///
///   none                    no dataset, as without --profile
///   flexible-configuration  the root, ROOT, bin, boot, lib, lib32, lib64, opt, sbin, usr
///   fixed-configuration     these, and etc and root
///   strict                  all datasets
///
/// Fixed datasets get readonly=on. The others below the root get readonly=off, and so do datasets that the
/// tenant creates there, with their parents (-p). What was read-only before stays so. The root gets the
/// directories export, home and var, where such datasets can be mounted; make other ones before.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For the members of a group, with the name rpool in the zone:
    strongroom zone create web --dataset tank/web --alias rpool --owner :staff

  With an immutable root; to change it yourself, set readonly=off for that time:
    strongroom zone create kiosk --dataset tank/kiosk --profile fixed-configuration
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
    /// The datasets that the tenant cannot change [default: none]
    #[arg(long, visible_alias = "file-mac-profile", value_name = "PROFILE", value_parser = profile,
          default_value = "none", hide_default_value = true)]
    pub(crate) profile: ZoneProfile,
    /// The same as --profile fixed-configuration
    #[arg(long, conflicts_with = "profile")]
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
/// Shows each zone with its root dataset, the name of the root in the zone, its profile, its owner and its
/// socket. The dataset is `-` if its pool is not imported.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All zones; the socket of one zone:
    strongroom zone list
    strongroom zone list -H | awk '$1 == \"web\" { print $6 }'

JSON
  [{\"name\", \"dataset\": NAME|null, \"alias\", \"profile\", \"owner\": USER|:GROUP|null, \"socket\"}, ...]")]
pub(crate) struct ZoneList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}

/// Parses the name of a profile.
fn profile(text: &str) -> Result<ZoneProfile, String> {
    ZoneProfile::parse(text).ok_or_else(|| {
        let names = ZoneProfile::ALL.map(ZoneProfile::name);
        format!(
            "'{text}' is no profile of a zone; it is one of {}",
            names.join(", ")
        )
    })
}

/// Parses `file-mac-profile=PROFILE` or `profile=PROFILE`.
fn profile_property(text: &str) -> Result<ZoneProfile, String> {
    match text.split_once('=') {
        Some(("file-mac-profile" | "profile", name)) => profile(name),
        _ => Err("a zone has one property to set: file-mac-profile=PROFILE".to_owned()),
    }
}
