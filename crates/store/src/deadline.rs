//! Operations on several members at the same time, which do without members that do not answer.
//!
//! After the deadline a member without an answer is faulted, as if its device had failed, if the others of its group
//! hold everything and have answered. Otherwise it is waited for: a device without redundancy is never given up, and of
//! a group none of whose members answers no member is worse than the others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::group::{Groups, Layout};
use crate::member::Member;
use crate::pace::{Patience, Request};

impl Groups {
    /// Does something to some members at the same time. There is no outcome of those that were given up and faulted.
    pub(crate) fn on_all<T, E>(
        &self,
        layout: &Layout,
        tasks: &[(Arc<Member>, Arc<T>)],
        act: fn(&Member, &T) -> Result<(), E>,
    ) -> Vec<Option<Result<(), E>>>
    where
        T: Send + Sync + 'static,
        E: Send + 'static,
    {
        if let [(member, task)] = tasks
            && !layout.can_spare(member)
        {
            return vec![Some(act(member, task))];
        }
        let (tell, told) = channel();
        let start = |(number, (member, task)): (usize, &(Arc<Member>, Arc<T>))| {
            let (own, task, tell) = (Arc::clone(member), Arc::clone(task), tell.clone());
            let act = move || act(&own, &task);
            let pass_on = move |outcome| drop(tell.send((number, outcome)));
            Request::start(member.pace(), act, pass_on)
        };
        let requests: Vec<Request> = tasks.iter().enumerate().map(start).collect();
        let mut outcomes: Vec<Option<Result<(), E>>> = tasks.iter().map(|_| None).collect();
        let mut pending: BTreeSet<usize> = (0..tasks.len()).collect();
        let mut patience = Patience::new(self.deadline());
        while !pending.is_empty() {
            let was_over = patience.is_over();
            let next = match was_over {
                false => patience.next(&told),
                true => told.recv().ok(),
            };
            if was_over {
                // All were held up until now, as in a failure of the network. The others get as much time again.
                patience = Patience::new(self.deadline());
            }
            if let Some((number, outcome)) = next {
                pending.remove(&number);
                outcomes[number] = Some(outcome);
            }
            if patience.is_over() {
                let is_good = |n: &usize| matches!(outcomes[*n], Some(Ok(())));
                let without = (0..tasks.len()).filter(|n| !is_good(n));
                let without: BTreeSet<u64> = without.map(|n| tasks[n].0.guid()).collect();
                pending.retain(|n| {
                    let is_given_up = self.give_up(layout, &tasks[*n].0, &without);
                    if is_given_up {
                        requests[*n].give_up();
                    }
                    !is_given_up
                });
            }
        }
        outcomes
    }
}
