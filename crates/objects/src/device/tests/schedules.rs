//! Schedules that need a rule, and happen so rarely that no seed has to find them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::actors::{self, ActiveWriter, Stage};
use super::ledger::{DURABLE, Ledger, ORDERED};
use super::simulation::LIMITS;
use super::store::StoreFaults;
use super::world::{ActorId, SimExecutor, World};
use crate::device::line::{Line, LineLimits, LineRule};
use crate::line::names;
use crate::store::Executor;

/// A schedule on a store without faults.
struct Schedule {
    stage: Stage,
}

impl Schedule {
    fn new(without: Option<LineRule>) -> Schedule {
        let stage = Stage {
            world: World::new(1),
            ledger: Arc::new(Mutex::new(Ledger::default())),
            limits: LineLimits { without, ..LIMITS },
            faults: StoreFaults {
                late: 0,
                unanswered: 0,
                conflicts: 0,
                refusals: 0,
                way: Duration::from_millis(1),
                latest: Duration::ZERO,
            },
        };
        Schedule { stage }
    }

    /// Lets a request of an actor wait.
    fn close(&self, actor: ActorId, operation: &'static str, name: String) {
        let mut state = self.stage.world.state();
        state.gates.push((actor, operation, name));
    }

    /// Lets requests go on that waited.
    fn open(&self, operation: &'static str, name: &str) {
        let mut state = self.stage.world.state();
        state
            .gates
            .retain(|(_, op, of)| *op != operation || of != name);
    }

    /// Lets all actors go on until something is so.
    fn until(&self, mut is_so: impl FnMut() -> bool) {
        for _ in 0..100_000 {
            if is_so() {
                return;
            }
            self.stage.world.step();
        }
        panic!("it does not become so");
    }

    /// Lets all actors go on for a while.
    fn wait(&self, time: Duration) {
        let world = Arc::clone(&self.stage.world);
        let clock = SimExecutor { world, actor: 2 };
        self.finish(2, clock.sleep(time));
    }

    /// Starts a task of an actor. Its outcome comes later.
    fn start<T: Send + 'static>(
        &self,
        actor: ActorId,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Arc<Mutex<Option<T>>> {
        let outcome = Arc::new(Mutex::new(None));
        let told = Arc::clone(&outcome);
        let task = async move {
            let done = task.await;
            *told.lock() = Some(done);
        };
        self.stage.world.spawn(actor, Box::pin(task));
        outcome
    }

    /// Runs a task of an actor to its end.
    fn finish<T: Send + 'static>(
        &self,
        actor: ActorId,
        task: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let outcome = self.start(actor, task);
        self.until(|| outcome.lock().is_some());
        let done = outcome.lock().take();
        done.expect("it has ended")
    }

    /// Lets an actor take the line.
    fn take(&self, actor: ActorId) -> Arc<ActiveWriter> {
        let stage = self.stage.clone();
        let taken = self.finish(actor, async move {
            let line = stage.line(actor);
            let values = actors::take(&stage, &line).await;
            (values, line)
        });
        let (values, line): (_, Arc<Line>) = taken;
        let values = values.expect("nobody else takes the line");
        Arc::new(ActiveWriter::new(&self.stage, line, values))
    }

    /// Starts durable writes at the same time.
    fn write_durably(&self, actor: ActorId, writer: &Arc<ActiveWriter>, count: usize) {
        for i in 0..count {
            let block = DURABLE.start + i % DURABLE.len();
            let writer = Arc::clone(writer);
            self.start(actor, async move { writer.write_durably(block).await });
        }
    }

    /// The end: the first fault.
    fn fault(self) -> Option<String> {
        for actor in 0..3 {
            self.stage.world.kill(actor);
        }
        self.stage.ledger.lock().fault.clone()
    }
}

/// A writer sends many objects. They are on their way while another machine takes the line; the last ones arrive.
fn objects_behind_the_window(without: Option<LineRule>) -> Option<String> {
    let schedule = Schedule::new(without);
    let old = schedule.take(0);
    for number in 6..14 {
        schedule.close(0, "create", names::log(number));
    }
    schedule.write_durably(0, &old, 8);
    schedule.wait(Duration::from_millis(50));
    // TAKE at 6, fences up to 10.
    schedule.take(1);
    for number in 11..14 {
        schedule.open("create", &names::log(number));
    }
    schedule.wait(Duration::from_millis(50));
    schedule.fault()
}

/// A machine lists checkpoints and then objects. In between collection makes a hole, and the machine takes the line there.
/// Objects of the writer are on their way behind the fences.
fn take_in_a_hole(without: Option<LineRule>) -> Option<String> {
    let schedule = Schedule::new(without);
    let world = Arc::clone(&schedule.stage.world);
    let old = schedule.take(0);
    // The last object makes the one before dead. The checkpoint that says so waits.
    schedule.close(0, "create", names::checkpoint(11));
    for block in [0, 1, 2, 3, 4, 4] {
        let writer = Arc::clone(&old);
        let written = schedule.finish(0, async move {
            writer.write(ORDERED.start + block).await?;
            writer.flush().await
        });
        written.expect("nobody has taken the line");
        schedule.wait(Duration::from_millis(100));
    }
    let stage = schedule.stage.clone();
    let line = stage.line(1);
    let opened = Arc::clone(&line);
    let is_open = schedule.finish(1, async move { opened.open().await });
    is_open.expect("the store has no faults");
    schedule.close(1, "list", names::MAP.into());
    let taken = schedule.start(1, async move { actors::take_opened(&stage, &line).await });
    schedule.wait(Duration::from_millis(50));
    schedule.close(1, "list", names::LOG.into());
    schedule.open("list", names::MAP);
    schedule.wait(Duration::from_millis(50));
    schedule.open("create", &names::checkpoint(11));
    schedule.until(|| !world.state().shelf.objects.contains_key(&names::log(10)));
    for number in 13..17 {
        schedule.close(0, "create", names::log(number));
    }
    schedule.write_durably(0, &old, 4);
    schedule.wait(Duration::from_millis(50));
    schedule.open("list", names::LOG);
    schedule.until(|| taken.lock().is_some());
    for number in [15, 16] {
        schedule.open("create", &names::log(number));
    }
    schedule.wait(Duration::from_millis(50));
    schedule.fault()
}

#[test]
fn without_the_window_a_writer_is_told_durable_after_another_one_took_the_line() {
    assert_eq!(objects_behind_the_window(None), None);
    assert!(objects_behind_the_window(Some(LineRule::Window)).is_some());
}

#[test]
fn without_the_second_list_a_machine_takes_the_line_in_a_hole_of_collection() {
    assert_eq!(take_in_a_hole(None), None);
    assert!(take_in_a_hole(Some(LineRule::SecondList)).is_some());
}
