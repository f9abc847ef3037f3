//! The groups of operations. Generators of clients make a module of each.

use serde_json::{Value as Json, json};

/// The groups, with their descriptions.
const TAGS: &[(&str, &str)] = &[
    ("pools", "Pools and their devices"),
    ("datasets", "File systems and volumes, and their properties"),
    (
        "snapshots",
        "Snapshots, bookmarks, clones, holds and differences",
    ),
    ("streams", "Streams of datasets, and jobs that copy them"),
    ("keys", "Keys of datasets"),
    ("mounts", "Mounts of datasets"),
    ("exports", "Devices for other hosts, by NBD and iSCSI"),
    ("failover", "The targets that a pool serves on two machines"),
    ("luks", "LUKS containers"),
    ("anchors", "Lines that show a rollback later"),
    ("users", "Permissions, quotas, zones and tokens"),
    ("daemon", "The daemon itself: state, health, metrics"),
];

/// The list of the groups.
pub(super) fn list() -> Json {
    let tag = |(name, about): &(&str, &str)| json!({"name": name, "description": about});
    TAGS.iter().map(tag).collect()
}

/// The group of a command.
pub(super) fn of_command(name: &str) -> &'static str {
    match name {
        "snapshot" | "prune" | "rollback" | "clone" | "promote" | "diff" => "snapshots",
        "hold" | "holds" | "release" | "bookmark" | "destroy-bookmark" => "snapshots",
        "send" | "receive" | "receive-abandon" | "verify" => "streams",
        "mount" | "mounts" | "unmount" | "remount" | "home" => "mounts",
        "permissions" | "change-permissions" | "userspace" | "whoami" | "tokens" => "users",
        "inspect" => "pools",
        "metrics" => "daemon",
        _ => match name.split('-').next().unwrap_or(name) {
            "pool" | "objects" | "audit" => "pools",
            "key" => "keys",
            "nbd" | "iscsi" | "ublk" => "exports",
            "ha" => "failover",
            "luks" => "luks",
            "anchor" => "anchors",
            "zone" | "zones" | "token" => "users",
            "replicate" => "streams",
            "daemon" => "daemon",
            _ => "datasets",
        },
    }
}

/// The group of a resource.
pub(super) fn of_resource(path: &str) -> &'static str {
    match path.trim_start_matches("/v1/") {
        "pools" | "io" | "features" | "history" | "events" => "pools",
        "snapshots" | "holds" | "diff" => "snapshots",
        "keys" | "slots" | "generations" => "keys",
        "mounts" => "mounts",
        "replications" => "streams",
        "exports/nbd" | "exports/iscsi" | "exports/ublk" | "sessions" => "exports",
        "mappings" => "luks",
        "zones" | "tokens" | "permissions" | "users" | "groups" | "session" => "users",
        "daemon" | "jobs" | "health" => "daemon",
        _ => "datasets",
    }
}
