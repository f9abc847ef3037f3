//! The secrets in a body: they go into locked memory as they are parsed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secret::Secret;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use crate::http::Problem;

/// A secret that a command may ask for.
pub(crate) struct GivenSecret {
    /// For this dataset; for any if there is none.
    pub(crate) dataset: Option<String>,
    pub(crate) secret: Secret,
}

/// The secrets of a body; a longer list is refused.
#[derive(Default)]
pub(super) struct GivenSecrets(pub(super) Vec<GivenSecret>);

/// The most secrets in a body: each takes locked memory.
const GIVEN_MAX: usize = 64;

/// The text of a body; an empty one is an empty object.
pub(super) fn text_of(body: &Secret) -> &[u8] {
    match body.is_empty() {
        true => b"{}",
        false => body.expose(),
    }
}

/// The failure of a body that may have a secret in it. It says where the error is, and repeats nothing.
pub(super) fn unusable(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let why = match error.is_data() {
        true => "is not as it should be",
        false => "is not JSON",
    };
    Problem::usage(format!("the body {why}: line {line}, column {column}"))
}

/// Parses a body of secrets.
pub(crate) fn parse<'de, T: Deserialize<'de>>(body: &'de Secret) -> Result<T, Problem> {
    serde_json::from_slice(text_of(body)).map_err(|error| unusable(&error))
}

impl<'de> Deserialize<'de> for GivenSecrets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenSecrets, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = GivenSecrets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of secrets")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<GivenSecrets, A::Error> {
                let mut list = GivenSecrets::default();
                while let Some(given) = items.next_element()? {
                    if list.0.len() == GIVEN_MAX {
                        return Err(A::Error::custom("there are too many secrets"));
                    }
                    list.0.push(given);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(Items)
    }
}

impl<'de> Deserialize<'de> for GivenSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenSecret, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parts {
            #[serde(default)]
            dataset: Option<String>,
            #[serde(default)]
            secret: Option<LockedText>,
            #[serde(default)]
            base64: Option<LockedText>,
        }
        let parts = Parts::deserialize(deserializer)?;
        let secret = match (parts.secret, parts.base64) {
            (Some(LockedText(secret)), None) => secret,
            (None, Some(LockedText(text))) => decoded(&text).map_err(D::Error::custom)?,
            _ => return Err(D::Error::custom("give 'secret' or 'base64'")),
        };
        let dataset = parts.dataset;
        Ok(GivenSecret { dataset, secret })
    }
}

/// Text that goes into locked memory at once.
pub(crate) struct LockedText(pub(crate) Secret);

impl<'de> Deserialize<'de> for LockedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LockedText, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = LockedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            /// Without an escape it is a part of the body, which is locked too. With one it was decoded outside.
            fn visit_str<E: Error>(self, text: &str) -> Result<LockedText, E> {
                Secret::from_slice(text.as_bytes())
                    .map(LockedText)
                    .map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

fn decoded(text: &Secret) -> Result<Secret, &'static str> {
    let len = text.len().div_ceil(4) * 3;
    let mut secret = Secret::zeroed(len).map_err(|_| "there is no locked memory")?;
    let decoded = STANDARD.decode_slice(text.expose(), secret.expose_mut());
    secret.truncate(decoded.map_err(|_| "it is not Base64")?);
    Ok(secret)
}
