//! Exports over NBD.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Offer volumes, files and disks as network block devices
///
/// The daemon serves them by the NBD protocol, which the Linux kernel (nbd-client), qemu and libnbd's programs
/// speak. Unless you say otherwise it listens at a unix socket beside its own, for root and its own user
/// alone. Over TCP clients are known by certificates, and everything is encrypted.
///
/// An export is there until `nbd unexport`, also after the daemon has started again.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A volume, and a snapshot of it, which nobody can change:
    strongroom nbd export tank/disk
    strongroom nbd export --name old tank/disk@monday

  A disk image, copied, looked at, and used by the kernel:
    strongroom nbd export /srv/disk.img --name disk
    strongroom nbd list
    nbdcopy 'nbd+unix:///disk?socket=/run/strongroom/nbd.sock' copy.img
    nbd-client -unix /run/strongroom/nbd.sock -N disk /dev/nbd0
    strongroom nbd unexport disk

EXIT CODES
  2 if it makes no sense; 3 if there is no such file or export; 4 if the name is taken; 5 if
  something is in use.")]
pub(crate) enum Nbd {
    Export(NbdExport),
    Unexport(NbdUnexport),
    List(NbdList),
}

/// Offer a device
///
/// The file or disk belongs to the daemon while it is exported: no pool and no other program that asks can
/// have it. With --read-only it is left to whoever else has it, who should not change it.
///
/// A volume has its key loaded, and is not rolled back, renamed or destroyed meanwhile. After the daemon has
/// started again it is exported as soon as its key is loaded. It can become larger. Snapshots are read-only.
///
/// What clients have written is durable when they flush, as they do when a file system on the device syncs.
/// A file that grows is larger for clients that connect from then on. Its size is a multiple of 512 bytes.
///
/// Several exports can be offered at one place; clients see all of them there, with their descriptions. A
/// client that names none gets the only one. A unix socket can be used by root and the user who runs the
/// daemon. For TCP the directory with certificates has server-cert.pem and server-key.pem, which nobody
/// else may read; ca-cert.pem, which has to have signed the certificates of clients; and ca-crl.pem, if some
/// are no longer to be believed. Pre-shared keys are not understood.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A disk that clients cannot change:
    strongroom nbd export --read-only /dev/sdb --name archive

  What is in a LUKS container, decrypted:
    strongroom luks open secret.img secret
    strongroom nbd export luks:secret

  At a socket of its own:
    strongroom nbd export --listen unix:/run/vm1.sock ./vm1.img

  Over the network, to who has a certificate:
    strongroom nbd export --listen 0.0.0.0:10809 --tls-certificates /etc/nbd /srv/disk.img
    nbdinfo 'nbds://server.example.org/disk.img?tls-certificates=/home/ann/pki'

EXIT CODES
  2 if it makes no sense, or certificates cannot be used; 3 if there is no such file; 4 if the
  name is taken; 5 if the device or the port is in use.")]
pub(crate) struct NbdExport {
    /// What clients call it; the last part of the path if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What it is, for people who list exports
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Clients cannot change it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Where to offer it; nbd.sock beside the daemon's socket if not given
    #[arg(long, value_name = "unix:PATH|HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// A directory with certificates, for HOST:PORT
    #[arg(long, value_name = "DIR")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// A volume, the path of a file or disk, which begins with / or ., or luks:NAME, an open LUKS mapping
    #[arg(value_name = "DEVICE")]
    pub(crate) device: String,
}

/// Take an export back
///
/// Refused while clients use it, unless --force disconnects them. What they have written is in the device;
/// it is durable if they have flushed it. The device itself stays as it is.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  When nobody uses it, or whether or not:
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
/// Shows each with its device, size, whether clients can change it, how many connections there are, and what
/// clients call it. One that could not be opened when the daemon started has no size, and says why in JSON;
/// it is tried again at the next start, and when a LUKS mapping is opened.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All of them, and what one is called by clients:
    strongroom nbd list
    strongroom nbd list -H | awk '$1 == \"disk\" { print $6 }'

JSON
  [{\"name\", \"device\", \"description\", \"size\": BYTES|null, \"read_only\", \"listen\", \"uri\",
    \"connections\", \"failure\": TEXT|null}, ...]")]
pub(crate) struct NbdList {
    /// No header, and a tab between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
