//! Directories that are encrypted file by file.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use console::mount_options::{MountOption, stack_option};

/// Encrypt a directory file by file, on any file system
///
/// A lower directory holds one encrypted file for each file, with an encrypted name. It can be on a disk, a
/// network file system or in a folder that is copied elsewhere. `stack mount` shows the files in clear at
/// another place. There are three formats:
///
/// fscrypt is that of Linux, with policies of version 2. A passphrase opens it, or a file of random bytes that is the
/// key. Contents are not authenticated: nothing shows that an encrypted file was changed.
///
/// gocryptfs is that of the program gocryptfs, version 2, and the directories of one open with the other. A
/// passphrase opens it. Contents are authenticated: a changed block gives an error.
///
/// pefs is that of FreeBSD. Existing directories open with one of their passphrases or key files, and the
/// keys of its chain. Contents are not authenticated.
///
/// Sizes, times, owners, modes and the number of files stay visible in all. These commands need no
/// daemon.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Make a key, prepare an empty directory, and use it:
    strongroom keygen ~/vault.key
    mkdir ~/vault.encrypted ~/vault
    strongroom stack init -d ~/vault.key ~/vault.encrypted
    strongroom stack mount -d ~/vault.key ~/vault.encrypted ~/vault

  The same with a passphrase, in the format of gocryptfs:
    strongroom stack init --format gocryptfs ~/vault.encrypted
    strongroom stack mount ~/vault.encrypted ~/vault

  List the mounts, and end one:
    strongroom stack list
    strongroom stack unmount ~/vault")]
pub enum Stack {
    Init(StackInit),
    Passwd(StackPasswd),
    Mount(StackMount),
    #[command(visible_alias = "umount")]
    Unmount(StackUnmount),
    List(StackList),
    Status(StackStatus),
}

/// Prepare an empty directory for encrypted files
///
/// With the format fscrypt the directory gets a policy: ciphers, padding of names, and the identifier of the key. The
/// policy is kept in an extended attribute, so the file system of the directory must have such attributes. Copies of
/// the directory must keep them: without its attributes an encrypted file cannot be read. Without a key file the
/// command asks for a new passphrase. The directory .fscrypt then has the key, wrapped by the passphrase; `fscrypt
/// metadata` changes it. Without that directory nothing can be read.
///
/// With the format gocryptfs the command asks for a new passphrase, and writes gocryptfs.conf and
/// gocryptfs.diriv into the directory. Without these files nothing in it can be read.
///
/// With --reverse the files of the directory stay as they are, in clear, and it need not be empty. It gets
/// .gocryptfs.reverse.conf, and `stack mount --reverse` shows its files encrypted, for a backup.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom stack init [OPTIONS] <DIR>",
    after_help = "\
EXAMPLES
  Opened by a passphrase:
    strongroom stack init /srv/encrypted

  Opened by a key file:
    strongroom keygen vault.key
    strongroom stack init -d vault.key /srv/encrypted

  With authenticated contents:
    strongroom stack init --format gocryptfs /srv/encrypted

  With directories of several keys, beside files in clear:
    strongroom stack init --by-directory /srv/shared
    strongroom stack mount /srv/shared /mnt/shared
    mkdir /mnt/shared/mine
    strongroom fscrypt encrypt --name mine /mnt/shared/mine

  For a machine without AES instructions:
    strongroom stack init -d vault.key --cipher adiantum /srv/encrypted

  With contents encrypted and names in clear, for a server that works with names:
    strongroom stack init -d vault.key --clear-names /srv/encrypted

  For encrypted backups of a plain directory:
    strongroom stack init --format gocryptfs --reverse ~/documents

EXIT CODES
  1 if the directory is not empty, or its file system has no extended attributes; 3 if there is no
  such directory; 4 if it is encrypted already; 8 if the key cannot be read."
)]
pub struct StackInit {
    /// The format of the lower files
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "fscrypt")]
    pub(crate) format: StackFormat,
    #[command(flatten)]
    pub(crate) key: StackKey,
    /// The ciphers of contents and names
    #[arg(long, value_enum, value_name = "CIPHER", default_value = "aes-256")]
    pub(crate) cipher: StackCipher,
    /// With fscrypt: leave names unencrypted, as Lustre's null-name policy
    #[arg(long, conflicts_with = "padding")]
    pub(crate) clear_names: bool,
    /// With fscrypt: pad names to a multiple of 4, 8, 16 or 32 bytes; default: 32
    #[arg(long, value_name = "BYTES")]
    pub(crate) padding: Option<usize>,
    /// With fscrypt: who can read and change the attributes; default: trusted for root, user for others
    #[arg(long, value_enum, value_name = "SPACE")]
    pub(crate) attributes: Option<StackSpace>,
    /// With fscrypt: the version of the policy, 1 or 2; 1 is for old programs
    #[arg(long, value_name = "VERSION", default_value = "2",
          value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) policy_version: u8,
    /// With fscrypt: encrypt only those directories that `fscrypt encrypt` makes so in a mount
    #[arg(long, conflicts_with_all = ["key_file", "passfile", "cipher", "padding", "attributes", "policy_version", "clear_names"])]
    pub(crate) by_directory: bool,
    /// With gocryptfs: leave the files in clear, for mounts that show them encrypted
    #[arg(long, conflicts_with = "by_directory")]
    pub(crate) reverse: bool,
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Change the passphrase of a directory of gocryptfs
///
/// Asks for the old passphrase, then twice for the new one. Encrypts the master key with the new passphrase and
/// replaces the file gocryptfs.conf. After an error the old file is still there. Encrypted files do not change, and
/// mounts stay.
///
/// A copy of the old gocryptfs.conf still opens the directory with the old passphrase.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Change it:
    strongroom stack passwd /srv/encrypted

  Without asking:
    strongroom stack passwd --passfile old --new-passfile new /srv/encrypted

EXIT CODES
  1 if the directory has no gocryptfs.conf or .gocryptfs.reverse.conf; 3 if there is no such
  directory; 5 if that file was changed meanwhile; 6 if it cannot be written; 7 if the old
  passphrase is wrong; 8 if a passphrase cannot be read; 9 if that file is damaged.")]
pub struct StackPasswd {
    /// Read the old passphrase from the first line of this file, instead of asking
    #[arg(long, value_name = "FILE")]
    pub(crate) passfile: Option<PathBuf>,
    /// Read the new passphrase from the first line of this file, instead of asking
    #[arg(long, value_name = "FILE")]
    pub(crate) new_passfile: Option<PathBuf>,
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Show the files of an encrypted directory in clear at another place
///
/// Recognizes the format of the directory. Fscrypt and gocryptfs ask for the passphrase, or read it from
/// --passfile. Fscrypt also takes a key file that is the key itself. Pefs asks for the passphrase too, or
/// takes a key file; a directory of pefs is recognized by the entries .pefs.conf and .pefs.db.
///
/// Serves the files in the background until the file system is unmounted. With --foreground the command stays; then
/// the first interrupt unmounts if no file is in use, and the second one unmounts by force. Root needs nothing else.
/// Other users need fusermount3.
///
/// Changes by other programs or other clients beneath the mount are seen: a file at the next time that it
/// is opened, an attribute or the name of a directory after a second; with --cache none, and where other
/// machines can change the lower file system, at once. With --private the kernel keeps what it knows, which is faster. Then nothing else
/// may change the lower directory. Without it clients take turns at writing to the same 4096 bytes of a file. Where the
/// lower file system cannot give that to clients on several machines, the second client is refused, or --private is
/// needed to say that there is none. A read-only mount is not refused.
///
/// With --writeback too, small writes to an open file are several times faster. Errors of writing, such as a full file
/// system, come when the file is synced or closed. What was not synced or closed is lost if the process of the mount
/// is killed.
///
/// With --reverse it is the other way round: shows the files of a plain directory encrypted, in the format of
/// gocryptfs, to copy them to a place that must not read them. The same files give the same ciphertext each
/// time. Nothing can be changed there. A copy of all of it is an encrypted directory, which `stack mount` opens.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("by").args(["key_file", "passfile", "locked", "pefs"]),
    after_help = "\
EXAMPLES
  Until it is unmounted:
    strongroom stack mount -d vault.key /srv/encrypted /mnt/vault

  On a directory that nothing else uses:
    strongroom stack mount --private -d vault.key /srv/encrypted /mnt/vault

  Without the key, to list and remove files:
    strongroom stack mount --locked /srv/encrypted /mnt/vault

  Encrypted, to back it up:
    strongroom stack mount --reverse ~/documents /mnt/encrypted
    rsync -a --delete /mnt/encrypted/ backup@example.org:documents

EXIT CODES
  1 if it cannot be mounted, or the directory is not prepared; 3 if there is no such directory; 5 if
  files of the mountpoint would be hidden, without -O, or a client on another machine uses the
  directory and the two would lose each other's bytes; 7 if the key is wrong; 8 if the key cannot be
  read; 9 if the policy is damaged."
)]
pub struct StackMount {
    #[command(flatten)]
    pub(crate) key: StackKey,
    /// With fscrypt and pefs: use no key; names are shown encrypted, and contents are not readable
    #[arg(long)]
    pub(crate) locked: bool,
    /// Take it for a directory of pefs, and use no key
    #[arg(long, hide = true)]
    pub(crate) pefs: bool,
    /// Show the ciphertext of a plain directory
    #[arg(long, conflicts_with_all = ["locked", "pefs", "key_file"])]
    pub(crate) reverse: bool,
    /// Refuse changes
    #[arg(short, long)]
    pub(crate) read_only: bool,
    /// Let in other users; modes and owners decide what they may do
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Assume that nothing else changes the lower directory
    #[arg(long)]
    pub(crate) private: bool,
    /// Let the kernel gather writes, and send them later or when a program syncs or closes the file
    #[arg(long, requires = "private", conflicts_with = "reverse")]
    pub(crate) writeback: bool,
    /// Mount over a directory that is not empty
    #[arg(short = 'O', long)]
    pub(crate) overlay: bool,
    /// Time that the mount keeps attributes and directories: `auto`, a second if the lower file system is a local one;
    /// `none`, no time
    #[arg(
        long,
        value_name = "HOW",
        default_value = "auto",
        conflicts_with = "private"
    )]
    pub(crate) cache: CacheMode,
    /// Options of the mount: `ro`, `noexec`, `nosuid`, `nodev`, `noatime`, `nodiratime`; `remount` to
    /// change those of a mount. Of pefs: `nodircache`, to list the directory for each new name
    #[arg(
        short = 'o',
        value_name = "OPTION,...",
        value_delimiter = ',',
        value_parser = stack_option
    )]
    pub(crate) options: Vec<MountOption>,
    /// Stay in the foreground until it is unmounted
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Mark of the process of a mount in the background
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub(crate) detached: bool,
    /// Unmount by force when the standard input ends: the process that holds its other end has ended
    #[arg(long, hide = true, requires = "detached")]
    pub(crate) until_eof: bool,
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The directory where the files are shown; it may be the lower directory itself
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// Unmount an encrypted directory
///
/// What was written is in the lower directory then. A mount that a program uses stays as it is. With -f it
/// disappears at once: programs that have files open go on with them, and the last one that closes ends it.
/// A container or another mount namespace can keep a copy of the mount. Then it is gone here, and exit code 5 and a
/// message that names a process of the namespace say that the files are still readable there.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  End a mount:
    strongroom stack unmount ~/vault

EXIT CODES
  1 if the system refuses; 3 if no encrypted directory is mounted there; 5 if it is in use.")]
pub struct StackUnmount {
    /// Unmount it even if it is in use
    #[arg(short)]
    pub(crate) force: bool,
    /// Directory that shows the files
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// List the mounts of encrypted directories
///
/// Shows the lower directory, where its files are shown in clear, who mounted it, and whether changes are
/// refused. Needs no key.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Those of all users:
    strongroom stack list

JSON
  [{\"lower\", \"mountpoint\", \"user\", \"read_only\"}, ...]")]
pub struct StackList {
    /// No headings, and columns separated by a tab
    #[arg(short = 'H')]
    pub(crate) script: bool,
}

/// Show the format and ciphers of an encrypted directory
///
/// Needs no key. With fscrypt the identifier is derived from the key and tells which key the directory
/// needs.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Format, ciphers and key:
    strongroom stack status /srv/encrypted

JSON
  {\"format\", \"contents\", \"authenticated\", \"names\"}, and with fscrypt \"version\", \"padding\", \"key\"
  and \"attributes\"

EXIT CODES
  1 if the directory is not prepared; 3 if there is no such directory; 9 if the policy is damaged.")]
pub struct StackStatus {
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// The key that opens a directory.
#[derive(Args, Debug)]
pub struct StackKey {
    /// With fscrypt: read the key from this file, of 32 to 64 bytes, or 16 for AES-128; with pefs, of any length; - is the
    /// standard input. To mount directories of several keys with fscrypt, repeat it
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) key_file: Vec<PathBuf>,
    /// Read the passphrase from the first line of this file, instead of asking
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    pub(crate) passfile: Option<PathBuf>,
}

/// Formats of lower files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackFormat {
    /// The format of Linux
    Fscrypt,
    /// The format of gocryptfs, version 2
    Gocryptfs,
}

/// The trust of a mount in attributes and directories that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheMode {
    /// A second, if only this machine changes the lower file system
    Auto,
    /// No time
    None,
}

/// Pairs of ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackCipher {
    /// AES-256-XTS, and AES-256-CBC-CTS for names; with gocryptfs AES-256-GCM, and AES-256-EME for names
    #[value(name = "aes-256")]
    Aes256,
    /// AES-256-XTS, and AES-256-HCTR2 for names
    #[value(name = "aes-256-hctr2")]
    Aes256Hctr2,
    /// AES-128-CBC-ESSIV, and AES-128-CBC-CTS for names
    #[value(name = "aes-128")]
    Aes128,
    /// Adiantum for both
    Adiantum,
    /// With gocryptfs: XChaCha20-Poly1305, and AES-256-EME for names
    Xchacha20,
}

/// Name spaces of extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackSpace {
    /// Root only
    Trusted,
    /// The owner of each file
    User,
}
