//! Sweeps over all free space: a trim tells the devices of it, an initialization writes a pattern to it. They need no
//! key, and are not stored: an export ends them.

use crate::engine::gate::CommitEngine;
use std::sync::Arc;
use store::{Store, UNIT};

pub use crate::engine::sweep::{SweepKind, SweepStatus};
use crate::error::{Error, Result};
use crate::format::jobs::scrub_status::ScrubPhase;
use crate::ops::pool::Pool;
use crate::storage::space::UNITS_MIN;

/// The pattern of an initialization, as in ZFS.
const PATTERN: [u8; 8] = 0xdead_beef_dead_beee_u64.to_le_bytes();

/// The failures after which a device is skipped.
const FAILURES_MAX: u64 = 16;

/// The sweeps over the free space of a pool.
#[derive(Clone, Copy)]
pub struct Sweeper<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The sweeps over free space: trim and initialization.
    pub fn sweeper(&self) -> Sweeper<'_> {
        Sweeper {
            engine: &self.engine,
        }
    }
}

impl Sweeper<'_> {
    /// The progress of a sweep, or the result of the last one since the import.
    pub fn status(&self, what: SweepKind) -> SweepStatus {
        self.engine.sweeps.of(what).lock().clone()
    }

    /// Begins a sweep from the start, of all devices or of one. A paused sweep continues from its position.
    pub fn start(&self, what: SweepKind, device: Option<u64>) {
        let total = self.engine.space.segments();
        let now = self.engine.env.now();
        let mut sweep = self.engine.sweeps.of(what).lock();
        match sweep.phase {
            ScrubPhase::Running => return,
            ScrubPhase::Paused => {}
            _ => {
                *sweep = SweepStatus {
                    started: now,
                    total,
                    device,
                    run: sweep.run + 1,
                    ..SweepStatus::default()
                }
            }
        }
        sweep.phase = ScrubPhase::Running;
    }

    /// Pauses a sweep.
    pub fn pause(&self, what: SweepKind) {
        let mut sweep = self.engine.sweeps.of(what).lock();
        if sweep.phase == ScrubPhase::Running {
            sweep.phase = ScrubPhase::Paused;
        }
    }

    /// Ends a sweep, whether it runs or is paused.
    pub fn stop(&self, what: SweepKind) {
        let now = self.engine.env.now();
        let mut sweep = self.engine.sweeps.of(what).lock();
        if matches!(sweep.phase, ScrubPhase::Running | ScrubPhase::Paused) {
            sweep.phase = ScrubPhase::Stopped;
            sweep.ended = now;
        }
    }

    /// Continues with about `budget` more bytes. False if nothing is left to do.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if a bitmap makes no sense. A device that fails is told by the status.
    pub fn step(&self, what: SweepKind, budget: u64) -> Result<bool> {
        let engine = self.engine;
        let mut sweep = self.status(what);
        let is_stopped = engine.read_only || engine.suspension.now().is_some();
        if sweep.phase != ScrubPhase::Running || is_stopped {
            return Ok(false);
        }
        let (run, mut left) = (sweep.run, budget);
        let least = match what {
            SweepKind::Trim => UNITS_MIN,
            SweepKind::Initialize => 1,
        };
        while left > 0 && sweep.phase == ScrubPhase::Running {
            // Another host may use the space that is free here.
            engine.check_lease()?;
            if sweep.examined >= sweep.total {
                sweep.phase = ScrubPhase::Finished;
                sweep.ended = engine.env.now();
                break;
            }
            let pieces = engine.space.free_pieces(sweep.examined, least);
            let pieces = match pieces {
                // The space of this segment cannot be used either.
                Err(error) if error.may_pass() || error.is_loss() => {
                    self.note_failure(&mut sweep, &error);
                    Vec::new()
                }
                pieces => pieces?,
            };
            sweep.examined += 1;
            // The check of a segment counts as work too.
            left = left.saturating_sub(u64::from(store::UNIT));
            for piece in pieces {
                let device = sweep.device;
                let act = |store: &Store| {
                    let (offset, len) = (piece.start * UNIT, piece.units * UNIT);
                    match what {
                        SweepKind::Trim => store.discard_on(device, piece.segment, offset, len),
                        SweepKind::Initialize => {
                            store.fill_on(device, piece.segment, (offset, len), PATTERN)
                        }
                    }
                };
                match engine.space.while_free(piece, act) {
                    Ok(bytes) => {
                        sweep.bytes += bytes;
                        left = left.saturating_sub(bytes);
                    }
                    Err(error) => self.note_failure(&mut sweep, &error),
                }
            }
        }
        let more = sweep.phase == ScrubPhase::Running;
        let mut current = engine.sweeps.of(what).lock();
        // A command may have paused or ended it meanwhile.
        if current.run == run && current.phase == ScrubPhase::Running {
            *current = sweep;
        }
        Ok(more)
    }

    fn note_failure(&self, sweep: &mut SweepStatus, error: &Error) {
        sweep.failures += 1;
        sweep.error = Some(error.to_string());
        if sweep.failures >= FAILURES_MAX {
            sweep.phase = ScrubPhase::Stopped;
            sweep.ended = self.engine.env.now();
        }
    }
}
