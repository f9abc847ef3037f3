//! `pool add`, `attach` and so on: which devices a pool is made of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use protocol::api::{
    DeviceChange, DeviceGroup, DeviceRow, Failure, FailureKind, PoolDevices, PoolReport, command,
};
use protocol::device_name::DeviceName;

use crate::cmd::pool::args::{Activity, Pool};
use crate::cmd::pool::run::layout::layout_of;
use crate::cmd::pool::run::wait::{self, INCOMPLETE, until_ended};
use crate::outcome::{Outcome, Result, call_quiet};
use crate::session::{Session, device_path, is_path, pool_device, usage};

/// A group with parity has so many devices, and more than it has parity.
const RAIDZ_MIN: usize = 3;
const RAIDZ_MAX: usize = 32;

/// Has the devices of a pool changed.
pub(super) fn run(args: Pool, session: &mut Session) -> Result {
    let awaited = match &args {
        Pool::Attach(args) if args.wait => Some(Activity::Resilver),
        Pool::Replace(args) if args.wait => Some(Activity::Resilver),
        _ => None,
    };
    let (pool, change) = change(args)?;
    let would_be = match &change {
        DeviceChange::Add {
            devices,
            dry_run: true,
            ..
        } => Some(added(&pool, devices, session)?),
        _ => None,
    };
    let command = command::PoolDevices {
        pool: pool.clone(),
        change,
    };
    let done = call_quiet(session, command)?;
    if let Some(activity) = awaited {
        let report = until_ended(&pool, activity, session)?;
        let mut devices = report.devices.iter();
        if let Some(device) = devices.find(|device| device.state == INCOMPLETE) {
            return Err(Failure {
                kind: FailureKind::Damaged,
                message: format!(
                    "the resilver of '{pool}' ended, and {} lacks {} records: strongroom pool status -v {pool}",
                    device.path, report.resilver.errors
                ),
            });
        }
    }
    Ok(would_be.map_or(done, Outcome::text))
}

/// What `pool add -n` says: the devices of the pool, then the new ones.
fn added(pool: &str, new: &PoolDevices, session: &mut Session) -> Result<String> {
    let report = wait::report(pool, session)?;
    let mut all = present(&report);
    all.groups.extend(new.groups.iter().cloned());
    all.logs.extend(new.logs.iter().cloned());
    all.caches.extend(new.caches.iter().cloned());
    all.spares.extend(new.spares.iter().cloned());
    Ok(format!(
        "would update '{pool}' to the following configuration:\n\n\t{pool}\n{}",
        layout_of(&all)
    ))
}

/// The devices that a pool has.
fn present(pool: &PoolReport) -> PoolDevices {
    let path = |device: &DeviceRow| PathBuf::from(&device.path);
    let mut present = PoolDevices::default();
    let same = |a: &DeviceRow, b: &DeviceRow| (a.group, a.is_cache) == (b.group, b.is_cache);
    for group in pool.devices.chunk_by(same) {
        let first = &group[0];
        let devices = group.iter().map(path);
        match (first.group, first.is_cache) {
            (None, true) => present.caches.extend(devices),
            (None, false) => present.spares.extend(devices),
            (Some(_), _) => {
                let groups = match first.is_log {
                    true => &mut present.logs,
                    false => &mut present.groups,
                };
                groups.push(DeviceGroup {
                    devices: devices.collect(),
                    parity: first.parity,
                });
            }
        }
    }
    present
}

/// The path of a device, which may be given by its name in `/dev`.
pub(super) fn device(given: &Path) -> Result<PathBuf> {
    let in_dev = Path::new("/dev").join(given);
    let is_name = given.components().count() == 1 && !given.exists();
    match is_name && in_dev.exists() {
        true => Ok(in_dev),
        false => pool_device(given),
    }
}

fn change(args: Pool) -> Result<(String, DeviceChange)> {
    Ok(match args {
        Pool::Add(args) => {
            let change = DeviceChange::Add {
                devices: Box::new(devices(&args.words, false)?),
                force: args.force,
                dry_run: args.dry_run,
            };
            (args.pool, change)
        }
        Pool::Attach(args) => {
            let change = DeviceChange::Attach {
                device: member(&args.device)?,
                new: device(&args.new)?,
                force: args.force,
            };
            (args.pool, change)
        }
        Pool::Detach(args) => {
            let device = member(&args.device)?;
            let force = args.force;
            (args.pool, DeviceChange::Detach { device, force })
        }
        Pool::Replace(args) => {
            let change = DeviceChange::Replace {
                device: member(&args.device)?,
                new: args.new.as_deref().map(device).transpose()?,
                force: args.force,
            };
            (args.pool, change)
        }
        Pool::Offline(args) => {
            let change = DeviceChange::Offline {
                device: member(&args.device)?,
                temporary: args.temporary,
            };
            (args.pool, change)
        }
        Pool::Online(args) => {
            let (device, expand) = (member(&args.device)?, args.expand);
            (args.pool, DeviceChange::Online { device, expand })
        }
        Pool::Remove(args) => {
            let wait = args.wait;
            let device = args.device.as_deref().map(member).transpose()?;
            let remove = |device| DeviceChange::Remove { device, wait };
            (args.pool, device.map_or(DeviceChange::StopRemove, remove))
        }
        Pool::Clear(args) => {
            let device = args.device.as_deref().map(member).transpose()?;
            (args.pool, DeviceChange::Clear { device })
        }
        other => return Err(usage(format!("{other:?} does not change devices"))),
    })
}

/// A device that the pool has, which need not be there: by its guid or path.
pub(super) fn member(given: &Path) -> Result<String> {
    let text = given.to_string_lossy();
    if text.parse::<u64>().is_ok() && !given.exists() {
        return Ok(text.into_owned());
    }
    Ok(device(given)?.to_string_lossy().into_owned())
}

/// What the devices that follow a word are.
enum Kind {
    Single,
    /// Members of the last group, which is named like this.
    Group(&'static str),
    Cache,
    Spare,
}

/// The word before the devices of a group, and how many of them are parity.
fn group_word(word: &Path) -> Result<Option<(&'static str, usize)>> {
    Ok(match word.to_str() {
        Some("mirror") => Some(("mirror", 0)),
        Some("raidz" | "raidz1") => Some(("raidz1", 1)),
        Some("raidz2") => Some(("raidz2", 2)),
        Some("raidz3") => Some(("raidz3", 3)),
        _ => None,
    })
}

/// The word before devices that are in no group, or in groups for logs.
fn kind_word(word: &Path) -> Option<Kind> {
    Some(match word.to_str()? {
        "log" => Kind::Single,
        "cache" => Kind::Cache,
        "spare" => Kind::Spare,
        _ => return None,
    })
}

/// The groups, log and cache devices and spares that words stand for: `mirror A B raidz1 C D E log F cache G
/// spare H`.
/// Devices that are to be made are taken by their paths.
pub(super) fn devices(words: &[PathBuf], are_new: bool) -> Result<PoolDevices> {
    let mut devices = PoolDevices::default();
    let mut kind = Kind::Single;
    let mut are_logs = false;
    let mut seen = BTreeSet::new();
    for word in words {
        let groups = match are_logs {
            true => &mut devices.logs,
            false => &mut devices.groups,
        };
        if let Some((name, parity)) = group_word(word)? {
            check_last(&kind, groups)?;
            if matches!(kind, Kind::Cache) {
                return Err(usage(
                    "cache devices are single ones; name groups before them",
                ));
            }
            if are_logs && parity > 0 {
                return Err(usage("log devices must be single devices or mirrors"));
            }
            kind = Kind::Group(name);
            groups.push(DeviceGroup {
                devices: Vec::new(),
                parity,
            });
            continue;
        }
        if let Some(next) = kind_word(word) {
            check_last(&kind, groups)?;
            are_logs = matches!(next, Kind::Single);
            kind = next;
            continue;
        }
        check_path(word)?;
        let path = match (are_new, is_path(word)) {
            (true, false) => {
                let word = word.display();
                return Err(usage(format!(
                    "{word} is not a file, and -s makes files; run the command without -s"
                )));
            }
            (true, true) => device_path(word)?,
            (false, _) => device(word)?,
        };
        if !seen.insert(path.clone()) {
            return Err(usage(format!("{} is named twice", word.display())));
        }
        match (&kind, groups.last_mut()) {
            (Kind::Cache, _) => devices.caches.push(path),
            (Kind::Spare, _) => devices.spares.push(path),
            (Kind::Group(_), Some(group)) => group.devices.push(path),
            (Kind::Single | Kind::Group(_), _) => groups.push(DeviceGroup {
                devices: vec![path],
                parity: 0,
            }),
        }
    }
    let last = match are_logs {
        true => &devices.logs,
        false => &devices.groups,
    };
    check_last(&kind, last)?;
    let is_empty = match kind {
        Kind::Single | Kind::Group(_) => are_logs && devices.logs.is_empty(),
        Kind::Cache => devices.caches.is_empty(),
        Kind::Spare => false,
    };
    if is_empty {
        let word = if are_logs { "log" } else { "cache" };
        let reason = format!("{word} has no devices; name them after the word");
        return Err(usage(reason));
    }
    Ok(devices)
}

/// The words before devices.
const WORDS: [&str; 8] = [
    "mirror", "raidz", "raidz1", "raidz2", "log", "cache", "spare", "raidz3",
];

/// Refuses a name without a slash that is none of a disk: a word that is mistyped would become a file.
fn check_path(word: &Path) -> Result<()> {
    DeviceName::parse(word).for_pool()?.canonical()?;
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

/// How many letters have to be changed, left out or put in to make one word of another.
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

/// Refuses a group of too few devices, or of too many.
fn check_last(kind: &Kind, groups: &[DeviceGroup]) -> Result<()> {
    let (Kind::Group(name), Some(group)) = (kind, groups.last()) else {
        return Ok(());
    };
    let count = group.devices.len();
    if count == 0 {
        return Err(usage(format!(
            "{name} has no devices; name them after the word"
        )));
    }
    let min = RAIDZ_MIN.max(group.parity + 1);
    if group.parity > 0 && !(min..=RAIDZ_MAX).contains(&count) {
        return Err(usage(format!(
            "{name} takes {min} to {RAIDZ_MAX} devices, and not {count}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<PoolDevices> {
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
            let bucket = [PathBuf::from("s3://bucket")];
            let refusal = devices(&bucket, are_new).unwrap_err().message;
            assert!(refusal.contains("object stores"), "{refusal}");
        }
        let exports = ["nbd://Host/disk", "nbd+unix:///x?socket=/s"].map(PathBuf::from);
        let parsed = devices(&exports, false).unwrap();
        assert_eq!(
            parsed.groups[0].devices[0].to_str(),
            Some("nbd://host/disk")
        );
        for are_new in [true, false] {
            let mapping = [PathBuf::from("luks:secret")];
            let refusal = devices(&mapping, are_new).unwrap_err().message;
            assert!(
                refusal.contains("cannot be a device of a pool: "),
                "{refusal}"
            );
        }
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
            &["raidz", "/a", "/b"],
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
