//! The ledger of all writes: it judges what a machine reads.
//!
//! Writes have a rank: the first number of the writer, and then their order. Each write has a value of its own, so a value
//! that is read says which write it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::simulation::LIMITS;
use super::store::FrozenStore;
use super::world::{InstantExecutor, World, at_once};
use crate::device::line::{Line, LineLimits};
use crate::line::history::LineHistory;
use crate::line::names;
use crate::line::pool_object::DeviceFacts;

/// The bytes of a block. Each write of the actors is one.
pub(super) const BLOCK: u64 = 512;
/// The device of all simulations.
pub(super) const FACTS: DeviceFacts = DeviceFacts {
    guid: [7; 16],
    size: 1 << 20,
    header_size: 4096,
    window: LIMITS.window as u32,
    data: LIMITS.data as u32,
    removal: 1,
};
/// The blocks that actors write: in the header, in order, and those with durable writes only.
pub(super) const HEADERS: std::ops::Range<usize> = 0..2;
pub(super) const ORDERED: std::ops::Range<usize> = 2..7;
pub(super) const DURABLE: std::ops::Range<usize> = 7..9;
/// The number of blocks.
pub(super) const BLOCKS: usize = 9;

/// The place of a block on the device.
pub(super) fn offset_of(block: usize) -> u64 {
    match HEADERS.contains(&block) {
        true => block as u64 * BLOCK,
        false => FACTS.header_size + block as u64 * BLOCK,
    }
}

/// The bytes of a value.
pub(super) fn block_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// The value of a block.
pub(super) fn value_of(block: &[u8]) -> Result<u64, String> {
    let (value, _) = block.split_first_chunk().ok_or("a block is empty")?;
    let value = u64::from_le_bytes(*value);
    match block_of(value) == block {
        true => Ok(value),
        false => Err(format!(
            "a block has parts of others, and begins with {value:x}"
        )),
    }
}

/// The values of all blocks. 0 are zeros.
pub(super) type BlockValues = [u64; BLOCKS];

/// The place of a write in the order of all.
pub(super) type WriteRank = (u64, u64);

/// A write.
#[derive(Clone, Debug)]
struct LedgerLine {
    block: usize,
    value: u64,
    rank: WriteRank,
    /// The number of order points before it. `u64::MAX` while that is not sure.
    epoch: u64,
    is_alone: bool,
    is_durable: bool,
    /// For a write that is alone: the durable writes when it began.
    before: BTreeMap<usize, WriteRank>,
}

/// A writer, as the ledger sees it.
#[derive(Debug)]
pub(super) struct LedgerWriter {
    pub(super) first: u64,
    epoch: u64,
}

/// The ledger of all writes.
#[derive(Default)]
pub(super) struct Ledger {
    lines: Vec<LedgerLine>,
    by_value: BTreeMap<u64, usize>,
    writers: Vec<LedgerWriter>,
    /// The first number of the newest taker, and the values that it read.
    settled: Option<(u64, BlockValues)>,
    /// Values that were purged, and when the purge began.
    purged: BTreeMap<u64, Duration>,
    /// The first fault.
    pub(super) fault: Option<String>,
    pub(super) takes: u64,
    pub(super) acknowledged: u64,
    pub(super) crash_points: u64,
    pub(super) states_read: u64,
}

impl Ledger {
    pub(super) fn note(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Enters a writer. Returns its place in the ledger.
    pub(super) fn enter_writer(&mut self, first: u64) -> usize {
        self.writers.push(LedgerWriter { first, epoch: 0 });
        self.writers.len() - 1
    }

    /// Enters a write before it is made.
    pub(super) fn enter(
        &mut self,
        writer: usize,
        block: usize,
        value: u64,
        is_alone: bool,
    ) -> usize {
        let of = &self.writers[writer];
        let at = self.lines.len();
        self.lines.push(LedgerLine {
            block,
            value,
            rank: (of.first, at as u64),
            epoch: if is_alone { u64::MAX } else { of.epoch },
            is_alone,
            is_durable: false,
            before: match is_alone {
                true => self.durable(),
                false => BTreeMap::new(),
            },
        });
        if value != 0 {
            self.by_value.insert(value, at);
        }
        at
    }

    pub(super) fn order(&mut self, writer: usize) {
        self.writers[writer].epoch += 1;
    }

    /// Enters that a durable write was acknowledged.
    pub(super) fn acknowledge(&mut self, writer: usize, at: usize) {
        let epoch = self.writers[writer].epoch;
        let line = &mut self.lines[at];
        line.is_durable = true;
        line.epoch = line.epoch.min(epoch);
        self.acknowledged += 1;
        let line = line.clone();
        if let Some((first, values)) = &self.settled
            && *first > line.rank.0
            && !self.is_at_least(values, line.block, line.rank)
        {
            let fault =
                format!("{line:?} was acknowledged after {first} had taken the line without it");
            self.note(fault);
        }
    }

    /// The writes of a writer that are not alone, and not yet durable.
    pub(super) fn unflushed(&self, writer: usize) -> Vec<usize> {
        let first = self.writers[writer].first;
        let lines = self.lines.iter().enumerate();
        lines
            .filter(|(_, it)| it.rank.0 == first && !it.is_alone && !it.is_durable)
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns whether a block has a write of this rank, or a newer one. Zeros have many writes.
    fn is_at_least(&self, values: &BlockValues, block: usize, rank: WriteRank) -> bool {
        match values[block] {
            0 => self
                .lines
                .iter()
                .any(|it| it.block == block && it.value == 0 && it.rank >= rank),
            value => self.lines[self.by_value[&value]].rank >= rank,
        }
    }

    /// The durable writes of this moment.
    pub(super) fn durable(&self) -> BTreeMap<usize, WriteRank> {
        let mut durable = BTreeMap::new();
        for line in self.lines.iter().filter(|it| it.is_durable) {
            let newest = durable.entry(line.block).or_insert(line.rank);
            *newest = line.rank.max(*newest);
        }
        durable
    }

    /// Judges a value of one block.
    pub(super) fn judge_block(
        &self,
        block: usize,
        value: u64,
        durable: Option<WriteRank>,
    ) -> Result<(), String> {
        let mut values = BlockValues::default();
        values[block] = value;
        let of = self.by_value.get(&value).map(|at| &self.lines[*at]);
        if value != 0 && of.is_none_or(|of| of.block != block) {
            return Err(format!("block {block} has {value:x}, which is of {of:?}"));
        }
        match durable {
            Some(rank) if !self.is_at_least(&values, block, rank) => Err(format!(
                "{:?} was durable, and block {block} has {of:?}",
                self.lines[rank.1 as usize]
            )),
            _ => Ok(()),
        }
    }

    /// Judges what a machine reads at this moment.
    pub(super) fn judge(&self, values: &BlockValues) -> Result<(), String> {
        let durable = self.durable();
        for (block, value) in values.iter().enumerate() {
            self.judge_block(block, *value, durable.get(&block).copied())?;
        }
        self.judge_order(values)?;
        let Some((first, settled)) = &self.settled else {
            return Ok(());
        };
        for block in 0..BLOCKS {
            let is_same = values[block] == settled[block];
            if !is_same && !self.is_at_least(values, block, (*first, 0)) {
                return Err(format!(
                    "block {block} had {:x} when {first} took the line, and has an older write {:x} now",
                    settled[block], values[block]
                ));
            }
        }
        Ok(())
    }

    /// Judges the state of a reader that began when these writes were durable.
    pub(super) fn judge_state(
        &mut self,
        values: &BlockValues,
        durable: &BTreeMap<usize, WriteRank>,
    ) -> Result<(), String> {
        self.states_read += 1;
        for (block, value) in values.iter().enumerate() {
            self.judge_block(block, *value, durable.get(&block).copied())?;
        }
        self.judge_order(values)?;
        for value in values.iter().filter(|value| **value != 0) {
            let line = &self.lines[self.by_value[value]];
            for (block, rank) in &line.before {
                if !self.is_at_least(values, *block, *rank) {
                    return Err(format!(
                        "{line:?} is there without {:?}, which was durable before",
                        self.lines[rank.1 as usize]
                    ));
                }
            }
        }
        Ok(())
    }

    /// Judges the order: if a write after an order point is there, all of the writer's before it are, or newer ones.
    fn judge_order(&self, values: &BlockValues) -> Result<(), String> {
        let mut newest: BTreeMap<u64, &LedgerLine> = BTreeMap::new();
        for value in values.iter().filter(|value| **value != 0) {
            let line = &self.lines[self.by_value[value]];
            if !line.is_alone {
                let of_writer = newest.entry(line.rank.0).or_insert(line);
                if line.epoch > of_writer.epoch {
                    *of_writer = line;
                }
            }
        }
        for (first, shown) in newest {
            let before = self
                .lines
                .iter()
                .filter(|it| it.rank.0 == first && it.epoch < shown.epoch);
            for line in before {
                if !self.is_at_least(values, line.block, line.rank) {
                    return Err(format!(
                        "{shown:?} is there without {line:?}: block {} has {:x}",
                        line.block, values[line.block]
                    ));
                }
            }
        }
        Ok(())
    }

    /// Enters what a taker read.
    pub(super) fn settle(&mut self, first: u64, values: BlockValues) {
        self.takes += 1;
        if let Err(fault) = self.judge(&values) {
            self.note(format!("the taker {first}: {fault}"));
        }
        self.settled = Some((first, values));
    }

    /// The values that a block ever had.
    pub(super) fn values_of_block(&self, block: usize) -> Vec<u64> {
        let lines = self.lines.iter();
        lines
            .filter(|it| it.block == block && it.value != 0)
            .map(|it| it.value)
            .collect()
    }

    pub(super) fn purge(&mut self, values: Vec<u64>, begun: Duration) {
        self.purged
            .extend(values.into_iter().map(|value| (value, begun)));
    }

    /// Searches all objects for values that were purged. What a late request brought back does not count.
    pub(super) fn judge_purges(&self, world: &World) -> Result<(), String> {
        let state = world.state();
        for (name, bytes) in &state.shelf.objects {
            // The data of an object begins at its start, and is whole blocks.
            let blocks = bytes.chunks_exact(BLOCK as usize);
            let values = blocks.filter_map(|block| block.first_chunk());
            for value in values.map(|value| u64::from_le_bytes(*value)) {
                let Some(begun) = self.purged.get(&value) else {
                    continue;
                };
                if state.shelf.revived.get(name).is_none_or(|at| at < begun) {
                    return Err(format!("{name} has {value:x}, which was purged"));
                }
            }
        }
        Ok(())
    }
}

/// The values that a state leads to, with the objects of this moment.
pub(super) fn values(world: &World, history: &LineHistory) -> Result<BlockValues, String> {
    let mut values = BlockValues::default();
    for (block, value) in values.iter_mut().enumerate() {
        *value = value_in(world, history, block)?;
    }
    Ok(values)
}

/// The value of a block in a state, with the objects of this moment.
pub(super) fn value_in(world: &World, history: &LineHistory, block: usize) -> Result<u64, String> {
    let offset = offset_of(block);
    let mut bytes = Vec::new();
    for piece in history.map.pieces(offset..offset + BLOCK) {
        let at = piece
            .source
            .and_then(|is| is.at.map(|at| (is.object, u64::from(at))));
        let Some((object, at)) = at else {
            bytes.resize(bytes.len() + piece.len as usize, 0);
            continue;
        };
        let name = names::log(object);
        let part = world.state().shelf.part(&name, at..at + piece.len);
        let part =
            part.ok_or_else(|| format!("{name} is missing, and block {block} lies there"))?;
        if part.size != history.objects.get(&object).map_or(0, |is| is.size) {
            return Err(format!("{name} was emptied, and block {block} lies there"));
        }
        bytes.extend_from_slice(&part.bytes);
    }
    value_of(&bytes)
}

/// Reads the line of this moment, as an import would that begins and ends now.
pub(super) fn read_now(
    world: &Arc<World>,
    limits: LineLimits,
    has_checkpoints: bool,
) -> Result<BlockValues, String> {
    let store = Arc::new(FrozenStore {
        world: Arc::clone(world),
        has_checkpoints,
    });
    let line = Line::new(
        store,
        Arc::new(InstantExecutor),
        FACTS,
        (limits, [0xff; 16]),
    );
    at_once(line.open(None)).map_err(|error| error.to_string())?;
    let history = line.state().history.clone();
    values(world, &history)
}

/// Judges an import of this moment, and the same one without checkpoints.
pub(super) fn judge_now(world: &Arc<World>, limits: LineLimits, ledger: &mut Ledger) {
    ledger.crash_points += 1;
    let judged = read_now(world, limits, true).and_then(|values| {
        ledger.judge(&values)?;
        let without = read_now(world, limits, false)
            .map_err(|fault| format!("without checkpoints: {fault}"))?;
        match without == values {
            true => ledger.judge_purges(world),
            false => Err(format!(
                "with checkpoints {values:x?}, without {without:x?}"
            )),
        }
    });
    if let Err(fault) = judged {
        ledger.note(format!("an import now: {fault}"));
    }
}
