//! Spells what was read in another way.

use std::fmt::Write;

use super::items::{Items, NounItem, NounRefusal, NounValue};
use super::meaning::{ORDER, OURS};

/// Nouns in the order of the sample of stmf-ha: each list before what is said of its members.
fn ordered(items: &Items) -> Vec<(&String, &NounItem)> {
    let rank = |noun: &str| {
        let place = ORDER.iter().position(|(list, suffixes)| {
            noun == *list || suffixes.iter().any(|suffix| noun.ends_with(suffix))
        });
        let is_list = ORDER.iter().any(|(list, _)| noun == *list);
        (place.unwrap_or(ORDER.len()), !is_list)
    };
    let mut all: Vec<_> = items.iter().collect();
    all.sort_by_key(|(noun, _)| rank(noun));
    all
}

pub(super) fn toml(items: &Items) -> String {
    let mut out = String::new();
    let quoted = |text: &str| toml_edit::Value::from(text).to_string();
    for (noun, item) in ordered(items) {
        let value = match &item.value {
            NounValue::Word(word) => quoted(word),
            NounValue::Flag(flag) => flag.to_string(),
            NounValue::List(words) => {
                let words: Vec<_> = words.iter().map(|(_, word)| quoted(word)).collect();
                format!("[{}]", words.join(", "))
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} = {value}", toml_edit::Key::new(noun));
    }
    out
}

pub(super) fn stmf(items: &Items) -> Result<String, NounRefusal> {
    let mut out = String::new();
    for (noun, item) in ordered(items) {
        let refused = |what: &str| NounRefusal::new(item.line, noun, what);
        let quoted = |word: &String| match word
            .contains(|c: char| "'\"$`\\!".contains(c) || c.is_control())
        {
            true => Err(refused("stmf-ha.conf cannot spell one of its words")),
            false => Ok(format!("\"{word}\"")),
        };
        let is_ours = OURS.iter().any(|suffix| noun.ends_with(suffix));
        let is_name = noun.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let value = match &item.value {
            NounValue::Word(word) if !is_ours => quoted(word)?,
            NounValue::List(words) if !is_ours => {
                let words = words.iter().map(|(_, word)| quoted(word));
                let words: Vec<_> = words.collect::<Result<_, _>>()?;
                format!("( {} )", words.join(" "))
            }
            _ => {
                return Err(refused(
                    "stmf-ha knows nothing like it, and would not heed it",
                ));
            }
        };
        if !is_name || noun.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(refused(
                "a name has letters, digits and '_' only in stmf-ha.conf",
            ));
        }
        let _ = writeln!(out, "{noun}={value}");
    }
    Ok(out)
}
