//! The simulated world: a clock, random numbers, tasks of actors, and objects. One seed replays everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::store::{Executor, RequestFuture};

/// Numbers that follow from a seed.
pub(super) struct SeededNumbers(u64);

impl SeededNumbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// An actor: a machine with its tasks. It can be paused or killed.
pub(super) type ActorId = usize;

/// A request that arrives at the store without its sender.
#[derive(Clone)]
pub(super) enum Arrival {
    Create(String, Bytes),
    Replace(String, Bytes),
    Delete(String),
}

/// The objects on the simulated store.
#[derive(Default)]
pub(super) struct ObjectShelf {
    pub(super) objects: BTreeMap<String, Bytes>,
    /// The objects that a late request brought back, after they were deleted.
    pub(super) revived: BTreeMap<String, Duration>,
    /// The names that were ever in use.
    used: BTreeMap<String, ()>,
}

impl ObjectShelf {
    /// Makes an object if there is none. Returns whether it was made.
    pub(super) fn create(&mut self, name: &str, bytes: &Bytes) -> bool {
        if self.objects.contains_key(name) {
            return false;
        }
        self.used.insert(name.into(), ());
        self.objects.insert(name.into(), bytes.clone());
        true
    }

    fn arrive(&mut self, arrival: Arrival, now: Duration) {
        match arrival {
            Arrival::Create(name, bytes) => {
                let is_old = self.used.contains_key(&name);
                if self.create(&name, &bytes) && is_old {
                    self.revived.insert(name, now);
                }
            }
            Arrival::Replace(name, bytes) => drop(self.objects.insert(name, bytes)),
            Arrival::Delete(name) => drop(self.objects.remove(&name)),
        }
    }
}

struct SimTask {
    actor: ActorId,
    /// `None` while it is polled.
    future: Option<RequestFuture<'static, ()>>,
    flag: Arc<ReadyFlag>,
}

/// The waker of a task.
struct ReadyFlag {
    world: Weak<World>,
    id: u64,
    is_ready: AtomicBool,
}

impl Wake for ReadyFlag {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed)
            && let Some(world) = self.world.upgrade()
        {
            world.state().ready.push(self.id);
        }
    }
}

/// The state of a world.
pub(super) struct WorldState {
    numbers: SeededNumbers,
    pub(super) now: Duration,
    tasks: BTreeMap<u64, SimTask>,
    next: u64,
    ready: Vec<u64>,
    timers: BTreeMap<(Duration, u64), Waker>,
    arrivals: BTreeMap<(Duration, u64), Arrival>,
    pauses: BTreeMap<ActorId, Duration>,
    pub(super) shelf: ObjectShelf,
    /// Requests that wait until a schedule lets them go on: actor, operation, name.
    pub(super) gates: Vec<(ActorId, &'static str, String)>,
    /// The name of an object that the store refuses to create.
    pub(super) refused: String,
    /// An actor whose lists have these names only: a proxy on the way to the store keeps an old list.
    pub(super) old_list: Option<(ActorId, BTreeSet<String>)>,
    /// The store answers nobody until this moment.
    pub(super) outage: Duration,
}

/// A simulated world.
pub(super) struct World(Mutex<WorldState>);

impl World {
    pub(super) fn new(seed: u64) -> Arc<World> {
        Arc::new(World(Mutex::new(WorldState {
            numbers: SeededNumbers(seed),
            now: Duration::ZERO,
            tasks: BTreeMap::new(),
            next: 0,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            pauses: BTreeMap::new(),
            shelf: ObjectShelf::default(),
            gates: Vec::new(),
            refused: String::new(),
            old_list: None,
            outage: Duration::ZERO,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, WorldState> {
        self.0.lock()
    }

    /// A number below `limit`.
    pub(super) fn below(&self, limit: u64) -> u64 {
        self.state().below(limit)
    }

    /// Returns true `times` times in a thousand.
    pub(super) fn happens(&self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// A duration up to so many milliseconds. Short ones are as likely as long ones.
    pub(super) fn some_time(&self, most_ms: u64) -> Duration {
        let mut state = self.state();
        let bits = 64 - (most_ms * 1000).leading_zeros() as u64;
        let most = 1 << (1 + state.below(bits));
        Duration::from_micros(1 + state.below(most))
    }

    pub(super) fn spawn(self: &Arc<Self>, actor: ActorId, future: RequestFuture<'static, ()>) {
        let mut state = self.state();
        let id = state.next();
        let flag = Arc::new(ReadyFlag {
            world: Arc::downgrade(self),
            id,
            is_ready: AtomicBool::new(true),
        });
        let future = Some(future);
        state.tasks.insert(
            id,
            SimTask {
                actor,
                future,
                flag,
            },
        );
        state.ready.push(id);
    }

    /// Stops an actor at once. Requests that are on their way may still arrive.
    pub(super) fn kill(&self, actor: ActorId) {
        let mut state = self.state();
        let (dead, rest) = std::mem::take(&mut state.tasks)
            .into_iter()
            .partition(|(_, task)| task.actor == actor);
        state.tasks = rest;
        state.pauses.remove(&actor);
        drop(state);
        let dead: BTreeMap<u64, SimTask> = dead;
        drop(dead);
    }

    /// Lets no task of an actor run for a while.
    pub(super) fn pause(&self, actor: ActorId, time: Duration) {
        let mut state = self.state();
        let until = state.now + time;
        state.pauses.insert(actor, until);
    }

    /// Lets a request arrive later.
    pub(super) fn arrive_in(&self, time: Duration, arrival: Arrival) {
        let mut state = self.state();
        let at = (state.now + time, state.next());
        state.arrivals.insert(at, arrival);
    }

    /// Polls one task, or lets time pass until something happens. False if nothing will happen any more.
    pub(super) fn step(&self) -> bool {
        let mut state = self.state();
        let now = state.now;
        state.pauses.retain(|_, until| *until > now);
        let (tasks, pauses) = (&state.tasks, &state.pauses);
        let free: Vec<usize> = state
            .ready
            .iter()
            .enumerate()
            .filter(|(_, id)| {
                let task = tasks.get(id);
                task.is_none_or(|task| !pauses.contains_key(&task.actor))
            })
            .map(|(i, _)| i)
            .collect();
        if free.is_empty() {
            return pass_time(state);
        }
        let chosen = free[state.below(free.len() as u64) as usize];
        let id = state.ready.swap_remove(chosen);
        let Some(task) = state.tasks.get_mut(&id) else {
            return true;
        };
        task.flag.is_ready.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.flag));
        let future = task.future.take();
        drop(state);
        let mut future = future.expect("a task is polled by one thread");
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        match (polled, state.tasks.get_mut(&id)) {
            (Poll::Pending, Some(task)) => task.future = Some(future),
            _ => {
                let ended = state.tasks.remove(&id);
                drop(state);
                drop((ended, future));
            }
        }
        true
    }
}

impl WorldState {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.numbers.next() % limit
    }
}

/// Goes to the next moment at which something happens.
fn pass_time(mut state: MutexGuard<'_, WorldState>) -> bool {
    let timer = state.timers.keys().next().map(|(at, _)| *at);
    let arrival = state.arrivals.keys().next().map(|(at, _)| *at);
    let pause = state.pauses.values().min().copied();
    let pause = pause.filter(|_| !state.ready.is_empty());
    let Some(at) = [timer, arrival, pause].into_iter().flatten().min() else {
        return false;
    };
    state.now = state.now.max(at);
    let now = state.now;
    while let Some(entry) = state.arrivals.first_entry()
        && entry.key().0 <= now
    {
        let arrival = entry.remove();
        state.shelf.arrive(arrival, now);
    }
    let mut due = Vec::new();
    while let Some(entry) = state.timers.first_entry()
        && entry.key().0 <= now
    {
        due.push(entry.remove());
    }
    drop(state);
    due.into_iter().for_each(Waker::wake);
    true
}

/// A wait for a moment.
struct Moment {
    world: Arc<World>,
    at: Duration,
}

impl Future for Moment {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.world.state();
        if state.now >= self.at {
            return Poll::Ready(());
        }
        let key = (self.at, state.next());
        state.timers.insert(key, context.waker().clone());
        Poll::Pending
    }
}

/// The executor of an actor.
pub(super) struct SimExecutor {
    pub(super) world: Arc<World>,
    pub(super) actor: ActorId,
}

impl Executor for SimExecutor {
    fn spawn(&self, task: RequestFuture<'static, ()>) {
        self.world.spawn(self.actor, task);
    }

    fn sleep(&self, time: Duration) -> RequestFuture<'static, ()> {
        let at = self.world.state().now + time;
        let world = Arc::clone(&self.world);
        Box::pin(Moment { world, at })
    }

    fn now(&self) -> Duration {
        self.world.state().now
    }

    fn wait(&self, _: RequestFuture<'_, ()>) {
        unreachable!("actors are tasks");
    }
}

/// The executor of an import that takes no time.
pub(super) struct InstantExecutor;

impl Executor for InstantExecutor {
    fn spawn(&self, _: RequestFuture<'static, ()>) {
        unreachable!("a reader has no tasks");
    }

    fn sleep(&self, _: Duration) -> RequestFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wait(&self, _: RequestFuture<'_, ()>) {
        unreachable!("actors are tasks");
    }
}

/// Runs what waits for nothing.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("this waits for nothing");
}
