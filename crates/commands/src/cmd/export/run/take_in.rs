//! `mount --take-in`: the dataset is mounted in a private directory while files are moved into it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use adopt::{has_entries, take_in};
use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, usage};
use console::show::json;
use protocol::api::{Command, Failure, FailureKind, PropertyValue, command};
use serde::Serialize;

/// The beginning of the name of a private directory, beside the socket of the daemon.
const PREFIX: &str = "take-in-";

#[derive(Serialize)]
struct MoveReport {
    moved: u64,
}

pub(super) fn mount(mount: command::Mount, session: &mut Session) -> Result {
    let name = mount.name.clone().unwrap_or_default();
    if name.contains('@') {
        return Err(usage("a snapshot takes nothing in; name a dataset"));
    }
    end_private(&name, session)?;
    let dir = match &mount.dir {
        Some(dir) => dir.clone(),
        None => mountpoint(&name, session)?,
    };
    let moved = match has_entries(&dir)? {
        true => move_entries(&mount, &name, &dir, session)?,
        false => 0,
    };
    call_quiet(session, mount)?;
    Ok(Outcome::text(match session.json {
        true => json::show(&MoveReport { moved }),
        false if moved == 1 => format!("moved 1 entry into {name}\n"),
        false => format!("moved {moved} entries into {name}\n"),
    }))
}

/// Moves what lies in a directory into a dataset, which is not mounted before and after.
fn move_entries(
    mount: &command::Mount,
    name: &str,
    dir: &Path,
    session: &mut Session,
) -> Result<u64> {
    let private = private_dir(session)?;
    let mounted = call_quiet(
        session,
        command::Mount {
            dir: Some(private.clone()),
            read_only: false,
            overlay: false,
            ..mount.clone()
        },
    );
    let moved = mounted.and_then(|_| {
        let moved = take_in(dir, &private);
        let unmount = command::Unmount {
            target: Some(name.to_owned()),
            force: false,
        };
        let unmounted = call_quiet(session, unmount);
        let moved = moved?;
        unmounted.map_err(|failure| {
            let why = format!(
                "the entries are in '{name}' now ({moved}), but it is not mounted at {}: {}",
                dir.display(),
                failure.message
            );
            Failure::new(failure.kind, why)
        })?;
        Ok(moved)
    });
    let _ = std::fs::remove_dir(&private);
    moved
}

/// The directory where a dataset mounts by its property.
fn mountpoint(name: &str, session: &mut Session) -> Result<PathBuf> {
    let command = command::Get {
        names: vec![name.to_owned()],
        depth: Some(0),
        props: vec!["mountpoint".into()],
        ..command::Get::default()
    };
    let rows = answer!(session.call(command)?, Datasets)?;
    let mut props = rows.into_iter().flat_map(|row| row.props);
    match props.next().map(|prop| prop.value) {
        Some(PropertyValue::Text(path)) if path.starts_with('/') => Ok(path.into()),
        _ => Err(usage(format!(
            "'{name}' has no mountpoint; say where: strongroom mount --take-in {name} DIRECTORY"
        ))),
    }
}

/// A new directory for this user only.
fn private_dir(session: &Session) -> Result<PathBuf> {
    let above = session.socket.parent().unwrap_or(Path::new("/"));
    let dir = above.join(format!("{PREFIX}{}", std::process::id()));
    match DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => Ok(dir),
        Err(error) => Err(Failure::new(
            FailureKind::Permission,
            format!(
                "cannot make '{}': {error}; files are taken in by the user of the daemon",
                dir.display()
            ),
        )),
    }
}

/// Unmounts a dataset that an interrupted command left mounted in its private directory.
fn end_private(name: &str, session: &mut Session) -> Result<()> {
    let rows = answer!(session.call(Command::Mounts)?, Mounts)?;
    let above = session.socket.parent().map(Path::to_owned);
    let is_private = |dir: &Path| {
        let last = dir.file_name().unwrap_or_default().to_string_lossy();
        dir.parent() == above.as_deref() && last.starts_with(PREFIX)
    };
    let left = { rows.into_iter() }.filter(|row| row.name == name);
    for row in left.filter(|row| is_private(Path::new(&row.dir))) {
        let command = command::Unmount {
            target: Some(name.to_owned()),
            force: false,
        };
        call_quiet(session, command)?;
        let _ = std::fs::remove_dir(&row.dir);
    }
    Ok(())
}
