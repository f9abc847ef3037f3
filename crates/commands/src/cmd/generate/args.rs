//! `generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Make units of systemd from fstab and crypttab
///
/// systemd runs the generator before it starts anything, and by `systemctl daemon-reload`, under the name
/// strongroom-generator.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  See the units that systemd gets, without a change of the system:
    strongroom generate systemd /root/units")]
pub(crate) enum Generate {
    Systemd(GenerateSystemd),
}

/// Write a mount unit for each dataset of fstab
///
/// A line of /etc/fstab with the type `strongroom` becomes a mount unit that starts after the daemon, which imports the
/// pools, and so after the network, from which keys may come. It replaces the unit that systemd makes of the same line:
/// that one would have to be mounted before the daemon may start. The words noauto, nofail, _netdev and x-systemd.* mean
/// what they mean for systemd; all mounts are remote ones for it (remote-fs.target). Write _netdev into each line: without
/// it, systemd also counts the mount as a local one, whose failure ends the start of the machine in an emergency shell.
///
/// A line of /etc/strongroom/crypttab, `NAME DEVICE KEYFILE OPTIONS` as in crypttab(5), becomes a service that opens a
/// LUKS container in the daemon: strongroom-luks-NAME.service. Without a key file (`none`) a token opens it: Tang, TPM,
/// an authenticator or the kernel's keyring. Of the options it knows header=, keyfile-offset=, keyfile-size=, key-slot=,
/// read-only, discard, no-read-workqueue, no-write-workqueue, noauto, nofail, _netdev, tpm2-device=auto,
/// tpm2-signature= and fido2-device=auto, and refuses lines with others.
///
/// systemd gives three directories (systemd.generator(7)). With one, all units are written into it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  See the units of this machine, and those of another file:
    strongroom generate systemd /root/units
    strongroom generate systemd --crypttab crypttab /root/units

LINES
  In /etc/fstab; the dataset has the property canmount=noauto:
    tank/home  /home  strongroom  noatime,nofail,_netdev  0  0

  In /etc/strongroom/crypttab:
    data  /dev/disk/by-id/ata-1234  /etc/keys/data  discard,nofail

EXIT CODES
  1 if a line was left out; the others have their units.")]
pub(crate) struct GenerateSystemd {
    /// Read the mounts from this file
    #[arg(long, value_name = "FILE", default_value = "/etc/fstab")]
    pub(crate) fstab: PathBuf,
    /// Read the LUKS containers from this file
    #[arg(long, value_name = "FILE", default_value = "/etc/strongroom/crypttab")]
    pub(crate) crypttab: PathBuf,
    /// The directory for ordinary units
    #[arg(value_name = "NORMAL")]
    pub(crate) normal: PathBuf,
    /// The directory for units that replace others
    #[arg(value_name = "EARLY", requires = "late")]
    pub(crate) early: Option<PathBuf>,
    /// The directory for units that others replace; nothing is written there
    #[arg(value_name = "LATE")]
    pub(crate) late: Option<PathBuf>,
}
