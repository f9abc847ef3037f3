//! The time that a daemon which ends waits for an object store that does not answer.

use std::time::Duration;

use crate::failure::{Failure, Result};

/// The variable with the seconds in place of [`PATIENCE_AT_STOP`].
const WAIT_VARIABLE: &str = "STRONGROOM_STORE_WAIT";
/// `TimeoutStopSec` of the service is longer.
pub(crate) const PATIENCE_AT_STOP: Duration = Duration::from_secs(60);

/// The time that a daemon which ends waits for an object store that does not answer.
///
/// # Errors
/// The variable has no number of seconds.
pub(crate) fn patience_at_stop() -> Result<Duration> {
    let Ok(text) = std::env::var(WAIT_VARIABLE) else {
        return Ok(PATIENCE_AT_STOP);
    };
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 3_600);
    let refused = || {
        Failure::usage(format!(
            "{WAIT_VARIABLE} is a number of seconds, up to 3600"
        ))
    };
    seconds.map(Duration::from_secs).ok_or_else(refused)
}
