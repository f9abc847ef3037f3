//! Checkpoints, and removal of objects that no import needs.
//!
//! The order is: a checkpoint is durable; a list of deletions is durable on the line; time passes, for readers; the objects
//! are removed. A writer that has lost the line cannot put the list there, so it removes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::line::Line;
use crate::line::history::LineHistory;
use crate::line::log_object::{LineEntry, LogKind, Run, RunKind};
use crate::line::ranges::NumberSet;
use crate::line::{checkpoint, names};
use crate::{Error, Result};

/// The number of checkpoints that stay.
const CHECKPOINTS: usize = 2;

impl Line {
    /// Begins a checkpoint if there are many objects since the last one.
    pub(super) fn checkpoint_if_due(self: &Arc<Self>) {
        {
            let state = self.state();
            let Some(writer) = &state.writer else {
                return;
            };
            if writer.next <= state.checkpoint + self.limits.checkpoint || state.failure.is_some() {
                return;
            }
        }
        let Ok(guard) = Arc::clone(&self.collecting).try_lock_owned() else {
            return;
        };
        let line = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            if let Err(error) = line.collect().await {
                tracing::warn!(%error, "objects could not be collected");
            }
            drop(guard);
        }));
    }

    /// Writes a checkpoint, removes what it shows to be dead, and copies what lives in objects that are mostly dead.
    async fn collect(self: &Arc<Self>) -> Result<()> {
        let dead = self.checkpoint().await?;
        let is_removing = self.state().is_removing;
        if !dead.is_empty() && !is_removing {
            let numbers = self.list_deletions(&dead).await?;
            self.remove_later(numbers);
        }
        let chosen = self.mostly_dead();
        self.copy_forward(chosen).await
    }

    /// Writes a checkpoint. Returns the dead objects before it.
    async fn checkpoint(self: &Arc<Self>) -> Result<Vec<u64>> {
        self.state().is_quiet = true;
        let quiet = self.reach_quiet().await;
        // The state may change again; the bytes are those of the quiet moment.
        self.state().is_quiet = false;
        self.tell();
        let (number, bytes, dead) = quiet?;
        let bytes = bytes::Bytes::from(bytes);
        let name = names::checkpoint(number);
        // If there is one already, an answer was lost.
        self.patiently(|| self.store.create(&name, bytes.clone()))
            .await?;
        self.state().checkpoint = number;
        let checkpoints = self.checkpoints().await?;
        let old = checkpoints.len().saturating_sub(CHECKPOINTS);
        for number in &checkpoints[..old] {
            let name = names::checkpoint(*number);
            self.patiently(|| self.store.delete(&name)).await?;
        }
        Ok(dead)
    }

    /// Waits until all objects are durable. Returns the number of the last, the bytes of a checkpoint, and the dead objects.
    async fn reach_quiet(self: &Arc<Self>) -> Result<(u64, Vec<u8>, Vec<u64>)> {
        self.when(|state| {
            self.seal(state);
            let writer = state.writer.as_ref()?;
            if !writer.pending.is_empty() {
                return None;
            }
            let number = state.history.last;
            debug_assert_eq!(number, writer.next - 1);
            let bytes = checkpoint::encode(&state.history, self.facts.guid);
            Some((number, bytes, state.history.dead(number)))
        })
        .await
    }

    /// Puts a list of all deletions on the line, durably: those before, and dead objects. Returns the numbers of these.
    async fn list_deletions(self: &Arc<Self>, dead: &[u64]) -> Result<NumberSet> {
        let mut added = NumberSet::default();
        dead.iter().for_each(|n| added.insert(*n..n + 1));
        self.when(|state| {
            let mut doomed = state.history.doomed.clone();
            doomed.extend(&added);
            let done = runs(&state.history.deleted, RunKind::Zeros);
            let runs = done.chain(runs(&doomed, RunKind::Discard)).collect();
            self.send_mark(state, LogKind::Deletions, runs)
        })
        .await?;
        self.wait_durable().await?;
        Ok(added)
    }

    /// Waits until all that was sent is durable.
    async fn wait_durable(self: &Arc<Self>) -> Result<()> {
        let last = {
            let mut state = self.state();
            self.seal(&mut state);
            state.history.last
        };
        self.when(|state| {
            let writer = state.writer.as_ref()?;
            writer.pending.range(..=last).next().is_none().then_some(())
        })
        .await
    }

    /// Removes objects on the newest list of deletions, after a while.
    fn remove_later(self: &Arc<Self>, numbers: NumberSet) {
        self.state().is_removing = true;
        let line = Arc::clone(self);
        self.executor.spawn(Box::pin(async move {
            line.executor.sleep(line.limits.removal).await;
            if let Err(error) = line.remove(&numbers).await {
                tracing::warn!(%error, "objects could not be removed");
            }
            line.state().is_removing = false;
        }));
    }

    /// Removes what the writer before listed, and perhaps did not remove.
    pub(super) fn remove_doomed(self: &Arc<Self>) {
        let doomed = self.state().history.doomed.clone();
        if !doomed.is_empty() {
            self.remove_later(doomed);
        }
    }

    /// Removes objects. Those in the window of a TAKE object are emptied: their numbers must not become free.
    async fn remove(self: &Arc<Self>, numbers: &NumberSet) -> Result<()> {
        for number in numbers.iter().flatten() {
            let is_in_window = {
                let state = self.state();
                state.check()?;
                state.history.windows.contains(number)
            };
            let name = names::log(number);
            if is_in_window {
                let emptied = bytes::Bytes::from(self.emptied(number));
                self.patiently(|| self.store.replace(&name, emptied.clone()))
                    .await?;
            } else {
                self.patiently(|| self.store.delete(&name)).await?;
            }
            self.state().history.doomed.remove(number);
        }
        Ok(())
    }

    /// The bytes of an object whose contents were removed.
    fn emptied(&self, number: u64) -> Vec<u8> {
        let entry = LineEntry {
            kind: LogKind::Emptied,
            after: 0,
            ..self.entry(&self.state(), number, &[])
        };
        let mut object = Vec::new();
        entry.seal(&mut object);
        object
    }

    /// The objects of which the map needs less than half, those with the least first, up to the limit of copies.
    fn mostly_dead(&self) -> Vec<u64> {
        let state = self.state();
        let until = state.history.objects.range(..state.checkpoint);
        let mut chosen: Vec<(u64, u64)> = until
            .filter(|(_, is)| !is.is_mark && (is.live > 0 || is.zeros > 0))
            .filter(|(_, is)| is.live * 2 < is.size)
            .map(|(number, is)| (is.live, *number))
            .collect();
        chosen.sort_unstable();
        let mut budget = self.limits.copies;
        let within = chosen.into_iter().take_while(|(live, _)| {
            let fits = *live <= budget;
            budget = budget.saturating_sub(*live);
            fits
        });
        within.map(|(_, number)| number).collect()
    }

    /// Copies what the map needs of objects to new ones. The runs keep their origin, so a write that comes in between wins.
    async fn copy_forward(self: &Arc<Self>, objects: Vec<u64>) -> Result<()> {
        let mut extents: BTreeMap<u64, Vec<(u64, u64, Option<u32>, u64)>> = BTreeMap::new();
        {
            let state = self.state();
            objects
                .iter()
                .for_each(|n| drop(extents.insert(*n, Vec::new())));
            for (offset, len, is) in state.history.map.iter() {
                if let Some(of_object) = extents.get_mut(&is.object) {
                    of_object.push((offset, len, is.at, is.origin));
                }
            }
        }
        for (object, of_object) in extents {
            let mut data = Vec::new();
            let mut copied = Vec::new();
            for (offset, len, at, origin) in of_object {
                let kind = match at {
                    Some(at) => {
                        let bytes = self
                            .read_stored(object, u64::from(at), len as usize)
                            .await?;
                        data.extend_from_slice(&bytes);
                        RunKind::Bytes
                    }
                    None => RunKind::Zeros,
                };
                copied.push(Run {
                    kind,
                    offset,
                    len,
                    origin,
                });
            }
            if !copied.is_empty() {
                self.when(|state| self.send_copies(state, &copied, &data))
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes every object that held what was overwritten, and reads back that it is gone.
    pub(super) async fn purge(self: &Arc<Self>) -> Result<()> {
        let _collecting = self.collecting.lock().await;
        let purges = self.state().purges.clone();
        let holders = holders(&self.state().history, &purges);
        if !holders.is_empty() {
            // The writes that replace it must be durable first, and so must copies of the rest.
            self.copy_forward(holders.clone()).await?;
            self.wait_durable().await?;
            let dead = self.checkpoint().await?;
            let numbers = self.list_deletions(&dead).await?;
            self.remove(&numbers).await?;
            for number in holders {
                self.check_removed(number).await?;
            }
        }
        let mut state = self.state();
        if state.purges == purges {
            state.purges = NumberSet::default();
        }
        Ok(())
    }

    async fn check_removed(&self, number: u64) -> Result<()> {
        let name = names::log(number);
        match self.read_end(number).await? {
            None => Ok(()),
            Some((entry, _)) if entry.kind == LogKind::Emptied => Ok(()),
            Some(_) => Err(Error::Damaged {
                store: self.store.address(),
                object: name,
                reason: "it was deleted, and is still there",
            }),
        }
    }
}

/// The objects that ever held bytes of some ranges.
fn holders(history: &LineHistory, ranges: &NumberSet) -> Vec<u64> {
    let objects = history.objects.iter();
    objects
        .filter(|(_, is)| ranges.iter().any(|range| is.held.intersects(&range)))
        .map(|(number, _)| *number)
        .collect()
}

fn runs(numbers: &NumberSet, kind: RunKind) -> impl Iterator<Item = Run> + '_ {
    numbers.iter().map(move |range| Run {
        kind,
        offset: range.start,
        len: range.end - range.start,
        origin: 0,
    })
}
