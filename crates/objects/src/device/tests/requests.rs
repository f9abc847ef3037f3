//! The requests of a line: of an import, and of an idle pool.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::{BLOCK, FACTS, ORDERED, block_of, offset_of};
use super::schedules::Schedule;
use super::simulation::LIMITS;
use super::store::SimStore;
use super::world::SimExecutor;
use crate::device::append::LineChange;
use crate::device::line::{Line, LineLimits};
use crate::line::pool_object::DeviceFacts;
use crate::store::MeteredStore;

/// A line of an actor that counts its requests, with the window and checkpoints of real ones.
fn counted(schedule: &Schedule, id: u8) -> (Arc<Line>, Arc<MeteredStore>) {
    let limits = LineLimits {
        window: 64,
        checkpoint: 256,
        ..LIMITS
    };
    counted_line(schedule, id, (FACTS, limits))
}

fn counted_line(
    schedule: &Schedule,
    id: u8,
    (facts, limits): (DeviceFacts, LineLimits),
) -> (Arc<Line>, Arc<MeteredStore>) {
    let (world, actor) = (Arc::clone(&schedule.stage.world), usize::from(id));
    let store = Arc::new(MeteredStore::new(Arc::new(SimStore {
        world: Arc::clone(&world),
        actor,
        faults: schedule.stage.faults,
    })));
    let metered = Arc::clone(&store);
    let executor = Arc::new(SimExecutor { world, actor });
    let line = Line::new(metered, executor, facts, (limits, [id; 16]));
    (Arc::new(line), store)
}

/// Takes the line, and returns the requests for that.
fn import(schedule: &Schedule, id: u8) -> (Arc<Line>, u64) {
    let (line, store) = counted(schedule, id);
    let taken = Arc::clone(&line);
    let imported = schedule.finish(id.into(), async move {
        taken.open(None).await?;
        taken.take().await
    });
    imported.expect("no other machine takes the line");
    let totals = store.totals();
    (line, totals.creates + totals.gets + totals.lists)
}

fn write(schedule: &Schedule, line: &Arc<Line>, actor: usize, times: u64) {
    for i in 0..times {
        let line = Arc::clone(line);
        let block = ORDERED.start + i as usize % ORDERED.len();
        let written = schedule.finish(actor, async move {
            let bytes = block_of(i + 1);
            let change = LineChange::write(offset_of(block), &bytes);
            line.change(change).await?;
            line.flush().await
        });
        written.expect("no other machine takes the line");
    }
}

#[test]
fn an_import_takes_few_requests() {
    let schedule = Schedule::new(None);
    let (line, _) = import(&schedule, 0);
    write(&schedule, &line, 0, 300);
    schedule.finish(0, async move { line.close().await });
    // Two lists, the checkpoint, the RELEASE object and few before it, the TAKE object.
    let (line, requests) = import(&schedule, 1);
    assert!(requests <= 10, "{requests} requests after an export");
    write(&schedule, &line, 1, 3);
    // The machine is lost. Fences, what was written, and lists.
    schedule.stage.world.kill(1);
    let (_, requests) = import(&schedule, 2);
    assert!(requests <= 64 + 12, "{requests} requests after a crash");
}

#[test]
fn a_pool_that_nobody_uses_sends_no_requests() {
    let schedule = Schedule::new(None);
    let (line, store) = counted(&schedule, 0);
    let taken = Arc::clone(&line);
    let imported = schedule.finish(0, async move {
        taken.open(None).await?;
        taken.take().await
    });
    imported.expect("no other machine takes the line");
    write(&schedule, &line, 0, 400);
    // What was deleted is removed after a while.
    schedule.wait(LIMITS.removal * 10);
    let before = store.totals();
    schedule.wait(Duration::from_secs(3600));
    assert_eq!(store.totals(), before);
    let mut bytes = [0; BLOCK as usize];
    let read = schedule.finish(0, async move {
        line.read(offset_of(ORDERED.start), &mut bytes).await
    });
    assert!(read.is_ok());
}

/// The segments of a pool, on the scale of 64 KiB to 8 MiB. A pool writes a segment in order, when what it held is free.
const SEGMENT: u64 = 512 << 10;
const SEGMENTS: u64 = 64;
const OBJECT: u64 = 64 << 10;

#[test]
fn overwrites_take_few_requests_and_little_space() {
    let schedule = Schedule::new(None);
    let facts = DeviceFacts {
        size: 64 << 20,
        ..FACTS
    };
    let limits = LineLimits {
        window: 64,
        data: OBJECT as usize,
        checkpoint: 32,
        ..LIMITS
    };
    let (line, store) = counted_line(&schedule, 0, (facts, limits));
    let taken = Arc::clone(&line);
    let imported = schedule.finish(0, async move {
        taken.open(None).await?;
        taken.take().await
    });
    imported.expect("no other machine takes the line");
    let rounds = SEGMENTS * 10;
    for _ in 0..rounds {
        let segment = schedule.stage.world.below(SEGMENTS);
        let line = Arc::clone(&line);
        let written = schedule.finish(0, async move {
            let record = vec![segment as u8; 8 << 10];
            for at in (0..SEGMENT).step_by(record.len()) {
                let offset = FACTS.header_size + segment * SEGMENT + at;
                line.change(LineChange::write(offset, &record)).await?;
            }
            let superblock = LineChange::write(0, &record[..BLOCK as usize]);
            line.change(superblock).await?;
            line.flush().await
        });
        written.expect("no other machine takes the line");
        schedule.wait(Duration::from_millis(200));
    }
    schedule.wait(LIMITS.removal * 10);
    let written = rounds * SEGMENT;
    let creates = store.totals().creates;
    // For 8 MiB in an object that is 160 for each GiB, without the superblocks of so many commits.
    let most = written / OBJECT * 160 / 128 + rounds;
    assert!(creates <= most, "{creates} requests to create, not {most}");
    let stored: usize = {
        let state = schedule.stage.world.state();
        state.shelf.objects.values().map(bytes::Bytes::len).sum()
    };
    let live = SEGMENTS * SEGMENT;
    assert!(
        stored as u64 * 10 <= live * 13,
        "{stored} bytes are stored for {live}"
    );
}
