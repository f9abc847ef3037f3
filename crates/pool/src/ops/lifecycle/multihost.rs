//! Watches whether another host uses a pool, as MMP of ZFS does (`multihost=on`). It detects another host, but does not
//! fence it.
//!
//! The host that has imported the pool writes a heartbeat each [`INTERVAL`]. If it cannot write one for [`FAILS`]
//! intervals, it suspends the pool until the next import. A host that imports a pool which another host has not
//! exported waits twice as long, and refuses the import if anything changes meanwhile.
//!
//! Without heartbeats an import of a pool that was not exported looks for a moment whether its superblocks change. That
//! shows a host that is busy with the pool, and proves nothing of one that is idle.

use crate::engine::gate::CommitEngine;
use std::sync::Arc;
use std::time::Duration;

use store::Store;

use crate::engine::devices::heart::LastHeartbeat;
use crate::env::Env;
use crate::error::{Error, Result, SuspensionEnd};
use crate::format::superblock::features::FEATURE_MULTIHOST;
use crate::format::superblock::heartbeat::Heartbeat;
use crate::format::superblock::root::{Host, PoolRoot, PoolState};
use crate::ops::pool::Pool;

/// The property of the root dataset that asks for heartbeats.
const PROPERTY: &str = "multihost";
/// From one heartbeat to the next.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// The intervals without a heartbeat that suspend the pool.
const FAILS: u32 = 10;
/// An importing host waits this many times longer.
const SAFETY: u32 = 2;
/// The intervals that a host waits for a pool that itself used last.
const OWN_STEPS: u32 = 3;
/// The intervals that an importing host waits after its own heartbeat.
const CLAIM_STEPS: u32 = 2;
/// The steps of a look at a pool without heartbeats. A host that writes commits each 5 s.
const GLANCE_STEP: Duration = Duration::from_millis(250);
const GLANCE_STEPS: u32 = 8;
/// The steps if this host itself used the pool last: only a container with names of its own, or a copy of this host, does
/// not see its lock.
const OWN_GLANCE_STEPS: u32 = 4;

/// The protection of a pool against use by two hosts at once: claims of its devices, and heartbeats.
#[derive(Clone, Copy)]
pub struct Multihost<'a> {
    pub(crate) engine: &'a Arc<CommitEngine>,
}

impl Pool {
    /// The protection against use by two hosts at once.
    pub fn multihost(&self) -> Multihost<'_> {
        Multihost {
            engine: &self.engine,
        }
    }
}

impl Multihost<'_> {
    /// Returns whether the host that has the pool imported shows it by heartbeats.
    ///
    /// # Errors
    /// As [`Pool::top`].
    pub fn is_on(&self) -> Result<bool> {
        Ok(self
            .engine
            .state
            .read()
            .top()
            .cloned()?
            .props
            .get(PROPERTY)
            .is_some_and(|it| it == "on"))
    }

    /// Checks that the pool can have heartbeats.
    ///
    /// # Errors
    /// [`Error::Refused`]
    pub fn check(&self) -> Result<()> {
        let why = if self.engine.state.read().root.last_host().id == 0 {
            "this machine has no hostid: write one to /etc/hostid (zgenhostid of ZFS does) and import the pool again"
        } else if !self.engine.disk.store.has_heartbeat_block() {
            "the headers of its devices have no block for heartbeats: only a new pool on devices of another size has"
        } else {
            return Ok(());
        };
        Err(Error::refused(self.engine.state.read().pool_name(), why))
    }

    /// Writes a heartbeat if the pool is to have them, or else the last one. To be called each [`INTERVAL`].
    ///
    /// # Errors
    /// The failure of the devices. [`Error::Suspended`] if the last one is too old, or another host has written one.
    pub fn beat(&self) -> Result<()> {
        let engine = self.engine;
        if engine.read_only {
            return Ok(());
        }
        let mut beating = engine.heart.beating.lock();
        let (is_on, is_first) = (self.is_on()?, beating.is_none());
        match *beating {
            None if !is_on => return Ok(()),
            None => {
                self.check()?;
                *beating = Some(self.first_beat()?);
            }
            Some(last) => self.look_for_others(&last)?,
        }
        engine.check_lease()?;
        if let Some((_, SuspensionEnd::Imported)) = engine.suspension.now() {
            return engine.suspension.check();
        }
        let Some(last) = beating.as_mut() else {
            return Ok(());
        };
        let at = engine.env.lease_clock();
        if is_on && !is_first && at.saturating_sub(last.at) < INTERVAL / 2 {
            return Ok(());
        }
        last.sequence += 1;
        let beat = Heartbeat {
            session: last.session,
            time: engine.env.now(),
            interval: if is_on {
                INTERVAL.as_millis() as u32
            } else {
                0
            },
            fails: FAILS,
            host: engine.state.read().root.last_host(),
        };
        let store = &engine.disk.store;
        store.write_heartbeat(last.sequence, &beat.encode())?;
        last.at = at;
        match is_on {
            true => engine.heart.extend(at, INTERVAL * FAILS),
            false => {
                engine.heart.end();
                *beating = None;
            }
        }
        Ok(())
    }

    /// A session that goes on from what is on the devices.
    fn first_beat(&self) -> Result<LastHeartbeat> {
        let engine = self.engine;
        let has_feature = |root: &PoolRoot| root.features_required.get() & FEATURE_MULTIHOST != 0;
        if !has_feature(&engine.state.read().root) {
            engine.commit_with(|_, state| {
                state.root.features_required |= FEATURE_MULTIHOST;
                Ok(())
            })?;
        }
        let found = engine.disk.store.heartbeats()?;
        Ok(LastHeartbeat {
            session: engine.env.guid(),
            sequence: found.iter().map(|it| it.0).max().unwrap_or(0),
            at: engine.env.lease_clock(),
        })
    }

    /// After a pause: another host may have waited long enough.
    fn look_for_others(&self, last: &LastHeartbeat) -> Result<()> {
        let engine = self.engine;
        if engine.env.lease_clock().saturating_sub(last.at) < 2 * INTERVAL {
            return Ok(());
        }
        let beats = beats(&engine.disk.store)?;
        let is_other =
            |(at, beat): &&(u64, Heartbeat)| *at >= last.sequence && beat.session != last.session;
        match beats.iter().rfind(is_other) {
            None => Ok(()),
            Some((_, beat)) => {
                Err(engine.suspend_for_good(taken(&self.engine.state.read().pool_name(), beat)))
            }
        }
    }
}

/// The steps of an import that waits, for the caller.
#[derive(Clone, Copy, Debug)]
pub enum ImportWait<'a> {
    /// The import begins to wait for so long, to see whether this host uses the pool.
    Begin(&'a Host, Duration),
    /// The caller has to wait for this time now.
    Step(Duration),
}

/// Waits until it is known that no other host uses a pool whose last host shows that by heartbeats. `pass` lets time
/// pass, and says whether the import goes on.
///
/// # Errors
/// [`Error::OtherHost`] if another one uses it; [`Error::Refused`] if the import does not go on: then nothing but a
/// heartbeat was written. The failure of a device.
pub fn await_no_other(
    store: &Store,
    own: &Host,
    env: &dyn Env,
    pass: &mut dyn FnMut(ImportWait<'_>) -> bool,
) -> Result<()> {
    let Some(watched) = SilentPool::watch(store, own, CLAIM_STEPS, pass)? else {
        return Ok(());
    };
    let SilentPool {
        before,
        last,
        interval,
        pool,
    } = watched;
    // Two hosts may have waited at the same time.
    let claim = Heartbeat {
        session: env.guid(),
        time: env.now(),
        host: own.clone(),
        ..last.clone()
    };
    let sequence = before.sequence() + 1;
    store.write_heartbeat(sequence, &claim.encode())?;
    let claimed = Look::at(store)?;
    if !claimed.beats.iter().any(|(_, beat)| *beat == claim) {
        return Err(taken(&pool, claimed.newest().unwrap_or(&last)));
    }
    for _ in 0..CLAIM_STEPS {
        go_on(pass(ImportWait::Step(interval)), &pool)?;
        claimed.refuse_change(store, &pool, &last)?;
    }
    Ok(())
}

/// Does the same as [`await_no_other`], but writes nothing. It is for devices with reservations: these decide between
/// two hosts that wait at the same time.
///
/// # Errors
/// As [`await_no_other`].
pub fn watch_other(
    store: &Store,
    own: &Host,
    pass: &mut dyn FnMut(ImportWait<'_>) -> bool,
) -> Result<()> {
    SilentPool::watch(store, own, 0, pass).map(drop)
}

fn go_on(goes_on: bool, pool: &str) -> Result<()> {
    match goes_on {
        true => Ok(()),
        false => Err(Error::refused(pool, "the import was interrupted")),
    }
}

/// A pool whose heartbeats did not change for long enough.
struct SilentPool {
    before: Look,
    last: Heartbeat,
    interval: Duration,
    pool: String,
}

impl SilentPool {
    /// Waits for that. `None` if no heartbeats of another host are to be expected. The caller waits for so many `more`
    /// intervals.
    fn watch(
        store: &Store,
        own: &Host,
        more: u32,
        pass: &mut dyn FnMut(ImportWait<'_>) -> bool,
    ) -> Result<Option<SilentPool>> {
        let root = newest(store)?.1;
        if root.state() != Some(PoolState::Active) {
            return Ok(None);
        }
        let before = Look::at(store)?;
        let Some(last) = before.watched(&root) else {
            glance(store, &root, own, pass)?;
            return Ok(None);
        };
        // The caller has the lock of the pool on this host, which ends with its process. A host that was copied, or a
        // container with names of its own, does not see that lock: a short look shows heartbeats that go on.
        let is_own = last.host == *own && own.id != 0;
        let interval = Duration::from_millis(last.interval.clamp(100, 60_000).into());
        let (steps, more) = match is_own {
            true => (OWN_STEPS, 0),
            false => (last.fails.clamp(1, 100) * SAFETY, more),
        };
        let pool = root.name();
        let all = interval * (steps + more);
        go_on(pass(ImportWait::Begin(&last.host, all)), &pool)?;
        for _ in 0..steps {
            go_on(pass(ImportWait::Step(interval)), &pool)?;
            before.refuse_change(store, &pool, &last)?;
        }
        Ok((!is_own).then_some(SilentPool {
            before,
            last,
            interval,
            pool,
        }))
    }
}

/// Looks for a moment whether another host writes to a pool without heartbeats.
fn glance(
    store: &Store,
    root: &PoolRoot,
    own: &Host,
    pass: &mut dyn FnMut(ImportWait<'_>) -> bool,
) -> Result<()> {
    let (pool, before) = (root.name(), Look::at(store)?);
    let last = of_root(root);
    let steps = match last.host == *own {
        true => OWN_GLANCE_STEPS,
        false => GLANCE_STEPS,
    };
    for _ in 0..steps {
        go_on(pass(ImportWait::Step(GLANCE_STEP)), &pool)?;
        before.refuse_change(store, &pool, &last)?;
    }
    Ok(())
}

/// The heartbeat that the last commit stands for.
fn of_root(root: &PoolRoot) -> Heartbeat {
    Heartbeat {
        session: 0,
        time: root.time.get(),
        interval: INTERVAL.as_millis() as u32,
        fails: FAILS,
        host: root.last_host(),
    }
}

fn taken(pool: &str, beat: &Heartbeat) -> Error {
    Error::OtherHost {
        pool: pool.into(),
        host: beat.host.name.clone(),
        id: beat.host.id,
        time: beat.time,
    }
}

fn newest(store: &Store) -> Result<(u64, PoolRoot)> {
    let (txg, payload) =
        { store.superblocks()?.into_iter().next() }.ok_or(store::Error::NoSuperblock)?;
    Ok((txg, PoolRoot::decode(&payload)?))
}

/// The heartbeats on the devices, in the order of their sequence.
fn beats(store: &Store) -> Result<Vec<(u64, Heartbeat)>> {
    let found = store.heartbeats()?.into_iter();
    let beats = found.filter_map(|(at, bytes)| Some((at, Heartbeat::decode(&bytes)?)));
    let mut beats: Vec<_> = beats.collect();
    beats.sort_by_key(|(at, _)| *at);
    Ok(beats)
}

/// The state of the devices at one moment.
#[derive(PartialEq, Eq)]
struct Look {
    txg: u64,
    beats: Vec<(u64, Heartbeat)>,
}

impl Look {
    fn at(store: &Store) -> Result<Look> {
        // Looking for heartbeats empties the cache of the system.
        let beats = beats(store)?;
        Ok(Look {
            beats,
            txg: newest(store)?.0,
        })
    }

    /// Fails if another host has written anything since.
    fn refuse_change(&self, store: &Store, pool: &str, last: &Heartbeat) -> Result<()> {
        let now = Look::at(store)?;
        match now == *self {
            true => Ok(()),
            false => Err(taken(pool, now.newest().unwrap_or(last))),
        }
    }

    fn sequence(&self) -> u64 {
        self.beats.last().map_or(0, |(at, _)| *at)
    }

    fn newest(&self) -> Option<&Heartbeat> {
        self.beats.last().map(|(_, beat)| beat)
    }

    /// The last heartbeat, if more follow it. If the pool has had some and none is whole, its last host may write
    /// them still.
    fn watched(&self, root: &PoolRoot) -> Option<Heartbeat> {
        match self.newest() {
            Some(beat) => Some(beat.clone()).filter(|beat| beat.interval > 0),
            None if root.features_required.get() & FEATURE_MULTIHOST == 0 => None,
            None => Some(of_root(root)),
        }
    }
}
