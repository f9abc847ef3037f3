//! Trim: tells the devices which space is free. Needs no key, and is not stored: an export ends it.

pub use crate::engine::trim::TrimStatus;
use crate::error::{Error, Result};
use crate::format::scrub_status::ScrubPhase;
use crate::ops::pool::Pool;

/// A device that fails so often is left alone.
const FAILURES_MAX: u64 = 16;

impl Pool {
    /// How far the trim is, or how the last one since the import ended.
    pub fn trim_status(&self) -> TrimStatus {
        self.engine.trim.lock().clone()
    }

    /// Begins a trim from the start, of all devices or of one; one that is paused goes on where it was.
    pub fn trim_start(&self, device: Option<u64>) {
        let total = self.engine.space.segments();
        let now = self.engine.env.now();
        let mut trim = self.engine.trim.lock();
        match trim.phase {
            ScrubPhase::Running => return,
            ScrubPhase::Paused => {}
            _ => {
                *trim = TrimStatus {
                    started: now,
                    total,
                    device,
                    run: trim.run + 1,
                    ..TrimStatus::default()
                }
            }
        }
        trim.phase = ScrubPhase::Running;
    }

    /// Pauses the trim.
    pub fn trim_pause(&self) {
        let mut trim = self.engine.trim.lock();
        if trim.phase == ScrubPhase::Running {
            trim.phase = ScrubPhase::Paused;
        }
    }

    /// Ends the trim, whether it runs or is paused.
    pub fn trim_stop(&self) {
        let now = self.engine.env.now();
        let mut trim = self.engine.trim.lock();
        if matches!(trim.phase, ScrubPhase::Running | ScrubPhase::Paused) {
            trim.phase = ScrubPhase::Stopped;
            trim.ended = now;
        }
    }

    /// Trims about `budget` bytes more. False once nothing is left to do.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if a bitmap makes no sense. A device that fails is told by the status.
    pub fn trim_step(&self, budget: u64) -> Result<bool> {
        let engine = &self.engine;
        let mut trim = self.trim_status();
        let is_stopped = engine.read_only || engine.suspension.now().is_some();
        if trim.phase != ScrubPhase::Running || is_stopped {
            return Ok(false);
        }
        let (run, mut left) = (trim.run, budget);
        while left > 0 && trim.phase == ScrubPhase::Running {
            // What is free here may be in use for another host.
            engine.check_lease()?;
            if trim.examined >= trim.total {
                trim.phase = ScrubPhase::Finished;
                trim.ended = engine.env.now();
                break;
            }
            let pieces = engine.space.free_pieces(trim.examined);
            let pieces = match pieces {
                // The space of this segment cannot be used either.
                Err(error) if error.may_pass() || error.is_loss() => {
                    self.note_failure(&mut trim, &error);
                    Vec::new()
                }
                pieces => pieces?,
            };
            trim.examined += 1;
            // Looking at a segment is work too.
            left = left.saturating_sub(u64::from(store::UNIT));
            for piece in pieces {
                match engine.space.trim(piece, trim.device) {
                    Ok(bytes) => {
                        trim.trimmed += bytes;
                        left = left.saturating_sub(bytes);
                    }
                    Err(error) => self.note_failure(&mut trim, &error),
                }
            }
        }
        let more = trim.phase == ScrubPhase::Running;
        let mut current = engine.trim.lock();
        // A command may have paused or ended it meanwhile.
        if current.run == run && current.phase == ScrubPhase::Running {
            *current = trim;
        }
        Ok(more)
    }

    fn note_failure(&self, trim: &mut TrimStatus, error: &Error) {
        trim.failures += 1;
        trim.error = Some(error.to_string());
        if trim.failures >= FAILURES_MAX {
            trim.phase = ScrubPhase::Stopped;
            trim.ended = self.engine.env.now();
        }
    }
}
