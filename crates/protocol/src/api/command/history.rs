//! The command line of a request, as the history of a pool and the log have it.

use std::path::{Path, PathBuf};

use crate::api::arguments::{DeviceGroup, NewPoolDevices, Props};
use crate::characters::is_hidden;

/// Replaces parts that are left out.
pub(super) const LEFT_OUT: &str = "...";

/// Words and options that become one line.
pub(super) struct HistoryText {
    text: String,
    is_key_source: fn(&str) -> bool,
}

/// A value that stands in the line of a command.
pub(super) trait HistoryValue {
    /// Adds the value after its option, if there is something to add. The option is `""` for a word without one. An
    /// option that ends with `=` is the name of a property.
    fn write(&self, option: &str, line: &mut HistoryText);
}

impl HistoryText {
    pub(super) fn new(command: &str, is_key_source: fn(&str) -> bool) -> HistoryText {
        let mut line = HistoryText {
            text: "strongroom".into(),
            is_key_source,
        };
        line.raw(command);
        line
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn add(&mut self, option: &str, value: impl HistoryValue) -> &mut HistoryText {
        value.write(option, self);
        self
    }

    /// Adds text of this program, which needs no quotes.
    fn raw(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push(' ');
            self.text.push_str(text);
        }
    }

    fn word(&mut self, option: &str, value: &str) {
        if let Some(name) = option.strip_suffix('=') {
            let (option, name) = name.rsplit_once(' ').unwrap_or(("", name));
            let property = self.property(name, value);
            return self.word(option, &property);
        }
        self.raw(option);
        self.raw(&quoted(value));
    }

    /// A property as text. An invalid source of keys is left out, because it could be a key.
    fn property(&self, name: &str, value: &str) -> String {
        match name == "keysource" && !(self.is_key_source)(value) {
            true => format!("{name}={LEFT_OUT}"),
            false => format!("{name}={value}"),
        }
    }
}

/// A flag.
impl HistoryValue for bool {
    fn write(&self, option: &str, line: &mut HistoryText) {
        if *self {
            line.raw(option);
        }
    }
}

impl HistoryValue for str {
    fn write(&self, option: &str, line: &mut HistoryText) {
        line.word(option, self);
    }
}

impl HistoryValue for String {
    fn write(&self, option: &str, line: &mut HistoryText) {
        line.word(option, self);
    }
}

impl HistoryValue for Path {
    fn write(&self, option: &str, line: &mut HistoryText) {
        line.word(option, &self.to_string_lossy());
    }
}

impl HistoryValue for PathBuf {
    fn write(&self, option: &str, line: &mut HistoryText) {
        self.as_path().write(option, line);
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl HistoryValue for $number {
            fn write(&self, option: &str, line: &mut HistoryText) {
                line.word(option, &self.to_string());
            }
        })*
    };
}

numbers!(u8, u16, u32, u64);

impl<T: HistoryValue + ?Sized> HistoryValue for &T {
    fn write(&self, option: &str, line: &mut HistoryText) {
        (**self).write(option, line);
    }
}

impl<T: HistoryValue> HistoryValue for Option<T> {
    fn write(&self, option: &str, line: &mut HistoryText) {
        if let Some(value) = self {
            value.write(option, line);
        }
    }
}

impl HistoryValue for Vec<String> {
    fn write(&self, option: &str, line: &mut HistoryText) {
        self.iter().for_each(|word| word.write(option, line));
    }
}

impl HistoryValue for Vec<PathBuf> {
    fn write(&self, option: &str, line: &mut HistoryText) {
        self.iter().for_each(|path| path.write(option, line));
    }
}

/// Properties, sorted.
impl HistoryValue for Props {
    fn write(&self, option: &str, line: &mut HistoryText) {
        let props = self.iter().map(|(name, value)| line.property(name, value));
        let mut props: Vec<String> = props.collect();
        props.sort();
        props.write(option, line);
    }
}

impl HistoryValue for Vec<DeviceGroup> {
    fn write(&self, _: &str, line: &mut HistoryText) {
        for group in self {
            match (group.parity, group.devices.len()) {
                (0, 0 | 1) => {}
                (0, _) => line.raw("mirror"),
                (parity, _) => line.raw(&format!("raidz{parity}")),
            }
            line.add("", &group.devices);
        }
    }
}

impl HistoryValue for NewPoolDevices {
    fn write(&self, _: &str, line: &mut HistoryText) {
        line.add("", &self.groups);
        line.add("log", !self.logs.is_empty()).add("", &self.logs);
        for (word, paths) in [("cache", &self.caches), ("spare", &self.spares)] {
            line.add(word, !paths.is_empty()).add("", paths);
        }
    }
}

/// A list that is one word.
pub(super) trait JoinedWords {
    /// The words with commas between them; `None` if there are none.
    fn list(&self) -> Option<String>;
}

impl JoinedWords for Vec<String> {
    fn list(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.join(","))
    }
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> String {
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

/// A time between refreshes, in the largest unit that divides it.
pub(super) fn interval_text(seconds: u64) -> String {
    match seconds {
        0 => "off".into(),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// A size in the largest unit that divides it.
pub(super) fn size_text(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let mut fitting = units
        .iter()
        .filter(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    match fitting.next() {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{Command, CommandDefinition};

    fn said(command: serde_json::Value) -> String {
        let command: Command = serde_json::from_value(command).unwrap();
        command.line(|source| source.contains(','))
    }

    #[test]
    fn options_stand_in_one_order() {
        let create = |props: serde_json::Value| {
            said(
                json!({"create": {"name": "tank/my files", "props": props, "parents": true,
                                   "no_mount": true, "volume": {"size": 3u64 << 30, "sparse": true}}}),
            )
        };
        let expected = "strongroom create -p -s -u -V 3G -o encryption=on \
                        -o keysource=passphrase,prompt 'tank/my files'";
        let (a, b) = (
            json!(["encryption", "on"]),
            json!(["keysource", "passphrase,prompt"]),
        );
        assert_eq!(create(json!([a, b])), expected);
        assert_eq!(create(json!([b, a])), expected);
        let device = |path: &str| json!({"devices": [path], "parity": 0});
        let devices = json!({"groups": [{"devices": ["/a", "/b"], "parity": 0}, {"devices": ["/c", "/d", "/e"],
            "parity": 1}], "logs": [device("/l")], "caches": ["/k"], "spares": ["/s"]});
        assert_eq!(
            said(
                json!({"pool-create": {"pool": "tank", "devices": devices, "size": 100, "force": true,
                        "props": [["mountpoint", "none"], ["atime", "off"]], "no_mount": false}})
            ),
            "strongroom pool create -f -s 100 -m none -O atime=off tank mirror /a /b raidz1 /c /d /e log /l cache /k \
             spare /s"
        );
        assert_eq!(
            said(
                json!({"change-permissions": {"name": "tank", "remove": false, "who": ["staff"],
                "kind": "group", "permissions": ["create", "mount"], "local": false, "below": true}})
            ),
            "strongroom allow -d -g staff create,mount tank"
        );
    }

    #[test]
    fn lines_with_a_word_for_each_variant() {
        #[rustfmt::skip]
        let changes = [
            (
                json!({"add": {"devices": {"groups": [{"devices": ["/a", "/b"], "parity": 0}], "logs": [],
                       "spares": []}, "force": true, "dry_run": true}}),
                "add -f -n tank mirror /a /b",
            ),
            (json!({"attach": {"device": "/a", "new": "/b", "force": true}}), "attach -f tank /a /b"),
            (json!({"detach": {"device": "/a"}}), "detach tank /a"),
            (json!({"replace": {"device": "/a", "new": "/b"}}), "replace tank /a /b"),
            (json!({"replace": {"device": "/a"}}), "replace tank /a"),
            (json!({"remove": {"device": "/a", "wait": true}}), "remove tank /a"),
            (json!("stop-remove"), "remove -s tank"),
            (json!({"offline": {"device": "/a", "temporary": true}}), "offline -t tank /a"),
            (json!({"online": {"device": "/a", "expand": true}}), "online -e tank /a"),
            (json!({"clear": {}}), "clear tank"),
            (json!({"clear": {"device": "/a"}}), "clear tank /a"),
            (json!("reopen"), "reopen tank"),
        ];
        for (change, expected) in changes {
            let command = json!({"pool-devices": {"pool": "tank", "change": change}});
            assert_eq!(said(command), format!("strongroom pool {expected}"));
        }
        let send = |what: serde_json::Value| said(json!({"send": {"what": what, "raw": true}}));
        assert_eq!(
            send(
                json!({"snapshot": {"name": "a@2", "from": "@1", "all": true, "replicate": true}})
            ),
            "strongroom send -w -R -I @1 a@2"
        );
        assert_eq!(
            send(json!({"rest": {"token": "hunter2"}})),
            "strongroom send -w -t ..."
        );
        assert_eq!(
            said(json!({"ha-start": {"pool": "a", "update": true}})),
            "strongroom ha update a"
        );
    }

    #[test]
    fn no_line_can_be_two() {
        let set = |value: &str| {
            said(
                json!({"set": {"names": ["tank"], "props": [["org.example:note", value]], "force": false}}),
            )
        };
        assert_eq!(
            set("x\nstrongroom destroy tank"),
            r"strongroom set $'org.example:note=x\nstrongroom destroy tank' tank"
        );
        assert_eq!(
            set("it's"),
            r"strongroom set 'org.example:note=it'\''s' tank"
        );
        assert!(!set("\u{202e}x").contains('\u{202e}'));
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_need_it() {
        for (word, expected) in [
            ("tank/home@monday", "tank/home@monday"),
            ("-o", "-o"),
            (
                "keysource=raw,file:///etc/keys/a%20b",
                "keysource=raw,file:///etc/keys/a%20b",
            ),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~/key", "'~/key'"),
            ("größe", "größe"),
            ("a\nb'c\\", r"$'a\nb\'c\\'"),
        ] {
            assert_eq!(quoted(word), expected, "{word:?}");
        }
    }
}
