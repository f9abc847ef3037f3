//! Serving the CSI driver.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use console::outcome::{Outcome, Result};
use console::session::{Session, absolute, other, usage};
use protocol::api::{Command, Failure, FailureKind};

use crate::cmd::csi::args::Csi;

/// The longest name of a node or a driver: both become labels of nodes.
const NAME_MAX: usize = 63;

pub(crate) fn run(args: Csi, session: &mut Session) -> Result {
    let at = socket(&args.endpoint)?;
    check_name("--node-id", &args.node_id)?;
    check_name("--driver-name", &args.driver_name)?;
    // The daemon is there before the first call is.
    session.call(Command::Whoami)?;
    let kubelet_dir = directory("--kubelet-dir", &args.kubelet_dir)?;
    let mounts = match &args.mounts {
        Some(mounts) => absolute(mounts)?,
        None => kubelet_dir
            .join("plugins")
            .join(&args.driver_name)
            .join("mounts"),
    };
    let settings = csi::DriverSettings {
        daemon: session.socket.clone(),
        parent: args.parent,
        node_id: args.node_id,
        driver_name: args.driver_name,
        kubelet_dir,
        mounts,
        single_node: args.single_node,
        key_sources: args.key_sources,
    };
    csi::check_parent(&settings)?;
    // Containers reach volumes by their own mounts. This directory is closed to other users.
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&settings.mounts);
    made.map_err(|error| {
        other(format!(
            "cannot make {}: {error}",
            settings.mounts.display()
        ))
    })?;
    if UnixStream::connect(&at).is_ok() {
        let message = format!("{} is served already", at.display());
        return Err(Failure::new(FailureKind::Exists, message));
    }
    let (listener, _socket) = daemon::listen_beside(&at, "--endpoint")?;
    let _ = writeln!(std::io::stdout(), "{}", at.display());
    csi::run(settings, listener)?;
    Ok(Outcome::done())
}

/// The path in `unix:///PATH`.
fn socket(endpoint: &str) -> Result<PathBuf> {
    let path = endpoint.strip_prefix("unix://").map(Path::new);
    match path.filter(|path| path.is_absolute()) {
        Some(path) => Ok(path.to_owned()),
        None => Err(usage(format!(
            "--endpoint '{endpoint}': write unix:// and an absolute path, as in unix:///run/csi.sock"
        ))),
    }
}

fn check_name(option: &str, name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    let is_good = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(is_allowed)
        && name.starts_with(is_edge)
        && name.ends_with(is_edge);
    match is_good {
        true => Ok(()),
        false => Err(usage(format!(
            "{option} '{name}': use up to {NAME_MAX} letters, digits and '-_.', a letter or digit first and last"
        ))),
    }
}

/// An existing directory, as the kernel calls it: later paths are compared with it.
fn directory(option: &str, path: &Path) -> Result<PathBuf> {
    let found = absolute(path)?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(Failure::new(
            FailureKind::NotFound,
            format!("{option} {}: there is no such directory", found.display()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_and_names_are_checked() {
        assert_eq!(socket("unix:///run/a").unwrap(), Path::new("/run/a"));
        for wrong in ["", "/run/a", "unix://", "unix:run/a", "tcp://0.0.0.0:1"] {
            assert!(socket(wrong).is_err(), "{wrong}");
        }
        assert!(check_name("", "node-1.example").is_ok());
        for wrong in ["", "a/b", "-a", "a-", "é", &"a".repeat(64)] {
            assert!(check_name("", wrong).is_err(), "{wrong}");
        }
    }
}
