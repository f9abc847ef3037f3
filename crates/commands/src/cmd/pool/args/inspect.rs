//! `inspect`.

use clap::Args;

/// Show the structures of a pool; needs no key
///
/// A name without a slash that is no file here is an imported pool. Other arguments are the devices of a
/// pool that is not imported. Shows what anyone with the devices can see. -d shows datasets, -dd also their
/// seals, roots and logs, -ddd also their keyrings, -dddd also some records and waiting log entries.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Superblocks and space; all details:
    strongroom inspect tank
    strongroom inspect -dddd tank

  The keyrings of a pool that is not imported:
    strongroom inspect -ddd /dev/sdb /dev/sdc

  Check that each unit of space has exactly one owner:
    strongroom inspect --check tank

JSON
  {\"pool\", \"guid\", \"superblocks\": [...], \"datasets\": [{\"name\", \"id\", \"keychain\": [{\"txg\",
  \"wrapped_len\", ...}], \"log\": {\"chain\", \"sequence\", \"base\", \"offset\", \"chunks\": [...], \"count\",
  \"is_damaged\", \"entries\": [...]} or null, ...}], \"total\", \"free\", \"check\"}

EXIT CODES
  3 if there is no such pool; 9 if --check finds a fault, or the pool cannot be read.")]
pub(crate) struct Inspect {
    /// Show more detail; may be repeated
    #[arg(short, action = clap::ArgAction::Count)]
    pub(crate) detail: u8,
    /// Check that each unit of space has exactly one owner
    #[arg(long)]
    pub(crate) check: bool,
    /// An imported pool, or devices
    #[arg(value_name = "POOL|DEVICE", required = true)]
    pub(crate) targets: Vec<String>,
}
