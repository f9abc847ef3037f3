//! `doctor`.

use clap::Args;

/// Check this machine, and say what to change
///
/// Checks what Strongroom needs from the machine: FUSE, locked memory, swap, hibernation, memory, threads,
/// open files, the processor, the clock and the daemon. Each check is `ok`, `warning` or `problem`. A problem
/// keeps Strongroom from working. A warning is a risk, or a limit that you may reach.
///
/// Run it as the user who uses Strongroom: limits differ between users. In a service or a container run it
/// there. It changes nothing and starts no daemon.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Check the machine:
    strongroom doctor

  Show warnings and problems only:
    strongroom doctor -x

JSON
  [{\"check\", \"state\", \"found\", \"advice\"}], where state is ok, warning or problem.

EXIT CODES
  1 if there is a problem; 0 with warnings.")]
pub(crate) struct Doctor {
    /// Show only what is not ok
    #[arg(short = 'x', long)]
    pub(crate) exceptions: bool,
}
