//! The daemon itself.

use protocol::api::{DaemonReport, Reply};

use super::done;
use crate::shutdown::StoreRule;

root_only! {
    DaemonStatus: |_, daemon, _| {
        let pools = daemon.pools();
        Ok(Reply::Daemon(DaemonReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            socket: daemon.socket.display().to_string(),
            hardware: cipher::hardware().to_string(),
            pools: pools.iter().map(|active| active.pool.name()).collect(),
        }))
    };
    Metrics: |_, daemon, _| daemon.metrics().map(Reply::Metrics);
    DaemonStop: |_, daemon, context| daemon.shut_down_for(context.channel).map(done);
    DaemonStopForced: |_, daemon, context| {
        for text in daemon.shut_down_by_force(StoreRule::GiveUp) {
            context.channel.notice(text);
        }
        Ok(done(()))
    };
}
