//! A link to a protector on another file system.

use super::error::{Result, damaged};

/// The file system with the protector. At least one of both is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectorLink {
    /// The UUID of the file system.
    pub uuid: Option<String>,
    /// The mountpoint of the file system.
    pub path: Option<String>,
}

impl ProtectorLink {
    /// Reads the file: lines `UUID=...` and `PATH=...`. Other lines are for other versions.
    ///
    /// # Errors
    /// [`Error::Damaged`](super::Error::Damaged).
    pub fn decode(bytes: &[u8]) -> Result<ProtectorLink> {
        let text = str::from_utf8(bytes).map_err(|_| damaged("a link is no text"))?;
        let mut link = ProtectorLink::default();
        for (token, value) in text.lines().filter_map(|line| line.trim().split_once('=')) {
            let value = (!value.is_empty()).then(|| value.to_owned());
            match token {
                "UUID" => link.uuid = value,
                "PATH" => link.path = value,
                _ => {}
            }
        }
        // It becomes the name of a file in a directory of the system.
        let is_plain = |uuid: &String| !uuid.contains('/') && !uuid.starts_with('.');
        if link.uuid.as_ref().is_some_and(|uuid| !is_plain(uuid)) {
            return Err(damaged("the UUID of a link is none"));
        }
        match link == ProtectorLink::default() {
            true => Err(damaged("a link has neither UUID nor PATH")),
            false => Ok(link),
        }
    }

    /// The file.
    pub fn encode(&self) -> String {
        let line = |token: &str, value: &Option<String>| match value {
            Some(value) => format!("{token}={value}\n"),
            None => String::new(),
        };
        line("UUID", &self.uuid) + &line("PATH", &self.path)
    }
}
