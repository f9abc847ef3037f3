//! The daemon, looking into pools, and what is made from this definition.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use console::values;

/// Print lines that show a rollback of the devices later
///
/// An attacker who can write to the devices can put back a whole pool or dataset to an earlier state. Nothing in the
/// pool shows this. An anchor is a line that says which state a dataset had. Keep it where the attacker cannot write:
/// on paper, or on another machine. `anchor verify` compares it with the pool.
///
/// Each encrypted dataset keeps the history of its states, under its key. So `anchor verify` can prove whether the
/// present state grew from the anchored one. Load the keys first. `same` and `later` are proved. `rolled-back` is an
/// older state, and `forked` one that did not grow from the anchored state; `replaced` is not what the holder of the
/// key wrote. `strongroom rollback` and `destroy` cause `rolled-back`, `forked` and `missing` too. `unknown` means that
/// nothing is proved, and WHY says what is missing. Datasets that are not encrypted have no anchors.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
EXAMPLES
  Keep the state of a pool on another machine, and compare later:
    strongroom anchor tank | ssh backup 'cat > tank.anchor'
    ssh backup cat tank.anchor | strongroom anchor verify

JSON
  [{\"dataset\", \"pool_guid\", \"txg\", \"guid\", \"sequence\", \"seal\"}]; of verify
  [{\"dataset\", \"guid\", \"anchored\", \"now\", \"outcome\", \"doubt\"}], where outcome is
  same, later, rolled-back, forked, replaced, missing or unknown, and doubt is null, no-key, clear,
  history-begins-later or history-damaged.

EXIT CODES
  0 of verify only if each dataset is proved to be same or later; 1 if a dataset is unknown for
  another reason than its key; 2 if a line is no anchor; 3 if there is no such dataset, or its pool
  is not imported; 8 if a key is not loaded; 9 if a dataset is rolled back, forked, replaced or
  missing."
)]
pub(crate) struct AnchorArgs {
    /// Pools and datasets, with all datasets below; default: all
    #[arg(value_name = "DATASET")]
    pub(crate) datasets: Vec<String>,
    #[command(subcommand)]
    pub(crate) command: Option<AnchorCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Compare datasets with their anchors
    ///
    /// Reads lines that `anchor` printed, and says for each dataset whether its state grew from the anchored one.
    /// Load the keys first: without them nothing is proved, and the command fails.
    #[command(after_help = "\
EXAMPLES
  Load the keys, and compare with anchors on another machine:
    strongroom key load -r tank
    ssh backup cat tank.anchor | strongroom anchor verify")]
    Verify {
        /// A file with anchors; default: the standard input
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Accept the present state of datasets that are refused as rolled back
    ///
    /// The daemon remembers the last state of each encrypted dataset that it has opened. It does not mount or export a
    /// dataset that did not grow from that state. `rollback` and the other commands on this machine that take a dataset
    /// back need no `accept`. Use it if another machine took the dataset back, or you restored its devices.
    #[command(after_help = "\
EXAMPLES
  The devices of a pool were restored from an old copy on purpose:
    strongroom anchor accept tank/home
    strongroom mount tank/home

EXIT CODES
  3 if there is no such dataset.")]
    Accept {
        /// The datasets
        #[arg(value_name = "DATASET", required = true)]
        names: Vec<String>,
    },
}

/// Run, show or stop the daemon
///
/// The daemon owns imported pools, loaded keys and mounts. A command that needs the daemon starts it. So
/// `daemon` is for a service manager. Without a subcommand it runs in the foreground and logs to the
/// standard error.
///
/// On SIGTERM, SIGINT or SIGHUP the daemon unmounts all datasets, even those in use, makes all writes
/// durable, exports the pools and ends. The next start imports them again.
///
/// STRONGROOM_LOG is the log level: error, warn, info (the default), debug or trace, also for one part as
/// in `warn,daemon=debug`. The log contains no secrets on any level. STRONGROOM_HASH_MEMORY is the memory
/// for all password hashes together, in MiB; the default is a quarter of the memory of the machine.
/// STRONGROOM_SSH is the program that jobs (`strongroom replicate`) use in the place of /usr/bin/ssh.
/// STRONGROOM_STORE_WAIT is the time in seconds that its end waits for an object store that does not answer;
/// the default is 60. Metrics for Prometheus are at metrics.sock beside the socket for commands.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
EXAMPLES
  In a service unit, with the pools in two files:
    strongroom daemon --cache-size 1G /var/lib/tank.pool /var/lib/backup.pool

  Show whether it runs; end it:
    strongroom daemon status
    strongroom daemon stop"
)]
pub(crate) struct DaemonArgs {
    /// Start it in the background, log to the state directory, and return when it listens
    #[arg(long)]
    pub(crate) background: bool,
    /// Mark of the process of a daemon in the background
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// End when the standard input ends: the process that holds its other end has ended
    #[arg(long, hide = true, conflicts_with = "background")]
    pub(crate) until_eof: bool,
    /// Memory for decrypted data; default: an eighth of the memory of the machine
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) cache_size: Option<u64>,
    /// The directory where the daemon remembers imported pools
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Use this list of PKCS#11 modules instead of /etc/strongroom/pkcs11
    #[arg(long, value_name = "FILE")]
    pub(crate) pkcs11_list: Option<PathBuf>,
    /// Import the pools on these devices at start
    #[arg(value_name = "PATH")]
    pub(crate) pools: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<DaemonCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Show whether the daemon runs, and its pools
    ///
    /// Does not start it. Also shows which features of the processor the ciphers use: without them ciphers
    /// are many times slower.
    #[command(after_help = "\
EXAMPLES
  Show the daemon:
    strongroom daemon status

JSON
  {\"version\", \"pid\", \"socket\", \"hardware\", \"pools\": [...]}

EXIT CODES
  13 if it does not run.")]
    Status,
    /// Unmount all datasets, export all pools and end the daemon
    ///
    /// All writes are durable when this command returns. Loaded keys are wiped. With -f it ends mounts in
    /// use and exports too, as SIGTERM does: programs that use them get errors.
    ///
    /// An object store that does not answer is waited for 60 seconds, with a message. Then its pool ends as
    /// after a power failure: synced data is safe, the rest may be lost. With -f that happens at once.
    #[command(after_help = "\
EXAMPLES
  End it:
    strongroom daemon stop

  End it although programs use its mounts:
    strongroom daemon stop -f

EXIT CODES
  5 if something is in use, without -f; 13 if it does not run.")]
    Stop {
        /// End mounts and exports that are in use
        #[arg(short)]
        force: bool,
    },
}

/// The shells that can complete command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print a script that completes commands in a shell
///
/// The script calls `strongroom` for what could be typed: commands, options, properties and their values, and the
/// names of pools, datasets and snapshots. Names come from the daemon that runs. No daemon is started for them,
/// and a daemon that does not answer within a second is left alone.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  For this shell:
    eval \"$(strongroom completion bash)\"

  For every new shell:
    strongroom completion bash > /etc/bash_completion.d/strongroom
    strongroom completion zsh > /usr/share/zsh/site-functions/_strongroom
    strongroom completion fish > ~/.config/fish/completions/strongroom.fish")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Explain exit codes, alerts and states, and what to do
///
/// Prints a page of the guide's chapter "When things go wrong". Without an argument it prints a table of what you may
/// see, and which page is about it. `strongroom help 9` prints the same as `strongroom explain 9`, and the manual page
/// strongroom-explain(1) has all pages. The command needs no daemon.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  What to do after a command ended with exit code 9:
    strongroom explain 9

  All exit codes; the page for a state, and for an alert:
    strongroom explain exit-codes
    strongroom explain SUSPENDED
    strongroom explain StrongroomPoolFull

JSON
  {\"name\", \"title\", \"text\"}, where text is Markdown

EXIT CODES
  3 if there is no such page.")]
pub(crate) struct Explain {
    /// An exit code, a state, an alert or a page; default: the table
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
}

/// Write the manual pages into a directory
///
/// strongroom(1) is the page for all commands. Each command has its own page: strongroom-pool-create(1) for
/// `strongroom pool create`. The pages say what `help` says.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Install and read them:
    strongroom man /usr/local/share/man/man1
    man strongroom-pool-status")]
pub(crate) struct Manual {
    /// The directory; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Print the version of this program, and what it was built from
///
/// Name these lines when you report a problem. `commit` is the commit of the sources. It is unknown in a program that
/// was not built by the scripts of the project. A pool with a newer format, or with another feature than these, needs
/// a newer program. A command and a daemon with different numbers of `protocol` refuse each other. `strongroom daemon
/// status` shows the version of the daemon that runs. The command needs no daemon.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Show the version; read the commit in a script:
    strongroom version
    strongroom --json version | jq -r .commit

JSON
  {\"version\", \"commit\", \"target\", \"protocol\", \"format\", \"features\": [...]}, where
  commit is null if it is unknown")]
pub(crate) struct VersionArgs {}
