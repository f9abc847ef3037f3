//! Tokens: who shows one has the rights of its user. They are for callers that cannot connect as that user, such as the
//! process that serves HTTP.
//!
//! A token is 256 random bits, so its hash can be a fast one. Only the hash is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use parking_lot::Mutex;
use protocol::accounts::user_name;
use protocol::api::{FailureKind, NewToken, TokenRow};
use secret::Secret;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::system::now_secs;
use crate::state::memory::StateDir;

/// The file in the state directory.
const MEMORY: &str = "tokens.json";
/// So many tokens may there be.
const TOKENS_MAX: usize = 1000;
/// What a token begins with, so that a search for secrets finds it.
const PREFIX: &str = "srt_";
const BYTES: usize = 32;

/// A token in the state directory, by its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) uid: u32,
    /// The name that the user had: another account with the same number is another user.
    pub(crate) user: String,
    hash: String,
    pub(crate) label: String,
    pub(crate) zone: Option<String>,
    created: u64,
    pub(crate) expires: Option<u64>,
    #[serde(skip)]
    last_used: Option<u64>,
}

/// All tokens.
pub(crate) struct Tokens {
    state: Arc<StateDir>,
    all: Mutex<BTreeMap<String, Token>>,
}

impl Tokens {
    pub(crate) fn new(state: &Arc<StateDir>) -> Tokens {
        Tokens {
            all: Mutex::new(state.recall(MEMORY, "strongroom web token create")),
            state: Arc::clone(state),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.lock().is_empty()
    }

    /// Makes a token of a user.
    pub(crate) fn add(
        &self,
        (uid, user): (u32, String),
        label: &str,
        zone: Option<&str>,
        expires: Option<u64>,
    ) -> Result<NewToken> {
        let now = now_secs();
        let mut all = self.all.lock();
        let mut changed = all.clone();
        changed.retain(|_, token| token.is_valid(now));
        if changed.len() >= TOKENS_MAX {
            let why = "there are too many tokens; revoke some: strongroom web token revoke ID";
            return Err(Failure::new(FailureKind::NoSpace, why));
        }
        let (mut id, mut bytes) = ([0; 4], [0; BYTES]);
        let filled = SystemRandom
            .fill(&mut id)
            .and_then(|()| SystemRandom.fill(&mut bytes));
        filled.map_err(|error| Failure::other(error.to_string()))?;
        let (id, token) = (hex(&id), format!("{PREFIX}{}", hex(&bytes)));
        let new = Token {
            uid,
            user,
            hash: hash(token.as_bytes()),
            label: label.to_owned(),
            zone: zone.map(str::to_owned),
            created: now,
            expires: expires.map(|seconds| now.saturating_add(seconds)),
            last_used: None,
        };
        if changed.insert(id.clone(), new).is_some() {
            let why = "the id of the new token is taken; try again";
            return Err(Failure::new(FailureKind::Exists, why));
        }
        self.state.remember(MEMORY, &changed)?;
        *all = changed;
        Ok(NewToken { id, token })
    }

    /// Removes a token of a user, or with `None` of any user. False if there is none with this id.
    pub(crate) fn remove(&self, id: &str, uid: Option<u32>) -> Result<bool> {
        let mut all = self.all.lock();
        let mut changed = all.clone();
        let is_theirs = |token: &Token| uid.is_none_or(|uid| uid == token.uid);
        if !changed.remove(id).is_some_and(|token| is_theirs(&token)) {
            return Ok(false);
        }
        self.state.remember(MEMORY, &changed)?;
        *all = changed;
        Ok(true)
    }

    /// The tokens of a user, or with `None` of all users.
    pub(crate) fn rows(&self, uid: Option<u32>) -> Vec<TokenRow> {
        let all = self.all.lock();
        let theirs = all
            .iter()
            .filter(|(_, token)| uid.is_none_or(|uid| uid == token.uid));
        let row = |(id, token): (&String, &Token)| TokenRow {
            id: id.clone(),
            user: token.user.clone(),
            label: token.label.clone(),
            zone: token.zone.clone(),
            created: token.created,
            expires: token.expires,
            last_used: token.last_used,
        };
        theirs.map(row).collect()
    }

    /// The token with this id.
    pub(crate) fn with_id(&self, id: &str) -> Option<Token> {
        self.all.lock().get(id).cloned()
    }

    /// The token that a caller shows, and its id, if it is accepted. Hashes are compared, so the time tells nothing.
    pub(crate) fn shown(&self, shown: &Secret) -> Option<(String, Token)> {
        let hash = hash(shown.expose());
        let now = now_secs();
        let mut all = self.all.lock();
        let (id, token) = all.iter_mut().find(|(_, token)| token.hash == hash)?;
        // A user that was removed has no rights, nor has the next one with the same number.
        let is_the_user =
            user_name(token.uid).unwrap_or_else(|| token.uid.to_string()) == token.user;
        if !token.is_valid(now) || !is_the_user {
            return None;
        }
        token.last_used = Some(now);
        Some((id.clone(), token.clone()))
    }
}

impl Token {
    fn is_valid(&self, now: u64) -> bool {
        self.expires.is_none_or(|end| now < end)
    }
}

fn hash(token: &[u8]) -> String {
    hex(&cipher::hash(token))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tokens: &Tokens, text: &str) -> Option<String> {
        let secret = Secret::from_slice(text.as_bytes()).unwrap();
        tokens.shown(&secret).map(|(id, _)| id)
    }

    #[test]
    fn tokens_outlive_the_daemon_and_not_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(StateDir::new(dir.path()));
        let tokens = Tokens::new(&state);
        let user = || (12345, "12345".to_owned());
        let kept = tokens.add(user(), "kept", None, None).unwrap();
        let over = tokens.add(user(), "over", None, Some(0)).unwrap();
        let file = std::fs::read_to_string(dir.path().join(MEMORY)).unwrap();
        assert!(!file.contains(&kept.token[PREFIX.len()..]));
        let again = Tokens::new(&state);
        assert_eq!(shown(&again, &kept.token), Some(kept.id.clone()));
        assert_eq!(shown(&again, &over.token), None);
        assert_eq!(shown(&again, ""), None);
        assert!(!again.remove(&kept.id, Some(7)).unwrap(), "another user's");
        assert_eq!((again.rows(Some(7)).len(), again.rows(None).len()), (0, 2));
        assert!(again.remove(&kept.id, Some(12345)).unwrap());
        assert_eq!(shown(&again, &kept.token), None);
        assert_eq!(shown(&Tokens::new(&state), &kept.token), None);
    }

    #[test]
    fn a_token_is_not_for_another_account_with_the_same_number() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::new(&Arc::new(StateDir::new(dir.path())));
        let token = tokens.add((0, "someone".into()), "", None, None).unwrap();
        assert_eq!(shown(&tokens, &token.token), None);
    }
}
