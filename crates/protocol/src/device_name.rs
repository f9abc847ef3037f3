//! Names of devices: paths of files and disks, volumes of pools, open LUKS mappings, exports of NBD servers, places in
//! object stores.

use std::fmt;
use std::path::Path;

use crate::api::Failure;
use crate::nbd_uri::NbdUri;
use crate::object_uri::{ObjectUri, shown};

const VOLUME: &str = "volume:";
const LUKS: &str = "luks:";

/// The beginnings of the address of an export of an NBD server. [`NbdUri`] has the rest.
const NBD: [&str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];

/// The beginnings of names of devices that cannot be opened, and the advice for each.
const UNSUPPORTED: [(&[&str], &str); 4] = [
    (
        &["nbd+vsock://", "nbds+vsock://"],
        "NBD servers are reached by TCP and unix sockets; write nbd://host/disk or nbd+unix:///disk?socket=/run/nbd.sock",
    ),
    (
        &["gcs://"],
        "a bucket of Google Cloud Storage is written gs://bucket/tank",
    ),
    (
        &[
            "azure://", "abfs://", "abfss://", "wasb://", "wasbs://", "adl://",
        ],
        "a container of Azure is written az://container/tank; the daemon reads the account from its environment",
    ),
    (
        &[
            "http://", "https://", "s3a://", "s3n://", "S3://", "r2://", "b2://", "minio://",
        ],
        "a bucket of S3 is written s3://bucket/tank; the daemon reads the address of another service from AWS_ENDPOINT_URL",
    ),
];

/// The meaning of a name of a device. Another kind of device is another prefix in [`DeviceName::parse`], and another
/// row in [`DeviceName::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName<'a> {
    /// A file or a disk.
    Path(&'a Path),
    /// A volume of an imported pool: `volume:tank/disk`.
    Volume(&'a str),
    /// An open LUKS mapping: `luks:NAME`.
    Luks(&'a str),
    /// An export of an NBD server: `nbd://host/disk`. It need not be a correct address.
    Nbd(&'a str),
    /// A place in an object store: `s3://bucket/tank`. It need not be a correct address.
    Object(&'a str),
    /// A device of a kind that cannot be opened: `nbd+vsock://2/disk`.
    Unsupported(UnsupportedKind<'a>),
}

/// The facts about a kind of device that pools and commands need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Other programs open it by this name too: it is a file or a disk. The daemon opens all others.
    pub is_path: bool,
    /// True if the device may not answer for long, as another host. Work that does not need the device does not wait
    /// for it.
    pub may_wait: bool,
    /// True if only pools can lie on it: they write much at once, and never in place.
    pub is_for_pools: bool,
}

/// The name of a device of a kind that cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedKind<'a> {
    name: &'a str,
    instead: &'static str,
}

impl UnsupportedKind<'_> {
    /// The reason for which the device cannot be opened, and the advice.
    pub fn refusal(self) -> Failure {
        Failure::usage(format!("{}: {}", shown(self.name), self.instead))
    }
}

impl<'a> DeviceName<'a> {
    /// Reads a name. Whether there is such a device is another question.
    pub fn parse(name: &'a (impl AsRef<Path> + ?Sized)) -> DeviceName<'a> {
        let path = name.as_ref();
        let text = path.to_str().unwrap_or_default();
        if let Some(volume) = text.strip_prefix(VOLUME) {
            return DeviceName::Volume(volume);
        }
        if let Some(mapping) = text.strip_prefix(LUKS) {
            return DeviceName::Luks(mapping);
        }
        let is_one = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_one(&NBD) {
            return DeviceName::Nbd(text);
        }
        if is_one(&ObjectUri::BEGINNINGS) {
            return DeviceName::Object(text);
        }
        match UNSUPPORTED.iter().find(|(prefixes, _)| is_one(prefixes)) {
            Some((_, instead)) => DeviceName::Unsupported(UnsupportedKind {
                name: text,
                instead,
            }),
            None => DeviceName::Path(path),
        }
    }

    /// The facts about devices of this kind.
    pub fn kind(self) -> Kind {
        let row = |is_path, may_wait, is_for_pools| Kind {
            is_path,
            may_wait,
            is_for_pools,
        };
        match self {
            DeviceName::Path(_) => row(true, false, false),
            DeviceName::Volume(_) | DeviceName::Luks(_) | DeviceName::Unsupported(_) => {
                row(false, false, false)
            }
            DeviceName::Nbd(_) => row(false, true, false),
            DeviceName::Object(_) => row(false, true, true),
        }
    }

    /// The name of the volume, if it is one.
    pub fn volume(self) -> Option<&'a str> {
        match self {
            DeviceName::Volume(name) => Some(name),
            _ => None,
        }
    }

    /// Returns whether other programs open it by this name too: it is a file or a disk.
    pub fn is_path(self) -> bool {
        self.kind().is_path
    }

    /// Returns whether pools can lie on it, and only the daemon can open it.
    pub fn is_lent(self) -> bool {
        !self.is_path() && self.supported().is_ok()
    }

    /// The name as it is shown and remembered. Other names have one spelling only.
    ///
    /// # Errors
    /// No device of this kind can be opened, or the address of an export or an object store is none.
    pub fn canonical(self) -> Result<String, Failure> {
        match self.supported()? {
            DeviceName::Nbd(text) => NbdUri::parse(text).map(|uri| uri.to_string()),
            DeviceName::Object(text) => ObjectUri::parse(text).map(|uri| uri.to_string()),
            other => Ok(other.to_string()),
        }
    }

    /// Returns whether both are spellings of one name. Paths that lead to one file are not the same name.
    pub fn is_same(self, other: DeviceName<'_>) -> bool {
        self == other
            || matches!(
                (self, other),
                (DeviceName::Nbd(_), DeviceName::Nbd(_))
                    | (DeviceName::Object(_), DeviceName::Object(_))
            ) && self
                .canonical()
                .is_ok_and(|name| other.canonical().is_ok_and(|is| is == name))
    }

    /// The name, if there are devices of this kind.
    ///
    /// # Errors
    /// No device of this kind can be opened.
    pub fn supported(self) -> Result<DeviceName<'a>, Failure> {
        match self {
            DeviceName::Unsupported(name) => Err(name.refusal()),
            _ => Ok(self),
        }
    }

    /// The name, if other things than pools can lie on such a device: a container, an export.
    ///
    /// # Errors
    /// No device of this kind can be opened, or only pools lie on such devices.
    pub fn of_blocks(self) -> Result<DeviceName<'a>, Failure> {
        let name = self.supported()?;
        if !name.kind().is_for_pools {
            return Ok(name);
        }
        let place = name.canonical()?;
        Err(Failure::usage(format!(
            "{place}: only a pool can lie on an object store; make one, 'strongroom pool create tank {place}', and use a \
             volume of it, as in volume:tank/disk"
        )))
    }
}

/// Writes the name as it is typed.
impl fmt::Display for DeviceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Path(path) => path.display().fmt(f),
            DeviceName::Volume(name) => write!(f, "{VOLUME}{name}"),
            DeviceName::Luks(name) => write!(f, "{LUKS}{name}"),
            DeviceName::Nbd(name)
            | DeviceName::Object(name)
            | DeviceName::Unsupported(UnsupportedKind { name, .. }) => name.fmt(f),
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
            ("nbd://Host/disk", DeviceName::Nbd("nbd://Host/disk")),
            ("s3://b/tank", DeviceName::Object("s3://b/tank")),
            ("file:///srv", DeviceName::Object("file:///srv")),
            ("file:/srv", DeviceName::Path(Path::new("file:/srv"))),
        ] {
            assert_eq!(DeviceName::parse(text), name);
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(DeviceName::parse("volume:a/b").volume(), Some("a/b"));
        assert_eq!(DeviceName::parse("luks:a").volume(), None);
        assert!(DeviceName::parse("a").is_path() && !DeviceName::parse("nbd://a/b").is_path());
        let lent = |text: &str| DeviceName::parse(text).is_lent();
        assert!(lent("volume:a/b") && lent("nbd://a/b") && lent("luks:a"));
        assert!(lent("s3://a") && !lent("/dev/sdb") && !lent("gcs://a"));
    }

    #[test]
    fn spellings_of_one_address_are_one_name() {
        let is_same = |a: &str, b: &str| DeviceName::parse(a).is_same(DeviceName::parse(b));
        assert!(is_same("nbd://Host:10809/x", "nbd://host/x"));
        assert!(!is_same("nbd://host/x", "nbd://host/y"));
        assert!(!is_same("nbd://host:0/x", "nbd://host:00/x"));
        assert!(is_same("/a", "/a") && !is_same("/a", "/b") && !is_same("luks:a", "volume:a"));
        assert_eq!(
            DeviceName::parse("nbd://HOST/x").canonical().unwrap(),
            "nbd://host/x"
        );
        assert!(DeviceName::parse("nbd://").canonical().is_err());
        assert!(is_same("s3://bucket/x/", "s3://bucket/x"));
        assert!(!is_same("s3://bucket/x", "gs://bucket/x"));
        assert!(!is_same("s3://x", "s3://x/"), "neither is an address");
        assert!(DeviceName::parse("s3://").canonical().is_err());
    }

    #[test]
    fn only_pools_lie_on_object_stores() {
        let of_blocks = |text: &'static str| DeviceName::parse(text).of_blocks();
        for text in ["/dev/sdb", "volume:a/b", "luks:a", "nbd://a/b"] {
            assert_eq!(of_blocks(text).unwrap(), DeviceName::parse(text));
        }
        for text in ["s3://bucket/tank/", "file:///srv/tank"] {
            let advice = of_blocks(text).unwrap_err().message;
            assert!(advice.contains("pool create tank"), "{advice}");
            assert!(advice.contains("volume:tank/disk"), "{advice}");
        }
        let refusal = of_blocks("s3://key@bucket").unwrap_err().message;
        assert!(refusal.contains("no credentials"), "{refusal}");
        assert!(of_blocks("gcs://a").is_err());
    }

    #[test]
    fn kinds_that_cannot_be_opened_are_refused_and_what_can_is_named() {
        for (text, instead) in [
            ("nbd+vsock://2/disk", "nbd+unix:///disk"),
            ("https://bucket.example.org/pool", "s3://bucket/tank"),
            ("gcs://bucket/pool", "gs://bucket/tank"),
            ("abfss://container/pool", "az://container/tank"),
        ] {
            let name = DeviceName::parse(text);
            assert_eq!(name.to_string(), text);
            assert_eq!(name.volume(), None);
            let refusal = name.supported().unwrap_err().message;
            assert!(refusal.starts_with(&format!("{text}: ")), "{refusal}");
            assert!(refusal.contains(instead), "{refusal}");
        }
        let secret = DeviceName::parse("https://key:hidden@host").supported();
        assert!(!secret.unwrap_err().message.contains("hidden"));
        for text in [
            "./nbd://disk",
            "/x/gcs://disk",
            "nbd:disk",
            "volume:a",
            "luks:gcs://",
        ] {
            assert!(DeviceName::parse(text).supported().is_ok(), "{text}");
        }
    }
}
