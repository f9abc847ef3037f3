//! The words that name the devices of a pool: `mirror A B raidz1 C D E log F cache G spare H`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use console::session::{device_path, is_path, usage};
use protocol::api::{DeviceGroup, NewPoolDevices};
use protocol::device_name::DeviceName;

const MIRROR_MIN: usize = 2;

/// Devices of a group with parity; it has at least one more than it has parity.
const RAIDZ_MIN: usize = 3;
const RAIDZ_MAX: usize = 32;

/// The words before devices.
const WORDS: [&str; 8] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "log", "cache", "spare",
];

/// The part of the pool that a section of words describes.
#[derive(Clone, Copy, PartialEq)]
enum PoolSection {
    Data,
    Log,
    Cache,
    Spare,
}

/// The meaning of a word before devices.
enum Word {
    /// A group with so many devices of parity; a mirror has none.
    Group(usize),
    PoolSection(PoolSection),
}

fn meaning(word: &Path) -> Option<Word> {
    Some(match word.to_str()? {
        "mirror" => Word::Group(0),
        "raidz" | "raidz1" => Word::Group(1),
        "raidz2" => Word::Group(2),
        "raidz3" => Word::Group(3),
        "log" => Word::PoolSection(PoolSection::Log),
        "cache" => Word::PoolSection(PoolSection::Cache),
        "spare" => Word::PoolSection(PoolSection::Spare),
        _ => return None,
    })
}

/// The devices that follow a word, and the word.
struct Section {
    /// None before the first word.
    word: Option<String>,
    part: PoolSection,
    /// The parity, if the devices are one group.
    group: Option<usize>,
    devices: Vec<PathBuf>,
}

impl Section {
    /// The section that `word` begins after this one.
    fn next(&self, word: &Path, meaning: Word) -> Result<Self> {
        let (part, group) = match meaning {
            Word::PoolSection(part) => (part, None),
            // Spares have no groups, so a group after them is of data again.
            Word::Group(parity) if self.part == PoolSection::Spare => {
                (PoolSection::Data, Some(parity))
            }
            Word::Group(_) if self.part == PoolSection::Cache => {
                return Err(usage(
                    "cache devices are single ones; name groups before them",
                ));
            }
            Word::Group(1..) if self.part == PoolSection::Log => {
                return Err(usage("log devices must be single devices or mirrors"));
            }
            Word::Group(parity) => (self.part, Some(parity)),
        };
        Ok(Self {
            word: Some(word.to_string_lossy().into_owned()),
            part,
            group,
            devices: Vec::new(),
        })
    }

    /// Refuses a word without enough devices, or with too many.
    fn check(&self) -> Result<()> {
        let Some(word) = &self.word else {
            return Ok(());
        };
        let count = self.devices.len();
        if count == 0 {
            let reason = format!("{word} has no devices; name them after the word");
            return Err(usage(reason));
        }
        match self.group {
            Some(0) if count < MIRROR_MIN => Err(usage(format!(
                "{word} takes at least {MIRROR_MIN} devices, and not {count}; without the word, each device is used alone"
            ))),
            Some(parity @ 1..) => {
                let min = RAIDZ_MIN.max(parity + 1);
                match (min..=RAIDZ_MAX).contains(&count) {
                    true => Ok(()),
                    false => Err(usage(format!(
                        "{word} takes {min} to {RAIDZ_MAX} devices, and not {count}"
                    ))),
                }
            }
            _ => Ok(()),
        }
    }

    /// Puts the devices where they belong.
    fn put(self, all: &mut NewPoolDevices) {
        let groups = match self.part {
            PoolSection::Data => &mut all.groups,
            PoolSection::Log => &mut all.logs,
            PoolSection::Cache => return all.caches.extend(self.devices),
            PoolSection::Spare => return all.spares.extend(self.devices),
        };
        let Some(parity) = self.group else {
            let single = |device| DeviceGroup {
                devices: vec![device],
                parity: 0,
            };
            return groups.extend(self.devices.into_iter().map(single));
        };
        groups.push(DeviceGroup {
            devices: self.devices,
            parity,
        });
    }
}

/// The groups, log and cache devices and spares that words stand for.
/// Devices that are to be made are taken by their paths.
pub(crate) fn devices(words: &[PathBuf], are_new: bool) -> Result<NewPoolDevices> {
    let mut devices = NewPoolDevices::default();
    let mut section = Section {
        word: None,
        part: PoolSection::Data,
        group: None,
        devices: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    for word in words {
        if let Some(meaning) = meaning(word) {
            let next = section.next(word, meaning)?;
            // `log mirror A B`: the group has the devices of the part.
            let goes_on =
                section.part == next.part && section.group.is_none() && next.group.is_some();
            if !(goes_on && section.devices.is_empty()) {
                section.check()?;
            }
            std::mem::replace(&mut section, next).put(&mut devices);
            continue;
        }
        let path = path(word, are_new)?;
        if !seen.insert(path.clone()) {
            return Err(usage(format!("{} is named twice", word.display())));
        }
        section.devices.push(path);
    }
    section.check()?;
    section.put(&mut devices);
    Ok(devices)
}

/// The path of a device, which is to be made or has to exist.
fn path(word: &Path, is_new: bool) -> Result<PathBuf> {
    check_path(word)?;
    let can_be_made = is_path(word) || DeviceName::parse(word).kind().is_for_pools;
    match (is_new, can_be_made) {
        (true, false) => {
            let word = word.display();
            Err(usage(format!(
                "{word} is not a file, and -s makes files; run the command without -s"
            )))
        }
        (true, true) => device_path(word),
        (false, _) => device(word),
    }
}

/// The path of a device, which may be given by its name in `/dev`.
pub(crate) fn device(given: &Path) -> Result<PathBuf> {
    let in_dev = Path::new("/dev").join(given);
    let is_name = given.components().count() == 1 && !given.exists();
    match is_name && in_dev.exists() {
        true => Ok(in_dev),
        false => device_path(given),
    }
}

/// A device that the pool has, which need not be there: by its guid or path.
pub(crate) fn member(given: &Path) -> Result<String> {
    let text = given.to_string_lossy();
    if text.parse::<u64>().is_ok() && !given.exists() {
        return Ok(text.into_owned());
    }
    Ok(device(given)?.to_string_lossy().into_owned())
}

/// Refuses a name without a slash that is none of a disk. A mistyped word would become a file.
fn check_path(word: &Path) -> Result<()> {
    DeviceName::parse(word).canonical()?;
    let text = word.to_string_lossy();
    let is_disk = Path::new("/dev").join(word).exists();
    if text.contains('/') || !is_path(word) || is_disk {
        return Ok(());
    }
    let near = WORDS.iter().map(|known| (distance(&text, known), known));
    let near = near.min().filter(|(far, _)| *far <= 2 && *far < text.len());
    Err(usage(match near {
        Some((_, known)) => {
            format!("{text}: did you mean '{known}'? a file here is written ./{text}")
        }
        None => format!("{text}: there is no such disk in /dev; a file here is written ./{text}"),
    }))
}

/// The number of letters that have to be changed, left out or put in to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (n, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], n + 1);
        for (at, same) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *same);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<NewPoolDevices> {
        let words: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        devices(&words, true)
    }

    /// Devices and parity of each group, and the number of spares.
    fn groups(words: &[&str]) -> (Vec<(usize, usize)>, usize) {
        let devices = parse(words).unwrap();
        let groups = devices.groups.iter();
        let groups = groups.map(|group| (group.devices.len(), group.parity));
        (groups.collect(), devices.spares.len())
    }

    #[test]
    fn words_stand_for_log_devices() {
        let logs = |words: &[&str]| {
            let devices = parse(words).unwrap();
            let logs = devices.logs.iter().map(|group| group.devices.len());
            (
                devices.groups.len(),
                logs.collect::<Vec<_>>(),
                devices.spares.len(),
            )
        };
        assert_eq!(logs(&["log", "/a"]), (0, vec![1], 0));
        assert_eq!(
            logs(&["/a", "log", "/b", "mirror", "/c", "/d", "spare", "/e"]),
            (1, vec![1, 2], 1)
        );
        assert_eq!(
            logs(&["spare", "/e", "log", "mirror", "/c", "/d"]),
            (0, vec![2], 1)
        );
        for wrong in [
            &["log"][..],
            &["/a", "log"],
            &["log", "mirror"],
            &["log", "mirror", "/a"],
            &["/a", "log", "spare", "/b"],
            &["/a", "log", "log", "/b"],
            &["log", "raidz", "/a", "/b", "/c"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn words_stand_for_cache_devices() {
        let words = ["log", "/a", "cache", "/b", "/c", "spare", "/d"].map(PathBuf::from);
        let parsed = devices(&words, true).unwrap();
        assert_eq!((parsed.logs.len(), parsed.spares.len()), (1, 1));
        assert_eq!(parsed.caches, ["/b", "/c"].map(PathBuf::from));
        assert!(parse(&["/a", "cache"]).is_err());
        assert!(parse(&["cache", "mirror", "/a", "/b"]).is_err());
    }

    #[test]
    fn a_word_that_is_mistyped_is_no_file() {
        for (wrong, known) in [
            ("mirorr", "mirror"),
            ("miror", "mirror"),
            ("radz2", "raidz2"),
            ("Mirror", "mirror"),
            ("logs", "log"),
            ("chache", "cache"),
            ("spares", "spare"),
        ] {
            for are_new in [true, false] {
                let words = [wrong, "/a", "/b"].map(PathBuf::from);
                let refusal = devices(&words, are_new).unwrap_err().message;
                let expected =
                    format!("{wrong}: did you mean '{known}'? a file here is written ./{wrong}");
                assert_eq!(refusal, expected);
            }
        }
        let refusal = parse(&["tank.pool"]).unwrap_err().message;
        assert!(refusal.ends_with("a file here is written ./tank.pool"));
        let files = parse(&["./mirorr", "dir/tank.pool"]).unwrap();
        assert_eq!(files.groups.len(), 2);
        let disks = ["null", "volume:tank/vol"].map(PathBuf::from);
        assert!(devices(&disks, false).is_ok());
        assert!(
            devices(&disks, true).is_err(),
            "a volume is not made with -s"
        );
        for are_new in [true, false] {
            let bucket = [PathBuf::from("s3://bucket/tank/")];
            let parsed = devices(&bucket, are_new).unwrap();
            let path = parsed.groups[0].devices[0].to_str();
            assert_eq!(path, Some("s3://bucket/tank"));
            let wrong = [PathBuf::from("s3://user@bucket")];
            let refusal = devices(&wrong, are_new).unwrap_err().message;
            assert!(refusal.contains("no credentials"), "{refusal}");
        }
        let exports = ["nbd://Host/disk", "nbd+unix:///x?socket=/s"].map(PathBuf::from);
        let parsed = devices(&exports, false).unwrap();
        assert_eq!(
            parsed.groups[0].devices[0].to_str(),
            Some("nbd://host/disk")
        );
        let mapping = [PathBuf::from("luks:secret")];
        let parsed = devices(&mapping, false).unwrap();
        assert_eq!(parsed.groups[0].devices, mapping);
        assert!(devices(&mapping, true).is_err());
        assert!(
            devices(&exports, true).is_err(),
            "an export is not made with -s"
        );
    }

    #[test]
    fn words_stand_for_groups() {
        assert_eq!(groups(&["/a", "/b"]), (vec![(1, 0), (1, 0)], 0));
        assert_eq!(
            groups(&[
                "mirror", "/a", "/b", "mirror", "/c", "/d", "spare", "/e", "/f"
            ]),
            (vec![(2, 0), (2, 0)], 2)
        );
        assert_eq!(
            groups(&["/a", "mirror", "/b", "/c"]),
            (vec![(1, 0), (2, 0)], 0)
        );
        assert_eq!(groups(&["spare", "/a"]), (vec![], 1));
        assert_eq!(
            groups(&[
                "raidz", "/a", "/b", "/c", "raidz1", "/d", "/e", "/f", "spare", "/g"
            ]),
            (vec![(3, 1), (3, 1)], 1)
        );
        assert_eq!(
            groups(&["raidz2", "/a", "/b", "/c", "/d"]),
            (vec![(4, 2)], 0)
        );
        assert_eq!(
            groups(&["raidz3", "/a", "/b", "/c", "/d"]),
            (vec![(4, 3)], 0)
        );
        for wrong in [
            &["mirror"][..],
            &["mirror", "/a"],
            &["mirror", "/a", "mirror", "/b"],
            &["mirror", "/a", "mirror", "/b", "/c"],
            &["spare"],
            &["/a", "spare"],
            &["/a", "spare", "cache", "/b"],
            &["/a", "cache", "spare", "/b"],
            &["raidz", "/a", "/b"],
            &["raidz", "/a", "/b", "spare", "/c"],
            &["raidz3", "/a", "/b", "/c"],
            &["mirror", "raidz", "/a", "/b", "/c"],
            &["raidz2", "spare", "/a"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn devices_may_be_named() {
        assert_eq!(device(Path::new("null")).unwrap(), Path::new("/dev/null"));
        assert_eq!(
            device(Path::new("/dev/null")).unwrap(),
            Path::new("/dev/null")
        );
        let here = std::env::current_dir().unwrap();
        assert_eq!(device(Path::new("src")).unwrap(), here.join("src"));
        assert_eq!(device(Path::new("no.pool")).unwrap(), here.join("no.pool"));
    }
}
