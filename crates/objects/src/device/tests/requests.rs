//! The requests of a line: of an import, and of a pool that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::{BLOCK, FACTS, ORDERED, block_of, offset_of};
use super::schedules::Schedule;
use super::simulation::LIMITS;
use super::store::SimStore;
use super::world::SimExecutor;
use crate::device::append::LineChange;
use crate::device::line::{Line, LineLimits};
use crate::store::MeteredStore;

/// A line of an actor that counts its requests, with the limits of real ones.
fn counted(schedule: &Schedule, id: u8) -> (Arc<Line>, Arc<MeteredStore>) {
    let (world, actor) = (Arc::clone(&schedule.stage.world), usize::from(id));
    let store = Arc::new(MeteredStore::new(Arc::new(SimStore {
        world: Arc::clone(&world),
        actor,
        faults: schedule.stage.faults,
    })));
    let limits = LineLimits {
        window: 64,
        checkpoint: 256,
        ..LIMITS
    };
    let metered = Arc::clone(&store);
    let executor = Arc::new(SimExecutor { world, actor });
    let line = Line::new(metered, executor, FACTS, (limits, [id; 16]));
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
    imported.expect("nobody else takes the line");
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
        written.expect("nobody else takes the line");
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
    imported.expect("nobody else takes the line");
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
