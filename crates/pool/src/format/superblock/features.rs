//! Features of pools that older programs may not know. The commit that first uses a feature switches it on. Except for
//! checkpoints, it is never switched off. So every program that knows the features in use can open the pool, and nobody
//! has to enable a feature by hand.

/// Records of the pool may be in pieces. Set with the first such record, and never removed.
pub(crate) const FEATURE_SCATTERED: u64 = 1;

/// Datasets may have logs. Set with the first log, and never removed.
pub(crate) const FEATURE_LOG: u64 = 4;

/// Entries of logs may have a quick checksum. Set with logs.
pub(crate) const FEATURE_QUICK_LOG: u64 = 128;

/// Entries of logs may point to records that no bitmap has. Set with logs.
pub(crate) const FEATURE_LOG_PLACES: u64 = 1 << 15;

/// Groups may have several members, and there may be spares. Set with the first, and never taken
/// back.
pub(crate) const FEATURE_REDUNDANT: u64 = 8;

/// Groups may have parity. Set with the first such group, and never removed.
pub(crate) const FEATURE_PARITY: u64 = 16;

/// Keyrings may have several generations, and seals may be of any of them. Set with the first rotation,
/// and never taken back.
pub(crate) const FEATURE_ROTATED: u64 = 32;

/// Snapshots may have clones and holds. Set with the first one, and never removed.
pub(crate) const FEATURE_CLONES: u64 = 64;

/// Groups may be for logs only, or removed. Set with the first such group, and never removed.
pub(crate) const FEATURE_LOG_DEVICES: u64 = 256;

/// Records may be shared, and there may be a dedup table. Set with the first shared record, and never removed.
pub(crate) const FEATURE_DEDUP: u64 = 512;

/// Datasets may have been received, and be being received: seals may be over other datasets. Set with the
/// first, and never taken back.
pub(crate) const FEATURE_RECEIVED: u64 = 1024;

/// Groups that held data may be gone, or going, and there may be a remap table. Set with the first that goes,
/// and never taken back.
pub(crate) const FEATURE_REMOVED: u64 = 2048;

/// Datasets may count what users and groups have in them, and a program that changes files there has to as well.
pub(crate) const FEATURE_OWNERS: u64 = 8192;

/// Datasets may be volumes. Set with the first volume, and never removed.
pub(crate) const FEATURE_VOLUMES: u64 = 1 << 16;

/// Groups may have more segments than the labels of their devices say. Set with the first that grows, and
/// never taken back.
pub(crate) const FEATURE_GROWN: u64 = 1 << 18;

/// Datasets may have bookmarks, which a program that takes a dataset back to an earlier state has to know. Set with the
/// first, and never taken back.
pub(crate) const FEATURE_BOOKMARKS: u64 = 1 << 22;

/// Files may have flags that forbid changes, and a program that changes files has to obey them. Set with the first, and
/// never taken back.
pub(crate) const FEATURE_FILE_FLAGS: u64 = 1 << 24;

/// The host that uses the pool may have to write heartbeats to the devices. Set with the first one, and never removed.
pub(crate) const FEATURE_MULTIHOST: u64 = 1 << 26;

/// Pointers to nodes may have the space of the records below. Set with the first such pointer, and never removed.
pub(crate) const FEATURE_STORED_SUMS: u64 = 1 << 27;

/// An earlier state of the pool is kept, and its space must not be used. Set with a checkpoint, and taken back when it
/// is discarded: then nothing is left of it.
pub(crate) const FEATURE_CHECKPOINT: u64 = 1 << 28;

/// Groups may have triple parity. Set with the first such group, and never removed.
pub(crate) const FEATURE_TRIPLE_PARITY: u64 = 1 << 20;

/// The bit of cache devices. A program that does not know of them does without: this is a bit of the optional ones. A
/// program that does not know of them does without: this is a bit of the optional ones.
pub(crate) const FEATURE_CACHES: u64 = 1;

/// The superblock may have the number of the host. A program that does not know of it goes by the name: this is a bit
/// of the optional ones.
pub(crate) const FEATURE_HOST_IDS: u64 = 2;

/// The lists of what snapshots alone keep may have sums of bytes before compression. A program that does not know of
/// them writes sums that are not known: this is a bit of the optional ones.
pub(crate) const FEATURE_LOGICAL_SUMS: u64 = 1 << 29;

/// Snapshots may be marked to be destroyed as soon as nothing keeps them. A program that does not know of it leaves them:
/// this is a bit of the optional ones.
pub(crate) const FEATURE_DEFERRED: u64 = 1 << 30;

/// The configuration may name an image of the pool. A program that does not know of it leaves the image as it is: this is a
/// bit of the optional ones.
pub(crate) const FEATURE_FOLLOWER: u64 = 1 << 37;

/// Identities of records may have the hash of the ciphertext. Set with the first such record, and never removed.
pub(crate) const FEATURE_CHECKED_RECORDS: u64 = 1 << 32;

/// Entries of logs may be bound to the state that they continue. Set with logs.
pub(crate) const FEATURE_BOUND_LOGS: u64 = 1 << 33;

/// Datasets may have a history of their seals. Set with the first one, and never removed.
pub(crate) const FEATURE_SEAL_HISTORY: u64 = 1 << 34;

/// Keyrings may have generations whose keys are wrapped in parts. Set with the first such keyring, and never removed.
pub(crate) const FEATURE_SPLIT_KEYS: u64 = 1 << 35;

/// Seals may cover hashes of keyring, snapshots and properties. Set with the first such seal, and never removed.
pub(crate) const FEATURE_SEALED_FACTS: u64 = 1 << 36;

/// Snapshots may be retained until a time, and the root has the time of the pool. Set with the first such snapshot, and
/// never removed.
pub(crate) const FEATURE_RETENTION: u64 = 1 << 38;

/// Lines of the history may have hashes, which a program that adds lines has to continue. Set with the first such line, and
/// never removed.
pub(crate) const FEATURE_AUDIT: u64 = 1 << 39;

/// A feature that a program has to know to import a pool which has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name of the feature.
    pub name: &'static str,
    /// The bit of the feature in the superblock.
    pub(crate) bit: u64,
    /// The first version of this program that knows it.
    pub since: &'static str,
    /// The contents that a pool with this feature may have.
    pub what: &'static str,
    /// The event that switches the feature on.
    pub begins: &'static str,
}

/// A feature of the first version.
const fn feature(
    name: &'static str,
    bit: u64,
    what: &'static str,
    begins: &'static str,
) -> Feature {
    Feature {
        name,
        bit,
        since: "0.1.0",
        what,
        begins,
    }
}

/// All that this program knows, by their bits.
#[rustfmt::skip]
pub const FEATURES: &[Feature] = &[
    feature(
        "scattered",
        FEATURE_SCATTERED,
        "records in pieces",
        "a record that is longer than every run of free space",
    ),
    feature("logs", FEATURE_LOG, "intent logs, which make fsync fast", "fsync, twice in a short time"),
    feature(
        "redundant",
        FEATURE_REDUNDANT,
        "mirrors and spares, devices that were away",
        "mirror, raidz or spare in create or add; attach, replace",
    ),
    feature("parity", FEATURE_PARITY, "groups with parity", "raidz in create or add"),
    feature("rotated", FEATURE_ROTATED, "several generations of data keys", "key rotate"),
    feature("clones", FEATURE_CLONES, "clones of snapshots, and holds", "clone, hold"),
    feature("quick-logs", FEATURE_QUICK_LOG, "entries of logs with a quicker checksum", "the same as logs"),
    feature("log-devices", FEATURE_LOG_DEVICES, "devices for logs only", "log in add"),
    feature("dedup", FEATURE_DEDUP, "records that several files share", "writing with dedup=on"),
    feature("received", FEATURE_RECEIVED, "datasets that came with streams", "receive"),
    feature("removed", FEATURE_REMOVED, "where the data of removed devices is now", "remove of devices that hold data"),
    feature("owners", FEATURE_OWNERS, "counts of the space of users and groups", "userspace, or set userquota@"),
    feature("log-pointers", FEATURE_LOG_PLACES, "entries of logs that point to records in place", "the same as logs"),
    feature("volumes", FEATURE_VOLUMES, "datasets that are block devices", "create -V"),
    feature(
        "grown",
        FEATURE_GROWN,
        "devices that became larger",
        "online -e; autoexpand=on, once there is something to gain",
    ),
    feature(
        "raidz3",
        FEATURE_TRIPLE_PARITY,
        "groups that survive the loss of three devices",
        "raidz3 in create or add",
    ),
    feature("bookmarks", FEATURE_BOOKMARKS, "bookmarks of snapshots, for incremental streams", "bookmark"),
    feature(
        "file-flags",
        FEATURE_FILE_FLAGS,
        "files that are immutable, append-only or not for dump",
        "chattr +i, +a or +d on a mount",
    ),
    feature("multihost", FEATURE_MULTIHOST, "heartbeats of the host that uses the pool", "multihost=on"),
    feature(
        "stored-sums",
        FEATURE_STORED_SUMS,
        "sums of what parts of files take after compression",
        "writing to a file or volume",
    ),
    feature("checkpoint", FEATURE_CHECKPOINT, "an earlier state of the whole pool", "pool checkpoint"),
    feature(
        "checked",
        FEATURE_CHECKED_RECORDS,
        "sealed records with the hash of their ciphertext",
        "writing to an encrypted dataset",
    ),
    feature(
        "bound-logs",
        FEATURE_BOUND_LOGS,
        "entries of logs that are bound to the state before them",
        "the same as logs",
    ),
    feature(
        "seal-history",
        FEATURE_SEAL_HISTORY,
        "the history of seals of a dataset, which proves that it grew from an anchor",
        "writing to an encrypted dataset",
    ),
    feature(
        "split-keys",
        FEATURE_SPLIT_KEYS,
        "keyrings in which what reads and what seals is wrapped apart",
        "an encrypted dataset, or a change of its keys",
    ),
    feature(
        "sealed-facts",
        FEATURE_SEALED_FACTS,
        "seals over keyring, snapshots and the properties that protect people",
        "writing to an encrypted dataset",
    ),
    feature(
        "retention",
        FEATURE_RETENTION,
        "snapshots that cannot be destroyed before a time",
        "hold --until; a snapshot with retention set",
    ),
    feature(
        "audit",
        FEATURE_AUDIT,
        "a history that shows whether lines of it were changed",
        "each command that is in the history",
    ),
];

/// The bits of all features.
pub(crate) const FEATURES_KNOWN: u64 = {
    let mut bits = 0;
    let mut at = 0;
    while at < FEATURES.len() {
        bits |= FEATURES[at].bit;
        at += 1;
    }
    bits
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_has_a_bit_of_its_own() {
        let mut seen = 0;
        for feature in FEATURES {
            assert!(feature.bit.is_power_of_two() && seen < feature.bit);
            seen |= feature.bit;
        }
        assert_eq!(seen, FEATURES_KNOWN);
    }
}
