//! Requests of tenants, and what becomes of them.

use serde_json::{Value as Json, json};

use super::Is::{self, Absent, Done, Refused};

pub(super) const OTHERS: [&str; 4] = ["tank/other", "tank", "tank/web", "webb"];

pub(super) fn make(name: &str, props: Json) -> Json {
    json!({"create": {"name": name, "props": props, "parents": false, "no_mount": true}})
}

pub(super) fn clone(snapshot: &str, name: &str, props: Json) -> Json {
    json!({"clone": {"snapshot": snapshot, "name": name, "props": props, "rekey": false,
                     "parents": false, "no_mount": true}})
}

pub(super) fn destroy(name: &str, clones: bool) -> Json {
    json!({"destroy": {"name": name, "recursive": true, "clones": clones, "force": false, "dry_run": false}})
}

pub(super) fn set(name: &str, property: &str, value: &str) -> Json {
    json!({"set": {"names": [name], "props": [[property, value]]}})
}

pub(super) fn userspace(name: &str) -> Json {
    json!({"userspace": {"name": name, "kind": "user", "check": false}})
}

pub(super) fn prune(name: &str) -> Json {
    json!({"prune": {"names": [name], "recursive": true, "dry_run": false}})
}

pub(super) fn send(name: &str, from: Json) -> Json {
    json!({"send": {"what": {"snapshot": {"name": name, "from": from, "all": false, "replicate": false}},
                    "raw": true, "props": false, "estimate": false}})
}

pub(super) fn load(name: &str, location: Json) -> Json {
    json!({"key-load": {"names": [name], "recursive": false, "location": location, "keysource": null,
                        "dry_run": false}})
}

pub(super) fn mount(name: Json, dir: Json) -> Json {
    json!({"mount": {"name": name, "dir": dir, "load_keys": false, "read_only": false, "overlay": false}})
}

pub(super) fn change(name: &str, keysource: Json) -> Json {
    json!({"key-change": {"name": name, "keysource": keysource, "slot": null, "only": false,
                          "inherit": false}})
}

/// Commands of a tenant on the zone's own datasets.
pub(super) fn own() -> Vec<(Json, Is)> {
    let own_key = json!([["encryption", "on"], ["keysource", "passphrase,prompt"]]);
    vec![
        (make("web/x", json!([["compression", "off"]])), Done),
        (make("web/mine", own_key), Done),
        (make("web/mine/below", json!([])), Done),
        (
            make("web/from", json!([["keysource", "raw,file:///etc/shadow"]])),
            Refused,
        ),
        (make("web/at", json!([["mountpoint", "/etc"]])), Refused),
        (make("web", json!([])), Refused),
        (set("web/x", "compression", "lz4"), Done),
        (set("web", "org.example:note", "x"), Done),
        (set("web/x", "quota", "1M"), Done),
        (set("web", "quota", "none"), Refused),
        // It is not mounted.
        (set("web/x", "userquota@0", "1M"), Absent),
        (set("web", "userquota@0", "1M"), Refused),
        (userspace("web/x"), Absent),
        (set("web/x", "setuid", "on"), Refused),
        (set("web/x", "mountpoint", "/etc"), Refused),
        (
            json!({"inherit": {"names": ["web/x"], "prop": "compression", "recursive": false}}),
            Done,
        ),
        (
            json!({"inherit": {"names": ["web"], "prop": "quota", "recursive": true}}),
            Refused,
        ),
        (
            json!({"snapshot": {"names": ["web@2"], "recursive": true}}),
            Done,
        ),
        (
            make("web/auto", json!([["snapshot-schedule", "daily:1"]])),
            Done,
        ),
        (prune("web/auto"), Done),
        (
            json!({"hold": {"names": ["web/x@2"], "tag": "t", "recursive": false}}),
            Done,
        ),
        (
            json!({"holds": {"names": ["web/x@2"], "recursive": false}}),
            Done,
        ),
        (
            json!({"destroy-later": {"name": "web/x@2", "recursive": false, "force": false, "dry_run": true}}),
            Done,
        ),
        (
            json!({"release": {"names": ["web/x@2"], "tag": "t", "recursive": false}}),
            Done,
        ),
        (
            json!({"rollback": {"name": "web/x@2", "recursive": false, "force": false}}),
            Done,
        ),
        (
            json!({"bookmark": {"of": "web/x@2", "name": "web/x#2"}}),
            Done,
        ),
        (
            json!({"get": {"names": ["web/x#2"], "depth": 0, "snapshots": false, "bookmarks": true, "props": []}}),
            Done,
        ),
        (json!({"destroy-bookmark": {"name": "web/x#2"}}), Done),
        (clone("web/x@2", "web/clone", json!([])), Done),
        // Their data keys would be wrapped by a key of the tenant's.
        (
            clone(
                "web/x@2",
                "web/taken",
                json!([["keysource", "passphrase,prompt"]]),
            ),
            Refused,
        ),
        (clone("web/x@2", "web/mine/taken", json!([])), Refused),
        (clone("web/mine@2", "web/mine/clone", json!([])), Done),
        (json!({"promote": {"name": "web/clone"}}), Done),
        (
            json!({"rename": {"from": "web/clone", "to": "web/copy"}}),
            Done,
        ),
        (json!({"rename": {"from": "web/mine@2", "to": "@3"}}), Done),
        (
            json!({"rename": {"from": "web/mine@3", "to": "@4", "recursive": true}}),
            Done,
        ),
        (
            json!({"rename": {"from": "web/copy", "to": "web/not/copy", "parents": true}}),
            Refused,
        ),
        (
            json!({"rollback": {"name": "web/x@2", "recursive": false, "clones": true, "force": false}}),
            Refused,
        ),
        (json!({"rename": {"from": "web", "to": "web/x/y"}}), Refused),
        (
            json!({"rename": {"from": "web/copy", "to": "web"}}),
            Refused,
        ),
        // What is sent has its wrapped keys with it.
        (send("web/copy@2", json!(null)), Refused),
        (json!({"key-status": {"names": []}}), Done),
        (json!({"key-status": {"names": ["web"]}}), Done),
        (json!({"key-slots": {"name": "web/mine"}}), Done),
        (json!({"key-slots": {"name": "web/x"}}), Refused),
        (json!({"key-generations": {"name": "web/mine"}}), Done),
        (json!({"key-generations": {"name": "web"}}), Refused),
        (
            json!({"key-add": {"name": "web/mine", "keysource": "passphrase,prompt", "priority": 0}}),
            Done,
        ),
        (
            json!({"key-add": {"name": "web/x", "keysource": "passphrase,prompt", "priority": 0}}),
            Refused,
        ),
        (
            json!({"key-remove": {"name": "web/mine", "slot": 1, "keysource": null, "force": false}}),
            Done,
        ),
        (
            json!({"key-remove": {"name": "web", "slot": 0, "keysource": null, "force": true}}),
            Refused,
        ),
        (change("web/mine", json!(null)), Done),
        (change("web/mine", json!("raw,exec:///id")), Refused),
        (change("web/x", json!("passphrase,prompt")), Refused),
        (
            json!({"key-rotate": {"name": "web/mine", "how": "new"}}),
            Done,
        ),
        (
            json!({"key-rotate": {"name": "web", "how": "new"}}),
            Refused,
        ),
        (
            json!({"key-unload": {"names": ["web/mine"], "recursive": true, "force": false}}),
            Done,
        ),
        (load("web/mine", json!("file:///etc/shadow")), Refused),
        (
            json!({"key-accept": {"names": ["web/mine"], "recursive": false}}),
            Refused,
        ),
        (load("web/mine", json!("prompt")), Done),
        (
            json!({"key-unload": {"names": ["web"], "recursive": false, "force": true}}),
            Refused,
        ),
        (
            json!({"key-unload": {"names": [], "recursive": false, "force": true}}),
            Refused,
        ),
        (load("web", json!("prompt")), Refused),
        (mount(json!("web/x"), json!("/mnt")), Refused),
        (mount(json!(null), json!(null)), Refused),
        (json!({"unmount": {"target": null, "force": true}}), Refused),
        (json!({"unmount": {"target": "/", "force": true}}), Refused),
        (
            json!({"remount": {"name": "web/x", "read_only": false, "allowed": {}}}),
            Refused,
        ),
        (json!("mounts"), Done),
        (json!("whoami"), Done),
        (
            json!({"shred": {"name": "web/mine", "recursive": true, "clones": false, "force": false,
                          "dry_run": false}}),
            Done,
        ),
        (destroy("web/site", true), Refused),
        (destroy("web/site", false), Done),
        (destroy("web", false), Refused),
    ]
}

/// Commands that are not for tenants at all.
pub(super) fn forbidden() -> Vec<Json> {
    let devices = json!({"groups": [], "logs": [], "spares": []});
    let new_zone = json!({"name": "y", "dataset": "web/x", "alias": null, "profile": "none",
                          "owner": null});
    vec![
        json!({"pool-create": {"pool": "p", "devices": devices, "size": null, "force": false,
                               "props": [], "no_mount": true}}),
        json!({"pool-importable": {"search": ["/"]}}),
        json!({"pool-import": {"search": [], "pool": null, "new_name": null, "read_only": false,
            "force": false, "no_mount": true, "load_keys": false, "without_logs": false}}),
        json!({"pool-export": {"pool": "tank", "force": true}}),
        json!({"nbd-attach": {"device": "web/disk", "kernel": null, "read_only": false}}),
        json!({"nbd-detach": {"device": "/dev/nbd0", "force": true}}),
        json!({"pool-destroy": {"pool": "tank", "force": true}}),
        json!({"pool-status": {"pools": []}}),
        json!({"pool-io": {"pools": []}}),
        json!({"pool-devices": {"pool": "tank", "change": {"clear": {"device": null}}}}),
        json!({"pool-split": {"pool": "tank", "new": "half", "devices": [], "dry_run": false,
                              "altroot": null, "load_keys": false}}),
        json!({"pool-reguid": {"pool": "tank", "load_keys": false}}),
        json!({"pool-sync": {"pools": []}}),
        json!({"pool-scrub": {"pool": "tank", "stop": false}}),
        json!({"pool-checkpoint": {"pool": "tank", "discard": true}}),
        json!({"pool-sweep": {"pool": "tank", "what": "initialize", "device": null, "stop": false,
                              "pause": false}}),
        json!({"pool-features": {"pools": []}}),
        json!({"pool-events": {"after": 0, "clear": true}}),
        json!({"pool-label-clear": {"device": "/dev/sda", "force": true}}),
        json!({"pool-history": {"pool": "tank", "internal": true}}),
        json!({"receive": {"target": "web/r", "naming": "exact", "no_mount": false, "dry_run": false, "force": false, "resumable": true, "props": [],
                           "exclude": []}}),
        json!({"receive": {"target": "web/r", "naming": "exact", "no_mount": false, "dry_run": false, "force": false, "resumable": false,
                           "props": [["mountpoint", "/etc"]], "exclude": []}}),
        json!({"receive": {"target": "web/r", "naming": "exact", "no_mount": false, "dry_run": false, "force": false, "resumable": false,
                           "props": [["keysource", "raw,file:///etc/shadow"]], "exclude": []}}),
        json!({"receive": {"target": "web", "naming": "path", "no_mount": false, "dry_run": false, "force": false,
                           "resumable": false, "props": [], "exclude": []}}),
        json!({"home": {"step": "find", "dir": "/home/ann", "uid": 0, "dataset": null}}),
        json!({"receive-abandon": {"target": "web/x"}}),
        json!({"key-backup": {"name": "web"}}),
        json!({"key-restore": {"name": "web", "backup": "", "keysource": null}}),
        json!({"inspect": {"target": {"devices": ["/dev/sda"]}, "detail": 1, "check": false}}),
        json!({"anchor": {"names": []}}),
        json!({"anchor-verify": {"anchors": []}}),
        json!({"anchor-accept": {"names": ["web"]}}),
        json!({"permissions": {"name": "web"}}),
        json!({"change-permissions": {"name": "web", "remove": false, "who": ["0"], "kind": null,
                                      "permissions": ["create"], "local": true, "below": true}}),
        json!({"nbd-export": {"device": "/dev/sda", "name": null, "description": null, "read_only": true,
                              "listen": null, "tls_certificates": null}}),
        json!({"nbd-unexport": {"name": "x", "force": false}}),
        json!("nbd-exports"),
        json!({"iscsi-export": {"device": "/dev/sda", "name": null, "read_only": true, "portal": null,
                                "initiators": [], "chap": [], "own_chap": null, "open": true}}),
        json!({"iscsi-unexport": {"name": "x", "force": false}}),
        json!({"iscsi-kick": {"target": "x", "number": 1}}),
        json!({"ha-start": {"pool": "web", "update": false}}),
        json!({"ha-stop": {"pool": "web"}}),
        json!({"ha-verify": {"pool": "web"}}),
        json!({"ha-check": {"pool": "web", "search": []}}),
        json!({"ha-status": {"pool": "web"}}),
        json!("iscsi-exports"),
        json!("iscsi-sessions"),
        json!({"luks-open": {"device": "/dev/sda", "header": null, "name": "x", "with_key_file": false,
            "key_slot": null, "read_only": true, "serving": {}, "persistent": false, "plain": null}}),
        json!({"luks-close": {"name": "x"}}),
        json!({"luks-status": {"names": []}}),
        json!({"luks-borrow": {"device": "volume:tank/web", "how": "look"}}),
        json!({"luks-refresh": {"name": "x", "change": {"read_workqueue": true}}}),
        json!({"luks-resize": {"name": "x", "size": 512}}),
        json!({"luks-reencrypt": {"name": "x", "with_key_file": false, "zone": null}}),
        json!({"luks-suspend": {"name": "x"}}),
        json!({"luks-resume": {"name": "x", "with_key_file": false, "key_slot": null}}),
        json!({"zone-create": new_zone}),
        json!({"zone-set": {"name": "z", "profile": "none"}}),
        json!({"zone-destroy": {"name": "z"}}),
        json!("zones"),
        json!({"token-create": {"user": null, "label": "x", "zone": null, "expires": null}}),
        json!("tokens"),
        json!({"token-revoke": {"id": "0badcafe"}}),
        json!("metrics"),
        json!("daemon-status"),
        json!("daemon-stop"),
        json!("daemon-stop-forced"),
    ]
}

/// Commands of a tenant on datasets outside the zone.
pub(super) fn elsewhere(name: &str) -> Vec<Json> {
    let snapshot = format!("{name}@1");
    let below = format!("{name}/x");
    vec![
        make(&below, json!([])),
        destroy(name, false),
        destroy(&snapshot, true),
        json!({"destroy-later": {"name": snapshot, "recursive": true, "force": true, "dry_run": false}}),
        json!({"shred": {"name": name, "recursive": true, "clones": true, "force": true, "dry_run": true}}),
        clone(&snapshot, "web/y", json!([])),
        clone("web/site@1", &below, json!([])),
        json!({"promote": {"name": name}}),
        json!({"rename": {"from": name, "to": "web/y"}}),
        json!({"rename": {"from": "web/pool", "to": below}}),
        json!({"rename": {"from": "web/site@1", "to": format!("{name}@9")}}),
        set(name, "compression", "off"),
        userspace(name),
        json!({"inherit": {"names": [name], "prop": "compression", "recursive": true}}),
        json!({"get": {"names": [name], "depth": 0, "snapshots": false, "bookmarks": true, "props": []}}),
        json!({"get": {"names": ["web", name], "depth": 0, "snapshots": false, "bookmarks": true, "props": []}}),
        json!({"snapshot": {"names": ["web@9", format!("{name}@9")], "recursive": false}}),
        prune(name),
        json!({"rollback": {"name": snapshot, "recursive": true, "force": true}}),
        json!({"hold": {"names": [snapshot], "tag": "t", "recursive": false}}),
        json!({"holds": {"names": [snapshot], "recursive": false}}),
        json!({"release": {"names": [snapshot], "tag": "t", "recursive": false}}),
        json!({"bookmark": {"of": snapshot, "name": format!("{name}#1")}}),
        json!({"bookmark": {"of": "web/site@1", "name": format!("{name}#1")}}),
        json!({"destroy-bookmark": {"name": format!("{name}#1")}}),
        json!({"get": {"names": [format!("{name}#1")], "depth": 0, "snapshots": false, "bookmarks": true, "props": []}}),
        send("web/site@1", json!(format!("{name}#1"))),
        json!({"diff": {"from": snapshot, "to": null}}),
        json!({"diff": {"from": "web/site@1", "to": name}}),
        send(&snapshot, json!(null)),
        send("web/site@1", json!(snapshot)),
        mount(json!(name), json!(null)),
        json!({"unmount": {"target": name, "force": true}}),
        load(name, json!(null)),
        json!({"key-unload": {"names": [name], "recursive": true, "force": true}}),
        change(name, json!(null)),
        json!({"key-rotate": {"name": name, "how": "new"}}),
        json!({"key-generations": {"name": name}}),
        json!({"key-add": {"name": name, "keysource": null, "priority": 0}}),
        json!({"key-remove": {"name": name, "slot": 0, "keysource": null, "force": true}}),
        json!({"key-slots": {"name": name}}),
        json!({"key-status": {"names": [name]}}),
    ]
}
