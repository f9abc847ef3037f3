//! LUKS containers. Names of commands and options are those of cryptsetup where it has one for the thing.

mod change;
mod common;
mod format;
mod look;
mod open;
mod reencrypt;

use clap::Subcommand;

pub(crate) use change::{
    LuksAddKey, LuksChangeKey, LuksConvert, LuksErase, LuksHeaderBackup, LuksHeaderRestore,
    LuksKillSlot, LuksNewKey, LuksPriority, LuksRemoveKey, LuksRepair, LuksSetPriority, LuksToken,
    LuksTokenAdd, LuksTokenExport, LuksTokenImport, LuksTokenRemove,
};
pub(crate) use common::{LuksContainer, LuksKdf, LuksKey, LuksTokenChoice};
pub(crate) use format::LuksFormat;
pub(crate) use look::{LuksBenchmark, LuksDump, LuksIsLuks, LuksUuid};
pub(crate) use open::{
    LuksCloseArgs, LuksOpenArgs, LuksOpenType, LuksPlain, LuksRefreshArgs, LuksResizeArgs,
    LuksResumeArgs, LuksServing, LuksStatusArgs, LuksSuspendArgs,
};
pub(crate) use reencrypt::{LuksReencryptArgs, LuksResilience};

/// Create, open and change LUKS containers, as cryptsetup does
///
/// A container is an encrypted file or disk. Its header protects the key by passphrases. Containers of this
/// program open with cryptsetup and the Linux kernel, and theirs open here. No kernel module is needed, and
/// an ordinary user can do all of it with own files.
///
/// Commands that show or change a header work on the file themselves. `open`, `close`, `status`, `refresh`,
/// `resize`, `suspend` and `resume` are for mappings. A mapping is the decrypted content of an open container, as a device in
/// the daemon. `strongroom nbd export` offers a mapping to other programs and to the kernel.
///
/// Keys, tokens and names of an open container can be changed. Commands that change keys wait up to a minute
/// for each other, and `reencrypt` works on an open one too. `format`, `erase`, `header-restore`,
/// `convert` and `repair` need it closed. A device can also be a volume of
/// a pool, as volume:tank/disk, or an export of an NBD server, as nbd://host/disk.
///
/// A container protects less than a dataset. Without --integrity its content is not authenticated: changes
/// by an attacker who can write to the device are not detected. With --integrity, an attacker can still put
/// back older sectors.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A container of 1 GiB in a file; asks twice for a passphrase:
    truncate -s 1G secret.img
    strongroom luks format secret.img

  Open it, show its state, and close it:
    strongroom luks open secret.img secret
    strongroom luks status secret
    strongroom luks close secret

  On a volume of a pool:
    strongroom create -V 10G tank/disk
    strongroom luks format volume:tank/disk
    strongroom luks open volume:tank/disk disk

  Add a second passphrase; back up the header:
    strongroom luks add-key secret.img
    strongroom luks header-backup secret.img --header-backup-file secret.header

EXIT CODES
  2 for a wrong argument; 3 if there is no such file, header, slot or mapping; 5 if the container
  is open; 7 if the passphrase opens no key slot; 9 if the header or key material is damaged; 10
  if the header has features that are unknown here; 11 if the header or the device has no free
  space.")]
pub(crate) enum Luks {
    Format(LuksFormat),
    Open(LuksOpenArgs),
    Close(LuksCloseArgs),
    Status(LuksStatusArgs),
    Refresh(LuksRefreshArgs),
    Resize(LuksResizeArgs),
    Suspend(LuksSuspendArgs),
    Resume(LuksResumeArgs),
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
    Reencrypt(LuksReencryptArgs),
    Repair(LuksRepair),
    Benchmark(LuksBenchmark),
}
