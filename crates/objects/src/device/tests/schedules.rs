//! Schedules that need a rule, and happen so rarely that no seed has to find them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::actors::{self, ActiveWriter, Stage};
use super::ledger::{DURABLE, Ledger, ORDERED};
use super::simulation::LIMITS;
use super::store::StoreFaults;
use super::world::{ActorId, SimExecutor, World};
use crate::Error;
use crate::device::append::LineChange;
use crate::device::create;
use crate::device::line::{Line, LineLimits, LineRule};
use crate::device::{StoreMonitor, StoreOutage};
use crate::line::names;
use crate::store::Executor;

/// A schedule on a store without faults.
pub(super) struct Schedule {
    pub(super) stage: Stage,
}

impl Schedule {
    pub(super) fn new(without: Option<LineRule>) -> Schedule {
        let stage = Stage {
            world: World::new(1),
            ledger: Arc::new(Mutex::new(Ledger::default())),
            limits: LineLimits { without, ..LIMITS },
            faults: StoreFaults {
                late: 0,
                unanswered: 0,
                conflicts: 0,
                refusals: 0,
                split_lists: 0,
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
    pub(super) fn wait(&self, time: Duration) {
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
    pub(super) fn finish<T: Send + 'static>(
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
    pub(super) fn take(&self, actor: ActorId) -> Arc<ActiveWriter> {
        let stage = self.stage.clone();
        let taken = self.finish(actor, async move {
            let line = stage.line(actor);
            let values = actors::take(&stage, &line).await;
            (values, line)
        });
        let (values, line): (_, Arc<Line>) = taken;
        let values = values.expect("no other machine takes the line");
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

    /// Writes a block and flushes.
    fn write_in_order(&self, writer: &Arc<ActiveWriter>, block: usize) {
        let writer = Arc::clone(writer);
        let written = self.finish(0, async move {
            writer.write(ORDERED.start + block).await?;
            writer.flush().await
        });
        written.expect("no machine has taken the line");
    }

    /// The end: the first fault.
    pub(super) fn fault(self) -> Option<String> {
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

#[test]
fn without_the_window_a_writer_is_told_durable_after_another_one_took_the_line() {
    assert_eq!(objects_behind_the_window(None), None);
    assert!(objects_behind_the_window(Some(LineRule::Window)).is_some());
}

/// Before the machine lists the objects again, collection makes a hole, and the TAKE object goes there.
#[test]
fn a_machine_that_takes_the_line_in_a_hole_of_collection_is_refused() {
    let schedule = Schedule::new(None);
    let world = Arc::clone(&schedule.stage.world);
    let old = schedule.take(0);
    let write = || {
        let writer = Arc::clone(&old);
        let written = schedule.finish(0, async move {
            writer.write(ORDERED.start).await?;
            writer.flush().await
        });
        written.expect("no machine has taken the line");
    };
    write();
    let line = schedule.stage.line(1);
    let opened = Arc::clone(&line);
    let is_open = schedule.finish(1, async move { opened.open(None).await });
    is_open.expect("the store has no faults");
    let free = line.state().history.last + 1;
    schedule.close(1, "create", names::log(free));
    let taken = schedule.start(1, async move { line.take().await });
    schedule.wait(Duration::from_millis(50));
    schedule.close(1, "list", names::LOG.into());
    write();
    schedule.open("create", &names::log(free));
    // The next attempt puts the TAKE object a window behind the first free number.
    let take = free + LIMITS.window;
    let is_there = |n| world.state().shelf.objects.contains_key(&names::log(n));
    for _ in 0..20 {
        write();
        schedule.wait(LIMITS.removal * 2);
    }
    assert!(!is_there(free) && !is_there(take), "there is no hole");
    schedule.open("list", names::LOG);
    schedule.until(|| taken.lock().is_some());
    assert!(is_there(take), "the TAKE object is not in the hole");
    let outcome = taken.lock().take();
    assert!(
        matches!(outcome, Some(Err(Error::Changed { .. }))),
        "{outcome:?}"
    );
    assert_eq!(schedule.fault(), None);
}

#[test]
fn a_machine_that_still_writes_is_told_when_the_pool_is_removed() {
    let schedule = Schedule::new(None);
    let old = schedule.take(0);
    let line = schedule.stage.line(1);
    let taken = Arc::clone(&line);
    schedule
        .finish(1, async move { taken.take_to_remove(None).await })
        .expect("no other machine takes the line");
    let written = schedule.finish(0, async move { old.write_durably(DURABLE.start).await });
    assert!(matches!(written, Err(Error::Fenced { .. })), "{written:?}");
    let removed = schedule.finish(1, async move { create::remove(&line).await });
    assert!(removed.is_ok_and(|count| count > 0));
    let state = schedule.stage.world.state();
    assert!(state.shelf.objects.is_empty());
}

/// A machine that has taken the line of an empty store.
fn taken_line(schedule: &Schedule) -> Arc<Line> {
    let stage = schedule.stage.clone();
    schedule.finish(0, async move {
        let line = stage.line(0);
        line.open(None).await.expect("the store has no faults");
        line.take().await.expect("no other machine takes the line");
        line
    })
}

/// The rights of a machine end while it takes the line, and come back. Its own objects are no other writer then.
#[test]
fn a_machine_that_was_refused_while_it_took_the_line_can_take_it_later() {
    for refused in 0..=LIMITS.window {
        let schedule = Schedule::new(None);
        let world = Arc::clone(&schedule.stage.world);
        let old = schedule.take(0);
        schedule.write_in_order(&old, 0);
        let line = schedule.stage.line(1);
        let opened = Arc::clone(&line);
        let is_open = schedule.finish(1, async move { opened.open(None).await });
        is_open.expect("the store has no faults");
        let free = line.state().history.last + 1;
        world.state().refused = names::log(free + refused);
        let taking = Arc::clone(&line);
        let taken = schedule.finish(1, async move { taking.take().await });
        assert!(matches!(taken, Err(Error::Refused { .. })), "{taken:?}");
        world.state().refused.clear();
        line.begin_anew();
        let (stage, taking) = (schedule.stage.clone(), Arc::clone(&line));
        let taken = schedule.finish(1, async move { actors::take_opened(&stage, &taking).await });
        let values = taken.expect("no other machine takes the line");
        let writer = Arc::new(ActiveWriter::new(&schedule.stage, line, values));
        let written = schedule.finish(1, async move { writer.write_durably(DURABLE.start).await });
        written.expect("no other machine takes the line");
        let late = schedule.finish(0, async move { old.write_durably(DURABLE.start).await });
        assert!(matches!(late, Err(Error::Fenced { .. })), "{late:?}");
        assert_eq!(schedule.fault(), None, "{refused}");
    }
}

/// Lets a write wait for a store that does not answer. Returns the seconds after which it failed.
fn seconds_of_patience(
    schedule: &Schedule,
    line: &Arc<Line>,
    patience: Duration,
) -> Option<(u64, StoreOutage)> {
    let world = Arc::clone(&schedule.stage.world);
    let begin = world.state().now;
    let writing = Arc::clone(line);
    let written = schedule.start(0, async move {
        let block = LineChange::write(0, &[7; 4096]);
        writing.change_durably(block).await
    });
    while world.state().now < begin + Duration::from_secs(15) {
        assert!(world.step(), "it waits for nothing");
    }
    let monitor = StoreMonitor(Arc::downgrade(line));
    let outage = monitor.outage()?;
    monitor.set_patience(Some(patience));
    while written.lock().is_none() {
        assert!(world.step(), "it waits for nothing");
    }
    let error = written.lock().take()?.err()?;
    assert!(
        error.is_outage() && error.to_string().contains("given up"),
        "{error}"
    );
    Some(((world.state().now - begin).as_secs(), outage))
}

#[test]
fn a_write_waits_for_a_store_as_long_as_the_patience_lasts() {
    let schedule = Schedule::new(None);
    let line = taken_line(&schedule);
    schedule.stage.world.state().outage = Duration::from_secs(1_000);
    let found = seconds_of_patience(&schedule, &line, Duration::from_secs(30));
    let (seconds, outage) = found.expect("the write fails");
    assert!((30..32).contains(&seconds), "{seconds}");
    assert!(outage.writes > 0 && outage.others == 0, "{outage:?}");
    assert!(outage.bytes > 4096 && outage.time >= Duration::from_secs(14));
    assert!(outage.reason.is_some());
}

/// A request on a slow line may only need time.
#[test]
fn a_request_without_any_answer_has_more_time() {
    let schedule = Schedule::new(None);
    let line = taken_line(&schedule);
    let state = line.state();
    let next = state.writer.as_ref().map_or(0, |writer| writer.next);
    drop(state);
    schedule.close(0, "create", names::log(next));
    let found = seconds_of_patience(&schedule, &line, Duration::from_secs(30));
    let (seconds, outage) = found.expect("the write fails");
    assert!((150..152).contains(&seconds), "{seconds}");
    assert_eq!(outage.reason, None);
}

#[test]
fn a_write_without_a_limit_waits_until_the_store_answers() {
    let schedule = Schedule::new(None);
    let line = taken_line(&schedule);
    schedule.stage.world.state().outage = Duration::from_secs(5_000);
    let writing = Arc::clone(&line);
    let written = schedule.finish(0, async move {
        let block = LineChange::write(0, &[7; 4096]);
        writing.change_durably(block).await
    });
    written.expect("it waits");
    assert!(StoreMonitor(Arc::downgrade(&line)).outage().is_none());
}

/// A reader lists one half of the numbers, then a writer makes two objects durable, one after the other, and then the reader
/// lists the other half. With `is_later` the writer has made an object before, so the numbers are others.
fn list_of_two_moments(without: Option<LineRule>, is_later: bool) -> Option<String> {
    let mut schedule = Schedule::new(without);
    let writer = schedule.take(0);
    if is_later {
        schedule.write_in_order(&writer, 1);
    }
    schedule.stage.faults.split_lists = 1000;
    schedule.close(1, "list on", names::LOG.into());
    schedule.start(1, actors::read(schedule.stage.clone(), 1));
    schedule.wait(Duration::from_millis(50));
    schedule.write_in_order(&writer, 0);
    schedule.write_durably(0, &writer, 1);
    schedule.wait(Duration::from_millis(50));
    schedule.open("list on", names::LOG);
    schedule.wait(Duration::from_millis(200));
    schedule.fault()
}

#[test]
fn without_the_whole_list_a_reader_has_a_write_and_none_that_was_durable_before() {
    let faults = |rule| [false, true].map(|is_later| list_of_two_moments(rule, is_later));
    assert_eq!(faults(None), [None, None]);
    // The halves are chosen by chance.
    assert_ne!(faults(Some(LineRule::WholeList)), [None, None]);
}

/// Does the same as [`list_of_two_moments`]. Before the reader lists again, collection removes the object that it left out.
fn gap_of_collection(without: Option<LineRule>, is_later: bool) -> Option<String> {
    let mut schedule = Schedule::new(without);
    let writer = schedule.take(0);
    if is_later {
        schedule.write_in_order(&writer, 1);
    }
    schedule.stage.faults.split_lists = 1000;
    schedule.close(1, "list on", names::LOG.into());
    schedule.start(1, actors::read(schedule.stage.clone(), 1));
    schedule.wait(Duration::from_millis(50));
    schedule.close(1, "list", names::LOG.into());
    schedule.write_in_order(&writer, 0);
    schedule.write_durably(0, &writer, 1);
    schedule.wait(Duration::from_millis(50));
    schedule.open("list on", names::LOG);
    schedule.wait(Duration::from_millis(50));
    for block in [0, 1, 2, 3, 4, 0, 1, 2, 3, 4] {
        schedule.write_in_order(&writer, block);
        schedule.wait(Duration::from_millis(500));
    }
    schedule.wait(LIMITS.removal * 2);
    schedule.open("list", names::LOG);
    schedule.wait(Duration::from_millis(500));
    schedule.fault()
}

#[test]
fn without_the_same_checkpoint_a_reader_misses_what_collection_has_removed() {
    let faults = |rule| [false, true].map(|is_later| gap_of_collection(rule, is_later));
    assert_eq!(faults(None), [None, None]);
    assert_ne!(faults(Some(LineRule::SameCheckpoint)), [None, None]);
}
