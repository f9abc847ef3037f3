//! `/etc/fscrypt.conf`: what new policies and protectors are like.

use std::fmt::Write;

use serde_json::Value;

use super::costs::Costs;
use super::error::{Error, Result, damaged};
use super::policy::Options;
use crate::formats::fscrypt::EncryptionMode;

/// More than any configuration has, in bytes.
pub const CONFIG_MAX: usize = 64 << 10;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The tool's word for the source of new protectors.
    pub source: String,
    /// The cost of a guess at a new passphrase.
    pub costs: Costs,
    /// The encryption of new policies.
    pub options: Options,
    /// True if policies of version 1 have their keys in the file system, and not in the user's keyring.
    pub use_fs_keyring_for_v1_policies: bool,
    /// True if ordinary users may read metadata of other users.
    pub allow_cross_user_metadata: bool,
}

impl Config {
    /// The tool's defaults, with these costs.
    pub fn new(costs: Costs) -> Config {
        Config {
            source: "custom_passphrase".into(),
            costs,
            options: Options::default(),
            use_fs_keyring_for_v1_policies: false,
            allow_cross_user_metadata: false,
        }
    }

    /// Reads the file: JSON, with numbers as strings or as numbers.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unknown`].
    pub fn decode(bytes: &[u8]) -> Result<Config> {
        let file: Value = serde_json::from_slice(bytes).map_err(|why| damaged(why.to_string()))?;
        let costs = &file["hash_costs"];
        let cost = |name| number(costs, name, 0);
        let fixed = flag(costs, "truncation_fixed")?;
        let costs = Costs::new(cost("time")?, cost("memory")?, cost("parallelism")?, fixed)?;
        let options = &file["options"];
        let version = number(options, "policy_version", 1)?;
        let options = Options::new(
            number(options, "padding", 32)?,
            mode(options, "contents", EncryptionMode::Aes256Xts)?,
            mode(options, "filenames", EncryptionMode::Aes256Cts)?,
            version,
        )?;
        let source = match text(&file, "source")? {
            "" | "default" => "custom_passphrase",
            known @ ("pam_passphrase" | "custom_passphrase" | "raw_key") => known,
            other => return Err(Error::Unknown(format!("source '{other}'"))),
        };
        Ok(Config {
            source: source.into(),
            costs,
            options,
            use_fs_keyring_for_v1_policies: flag(&file, "use_fs_keyring_for_v1_policies")?,
            allow_cross_user_metadata: flag(&file, "allow_cross_user_metadata")?,
        })
    }

    /// The file, as the tool writes it.
    pub fn encode(&self) -> String {
        let (costs, options) = (&self.costs, &self.options);
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string");
        line("{".into());
        line(format!("\t\"source\": \"{}\",", self.source));
        line("\t\"hash_costs\": {".into());
        line(format!("\t\t\"time\": \"{}\",", costs.time));
        line(format!("\t\t\"memory\": \"{}\",", costs.memory_kib));
        line(format!("\t\t\"parallelism\": \"{}\",", costs.parallelism));
        let fixed = costs.is_truncation_fixed;
        line(format!("\t\t\"truncation_fixed\": {fixed}\n\t}},"));
        line("\t\"options\": {".into());
        line(format!("\t\t\"padding\": \"{}\",", options.padding));
        let (contents, names) = (options.contents.name(), options.names.name());
        line(format!("\t\t\"contents\": \"{contents}\","));
        line(format!("\t\t\"filenames\": \"{names}\","));
        let version = options.version;
        line(format!("\t\t\"policy_version\": \"{version}\"\n\t}},"));
        let (keyring, cross) = (
            self.use_fs_keyring_for_v1_policies,
            self.allow_cross_user_metadata,
        );
        line(format!("\t\"use_fs_keyring_for_v1_policies\": {keyring},"));
        line(format!("\t\"allow_cross_user_metadata\": {cross}\n}}"));
        text
    }
}

/// A number, or what it is if there is none.
fn number(object: &Value, name: &str, default: i64) -> Result<i64> {
    let number = match &object[name] {
        Value::Null => Some(default),
        Value::String(digits) => digits.parse().ok(),
        other => other.as_i64(),
    };
    number.ok_or_else(|| damaged(format!("'{name}' is no number")))
}

fn flag(object: &Value, name: &str) -> Result<bool> {
    match &object[name] {
        Value::Null => Ok(false),
        other => other
            .as_bool()
            .ok_or_else(|| damaged(format!("'{name}' is neither true nor false"))),
    }
}

fn text<'a>(object: &'a Value, name: &str) -> Result<&'a str> {
    match &object[name] {
        Value::Null => Ok(""),
        other => other
            .as_str()
            .ok_or_else(|| damaged(format!("'{name}' is no text"))),
    }
}

fn mode(object: &Value, name: &str, default: EncryptionMode) -> Result<i64> {
    let mode = match text(object, name)? {
        "" | "default" => default,
        text => EncryptionMode::from_name(text)
            .ok_or_else(|| Error::Unknown(format!("mode of encryption '{text}'")))?,
    };
    Ok(mode.number().into())
}
