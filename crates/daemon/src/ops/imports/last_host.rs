//! The host that used a pool last.

use pool::{Host, ImportWait, PoolState, Superblock};
use protocol::api::{FailureKind, command};
use store::Store;

use crate::failure::{Failure, Result};
use crate::host::identity::this_host;
use crate::host::process::system::{System, utc};
use crate::state::callers::context::CallerContext;

/// Refuses a pool that another host may be using.
pub(crate) fn refuse_other_host(
    superblock: &Superblock,
    import: &command::PoolImport,
) -> Result<()> {
    let elsewhere =
        superblock.state == PoolState::Active && !is_same(&superblock.host, &this_host());
    if !elsewhere || import.force || import.read_only {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Busy,
        format!(
            "pool '{}' was last used by host {} at {}, and was not exported; that host may still be using it. If it is \
             not, import with -f",
            superblock.name,
            shown(&superblock.host),
            utc(superblock.time)
        ),
    ))
}

/// Waits until it is certain that no other host uses a pool with heartbeats. Of a pool without, looks for a moment. If that host has the devices reserved,
/// this writes nothing.
pub(crate) fn await_no_other(
    store: &Store,
    is_reserved: bool,
    context: &mut CallerContext<'_>,
) -> Result<()> {
    let mut pass = |passing: ImportWait<'_>| match passing {
        ImportWait::Begin(host, time) => {
            let (host, secs) = (shown(host), time.as_secs());
            context.channel.notice(format!(
                "the pool was not exported by host {host}: waiting {secs} s to see whether that host uses it"
            ));
            true
        }
        ImportWait::Step(time) => context.channel.pause(time),
    };
    let own = this_host();
    let watched = match is_reserved {
        true => pool::watch_other(store, &own, &mut pass),
        false => pool::await_no_other(store, &own, &System, &mut pass),
    };
    watched.map_err(|error| match error {
        pool::Error::OtherHost { pool, host, id, time } => Failure::new(
            FailureKind::Busy,
            format!(
                "host {} uses the pool '{pool}': it has written there since {}, while this import looked. Export the pool \
                 there, or stop that host; -f does not override this",
                shown(&Host { id, name: host }),
                utc(time)
            ),
        ),
        other => other.into(),
    })
}

/// Returns whether two hosts are the same machine. Copies of a machine can share a hostid, and different machines a
/// name.
pub(crate) fn is_same(one: &Host, other: &Host) -> bool {
    one.name == other.name && (one.id == other.id || one.id == 0 || other.id == 0)
}

fn shown(host: &Host) -> String {
    match host.id {
        0 => format!("'{}'", host.name),
        id => format!("'{}' (hostid {id:08x})", host.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_differ_by_name_or_number() {
        let host = |id, name: &str| Host {
            id,
            name: name.into(),
        };
        assert!(is_same(&host(1, "a"), &host(1, "a")));
        assert!(!is_same(&host(1, "a"), &host(2, "a")));
        assert!(!is_same(&host(1, "a"), &host(1, "b")));
        // One of them has no number.
        assert!(is_same(&host(0, "a"), &host(2, "a")));
        assert!(!is_same(&host(0, "a"), &host(2, "b")));
    }
}
