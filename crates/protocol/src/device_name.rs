//! Names of devices: paths of files and disks, volumes of pools, open LUKS mappings.

use std::fmt;
use std::path::Path;

const VOLUME: &str = "volume:";
const LUKS: &str = "luks:";

/// What a name of a device means. Another kind of device is another prefix, here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName<'a> {
    /// A file or a disk.
    Path(&'a Path),
    /// A volume of an imported pool: `volume:tank/disk`.
    Volume(&'a str),
    /// An open LUKS mapping: `luks:NAME`.
    Luks(&'a str),
}

impl<'a> DeviceName<'a> {
    /// Reads a name. Whether there is such a device is another question.
    pub fn parse(name: &'a (impl AsRef<Path> + ?Sized)) -> DeviceName<'a> {
        let path = name.as_ref();
        let text = path.to_str().unwrap_or_default();
        if let Some(volume) = text.strip_prefix(VOLUME) {
            return DeviceName::Volume(volume);
        }
        match text.strip_prefix(LUKS) {
            Some(mapping) => DeviceName::Luks(mapping),
            None => DeviceName::Path(path),
        }
    }

    /// The name of the volume, if it is one.
    pub fn volume(self) -> Option<&'a str> {
        match self {
            DeviceName::Volume(name) => Some(name),
            DeviceName::Path(_) | DeviceName::Luks(_) => None,
        }
    }
}

/// As it is typed.
impl fmt::Display for DeviceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Path(path) => path.display().fmt(f),
            DeviceName::Volume(name) => write!(f, "{VOLUME}{name}"),
            DeviceName::Luks(name) => write!(f, "{LUKS}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for (text, name) in [
            ("/dev/sdb", DeviceName::Path(Path::new("/dev/sdb"))),
            ("tank/disk", DeviceName::Path(Path::new("tank/disk"))),
            (
                "/x/volume:tank",
                DeviceName::Path(Path::new("/x/volume:tank")),
            ),
            ("volume:tank/disk@1", DeviceName::Volume("tank/disk@1")),
            ("luks:secret", DeviceName::Luks("secret")),
        ] {
            assert_eq!(DeviceName::parse(text), name);
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(DeviceName::parse("volume:a/b").volume(), Some("a/b"));
        assert_eq!(DeviceName::parse("luks:a").volume(), None);
    }
}
