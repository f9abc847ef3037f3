//! Adds a group of devices to a pool.

use std::sync::Arc;

use store::NewMember;

use crate::engine::devices::membership::shapes;
use crate::engine::gate::CommitEngine;
use crate::engine::history::{Origin, log};
use crate::error::Result;
use crate::format::superblock::config::{ConfigDevice, Purpose, Role};

/// The largest number of segments of a log group: the data synced in a few seconds is not much.
pub(crate) const LOG_SEGMENTS_MAX: u32 = 1024;

/// Adds an empty group of devices.
pub(crate) fn add_group(
    engine: &Arc<CommitEngine>,
    devices: &[NewMember],
    parity: usize,
    purpose: Purpose,
    origin: &Origin,
) -> Result<()> {
    engine.state.read().refuse_with_checkpoint()?;
    engine.check_writable()?;
    let store = &engine.disk.store;
    let segments_max = match purpose {
        Purpose::Logs => LOG_SEGMENTS_MAX,
        _ => u32::MAX,
    };
    // What is written to key blocks from now on goes there too, and no other commit is to depend on them.
    let committing = engine.lock_commits();
    let group = store.add_group(devices, parity, segments_max)?;
    let guids: Vec<u64> = devices.iter().map(|new| new.guid).collect();
    engine.or_let_go(&guids, engine.bring_headers(&guids))?;
    let listed = engine.commit_holding(&committing, |commit, state| {
        let members = store.members().into_iter();
        let joined = members.filter(|member| guids.contains(&member.guid));
        state
            .config
            .devices
            .extend(joined.map(|member| ConfigDevice::new(&member)));
        state.config_dirty = true;
        state.config.shapes = shapes(store.as_ref());
        engine.space.grow(purpose)?;
        if !state.config.stretches.is_empty() {
            state.config.stretches = engine.space.numbering().stretches();
        }
        engine.disk.grow();
        if purpose == Purpose::Logs {
            let segments = store.groups()[usize::from(group)];
            state.config.set_role(group, Role { purpose, segments });
            store.make_dispensable(group, segments);
        }
        if guids.len() > 1 || purpose == Purpose::Logs {
            state.make_redundant(commit);
        }
        state.root.groups = (store.groups().len() as u32).into();
        log(commit, state, origin, None);
        Ok(())
    });
    engine.or_let_go(&guids, listed)?;
    // Before it is durable that the group is there no log may point into it.
    engine.space.open_extended();
    Ok(())
}
