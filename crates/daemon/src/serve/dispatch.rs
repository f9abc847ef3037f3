//! Runs requests of any protocol.

use std::sync::Arc;
use std::time::Duration;

use keys::{HashCaller, KeySource};
use protocol::api::command::reply_kinds;
use protocol::api::{Ask, Command, FailureKind, Reply, Request};
use secret::Secret;

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::host::log::{cut, log_for};
use crate::serve::commands::Serve;
use crate::serve::decision::Decision;
use crate::state::callers::budget::{BudgetedWork, Payer};
use crate::state::callers::channel::{Channel, DataChannel};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::zones::view::ZoneView;

pub(crate) enum RequestOutcome {
    Reply(Reply),
    Stop,
}

/// A channel to a caller. It translates names into those that a tenant uses in a zone.
struct TranslatingChannel<'a> {
    channel: &'a mut dyn Channel,
    view: Option<&'a ZoneView>,
}

impl Channel for TranslatingChannel<'_> {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        self.channel.ask(match self.view {
            Some(view) => view.ask(ask),
            None => ask,
        })
    }

    fn notice(&mut self, text: String) {
        self.channel.notice(match self.view {
            Some(view) => view.text(&text),
            None => text,
        });
    }

    fn rows(&mut self, rows: Reply) -> Result<()> {
        self.channel.rows(match self.view {
            Some(view) => view.reply(rows)?,
            None => rows,
        })
    }

    fn pause(&mut self, time: Duration) -> bool {
        self.channel.pause(time)
    }

    fn data(&self) -> Result<Arc<dyn DataChannel>> {
        self.channel.data()
    }
}

/// The memory for one password hash that a request allows, in KiB. Only root and the daemon's user may raise it.
fn hash_memory_of(request: &Request, peer: &Peer, view: Option<&ZoneView>) -> Result<u64> {
    match request.hash_memory {
        None => Ok(0),
        Some(mib) if peer.is_admin && view.is_none() => Ok(mib.saturating_mul(1024)),
        Some(_) => Err(Failure::new(
            FailureKind::Permission,
            "--hash-memory is for root, and for the user who runs the daemon",
        )),
    }
}

/// Returns whether a command only reads state that programs ask for again and again. Its lines would fill the log.
fn is_look(command: &Command) -> bool {
    match command {
        Command::PoolEvents(events) => !events.clear,
        Command::PoolStatus(_) | Command::Get(_) | Command::KeyStatus(_) => true,
        Command::Mounts | Command::NbdExports | Command::UblkDevices | Command::IscsiExports => {
            true
        }
        Command::Whoami | Command::Metrics | Command::KeyTries => true,
        _ => false,
    }
}

/// The command line, for history and log. A source of keys that is invalid is left out, because it could be a key.
pub(super) fn history_line(command: &dyn Serve) -> String {
    command.line(|text| text.parse::<KeySource>().is_ok())
}

impl Daemon {
    /// Carries out a request. With a view, the request came through a zone.
    pub(crate) fn carry_out(
        self: &Arc<Self>,
        request: Request,
        peer: Peer,
        view: Option<&ZoneView>,
        channel: &mut dyn Channel,
    ) -> Result<RequestOutcome> {
        let payer = Payer::of(&peer, view.map(|view| view.root.guid)).of_command(&request.command);
        let _lines = log_for(match payer {
            Payer::Root => None,
            Payer::User(uid) => Some(format!("uid {uid}")),
            Payer::Token(id) => Some(format!("token {id:08x}")),
            Payer::Tenant(_) => view.map(|view| format!("zone {}", view.name)),
            Payer::Login(uid) => Some(format!("login uid {uid}")),
        });
        let who = peer.who.clone();
        let done = self.carry_out_for(payer, request, peer, view, channel);
        if let Err(failure) = &done {
            tracing::info!(who, reason = failure.message, "a command failed");
        }
        done
    }

    fn carry_out_for(
        self: &Arc<Self>,
        payer: Payer,
        request: Request,
        peer: Peer,
        view: Option<&ZoneView>,
        channel: &mut dyn Channel,
    ) -> Result<RequestOutcome> {
        let _hashes = keys::hash_for(HashCaller {
            payer: payer.into(),
            allowed_kib: hash_memory_of(&request, &peer, view)?,
            is_gone: channel.data().ok().map(|data| {
                // An abandoned hash does not keep the connection open.
                let data = Arc::downgrade(&data);
                Arc::new(move || data.upgrade().is_none_or(|data| data.is_gone())) as _
            }),
        });
        let stops = request.command.ends_daemon();
        let is_look = is_look(&request.command);
        let documented = cfg!(debug_assertions).then(|| reply_kinds(&request.command.name()));
        let work = BudgetedWork::of(&request.command);
        let begin = |work| self.budgets.begin(payer, work, channel);
        let _running = work.map(begin).transpose()?;
        let decision = Decision::new(self, &peer, view, request.command);
        let command = decision.make()?;
        // In a zone what it means outside.
        let said = cut(history_line(&*command));
        match is_look {
            true => tracing::debug!(who = peer.who, command = said, "command"),
            false => tracing::info!(who = peer.who, command = said, "command"),
        }
        let mut seen = TranslatingChannel { channel, view };
        let pools = || self.pools();
        let mut context = CallerContext {
            peer,
            view,
            pools: &pools,
            said,
            decision: &decision,
            channel: &mut seen,
        };
        let result = command.run(self, &mut context);
        if let (Some(kinds), Ok(reply)) = (documented, &result) {
            let (kind, _) = protocol::json::reply(reply);
            debug_assert!(
                kinds.contains(&&*kind),
                "a reply {kind}, which is none of {kinds:?}"
            );
        }
        let unsaved = self.pool_table.save_again();
        if !is_look && view.is_none() && context.peer.is_admin {
            unsaved
                .into_iter()
                .for_each(|text| context.channel.notice(text));
        }
        if stops && result.is_ok() {
            return Ok(RequestOutcome::Stop);
        }
        let seen = match (view, result) {
            (None, result) => result,
            (Some(view), Ok(reply)) => view.reply(reply),
            (Some(view), Err(failure)) => Err(view.failure(failure)),
        };
        seen.map(RequestOutcome::Reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::API_VERSION;

    #[test]
    fn others_do_not_give_a_hash_more_memory() {
        let request = |hash_memory| Request {
            version: API_VERSION,
            command: Command::Mounts,
            hash_memory,
        };
        let peer = |is_admin| Peer {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            who: "another user".into(),
            is_admin,
            token: None,
        };
        let refused = hash_memory_of(&request(Some(5)), &peer(false), None);
        assert_eq!(refused.unwrap_err().kind, FailureKind::Permission);
        assert_eq!(
            hash_memory_of(&request(None), &peer(false), None).unwrap(),
            0
        );
        let allowed = hash_memory_of(&request(Some(5)), &peer(true), None);
        assert_eq!(allowed.unwrap(), 5 << 10);
    }
}
