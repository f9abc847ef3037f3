//! Settings of the environment.

use std::collections::BTreeMap;
use std::fmt;

/// Settings by name, as in the environment of a process. Keys are among them, so they are never shown.
#[derive(Clone, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    /// The environment of this process.
    pub fn of_process() -> Variables {
        let pairs = std::env::vars_os();
        // A name or value that is no text means nothing to a store.
        pairs
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns a setting that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns whether a setting is switched on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| matches!(value, "true" | "1" | "yes" | "on"))
    }

    /// Iterates over the settings whose names begin with `prefix`.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let from = self.values.range(prefix.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(prefix))
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces the values that can be secret in a text of a library.
    pub(super) fn redact(&self, text: &str) -> String {
        let secrets = self.values.iter().filter(|(name, value)| {
            let words = ["KEY", "SECRET", "TOKEN", "SAS", "PASS", "CREDENTIAL"];
            value.len() > 3 && words.iter().any(|word| name.contains(word))
        });
        secrets.fold(text.to_owned(), |text, (_, secret)| {
            text.replace(secret, "[redacted]")
        })
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Variables {
        Variables {
            values: pairs.into_iter().collect(),
        }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}
