//! Exports over NBD.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Export volumes, files and disks as network block devices
///
/// The daemon serves them by the NBD protocol. The Linux kernel (nbd-client), qemu and the programs of libnbd speak it.
/// By default the daemon listens at a unix socket beside its own. It serves root and the user of the daemon only. Over
/// TCP, clients need a certificate and everything is encrypted.
///
/// An export exists until `nbd unexport`, also after the daemon restarts.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A volume; a snapshot of it, which is read-only:
    strongroom nbd export tank/disk
    strongroom nbd export --name old tank/disk@monday

  A disk image; list it, copy it, use it by the kernel, end the export:
    strongroom nbd export /srv/disk.img --name disk
    strongroom nbd list
    nbdcopy 'nbd+unix:///disk?socket=/run/strongroom/nbd.sock' copy.img
    strongroom nbd unexport disk

  A volume as a block device of this machine:
    strongroom nbd attach tank/disk
    mkfs.ext4 /dev/nbd0
    strongroom nbd detach /dev/nbd0

EXIT CODES
  2 for a wrong argument; 3 if there is no such file or export; 4 if the name is taken; 5 if the
  device or the export is in use.")]
pub(crate) enum Nbd {
    Export(NbdExportArgs),
    Unexport(NbdUnexportArgs),
    Attach(NbdAttachArgs),
    Detach(NbdDetachArgs),
    List(NbdList),
}

/// Export a device
///
/// The daemon claims the file or disk while it is exported. No pool, and no other program that asks, can open it. With
/// --read-only other programs can have it open; they should not change it.
///
/// The key of a volume must be loaded, and the volume cannot be rolled back, renamed or destroyed while it
/// is exported. After a restart of the daemon it is exported as soon as its key is loaded. It can become
/// larger. Snapshots are read-only.
///
/// Writes of clients are durable when the clients flush, as a file system does for a sync. When a file
/// grows, new connections see the new size. The size is a multiple of 512 bytes.
///
/// One socket or port can have several exports. Clients see all of them, with their descriptions. A client
/// that names no export gets the only one. Root and the user of the daemon can use a unix socket.
///
/// TCP needs a directory with certificates: server-cert.pem; server-key.pem, which only the owner can read;
/// ca-cert.pem, the authority that signs the certificates of clients; and ca-crl.pem, if some certificates
/// are revoked. Pre-shared keys are not supported.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A read-only disk:
    strongroom nbd export --read-only /dev/sdb --name archive

  The decrypted content of a LUKS container:
    strongroom luks open secret.img secret
    strongroom nbd export luks:secret

  At a separate socket:
    strongroom nbd export --listen unix:/run/vm1.sock ./vm1.img

  Over the network, for clients with a certificate:
    strongroom nbd export --listen 0.0.0.0:10809 --tls-certificates /etc/nbd /srv/disk.img
    nbdinfo 'nbds://server.example.org/disk.img?tls-certificates=/home/ann/pki'

EXIT CODES
  2 for a wrong argument, or certificates that cannot be used; 3 if there is no such file; 4 if
  the name is taken; 5 if the device or the port is in use.")]
pub(crate) struct NbdExportArgs {
    /// The name for clients; default: the last part of the path
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// A description for people who list exports
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Do not let clients change it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The socket or port; default: nbd.sock beside the socket of the daemon
    #[arg(long, value_name = "unix:PATH|HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// A directory with certificates, for HOST:PORT
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// A volume; a file or disk, by a path that begins with / or .; luks:NAME, an open LUKS mapping; or
    /// nbd://HOST/EXPORT, an export of another server
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
}

/// End an export
///
/// Refuses while clients use it; --force disconnects them. Their writes are on the device, and durable if
/// they flushed. The device stays as it is.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  If no client uses it; in any case:
    strongroom nbd unexport disk
    strongroom nbd unexport --force disk

EXIT CODES
  3 if there is no such export; 5 if clients use it.")]
pub(crate) struct NbdUnexportArgs {
    /// Disconnect clients
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The export
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Make a volume a block device of this machine
///
/// Prints the device, /dev/nbdN, which can be mounted, partitioned or given to a virtual machine. It needs the module
/// `nbd` of the kernel (`modprobe nbd`), and a daemon of root. Without /dev/nbdN the kernel chooses a free number. The
/// daemon attaches the volume at the same number again after a restart. Snapshots are read-only.
///
/// A volume that is attached cannot be exported, renamed or rolled back, and its key cannot be unloaded. A larger size
/// is seen when it is attached again.
///
/// `daemon stop` detaches, and refuses if a device is mounted. If a signal ends the daemon, as with `systemctl
/// restart`, mounted devices wait for the next daemon, and lose nothing. Reads and writes that begin meanwhile fail
/// after five minutes. If the daemon is killed, or the volume changes meanwhile, the next daemon ends the device. Reads
/// and writes fail until it is unmounted.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  At a free number; at this one:
    strongroom nbd attach tank/disk
    strongroom nbd attach tank/disk /dev/nbd3

  The decrypted content of a LUKS container, read-only:
    strongroom nbd attach --read-only luks:secret

EXIT CODES
  1 if the kernel has no network block devices; 2 for a wrong argument; 3 if there is no such
  volume; 4 if it is attached or exported already; 5 if the volume or /dev/nbdN is in use; 6 if
  the daemon may not attach; 8 if the key is not loaded.")]
pub(crate) struct NbdAttachArgs {
    /// Do not let the kernel change it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// A volume; luks:NAME, an open LUKS mapping; a file or disk, by a path; or nbd://HOST/EXPORT
    #[arg(value_name = "VOLUME")]
    pub(crate) device: String,
    /// The block device
    #[arg(value_name = "/dev/nbdN")]
    pub(crate) kernel: Option<String>,
}

/// End a block device of this machine
///
/// Refuses while it is mounted, or part of another device. What was written is on the volume when this command returns.
/// Programs that have it open otherwise, such as virtual machines, lose it. --force ends it also while it is mounted:
/// reads and writes fail, and what the kernel had not written yet is lost.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  By the block device; by the volume:
    strongroom nbd detach /dev/nbd0
    strongroom nbd detach tank/disk

EXIT CODES
  3 if it is not attached; 5 if it is mounted.")]
pub(crate) struct NbdDetachArgs {
    /// Also while it is mounted
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The block device, or what is attached to it
    #[arg(value_name = "/dev/nbdN|VOLUME")]
    pub(crate) device: String,
}

/// List exports
///
/// Shows each export with its device, its size, whether it is read-only, the number of connections, and its
/// address. An export that could not be opened when the daemon started has no size, and JSON says why. The
/// daemon tries it again at its next start, and when a LUKS mapping is opened.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All exports; the address of one:
    strongroom nbd list
    strongroom nbd list -H | awk '$1 == \"disk\" { print $6 }'

JSON
  [{\"name\", \"device\", \"description\", \"size\": BYTES|null, \"read_only\", \"listen\", \"uri\",
    \"connections\", \"failure\": TEXT|null}, ...]")]
pub(crate) struct NbdList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
