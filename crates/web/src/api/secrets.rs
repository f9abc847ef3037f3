//! The body of a command: its fields, and secrets that go into locked memory as they are parsed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secret::Secret;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::http::Problem;

/// A secret that a command may ask for.
pub(crate) struct Given {
    /// For this dataset; for any if there is none.
    pub(crate) dataset: Option<String>,
    pub(crate) secret: Secret,
}

/// The body of a command.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) fields: Map<String, Json>,
    pub(crate) secrets: Vec<Given>,
    pub(crate) hash_memory: Option<u64>,
}

/// Parses a body.
pub(crate) fn parse<'de, T: Deserialize<'de>>(body: &'de Secret) -> Result<T, Problem> {
    let text = match body.is_empty() {
        true => &b"{}"[..],
        false => body.expose(),
    };
    // What is wrong is not repeated: it could be a secret. Where it is, is enough.
    serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let why = match error.classify() {
            serde_json::error::Category::Data => "is not as it should be",
            _ => "is not JSON",
        };
        Problem::usage(format!("the body {why}: line {line}, column {column}"))
    })
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Body, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Body;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Body, A::Error> {
                let mut body = Body::default();
                while let Some(name) = members.next_key::<String>()? {
                    match &*name {
                        "secrets" => body.secrets = members.next_value()?,
                        "hash_memory" => body.hash_memory = members.next_value()?,
                        _ => {
                            let value = members.next_value()?;
                            if body.fields.insert(name, value).is_some() {
                                return Err(A::Error::custom("a field is there twice"));
                            }
                        }
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parts {
            #[serde(default)]
            dataset: Option<String>,
            #[serde(default)]
            secret: Option<Locked>,
            #[serde(default)]
            base64: Option<Locked>,
        }
        let parts = Parts::deserialize(deserializer)?;
        let secret = match (parts.secret, parts.base64) {
            (Some(Locked(secret)), None) => secret,
            (None, Some(Locked(text))) => decoded(&text).map_err(D::Error::custom)?,
            _ => return Err(D::Error::custom("give 'secret' or 'base64'")),
        };
        let dataset = parts.dataset;
        Ok(Given { dataset, secret })
    }
}

/// Text that goes into locked memory at once.
pub(crate) struct Locked(pub(crate) Secret);

impl<'de> Deserialize<'de> for Locked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Locked, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Locked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            /// Without an escape it is a part of the body, which is locked too. With one it was decoded outside.
            fn visit_str<E: Error>(self, text: &str) -> Result<Locked, E> {
                Secret::from_slice(text.as_bytes())
                    .map(Locked)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<Body, Problem> {
        parse(&Secret::from_slice(text.as_bytes()).unwrap())
    }

    #[test]
    fn secrets_are_apart_from_fields() {
        let body = body(
            r#"{"names":["a"],"secrets":[{"dataset":"a","secret":"x\"ü"},{"base64":"AAH/"}],"hash_memory":9}"#,
        );
        let body = body.ok().unwrap();
        assert_eq!(body.fields.keys().collect::<Vec<_>>(), ["names"]);
        assert_eq!(body.secrets[0].secret.expose(), "x\"ü".as_bytes());
        assert_eq!(body.secrets[1].secret.expose(), [0, 1, 255]);
        assert_eq!(
            (body.hash_memory, body.secrets[1].dataset.is_none()),
            (Some(9), true)
        );
    }

    #[test]
    fn an_error_repeats_nothing() {
        for wrong in [
            r#"{"secrets":"hunter2"}"#,
            r#"{"secrets":[{"secret":"hunter2","hunter2":1}]}"#,
            r#"{"secrets":[{"secret":"hunter2","base64":"hunter2"}]}"#,
            r#"{"secrets":[{"base64":"hunter2"}]}"#,
            r#"{"secrets":[{"secret":"hunter2"}"#,
            r#"{"a":1,"a":"hunter2"}"#,
            r#""hunter2""#,
            "hunter2",
        ] {
            let problem = body(wrong).err().unwrap();
            assert!(!format!("{problem:?}").contains("hunter2"), "{wrong}");
        }
        assert!(body("").is_ok());
    }
}
