//! The command of the PAM module.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Do one step of a login, for the PAM module
///
/// The PAM module pam_strongroom.so starts this command as root. It reads passphrases from the standard
/// input, one a line. Messages go to the standard error; the module writes them to the system's log.
///
/// A home can be a directory of pefs, or a dataset with keysource=passphrase,prompt whose mountpoint is the
/// home and whose owner is root or the user (strongroom set owner=USER DATASET). Login protectors of fscrypt open directories below mounts of `strongroom stack mount`. The
/// command reads files of the user with the rights of the user.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES
  See whether there is something to open for the user ann; the exit code is 3 if not:
    strongroom login find --user ann --uid 1000 --gid 1000 --home /home/ann

MODULE
  Lines in /etc/pam.d, after pam_unix.so; docs/LOGIN.md explains them:
    auth     optional pam_strongroom.so try_first_pass
    session  optional pam_strongroom.so delkeys
    password optional pam_strongroom.so use_authtok use_first_pass

  try_first_pass  use the passphrase that an earlier module got; if it is wrong, ask
  use_first_pass  use the passphrase that an earlier module got, and never ask
  use_authtok     a new passphrase is the one that an earlier module got
  ignore_missing  pefs: accept every passphrase, also one without a record in .pefs.db
  delkeys         remove keys of pefs and fscrypt when the last session of the user ends
  program=PATH    this program; root must own it and all directories above it
  timeout=SECONDS how long a step may take (60)
  debug           log each step

FILES
  /run/strongroom/logins
      The sessions of each user, and what they opened.

EXIT CODES
  3 if there is nothing to open; 7 if the passphrase is wrong.")]
pub struct LoginArgs {
    /// Step to take
    #[arg(value_name = "STEP")]
    pub(crate) step: LoginStep,

    /// The name of the user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,

    /// The number of the user
    #[arg(long, value_name = "UID")]
    pub(crate) uid: u32,

    /// The number of the user's group
    #[arg(long, value_name = "GID")]
    pub(crate) gid: u32,

    /// The home directory
    #[arg(long, value_name = "DIR")]
    pub(crate) home: PathBuf,

    /// The process that has the session
    #[arg(long, value_name = "PID")]
    pub(crate) process: Option<i32>,

    /// The dataset whose passphrase the login has checked, by its guid
    #[arg(long, value_name = "GUID")]
    pub(crate) dataset: Option<u64>,

    /// Accept every passphrase for a directory of pefs
    #[arg(long)]
    pub(crate) ignore_missing: bool,

    /// Remove keys when the last session of the user ends
    #[arg(long)]
    pub(crate) delkeys: bool,

    /// Say what is done
    #[arg(long)]
    pub(crate) debug: bool,

    /// Only this part, in this process
    #[arg(long, hide = true)]
    pub(crate) part: Option<LoginPart>,

    /// Directory of the encrypted files of the home
    #[arg(long, hide = true)]
    pub(crate) lower: Option<PathBuf>,

    /// Unmount what a login has mounted
    #[arg(long, hide = true)]
    pub(crate) unmounts: bool,
}

/// A step of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoginStep {
    /// See whether there is something to open
    Find,
    /// Check the passphrase of a login
    Auth,
    /// Check the passphrase that is to be changed
    Check,
    /// Begin a session: mount and add keys
    Open,
    /// End a session
    Close,
    /// Change the passphrase: the old one is read first, then the new one
    Password,
}

/// The part of a login that is done in a process of its own, with the rights of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoginPart {
    /// A home of pefs
    Pefs,
    /// Login protectors of fscrypt
    Fscrypt,
}
