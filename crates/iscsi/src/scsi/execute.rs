//! Executes commands.

use std::io::IoSlice;

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::cdb::{BlockRange, Request, ScsiCommand, VerifySource};
use super::layout::WireLayout;
use super::layout::lists::{
    Capacity10, Capacity16, CommandRow, CommandTimeouts, CommandUsageHeader, CommandsHeader,
    LbaStatus, ListHeader, TaskFunctions, UnmapHeader, UnmapRange,
};
use super::reservation::Reservations;
use super::reservation_changes::permitted;
use super::seat::NexusState;
use super::sense::{CommandRefusal, Sense};
use super::table::{COMMANDS, find};
use super::unit::{CommandData, Port, RANGE_MAX, RANGES_MAX, ScsiUnit, TRANSFER_MAX};
use super::{inquiry, log, mode};

/// Ranges that GET LBA STATUS tells of at most.
const STATUS_MAX: usize = 256;
/// The medium is verified, compared, filled and fetched in pieces of this size: they are not counted.
const PIECE: usize = 64 << 10;

impl ScsiUnit {
    /// Carries out what was checked. `data` are those that the initiator sent; they may be changed. `begun` is how
    /// often commands of this initiator were aborted before this one.
    pub(crate) fn execute(
        &self,
        (seat, begun): (&NexusState, u64),
        request: &Request,
        data: &mut [u8],
        port: &Port<'_>,
    ) -> Result<CommandData, CommandRefusal> {
        use ScsiCommand as O;
        port.authorize(request)?;
        let answer = match request.operation {
            O::TestUnitReady => CommandData::Nothing,
            O::RequestSense { descriptors: false } => {
                CommandData::Data(Sense::NONE.fixed().to_vec())
            }
            O::RequestSense { descriptors: true } => {
                CommandData::Data(Sense::NONE.descriptors().to_vec())
            }
            O::Inquiry { vital: true, page } => {
                CommandData::Data(inquiry::vital(self, page, port)?)
            }
            O::Inquiry { page: 0, .. } => CommandData::Data(inquiry::standard(true)),
            O::Inquiry { .. } => return Err(Sense::FIELD_IN_CDB.into()),
            O::ReportLuns { select } => CommandData::Data(luns(select, port.luns)?),
            O::ReadCapacity10 => CommandData::Data(self.capacity_10()?),
            O::ReadCapacity16 => CommandData::Data(self.capacity_16()?),
            O::ModeSense {
                ten,
                no_blocks,
                page,
                subpage,
                which,
            } => CommandData::Data(mode::sense(
                (self, port),
                ten,
                no_blocks,
                page,
                subpage,
                which,
            )?),
            O::ModeSelect { save: true, .. } => return Err(Sense::FIELD_IN_CDB.into()),
            O::ModeSelect { ten, is_page, .. } => {
                mode::select((self, seat), ten, is_page, data)?;
                CommandData::Nothing
            }
            O::Read { blocks } => {
                let block = u64::from(self.block());
                CommandData::Read(blocks.first * block, blocks.count * block)
            }
            O::LogSense {
                page,
                subpage,
                from,
            } => CommandData::Data(log::sense(self, page, subpage, from)?),
            O::AskReservations { about } => CommandData::Data(self.about(about)?),
            O::Reserve { action, what, .. } => {
                self.reserve(seat, action, what, data)?;
                CommandData::Nothing
            }
            O::Simply { reserve } => {
                self.simply(seat, reserve)?;
                CommandData::Nothing
            }
            O::TaskFunctions { extended } => {
                CommandData::Data(task_functions(extended, port.is_read_only))
            }
            O::StartStop { start: true } => CommandData::Nothing,
            // The unit is not one initiator's to stop.
            O::StartStop { start: false } => return Err(Sense::FIELD_IN_CDB.into()),
            O::PreFetch { blocks } => {
                self.fetch(blocks)?;
                CommandData::Nothing
            }
            O::LbaStatus { first } => CommandData::Data(self.lba_status(first, request.room)?),
            O::Opcodes {
                timeouts,
                how,
                opcode,
                action,
            } => CommandData::Data(opcodes(timeouts, how, opcode, action)?),
            O::Flush { .. } if self.is_read_only || port.is_read_only => CommandData::Nothing,
            O::Flush { .. } => {
                self.flush(seat)?;
                CommandData::Nothing
            }
            O::Verify { blocks, compared } => {
                self.verify(blocks, compared, data)?;
                CommandData::Nothing
            }
            _ => self.change(seat, begun, &request.operation, data)?,
        };
        Ok(match answer {
            CommandData::Data(mut data) => {
                data.truncate(request.room);
                CommandData::Data(data)
            }
            other => other,
        })
    }

    /// Changes blocks, unless the command was aborted, or something is reserved, since it came.
    fn change(
        &self,
        seat: &NexusState,
        begun: u64,
        operation: &ScsiCommand,
        data: &mut [u8],
    ) -> Result<CommandData, CommandRefusal> {
        use ScsiCommand as O;
        let is_alone = matches!(
            operation,
            O::CompareAndWrite { .. } | O::OrWrite { .. } | O::WriteAndVerify { .. }
        );
        if is_alone {
            let held = self.held.write();
            may_go_on(&held, seat, begun, operation)?;
            self.change_alone(operation, data)?;
            // A command that compares must not come twice.
            self.settle()?;
            return Ok(CommandData::Nothing);
        }
        let held = self.held.read();
        may_go_on(&held, seat, begun, operation)?;
        self.change_shared(operation, data)?;
        drop(held);
        let len = match operation {
            O::WriteSame { blocks, .. } => blocks.count * u64::from(self.block()),
            _ => data.len() as u64,
        };
        self.look_for_shortage(len);
        Ok(match operation {
            O::Write { durable: true, .. } => CommandData::Nothing,
            _ => CommandData::Changed,
        })
    }

    /// Carries out a change that may run beside other changes.
    fn change_shared(&self, operation: &ScsiCommand, data: &mut [u8]) -> Result<(), Sense> {
        use ScsiCommand as O;
        let block = u64::from(self.block());
        let failed = |error| self.failed(&error, true);
        match *operation {
            O::Write { blocks, durable } => {
                let offset = blocks.first * block;
                match durable {
                    true => self.device.write_durably_at(offset, &[IoSlice::new(data)]),
                    false => self.device.write_in_place(offset, data),
                }
                .map_err(failed)
            }
            O::Unmap { len } if len != data.len() => Err(Sense::LIST_LENGTH),
            O::Unmap { .. } => self.unmap(data),
            O::WriteSame { blocks, zeros, .. } => {
                if !zeros && data.len() as u64 != block {
                    return Err(Sense::LIST_LENGTH);
                }
                let (offset, len) = (blocks.first * block, blocks.count * block);
                match data.iter().all(|byte| *byte == 0) {
                    true => self.device.zero(offset, len).map_err(failed),
                    false => self.fill(offset, len, data),
                }
            }
            _ => Err(Sense::FAILED),
        }
    }

    /// Carries out a command that reads and writes as one, without others at the same time.
    fn change_alone(&self, operation: &ScsiCommand, data: &mut [u8]) -> Result<(), Sense> {
        use ScsiCommand as O;
        match *operation {
            O::CompareAndWrite { blocks, durable } => self.compare_and_write(blocks, durable, data),
            O::OrWrite { blocks, durable } => self.or_write(blocks, durable, data),
            O::WriteAndVerify { blocks, compared } => self.write_and_verify(blocks, compared, data),
            _ => Err(Sense::FAILED),
        }
    }

    /// Writes a block again and again.
    fn fill(&self, offset: u64, len: u64, block: &[u8]) -> Result<(), Sense> {
        let piece = block.repeat((len.min(self.piece() as u64) as usize) / block.len());
        let mut done = 0;
        while done < len {
            let n = piece.len().min((len - done) as usize);
            let write = self
                .device
                .write_at(offset + done, &[IoSlice::new(&piece[..n])]);
            write.map_err(|error| self.failed(&error, true))?;
            done += n as u64;
        }
        Ok(())
    }

    fn unmap(&self, list: &[u8]) -> Result<(), Sense> {
        if list.is_empty() {
            return Ok(());
        }
        let (head, rest) = UnmapHeader::ref_from_prefix(list).map_err(|_| Sense::LIST_LENGTH)?;
        let ranges = rest
            .get(..head.ranges_len.get().into())
            .ok_or(Sense::LIST_LENGTH)?;
        // A part of a range at the end has no effect.
        let count = ranges.len() / size_of::<UnmapRange>();
        let ranges = <[UnmapRange]>::ref_from_prefix_with_elems(ranges, count);
        let (ranges, _) = ranges.map_err(|_| Sense::LIST_LENGTH)?;
        let ranges = ranges.iter().map(|it| BlockRange::new(it.first, it.count));
        let block = u64::from(self.block());
        if ranges.len() > RANGES_MAX
            || ranges.clone().map(|it| it.count).sum::<u64>() > RANGE_MAX / block
        {
            return Err(Sense::FIELD_IN_LIST);
        }
        for it in ranges.clone() {
            let end = it.first.checked_add(it.count);
            if end.is_none_or(|end| end > self.blocks()) {
                return Err(Sense::OUT_OF_RANGE);
            }
        }
        for it in ranges.filter(|it| it.count > 0) {
            let unmapped = self.device.discard(it.first * block, it.count * block);
            unmapped.map_err(|error| self.failed(&error, true))?;
        }
        Ok(())
    }

    fn compare_and_write(
        &self,
        blocks: BlockRange,
        durable: bool,
        data: &[u8],
    ) -> Result<(), Sense> {
        let block = u64::from(self.block());
        let (offset, len) = (blocks.first * block, (blocks.count * block) as usize);
        if data.len() != 2 * len {
            return Err(Sense::LIST_LENGTH);
        }
        self.in_pieces(ScsiUnit::read_alone, offset, len, |at, now| {
            same(now, &data[at..at + now.len()], at)
        })?;
        self.write(offset, durable, &data[len..])
    }

    fn write(&self, offset: u64, durable: bool, data: &[u8]) -> Result<(), Sense> {
        let pieces = &[IoSlice::new(data)];
        match durable {
            true => self.device.write_durably_at(offset, pieces),
            false => self.device.write_at(offset, pieces),
        }
        .map_err(|error| self.failed(&error, true))
    }

    fn or_write(&self, blocks: BlockRange, durable: bool, data: &mut [u8]) -> Result<(), Sense> {
        let offset = blocks.first * u64::from(self.block());
        self.in_pieces(ScsiUnit::read_alone, offset, data.len(), |at, now| {
            let part = data[at..].iter_mut();
            part.zip(now).for_each(|(new, old)| *new |= *old);
            Ok(())
        })?;
        self.write(offset, durable, data)
    }

    /// Writes, and reads again what is on the medium.
    fn write_and_verify(
        &self,
        blocks: BlockRange,
        compared: VerifySource,
        data: &[u8],
    ) -> Result<(), Sense> {
        let offset = blocks.first * u64::from(self.block());
        self.write(offset, false, data)?;
        let dropped = self.device.flush().and_then(|()| self.device.drop_cached());
        dropped.map_err(|error| self.failed(&error, true))?;
        self.in_pieces(
            ScsiUnit::read_alone,
            offset,
            data.len(),
            |at, now| match compared {
                VerifySource::Nothing => Ok(()),
                VerifySource::All | VerifySource::One => same(now, &data[at..at + now.len()], at),
            },
        )
    }

    /// Reads blocks and shows them to `look` in pieces, with the position of each.
    fn in_pieces(
        &self,
        read: impl Fn(&ScsiUnit, u64, &mut [u8]) -> Result<(), Sense>,
        offset: u64,
        len: usize,
        mut look: impl FnMut(usize, &[u8]) -> Result<(), Sense>,
    ) -> Result<(), Sense> {
        let mut room = vec![0; len.min(self.piece())];
        let mut done = 0;
        while done < len {
            let n = room.len().min(len - done);
            read(self, offset + done as u64, &mut room[..n])?;
            look(done, &room[..n])?;
            done += n;
        }
        Ok(())
    }

    /// The size of a piece, in whole blocks.
    fn piece(&self) -> usize {
        let block = self.block() as usize;
        (PIECE - PIECE % block).max(block)
    }

    /// Reads the first blocks, so that caches have them.
    fn fetch(&self, blocks: BlockRange) -> Result<(), Sense> {
        let block = u64::from(self.block());
        let left = self.blocks().saturating_sub(blocks.first);
        let count = if blocks.count == 0 {
            left
        } else {
            blocks.count
        };
        let len = (count.min(TRANSFER_MAX / block) * block) as usize;
        self.in_pieces(ScsiUnit::read, blocks.first * block, len, |_, _| Ok(()))
    }

    fn verify(&self, blocks: BlockRange, compared: VerifySource, data: &[u8]) -> Result<(), Sense> {
        let block = u64::from(self.block());
        let len = (blocks.count * block) as usize;
        let look = |done: usize, now: &[u8]| match compared {
            VerifySource::Nothing => Ok(()),
            VerifySource::All => {
                let given = data.get(done..done + now.len()).ok_or(Sense::LIST_LENGTH)?;
                same(now, given, done)
            }
            VerifySource::One => {
                let mut all = now.chunks(block as usize).enumerate();
                all.try_for_each(|(at, own)| same(own, data, done + at * block as usize))
            }
        };
        self.in_pieces(ScsiUnit::read, blocks.first * block, len, look)
    }

    /// The size of the device now: it may have grown.
    fn blocks_now(&self) -> Result<u64, Sense> {
        let size = self.device.refresh_size();
        let size = size.map_err(|error| self.failed(&error, false))?;
        Ok(size / u64::from(self.block()))
    }

    fn capacity_10(&self) -> Result<Vec<u8>, Sense> {
        let last = self.blocks_now()?.saturating_sub(1);
        let answer = Capacity10 {
            last: last.try_into().unwrap_or(u32::MAX).into(),
            block_len: self.block().into(),
        };
        Ok(answer.as_bytes().to_vec())
    }

    fn capacity_16(&self) -> Result<Vec<u8>, Sense> {
        /// Provisioned as needed. What unmapped blocks read as is not said.
        const PROVISIONED: u8 = 0x80;
        let answer = Capacity16 {
            last: self.blocks_now()?.saturating_sub(1).into(),
            block_len: self.block().into(),
            physical_exponent: self.physical_blocks().ilog2() as u8,
            provisioning: if self.is_read_only { 0 } else { PROVISIONED },
            ..Capacity16::ZERO
        };
        Ok(answer.as_bytes().to_vec())
    }

    fn lba_status(&self, first: u64, room: usize) -> Result<Vec<u8>, Sense> {
        let block = u64::from(self.block());
        let end = self.blocks();
        if first >= end {
            return Err(Sense::OUT_OF_RANGE);
        }
        let most = room.saturating_sub(size_of::<ListHeader>()) / size_of::<LbaStatus>();
        let most = most.clamp(1, STATUS_MAX);
        let mut ranges = Vec::new();
        let mut at = first;
        for _ in 0..most {
            if at >= end {
                break;
            }
            let most = (end - at).min(u64::from(u32::MAX)) * block;
            let status = self.device.status_at(at * block, most);
            let status = status.map_err(|error| self.failed(&error, false))?;
            // A block that is used in part is used.
            let (count, is_hole) = match status.len / block {
                0 => (1, false),
                count => (count, status.is_hole),
            };
            ranges.push(LbaStatus {
                first: at.into(),
                count: (count as u32).into(),
                status: is_hole.into(),
                ..LbaStatus::ZERO
            });
            at += count;
        }
        // The length counts the rest of the header too.
        let len = (4 + ranges.as_bytes().len() as u32).into();
        let header = ListHeader {
            len,
            ..ListHeader::ZERO
        };
        Ok([header.as_bytes(), ranges.as_bytes()].concat())
    }
}

fn may_go_on(
    held: &Reservations,
    seat: &NexusState,
    begun: u64,
    operation: &ScsiCommand,
) -> Result<(), CommandRefusal> {
    match seat.aborts() == begun {
        true => permitted(held, seat, operation),
        // Its initiator is not answered.
        false => Err(Sense::CLEARED.into()),
    }
}

/// The functions of task management that an initiator may use.
fn task_functions(extended: bool, is_read_only: bool) -> Vec<u8> {
    const ABORT_TASK: u8 = 0x80;
    const ABORT_TASK_SET: u8 = 0x40;
    const CLEAR_TASK_SET: u8 = 0x10;
    const UNIT_RESET: u8 = 0x08;
    const TARGET_RESET: u8 = 0x02;
    let own = ABORT_TASK | ABORT_TASK_SET;
    let all = match is_read_only {
        true => own,
        false => own | CLEAR_TASK_SET | UNIT_RESET | TARGET_RESET,
    };
    let answer = TaskFunctions {
        functions: all,
        additional_len: if extended { 12 } else { 0 },
        ..TaskFunctions::ZERO
    };
    let len = 4 + usize::from(answer.additional_len);
    answer.as_bytes()[..len].to_vec()
}

/// The answer to INQUIRY and the like for a number that no unit has.
pub(crate) fn absent(request: &Request, seen: &[u16]) -> Result<CommandData, Sense> {
    let mut data = match request.operation {
        ScsiCommand::Inquiry {
            vital: false,
            page: 0,
        } => inquiry::standard(false),
        ScsiCommand::ReportLuns { select } => luns(select, seen)?,
        ScsiCommand::RequestSense { .. } => Sense::NO_UNIT.fixed().to_vec(),
        _ => return Err(Sense::NO_UNIT),
    };
    data.truncate(request.room);
    Ok(CommandData::Data(data))
}

/// Checks that two pieces are equal. If not, the sense has the position of the difference.
fn same(own: &[u8], given: &[u8], before: usize) -> Result<(), Sense> {
    if own.len() != given.len() {
        return Err(Sense::LIST_LENGTH);
    }
    match own.iter().zip(given).position(|(own, given)| own != given) {
        None => Ok(()),
        Some(at) => Err(Sense::MISCOMPARE.at(before + at)),
    }
}

/// The numbers of the units that an initiator sees.
fn luns(select: u8, seen: &[u16]) -> Result<Vec<u8>, Sense> {
    let seen = match select {
        0 | 2 => seen,
        // Well known units only.
        1 => &[],
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let luns: Vec<[u8; 8]> = seen.iter().map(|lun| lun_bytes(*lun)).collect();
    let len = (luns.as_bytes().len() as u32).into();
    let header = ListHeader {
        len,
        ..ListHeader::ZERO
    };
    Ok([header.as_bytes(), luns.as_bytes()].concat())
}

/// A number as SAM-5 writes it: peripheral device addressing below 256, else flat space addressing.
fn lun_bytes(lun: u16) -> [u8; 8] {
    let [high, low] = lun.to_be_bytes();
    let how = if high == 0 { 0 } else { 0x40 };
    [how | high, low, 0, 0, 0, 0, 0, 0]
}

/// The number of the unit that a command is for. None has a number that is written otherwise.
pub(crate) fn lun_of(bytes: [u8; 8]) -> Option<u16> {
    let [first, second, 0, 0, 0, 0, 0, 0] = bytes else {
        return None;
    };
    match first >> 6 {
        0 if first == 0 => Some(second.into()),
        1 => Some(u16::from_be_bytes([first & 0x3f, second])),
        _ => None,
    }
}

fn opcodes(timeouts: bool, how: u8, opcode: u8, action: u16) -> Result<Vec<u8>, Sense> {
    const UNSUPPORTED: u8 = 1;
    const AS_STANDARD: u8 = 3;
    const HAS_TIMEOUTS: u8 = 0x80;
    let with_action = COMMANDS
        .iter()
        .any(|it| it.opcode() == opcode && it.action.is_some());
    let known = match (how, with_action) {
        (0, _) => return Ok(all_opcodes(timeouts)),
        (1, false) | (3, false) => find(opcode, 0).filter(|_| action == 0),
        (2, true) | (3, true) => find(opcode, action),
        _ => return Err(Sense::FIELD_IN_CDB),
    };
    let usage = known.map_or(&[][..], |it| it.usage);
    let timeouts = unknown_timeouts(timeouts && known.is_some());
    let header = CommandUsageHeader {
        support: match (known, timeouts) {
            (None, _) => UNSUPPORTED,
            (Some(_), []) => AS_STANDARD,
            (Some(_), _) => AS_STANDARD | HAS_TIMEOUTS,
        },
        usage_len: (usage.len() as u16).into(),
        ..CommandUsageHeader::ZERO
    };
    Ok([header.as_bytes(), usage, timeouts].concat())
}

/// Returns the descriptor of the timeouts of a command, none of which is known. Nothing if `wanted` is false.
fn unknown_timeouts(wanted: bool) -> &'static [u8] {
    const UNKNOWN: &CommandTimeouts = &CommandTimeouts {
        len: U16::new(size_of::<CommandTimeouts>() as u16 - 2),
        ..CommandTimeouts::ZERO
    };
    if wanted { UNKNOWN.as_bytes() } else { &[] }
}

fn all_opcodes(timeouts: bool) -> Vec<u8> {
    const HAS_ACTION: u8 = 0x01;
    const HAS_TIMEOUTS: u8 = 0x02;
    let mut rows = Vec::new();
    for known in COMMANDS {
        let action = if known.action.is_some() {
            HAS_ACTION
        } else {
            0
        };
        let row = CommandRow {
            opcode: known.opcode(),
            action: known.action.unwrap_or(0).into(),
            flags: action | if timeouts { HAS_TIMEOUTS } else { 0 },
            usage_len: (known.usage.len() as u16).into(),
            ..CommandRow::ZERO
        };
        rows.extend_from_slice(row.as_bytes());
        rows.extend_from_slice(unknown_timeouts(timeouts));
    }
    let len = (rows.len() as u32).into();
    [CommandsHeader { len }.as_bytes(), &rows].concat()
}
