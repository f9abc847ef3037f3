//! The sessions of initiators, with exported targets and with targets of `ha.toml`.

use iscsi::SessionNow;
use protocol::api::{FailureKind, SessionRow};

use crate::failure::{Failure, Result};
use crate::ops::exports::no_such_export;
use crate::state::daemon::Daemon;
use crate::state::exports::listen::Protocol;
use crate::state::exports::registry::State;
use crate::state::exports::servers::ServerExport;

impl Daemon {
    /// The sessions of initiators.
    pub(crate) fn session_rows(&self) -> Vec<SessionRow> {
        let mut rows = Vec::new();
        for (name, entry) in self.exported.entries() {
            if let State::Open(offered, _) = &entry.state {
                let sessions = offered.sessions().into_iter();
                rows.extend(sessions.map(|session| session_row(&name, session)));
            }
        }
        for (name, target) in self.ha_targets() {
            let sessions = target.sessions().into_iter();
            rows.extend(sessions.map(|session| session_row(&name, session)));
        }
        rows
    }

    /// Ends a session of a target. The initiator may log in again.
    pub(crate) fn end_session(&self, target: &str, number: u16) -> Result<()> {
        let exported = match self.exported.offered(target) {
            Some(ServerExport::Iscsi(offered, _)) => Some(offered),
            _ => None,
        };
        let served = || self.ha_targets().remove(target);
        let offered = exported.or_else(served);
        let offered = offered.ok_or_else(|| no_such_export(Protocol::Iscsi, target))?;
        match offered.end_session(number) {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::NotFound,
                format!(
                    "'{target}' has no session {number}; 'strongroom iscsi sessions' lists all sessions"
                ),
            )),
        }
    }
}

fn session_row(target: &str, session: SessionNow) -> SessionRow {
    SessionRow {
        target: target.into(),
        number: session.number,
        initiator: session.initiator,
        address: session.address,
        registered: session.is_registered,
    }
}
