//! Carries a command out, on whichever thread of the session.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::task::{ScsiTask, UnitReference};
use super::{Result, SessionContext};
use crate::scsi::cdb::ScsiCommand;
use crate::scsi::execute::{self, lun_of};
use crate::scsi::sense::CommandRefusal;
use crate::scsi::unit::{CommandData, Port, ScsiUnit};
use crate::wire::output::ResponseBuffer;

/// A device that takes longer for a command, beyond a nanosecond for each byte, is slow.
const SLOW: Duration = Duration::from_micros(100);

impl SessionContext {
    /// Carries a command out, and answers it.
    pub(super) fn carry_out(
        &self,
        task: &ScsiTask,
        data: &mut [u8],
        out: &mut ResponseBuffer,
    ) -> Result<()> {
        let begin = Instant::now();
        let done = self.carry_out_untimed(task, data, out);
        let took = begin.elapsed();
        if let Some(attached) = self.attached() {
            attached.target.latency.record(took);
        }
        if let Some(len) = task.moves() {
            let excess = (took.as_nanos() as u64).saturating_sub(len as u64);
            let before = self.excess.load(Relaxed);
            self.excess.store(before - before / 8 + excess / 8, Relaxed);
        }
        done
    }

    /// Returns whether reads and writes lately took long.
    pub(super) fn is_slow(&self) -> bool {
        Duration::from_nanos(self.excess.load(Relaxed)) > SLOW
    }

    /// Decides again whether the initiator may use a unit, if views or access have changed since a command came: it may
    /// have waited for its data, or for a helper. `None` if the initiator does not see the unit any more.
    fn is_read_only_now(
        &self,
        task: &ScsiTask,
        place: &UnitReference,
        unit: &Arc<ScsiUnit>,
    ) -> Option<bool> {
        let attached = self.attached()?;
        if attached.target.version() == place.version {
            return Some(place.is_read_only);
        }
        attached.view_now(lun_of(task.head.lun())?, unit)
    }

    fn carry_out_untimed(
        &self,
        task: &ScsiTask,
        data: &mut [u8],
        out: &mut ResponseBuffer,
    ) -> Result<()> {
        let Some(attached) = self.attached() else {
            return Ok(());
        };
        let target = &attached.target;
        let place = task.place.as_ref();
        let shown = place.and_then(|it| {
            let unit = it.unit.upgrade()?;
            let is_read_only = self.is_read_only_now(task, it, &unit)?;
            Some((unit, it, is_read_only))
        });
        let port = Port {
            target: target.name(),
            luns: &task.luns,
            is_read_only: shown.as_ref().is_none_or(|it| it.2),
        };
        let Some((unit, place, _)) = shown else {
            return match execute::absent(&task.request, port.luns) {
                Ok(CommandData::Data(data)) => self.send_data(out, &task.head, &data),
                Ok(_) => self.good(out, &task.head, task.need, task.asks),
                Err(sense) => self.fail(out, &task.head, sense),
            };
        };
        let seat = &place.seat;
        if seat.aborts() != place.begun {
            // It was aborted, and is not answered.
            return Ok(());
        }
        let is_sense = matches!(task.request.operation, ScsiCommand::RequestSense { .. });
        let attention = match is_sense {
            true => seat.attention(),
            false => None,
        };
        let outcome = match attention {
            Some(attention) => {
                let mut data = attention.fixed().to_vec();
                data.truncate(task.request.room);
                Ok(CommandData::Data(data))
            }
            None => {
                let len = data.len().min(task.need);
                let data = &mut data[..len];
                unit.execute((&**seat, place.begun), &task.request, data, &port)
            }
        };
        if seat.aborts() != place.begun {
            return Ok(());
        }
        match outcome {
            Ok(CommandData::Nothing) => self.good(out, &task.head, task.need, task.asks),
            Ok(CommandData::Changed) => self.changed(out, task, &unit),
            Ok(CommandData::Data(data)) => self.send_data(out, &task.head, &data),
            Ok(CommandData::Read(offset, len)) => {
                self.send_blocks(out, &task.head, &unit, (offset, len as usize))
            }
            Err(refused) => {
                if let CommandRefusal::Check(sense) = refused
                    && sense.is_of_device()
                    && let Some(failures) = self.failures.next_line()
                {
                    let lun = lun_of(task.head.lun());
                    let (target, initiator) = (target.name(), &seat.nexus.initiator);
                    tracing::warn!(
                        target, lun, initiator, %sense, failures, "a command of an initiator failed"
                    );
                }
                self.fail(out, &task.head, refused)
            }
        }
    }
}
