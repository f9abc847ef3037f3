//! Words, options and properties as one command line.

use std::path::{Path, PathBuf};

use keys::KeySource;
use protocol::api::{DeviceGroup, NewPoolDevices, Props};
use protocol::characters::is_hidden;

/// Replaces parts that are left out.
pub(super) const LEFT_OUT: &str = "...";

/// Words that become one line.
pub(crate) struct HistoryText(pub(crate) String);

impl HistoryText {
    pub(super) fn new(command: &str) -> HistoryText {
        HistoryText(format!("strongroom {command}"))
    }

    /// Adds a word.
    pub(super) fn word(mut self, word: impl AsRef<str>) -> HistoryText {
        self.0.push(' ');
        self.0.push_str(&quoted(word.as_ref()));
        self
    }

    pub(super) fn path(self, path: impl AsRef<Path>) -> HistoryText {
        self.word(path.as_ref().to_string_lossy())
    }

    /// Adds places where to search for devices.
    pub(super) fn search(self, places: &[PathBuf]) -> HistoryText {
        let add = |line: HistoryText, place: &PathBuf| line.word("-d").path(place);
        places.iter().fold(self, add)
    }

    pub(super) fn words<W: AsRef<str>>(self, words: impl IntoIterator<Item = W>) -> HistoryText {
        words.into_iter().fold(self, HistoryText::word)
    }

    /// Adds an option, if it was given.
    pub(super) fn flag(self, option: &str, is_given: bool) -> HistoryText {
        match is_given {
            true => self.word(option),
            false => self,
        }
    }

    /// Adds an option with a value, if it was given.
    pub(super) fn option(self, option: &str, value: Option<impl AsRef<str>>) -> HistoryText {
        match value {
            Some(value) => self.word(option).word(value),
            None => self,
        }
    }

    /// Adds properties, sorted by name.
    pub(super) fn props(self, option: &str, props: &Props) -> HistoryText {
        let mut props: Vec<String> = props.iter().map(property).collect();
        props.sort();
        let add = |line: HistoryText, prop: String| line.option(option, Some(prop));
        props.into_iter().fold(self, add)
    }

    pub(super) fn keysource(self, source: Option<&String>) -> HistoryText {
        let prop = source.map(|source| property(&("keysource".into(), source.clone())));
        self.option("-o", prop)
    }

    pub(super) fn groups(self, groups: &[DeviceGroup]) -> HistoryText {
        let add = |line: HistoryText, group: &DeviceGroup| {
            let line = match (group.parity, group.devices.len()) {
                (0, 0 | 1) => line,
                (0, _) => line.word("mirror"),
                (parity, _) => line.word(format!("raidz{parity}")),
            };
            group
                .devices
                .iter()
                .fold(line, |line, path| line.path(path))
        };
        groups.iter().fold(self, add)
    }

    pub(super) fn devices(self, devices: &NewPoolDevices) -> HistoryText {
        let has_logs = !devices.logs.is_empty();
        let mut line = self.groups(&devices.groups);
        line = line.flag("log", has_logs).groups(&devices.logs);
        for (word, paths) in [("cache", &devices.caches), ("spare", &devices.spares)] {
            line = line.flag(word, !paths.is_empty());
            line = paths.iter().fold(line, |line, path| line.path(path));
        }
        line
    }
}

/// A property as text. An invalid source of keys is left out, because it could be a key.
pub(super) fn property((name, value): &(String, String)) -> String {
    match name == "keysource" && value.parse::<KeySource>().is_err() {
        true => format!("{name}={LEFT_OUT}"),
        false => format!("{name}={value}"),
    }
}

/// A word, quoted for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    if word.chars().any(is_hidden) {
        let escaped: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                '\n' => r"\n".into(),
                c if is_hidden(c) => {
                    let mut bytes = [0; 4];
                    let bytes = c.encode_utf8(&mut bytes).bytes();
                    bytes.map(|byte| format!("\\x{byte:02x}")).collect()
                }
                c => c.into(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A size in the largest unit that divides it.
pub(super) fn size(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let mut fitting = units
        .iter()
        .filter(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    match fitting.next() {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}
