//! Actors: machines that write to a line and read it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::ledger::{
    self, BLOCK, BLOCKS, BlockValues, DURABLE, FACTS, HEADERS, Ledger, ORDERED, block_of, offset_of,
};
use super::simulation::REMOVAL;
use super::store::{SimStore, StoreFaults};
use super::world::{ActorId, SimExecutor, World};
use crate::Error;
use crate::device::append::LineChange;
use crate::device::line::{Line, LineLimits};
use crate::line::log_object::{EndOf, LineEntry, RunKind};
use crate::line::names;
use crate::store::Executor;

/// The facts that all actors of a run share.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) world: Arc<World>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) limits: LineLimits,
    pub(super) faults: StoreFaults,
}

impl Stage {
    pub(super) fn line(&self, actor: ActorId) -> Arc<Line> {
        let world = Arc::clone(&self.world);
        let store = Arc::new(SimStore {
            world: Arc::clone(&world),
            actor,
            faults: self.faults,
        });
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.world.below(u64::MAX).to_le_bytes());
        let executor = Arc::new(SimExecutor { world, actor });
        Arc::new(Line::new(store, executor, FACTS, (self.limits, id)))
    }

    pub(super) fn note(&self, fault: impl Into<String>) {
        self.ledger.lock().note(fault.into());
    }

    async fn sleep(&self, most_ms: u64) {
        let time = self.world.some_time(most_ms);
        let world = Arc::clone(&self.world);
        SimExecutor { world, actor: 0 }.sleep(time).await;
    }

    /// Notes an error that no store explains.
    fn judge_error(&self, what: &str, error: &Error) {
        if matches!(error, Error::Damaged { .. } | Error::Missing { .. }) {
            self.note(format!("{what}: {error}"));
        }
    }

    /// Returns whether another machine has put an object on the line since a writer took it.
    fn is_overtaken(&self, line: &Line, first: u64) -> bool {
        let state = self.world.state();
        let later = state.shelf.objects.range(names::log(first)..);
        let mut later = later.filter(|(name, _)| name.starts_with(names::LOG));
        later.any(|(_, bytes)| {
            let read = LineEntry::read(bytes, bytes.len() as u64);
            !matches!(read, Ok(EndOf::Entry(entry)) if entry.writer == line.id)
        })
    }
}

/// A machine that takes the line and writes, several times.
pub(super) async fn write(stage: Stage, actor: ActorId) {
    for _ in 0..1 + stage.world.below(3) {
        let line = stage.line(actor);
        if let Some(values) = take(&stage, &line).await {
            let writer = Arc::new(ActiveWriter::new(&stage, line, values));
            match Arc::clone(&writer).work(actor).await {
                // It does not know yet that another machine has taken the line, and has removed objects.
                Err(Error::Missing { .. }) if stage.is_overtaken(&writer.line, writer.first) => {}
                Err(error) => stage.judge_error("a writer", &error),
                Ok(()) => {}
            }
        }
        stage.sleep(2000).await;
    }
}

/// Takes the line, sometimes from a writer that may be alive, and lets the ledger judge what it holds. `None` if that failed, or another machine was quicker.
pub(super) async fn take(stage: &Stage, line: &Arc<Line>) -> Option<BlockValues> {
    if let Err(error) = line.open(None).await {
        stage.judge_error("a taker that opens", &error);
        return None;
    }
    match stage.world.below(3) {
        0 => judge_taken(stage, line, line.take_over().await),
        _ => take_opened(stage, line).await,
    }
}

/// Takes a line that is open.
pub(super) async fn take_opened(stage: &Stage, line: &Arc<Line>) -> Option<BlockValues> {
    let mut taken = line.take().await;
    while matches!(taken, Err(Error::Refused { .. })) && stage.world.happens(800) {
        line.begin_anew();
        taken = line.take().await;
    }
    judge_taken(stage, line, taken)
}

fn judge_taken(stage: &Stage, line: &Arc<Line>, taken: crate::Result<()>) -> Option<BlockValues> {
    if let Err(error) = taken {
        stage.judge_error("a taker", &error);
        return None;
    }
    let (first, history) = {
        let state = line.state();
        (state.writer.as_ref()?.first, state.history.clone())
    };
    if stage.is_overtaken(line, first) {
        return None;
    }
    match ledger::values(&stage.world, &history) {
        Ok(values) => {
            stage.ledger.lock().settle(first, values);
            Some(values)
        }
        Err(fault) => {
            stage.note(format!("the taker {first}: {fault}"));
            None
        }
    }
}

/// A machine that has the line.
pub(super) struct ActiveWriter {
    stage: Stage,
    line: Arc<Line>,
    /// The first number of the writer, and its place in the ledger.
    first: u64,
    place: usize,
    values: Mutex<BlockValues>,
}

impl ActiveWriter {
    pub(super) fn new(stage: &Stage, line: Arc<Line>, values: BlockValues) -> ActiveWriter {
        let first = line.state().writer.as_ref().map_or(0, |it| it.first);
        ActiveWriter {
            place: stage.ledger.lock().enter_writer(first),
            first,
            stage: stage.clone(),
            line,
            values: Mutex::new(values),
        }
    }

    async fn work(self: Arc<Self>, actor: ActorId) -> crate::Result<()> {
        let aside = Arc::clone(&self);
        let world = &self.stage.world;
        if world.happens(500) {
            world.spawn(
                actor,
                Box::pin(async move {
                    let _ = aside.write_aside().await;
                }),
            );
        }
        for _ in 0..world.below(60) {
            self.act().await?;
        }
        match world.below(3) {
            0 => self.close().await,
            1 => self.flush().await?,
            _ => {}
        }
        Ok(())
    }

    async fn act(&self) -> crate::Result<()> {
        let world = &self.stage.world;
        let ordered = ORDERED.start + world.below(ORDERED.len() as u64) as usize;
        let header = HEADERS.start + world.below(HEADERS.len() as u64) as usize;
        match world.below(100) {
            0..35 => self.write(ordered).await,
            35..43 => self.write(header).await,
            43..50 => self.write_durably(ordered).await,
            50..62 => {
                self.line.order()?;
                self.stage.ledger.lock().order(self.place);
                Ok(())
            }
            62..76 => self.flush().await,
            76..80 => self.clear(RunKind::Zeros, ordered).await,
            80..86 => self.clear(RunKind::Discard, ordered).await,
            86..89 => self.overwrite(header).await,
            89..92 => self.batch().await,
            92..94 => {
                self.stage.sleep(3000).await;
                Ok(())
            }
            _ => {
                self.check(if world.happens(300) { header } else { ordered })
                    .await
            }
        }
    }

    /// Repeats what the store refuses, as an administrator does who has given the right back.
    async fn again<F>(&self, mut request: impl FnMut() -> F) -> crate::Result<()>
    where
        F: Future<Output = crate::Result<()>>,
    {
        loop {
            match request().await {
                Err(Error::Refused { .. }) if self.stage.world.happens(800) => {
                    self.line.begin_anew();
                }
                done => return done,
            }
        }
    }

    pub(super) async fn write(&self, block: usize) -> crate::Result<()> {
        let value = self.stage.world.below(u64::MAX - 1) + 1;
        self.stage
            .ledger
            .lock()
            .enter(self.place, block, value, false);
        self.values.lock()[block] = value;
        let bytes = block_of(value);
        let change = LineChange::write(offset_of(block), &bytes);
        self.again(|| self.line.change(change)).await
    }

    pub(super) async fn write_durably(&self, block: usize) -> crate::Result<()> {
        let value = self.stage.world.below(u64::MAX - 1) + 1;
        let at = self
            .stage
            .ledger
            .lock()
            .enter(self.place, block, value, true);
        self.values.lock()[block] = value;
        let bytes = block_of(value);
        let change = LineChange::write(offset_of(block), &bytes);
        self.again(|| self.line.change_durably(change)).await?;
        self.stage.ledger.lock().acknowledge(self.place, at);
        Ok(())
    }

    /// Durable writes beside all others, as an intent log makes them.
    async fn write_aside(&self) -> crate::Result<()> {
        for _ in 0..self.stage.world.below(20) {
            let block = DURABLE.start + self.stage.world.below(DURABLE.len() as u64) as usize;
            self.write_durably(block).await?;
            self.stage.sleep(500).await;
        }
        Ok(())
    }

    /// Makes changes that count together. Some writers end before the batch does.
    async fn batch(&self) -> crate::Result<()> {
        let world = &self.stage.world;
        self.again(|| self.line.begin_batch()).await?;
        self.stage.ledger.lock().begin_batch(self.place);
        for _ in 0..1 + world.below(12) {
            let ordered = ORDERED.start + world.below(ORDERED.len() as u64) as usize;
            let header = HEADERS.start + world.below(HEADERS.len() as u64) as usize;
            match world.below(10) {
                0..6 => self.write(ordered).await?,
                6..8 => self.write(header).await?,
                8 => self.clear(RunKind::Zeros, ordered).await?,
                _ => self.again(|| self.line.flush()).await?,
            }
        }
        if world.happens(150) {
            self.close().await;
            return self.line.state().check();
        }
        let unflushed = self.stage.ledger.lock().unflushed(self.place);
        self.again(|| self.line.end_batch()).await?;
        let mut ledger = self.stage.ledger.lock();
        unflushed
            .into_iter()
            .for_each(|at| ledger.acknowledge(self.place, at));
        ledger.end_batch(self.place);
        Ok(())
    }

    /// Zeros or discards one block or several.
    async fn clear(&self, kind: RunKind, block: usize) -> crate::Result<()> {
        let blocks = 1 + self.stage.world.below((ORDERED.end - block) as u64) as usize;
        for block in block..block + blocks {
            self.stage.ledger.lock().enter(self.place, block, 0, false);
            self.values.lock()[block] = 0;
        }
        let change = LineChange {
            kind,
            offset: offset_of(block),
            len: blocks as u64 * BLOCK,
            bytes: &[],
        };
        self.again(|| self.line.change(change)).await
    }

    /// Flushes, and lets the ledger judge purges.
    pub(super) async fn flush(&self) -> crate::Result<()> {
        let unflushed = self.stage.ledger.lock().unflushed(self.place);
        self.again(|| self.line.flush()).await?;
        let mut ledger = self.stage.ledger.lock();
        unflushed
            .into_iter()
            .for_each(|at| ledger.acknowledge(self.place, at));
        ledger.order(self.place);
        Ok(())
    }

    /// Overwrites a block of a header, and flushes. No object has its values then.
    async fn overwrite(&self, block: usize) -> crate::Result<()> {
        self.stage.ledger.lock().enter(self.place, block, 0, false);
        self.values.lock()[block] = 0;
        let offset = offset_of(block);
        let change = LineChange {
            kind: RunKind::Zeros,
            offset,
            len: BLOCK,
            bytes: &[],
        };
        self.again(|| self.line.change(change)).await?;
        self.line.state().purges.insert(offset..offset + BLOCK);
        let values = self.stage.ledger.lock().values_of_block(block);
        let begun = self.stage.world.state().now;
        self.flush().await?;
        let mut ledger = self.stage.ledger.lock();
        ledger.purge(values, begun);
        if let Err(fault) = ledger.judge_purges(&self.stage.world) {
            ledger.note(fault);
        }
        Ok(())
    }

    /// Reads a block, which only this writer changes.
    async fn check(&self, block: usize) -> crate::Result<()> {
        let mut bytes = vec![0; BLOCK as usize];
        match self.line.read(offset_of(block), &mut bytes).await {
            Err(Error::Missing { .. }) if self.stage.is_overtaken(&self.line, self.first) => {
                return Ok(());
            }
            read => read?,
        }
        let expected = self.values.lock()[block];
        let read = ledger::value_of(&bytes);
        if read.as_ref() != Ok(&expected) {
            self.stage.note(format!(
                "block {block} was read as {read:x?}, not {expected:x}"
            ));
        }
        Ok(())
    }

    pub(super) async fn close(&self) {
        self.line.close().await;
    }
}

/// A machine that only reads: it reads the line, stops for any time, reads blocks, and begins again.
pub(super) async fn read(stage: Stage, actor: ActorId) {
    let line = stage.line(actor);
    for _ in 0..1 + stage.world.below(3) {
        let durable = stage.ledger.lock().durable();
        let since = stage.world.state().now;
        if let Err(error) = line.open(None).await {
            stage.judge_error("a reader that opens", &error);
            return;
        }
        let reader = StateReader::new(&stage, Arc::clone(&line), since);
        let values: Option<Vec<u64>> = reader.values.iter().copied().collect();
        if let Some(values) = values.and_then(|values| values.try_into().ok()) {
            let judged = stage.ledger.lock().judge_state(&values, &durable);
            if let Err(fault) = judged {
                stage.note(format!("a reader: {fault}"));
            }
        }
        reader.work().await;
    }
}

/// A machine that has read a state of the line.
struct StateReader {
    stage: Stage,
    line: Arc<Line>,
    /// The moment when it began to read the line.
    since: Duration,
    /// The values of the state, of those blocks whose objects were there when it had read the line.
    values: Vec<Option<u64>>,
}

impl StateReader {
    fn new(stage: &Stage, line: Arc<Line>, since: Duration) -> StateReader {
        let history = line.state().history.clone();
        let mut reader = StateReader {
            stage: stage.clone(),
            line,
            since,
            values: Vec::new(),
        };
        for block in 0..BLOCKS {
            let value = ledger::value_in(&stage.world, &history, block);
            if let Err(fault) = &value
                && reader.is_owed(block)
            {
                stage.note(format!("a reader that has opened: {fault}"));
            }
            reader.values.push(value.ok());
        }
        reader
    }

    /// Returns whether the objects of a block have to be there. A purge of a header waits for no reader.
    fn is_owed(&self, block: usize) -> bool {
        let now = self.stage.world.state().now;
        now < self.since + REMOVAL && !HEADERS.contains(&block)
    }

    async fn work(&self) {
        for _ in 0..self.stage.world.below(30) {
            let block = self.stage.world.below(BLOCKS as u64) as usize;
            let mut bytes = vec![0; BLOCK as usize];
            match self.line.read(offset_of(block), &mut bytes).await {
                Ok(()) => {
                    let read = ledger::value_of(&bytes);
                    if let Some(value) = self.values[block]
                        && read.as_ref() != Ok(&value)
                    {
                        let fault = format!("block {block} was {value:x}, and is {read:x?}");
                        self.stage.note(format!("a reader: {fault}"));
                    }
                }
                // It may have been stopped while it read.
                Err(error @ Error::Missing { .. }) if self.is_owed(block) => {
                    self.stage.note(format!("a reader of {block}: {error}"));
                }
                Err(error) => {
                    let error = self.line.explain_missing(error).await;
                    self.stage.judge_error("a reader", &error);
                }
            }
            self.stage.sleep(5000).await;
        }
    }
}

/// The time after which the last actor has to have the line.
pub(super) const LAST: Duration = Duration::from_secs(3600);
