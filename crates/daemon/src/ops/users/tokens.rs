//! Tokens: making, listing and revoking them.

use std::sync::Arc;

use protocol::accounts::{uid_of, user_name};
use protocol::api::{CallerReport, FailureKind, NewToken, TokenRow, command};
use protocol::characters::is_hidden;

use crate::failure::{Failure, Result};
use crate::host::callers::scope::{BoundDataset, BoundScope, PeerToken};
use crate::host::callers::users::Peer;
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::zones::zone::{Zone, ZoneOwner};

/// The longest label, in characters.
const LABEL_MAX: usize = 100;

impl Daemon {
    /// The user as whom the daemon knows the caller.
    pub(crate) fn caller(&self, context: &CallerContext<'_>) -> CallerReport {
        let peer = &context.peer;
        let shown = peer.token.as_ref();
        let token = shown.and_then(|token| self.tokens.with_id(&token.id));
        CallerReport {
            user: user_of(peer.uid),
            uid: peer.uid,
            admin: peer.is_admin && context.view.is_none(),
            zone: token.as_ref().and_then(|token| token.zone.clone()),
            token: shown.map(|token| token.id.clone()),
            expires: token.and_then(|token| token.expires),
            apart: shown.is_some_and(PeerToken::gives_all),
        }
    }

    pub(crate) fn create_token(
        &self,
        new: &command::TokenCreate,
        context: &CallerContext<'_>,
    ) -> Result<NewToken> {
        if context.peer.token.is_some() {
            // A token that was stolen would live on in others.
            let why = "a token cannot make tokens: log in to the machine, and use 'strongroom web token create'";
            return Err(Failure::new(FailureKind::Permission, why));
        }
        if new.label.chars().count() > LABEL_MAX || new.label.chars().any(is_hidden) {
            let why = format!("a label is one line of at most {LABEL_MAX} characters");
            return Err(Failure::usage(why));
        }
        let scope = self.bound_scope(new)?;
        // The zone is not destroyed before its token is there.
        let _changing = new.zone.as_ref().map(|_| self.zones.changing.lock());
        let zone = new.zone.as_deref().map(|name| self.zone_of_token(name));
        let zone = zone.transpose()?;
        let uid = match (&new.user, &zone) {
            (None, None) => context.peer.uid,
            (None, Some(zone)) => owner_of(zone)?,
            (Some(name), _) => uid_of(name).ok_or_else(|| {
                let why = format!("there is no user '{name}' on this machine");
                Failure::new(FailureKind::NotFound, why)
            })?,
        };
        let zone = zone.as_ref().map(|zone| (&*zone.name, zone.is.root()));
        let made = self.tokens.add(uid, &new.label, zone, new.expires, scope)?;
        self.open_to_delegates();
        Ok(made)
    }

    /// The scope of a new token, with its dataset bound to the guid.
    fn bound_scope(&self, new: &command::TokenCreate) -> Result<BoundScope> {
        let scope = &new.scope;
        let names = command::names();
        if let Some(unknown) = scope.commands.iter().find(|name| !names.contains(name)) {
            let why = format!(
                "there is no command '{unknown}'; /v1/openapi.json has the names of all: below /v1/commands"
            );
            return Err(Failure::usage(why));
        }
        if scope.receive_only
            && (scope.dataset.is_none() || scope.read_only || !scope.commands.is_empty())
        {
            let why = "a token that only receives needs the dataset into which it does, and no other limit";
            return Err(Failure::usage(why));
        }
        let dataset = match (&scope.dataset, &new.zone) {
            (None, _) => None,
            (Some(_), Some(_)) => {
                let why =
                    "a token of a zone reaches the zone's datasets; leave out --dataset or --zone";
                return Err(Failure::usage(why));
            }
            (Some(name), None) if name.contains(['@', '#']) => {
                let why = format!("'{name}' is not a dataset; name the dataset alone");
                return Err(Failure::usage(why));
            }
            (Some(name), None) => {
                let (active, entry) = self.find(name)?;
                Some(BoundDataset {
                    name: name.clone(),
                    pool: active.pool.guid(),
                    guid: entry.guid,
                })
            }
        };
        Ok(BoundScope {
            read_only: scope.read_only,
            dataset,
            commands: scope.commands.clone(),
            receive_only: scope.receive_only,
        })
    }

    fn zone_of_token(&self, name: &str) -> Result<Arc<Zone>> {
        self.zones.get(name).ok_or_else(|| {
            let why = format!("there is no zone '{name}'; 'strongroom zone list' lists them");
            Failure::new(FailureKind::NotFound, why)
        })
    }

    /// The tokens that a caller may see: all, or the caller's own.
    pub(crate) fn token_rows(&self, peer: &Peer) -> Vec<TokenRow> {
        self.tokens.rows(whose(peer))
    }

    pub(crate) fn revoke_token(&self, id: &str, peer: &Peer) -> Result<()> {
        if !self.tokens.remove(id, whose(peer))? {
            let rows = self.token_rows(peer).into_iter();
            let ids: Vec<String> = rows
                .filter(|row| row.label == id)
                .map(|row| row.id)
                .collect();
            let why = match &ids[..] {
                [] => format!("there is no token '{id}'; 'strongroom web token list' lists them"),
                ids => format!(
                    "'{id}' is a label, and several tokens can have the same; revoke the token by its id: {}",
                    ids.join(" or ")
                ),
            };
            return Err(Failure::new(FailureKind::NotFound, why));
        }
        self.open_to_delegates();
        Ok(())
    }
}

/// The user to whom a zone belongs.
fn owner_of(zone: &Zone) -> Result<u32> {
    match zone.is.owner {
        Some(ZoneOwner::User(uid)) => Ok(uid),
        Some(ZoneOwner::Group(_)) | None => {
            let name = &zone.name;
            let why = format!(
                "zone '{name}' belongs to no user; name the user of the token: --user USER"
            );
            Err(Failure::usage(why))
        }
    }
}

/// The user whose tokens a caller may see and revoke; `None` for all.
fn whose(peer: &Peer) -> Option<u32> {
    (!peer.is_admin).then_some(peer.uid)
}

fn user_of(uid: u32) -> String {
    user_name(uid).unwrap_or_else(|| uid.to_string())
}
