//! Arguments of `objects`.

use clap::{Args, Subcommand};

/// Check object stores
///
/// A pool can lie on an object store: S3 and what speaks like it, Google Cloud Storage, Azure Blob, or a folder. These
/// commands need no pool. The daemon reads the credentials in its own environment.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Can a pool rely on this bucket?
    strongroom objects probe s3://bucket/tank")]
pub(crate) enum Objects {
    Probe(ObjectsProbe),
}

/// Check whether a pool can rely on an object store
///
/// Asks the store for each guarantee that a pool needs. Up to 64 writers create one object at the same time, and
/// exactly one of them may succeed: this keeps two machines from writing to one pool. `pool create` makes the same
/// checks, with fewer races. That an answered write is durable cannot be checked, and a race that a store loses rarely may not be seen.
///
/// The checks send about 550 requests and 350 MiB. Their objects lie below `probe/` and are removed again. A pool at
/// the address is not touched, and may be in use. Only root can do this.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  Before a pool is made:
    strongroom objects probe s3://bucket/tank

  In a script:
    strongroom objects probe --json file:///mnt/nas/tank

JSON
  {\"store\", \"safe\", \"checks\": [{\"guarantee\", \"holds\", \"how\": null or the violation,
    \"consequence\"}, ...],
    \"leftovers\": [objects that could not be removed], \"requests\", \"bytes\"}

EXIT CODES
  2 for a wrong address; 6 without a right; 11 if the store does not answer, or breaks a promise.")]
pub(crate) struct ObjectsProbe {
    /// The address: s3://BUCKET/PREFIX, gs://, az:// or file:///DIR
    #[arg(value_name = "URL")]
    pub(crate) address: String,
}
