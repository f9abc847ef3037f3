//! Sending of objects: each until it is there, or belongs to another writer.

use std::sync::Arc;

use bytes::Bytes;

use super::line::{Line, LineRule};
use crate::line::log_object::{END_READ, EndOf, LineEntry};
use crate::line::names;
use crate::store::Creation;
use crate::{Error, Result};

/// The outcome of creating an object.
#[derive(Debug)]
pub(super) enum Creator {
    /// The writer that asks.
    Own,
    /// Another one was there before, or the same one with another object, when the store refused to let it take the line.
    Other(LineEntry),
}

impl Line {
    /// Creates an object until it is there, and tells those that wait for it.
    pub(super) async fn upload(self: Arc<Self>, number: u64, object: Bytes) {
        match self.create(number, object).await {
            Ok(Creator::Own) => {
                let mut state = self.state();
                if let Some(writer) = &mut state.writer
                    && let Some(object) = writer.pending.remove(&number)
                {
                    writer.pending_bytes -= object.len();
                    self.keep_small(number, &object);
                }
                drop(state);
                self.tell();
            }
            Ok(Creator::Other(_)) => self.fail(Error::Fenced {
                store: self.store.address(),
            }),
            Err(error) => self.fail(error),
        }
    }

    /// Creates an object with a number, always with the same bytes. A lost answer is no answer: the request is repeated, and
    /// if the object exists then, it is read.
    pub(super) async fn create(&self, number: u64, object: Bytes) -> Result<Creator> {
        let name = names::log(number);
        loop {
            let made = self
                .patiently(|| async {
                    // A writer that has ended sends nothing any more.
                    self.state().check()?;
                    self.store.create(&name, object.clone()).await
                })
                .await?;
            if made == Creation::Made {
                return Ok(Creator::Own);
            }
            if !self.limits.keeps(LineRule::ReadBack) {
                return Ok(Creator::Own);
            }
            match self.read_end(number).await? {
                Some((entry, size)) if is_end_of(&entry, size, &object) => {
                    return Ok(Creator::Own);
                }
                Some((entry, _)) => return Ok(Creator::Other(entry)),
                // Another request was creating it (409), or it was deleted since.
                None => self.executor.sleep(super::outage::FIRST_PAUSE).await,
            }
        }
    }

    /// Reads the end of an object, and its size. `None` if there is no such object.
    pub(super) async fn read_end(&self, number: u64) -> Result<Option<(LineEntry, u64)>> {
        let name = names::log(number);
        let Some(first) = self.patiently(|| self.store.get(&name, 0..1)).await? else {
            return Ok(None);
        };
        self.read_end_of(number, first.size).await
    }

    /// Reads the end of an object of this size.
    pub(super) async fn read_end_of(
        &self,
        number: u64,
        mut size: u64,
    ) -> Result<Option<(LineEntry, u64)>> {
        let name = names::log(number);
        let mut is_new_size = false;
        let mut len = END_READ.min(size);
        loop {
            if len == 0 {
                return Err(self.damaged(name, "it is empty"));
            }
            let range = size - len..size;
            let Some(end) = self
                .patiently(|| self.store.get(&name, range.clone()))
                .await?
            else {
                return Ok(None);
            };
            // It was emptied since its size was read. That happens once.
            if end.size != size && !is_new_size {
                is_new_size = true;
                size = end.size;
                len = END_READ.min(size);
                continue;
            }
            if end.size != size || end.bytes.len() as u64 != len {
                return Err(self.damaged(name, "its size changed while it was read"));
            }
            match LineEntry::read(&end.bytes, size) {
                Ok(EndOf::Entry(entry)) => {
                    if len == size && entry.data_len > 0 {
                        self.keep_small(number, &end.bytes);
                    }
                    return Ok(Some((entry, size)));
                }
                Ok(EndOf::Longer(needed)) if needed > len && needed <= size => len = needed,
                Ok(EndOf::Longer(_)) => {
                    return Err(self.damaged(name, "its end is longer than it is"));
                }
                Err(reason) => return Err(self.damaged(name, reason)),
            }
        }
    }
}

/// Returns whether an entry is the one of this object.
fn is_end_of(entry: &LineEntry, size: u64, object: &[u8]) -> bool {
    let own = LineEntry::read(object, size);
    size == object.len() as u64 && matches!(own, Ok(EndOf::Entry(own)) if own == *entry)
}
