//! Background work of a pool that commands begin, pause and end.

use pool::ScrubPhase;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};

/// The words for one kind of background work in messages.
pub(crate) struct BackgroundWork {
    /// The name of the work with an article: `a scrub`.
    pub(crate) noun: &'static str,
    /// The command that ends it.
    pub(crate) end: &'static str,
    /// The participle for its end: `stopped`.
    pub(crate) ended: &'static str,
}

impl BackgroundWork {
    /// Refuses to begin, stop or pause the work if its phase does not allow that.
    pub(crate) fn check(
        &self,
        phase: ScrubPhase,
        (stop, pause): (bool, bool),
        pool: &str,
    ) -> Result<()> {
        let BackgroundWork { noun, end, ended } = self;
        let none = |what: &str| {
            let text = format!("there is no {noun} of '{pool}' that could be {what}");
            Err(Failure::new(FailureKind::NotFound, text))
        };
        match phase {
            ScrubPhase::Running | ScrubPhase::Paused if stop => Ok(()),
            ScrubPhase::Running if pause => Ok(()),
            _ if stop => none(ended),
            _ if pause => none("paused"),
            ScrubPhase::Running => {
                let article = if noun.starts_with('i') { "an" } else { "a" };
                let verb = if *ended == "stopped" { "stop" } else { "end" };
                let text = format!(
                    "{article} {noun} of '{pool}' runs already; to {verb} it: strongroom {end} {pool}"
                );
                Err(Failure::new(FailureKind::Busy, text))
            }
            _ => Ok(()),
        }
    }
}
