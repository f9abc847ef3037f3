//! The commands for snapshots, clones and bookmarks.

use crate::api::arguments::{Props, each_once};

requests! {
    /// Make snapshots of one moment.
    Snapshot: Changes, "snapshot" ["-r" recursive, names] {
        /// `dataset@snapshot`
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// Below them too.
        #[serde(default)]
        recursive: bool,
    }

    /// Destroy the snapshots that the schedules of datasets no longer keep.
    Prune: Changes, "snapshot --prune" ["--keep" keep, "-n" dry_run, "-r" recursive, names] {
        /// The datasets.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// With everything below them.
        #[serde(default)]
        recursive: bool,
        /// Only say what would go.
        #[serde(default)]
        dry_run: bool,
        /// The snapshots to keep, in the words of `snapshot-schedule`, in place of the schedules of the datasets.
        #[serde(default)]
        keep: Option<String>,
    }

    /// Take a dataset back to a snapshot.
    Rollback: Changes, "rollback" ["-f" force, "-r" recursive, "-R" clones, name] {
        /// `dataset@snapshot`
        name: String,
        /// Destroy later snapshots.
        #[serde(default)]
        recursive: bool,
        /// Destroy their clones, too.
        #[serde(default)]
        clones: bool,
        /// Unmount what is in use.
        #[serde(default)]
        force: bool,
    }

    /// Make a dataset that begins as a snapshot.
    Clone: Changes, "clone" ["-K" rekey, "-p" parents, "-u" no_mount, "-o" props, snapshot, name] {
        /// The snapshot.
        snapshot: String,
        /// The name of the clone.
        name: String,
        /// The properties of the clone.
        props: Props,
        /// With data keys of its own for what is written to it.
        #[serde(default)]
        rekey: bool,
        /// Make the datasets above it too.
        #[serde(default)]
        parents: bool,
        /// Leave it unmounted.
        #[serde(default)]
        no_mount: bool,
    }

    /// Have a clone own what it shares with its origin.
    Promote: Changes, "promote" [name] {
        /// The clone.
        name: String,
    }

    /// Add a tag to snapshots, which keeps them from being destroyed.
    Hold: Changes, "hold" ["-r" recursive, "--until" until, tag, names] {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
        /// The end of the hold, in seconds since 1970; it has none if this is left out. Nobody ends it earlier.
        #[serde(default)]
        until: Option<u64>,
    }

    /// Take a tag away.
    Release: Changes, "release" ["-r" recursive, tag, names] {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// The tag.
        tag: String,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
    }

    /// List the tags of snapshots.
    Holds: Reads, "holds" ["-r" recursive, names] {
        /// The snapshots.
        #[serde(deserialize_with = "each_once")]
        names: Vec<String>,
        /// True for the same names on datasets below, too.
        #[serde(default)]
        recursive: bool,
    }

    /// Make a bookmark.
    Bookmark: Changes, "bookmark" [of, name] {
        /// A snapshot, or a bookmark.
        of: String,
        /// The new bookmark, of the same dataset.
        name: String,
    }

    /// Destroy a bookmark.
    DestroyBookmark: Changes, "destroy" [name] {
        /// The name of the snapshot.
        name: String,
    }

    /// Tell what differs between a snapshot and a later one.
    Diff: Reads, "diff" [from, to] {
        /// The snapshot.
        from: String,
        /// A later one, `@name` for one of the same dataset, or a dataset; its own if it is left out.
        to: Option<String>,
    }
}
