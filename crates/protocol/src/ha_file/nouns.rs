//! The nouns of a file with their values, and which of them were looked at.

use std::collections::BTreeSet;

use super::items::{Items, NounItem, NounRefusal, NounValue};

/// The portal group that is there without being listed: all addresses.
pub(super) const ANYWHERE: &str = "default";

/// Nouns, and which of them were looked at.
pub(super) struct Nouns<'a> {
    items: &'a Items,
    used: BTreeSet<String>,
}

impl<'a> Nouns<'a> {
    pub(super) fn of(items: &'a Items) -> Nouns<'a> {
        Nouns {
            items,
            used: BTreeSet::new(),
        }
    }

    pub(super) fn item(&self, noun: &str) -> Option<&NounItem> {
        self.items.get(noun)
    }

    /// Returns whether a noun was looked at.
    pub(super) fn is_used(&self, noun: &str) -> bool {
        self.used.contains(noun)
    }

    /// Refuses a noun that was not looked at.
    pub(super) fn refuse_unused(&self) -> Result<(), NounRefusal> {
        match self.items.iter().find(|(noun, _)| !self.is_used(noun)) {
            None => Ok(()),
            Some((noun, item)) => Err(NounRefusal::new(
                item.line,
                noun,
                "there is no such noun, or the name before it is not listed",
            )),
        }
    }

    /// Takes the one word of a noun.
    pub(super) fn word(&mut self, noun: &str) -> Result<Option<(usize, String)>, NounRefusal> {
        self.used.insert(noun.into());
        match self.items.get(noun).map(|item| (item.line, &item.value)) {
            None => Ok(None),
            Some((line, NounValue::Word(word))) if !word.is_empty() => {
                Ok(Some((line, word.clone())))
            }
            Some((line, _)) => Err(NounRefusal::new(line, noun, "it is one word")),
        }
    }

    pub(super) fn flag(&mut self, noun: &str) -> Result<bool, NounRefusal> {
        self.used.insert(noun.into());
        match self.items.get(noun).map(|item| (item.line, &item.value)) {
            None => Ok(false),
            Some((_, NounValue::Flag(flag))) => Ok(*flag),
            // A shell has words only.
            Some((_, NounValue::Word(word))) if word == "true" || word == "false" => {
                Ok(word == "true")
            }
            Some((line, _)) => Err(NounRefusal::new(line, noun, "it is true or false")),
        }
    }

    /// A list, in which nothing is twice.
    pub(super) fn list(&mut self, noun: &str) -> Result<Option<Vec<(usize, String)>>, NounRefusal> {
        self.used.insert(noun.into());
        let Some(item) = self.items.get(noun) else {
            return Ok(None);
        };
        let NounValue::List(words) = &item.value else {
            return Err(NounRefusal::new(item.line, noun, "it is a list"));
        };
        if words.is_empty() {
            let what = "the list is empty; leave it out for the default";
            return Err(NounRefusal::new(item.line, noun, what));
        }
        let mut seen = BTreeSet::new();
        match words.iter().find(|(_, word)| !seen.insert(word)) {
            None => Ok(Some(words.clone())),
            Some((line, word)) => Err(NounRefusal::new(
                *line,
                noun,
                format!("'{word}' is listed twice"),
            )),
        }
    }

    /// A list of names that the file makes up.
    pub(super) fn names(&mut self, noun: &str) -> Result<Vec<(usize, String)>, NounRefusal> {
        let names = self.list(noun)?.unwrap_or_default();
        let is_name = |name: &str| {
            let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            (1..=64).contains(&name.len()) && name.chars().all(may) && name != ANYWHERE
        };
        match names.iter().find(|(_, name)| !is_name(name)) {
            None => Ok(names),
            Some((line, name)) => {
                let what = format!(
                    "'{name}' is no name: use up to 64 letters, digits, '_' and '-', and not '{ANYWHERE}'"
                );
                Err(NounRefusal::new(*line, noun, what))
            }
        }
    }
}
