//! Commands that take long: other threads of the session carry them out, beside each other.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use super::task::ScsiTask;

/// At most so many further threads serve a session.
pub(super) const HELPERS_PER_SESSION: usize = 15;

/// Commands with all their data, for the helpers of a session.
#[derive(Default)]
pub(super) struct Jobs {
    state: Mutex<State>,
    /// Signals a new task, or that no more will come.
    more: Condvar,
    /// Signals the end of a task.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ScsiTask>,
    /// The tags of those that are carried out, and their units.
    running: Vec<(u32, [u8; 8])>,
    idle: usize,
    helpers: usize,
    is_over: bool,
}

impl Jobs {
    /// Adds a task. True if another helper is wanted: the caller then starts it.
    pub(super) fn push(&self, task: ScsiTask) -> bool {
        let mut state = self.state.lock();
        state.waiting.push_back(task);
        self.more.notify_one();
        let is_short = state.waiting.len() > state.idle && state.helpers < HELPERS_PER_SESSION;
        state.helpers += usize::from(is_short);
        is_short
    }

    /// A helper that was wanted could not be started. Returns a command, if no helper is left to carry it out.
    pub(super) fn helper_failed(&self) -> Option<ScsiTask> {
        let mut state = self.state.lock();
        state.helpers -= 1;
        match state.helpers {
            0 => state.waiting.pop_back(),
            _ => None,
        }
    }

    /// The next one, for a helper. None when the session is over.
    pub(super) fn next(&self) -> Option<ScsiTask> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.waiting.pop_front() {
                state.running.push((task.head.tag(), task.head.lun()));
                return Some(task);
            }
            if state.is_over {
                return None;
            }
            state.idle += 1;
            self.more.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// A helper has answered a command.
    pub(super) fn ended(&self, tag: u32) {
        let mut state = self.state.lock();
        if let Some(at) = state.running.iter().position(|it| it.0 == tag) {
            state.running.swap_remove(at);
        }
        self.ended.notify_all();
    }

    pub(super) fn has(&self, tag: u32) -> bool {
        let state = self.state.lock();
        state.running.iter().any(|it| it.0 == tag)
            || state.waiting.iter().any(|it| it.head.tag() == tag)
    }

    /// Takes out those that were not begun. Returns how many.
    pub(super) fn forget(&self, is_one: &impl Fn(u32, [u8; 8]) -> bool) -> usize {
        let mut state = self.state.lock();
        let before = state.waiting.len();
        let keeps = |it: &ScsiTask| !is_one(it.head.tag(), it.head.lun());
        state.waiting.retain(keeps);
        before - state.waiting.len()
    }

    /// Waits until none of these is carried out any more.
    pub(super) fn wait_for(&self, is_one: &impl Fn(u32, [u8; 8]) -> bool) {
        let mut state = self.state.lock();
        let are_there = |state: &mut State| {
            state.running.iter().any(|it| is_one(it.0, it.1)) || { state.waiting.iter() }
                .any(|it| is_one(it.head.tag(), it.head.lun()))
        };
        self.ended.wait_while(&mut state, are_there);
    }

    /// No more come. Those that wait are not carried out.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        state.waiting.clear();
        self.more.notify_all();
        self.ended.notify_all();
    }
}
