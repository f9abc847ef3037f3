//! Mounting, unmounting, and what is mounted.

use std::fmt::Write;
use std::path::Path;

use console::mount_options::MountOption;
use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, absolute, answer, usage};
use console::show::{json, text};
use protocol::api::{Command, MountPermissions, MountRow, command};

use crate::cmd::export::args::{Mount, Unmount};
use crate::cmd::export::run::take_in;

pub(crate) fn mount(args: Mount, session: &mut Session) -> Result {
    session.hash_memory = args.cost.hash_memory;
    if args.name.is_none() && !args.all {
        if args.load_keys || args.overlay || args.take_in || !args.options.is_empty() {
            return Err(usage("name a dataset to mount, or use -a for all"));
        }
        return mounts(session);
    }
    let mut read_only = None;
    let mut remount = false;
    let mut allowed = MountPermissions::default();
    for option in &args.options {
        match option {
            MountOption::ReadOnly(is_on) => read_only = Some(*is_on),
            MountOption::Exec(is_on) => allowed.exec = Some(*is_on),
            MountOption::Setuid(is_on) => allowed.setuid = Some(*is_on),
            MountOption::Devices(is_on) => allowed.devices = Some(*is_on),
            MountOption::AccessTimes(times) => allowed.access_times = Some(*times),
            MountOption::DirectoryTimes(is_on) => allowed.directory_times = Some(*is_on),
            MountOption::Remount => remount = true,
            // No dataset has the second one.
            MountOption::Ignored | MountOption::NameIndex(_) => {}
        }
    }
    if remount {
        if args.take_in {
            return Err(usage("--take-in is for a dataset that is not mounted"));
        }
        let name = args
            .name
            .ok_or_else(|| usage("name the dataset to change"))?;
        let command = command::Remount {
            name,
            read_only,
            allowed,
        };
        return call_quiet(session, command);
    }
    if args.accept_rollback {
        let names = args.name.iter().cloned().collect();
        call_quiet(session, command::AnchorAccept { names })?;
    }
    let command = command::Mount {
        name: args.name,
        dir: args.dir.as_deref().map(absolute).transpose()?,
        load_keys: args.load_keys,
        read_only: read_only.unwrap_or(false),
        overlay: args.overlay,
        give_up_log: args.give_up_log,
        allowed,
    };
    match args.take_in {
        true => take_in::mount(command, session),
        false => call_quiet(session, command),
    }
}

fn mounts(session: &mut Session) -> Result {
    let rows = answer!(session.call(Command::Mounts)?, Mounts)?;
    match session.json {
        true => Ok(Outcome::text(json::show(&rows))),
        false => Ok(Outcome::text(report(&rows))),
    }
}

/// Prints mounts as `zfs mount` does: no header.
fn report(rows: &[MountRow]) -> String {
    let mut out = String::new();
    for row in rows {
        let (name, dir) = (text::in_a_cell(&row.name), text::in_a_cell(&row.dir));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<30}  {dir}");
    }
    out
}

pub(crate) fn unmount(args: Unmount, session: &mut Session) -> Result {
    let command = command::Unmount {
        target: args.target.as_deref().map(target).transpose()?,
        force: args.force,
    };
    call_quiet(session, command)
}

/// A dataset's name as it is; a directory as the daemon knows it.
fn target(given: &str) -> Result<String> {
    if !given.starts_with(['/', '.']) {
        return Ok(given.into());
    }
    let path = Path::new(given);
    // What is mounted on cannot always be looked at, and then its name has to do.
    let dir = std::fs::canonicalize(path).or_else(|_| absolute(path))?;
    match dir.into_os_string().into_string() {
        Ok(dir) => Ok(dir),
        Err(_) => Err(usage(
            "the name of the directory is not UTF-8; use the name of the dataset",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_directories_are_told_apart() {
        assert_eq!(target("tank/home").unwrap(), "tank/home");
        assert_eq!(target("/").unwrap(), "/");
        assert_eq!(target("/no/such/dir/").unwrap(), "/no/such/dir/");
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(target(".").unwrap(), here.to_str().unwrap());
    }

    #[test]
    fn mounts_are_aligned_as_zfs_does() {
        let row = |name: &str| MountRow {
            name: name.into(),
            dir: format!("/{name}"),
            read_only: false,
            device: 0,
        };
        assert_eq!(
            report(&[row("tank"), row("tank/home")]),
            "\
tank                            /tank
tank/home                       /tank/home
"
        );
    }
}
