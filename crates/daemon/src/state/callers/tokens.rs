//! Tokens: a caller that shows one has the rights of its user. They are for callers that cannot connect as that user, such
//! as the process that serves HTTP.
//!
//! A token is 256 random bits, so its hash can be a fast one. Only the hash is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use parking_lot::Mutex;
use protocol::accounts::{SystemAccount, accounts};
use protocol::api::{FailureKind, NewToken, TokenRow, TokenScope};
use rustix::process::Uid;
use secret::Secret;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::callers::scope::BoundScope;
use crate::host::callers::users::is_admin;
use crate::host::process::system::now_secs;
use crate::state::memory::StateDir;
use crate::state::zones::zone::Root;

/// The file in the state directory.
const MEMORY: &str = "tokens.json";
/// The largest number of root's tokens, and of those of all others together.
const TOKENS_MAX: usize = 1000;
/// The largest number of tokens of each user other than root.
const EACH_MAX: usize = 20;
/// The beginning of a token, by which a search for secrets finds it.
const PREFIX: &str = "srt_";
const BYTES: usize = 32;

/// A token in the state directory, by its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AccessToken {
    pub(crate) uid: u32,
    /// The name that the user had: another account with the same number is another user.
    user: String,
    hash: String,
    pub(crate) label: String,
    pub(crate) zone: Option<String>,
    /// The root of the zone: another zone with the same name is another zone.
    #[serde(default)]
    pub(crate) root: Option<Root>,
    /// Limits besides the rights of the user. Files of older versions have none.
    #[serde(default)]
    pub(crate) scope: BoundScope,
    created: u64,
    pub(crate) expires: Option<u64>,
    #[serde(skip)]
    last_used: Option<u64>,
}

/// A token that was shown and accepted.
pub(crate) struct AcceptedToken {
    pub(crate) id: String,
    pub(crate) token: AccessToken,
    pub(crate) account: SystemAccount,
}

type All = BTreeMap<String, AccessToken>;

pub(crate) struct Tokens {
    state: Arc<StateDir>,
    all: Mutex<All>,
    /// Changes come one after the other. Nobody else waits until they are on the disk.
    changing: Mutex<()>,
}

impl Tokens {
    pub(crate) fn new(state: &Arc<StateDir>) -> Tokens {
        Tokens {
            all: Mutex::new(state.recall(MEMORY, "strongroom web token create")),
            changing: Mutex::default(),
            state: Arc::clone(state),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }

    /// Removes the tokens that have ended, by their time or with the account of their user. Returns whether there were
    /// any.
    pub(crate) fn prune(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        // If they cannot be read, it is not known that any has ended.
        let (now, accounts) = (now_secs(), accounts().ok());
        let lives = |token: &AccessToken| {
            let has_account = |all| token.account(all).is_some();
            token.is_valid(now) && accounts.as_ref().is_none_or(has_account)
        };
        if self.all.lock().values().all(lives) {
            return false;
        }
        let prune = |all: &mut All| all.retain(|_, token| lives(token));
        let pruned = self.change(|all| {
            prune(all);
            Ok(())
        });
        if let Err(failure) = pruned {
            let reason = &failure.message;
            tracing::warn!(reason, "tokens that have ended are in their file still");
            prune(&mut self.all.lock());
        }
        true
    }

    /// Makes a token of a user. With a zone, it leads into the zone only.
    pub(crate) fn add(
        &self,
        uid: u32,
        label: &str,
        zone: Option<(&str, Root)>,
        expires: Option<u64>,
        scope: BoundScope,
    ) -> Result<NewToken> {
        let account = accounts().map_err(|error| {
            Failure::other(format!(
                "the accounts in /etc/passwd cannot be read: {error}"
            ))
        })?;
        let account = account.get(&uid).ok_or_else(|| {
            let why = format!(
                "there is no account with the number {uid} in /etc/passwd; only users with an account there have \
                 tokens"
            );
            Failure::new(FailureKind::NotFound, why)
        })?;
        let (mut id, mut bytes) = ([0; 4], [0; BYTES]);
        let filled = SystemRandom
            .fill(&mut id)
            .and_then(|()| SystemRandom.fill(&mut bytes));
        filled.map_err(|error| Failure::other(error.to_string()))?;
        let (id, token) = (
            encoding::hex(&id),
            format!("{PREFIX}{}", encoding::hex(&bytes)),
        );
        let now = now_secs();
        let new = AccessToken {
            uid,
            user: account.name.clone(),
            hash: kept(&hash(token.as_bytes()), &scope),
            label: label.to_owned(),
            zone: zone.map(|(name, _)| name.to_owned()),
            root: zone.map(|(_, root)| root),
            scope,
            created: now,
            expires: expires.map(|seconds| now.saturating_add(seconds)),
            last_used: None,
        };
        self.change(|all| {
            all.retain(|_, token| token.is_valid(now));
            if !has_room(all, uid) {
                let why = format!(
                    "user '{}' has too many tokens, or all users together have; revoke some: strongroom web token \
                     revoke ID",
                    account.name
                );
                return Err(Failure::new(FailureKind::NoSpace, why));
            }
            if all.insert(id.clone(), new).is_some() {
                let why = "the id of the new token is taken; try again";
                return Err(Failure::new(FailureKind::Exists, why));
            }
            Ok(())
        })?;
        Ok(NewToken { id, token })
    }

    /// Removes a token of a user, or with `None` of any user. False if there is none with this id.
    pub(crate) fn remove(&self, id: &str, uid: Option<u32>) -> Result<bool> {
        let is_theirs = |token: &AccessToken| uid.is_none_or(|uid| uid == token.uid);
        if !self.all.lock().get(id).is_some_and(is_theirs) {
            return Ok(false);
        }
        self.change(|all| Ok(all.remove(id).is_some()))
    }

    /// Removes the tokens that lead into a zone.
    pub(crate) fn remove_zone(&self, name: &str) -> Result<()> {
        let is_in = |token: &AccessToken| token.zone.as_deref() == Some(name);
        if !self.all.lock().values().any(is_in) {
            return Ok(());
        }
        self.change(|all| {
            all.retain(|_, token| !is_in(token));
            Ok(())
        })
    }

    /// Makes a change that outlives the daemon, or none.
    fn change<T>(&self, change: impl FnOnce(&mut All) -> Result<T>) -> Result<T> {
        let _changing = self.changing.lock();
        let mut changed = self.all.lock().clone();
        let done = change(&mut changed)?;
        self.state.remember(MEMORY, &changed)?;
        let mut all = self.all.lock();
        for (id, token) in &mut changed {
            // It may have been used meanwhile.
            token.last_used = all.get(id).and_then(|token| token.last_used);
        }
        *all = changed;
        Ok(done)
    }

    /// The tokens of a user, or with `None` of all users.
    pub(crate) fn rows(&self, uid: Option<u32>) -> Vec<TokenRow> {
        let all = self.all.lock();
        let theirs = all
            .iter()
            .filter(|(_, token)| uid.is_none_or(|uid| uid == token.uid));
        let row = |(id, token): (&String, &AccessToken)| TokenRow {
            id: id.clone(),
            user: token.user.clone(),
            label: token.label.clone(),
            zone: token.zone.clone(),
            scope: TokenScope {
                read_only: token.scope.read_only,
                dataset: token.scope.dataset.as_ref().map(|found| found.name.clone()),
                commands: token.scope.commands.clone(),
                receive_only: token.scope.receive_only,
            },
            created: token.created,
            expires: token.expires,
            last_used: token.last_used,
        };
        theirs.map(row).collect()
    }

    pub(crate) fn with_id(&self, id: &str) -> Option<AccessToken> {
        self.all.lock().get(id).cloned()
    }

    /// Returns whether the token with this id was neither revoked nor has ended by its time.
    pub(crate) fn has_valid(&self, id: &str) -> bool {
        let token = self.with_id(id);
        token.is_some_and(|token| token.is_valid(now_secs()))
    }

    /// The token that a caller shows, if it is accepted. Hashes are compared, so the time tells nothing.
    pub(crate) fn shown(&self, shown: &Secret) -> Option<AcceptedToken> {
        let hash = hash(shown.expose());
        let (now, accounts) = (now_secs(), accounts().ok()?);
        let mut all = self.all.lock();
        let (id, token) = all
            .iter_mut()
            .find(|(_, token)| token.hash == kept(&hash, &token.scope))?;
        // A user that was removed has no rights, nor has the next one with the same number.
        let account = token.account(&accounts)?.clone();
        if !token.is_valid(now) {
            return None;
        }
        token.last_used = Some(now);
        Some(AcceptedToken {
            id: id.clone(),
            token: token.clone(),
            account,
        })
    }
}

impl AccessToken {
    fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| now < end)
    }

    /// The account of its user, if it is still the same.
    fn account<'a>(&self, all: &'a BTreeMap<u32, SystemAccount>) -> Option<&'a SystemAccount> {
        all.get(&self.uid).filter(|found| found.name == self.user)
    }
}

/// Returns whether a user may have another token.
fn has_room(all: &All, uid: u32) -> bool {
    let is_admin = |uid| is_admin(Uid::from_raw(uid));
    let count = |is: &dyn Fn(u32) -> bool| all.values().filter(|token| is(token.uid)).count();
    match is_admin(uid) {
        true => count(&is_admin) < TOKENS_MAX,
        false => {
            count(&|other| other == uid) < EACH_MAX && count(&|other| !is_admin(other)) < TOKENS_MAX
        }
    }
}

/// The hash as the file has it. An older version does not know scopes, or not this one, and would give the token more
/// rights: it finds no token with this hash.
fn kept(hash: &str, scope: &BoundScope) -> String {
    match (scope.receive_only, scope.is_narrow()) {
        (true, _) => format!("receive-only {hash}"),
        (false, true) => format!("scoped {hash}"),
        (false, false) => hash.into(),
    }
}

fn hash(token: &[u8]) -> String {
    encoding::hex(&cipher::hash(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tokens: &Tokens, text: &str) -> Option<String> {
        let secret = Secret::from_slice(text.as_bytes()).unwrap();
        tokens.shown(&secret).map(|shown| shown.id)
    }

    fn state() -> (tempfile::TempDir, Arc<StateDir>) {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(StateDir::new(dir.path()));
        (dir, state)
    }

    /// An account that is not root's, and a number without an account.
    fn numbers() -> (u32, u32) {
        let all = accounts().unwrap();
        let other = all.keys().find(|uid| !is_admin(Uid::from_raw(**uid)));
        let free = (100_000..).find(|uid| !all.contains_key(uid));
        (*other.unwrap(), free.unwrap())
    }

    #[test]
    fn tokens_outlive_the_daemon_and_not_their_end() {
        let (dir, state) = state();
        let tokens = Tokens::new(&state);
        let (uid, _) = numbers();
        let kept = tokens
            .add(uid, "kept", None, None, BoundScope::default())
            .unwrap();
        let over = tokens
            .add(uid, "over", None, Some(0), BoundScope::default())
            .unwrap();
        let file = std::fs::read_to_string(dir.path().join(MEMORY)).unwrap();
        assert!(!file.contains(&kept.token[PREFIX.len()..]));
        let again = Tokens::new(&state);
        assert_eq!(shown(&again, &kept.token), Some(kept.id.clone()));
        assert_eq!(shown(&again, &over.token), None);
        assert_eq!(shown(&again, ""), None);
        assert!(
            !again.remove(&kept.id, Some(uid + 1)).unwrap(),
            "another user's"
        );
        assert_eq!(
            (again.rows(Some(uid + 1)).len(), again.rows(None).len()),
            (0, 2)
        );
        assert!(again.prune() && !again.prune());
        assert_eq!(again.rows(None).len(), 1);
        assert!(again.remove(&kept.id, Some(uid)).unwrap());
        assert_eq!(shown(&again, &kept.token), None);
        assert!(Tokens::new(&state).is_empty());
    }

    #[test]
    fn a_scope_outlives_the_daemon_and_files_of_older_versions_are_read() {
        let (dir, state) = state();
        let tokens = Tokens::new(&state);
        let scope = BoundScope {
            read_only: true,
            ..BoundScope::default()
        };
        let receiver = BoundScope {
            receive_only: true,
            ..BoundScope::default()
        };
        let [whole, narrow, receiver] = [BoundScope::default(), scope, receiver]
            .map(|scope| tokens.add(0, "", None, None, scope).unwrap());
        let again = Tokens::new(&state);
        assert!(again.with_id(&narrow.id).unwrap().scope.read_only);
        assert!(again.with_id(&receiver.id).unwrap().scope.receive_only);
        for made in [&whole, &narrow, &receiver] {
            assert_eq!(shown(&again, &made.token), Some(made.id.clone()));
        }
        let path = dir.path().join(MEMORY);
        let mut file: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // A version that knows other scopes takes it for a token without limits.
        for token in file.as_object_mut().unwrap().values_mut() {
            let scope = token["scope"].as_object_mut().unwrap();
            scope.remove("receive_only");
        }
        std::fs::write(&path, file.to_string()).unwrap();
        let before = Tokens::new(&state);
        assert_eq!(shown(&before, &narrow.token), Some(narrow.id.clone()));
        assert_eq!(shown(&before, &receiver.token), None);
        for token in file.as_object_mut().unwrap().values_mut() {
            token.as_object_mut().unwrap().remove("scope");
        }
        std::fs::write(&path, file.to_string()).unwrap();
        let old = Tokens::new(&state);
        assert_eq!(shown(&old, &whole.token), Some(whole.id));
        // An older version sees no scope, and does not accept the token.
        assert_eq!(shown(&old, &narrow.token), None);
    }

    #[test]
    fn a_token_is_not_for_another_account_with_the_same_number() {
        let (_dir, state) = state();
        let tokens = Tokens::new(&state);
        let (uid, free) = numbers();
        let none = tokens
            .add(free, "", None, None, BoundScope::default())
            .unwrap_err();
        assert_eq!(none.kind, FailureKind::NotFound);
        let [renamed, gone] = ["", ""].map(|label| {
            tokens
                .add(uid, label, None, None, BoundScope::default())
                .unwrap()
        });
        tokens.all.lock().get_mut(&renamed.id).unwrap().user = "someone".into();
        tokens.all.lock().get_mut(&gone.id).unwrap().uid = free;
        assert_eq!(shown(&tokens, &renamed.token), None);
        assert_eq!(shown(&tokens, &gone.token), None);
        assert!(tokens.prune());
        assert!(Tokens::new(&state).is_empty(), "they do not come back");
    }

    #[test]
    fn a_user_cannot_take_the_tokens_of_others() {
        let (_dir, state) = state();
        let tokens = Tokens::new(&state);
        let (uid, _) = numbers();
        let all: Vec<_> = (0..EACH_MAX)
            .map(|_| {
                tokens
                    .add(uid, "", None, None, BoundScope::default())
                    .unwrap()
            })
            .collect();
        let full = tokens
            .add(uid, "", None, None, BoundScope::default())
            .unwrap_err();
        assert_eq!(full.kind, FailureKind::NoSpace);
        tokens
            .add(0, "", None, None, BoundScope::default())
            .unwrap();
        tokens.remove(&all[0].id, Some(uid)).unwrap();
        let zone = Some(("z", (1, 2, 3)));
        tokens
            .add(uid, "", zone, None, BoundScope::default())
            .unwrap();
        tokens.remove_zone("other").unwrap();
        assert_eq!(tokens.rows(Some(uid)).len(), EACH_MAX);
        tokens.remove_zone("z").unwrap();
        assert_eq!(tokens.rows(Some(uid)).len(), EACH_MAX - 1);
    }
}
