//! Headers that are overwritten in batches: a batch that did not count leaves no secret, and removes nothing.

use std::sync::Arc;

use super::ledger::{BLOCK, FACTS, block_of};
use super::schedules::Schedule;
use crate::device::append::LineChange;
use crate::device::line::Line;
use crate::line::log_object::RunKind;

/// The value of the header of the state that counts.
const COUNTED: u64 = 0x1111;
/// The value that only a batch without an end has.
const DEAD: u64 = 0x2222;
/// The value of the header after both.
const LATER: u64 = 0x3333;

fn write(schedule: &Schedule, actor: usize, line: &Arc<Line>, value: u64) {
    let line = Arc::clone(line);
    let written = schedule.finish(actor, async move {
        line.change(LineChange::write(0, &block_of(value))).await?;
        line.flush().await
    });
    written.expect("no other machine takes the line");
}

fn begin(schedule: &Schedule, actor: usize, line: &Arc<Line>) {
    let line = Arc::clone(line);
    let begun = schedule.finish(actor, async move { line.begin_batch().await });
    begun.expect("no other machine takes the line");
}

/// Overwrites the whole header, as the next flush outside a batch then makes it durable.
fn overwrite(schedule: &Schedule, actor: usize, line: &Arc<Line>) {
    let taken = Arc::clone(line);
    let zeros = LineChange {
        kind: RunKind::Zeros,
        offset: 0,
        len: FACTS.header_size,
        bytes: &[],
    };
    let cleared = schedule.finish(actor, async move { taken.change(zeros).await });
    cleared.expect("no other machine takes the line");
    line.state().purges.insert(0..FACTS.header_size);
}

fn open(schedule: &Schedule, actor: usize) -> Arc<Line> {
    let line = schedule.stage.line(actor);
    let taken = Arc::clone(&line);
    let imported = schedule.finish(actor, async move {
        taken.open(None).await?;
        taken.take().await
    });
    imported.expect("no other machine takes the line");
    line
}

fn header(schedule: &Schedule, actor: usize, line: &Arc<Line>) -> Vec<u8> {
    let line = Arc::clone(line);
    let read = schedule.finish(actor, async move {
        let mut bytes = vec![0; BLOCK as usize];
        line.read(0, &mut bytes).await.map(|()| bytes)
    });
    read.expect("the header is there")
}

/// The objects that have a value.
fn holders(schedule: &Schedule, value: u64) -> usize {
    let block = block_of(value);
    let state = schedule.stage.world.state();
    let objects = state.shelf.objects.values();
    let holds = |bytes: &&bytes::Bytes| bytes.windows(block.len()).any(|part| part == block);
    objects.filter(holds).count()
}

#[test]
fn a_header_of_a_batch_without_an_end_is_removed() {
    let schedule = Schedule::new(None);
    let line = open(&schedule, 0);
    write(&schedule, 0, &line, COUNTED);
    begin(&schedule, 0, &line);
    write(&schedule, 0, &line, DEAD);
    schedule.stage.world.kill(0);
    assert_eq!(holders(&schedule, DEAD), 1, "it was sent");
    let line = open(&schedule, 1);
    begin(&schedule, 1, &line);
    overwrite(&schedule, 1, &line);
    write(&schedule, 1, &line, LATER);
    let ended = Arc::clone(&line);
    let ended = schedule.finish(1, async move { ended.end_batch().await });
    ended.expect("no other machine takes the line");
    assert_eq!(holders(&schedule, DEAD), 0);
    assert_eq!(holders(&schedule, COUNTED), 0);
    assert!(header(&schedule, 1, &line) == block_of(LATER));
}

#[test]
fn a_writer_that_ends_within_a_batch_removes_nothing_that_counts() {
    let schedule = Schedule::new(None);
    let line = open(&schedule, 0);
    write(&schedule, 0, &line, COUNTED);
    begin(&schedule, 0, &line);
    overwrite(&schedule, 0, &line);
    write(&schedule, 0, &line, LATER);
    schedule.finish(0, async move { line.close().await });
    let line = open(&schedule, 1);
    assert!(header(&schedule, 1, &line) == block_of(COUNTED));
}
