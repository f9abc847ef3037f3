//! `notify`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Tell people of problems by mail, webhooks and programs
///
/// A problem is what `strongroom pool status` and `strongroom replicate status` advise about: a device that failed,
/// damaged data, a pool that is almost full, a scrub that is too long ago, keys that are not loaded after a start, a
/// copy that is behind. It is also a problem if the daemon does not answer.
///
/// Each target is told of a problem once, and again when it has been gone for 10 minutes. All that is new goes into
/// one message. A target gets at most 6 messages in an hour; what comes later waits for the next one. If a message cannot be
/// sent, it is tried again at the next run.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Send a test message to each target; see the problems that there are now:
    strongroom notify test
    strongroom notify run -n

FILE
  /etc/strongroom/notify.toml, which only its owner may read (mode 600):

    weekly = \"mon\"                         # a report each Monday at 8, also if all is well

    [[mail]]
    to = \"root\"                            # by /usr/sbin/sendmail

    [[webhook]]
    url = \"https://ntfy.sh/our-topic\"
    form = \"ntfy\"                          # ntfy, slack, matrix or json
    token-file = \"/etc/strongroom/ntfy\"    # sent as 'Authorization: Bearer'

    [[program]]
    path = \"/usr/local/bin/tell\"           # gets the message as JSON

  The url of matrix ends with 'rooms/ROOM/send/m.room.message'.")]
pub enum Notify {
    Run(NotifyRunArgs),
    Test(NotifyTestArgs),
}

/// Tell each target what is new since it was told last
///
/// strongroom-notify.timer runs this each minute. Problems that are told already are not told again.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Show what would be told now:
    strongroom notify run -n

JSON
  With -n: {\"problems\": [{\"pool\" or null, \"subject\", \"is_critical\", \"text\", \"action\"}, ...]}

EXIT CODES
  1 if a target was not told; 2 if the file is not understood, or others may read it; 3 if there is
  none; 5 if another run is under way.")]
pub struct NotifyRunArgs {
    /// Send nothing; print the problems that there are now
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) config: NotifyFile,
    /// Remember in this file what was told
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/strongroom/notify.json"
    )]
    pub(crate) state: PathBuf,
}

/// Send a test message to each target
///
/// Prints a row for each target: whether it took the message, and if not, why.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
    strongroom notify test

JSON
  [{\"target\", \"is_sent\", \"reason\"}, ...]

EXIT CODES
  1 if a target did not take it; 2 if the file is not understood, or others may read it; 3 if there
  is none.")]
pub struct NotifyTestArgs {
    #[command(flatten)]
    pub(crate) config: NotifyFile,
}

/// The file with the targets.
#[derive(Args, Debug)]
pub(crate) struct NotifyFile {
    /// Read the targets from this file
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "/etc/strongroom/notify.toml"
    )]
    pub(crate) config: PathBuf,
}
