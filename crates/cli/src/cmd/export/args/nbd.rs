//! Exports over NBD.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Export volumes, files and disks as network block devices
///
/// The daemon serves them by the NBD protocol. The Linux kernel (nbd-client), qemu and the programs of
/// libnbd speak it. By default the daemon listens at a unix socket beside its own, for root and the user of
/// the daemon only. Over TCP, clients need a certificate and everything is encrypted.
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
    nbd-client -unix /run/strongroom/nbd.sock -N disk /dev/nbd0
    strongroom nbd unexport disk

EXIT CODES
  2 for a wrong argument; 3 if there is no such file or export; 4 if the name is taken; 5 if the
  device or the export is in use.")]
pub(crate) enum Nbd {
    Export(NbdExport),
    Unexport(NbdUnexport),
    List(NbdList),
}

/// Export a device
///
/// The daemon claims the file or disk while it is exported: no pool, and no other program that asks, can
/// open it. With --read-only other programs can have it open; they should not change it.
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
pub(crate) struct NbdExport {
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
pub(crate) struct NbdUnexport {
    /// Disconnect clients
    #[arg(short, long)]
    pub(crate) force: bool,
    /// The export
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
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
