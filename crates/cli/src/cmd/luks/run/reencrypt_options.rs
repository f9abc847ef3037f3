//! What options of re-encryption, encryption and decryption in place mean.

use daemon::Failure;
use luks::{Pace, Protection};
use protocol::api::FailureKind;

use crate::cmd::luks::args::{LuksReencrypt, LuksResilience};
use crate::outcome::LocalResult as Result;

/// The failure if another re-encryption was begun before.
pub(super) fn under_way(args: &LuksReencrypt) -> Failure {
    let name = args.container.device.display();
    Failure::new(
        FailureKind::Exists,
        format!(
            "{name} is being re-encrypted already, with its own options: continue it with \
             --resume-only"
        ),
    )
}

/// How much is encrypted anew, and how much at once.
pub(super) fn pace(args: &LuksReencrypt) -> Pace {
    Pace {
        zone: args.hotzone_size,
        device_size: args.device_size,
    }
}

/// What is kept of data that does not move.
pub(super) fn protection(args: &LuksReencrypt) -> Result<Protection> {
    let hash = args.resilience_hash.as_deref().unwrap_or("sha256");
    match args.resilience.unwrap_or(LuksResilience::Checksum) {
        LuksResilience::Checksum => Ok(Protection::Checksum(hash.into())),
        LuksResilience::Journal => Ok(Protection::Journal),
        LuksResilience::None => Ok(Protection::None),
        LuksResilience::Datashift
        | LuksResilience::DatashiftChecksum
        | LuksResilience::DatashiftJournal => Err(Failure::usage(
            "the data does not move: use the resilience checksum, journal or none",
        )),
    }
}
