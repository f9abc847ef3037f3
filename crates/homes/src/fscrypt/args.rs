//! Directories that the kernel encrypts, with the files of the tool `fscrypt`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

/// Encrypt directories of ext4 and others with the kernel's fscrypt
///
/// The commands have the words of the tool fscrypt, and its files: a directory .fscrypt on the file system
/// has policies, which encrypt, and protectors, which open them: a passphrase or a key file. What one of the
/// two programs makes, the other opens.
///
/// MOUNTPOINT is a mountpoint with such a directory. For `metadata` and `status` it can also be a
/// directory of `stack init`. Policies of version 1 take root, and their keys are kept by the file system.
///
/// On a mount of `stack mount`, `encrypt`, `unlock`, `lock`, `status` and `purge` ask the process that serves
/// it. Only root and the user who mounted can do so.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Once for the machine, and once for a file system:
    strongroom fscrypt setup
    strongroom fscrypt setup /mnt/disk

  Encrypt an empty directory; asks twice for a passphrase:
    mkdir /mnt/disk/private
    strongroom fscrypt encrypt --name mine /mnt/disk/private
    strongroom fscrypt lock /mnt/disk/private
    strongroom fscrypt unlock /mnt/disk/private

FILES
  /etc/fscrypt.conf
      Ciphers, and what a guess at a passphrase costs; without it, the defaults. The
      variable FSCRYPT_CONF names another file.")]
pub enum Fscrypt {
    Setup(Setup),
    Encrypt(Encrypt),
    Recover(Recover),
    Unlock(Unlock),
    Lock(Lock),
    Status(FscryptStatusArgs),
    Purge(Purge),
    #[command(subcommand)]
    Metadata(Metadata),
}

/// Prepare the machine, or a file system, for fscrypt
///
/// Without MOUNTPOINT it writes /etc/fscrypt.conf and makes /.fscrypt, which needs root. With MOUNTPOINT
/// it makes the directory .fscrypt there, if there is none. Does not change features of file systems: for ext4 this is
/// `tune2fs -O encrypt DEVICE`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The machine, with passphrases that take two seconds to try:
    strongroom fscrypt setup --time 2s

  A file system on which all users may encrypt:
    strongroom fscrypt setup --all-users /mnt/disk

EXIT CODES
  4 if the machine is set up already, or another user owns the metadata; 6 if not permitted.")]
pub struct Setup {
    /// Time that a try at a new passphrase takes, as 300ms or 1.5s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) time: Duration,
    /// Replace the configuration if there is one
    #[arg(long)]
    pub(crate) force: bool,
    /// Allow all users to make policies and protectors on the file system
    #[arg(long)]
    pub(crate) all_users: bool,
    /// The file system; without it, the machine
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: Option<PathBuf>,
}

/// Encrypt an empty directory
///
/// Makes a new policy, and a new protector for it unless --protector names one. The directory gets the
/// mode 0700 and is unlocked. At a terminal, asks for the protector, its source and its name, if no option says them.
///
/// Login protectors are on the root file system, where the kernel encrypts. A protector on another file system can be
/// lost without the directory. The policy then gets a recovery passphrase too, as with `recover`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  With a new passphrase:
    strongroom fscrypt encrypt --name mine /mnt/disk/private

  With a key file of 32 bytes:
    strongroom keygen key
    strongroom fscrypt encrypt --source raw_key --name file --key key /mnt/disk/private

  With a protector that is there already:
    strongroom fscrypt encrypt --protector /mnt/disk:0123456789abcdef /mnt/disk/private

EXIT CODES
  1 if the directory is not empty, or its file system does not take part; 4 if it is encrypted
  already, or the name is taken; 7 if the key is wrong.")]
pub struct Encrypt {
    #[command(flatten)]
    pub(crate) new: NewProtector,
    /// Use this protector instead of a new one
    #[arg(long, value_name = "MOUNTPOINT:ID", conflicts_with_all = ["source", "name", "user", "policy"])]
    pub(crate) protector: Option<String>,
    /// Use this policy instead of a new one
    #[arg(long, value_name = "MOUNTPOINT:ID", conflicts_with_all = ["source", "name", "user"])]
    pub(crate) policy: Option<String>,
    /// Open the policy with this protector, where there are several
    #[arg(long, value_name = "MOUNTPOINT:ID", requires = "policy")]
    pub(crate) unlock_with: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    /// Make no recovery passphrase
    #[arg(long)]
    pub(crate) no_recovery: bool,
    /// Leave the directory locked
    #[arg(long)]
    pub(crate) skip_unlock: bool,
    /// The directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}

/// Give an encrypted directory a recovery passphrase
///
/// Makes a random passphrase of 20 letters that opens the policy of the directory too. Writes it into the file
/// fscrypt_recovery_readme.txt in the directory, which has to be unlocked. Copy it to a safe place.
///
/// Needs the secret of a protector that opens the policy.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Of a directory that a login passphrase opens:
    strongroom fscrypt recover /mnt/disk/private

  After the protector was lost, with the ID and the passphrase of the file:
    strongroom fscrypt unlock --unlock-with /mnt/disk:0123456789abcdef /mnt/disk/private

EXIT CODES
  1 if it is not encrypted, or locked; 4 if the file is there already; 7 if the key is wrong.")]
pub struct Recover {
    /// Open the policy with this protector, where there are several
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) unlock_with: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    /// The directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}

/// Give the kernel the key of a directory
///
/// It is locked again by `lock`, `purge`, or when the file system is unmounted. Login passphrases open
/// their protectors too.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  With a passphrase:
    strongroom fscrypt unlock /mnt/disk/private

  With a key file:
    strongroom fscrypt unlock --key key /mnt/disk/private

  A stacked directory that was mounted with --locked:
    strongroom fscrypt unlock /mnt/vault

EXIT CODES
  1 if it is not encrypted, or unlocked already; 7 if the passphrase or key is wrong; 9 if the
  metadata is damaged; 10 if it is of a newer version.")]
pub struct Unlock {
    /// Use this protector, where the policy has several
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) unlock_with: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    /// The directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}

/// Take the key of a directory from the kernel
///
/// Files that are open stay readable and writable until they are closed; the command then says so, and is to be
/// repeated. On a mount of `stack mount` all names are shown encrypted at once. Decrypted data may stay in free memory until the machine is off.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  When nothing uses it any more:
    strongroom fscrypt lock /mnt/disk/private

EXIT CODES
  1 if it is locked already; 5 if files are open, or other users have unlocked it.")]
pub struct Lock {
    /// Lock it for all users that have unlocked it, which needs root
    #[arg(long)]
    pub(crate) all_users: bool,
    /// The directory
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: PathBuf,
}

/// Show policies and protectors
///
/// Without PATH it lists the file systems. With a mountpoint that is set up it lists what is there. With
/// another path it shows the policy of that file or directory. Ordinary users see what belongs to them or
/// to root.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The policies and protectors of a file system:
    strongroom fscrypt status /mnt/disk

JSON
  A list of {\"mountpoint\", \"type\", \"encryption\", \"fscrypt\"}; {\"protectors\", \"policies\"}; or
  one policy {\"policy\", \"unlocked\", \"protectors\"}

EXIT CODES
  1 if the path is not encrypted; 3 if there is no metadata; 9 if it is damaged.")]
pub struct FscryptStatusArgs {
    /// A mountpoint, a directory or a file
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
}

/// Take all keys of a file system from the kernel
///
/// Locks all directories of the policies that are kept there, as `lock` does it for one. Policies of
/// version 1 take root.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Without being asked:
    strongroom fscrypt purge --force /mnt/disk

EXIT CODES
  5 if files are open, or other users have unlocked something.")]
pub struct Purge {
    /// Do not ask
    #[arg(long)]
    pub(crate) force: bool,
    /// The file system
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// Change policies and protectors themselves
///
/// What opens a policy can be lost with these commands, and with it all files of the policy.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Another passphrase:
    strongroom fscrypt metadata change-passphrase --protector /mnt/disk:0123456789abcdef")]
pub enum Metadata {
    #[command(subcommand)]
    Create(Create),
    Destroy(Destroy),
    ChangePassphrase(ChangePassphrase),
    AddProtectorToPolicy(AddProtector),
    RemoveProtectorFromPolicy(RemoveProtector),
    Dump(Dump),
}

/// Make a protector or a policy that nothing uses yet
///
/// `encrypt` takes them with --protector and --policy.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  A protector by passphrase:
    strongroom fscrypt metadata create protector --name mine /mnt/disk")]
pub enum Create {
    Protector(CreateProtector),
    Policy(CreatePolicy),
}

/// Make a protector
///
/// Asks twice for a passphrase, or takes a key file. Prints the ID of the protector.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  With a key file:
    strongroom fscrypt metadata create protector --source raw_key --name f --key key /mnt/disk")]
pub struct CreateProtector {
    #[command(flatten)]
    pub(crate) new: NewProtector,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    /// The file system
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// Make a policy
///
/// Its ciphers are those of the configuration. Prints the ID of the policy.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Opened by this protector:
    strongroom fscrypt metadata create policy --protector /mnt/disk:0123456789abcdef /mnt/disk")]
pub struct CreatePolicy {
    /// The protector that opens it
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) protector: String,
    #[command(flatten)]
    pub(crate) key: KeyFile,
    /// The file system
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// Destroy a protector, a policy, or all metadata of a file system
///
/// Files that nothing else opens are lost. Asks before it does so.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["protector", "policy", "mountpoint"]),
    after_help = "\
EXAMPLES
  A policy, without being asked:
    strongroom fscrypt metadata destroy --force --policy \\
        /mnt/disk:0123456789abcdef0123456789abcdef"
)]
pub struct Destroy {
    /// The protector
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) protector: Option<String>,
    /// The policy
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) policy: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub(crate) force: bool,
    /// All metadata of this file system
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: Option<PathBuf>,
}

/// Change the passphrase of a protector
///
/// Asks for the old one and twice for the new one. All that the protector opens opens with the new one.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The passphrase of this protector:
    strongroom fscrypt metadata change-passphrase --protector /mnt/disk:0123456789abcdef

EXIT CODES
  7 if the old passphrase is wrong.")]
pub struct ChangePassphrase {
    /// The protector
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) protector: String,
}

/// Have another protector open a policy
///
/// Needs the secrets of both: of the new protector first, then of one that opens the policy.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A second passphrase:
    strongroom fscrypt metadata add-protector-to-policy --protector /mnt/disk:0123456789abcdef \\
        --policy /mnt/disk:0123456789abcdef0123456789abcdef

EXIT CODES
  4 if it opens the policy already; 7 if a key is wrong.")]
pub struct AddProtector {
    #[command(flatten)]
    pub(crate) pair: Pair,
    /// Open the policy with this protector, where there are several
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) unlock_with: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyFile,
}

/// Have a protector not open a policy any more
///
/// The last protector of a policy cannot be removed. The protector itself stays. An old copy of the file
/// of the policy still opens with it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Without being asked:
    strongroom fscrypt metadata remove-protector-from-policy --force \\
        --protector /mnt/disk:0123456789abcdef \\
        --policy /mnt/disk:0123456789abcdef0123456789abcdef

EXIT CODES
  1 if it is the last one, or does not open the policy.")]
pub struct RemoveProtector {
    #[command(flatten)]
    pub(crate) pair: Pair,
    /// Do not ask
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show all of a protector or policy, without keys
///
/// Shows options, and what a guess at a passphrase costs.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["protector", "policy"]),
    after_help = "\
EXAMPLES
  A protector:
    strongroom fscrypt metadata dump --protector /mnt/disk:0123456789abcdef"
)]
pub struct Dump {
    /// The protector
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) protector: Option<String>,
    /// The policy
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) policy: Option<String>,
}

/// A protector and a policy.
#[derive(Args, Debug)]
pub struct Pair {
    /// The protector
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) protector: String,
    /// The policy
    #[arg(long, value_name = "MOUNTPOINT:ID")]
    pub(crate) policy: String,
}

/// The kind and the name of a new protector.
#[derive(Args, Debug)]
pub struct NewProtector {
    /// Source of the secret of a new protector; default: as the configuration says
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) source: Option<NewSource>,
    /// Name of a new protector
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// User whose login passphrase opens a new protector; default: the user who runs the command
    #[arg(long, value_name = "USERNAME")]
    pub(crate) user: Option<String>,
}

/// A key file.
#[derive(Args, Debug)]
pub struct KeyFile {
    /// The file with the 32 bytes of a raw_key protector, or with the key of a stacked directory without
    /// protectors; - is the standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

/// Sources of new protectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewSource {
    /// The login passphrase of a user; it is not compared with that of the account
    #[value(name = "pam_passphrase")]
    Login,
    /// A passphrase
    #[value(name = "custom_passphrase")]
    Passphrase,
    /// A file with 32 bytes
    #[value(name = "raw_key")]
    RawKey,
}

/// A time, as `300ms`, `1.5s` or `2h45m`.
fn time(text: &str) -> Result<Duration, String> {
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let at = rest.find(|c: char| c.is_ascii_alphabetic());
        let (number, after) = rest.split_at(at.unwrap_or(rest.len()));
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let unit = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err("it is a number with ms, s, m or h".into()),
        };
        let number: f64 = number.parse().map_err(|_| "it is no number".to_owned())?;
        seconds += number * unit;
        rest = after;
    }
    match text.is_empty() {
        true => Err("it is empty".into()),
        false => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
    }
}
