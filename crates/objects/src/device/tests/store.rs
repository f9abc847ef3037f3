//! The simulated store: answers get lost, requests arrive late, and outages come and go.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::world::{ActorId, Arrival, World};
use crate::line::log_object::{EndOf, LineEntry};
use crate::line::names;
use crate::store::{Creation, Executor, ListedObject, ObjectStore, Part, RequestFuture};
use crate::{Error, Result};

/// The faults of a store, each in thousandths of all requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreFaults {
    /// Requests that arrive at any later time, and have no answer.
    pub(super) late: u64,
    /// Requests that are carried out, and have no answer.
    pub(super) unanswered: u64,
    /// Requests to create that are refused because another one is on its way, though there is none.
    pub(super) conflicts: u64,
    /// Requests that are refused.
    pub(super) refusals: u64,
    /// Lists of two moments: some names are looked for earlier than others.
    pub(super) split_lists: u64,
    /// The longest way to the store or back.
    pub(super) way: Duration,
    /// The latest arrival.
    pub(super) latest: Duration,
}

/// The store as an actor sees it.
pub(super) struct SimStore {
    pub(super) world: Arc<World>,
    pub(super) actor: ActorId,
    pub(super) faults: StoreFaults,
}

const ADDRESS: &str = "s3://simulated/pool";

impl SimStore {
    async fn way(&self) {
        let time = self.world.some_time(self.faults.way.as_millis() as u64);
        let world = Arc::clone(&self.world);
        let actor = self.actor;
        super::world::SimExecutor { world, actor }.sleep(time).await;
    }

    fn is_gated(&self, operation: &'static str, name: &str) -> bool {
        let state = self.world.state();
        let mut gates = state.gates.iter();
        gates.any(|(actor, op, of)| *actor == self.actor && *op == operation && of == name)
    }

    fn unanswered(operation: &'static str, object: &str) -> Error {
        Error::Unanswered {
            store: ADDRESS.into(),
            operation,
            object: object.into(),
            reason: "simulated".into(),
        }
    }

    /// Carries out a request, or a part of it.
    async fn carry_out<T>(
        &self,
        operation: &'static str,
        name: &str,
        late: Option<Arrival>,
        effect: impl FnOnce(&World) -> T,
    ) -> Result<T> {
        self.way().await;
        while self.is_gated(operation, name) {
            self.way().await;
        }
        let is_refused = operation == "create" && self.world.state().refused == name;
        if is_refused || self.world.happens(self.faults.refusals) {
            return Err(Error::Refused {
                store: ADDRESS.into(),
                operation,
                object: name.into(),
                reason: "simulated".into(),
            });
        }
        let is_out = {
            let state = self.world.state();
            state.now < state.outage
        };
        let is_late = self.world.happens(self.faults.late);
        if is_out || is_late {
            if let Some(late) = late.filter(|_| is_late) {
                let latest = self.faults.latest.as_millis() as u64;
                self.world.arrive_in(self.world.some_time(latest), late);
            }
            self.way().await;
            return Err(Self::unanswered(operation, name));
        }
        let done = effect(&self.world);
        self.way().await;
        if self.world.happens(self.faults.unanswered) {
            return Err(Self::unanswered(operation, name));
        }
        Ok(done)
    }
}

impl ObjectStore for SimStore {
    fn address(&self) -> String {
        ADDRESS.into()
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        let name = name.to_owned();
        Box::pin(async move {
            let late = Some(Arrival::Create(name.clone(), bytes.clone()));
            let is_conflict = self.world.happens(self.faults.conflicts);
            self.carry_out("create", &name, late, |world| {
                match !is_conflict && world.state().shelf.create(&name, &bytes) {
                    true => Creation::Made,
                    false => Creation::Exists,
                }
            })
            .await
        })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            let late = Arrival::Replace(name.clone(), bytes.clone());
            self.carry_out("replace", &name, Some(late), |world| {
                let shelf = &mut world.state().shelf;
                shelf.revived.remove(&name);
                shelf.objects.insert(name.clone(), bytes);
            })
            .await
        })
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        let name = name.to_owned();
        Box::pin(async move {
            self.carry_out("get", &name, None, |world| {
                world.state().shelf.part(&name, range)
            })
            .await
        })
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        Box::pin(async move {
            let list = |world: &World| {
                let state = world.state();
                let mut listed = state.shelf.list(&prefix, after.as_deref(), limit);
                if let Some((_, names)) = state.old_list.as_ref().filter(|it| it.0 == self.actor) {
                    listed.retain(|object| names.contains(&object.name));
                }
                listed
            };
            if !self.world.happens(self.faults.split_lists) {
                return self.carry_out("list", &prefix, None, list).await;
            }
            let salt = self.world.below(u64::MAX);
            let is_early = |name: &str| {
                let number = names::number(&prefix, name).unwrap_or(0);
                (number ^ salt).is_multiple_of(2)
            };
            let mut early = self.carry_out("list", &prefix, None, list).await?;
            let mut late = self.carry_out("list on", &prefix, None, list).await?;
            early.retain(|object| is_early(&object.name));
            late.retain(|object| !is_early(&object.name));
            early.extend(late);
            early.sort_by(|a, b| a.name.cmp(&b.name));
            early.truncate(limit);
            Ok(early)
        })
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            let late = Arrival::Delete(name.clone());
            self.carry_out("delete", &name, Some(late), |world| {
                let shelf = &mut world.state().shelf;
                shelf.revived.remove(&name);
                shelf.objects.remove(&name);
            })
            .await
        })
    }
}

impl super::world::ObjectShelf {
    pub(super) fn part(&self, name: &str, range: Range<u64>) -> Option<Part> {
        let object = self.objects.get(name)?;
        let size = object.len() as u64;
        let end = range.end.min(size);
        let start = range.start.min(end);
        Some(Part {
            bytes: object.slice(start as usize..end as usize),
            size,
        })
    }

    /// A line for each object.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for (name, bytes) in &self.objects {
            text.push_str(name);
            if let Ok(EndOf::Entry(is)) = LineEntry::read(bytes, bytes.len() as u64) {
                let of = is.writer[0];
                text.push_str(&format!(
                    ": {:?} of {of:02x}, first {}, after {}:",
                    is.kind, is.first, is.after
                ));
                for run in is.runs {
                    let (kind, offset, len) = (run.kind, run.offset, run.len);
                    text.push_str(&format!(" {kind:?} {offset}+{len} of {},", run.origin));
                }
            }
            text.push('\n');
        }
        text
    }

    fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<ListedObject> {
        let objects = self.objects.iter();
        objects
            .filter(|(name, _)| name.starts_with(prefix))
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .take(limit)
            .map(|(name, bytes)| ListedObject {
                name: name.clone(),
                size: bytes.len() as u64,
            })
            .collect()
    }
}

/// The objects of this moment, to read only. Nobody waits for an answer.
pub(super) struct FrozenStore {
    pub(super) world: Arc<World>,
    pub(super) has_checkpoints: bool,
}

impl ObjectStore for FrozenStore {
    fn address(&self) -> String {
        ADDRESS.into()
    }

    fn create(&self, _: &str, _: Bytes) -> RequestFuture<'_, Result<Creation>> {
        unreachable!("it is read only")
    }

    fn replace(&self, _: &str, _: Bytes) -> RequestFuture<'_, Result<()>> {
        unreachable!("it is read only")
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        let part = self.world.state().shelf.part(name, range);
        Box::pin(async move { Ok(part) })
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let mut listed = self.world.state().shelf.list(prefix, after, limit);
        if prefix == names::MAP && !self.has_checkpoints {
            listed.clear();
        }
        Box::pin(async move { Ok(listed) })
    }

    fn delete(&self, _: &str) -> RequestFuture<'_, Result<()>> {
        unreachable!("it is read only")
    }
}
