//! LUKS containers. Names of commands and options are those of cryptsetup where it has one for the thing.

mod change;
mod format;
mod look;
mod open;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) use change::{
    LuksAddKey, LuksChangeKey, LuksConvert, LuksErase, LuksHeaderBackup, LuksHeaderRestore,
    LuksKillSlot, LuksPriority, LuksRemoveKey, LuksRepair, LuksSetPriority, LuksToken,
    LuksTokenAdd, LuksTokenExport, LuksTokenImport, LuksTokenRemove, LuksVersion,
};
pub(crate) use format::{LuksFormat, LuksKdf};
pub(crate) use look::{LuksBenchmark, LuksDump, LuksIsLuks, LuksUuid};
pub(crate) use open::{
    LuksClose, LuksOpen, LuksOpenType, LuksPlain, LuksRefresh, LuksResize, LuksStatus,
};

/// Make, open and change LUKS containers, as cryptsetup does
///
/// A container is a file or a disk that is encrypted by sectors, with a header that protects its key by
/// passphrases. What is made here opens with cryptsetup and the Linux kernel, and theirs here; no kernel
/// module is needed, and an ordinary user can do all of it with his own files.
///
/// Commands that look at a header or change it do so themselves. `open`, `close`, `status`, `refresh` and
/// `resize` are about mappings: what is in an open container, as a device that the daemon has. A mapping
/// can be offered to other programs and to the kernel with `strongroom nbd export`.
///
/// Keys, tokens and names of a container can be changed while it is open. What would make it another one
/// (`format`, `erase`, `header-restore`, `convert`, `repair`) waits until it is closed.
///
/// Wherever a file or a disk is named, a volume of a pool can be, as volume:tank/disk.
///
/// A container protects less than a dataset: unless it was made with --integrity, what is in it is not
/// authenticated, so that changes by somebody who can write to the device are not noticed. And even then
/// sectors can be put back as they were before.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A container of 1 GiB in a file; asks twice for a passphrase:
    truncate -s 1G secret.img
    strongroom luks format secret.img

  Open it, see how it does, and close it:
    strongroom luks open secret.img secret
    strongroom luks status secret
    strongroom luks close secret

  On a volume of a pool:
    strongroom create -V 10G tank/disk
    strongroom luks format volume:tank/disk
    strongroom luks open volume:tank/disk disk

  A second passphrase, and a copy of the header for the day on which the device loses it:
    strongroom luks add-key secret.img
    strongroom luks header-backup secret.img --header-backup-file secret.header

EXIT CODES
  2 if it makes no sense; 3 if there is no such file, header, slot or mapping; 5 if the container is
  open; 7 if no key slot opens with the passphrase; 9 if the header or key material is damaged; 10 if
  the header asks for what is not known here; 11 if there is no room in the header or on the device.")]
pub(crate) enum Luks {
    Format(LuksFormat),
    Open(LuksOpen),
    Close(LuksClose),
    Status(LuksStatus),
    Refresh(LuksRefresh),
    Resize(LuksResize),
    Dump(LuksDump),
    AddKey(LuksAddKey),
    ChangeKey(LuksChangeKey),
    RemoveKey(LuksRemoveKey),
    KillSlot(LuksKillSlot),
    SetPriority(LuksSetPriority),
    #[command(subcommand)]
    Token(LuksToken),
    HeaderBackup(LuksHeaderBackup),
    HeaderRestore(LuksHeaderRestore),
    Erase(LuksErase),
    Uuid(LuksUuid),
    #[command(name = "is-luks")]
    Is(LuksIsLuks),
    Convert(LuksConvert),
    Repair(LuksRepair),
    Benchmark(LuksBenchmark),
}

/// A container, whose header may be elsewhere.
#[derive(Args, Debug)]
pub(crate) struct LuksContainer {
    /// The header is in this file, disk or volume instead
    #[arg(long, value_name = "FILE")]
    pub(crate) header: Option<PathBuf>,
    /// The container: a file, a disk or a volume, as volume:tank/disk
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
}

impl LuksContainer {
    /// What the header is on.
    pub(crate) fn header_device(&self) -> &std::path::Path {
        self.header.as_ref().unwrap_or(&self.device)
    }
}

/// How what opens a container is given.
#[derive(Args, Debug)]
pub(crate) struct LuksKey {
    /// Read the passphrase from this file, all of it, instead of asking; - is the standard input
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}
