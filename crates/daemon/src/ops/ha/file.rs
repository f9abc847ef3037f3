//! Reads the file of a pool directly from its root dataset. It uses no path, so mounts do not matter.

use std::sync::Arc;

use dataset::Dataset;
use protocol::api::{FailureKind, MountPermissions};
use protocol::ha_file::{HaFile, LEN_MAX, STMF_NAME, Spelling, TOML_NAME};
use vfs::{Attr, Caller, FileSystem, Kind, ROOT};

use crate::failure::{Failure, Result};
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::mounts::mount_options::{HidingPolicy, MountRequest};
use crate::state::pools::active_pool::ActivePool;

/// The file of a pool, and its name in messages.
pub(super) struct PoolHaFile {
    pub(super) name: &'static str,
    pub(super) file: HaFile,
}

impl Daemon {
    pub(super) fn ha_file(&self, active: &ActivePool) -> Result<PoolHaFile> {
        // With this lock no command mounts the dataset meanwhile.
        let _admin = active.lock(&Internal)?;
        let pool = active.pool.name();
        let top = active.pool.top()?;
        let mounted = active
            .mounts
            .lock()
            .get(&top.id)
            .map(|it| Arc::clone(&it.dataset));
        if let Some(dataset) = mounted {
            return find(&dataset, &pool);
        }
        let how = MountRequest {
            gives_up_log: false,
            dir: None,
            read_only: true,
            hiding: HidingPolicy::Refused,
            allowed: MountPermissions::default(),
            owner: Caller::default(),
        };
        let opened = self.open_files(active, &top, &how).map_err(|mut failure| {
            if failure.kind == FailureKind::NoKey {
                failure.message += &format!(
                    "; {TOML_NAME} is in this dataset: load its key first (strongroom key load {pool})"
                );
            }
            failure
        })?;
        let found = find(&opened, &pool);
        if let Err(error) = opened.close() {
            tracing::warn!(pool, %error, "closing the root dataset failed");
        }
        found
    }
}

fn find(dataset: &Dataset, pool: &str) -> Result<PoolHaFile> {
    let root = dataset.getattr(ROOT).map_err(|error| {
        Failure::other(format!(
            "the root directory of '{pool}' cannot be read: {error}"
        ))
    })?;
    refuse_others(&root, &format!("the root directory of '{pool}'"))?;
    let toml = read(dataset, pool, TOML_NAME)?;
    let stmf = read(dataset, pool, STMF_NAME)?;
    let (name, spelling, bytes) = match (toml, stmf) {
        (Some(bytes), None) => (TOML_NAME, Spelling::Toml, bytes),
        (None, Some(bytes)) => (STMF_NAME, Spelling::Stmf, bytes),
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "'{pool}' has {TOML_NAME} and {STMF_NAME}; remove one of them"
            )));
        }
        (None, None) => {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!(
                    "'{pool}' has no {TOML_NAME}; put one into the root directory of its root dataset. An empty file \
                     serves all volumes"
                ),
            ));
        }
    };
    let file = spelling
        .parse(&bytes)
        .map_err(|refused| Failure::usage(format!("{name} of '{pool}', {refused}")))?;
    Ok(PoolHaFile { name, file })
}

impl Daemon {
    /// Tells the user that a pool has a file with targets, and that an import does not start them.
    pub(crate) fn tell_of_ha(
        &self,
        active: &ActivePool,
        context: &mut CallerContext<'_>,
    ) -> Result<()> {
        let top = active.pool.top()?;
        let mounted = active
            .mounts
            .lock()
            .get(&top.id)
            .map(|it| Arc::clone(&it.dataset));
        let Some(dataset) = mounted else {
            return Ok(());
        };
        let pool = active.pool.name();
        for name in [TOML_NAME, STMF_NAME] {
            if let Ok(attr) = dataset.lookup(ROOT, name.as_bytes()) {
                dataset.forget(attr.ino, 1);
                context.channel.notice(format!(
                    "'{pool}' has {name}: 'strongroom ha start {pool}' serves what it says. If a cluster moves the pool, \
                     leave import and start to the cluster"
                ));
            }
        }
        Ok(())
    }
}

fn read(dataset: &Dataset, pool: &str, name: &str) -> Result<Option<Vec<u8>>> {
    let failed =
        |error: vfs::Error| Failure::other(format!("{name} of '{pool}' cannot be read: {error}"));
    let attr = match dataset.lookup(ROOT, name.as_bytes()) {
        Ok(attr) => attr,
        Err(vfs::Error::NotFound) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let contents = check(&attr, pool, name).and_then(|()| {
        let pieces = dataset.read(attr.ino, 0, LEN_MAX as u32 + 1);
        Ok(pieces.map_err(failed)?.concat())
    });
    dataset.forget(attr.ino, 1);
    contents.map(Some)
}

/// Refuses a file that other users can change: they would decide who reads the volumes.
fn check(attr: &Attr, pool: &str, name: &str) -> Result<()> {
    let name = format!("{name} of '{pool}'");
    let what = match attr {
        other if other.kind != Kind::File => "is not a regular file",
        other if other.size > LEN_MAX as u64 => "is longer than 64K",
        _ => return refuse_others(attr, &name),
    };
    Err(Failure::new(
        FailureKind::Permission,
        format!("{name} {what}"),
    ))
}

/// Refuses a file or directory that other users can change.
fn refuse_others(attr: &Attr, name: &str) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let what = match attr {
        other if other.uid != 0 && other.uid != own => "does not belong to root",
        other if other.mode & 0o022 != 0 => "can be changed by other users: chmod go-w",
        _ => return Ok(()),
    };
    Err(Failure::new(
        FailureKind::Permission,
        format!("{name} {what}"),
    ))
}
