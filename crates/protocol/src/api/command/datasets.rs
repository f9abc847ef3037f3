//! The commands for datasets and their properties.

use super::history::{JoinedWords, size_text};
use crate::api::arguments::{InspectTarget, NewVolume, Props, each_once};
use crate::api::reports::OwnerKind;

requests! {
    /// Make a dataset.
    #[derive(Default)]
    Create: Changes, "create" [
        "-n" dry_run, "-p" parents, "-s" volume.is_some_and(|volume| volume.sparse), "-u" no_mount,
        "-V" volume.map(|volume| size_text(volume.size)), "-o" props, name,
    ] {
        /// The name of the new dataset.
        name: String,
        /// The properties of the new dataset.
        props: Props,
        /// Make the datasets above it too.
        #[serde(default)]
        parents: bool,
        /// Leave it unmounted.
        #[serde(default)]
        no_mount: bool,
        /// Make it a volume.
        #[serde(default)]
        volume: Option<NewVolume>,
        /// Only say what would be made.
        #[serde(default)]
        dry_run: bool,
    }

    /// Destroy datasets or snapshots.
    #[derive(Default)]
    Destroy: Changes, "destroy" ["-f" force, "-n" dry_run, "-r" recursive, "-R" clones, name] {
        /// The name of the dataset.
        name: String,
        /// With everything below it.
        #[serde(default)]
        recursive: bool,
        /// With everything below it and all clones.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
    }

    /// Destroy snapshots now or, where something keeps them, as soon as nothing does.
    DestroyLater: Changes, "destroy -d" ["-f" force, "-n" dry_run, "-r" recursive, name] {
        /// A snapshot, or what stands for several.
        name: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
    }

    /// Destroy datasets together with their keys, and prove it.
    Shred: Changes, "destroy --shred" ["-f" force, "-n" dry_run, "-r" recursive, "-R" clones, name] {
        /// The dataset.
        name: String,
        /// With everything below it.
        #[serde(default)]
        recursive: bool,
        /// With everything below it and all clones.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
        /// Only say what would go, and what would stay readable.
        #[serde(default)]
        dry_run: bool,
    }

    /// Give a dataset or snapshot another name.
    Rename: Changes, "rename" ["-f" force, "-p" parents, "-r" recursive, from, to] {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
        /// True for a snapshot also for those of the same name below its dataset.
        #[serde(default)]
        recursive: bool,
        /// Make the datasets above the new name too.
        #[serde(default)]
        parents: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }

    /// Look at properties.
    #[derive(Default)]
    Get: Reads, "get" [columns(), names] {
        /// Datasets and snapshots; all if none is named.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The number of levels below them too; `None` is all.
        depth: Option<u32>,
        /// Also show snapshots of what is listed, where they were not named.
        #[serde(default)]
        snapshots: bool,
        /// Bookmarks too.
        #[serde(default)]
        bookmarks: bool,
        /// The properties to show; all if empty.
        #[serde(deserialize_with = "each_once")]
        props: Vec<String>,
    }

    /// Set properties.
    Set: Changes, "set" ["-f" force, props, names] {
        /// Datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The properties and their new values.
        props: Props,
        /// Also a smaller size of a volume.
        #[serde(default)]
        force: bool,
    }

    /// Unset a property, so that it is inherited.
    Inherit: Changes, "inherit" ["-r" recursive, prop, names] {
        /// Datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The name of the property.
        prop: String,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
    }

    // The first look begins to count.
    /// List the space and the quotas of users or groups in a dataset.
    Userspace: Changes, "" [verb(), "--check" check, name] {
        /// The dataset.
        name: String,
        /// The kind of accounts.
        kind: OwnerKind,
        /// Count anew first, and fail if something else was counted.
        #[serde(default)]
        check: bool,
    }

    /// Look at the structures of a pool.
    Inspect: Reads, "inspect" [] {
        /// An imported pool's name, or the devices of one that is not.
        target: InspectTarget,
        /// The amount of detail.
        detail: u8,
        /// Check that every unit belongs to exactly one thing.
        #[serde(default)]
        check: bool,
    }
}

impl Get {
    fn columns(&self) -> String {
        self.props.list().unwrap_or_else(|| "all".into())
    }
}

impl Userspace {
    fn verb(&self) -> &'static str {
        match self.kind {
            OwnerKind::User => "userspace",
            OwnerKind::Group => "groupspace",
        }
    }
}
