//! The directories of mountpoints: their places, their guards, and their removal.
//!
//! A directory that the daemon makes for the property `mountpoint` has a guard ([`MountDirectory::make_guarded`]) while the
//! dataset is not mounted. Without it, programs could write unencrypted files there. The directory is removed when no
//! dataset mounts there any more.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuse::{MountDirectory, Obstacles};
use pool::Entry;
use protocol::accounts::user_name;
use protocol::api::FailureKind;

use crate::failure::{Failure, Result};
use crate::state::datasets::properties::{self, Mountpoint};
use crate::state::mounts::mount_options::HidingPolicy;
use crate::state::pools::active_pool::ActivePool;

/// Opens the directory of a mount: `dir`, or the place in the property. Makes missing directories. The last directory must
/// be empty, unless hiding is allowed, but for directories where other datasets mount by their properties.
pub(crate) fn find(
    active: &ActivePool,
    entry: &Entry,
    name: &str,
    dir: Option<&Path>,
    hiding: HidingPolicy,
) -> Result<MountDirectory> {
    let is_own = dir.is_none();
    let place = match dir {
        Some(dir) => MountDirectory::new(dir, ""),
        None => match properties::mountpoint(active, entry)? {
            (Mountpoint::Path(place), _) => place,
            _ => {
                return Err(Failure::usage(format!(
                    "'{name}' has no mountpoint; say where: strongroom mount {name} DIRECTORY"
                )));
            }
        },
    };
    // A mount that a killed daemon left behind is cleared away by the mount itself.
    if place.is_dead() {
        return Ok(place);
    }
    let dir = place.path();
    let failed = |error| cannot_mount(name, &dir, &error);
    match is_own {
        true => active.change_dir(&dir, || place.make_guarded()),
        false => place.make(),
    }
    .map_err(failed)?;
    if hiding != HidingPolicy::Allowed {
        let ways = match is_own {
            true => active.all_own_paths(&dir),
            false => Vec::new(),
        };
        let obstacles = place.obstacles(&ways).map_err(failed)?;
        if !obstacles.is_free() {
            let is_told = hiding == HidingPolicy::RefusedByName;
            return Err(not_empty(name, &dir, is_told.then_some(&obstacles)));
        }
    }
    Ok(place)
}

fn cannot_mount(name: &str, dir: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FailureKind::Permission,
        _ => FailureKind::Other,
    };
    let dir = dir.display();
    Failure::new(kind, format!("cannot mount '{name}' at {dir}: {error}"))
}

/// Refuses a directory with these entries, if the caller may know them.
fn not_empty(name: &str, dir: &Path, obstacles: Option<&Obstacles>) -> Failure {
    let dir = dir.display();
    let why = match obstacles {
        None => format!("is not empty; 'strongroom mount {name}' says more to an administrator"),
        Some(Obstacles {
            mount: Some(inner), ..
        }) => {
            let inner = inner.display();
            format!("is not empty: something is mounted at {inner}; unmount that first")
        }
        Some(obstacles) => format!(
            "is not empty: it has {}; --take-in moves that into the dataset, -O hides it",
            listed(obstacles)
        ),
    };
    Failure::new(
        FailureKind::Busy,
        format!("cannot mount '{name}': {dir} {why}"),
    )
}

/// The first names, the number of others, and the owner.
fn listed(obstacles: &Obstacles) -> String {
    let names = obstacles.names.iter();
    let names: Vec<String> = names
        .map(|name| format!("'{}'", name.to_string_lossy()))
        .collect();
    let others = match obstacles.count.saturating_sub(names.len()) {
        0 => String::new(),
        others if obstacles.is_cut() => format!(" and more than {others} others"),
        1 => " and 1 other".to_owned(),
        others => format!(" and {others} others"),
    };
    let owner = match obstacles.owner {
        Some(uid) => format!(", of {}", user_name(uid).unwrap_or_else(|| uid.to_string())),
        None => ", of several users".to_owned(),
    };
    format!("{}{others}{owner}", names.join(", "))
}

/// The directory where a dataset mounts by its property.
pub(crate) struct OwnDir {
    id: u64,
    place: MountDirectory,
}

impl ActivePool {
    /// Closes the directories of those of these datasets that are not mounted, if they lie in the mount of a dataset, of any
    /// pool: nothing can be made there, not even by root. It would be stored as that dataset stores it, perhaps in the clear.
    pub(crate) fn close_unmounted(self: &Arc<Self>, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            if self.mounts.lock().contains_key(&id) {
                continue;
            }
            if let Some(dir) = self.own_path(id) {
                if let Some(place) = self.own_place(id) {
                    place.close_again();
                }
                let (active, own) = (Arc::downgrade(self), dir.clone());
                // Until the dataset is destroyed or mounts elsewhere.
                let is_wanted = move || {
                    let now = active.upgrade().and_then(|active| active.own_path(id));
                    now.as_ref() == Some(&own)
                };
                self.dirs.close(dir, Arc::new(is_wanted));
            }
        }
    }

    /// The directory where a dataset mounts by its properties, by itself or by a command.
    pub(crate) fn own_path(&self, id: u64) -> Option<PathBuf> {
        let entry = self.pool.entry(id).ok()?;
        let never = entry.props.get("canmount").is_some_and(|is| is == "off");
        let mounts = !never && !entry.is_snapshot();
        Some(mounts.then(|| self.own_place(id))??.path())
    }

    /// Makes or removes the directory of a dataset, which may lie in a closed one.
    pub(crate) fn change_dir<T>(&self, dir: &Path, change: impl FnOnce() -> T) -> T {
        match self.dirs.above(dir) {
            Some((mounted, path)) => mounted.change_closed(&path, change),
            None => change(),
        }
    }

    fn own_place(&self, id: u64) -> Option<MountDirectory> {
        let entry = self.pool.entry(id).ok()?;
        match properties::mountpoint(self, &entry) {
            Ok((Mountpoint::Path(place), _)) if entry.volume().is_none() => Some(place),
            _ => None,
        }
    }

    /// The directories of these datasets by their properties, whether they are mounted or not.
    pub(crate) fn own_dirs(&self, ids: impl IntoIterator<Item = u64>) -> Vec<OwnDir> {
        let place = |id| self.own_place(id).map(|place| OwnDir { id, place });
        let mut dirs: Vec<OwnDir> = ids.into_iter().filter_map(place).collect();
        dirs.sort_by_key(|dir| dir.place.path());
        dirs
    }

    /// The directories of all datasets by their properties, whether they are mounted or not.
    pub(crate) fn all_own_dirs(&self) -> Vec<OwnDir> {
        let heads = self.all_heads().unwrap_or_default();
        self.own_dirs(heads.iter().map(|head| head.id))
    }

    /// The directories of all datasets, and those of other pools in this directory.
    fn all_own_paths(&self, dir: &Path) -> Vec<PathBuf> {
        let dirs = self.all_own_dirs();
        let own = dirs.iter().map(|dir| dir.place.path());
        own.chain(self.dirs.unmounted_in(dir)).collect()
    }

    /// Removes the guarded directories of datasets that were destroyed, or now mount elsewhere.
    pub(crate) fn remove_left_dirs(&self, dirs: Vec<OwnDir>) {
        let is_left = |dir: &OwnDir| {
            let now = self.own_place(dir.id).map(|place| place.path());
            now != Some(dir.place.path())
        };
        remove_dirs(dirs.into_iter().filter(is_left).collect());
    }
}

/// Removes guarded directories that are empty, the deepest first.
pub(crate) fn remove_dirs(dirs: Vec<OwnDir>) {
    for dir in dirs.iter().rev() {
        if let Err(error) = dir.place.remove_guarded() {
            tracing::debug!(%error, dir = %dir.place.path().display(), "the directory of a mount stays");
        }
    }
}
