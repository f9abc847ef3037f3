//! The CHAP secrets of iSCSI initiators: their places, and the proofs made with them.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cipher::{ChapHash, Random, SystemRandom};
use iscsi::{Chap, ChapQuestion};
use keys::{KeySource, Location};
use parking_lot::Mutex;
use protocol::api::{Ask, AskFormat, FailureKind};
use secret::Secret;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::state::callers::channel::Channel;

/// The shortest secret on a network without encryption (RFC 7143, section 9.2.1).
const SECRET_MIN: usize = 12;
/// The largest number of bytes of a name.
const NAME_MAX: usize = 255;

/// The places of the secrets of an export. The secrets themselves are never remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChapSources {
    /// The users with which initiators log in, and the places of their secrets.
    users: BTreeMap<String, SecretLocation>,
    /// The name of the target, and the place of its own secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own: Option<(String, SecretLocation)>,
}

/// The place of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SecretLocation {
    /// The user types it.
    Prompt,
    File(PathBuf),
}

/// Secrets that a user typed, by export and name. They are kept until the daemon ends.
#[derive(Default)]
pub(crate) struct TypedSecrets(Mutex<BTreeMap<String, Arc<ExportSecrets>>>);

/// The secrets of an export, in locked memory.
#[derive(Debug)]
pub(crate) struct ExportSecrets {
    users: BTreeMap<String, Secret>,
    own: Option<(String, Secret)>,
}

impl ChapSources {
    /// Parses `USER=LOCATION` of each user, and of the target.
    pub(crate) fn parse(users: &[String], own: Option<&str>) -> Result<Option<ChapSources>> {
        let mut sources = ChapSources::default();
        for text in users {
            let (name, source) = parse(text)?;
            if sources.users.insert(name.clone(), source).is_some() {
                return Err(Failure::usage(format!("the user '{name}' is named twice")));
            }
        }
        sources.own = own.map(parse).transpose()?;
        match (sources.users.is_empty(), &sources.own) {
            (true, Some(_)) => Err(Failure::usage(
                "a target proves its secret only to initiators that prove theirs: give --chap too",
            )),
            (true, None) => Ok(None),
            (false, _) => Ok(Some(sources)),
        }
    }

    /// Gets the secrets, also by asking the user.
    pub(crate) fn ask(&self, export: &str, channel: &mut dyn Channel) -> Result<ExportSecrets> {
        self.gather(&mut |name, source| match source {
            SecretLocation::File(path) => Ok(keys::read_private(path)?),
            SecretLocation::Prompt => {
                let ask = Ask {
                    dataset: format!("{name} at {export}"),
                    format: AskFormat::Passphrase,
                    twice: true,
                    again: false,
                };
                channel.ask(ask)?.ok_or_else(|| {
                    let why = format!("the CHAP secret of '{name}' was not given");
                    Failure::new(FailureKind::NoKey, why)
                })
            }
        })
    }

    /// Gets the secrets from files.
    fn read(&self) -> Result<ExportSecrets> {
        self.gather(&mut |name, source| match source {
            SecretLocation::File(path) => Ok(keys::read_private(path)?),
            SecretLocation::Prompt => Err(Failure::new(
                FailureKind::NoKey,
                format!(
                    "the CHAP secret of '{name}' was typed, and is not known after a restart; unexport the \
                     target and export it again"
                ),
            )),
        })
    }

    fn gather(
        &self,
        get: &mut dyn FnMut(&str, &SecretLocation) -> Result<Secret>,
    ) -> Result<ExportSecrets> {
        let mut get = |name: &str, source: &SecretLocation| {
            let secret = get(name, source)?;
            match secret.len() {
                ..SECRET_MIN => Err(Failure::new(
                    FailureKind::Usage,
                    format!(
                        "the CHAP secret of '{name}' has {} bytes; it needs at least {SECRET_MIN}",
                        secret.len()
                    ),
                )),
                _ => Ok(secret),
            }
        };
        let mut users = BTreeMap::new();
        for (name, source) in &self.users {
            users.insert(name.clone(), get(name, source)?);
        }
        let own = match &self.own {
            Some((name, source)) => Some((name.clone(), get(name, source)?)),
            None => None,
        };
        if let Some((_, own)) = &own
            && let Some((user, _)) = users.iter().find(|(_, secret)| *secret == own)
        {
            return Err(Failure::usage(format!(
                "the target and '{user}' have one CHAP secret; each direction needs a secret of its own"
            )));
        }
        Ok(ExportSecrets { users, own })
    }
}

impl TypedSecrets {
    /// Keeps the secrets of an export, if the user typed some of them.
    pub(crate) fn keep(&self, export: &str, sources: &ChapSources, secrets: ExportSecrets) {
        let all = sources
            .users
            .values()
            .chain(sources.own.iter().map(|own| &own.1));
        if all
            .into_iter()
            .any(|source| *source == SecretLocation::Prompt)
        {
            self.0.lock().insert(export.into(), Arc::new(secrets));
        }
    }

    pub(crate) fn forget(&self, export: &str) {
        self.0.lock().remove(export);
    }

    /// The secrets of an export: the kept ones, otherwise those in files.
    pub(crate) fn secrets(
        &self,
        export: &str,
        sources: &ChapSources,
    ) -> Result<Arc<ExportSecrets>> {
        if let Some(kept) = self.0.lock().get(export) {
            return Ok(Arc::clone(kept));
        }
        sources.read().map(Arc::new)
    }
}

/// Parses `NAME=LOCATION`. The location is the prompt or a file.
fn parse(text: &str) -> Result<(String, SecretLocation)> {
    let Some((name, location)) = text.split_once('=') else {
        // It may be a secret: it is not repeated.
        return Err(Failure::usage(
            "write USER=LOCATION, as in web=file:///etc/keys/web, or web=prompt; a secret itself is not an argument",
        ));
    };
    if name.is_empty() || name.len() > NAME_MAX || name.contains(char::is_control) {
        return Err(Failure::usage(
            "the name of a CHAP user has 1 to 255 bytes, and no control characters",
        ));
    }
    let source: KeySource = format!("passphrase,{location}").parse()?;
    match source.location() {
        Location::Prompt => Ok((name.into(), SecretLocation::Prompt)),
        Location::File(path) => Ok((name.into(), SecretLocation::File(path.clone()))),
        _ => Err(Failure::usage(format!(
            "the CHAP secret of '{name}' is typed (prompt), or is in a file (file:///PATH)"
        ))),
    }
}

impl Chap for ExportSecrets {
    fn answer_len(&self, hash: u8) -> Option<usize> {
        let tried = ChapHash::from_number(hash)?.answer(0, &[], &[])?;
        Some(tried.len())
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        SystemRandom.fill(out).map_err(io::Error::other)
    }

    fn has_user(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }

    fn is_answer(&self, user: &str, question: &ChapQuestion<'_>, answer: &[u8]) -> bool {
        let secret = self.users.get(user);
        let right = compute(question, secret.map_or(&[], Secret::expose));
        let is_right = right.is_some_and(|right| cipher::eq(&right, answer));
        is_right && secret.is_some()
    }

    fn own_answer(&self, question: &ChapQuestion<'_>) -> Option<(String, Vec<u8>)> {
        let (name, secret) = self.own.as_ref()?;
        Some((name.clone(), compute(question, secret.expose())?.to_vec()))
    }
}

fn compute(question: &ChapQuestion<'_>, secret: &[u8]) -> Option<cipher::DigestOutput> {
    let hash = ChapHash::from_number(question.hash)?;
    hash.answer(question.id, secret, question.challenge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::callers::channel::without_connection;

    struct Person(Vec<&'static str>);

    impl Channel for Person {
        fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
            let next = self.0.pop();
            Ok(next.map(|text| Secret::from_slice(text.as_bytes()).unwrap()))
        }

        fn notice(&mut self, _: String) {}

        without_connection!(rows pause data);
    }

    #[test]
    fn secrets_are_long_and_differ() {
        let both = ChapSources::parse(&["web=prompt".into()], Some("disk=prompt"));
        let both = both.unwrap().unwrap();
        let ask = |typed: &[&'static str]| both.ask("x", &mut Person(typed.to_vec()));
        let kind = |typed: &[&'static str]| ask(typed).err().unwrap().kind;
        assert_eq!(kind(&[]), FailureKind::NoKey);
        assert_eq!(kind(&["eleven byte"]), FailureKind::Usage);
        assert_eq!(kind(&["twelve bytes", "twelve bytes"]), FailureKind::Usage);
        let secrets = ask(&["another dozen", "twelve bytes"]).unwrap();
        let question = ChapQuestion {
            hash: 7,
            id: 3,
            challenge: &[9; 32],
        };
        let (name, own) = secrets.own_answer(&question).unwrap();
        assert_eq!(name, "disk");
        assert!(!secrets.is_answer("web", &question, &own));
        let hash = ChapHash::from_number(7).unwrap();
        let right = hash.answer(3, b"twelve bytes", &[9; 32]).unwrap();
        assert!(secrets.is_answer("web", &question, &right));
        assert!(!secrets.is_answer("disk", &question, &right));
        assert!(!secrets.is_answer("web", &question, &right[..31]));
        let said = format!("{secrets:?}{}", serde_json::to_string(&both).unwrap());
        assert!(
            !said.contains("twelve") && !said.contains("dozen"),
            "{said}"
        );
        assert_eq!(both.read().err().unwrap().kind, FailureKind::NoKey);
    }

    #[test]
    fn a_source_is_a_file_or_a_person() {
        let parse = |user: &str, own| ChapSources::parse(&[user.into()], own);
        for wrong in [
            "web",
            "=prompt",
            "web=",
            "web=secret12345",
            "web=https://a/b",
            "a\u{1}=prompt",
        ] {
            let refused = parse(wrong, None).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Usage, "{wrong}");
            assert!(!refused.message.contains("secret12345"));
        }
        assert!(ChapSources::parse(&[], Some("disk=prompt")).is_err());
        assert!(ChapSources::parse(&["a=prompt".into(), "a=file:///b".into()], None).is_err());
        assert_eq!(ChapSources::parse(&[], None).unwrap(), None);
        let sources = parse("web=file:///etc/k", None).unwrap().unwrap();
        let text = serde_json::to_string(&sources).unwrap();
        assert_eq!(text, r#"{"users":{"web":{"file":"/etc/k"}}}"#);
    }
}
