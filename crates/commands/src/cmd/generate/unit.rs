//! Names and values in units of systemd.

use std::fmt::Write;

/// A unit, and the targets that pull it in.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) text: String,
    /// Directories of links, such as `remote-fs.target.requires`.
    pub(super) pulled_by: Vec<String>,
}

/// A path as the name of a unit: `/srv/a b` is `srv-a\x20b` (`systemd-escape --path`).
pub(super) fn path_name(path: &str) -> String {
    match path.trim_matches('/') {
        "" => "-".into(),
        path => name(path),
    }
}

/// Text as a part of the name of a unit (`systemd-escape`).
pub(super) fn name(text: &str) -> String {
    let mut name = String::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name += "\\x2e",
            b'_' | b':' | b'.' => name.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => name.push(byte.into()),
            byte => {
                let _ = write!(name, "\\x{byte:02x}");
            }
        }
    }
    name
}

/// A value of a unit: systemd resolves names behind a percent sign.
pub(super) fn value(text: &str) -> String {
    text.replace('%', "%%")
}

/// An argument of a command in a unit, in which systemd looks for variables.
pub(super) fn argument(text: &str) -> String {
    quoted(text).replace('$', "$$")
}

/// A value in quotes.
pub(super) fn quoted(text: &str) -> String {
    let text = value(text).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// A label as udev has it in a name of /dev/disk.
pub(super) fn udev_name(label: &str) -> String {
    let mut name = String::new();
    for c in label.chars() {
        if c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii() {
            name.push(c);
        } else {
            let _ = write!(name, "\\x{:02x}", u32::from(c));
        }
    }
    name
}

/// A path without empty parts.
pub(super) fn cleaned(path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    match path.starts_with('/') {
        true => format!("/{}", parts.collect::<Vec<_>>().join("/")),
        false => path.to_owned(),
    }
}

/// The reason why a field cannot be in a unit: a line end or another control character begins a directive of its own.
pub(super) fn check(field: &str) -> Result<(), String> {
    match field.chars().any(char::is_control) || field.ends_with('\\') {
        true => Err("a control character, or a backslash at the end of a field".into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that `systemd-escape` 252 prints.
    #[test]
    fn names_are_those_of_systemd() {
        for (path, wanted) in [
            ("/", "-"),
            ("/srv/data/", "srv-data"),
            ("/srv/a b-c", "srv-a\\x20b\\x2dc"),
            ("/.x/.y", "\\x2ex-.y"),
            ("/ä", "\\xc3\\xa4"),
        ] {
            assert_eq!(path_name(path), wanted);
        }
        assert_eq!(quoted("a$b\\"), "\"a$b\\\\\"");
        assert_eq!(udev_name("a b/ä\\"), "a\\x20b\\x2fä\\x5c");
        assert_eq!(cleaned("/dev//x/./y/"), "/dev/x/y");
        assert_eq!(argument("a$b%c\"d\\"), "\"a$$b%%c\\\"d\\\\\"");
    }
}
