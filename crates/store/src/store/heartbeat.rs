//! Heartbeats: a block of each device in which the host that uses the pool shows that it does.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::group::member::Member;
use crate::group::pace::{Request, TimeBudget};
use crate::layout::frames::{BLOCK, decode_frame, encode_frame};
use crate::layout::geometry::{COPIES, HeaderSide};
use crate::store::devices::Store;
use crate::{Error, Result};

/// The magic number of a heartbeat.
const MAGIC: [u8; 8] = *b"SR-BEAT_";
/// Devices that take longer for a heartbeat are not waited for, if another one has it.
const WAIT: Duration = Duration::from_secs(1);

impl Store {
    /// Returns whether the headers of all devices have blocks for heartbeats. With a few sizes of the key area they
    /// have none.
    pub fn has_heartbeat_block(&self) -> bool {
        let layout = self.groups.now();
        layout
            .members()
            .all(|member| member.geometry.heartbeat(HeaderSide::Front).is_some())
    }

    /// Writes a heartbeat to all devices that answer, durably. The one before stays, in the other header.
    ///
    /// # Errors
    /// The failure of the last device, if none has it.
    pub fn write_heartbeat(&self, sequence: u64, payload: &[u8]) -> Result<()> {
        let block = Arc::new(encode_frame(MAGIC, self.pool_guid, sequence, payload));
        let layout = self.groups.now();
        let mut members: Vec<&Arc<Member>> = layout.active().collect();
        if members.iter().any(|member| !member.pace().is_slow()) {
            members.retain(|member| !member.pace().is_slow());
        }
        let (tell, told) = channel();
        let start = |member: &&Arc<Member>| {
            let (own, block, tell) = (Arc::clone(member), Arc::clone(&block), tell.clone());
            let write = move || own.write_heartbeat(sequence, &block);
            let guid = member.guid();
            let pass_on = move |outcome| drop(tell.send((guid, outcome)));
            (guid, Request::start(member.pace(), write, pass_on))
        };
        let mut pending: BTreeMap<u64, Request> = members.iter().map(start).collect();
        drop(tell);
        let mut outcome = Err(Error::NoSuperblock);
        let mut patience = TimeBudget::new(WAIT);
        while !pending.is_empty() {
            let next = match (patience.is_over(), &outcome) {
                (false, _) => patience.next(&told),
                // One that has it is enough: who looks for heartbeats looks at all devices.
                (true, Ok(())) => break,
                (true, Err(_)) => told.recv().ok(),
            };
            if let Some((guid, written)) = next {
                pending.remove(&guid);
                outcome = match written {
                    Ok(()) => Ok(()),
                    Err(error) => outcome.or(Err(error)),
                };
            }
        }
        pending.values().for_each(Request::give_up);
        outcome
    }

    /// The heartbeats that the media of the devices hold: sequence and payload. A torn one is none.
    ///
    /// # Errors
    /// The failure of a device, if none can be read.
    pub fn heartbeats(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let layout = self.groups.now();
        let (mut found, mut failure, mut read) = (Vec::new(), None, false);
        // A device that does not answer is not waited for, if another one is left.
        let prompt = |member: &&Arc<Member>| !member.pace().is_slow();
        let any_prompt = layout.active().any(|member| prompt(&member));
        for member in layout.active().filter(|it| !any_prompt || prompt(it)) {
            match member.read_heartbeats() {
                Err(error) => failure = Some(error),
                Ok(blocks) => {
                    read = true;
                    let frames = blocks.iter();
                    let frames =
                        frames.filter_map(|it| decode_frame(MAGIC, self.pool_guid, it).ok());
                    found.extend(frames.map(|(at, payload)| (at, payload.to_vec())));
                }
            }
        }
        match failure {
            Some(error) if !read => Err(error),
            _ => Ok(found),
        }
    }
}

impl Member {
    fn write_heartbeat(&self, sequence: u64, block: &[u8; BLOCK]) -> Result<()> {
        let copy = COPIES[(sequence % 2) as usize];
        let Some(at) = self.geometry.heartbeat(copy) else {
            return Ok(());
        };
        let written = self
            .device
            .write_durably_at(at, &[IoSlice::new(&block[..])]);
        // The system tells a failure once: what else was written before may be lost by it.
        Ok(written.inspect_err(|_| self.note_lost())?)
    }

    /// The blocks, as the medium has them: another machine may have written them.
    fn read_heartbeats(&self) -> Result<Vec<[u8; BLOCK]>> {
        self.device.drop_cached()?;
        let places = COPIES
            .into_iter()
            .filter_map(|it| self.geometry.heartbeat(it));
        let read = places.map(|at| {
            let mut block = [0; BLOCK];
            self.device.read_at(at, &mut block)?;
            Ok(block)
        });
        read.collect()
    }
}
