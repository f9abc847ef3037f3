//! Targets that a pool describes itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Serve the volumes of a pool by iSCSI as a file in the pool says
///
/// The file is `ha.toml` in the root directory of the root dataset of the pool. So each machine that imports the pool
/// serves the same targets. `stmf-ha.conf` of stmf-ha is accepted in its place: its assignments are parsed, and nothing
/// is executed. Both files at once are an error. The file belongs to root, and no other user can write it. If the root
/// dataset is encrypted, load its key first.
///
/// An empty file serves all volumes of the pool, to all initiators, at all addresses, port 3260, under one target with
/// the name of the pool. The digits after the last ':' of the name of a volume are its logical unit number. Other
/// volumes get the lowest free number, and keep it. A volume that cannot be served, or whose number another
/// one has already, keeps back no other: `ha status` says why it waits. Serial numbers do not change when a volume is
/// renamed, or served by another machine.
///
/// Nothing starts by itself: run `ha start` after each import, as the resource agent for Pacemaker does.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
NOUNS OF ha.toml
  target_portal_groups = [\"san\", \"front\"]  portal groups; the first is the default
  san_portals = [\"192.0.2.1\", \"192.0.2.2:3261\"]
  front_portals = [\"192.0.2.100\"]          of a second portal group
  front_redirect = \"san\"                   logins there go to a portal of san, or to an ADDRESS
  front_redirect_permanently = true        initiators may remember it
  default_tpg = \"san\"                      the portal group of targets without one
  targets = [\"vm\"]                         iqn.2026-01.io.github.strongroom:vm
  vm_tpg = \"san\"
  vm_iqn = \"iqn.2010-08.org.illumos:stmf-ha:vm\"  another name for initiators
  vm_chap = [\"web=file:///etc/keys/web\"]   initiators prove a secret
  vm_mutual_chap = \"vm=file:///etc/keys/vm\"
  logical_units = [\"tank/vm/a:0\"]          these volumes only
  identities = [\"db\"]                     units that initiators know from another storage
  db_lu = \"tank/vm/db\"                    its volume
  db_lun = \"4\"                            its number; before the one in the name
  db_serial = \"SAN-0042\"                  its serial number
  db_naa = \"600144f0c0ffee000000512e9a0b0001\"
  db_block_size = \"4096\"                  or 512
  host_groups = [\"esx\"]                    groups of initiators
  esx_members = [\"iqn.1998-01.com.vmware:a\"]
  target_groups = [\"vms\"]
  vms_members = [\"vm\"]
  views = [\"all\"]                          which units are shown; all to all without a view
  all_hg = \"esx\"                           to which initiators
  all_tg = \"vms\"                           at which targets
  all_lu_prefix = \"tank/vm\"                volumes below this dataset
  all_read_only = true                     initiators cannot change them

EXAMPLES
  Serve all volumes of a pool:
    touch /tank/ha.toml
    strongroom ha start tank
    strongroom ha status tank

  After a change of the file, or of the volumes:
    strongroom ha verify tank && strongroom ha update tank

EXIT CODES
  2 if the file is wrong; 3 if there is no such pool or file; 5 if a volume, a port or a name is in
  use; 6 if other users can change the file; 8 if a key or a secret is missing.")]
pub(crate) enum Ha {
    /// Serve what the file says
    ///
    /// If the pool is served already, the running targets follow the file on the shortest way, as with `ha update`.
    /// Volumes without a loaded key are named, and served when the key is loaded. If two volumes would have one number, the
    /// one that was served before stays, and the other one waits. If anything else is wrong, nothing changes.
    ///
    /// Without POOL it starts all imported pools that have a file.
    #[command(after_help = "\
EXAMPLES
  After an import:
    strongroom pool import -l tank
    strongroom ha start tank

  After changes of several pools:
    strongroom ha start

EXIT CODES
  2 if the file is wrong; 3 if there is no such pool or file; 5 if a volume, a port or a name is in
  use; 6 if other users can change the file; 8 if a key or a secret is missing.")]
    Start(HaPools),
    /// Stop serving a pool; sessions end
    ///
    /// It is no error if the pool is not served.
    #[command(after_help = "\
EXAMPLES
  Before an export:
    strongroom ha stop tank
    strongroom pool export tank

EXIT CODES
  3 if there is no such pool.")]
    Stop(HaPool),
    /// Check the file, and change nothing
    ///
    /// Checks the file against the volumes of the pool. It finds missing names, and units that would have one
    /// number.
    #[command(after_help = "\
EXAMPLES
  Before an update:
    strongroom ha verify tank

EXIT CODES
  2 if the file is wrong; 3 if there is no such pool or file; 6 if other users can change the file;
  8 if a key or a secret is missing.")]
    Verify(HaPool),
    /// Say what would fail if this machine took the pool over
    ///
    /// Run it on the machine that waits, while the other one serves the pool. It reads the devices and writes to none. It
    /// checks that all devices are there, that each key source was accepted on this machine and gives the key, that the file
    /// can be followed, and that this machine has the addresses of the portals. Each reason is a line. A passphrase that has
    /// to be typed is a reason too.
    #[command(after_help = "\
EXAMPLES
  On the machine that waits:
    strongroom ha check -d /dev/disk/by-id/scsi-shared tank

EXIT CODES
  1 if anything would fail; 3 if the pool is not found.")]
    Check {
        /// Search this file, disk or directory (can be repeated)
        #[arg(short = 'd', value_name = "PATH")]
        search: Vec<PathBuf>,
        #[command(flatten)]
        pool: HaPool,
    },
    /// Make the running targets follow the file
    ///
    /// What left the file is not served any more. A session stays open unless its target, its user or its initiator has no
    /// access any more. Without POOL it updates all pools that are served.
    #[command(after_help = "\
EXAMPLES
  Serve a new volume:
    strongroom create -V 10G tank/vm/b:1
    strongroom ha update tank

  Of all pools that are served:
    strongroom ha update

EXIT CODES
  3 also if the pool is not served; others as `ha start`.")]
    Update(HaPools),
    /// Show the targets and units of a pool
    ///
    /// A unit that waits for a key is listed with the reason.
    #[command(after_help = "\
EXAMPLES
  Targets with their sessions, units with their numbers:
    strongroom ha status tank

JSON
  {\"pool\", \"file\": TEXT|null, \"targets\": [{\"name\", \"portals\": [...], \"redirects\": [...],
    \"chap\": BOOL, \"sessions\"}, ...], \"units\": [{\"volume\", \"lun\", \"serial\",
    \"targets\": [...], \"waits\": TEXT|null}, ...]}; a redirect is \"FROM > TO\"; \"file\" is null if
  the pool is not served.

EXIT CODES
  3 if there is no such pool.")]
    Status(HaPool),
    /// Print stmf-ha.conf as ha.toml, or ha.toml as stmf-ha.conf
    ///
    /// The name of the file says what it is. Comments are left out. What stmf-ha does not know, as CHAP, is refused.
    #[command(after_help = "\
EXAMPLES
  Move a configuration of stmf-ha:
    strongroom ha convert /tank/stmf-ha.conf > /tank/ha.toml
    rm /tank/stmf-ha.conf

EXIT CODES
  2 if the file is wrong, or cannot be spelled so; 3 if there is no such file.")]
    Convert {
        /// A file whose name ends with .toml or .conf
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct HaPool {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

#[derive(Args, Debug)]
pub(crate) struct HaPools {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: Option<String>,
}
