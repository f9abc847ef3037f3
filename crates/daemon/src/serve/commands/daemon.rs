//! The daemon itself.

use protocol::api::{DaemonReport, Reply};

use super::done;
use super::line::HistoryText;

root_only!(
    DaemonStatus,
    |_| HistoryText::new("daemon status"),
    |_, daemon, _| {
        let pools = daemon.pools();
        Ok(Reply::Daemon(DaemonReport {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            socket: daemon.socket.display().to_string(),
            hardware: cipher::hardware().to_string(),
            pools: pools.iter().map(|active| active.pool.name()).collect(),
        }))
    }
);

root_only!(Metrics, |_| HistoryText::new("metrics"), |_, daemon, _| {
    daemon.metrics().map(Reply::Metrics)
});

root_only!(
    DaemonStop,
    |_| HistoryText::new("daemon stop"),
    |_, daemon, _| { daemon.shut_down().map(done) }
);

root_only!(
    DaemonStopForced,
    |_| HistoryText::new("daemon stop").flag("-f", true),
    |_, daemon, context| {
        for text in daemon.shut_down_by_force() {
            context.channel.notice(text);
        }
        Ok(done(()))
    }
);
