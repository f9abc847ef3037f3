//! `pool add`, `attach` and so on: which devices a pool is made of.

use std::path::{Path, PathBuf};

use daemon::api::{Command, DeviceChange, PoolDevices};

use super::pool::device;
use super::{Result, call_quiet};
use crate::args::Pool;
use crate::session::{Session, absolute, usage};

/// Has the devices of a pool changed.
pub(super) fn run(args: Pool, session: &mut Session) -> Result {
    let (pool, change) = change(args)?;
    call_quiet(session, Command::PoolDevices { pool, change })
}

fn change(args: Pool) -> Result<(String, DeviceChange)> {
    Ok(match args {
        Pool::Add(args) => {
            let (devices, force) = (devices(&args.words, false)?, args.force);
            (args.pool, DeviceChange::Add { devices, force })
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
            (args.pool, DeviceChange::Detach { device })
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
            let device = member(&args.device)?;
            (args.pool, DeviceChange::Online { device })
        }
        Pool::Remove(args) => {
            let device = member(&args.device)?;
            (args.pool, DeviceChange::Remove { device })
        }
        Pool::Clear(args) => {
            let device = args.device.as_deref().map(member).transpose()?;
            (args.pool, DeviceChange::Clear { device })
        }
        other => return Err(usage(format!("{other:?} does not change devices"))),
    })
}

/// A device that the pool has, which need not be there: by its guid or path.
fn member(given: &Path) -> Result<String> {
    let text = given.to_string_lossy();
    if text.parse::<u64>().is_ok() && !given.exists() {
        return Ok(text.into_owned());
    }
    Ok(device(given)?.to_string_lossy().into_owned())
}

/// What kind of group the devices that follow a word are in.
enum Kind {
    Single,
    Mirror,
    Spare,
}

/// The groups and spares that words stand for: `mirror A B mirror C D spare E`. Devices that are to be
/// made are taken by their paths.
pub(super) fn devices(words: &[PathBuf], are_new: bool) -> Result<PoolDevices> {
    let mut devices = PoolDevices::default();
    let mut kind = Kind::Single;
    for word in words {
        match word.to_str() {
            Some("mirror") => {
                kind = Kind::Mirror;
                devices.groups.push(Vec::new());
                continue;
            }
            Some("spare") => {
                kind = Kind::Spare;
                continue;
            }
            Some(parity @ ("raidz" | "raidz1" | "raidz2" | "raidz3")) => {
                return Err(usage(format!("{parity} is not built yet; use mirror")));
            }
            _ => {}
        }
        let path = match are_new {
            true => absolute(word)?,
            false => device(word)?,
        };
        match (&kind, devices.groups.last_mut()) {
            (Kind::Spare, _) => devices.spares.push(path),
            (Kind::Mirror, Some(group)) => group.push(path),
            (Kind::Single | Kind::Mirror, _) => devices.groups.push(vec![path]),
        }
    }
    let mirrors = words.iter().filter(|word| word.as_os_str() == "mirror");
    if mirrors.count() > 0 && devices.groups.iter().any(Vec::is_empty) {
        return Err(usage("a mirror has no devices; name them after the word"));
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(words: &[&str]) -> (Vec<usize>, usize) {
        let words: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        let devices = devices(&words, true).unwrap();
        let groups = devices.groups.iter().map(Vec::len).collect();
        (groups, devices.spares.len())
    }

    #[test]
    fn words_stand_for_groups() {
        assert_eq!(groups(&["/a", "/b"]), (vec![1, 1], 0));
        assert_eq!(
            groups(&[
                "mirror", "/a", "/b", "mirror", "/c", "/d", "spare", "/e", "/f"
            ]),
            (vec![2, 2], 2)
        );
        assert_eq!(groups(&["/a", "mirror", "/b", "/c"]), (vec![1, 2], 0));
        assert_eq!(groups(&["spare", "/a"]), (vec![], 1));
        for wrong in [&["mirror"][..], &["raidz", "/a"]] {
            let words: Vec<PathBuf> = wrong.iter().map(PathBuf::from).collect();
            assert!(devices(&words, true).is_err());
        }
    }
}
