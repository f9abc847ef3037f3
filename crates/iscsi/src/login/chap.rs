//! CHAP: each side proves that it knows a secret, without saying it (RFC 7143, section 12.1.3; RFC 1994).
//!
//! The secrets and the hashes are elsewhere, behind [`Chap`].

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::wire::keys;

/// A challenge of an initiator has at most so many bytes, and so has an answer.
const VALUE_MAX: usize = 1024;

/// The secrets of a target, and what is computed with them. A hash is named by its number: 5 is MD5, 6 SHA-1, 7
/// SHA-256, 8 SHA3-256.
pub trait Chap: fmt::Debug + Send + Sync {
    /// Returns the length of the answers by a hash, in bytes. Absent if the hash cannot be used.
    fn answer_len(&self, hash: u8) -> Option<usize>;

    /// Fills `out` with what nobody can foresee.
    ///
    /// # Errors
    /// If there are no random numbers.
    fn random(&self, out: &mut [u8]) -> io::Result<()>;

    /// Returns whether a user has a secret.
    fn has_user(&self, user: &str) -> bool;

    /// Returns whether this is the answer of an initiator with the name `user`, compared in constant time. An unknown
    /// user takes as long as a known one.
    fn is_answer(&self, user: &str, question: &ChapQuestion<'_>, answer: &[u8]) -> bool;

    /// The name of the target and its answer. Absent if it has no secret of its own.
    fn own_answer(&self, question: &ChapQuestion<'_>) -> Option<(String, Vec<u8>)>;
}

/// A challenge of CHAP.
#[derive(Clone, Copy, Debug)]
pub struct ChapQuestion<'a> {
    /// The number of the hash.
    pub hash: u8,
    /// The identifier of the challenge.
    pub id: u8,
    /// The challenge.
    pub challenge: &'a [u8],
}

/// Secrets that nobody knows. It asks and computes as the secrets of a target do, and accepts no answer.
#[derive(Debug)]
pub(crate) struct Decoy(Arc<dyn Chap>);

impl Decoy {
    /// `model`: the secrets that it cannot be told from.
    pub(crate) fn new(model: Arc<dyn Chap>) -> Decoy {
        Decoy(model)
    }
}

impl Chap for Decoy {
    fn answer_len(&self, hash: u8) -> Option<usize> {
        self.0.answer_len(hash)
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        self.0.random(out)
    }

    fn has_user(&self, _user: &str) -> bool {
        false
    }

    fn is_answer(&self, user: &str, question: &ChapQuestion<'_>, answer: &[u8]) -> bool {
        // As long as an answer to the target takes.
        let _ = self.0.is_answer(user, question, answer);
        false
    }

    fn own_answer(&self, _question: &ChapQuestion<'_>) -> Option<(String, Vec<u8>)> {
        None
    }
}

/// The initiator did not prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChapFailure;

/// The security stage of a login.
pub(crate) struct Exchange {
    /// The users whose secrets the initiator may prove.
    of: Vec<Arc<dyn Chap>>,
    /// True if there is no other way to log in.
    is_required: bool,
    state: State,
    /// The user whose secret the initiator knows.
    user: Option<String>,
}

enum State {
    Method,
    Hash,
    Answer {
        hash: u8,
        id: u8,
        challenge: Vec<u8>,
    },
    Done,
}

impl Exchange {
    pub(crate) fn new(of: Vec<Arc<dyn Chap>>, is_required: bool) -> Exchange {
        Exchange {
            of,
            is_required,
            state: State::Method,
            user: None,
        }
    }

    /// Returns whether the login may go on to the next stage.
    pub(crate) fn may_end(&self) -> bool {
        match self.state {
            State::Method => !self.is_required,
            State::Hash | State::Answer { .. } => false,
            State::Done => true,
        }
    }

    /// Returns the sets of users for which the initiator knows the secret.
    pub(crate) fn proved(self) -> Vec<Arc<dyn Chap>> {
        match self.state {
            State::Done => self.of,
            _ => Vec::new(),
        }
    }

    /// The user whose secret the initiator has proved to know.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns whether a key belongs to CHAP.
    pub(crate) fn is_own(key: &str) -> bool {
        key == "AuthMethod" || key.starts_with("CHAP_")
    }

    /// Takes the keys of one request. `wants_end` if the initiator wants to leave the stage.
    pub(crate) fn step(
        &mut self,
        said: &[(&str, &str)],
        wants_end: bool,
        answer: &mut Vec<u8>,
    ) -> Result<(), ChapFailure> {
        let value = |key| said.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
        match &self.state {
            State::Method if said.is_empty() && !(wants_end && self.is_required) => Ok(()),
            State::Method if said.len() == 1 => {
                self.method(value("AuthMethod").ok_or(ChapFailure)?, answer)
            }
            State::Hash if said.len() == 1 => {
                self.hash(value("CHAP_A").ok_or(ChapFailure)?, answer)
            }
            State::Answer {
                hash,
                id,
                challenge,
            } => {
                let question = ChapQuestion {
                    hash: *hash,
                    id: *id,
                    challenge,
                };
                let proved = check(&self.of, &question, &value)?;
                let back = (value("CHAP_I"), value("CHAP_C"));
                if let Some((name, own)) = answer_back(&proved, &question, back)? {
                    keys::put(answer, "CHAP_N", &name);
                    keys::put(answer, "CHAP_R", &keys::hex(&own));
                }
                self.of = proved;
                self.user = value("CHAP_N").map(Into::into);
                self.state = State::Done;
                Ok(())
            }
            State::Done if said.is_empty() => Ok(()),
            _ => Err(ChapFailure),
        }
    }

    fn method(&mut self, offered: &str, answer: &mut Vec<u8>) -> Result<(), ChapFailure> {
        let offers = |method| offered.split(',').any(|one| one == method);
        if offers("CHAP") && !self.of.is_empty() {
            keys::put(answer, "AuthMethod", "CHAP");
            self.state = State::Hash;
        } else if offers("None") && !self.is_required {
            keys::put(answer, "AuthMethod", "None");
            self.of.clear();
            self.state = State::Done;
        } else {
            return Err(ChapFailure);
        }
        Ok(())
    }

    /// Takes the first hash that is offered and known, and asks.
    fn hash(&mut self, offered: &str, answer: &mut Vec<u8>) -> Result<(), ChapFailure> {
        let any = self.of.first().ok_or(ChapFailure)?;
        let numbers = offered.split(',').filter_map(|text| text.parse().ok());
        let known = |hash| Some((hash, any.answer_len(hash)?));
        let (hash, len) = { numbers }.find_map(known).ok_or(ChapFailure)?;
        let mut random = vec![0; 1 + len];
        any.random(&mut random).map_err(|_| ChapFailure)?;
        let (id, challenge) = (random[0], random.split_off(1));
        keys::put(answer, "CHAP_A", &hash.to_string());
        keys::put(answer, "CHAP_I", &id.to_string());
        keys::put(answer, "CHAP_C", &keys::hex(&challenge));
        self.state = State::Answer {
            hash,
            id,
            challenge,
        };
        Ok(())
    }
}

/// Returns the sets of users for which the answer of the initiator is right.
fn check<'a>(
    of: &[Arc<dyn Chap>],
    question: &ChapQuestion<'_>,
    value: &impl Fn(&'static str) -> Option<&'a str>,
) -> Result<Vec<Arc<dyn Chap>>, ChapFailure> {
    let user = value("CHAP_N").ok_or(ChapFailure)?;
    let answer = value("CHAP_R").and_then(|text| keys::binary(text, VALUE_MAX));
    let answer = answer.ok_or(ChapFailure)?;
    let knows = |chap: &&Arc<dyn Chap>| chap.is_answer(user, question, &answer);
    let proved: Vec<_> = of.iter().filter(knows).cloned().collect();
    match proved.is_empty() {
        true => Err(ChapFailure),
        false => Ok(proved),
    }
}

/// The name of the target and its answer, if the initiator asks for a proof too.
fn answer_back(
    proved: &[Arc<dyn Chap>],
    asked: &ChapQuestion<'_>,
    back: (Option<&str>, Option<&str>),
) -> Result<Option<(String, Vec<u8>)>, ChapFailure> {
    let (id, challenge) = match back {
        (None, None) => return Ok(None),
        (Some(id), Some(challenge)) => (id, challenge),
        _ => return Err(ChapFailure),
    };
    let id = keys::number(id, 0, 255).map_err(|()| ChapFailure)? as u8;
    let challenge = keys::binary(challenge, VALUE_MAX).ok_or(ChapFailure)?;
    // What this side asked is not answered by itself.
    if challenge.is_empty() || challenge == asked.challenge {
        return Err(ChapFailure);
    }
    let question = ChapQuestion {
        hash: asked.hash,
        id,
        challenge: &challenge,
    };
    let own = { proved.iter() }.find_map(|chap| chap.own_answer(&question));
    own.map(Some).ok_or(ChapFailure)
}
