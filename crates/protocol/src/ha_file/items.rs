//! The contents of a file: nouns with their values.

use std::collections::BTreeMap;
use std::fmt;

/// Nouns with their values.
pub type Items = BTreeMap<String, NounItem>;

/// The value of a noun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NounItem {
    /// The line, from 1.
    pub(super) line: usize,
    pub(super) value: NounValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NounValue {
    Word(String),
    /// Words with their lines.
    List(Vec<(usize, String)>),
    Flag(bool),
}

/// The reason for which a file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NounRefusal {
    /// The line, from 1; 0 if no line is wrong more than others.
    pub line: usize,
    /// The noun that is wrong.
    pub noun: String,
    /// The fault of the noun.
    pub what: String,
}

impl NounRefusal {
    /// Makes the refusal of a noun.
    pub fn new(line: usize, noun: &str, what: impl Into<String>) -> NounRefusal {
        NounRefusal {
            line,
            noun: noun.into(),
            what: what.into(),
        }
    }
}

impl fmt::Display for NounRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}: {}", self.noun, self.what)
    }
}

/// Adds a noun, which is there once.
pub(super) fn add(
    items: &mut Items,
    noun: &str,
    line: usize,
    value: NounValue,
) -> Result<(), NounRefusal> {
    match items.insert(noun.into(), NounItem { line, value }) {
        None => Ok(()),
        Some(first) => Err(NounRefusal::new(
            line,
            noun,
            format!("it is said twice, first in line {}", first.line),
        )),
    }
}
