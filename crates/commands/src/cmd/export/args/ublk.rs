//! Devices of the kernel by ublk.

use clap::{Args, Subcommand};

/// Make volumes fast block devices of this machine
///
/// The devices are those of the kernel's driver ublk, /dev/ublkbN. The kernel hands requests to the daemon through
/// memory (io_uring), with a queue for each processor. Unlike those of `nbd attach`, devices of volumes outlive a crash
/// of the daemon: requests wait for the next one.
///
/// Linux 6.5 or newer with the module `ublk_drv` is needed, and a daemon of root.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A volume as a block device with a file system; and its end:
    strongroom ublk attach tank/disk
    mkfs.ext4 /dev/ublkb0
    strongroom ublk list
    strongroom ublk detach /dev/ublkb0

EXIT CODES
  1 if the kernel has no ublk driver; 2 for a wrong argument; 3 if there is no such volume or
  device; 4 if it is attached or exported already; 5 if the device is in use.")]
pub(crate) enum Ublk {
    Attach(UblkAttachArgs),
    Detach(UblkDetachArgs),
    List(UblkList),
}

/// Attach a volume
///
/// Prints the device, /dev/ublkbN, which can be mounted, partitioned or given to a virtual machine. Without /dev/ublkbN
/// the kernel chooses a free number. The daemon attaches the volume at the same number again after a restart. Snapshots
/// are read-only.
///
/// A volume that is attached cannot be exported, renamed or rolled back, and its key cannot be unloaded.
///
/// `daemon stop` detaches, and refuses if a device is mounted. If a signal ends the daemon, as with `systemctl
/// restart`, mounted devices wait for the next daemon. If the daemon is killed, devices of volumes wait. They go on when
/// the next daemon has opened the volume: load its key, if that does not happen by itself. If answered writes may be
/// lost (writecache=volatile, sync=disabled), or the volume may have changed, the next daemon ends the device. After a
/// kill it also ends those of LUKS mappings, files and disks. Reads and writes then fail until it is unmounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  At a free number; at this one:
    strongroom ublk attach tank/disk
    strongroom ublk attach tank/disk /dev/ublkb3

  The decrypted content of a LUKS container, read-only:
    strongroom luks open secret.img secret
    strongroom ublk attach --read-only luks:secret

EXIT CODES
  1 if the kernel has no ublk driver (modprobe ublk_drv); 2 for a wrong argument; 3 if there is no
  such volume; 4 if it is attached or exported already; 5 if the volume or /dev/ublkbN is in use;
  6 if the daemon may not attach; 8 if the key is not loaded.")]
pub(crate) struct UblkAttachArgs {
    /// Do not let the kernel change it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// A volume; luks:NAME, an open LUKS mapping; a file or disk, by a path; or nbd://HOST/EXPORT
    #[arg(value_name = "VOLUME")]
    pub(crate) device: String,
    /// The block device
    #[arg(value_name = "/dev/ublkbN")]
    pub(crate) kernel: Option<String>,
}

/// Detach a volume
///
/// Refuses while it is mounted, or part of another device. What was written is on the volume when this command returns.
/// Programs that have it open otherwise, such as virtual machines, lose it. --force ends it also while it is mounted:
/// reads and writes fail, and what the kernel had not written yet is lost.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  By the block device; by the volume:
    strongroom ublk detach /dev/ublkb0
    strongroom ublk detach tank/disk

EXIT CODES
  3 if it is not attached; 5 if it is mounted.")]
pub(crate) struct UblkDetachArgs {
    /// Also while it is mounted
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The block device, or what is attached to it
    #[arg(value_name = "/dev/ublkbN|VOLUME")]
    pub(crate) device: String,
}

/// List attached volumes
///
/// Shows each with its size, whether it is read-only, and its block device. SERVED is 1 if the daemon serves it. One
/// that could not be opened when the daemon started has no size, and JSON says why. The daemon tries it again when its
/// key is loaded or its LUKS mapping is opened.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All devices; the block device of one volume:
    strongroom ublk list
    strongroom ublk list -H | awk '$1 == \"tank/disk\" { print $6 }'

JSON
  [{\"name\", \"device\", \"description\", \"size\": BYTES|null, \"read_only\", \"listen\", \"uri\",
    \"connections\", \"failure\": TEXT|null}, ...]")]
pub(crate) struct UblkList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
