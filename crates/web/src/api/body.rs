//! The body of a command, read straight into the command's type.
//!
//! Nothing is kept of a body but the command and its secrets: a tree of JSON would take a hundred times as much memory
//! as its text. The first member that the type does not know ends the reading.

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, VariantAccess,
    Visitor,
};

use protocol::api::Command;
use secret::Secret;

use super::secrets::{GivenSecret, GivenSecrets, text_of, unusable};
use crate::http::Problem;

/// A command, with the secrets that it may ask for.
pub(crate) struct CommandCall {
    pub(super) command: Command,
    pub(super) secrets: Vec<GivenSecret>,
    pub(super) hash_memory: Option<u64>,
}

/// The members that stand beside the fields of a command.
#[derive(Default)]
struct Beside {
    secrets: Option<Vec<GivenSecret>>,
    hash_memory: Option<u64>,
    /// A secret is being read: an error may have it in its text.
    is_in_secrets: bool,
}

/// Reads the body of the command `name`.
pub(super) fn read(name: &'static str, body: &Secret) -> Result<CommandCall, Problem> {
    let mut beside = Beside::default();
    let mut json = serde_json::Deserializer::from_slice(text_of(body));
    let named = CommandEnum {
        name,
        json: &mut json,
        beside: &mut beside,
    };
    let read = Command::deserialize(named).and_then(|command| json.end().map(|()| command));
    match read {
        Ok(command) => Ok(CommandCall {
            command,
            secrets: beside.secrets.unwrap_or_default(),
            hash_memory: beside.hash_memory,
        }),
        // The text of an error repeats the value that is wrong.
        Err(error) if beside.is_in_secrets || !error.is_data() => Err(unusable(&error)),
        Err(error) => Err(Problem::usage(format!("{name}: {error}"))),
    }
}

/// The enum of commands, as if the text were an object with one member: the command's name, and the fields.
struct CommandEnum<'a, D> {
    name: &'static str,
    json: D,
    beside: &'a mut Beside,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for CommandEnum<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, 'a, D: Deserializer<'de>> EnumAccess<'de> for CommandEnum<'a, D> {
    type Error = D::Error;
    type Variant = CommandEnum<'a, D>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, CommandEnum<'a, D>), D::Error> {
        let name = BorrowedStrDeserializer::<D::Error>::new(self.name);
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de, D: Deserializer<'de>> VariantAccess<'de> for CommandEnum<'_, D> {
    type Error = D::Error;

    fn unit_variant(self) -> Result<(), D::Error> {
        /// No fields.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        self.newtype_variant::<Nothing>().map(drop)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, D::Error> {
        let beside = self.beside;
        self.json.deserialize_map(BodyMembers { beside, seed })
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, D::Error> {
        Err(D::Error::custom("no command is a tuple"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, D::Error> {
        Err(D::Error::custom("no command has its fields in the enum"))
    }
}

/// Reads an object: its members are the fields of `seed`, but for those that stand beside them.
struct BodyMembers<'a, T> {
    beside: &'a mut Beside,
    seed: T,
}

impl<'de, T: DeserializeSeed<'de>> Visitor<'de> for BodyMembers<'_, T> {
    type Value = T::Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T::Value, A::Error> {
        let beside = self.beside;
        let fields = CommandFields { members, beside };
        self.seed.deserialize(MapAccessDeserializer::new(fields))
    }
}

/// The members of an object that are fields of a command.
struct CommandFields<'a, A> {
    members: A,
    beside: &'a mut Beside,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for CommandFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.members.next_key::<String>()? {
            let beside = &mut *self.beside;
            match &*name {
                "secrets" if beside.secrets.is_some() => {
                    return Err(A::Error::duplicate_field("secrets"));
                }
                "secrets" => {
                    beside.is_in_secrets = true;
                    beside.secrets = Some(self.members.next_value::<GivenSecrets>()?.0);
                    beside.is_in_secrets = false;
                }
                "hash_memory" => beside.hash_memory = self.members.next_value()?,
                _ => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.members.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &'static str, text: &str) -> Result<CommandCall, String> {
        let body = Secret::from_slice(text.as_bytes()).unwrap();
        read(name, &body).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn secrets_are_apart_from_fields() {
        let text = r#"{"names":["a"],"secrets":[{"dataset":"a","secret":"x\"ü"},{"base64":"AAH/"}],"hash_memory":9}"#;
        let call = call("key-load", text).ok().unwrap();
        assert!(matches!(&call.command, Command::KeyLoad(load) if load.names == ["a"]));
        assert_eq!(call.secrets[0].secret.expose(), "x\"ü".as_bytes());
        assert_eq!(call.secrets[1].secret.expose(), [0, 1, 255]);
        assert_eq!(
            (call.hash_memory, call.secrets[1].dataset.is_none()),
            (Some(9), true)
        );
    }

    #[test]
    fn booleans_can_be_left_out_and_nothing_can_be_misspelled() {
        let text = r#"{"name":"tank/a","dry_run":true}"#;
        let Ok(Command::Destroy(destroy)) = call("destroy", text).map(|call| call.command) else {
            panic!()
        };
        assert!(destroy.dry_run && !destroy.recursive);
        let told = |name, text: &str| call(name, text).err().unwrap();
        let wrong = told("destroy", r#"{"name":"tank/a","dryrun":true}"#);
        assert!(wrong.contains("unknown field `dryrun`"), "{wrong}");
        let attach = r#"{"pool":"tank","change":{"attach":{"device":"a","new":"b"}}}"#;
        assert!(call("pool-devices", attach).is_ok());
        let forced =
            r#"{"pool":"tank","change":{"attach":{"device":"a","new":"b","forced":true}}}"#;
        let wrong = told("pool-devices", forced);
        assert!(wrong.contains("unknown field `forced`"), "{wrong}");
        assert!(told("destroy", "{}").contains("missing field `name`"));
        assert!(told("destroy", r#"{"name":"a","name":"b"}"#).contains("duplicate"));
        assert!(told("pool-scrub", r#"{"pool":7}"#).contains("invalid type"));
        assert!(call("mounts", "").is_ok() && call("mounts", "{}").is_ok());
        assert!(told("mounts", r#"{"x":1}"#).contains("unknown field `x`"));
        for wrong in ["[]", "null", "\"mounts\"", "{} {}", "{", "{\"name\":"] {
            assert!(call("destroy", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_error_repeats_no_secret() {
        for wrong in [
            r#"{"secrets":"hunter2"}"#,
            r#"{"secrets":[{"secret":"hunter2","hunter2":1}]}"#,
            r#"{"secrets":[{"secret":"hunter2","base64":"hunter2"}]}"#,
            r#"{"secrets":[{"base64":"hunter2"}]}"#,
            r#"{"secrets":[{"secret":"hunter2"}"#,
            r#"{"secrets":[],"secrets":["hunter2"]}"#,
            r#""hunter2"#,
            "hunter2",
        ] {
            let told = call("mounts", wrong).err().unwrap();
            assert!(!told.contains("hunter2"), "{wrong}: {told}");
        }
    }

    /// A tree of JSON takes a hundred times as much memory as its text: it is refused where it begins.
    #[test]
    fn the_first_value_that_does_not_fit_ends_the_reading() {
        let nested = format!("[{}]", vec!["[]"; 300_000].join(","));
        for (name, field, column) in [("get", "names", 10), ("get", "x", 4), ("mounts", "x", 4)] {
            let told = call(name, &format!("{{\"{field}\":{nested}}}"))
                .err()
                .unwrap();
            let place = format!("column {column}");
            assert!(told.contains(&place), "{told}");
        }
        let deep = format!("{{\"names\":{}", "[".repeat(500_000));
        assert!(call("get", &deep).is_err());
        let many = format!(
            "{{\"secrets\":[{}]}}",
            vec![r#"{"secret":""}"#; 65].join(",")
        );
        assert!(call("mounts", &many).is_err());
    }
}
