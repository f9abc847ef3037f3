//! Targets of iSCSI.

use clap::{Args, Subcommand};

/// Export volumes, files and disks as targets of iSCSI
///
/// The daemon serves them at a TCP port. The Linux kernel (open-iscsi), Windows, ESXi, qemu and the programs of
/// libiscsi speak the protocol. Each target has one logical unit, with the number 0.
///
/// iSCSI is not encrypted: everything goes over the wire as plain text. Use it inside one host, through
/// WireGuard or IPsec, or use `nbd export` with certificates instead.
///
/// A target exists until `iscsi unexport`, also after the daemon restarts.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A volume, for programs of this host; use it and end it:
    strongroom iscsi export --no-authentication tank/disk
    strongroom iscsi list
    qemu-img info iscsi://127.0.0.1:3260/iqn.2026-01.io.github.strongroom:tank.disk/0
    strongroom iscsi unexport iqn.2026-01.io.github.strongroom:tank.disk

EXIT CODES
  2 for a wrong argument; 3 if there is no such file or target; 4 if the name is taken; 5 if the
  device, the port or the target is in use.")]
pub(crate) enum Iscsi {
    Export(IscsiExportArgs),
    Unexport(IscsiUnexportArgs),
    List(IscsiList),
    Sessions(IscsiSessions),
}

/// Export a device as a target
///
/// The device is claimed, remembered and let go as with `nbd export`: the key of a volume must be loaded, and the
/// volume cannot be rolled back, renamed or destroyed while it is exported. Snapshots are read-only. When the
/// device grows, initiators are told.
///
/// Writes are durable when the initiator flushes them (SYNCHRONIZE CACHE) or asks for it (FUA).
///
/// Initiators prove with CHAP that they know a secret (--chap); with --mutual-chap the target proves that it knows
/// another one. A secret has at least 12 bytes. It is typed, or is the first line of a file that only root, or the
/// user of the daemon, can read. The daemon remembers the location, not the secret: a target with a typed secret
/// does not return after a restart. Files are read when the target is opened. Take long random secrets: an attacker
/// who sees a login can try out secrets at leisure. CHAP protects the login only, neither the data nor the
/// connection.
///
/// Persistent reservations that initiators asked to keep (APTPL) are kept: of a volume in its pool, of other devices in
/// the state directory of the daemon. They hold again when the device is exported again, here or where the pool is
/// imported. --forget-reservations begins without them: use it when no initiator that could clear them is left.
///
/// A disk that was copied from another storage keeps its name, serial number, NAA identifier and size of a block with --name,
/// --serial, --naa and --block-size. No two units have the same serial number or NAA identifier.
///
/// With --no-authentication any user of any host that reaches the port can use the device. --initiator keeps out
/// initiators by the names that they state; it does not stop an attacker. The default portal can be reached from
/// this host only.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  With a secret; the other host has it in its own configuration:
    (umask 077; openssl rand -hex 16 > /etc/keys/web)
    strongroom iscsi export --chap web=file:///etc/keys/web --portal 10.9.0.1:3260 tank/disk
    strongroom iscsi export --chap web=prompt --mutual-chap disk=prompt tank/other

  A disk, under a name of its own:
    strongroom iscsi export --no-authentication --name iqn.2026-01.org.example:a /dev/sdb

  At the address of a WireGuard interface; what the other host types:
    strongroom iscsi export --no-authentication --portal 10.9.0.1:3260 tank/disk
    iscsiadm -m discovery -t sendtargets -p 10.9.0.1
    iscsiadm -m node --login

  By two networks, for an initiator with multipath:
    strongroom iscsi export --chap web=prompt --portal 10.9.0.1:3260 --portal 10.8.0.1:3260 tank/a

  In the place of a disk of another storage:
    strongroom iscsi export --chap web=prompt --serial SAN-0042 --block-size 4096 tank/db

EXIT CODES
  2 for a wrong argument or name, or a short secret; 3 if there is no such file; 4 if the name or
  the identity is taken; 5 if the device or the port is in use; 8 if a secret cannot be read.")]
pub(crate) struct IscsiExportArgs {
    /// The name of the target; default: made of the name of the device
    #[arg(long, value_name = "IQN")]
    pub(crate) name: Option<String>,
    /// Do not let initiators change it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The address and port; can be repeated, for initiators with several paths
    #[arg(
        long = "portal",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:3260"
    )]
    pub(crate) portals: Vec<String>,
    /// An initiator that may log in; can be repeated. Default: all
    #[arg(long = "initiator", value_name = "IQN")]
    pub(crate) initiators: Vec<String>,
    /// The name and secret with which initiators log in (CHAP); LOCATION is file:///PATH or prompt; can be repeated
    #[arg(long, value_name = "USER=LOCATION")]
    pub(crate) chap: Vec<String>,
    /// The name and secret with which the target proves itself, to initiators that ask for it
    #[arg(long, value_name = "USER=LOCATION")]
    pub(crate) mutual_chap: Option<String>,
    /// Let initiators log in without authentication
    #[arg(long)]
    pub(crate) no_authentication: bool,
    /// Begin without the persistent reservations that are kept of the device
    #[arg(long)]
    pub(crate) forget_reservations: bool,
    /// The serial number by which initiators know the disk from another storage
    #[arg(long, value_name = "TEXT")]
    pub(crate) serial: Option<String>,
    /// NAA identifier of the unit, 16 or 32 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    pub(crate) naa: Option<String>,
    /// The size of a block: 512 or 4096; default: that of the device
    #[arg(long, value_name = "BYTES")]
    pub(crate) block_size: Option<String>,
    /// A volume; a file or disk, by a path that begins with / or .; luks:NAME, an open LUKS mapping; or
    /// nbd://HOST/EXPORT, an export of another server
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
}

/// End a target
///
/// Refuses while initiators are logged in; --force ends their sessions. Their writes are on the device, and durable
/// if they flushed. The device stays as it is.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  If no initiator uses it; in any case:
    strongroom iscsi unexport iqn.2026-01.org.example:archive
    strongroom iscsi unexport --force iqn.2026-01.org.example:archive

EXIT CODES
  3 if there is no such target; 5 if initiators use it.")]
pub(crate) struct IscsiUnexportArgs {
    /// End sessions
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The target
    #[arg(value_name = "IQN")]
    pub(crate) name: String,
}

/// List targets
///
/// Shows each target with its device, its size, whether it is read-only, the number of sessions, and its address.
/// A target that could not be opened when the daemon started has no size, and JSON says why.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All targets; the names only:
    strongroom iscsi list
    strongroom iscsi list -H | cut -f1

JSON
  [{\"name\", \"device\", \"description\", \"size\": BYTES|null, \"read_only\", \"listen\", \"uri\",
    \"connections\", \"reservation\": {\"registrations\", \"type\": TEXT|null, \"holders\": [TEXT, ...]},
    \"failure\": TEXT|null}, ...]")]
pub(crate) struct IscsiList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}

/// List the sessions of initiators, or end one
///
/// Shows each session with its target, the name that the initiator stated, and its address. Sessions that
/// only ask which targets there are do not count.
///
/// --kick ends the connection of one session. The initiator may log in again: to keep it out, export the target
/// again with other secrets or initiators.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All sessions; how many one initiator has:
    strongroom iscsi sessions
    strongroom iscsi sessions -H | grep -c iqn.1993-08.org.debian:01:e9f1

  End session 3 of a target:
    strongroom iscsi sessions --kick 3 iqn.2026-01.org.example:archive

EXIT CODES
  3 if there is no such target or session.

JSON
  [{\"target\", \"number\", \"initiator\", \"address\", \"registered\": BOOL}, ...]")]
pub(crate) struct IscsiSessions {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// End this session of the target
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "target",
        conflicts_with = "script"
    )]
    pub(crate) kick: Option<u16>,
    /// Only the sessions of this target
    #[arg(value_name = "IQN")]
    pub(crate) target: Option<String>,
}
