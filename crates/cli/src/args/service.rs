//! The daemon, looking into pools, and what is made from this definition.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::values;

/// Look at the structures of a pool; needs no key
///
/// A name without a slash that is no file here is an imported pool; anything else are the devices of one
/// that is not imported. Shows what anybody can see who has the devices. More -d show more: one shows
/// datasets, two also their seals and roots and where their logs lie, three also their keyrings and four
/// also some of their records and of the entries that wait in their logs.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Superblocks and space; then everything:
    strongroom inspect tank
    strongroom inspect -dddd tank

  The keyring entries of a pool that is not imported:
    strongroom inspect -ddd /dev/sdb /dev/sdc

  Check that every unit of space belongs to exactly one thing:
    strongroom inspect --check tank

JSON
  {\"pool\", \"guid\", \"superblocks\": [...], \"datasets\": [{\"name\", \"id\", \"keychain\": [{\"txg\",
  \"wrapped_len\", ...}], \"log\": {\"chain\", \"sequence\", \"base\", \"offset\", \"chunks\": [...], \"count\",
  \"is_damaged\", \"entries\": [...]} or null, ...}], \"total\", \"free\", \"check\"}

EXIT CODES
  3 if there is no such pool; 9 if --check finds anything, or nothing can be read.")]
pub(crate) struct Inspect {
    /// More detail; may be repeated
    #[arg(short, action = clap::ArgAction::Count)]
    pub(crate) detail: u8,
    /// Check that every unit of space belongs to exactly one thing
    #[arg(long)]
    pub(crate) check: bool,
    /// An imported pool, or devices
    #[arg(value_name = "POOL|DEVICE", required = true)]
    pub(crate) targets: Vec<String>,
}

/// Print what to keep elsewhere to notice a rollback; or verify it
///
/// Whoever can write to the devices of a pool can put it back, or one of its datasets, to an earlier state
/// as a whole, and nothing in the pool tells. An anchor is a line that says which state a dataset had; keep
/// it where he cannot write: on paper, on another machine. `anchor verify` compares. A dataset that was
/// written to since is fine (`later`), one in an earlier state (`rolled-back`), with other contents
/// (`replaced`) or gone (`missing`) is not; `strongroom rollback` and `destroy` look alike.
///
/// Load the keys first: only then the present state is known to be the key holder's (VERIFIED).
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
  [{\"dataset\", \"guid\", \"anchored\", \"now\", \"outcome\", \"is_verified\"}], where outcome is
  same, later, rolled-back, replaced or missing.

EXIT CODES
  2 if a line is no anchor; 3 if there is no such dataset, or its pool is not imported; 9 if one
  is rolled back, replaced or missing."
)]
pub(crate) struct Anchor {
    /// Pools and datasets, with everything below them; all if none is given
    #[arg(value_name = "DATASET")]
    pub(crate) datasets: Vec<String>,
    #[command(subcommand)]
    pub(crate) command: Option<AnchorCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AnchorCommand {
    /// Compare with anchors that were kept
    ///
    /// Reads lines that `anchor` printed, and says of each dataset in them whether it has gone back behind
    /// that state. Load their keys first: VERIFIED then says whether the present state is the key holder's.
    #[command(after_help = "\
EXAMPLES
  Load the keys, and compare with what another machine kept:
    strongroom key load -r tank
    ssh backup cat tank.anchor | strongroom anchor verify")]
    Verify {
        /// A file with lines that `anchor` printed; the standard input if not given
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

/// Run, look at or stop the daemon
///
/// The daemon owns imported pools, loaded keys and mounts. It starts by itself when a command needs it,
/// so this is for a service manager, and for looking. Without a subcommand it runs in the foreground and
/// logs to the standard error.
///
/// A signal to terminate (SIGTERM, SIGINT, SIGHUP) unmounts everything, also what is in use, makes it
/// durable, exports the pools and ends it; the next start imports them again. STRONGROOM_LOG says what is
/// logged: error, warn, info (if it is not set), debug, trace, or such for parts, as in
/// `warn,daemon=debug`. STRONGROOM_HASH_MEMORY is the memory for all password hashes together, in MiB; a
/// quarter of the machine's if it is not set. There are no secrets in the log on any level. Metrics for Prometheus are at
/// metrics.sock beside the socket for commands.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
EXAMPLES
  In a service unit, with the pools in two files:
    strongroom daemon --cache-size 1G /var/lib/tank.pool /var/lib/backup.pool

  Whether it runs, and with what; then end it:
    strongroom daemon status
    strongroom daemon stop"
)]
pub(crate) struct Daemon {
    /// Start it in the background, with its log in the state directory, and return when it listens
    #[arg(long)]
    pub(crate) background: bool,
    /// What a daemon in the background is started with
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// Memory for what was read and decrypted; an eighth of the machine's if not given
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) cache_size: Option<u64>,
    /// Where to remember which pools were imported, for the next start
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Load the PKCS#11 modules in this list, and not those in /etc/strongroom/pkcs11
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
    /// Show whether the daemon runs, and with what
    ///
    /// Does not start it. Also shows which features of the processor the ciphers use: without them
    /// they are many times slower.
    #[command(after_help = "\
EXAMPLES
  Look:
    strongroom daemon status

JSON
  {\"version\", \"pid\", \"socket\", \"hardware\", \"pools\": [...]}

EXIT CODES
  13 if it does not run.")]
    Status,
    /// Unmount everything, export all pools and end the daemon
    ///
    /// What was written is durable when this returns, and loaded keys are gone.
    #[command(after_help = "\
EXAMPLES
  End it:
    strongroom daemon stop

EXIT CODES
  5 if something is in use; 13 if it does not run.")]
    Stop,
}

/// The shells that can complete command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print a script that completes command lines in a shell
///
/// The script knows all commands and options of this version; make it again after an upgrade.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Once, for this shell:
    eval \"$(strongroom completion bash)\"

  For every shell that starts:
    strongroom completion bash > /etc/bash_completion.d/strongroom
    strongroom completion zsh > /usr/share/zsh/site-functions/_strongroom
    strongroom completion fish > ~/.config/fish/completions/strongroom.fish")]
pub(crate) struct Completion {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Write the manual pages into a directory
///
/// One page for each command, strongroom-pool-create(1) for `strongroom pool create`, and strongroom(1)
/// for all. They say what `help` says.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Install and read them:
    strongroom man /usr/local/share/man/man1
    man strongroom-pool-status")]
pub(crate) struct Manual {
    /// The directory; it is made if there is none
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
