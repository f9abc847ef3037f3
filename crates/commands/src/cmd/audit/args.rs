//! Arguments of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use console::time_argument::TimeArgument;
use protocol::api::AuditAnchor;

/// Show, export and check the log of who did what to a pool
///
/// The history of a pool has a record of each command that changed keys, rights, data or devices. It has the time, the
/// user, the command line without secrets, and the guid of the object. A record is written in one commit with its change. So a
/// record says that the change was done, and a refused command has none. `key load` and `mount` change nothing in the pool:
/// they are in the log of the daemon.
///
/// Each record has a number, and a hash over itself and all records before it. So each record is an anchor. A log
/// that still has it has all records before it, unchanged and in order. Without an anchor the check finds only mistakes.
/// Root can write to the devices, and compute all hashes anew. So send the records to another machine.
///
/// A pool keeps its first records, and the newest 16 MiB. Only root sees them.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Who did what since Monday?
    strongroom audit list --since 2026-11-23 tank

  Send what is new to the log of the system, each time from where it was:
    strongroom audit export --syslog --position /var/lib/strongroom/audit.tank tank

  Keep the newest record elsewhere, and check with it later:
    strongroom audit verify tank
    strongroom audit verify tank 7:925e11be2b77c9d0853c55f065d1e99fa2c958b56acfbd04c66073e2712499f2")]
pub(crate) enum Audit {
    List(AuditListArgs),
    Export(AuditExportArgs),
    Verify(AuditVerifyArgs),
}

/// List who did what
///
/// RECORD is the number of the record. Records of a version before the hashes have none. Lines with a dot before the
/// command are parts of the command before, or actions of the pool itself.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All pools:
    strongroom audit list

  What one user did today:
    strongroom audit list --user ann --since 2026-11-29 tank

JSON
  [{\"pool\", \"sequence\", \"hash\", \"time\", \"txg\", \"who\", \"uid\", \"object\", \"internal\", \"command\",
  \"result\"}, ...]; sequence and hash are null without a hash, uid and object where there is none;
  result is done.

EXIT CODES
  3 if there is no such pool; 6 if the caller is not root.")]
pub(crate) struct AuditListArgs {
    /// Only from this time on: a date, or 2027-01-31T18:00
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<TimeArgument>,
    /// Only of this user: a name or a number
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
    /// The pool; default: all
    #[arg(value_name = "POOL")]
    pub(crate) pool: Option<String>,
}

/// Write records as lines of JSON
///
/// The lines go to the standard output. With --syslog they go to the journal of systemd, or to syslog. They are
/// from `strongroom-audit`, of the facility `authpriv`.
///
/// With --position only records after the last exported one are written. The file has the anchor of that record. If
/// the log does not have that record any more, it was cut off or changed. Then the command fails and writes
/// nothing. So each run also checks the log. After a crash records may be written twice, and none is left out.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All records, as a file:
    strongroom audit export tank > tank.audit

  By a timer, to the journal:
    strongroom audit export --syslog --position /var/lib/strongroom/audit.tank tank
    journalctl -t strongroom-audit

JSON
  Always: one object on each line, as 'audit list --json' has them.

EXIT CODES
  3 if there is no such pool; 6 if the caller is not root; 9 if the log contradicts itself or the
  position, or a record was dropped before it was exported.")]
pub(crate) struct AuditExportArgs {
    /// Write to the log of the system instead
    #[arg(long)]
    pub(crate) syslog: bool,
    /// Continue after the record in this file, and note the newest one there
    #[arg(long, value_name = "FILE")]
    pub(crate) position: Option<PathBuf>,
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// Check the hashes of the log, and whether it has a record
///
/// Prints the newest record as an anchor, NUMBER:HASH. Keep it where root of this machine cannot write. An exported record
/// is an anchor too: its `sequence` and `hash`.
///
/// With ANCHOR: `proved` means that the log has this record and all before it, unchanged. Those that were
/// dropped because of their age are not there, and those without a hash are not covered. `cut` means that the log
/// ends before it. An attacker cut off the end, or the pool went back to a checkpoint or an older copy.
/// `changed` means that another record is in its place. `dropped` means that the record was too old, and nothing is
/// proved. Records after the anchor are only as sound as the root of this machine.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  The newest record, and a later check:
    strongroom audit verify tank
    strongroom audit verify tank 7:925e11be2b77c9d0853c55f065d1e99fa2c958b56acfbd04c66073e2712499f2

JSON
  {\"pool\", \"records\", \"unchained\", \"dropped\", \"newest\": {\"sequence\", \"hash\"} or null, \"fault\",
  \"finding\"}, where finding is null, proved, dropped, cut or changed.

EXIT CODES
  1 if the record was dropped; 3 if there is no such pool; 6 if the caller is not root; 9 if the log
  contradicts itself or the anchor.")]
pub(crate) struct AuditVerifyArgs {
    /// The pool
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
    /// A record that has to be there, as NUMBER:HASH
    #[arg(value_name = "ANCHOR")]
    pub(crate) anchor: Option<AuditAnchor>,
}
