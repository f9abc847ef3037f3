//! Directories that are encrypted file by file.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Encrypt a directory file by file, on any file system
///
/// A lower directory holds one encrypted file for each file, with an encrypted name. It can be on a disk, a
/// network file system or in a folder that is copied elsewhere. `stack mount` shows the files in clear at
/// another place. Contents and names are encrypted as Linux's fscrypt does it, with policies of version 2.
///
/// Contents are not authenticated: a change of an encrypted file is not noticed. Sizes, times, owners,
/// modes and the number of files stay visible. The key is a file of random bytes. These commands need no
/// daemon.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Make a key, prepare an empty directory, and use it:
    strongroom keygen ~/vault.key
    mkdir ~/vault.encrypted ~/vault
    strongroom stack init -d ~/vault.key ~/vault.encrypted
    strongroom stack mount -d ~/vault.key ~/vault.encrypted ~/vault

  In another terminal, end it:
    fusermount3 -u ~/vault")]
pub(crate) enum Stack {
    Init(StackInit),
    Mount(StackMount),
    Status(StackStatus),
}

/// Prepare an empty directory for encrypted files
///
/// Gives the directory a policy: ciphers, padding of names, and the identifier of the key. The policy is
/// kept in an extended attribute, so the file system of the directory must have such attributes. Copies of
/// the directory must keep them: without its attributes an encrypted file cannot be read.
#[derive(Args, Debug)]
#[command(
    override_usage = "strongroom stack init [OPTIONS] <-d FILE|--key-file FILE> <DIR>",
    after_help = "\
EXAMPLES
  With the default ciphers:
    strongroom keygen vault.key
    strongroom stack init -d vault.key /srv/encrypted

  For a machine without AES instructions:
    strongroom stack init -d vault.key --cipher adiantum /srv/encrypted

EXIT CODES
  1 if the directory is not empty, or its file system has no extended attributes; 3 if there is no
  such directory; 4 if it has a policy already; 8 if the key cannot be read."
)]
pub(crate) struct StackInit {
    #[command(flatten)]
    pub(crate) key: StackKey,
    /// The ciphers of contents and names
    #[arg(long, value_enum, value_name = "CIPHER", default_value = "aes-256")]
    pub(crate) cipher: StackCipher,
    /// Pad names to a multiple of 4, 8, 16 or 32 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32)]
    pub(crate) padding: usize,
    /// Who can read and change the attributes; default: trusted for root, user for others
    #[arg(long, value_enum, value_name = "SPACE")]
    pub(crate) attributes: Option<StackSpace>,
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Show the files of an encrypted directory in clear at another place
///
/// Serves the files until the file system is unmounted, and stays in the foreground. The first interrupt
/// unmounts it if it is not in use. The second one unmounts it by force. Root needs nothing else. Other
/// users need fusermount3.
///
/// Changes by other programs or other clients beneath the mount are seen: a file at the next time that it
/// is opened. With --private the kernel keeps what it knows, which is faster. Then nothing else may change
/// the lower directory. Two clients that write to the same 4096 bytes of a file at the same time can lose
/// one of the writes.
#[derive(Args, Debug)]
#[command(
    group = clap::ArgGroup::new("by").args(["key_file", "locked"]).required(true),
    override_usage = "strongroom stack mount [OPTIONS] <-d FILE|--locked> <DIR> <MOUNTPOINT>",
    after_help = "\
EXAMPLES
  Until it is unmounted:
    strongroom stack mount -d vault.key /srv/encrypted /mnt/vault

  On a directory that nothing else uses:
    strongroom stack mount --private -d vault.key /srv/encrypted /mnt/vault

  Without the key, to list and remove files:
    strongroom stack mount --locked /srv/encrypted /mnt/vault

EXIT CODES
  1 if it cannot be mounted, or the directory has no policy; 3 if there is no such directory; 7 if
  the key is wrong; 8 if the key cannot be read; 9 if the policy is damaged."
)]
pub(crate) struct StackMount {
    /// Read the key from this file, of 32 to 64 bytes; - is the standard input
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Use no key: names are shown encrypted, and contents are not readable
    #[arg(long)]
    pub(crate) locked: bool,
    /// Refuse changes
    #[arg(short, long)]
    pub(crate) read_only: bool,
    /// Let in other users; modes and owners decide what they may do
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Assume that nothing else changes the lower directory
    #[arg(long)]
    pub(crate) private: bool,
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The directory where the files are shown; it may be the lower directory itself
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
}

/// Show the policy of an encrypted directory
///
/// Needs no key. The identifier is derived from the key and tells which key the directory needs.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Ciphers, padding and key:
    strongroom stack status /srv/encrypted

JSON
  {\"format\", \"version\", \"contents\", \"names\", \"padding\", \"key\", \"attributes\"}

EXIT CODES
  1 if the directory has no policy; 3 if there is no such directory; 9 if the policy is damaged.")]
pub(crate) struct StackStatus {
    /// The lower directory
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// The key.
#[derive(Args, Debug)]
pub(crate) struct StackKey {
    /// Read the key from this file, of 32 to 64 bytes; - is the standard input
    #[arg(short = 'd', long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
}

/// Pairs of ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackCipher {
    /// AES-256-XTS, and AES-256-CBC-CTS for names
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
}

/// Name spaces of extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackSpace {
    /// Root only
    Trusted,
    /// The owner of each file
    User,
}
