//! Questions about the protector of a new directory, in the words and the order of the tool `fscrypt`.
//!
//! They are asked at a terminal only: in a script the next line may be a passphrase.

use std::path::Path;

use console::outcome::Result;
use console::terminal::{ask_line, confirm, is_interactive};
use protocol::api::Failure;
use stack::formats::fscrypt::tool::{
    Config, Descriptor, MetadataStore, Protector, ProtectorSource, descriptor_text,
};

use crate::fscrypt::args::{NewProtector, NewSource};
use crate::fscrypt::run::place::{self, failure};

/// The sources of protectors, by their numbers from 1 on.
const SOURCES: [(NewSource, &str, &str); 3] = [
    (NewSource::Login, "pam_passphrase", "Your login passphrase"),
    (
        NewSource::Passphrase,
        "custom_passphrase",
        "A custom passphrase",
    ),
    (NewSource::RawKey, "raw_key", "A raw 256-bit key"),
];

/// The name of a protector in questions.
pub(crate) fn label(protector: &Protector) -> String {
    match protector.source {
        ProtectorSource::Login(uid) => format!("login protector of user {uid}"),
        ProtectorSource::Passphrase => format!("custom protector \"{}\"", protector.name),
        ProtectorSource::RawKey => format!("raw key protector \"{}\"", protector.name),
    }
}

/// Asks whether a protector that is there already is to be used, and which. Returns its reference; nothing if a new one
/// is to be made.
pub(crate) fn existing(
    place: &Path,
    store: &MetadataStore,
    config: &Config,
    new: &NewProtector,
) -> Result<Option<String>> {
    if new.source.is_some() || new.name.is_some() || new.user.is_some() || !is_interactive() {
        return Ok(None);
    }
    let listed = store.protectors();
    let listed = listed.map_err(|error| failure(&place.display().to_string(), error))?;
    // One that cannot be read opens nothing.
    let usable = |descriptor: Descriptor| {
        let (_, protector) = place::follow(place, store, &descriptor, config).ok()?;
        Some((descriptor, protector))
    };
    let known: Vec<(Descriptor, Protector)> = listed.into_iter().filter_map(usable).collect();
    if known.is_empty() || confirm("Should we create a new protector?") {
        return Ok(None);
    }
    let at = match known.len() {
        1 => 0,
        count => {
            eprintln!("The available protectors are:");
            for (number, (_, protector)) in known.iter().enumerate() {
                eprintln!("{number} - {}", label(protector));
            }
            let number = |answer: &str| answer.parse().ok().filter(|number| *number < count);
            ask_until("Enter the number of protector to use: ", number)?
        }
    };
    let id = descriptor_text(&known[at].0);
    Ok(Some(format!("{}:{id}", place.display())))
}

/// Asks for the source of a new protector. Nothing without a terminal, or if the command says enough.
pub(crate) fn source(new: &NewProtector, config: &Config) -> Result<Option<NewSource>> {
    if new.name.is_some() || new.user.is_some() || !is_interactive() {
        return Ok(None);
    }
    eprintln!("The following protector sources are available:");
    for ((_, word, what), number) in SOURCES.iter().zip(1..) {
        eprintln!("{number} - {what} ({word})");
    }
    let usual = SOURCES
        .iter()
        .position(|(_, word, _)| *word == config.source);
    let shown = usual.map_or_else(String::new, |at| {
        format!(" [{} - {}]", at + 1, SOURCES[at].1)
    });
    let question = format!("Enter the source number for the new protector{shown}: ");
    let at = ask_until(&question, |answer| match answer {
        "" => usual,
        number => {
            let at = number.parse::<usize>().ok()?.checked_sub(1);
            at.filter(|at| *at < SOURCES.len())
        }
    });
    Ok(Some(SOURCES[at?].0))
}

/// Asks for the name of a new protector. Nothing without a terminal.
pub(crate) fn name() -> Result<Option<String>> {
    if !is_interactive() {
        return Ok(None);
    }
    let some = |answer: &str| Some(answer.to_owned()).filter(|name| !name.is_empty());
    ask_until("Enter a name for the new protector: ", some).map(Some)
}

/// Asks until there is an answer that is understood.
fn ask_until<T>(question: &str, understood: impl Fn(&str) -> Option<T>) -> Result<T> {
    loop {
        match ask_line(question) {
            Some(answer) => {
                if let Some(answer) = understood(&answer) {
                    return Ok(answer);
                }
            }
            None => return Err(Failure::usage("the input ended before the answer")),
        }
    }
}
