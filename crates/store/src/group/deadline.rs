//! Operations on several members at the same time, which do without members that do not answer.
//!
//! After the deadline a member without an answer is faulted, as if its device had failed, if the others of its group
//! hold everything and have answered. Otherwise it is waited for. A device without redundancy is never given up, and of
//! a group none of whose members answers no member is worse than the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::group::member::{Member, read_label};
use crate::group::mirror::{Groups, StoreLayout};
use crate::group::pace::{self, Request, TimeBudget};
use crate::{Error, Result};

type TaskOutcome = Option<Result<()>>;
type MemberTask<T> = (Arc<Member>, Arc<T>);

impl Groups {
    /// Does the same as [`Groups::on_all`]. The caller itself does it to members whose devices do not wait: that
    /// costs less.
    pub(crate) fn on_some<T: Send + Sync + 'static>(
        &self,
        layout: &StoreLayout,
        tasks: &[MemberTask<T>],
        act: fn(&Member, &T) -> Result<()>,
    ) -> Vec<TaskOutcome> {
        let may_be_spared =
            |(member, _): &MemberTask<T>| member.waits_on_write && layout.can_spare(member);
        match tasks.iter().any(may_be_spared) {
            true => self.on_all(layout, tasks, act),
            false => tasks.iter().map(|(it, task)| Some(act(it, task))).collect(),
        }
    }

    /// Does something to one member.
    ///
    /// # Errors
    /// Its failure, for the caller to handle. [`Error::Unanswered`] if it was given up.
    pub(crate) fn on_one<T: Send + Sync + 'static>(
        &self,
        layout: &StoreLayout,
        member: &Arc<Member>,
        task: T,
        act: fn(&Member, &T) -> Result<()>,
    ) -> Result<()> {
        let tasks = [(Arc::clone(member), Arc::new(task))];
        let outcome = self.on_some(layout, &tasks, act).pop().flatten();
        outcome.unwrap_or_else(|| Err(member.unanswered(self.deadline())))
    }

    /// Does something to some members at the same time. There is no outcome of those that were given up and faulted.
    pub(crate) fn on_all<T: Send + Sync + 'static>(
        &self,
        layout: &StoreLayout,
        tasks: &[MemberTask<T>],
        act: fn(&Member, &T) -> Result<()>,
    ) -> Vec<TaskOutcome> {
        if let [(member, task)] = tasks
            && !layout.can_spare(member)
        {
            return vec![Some(act(member, task))];
        }
        let mut running = MemberRequests::start(tasks, act);
        let mut patience = TimeBudget::new(self.deadline());
        while !running.pending.is_empty() {
            let was_over = patience.is_over();
            let next = match was_over {
                false => patience.next(&running.told),
                true => running.told.recv().ok(),
            };
            if was_over {
                // All were held up until now, as in a failure of the network. The others get as much time again.
                patience = TimeBudget::new(self.deadline());
            }
            if let Some(next) = next {
                running.note(next);
            }
            if patience.is_over() {
                let silent = self.silent(layout, &running);
                while let Ok(next) = running.told.try_recv() {
                    running.note(next);
                }
                let without: BTreeSet<u64> = running.not_done().chain(silent).collect();
                let (tasks, requests) = (running.tasks, &running.requests);
                running.pending.retain(|n| {
                    let is_given_up = self.give_up(layout, &tasks[*n].0, &without);
                    if is_given_up {
                        requests[*n].give_up();
                    }
                    !is_given_up
                });
            }
        }
        running.outcomes
    }

    /// The members of the groups of unanswered requests that were not asked for anything, and do not answer either.
    fn silent<T>(&self, layout: &StoreLayout, running: &MemberRequests<'_, T>) -> Vec<u64> {
        let waiting = || running.pending.iter().map(|n| &running.tasks[*n].0);
        let is_beside = |other: &&Arc<Member>| {
            waiting().any(|member| member.label.group == other.label.group)
                && running
                    .tasks
                    .iter()
                    .all(|(it, _)| it.guid() != other.guid())
        };
        let does_answer = |member: &Arc<Member>| {
            let device = Arc::clone(&member.device);
            let read = move || read_label(&*device).map(drop);
            !member.pace().is_slow() && pace::ask(member.pace(), self.deadline(), read).is_some()
        };
        let others = layout.active().filter(is_beside);
        let silent = others.filter(|member| !does_answer(member));
        silent.map(|member| member.guid()).collect()
    }
}

/// Requests to members, and what has come of them so far.
struct MemberRequests<'a, T> {
    tasks: &'a [MemberTask<T>],
    requests: Vec<Request>,
    told: Receiver<(usize, Result<()>)>,
    pending: BTreeSet<usize>,
    outcomes: Vec<TaskOutcome>,
}

impl<'a, T: Send + Sync + 'static> MemberRequests<'a, T> {
    fn start(
        tasks: &'a [MemberTask<T>],
        act: fn(&Member, &T) -> Result<()>,
    ) -> MemberRequests<'a, T> {
        let (tell, told) = channel();
        let start = |(number, (member, task)): (usize, &MemberTask<T>)| {
            let (own, task) = (Arc::clone(member), Arc::clone(task));
            let tell: Sender<(usize, Result<()>)> = tell.clone();
            let act = move || act(&own, &task);
            let pass_on = move |outcome| drop(tell.send((number, outcome)));
            Request::start(member.pace(), act, pass_on)
        };
        MemberRequests {
            tasks,
            requests: tasks.iter().enumerate().map(start).collect(),
            told,
            pending: (0..tasks.len()).collect(),
            outcomes: tasks.iter().map(|_| None).collect(),
        }
    }
}

impl<T> MemberRequests<'_, T> {
    fn note(&mut self, (number, outcome): (usize, Result<()>)) {
        if let Err(Error::Panicked) = outcome {
            // It is unknown how far it came: a flush may have been left out.
            self.tasks[number].0.note_lost();
        }
        self.pending.remove(&number);
        self.outcomes[number] = Some(outcome);
    }

    /// The members that have not answered, or have failed.
    fn not_done(&self) -> impl Iterator<Item = u64> {
        let all = self.tasks.iter().zip(&self.outcomes);
        let not_done = all.filter(|(_, outcome)| !matches!(outcome, Some(Ok(()))));
        not_done.map(|((member, _), _)| member.guid())
    }
}
