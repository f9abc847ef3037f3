//! Requests of tenants, and what becomes of them.

use serde_json::{Value as Json, json};

use super::Is::{self, Absent, Done, Refused};

pub(super) const OTHERS: [&str; 4] = ["tank/other", "tank", "tank/web", "webb"];

pub(super) fn make(name: &str, props: Json) -> Json {
    json!({"create": {"name": name, "props": props, "no_mount": true}})
}

pub(super) fn clone(snapshot: &str, name: &str, props: Json) -> Json {
    json!({"clone": {"snapshot": snapshot, "name": name, "props": props, "no_mount": true}})
}

pub(super) fn destroy(name: &str, clones: bool) -> Json {
    json!({"destroy": {"name": name, "recursive": true, "clones": clones}})
}

pub(super) fn set(name: &str, property: &str, value: &str) -> Json {
    json!({"set": {"names": [name], "props": [[property, value]]}})
}

pub(super) fn userspace(name: &str) -> Json {
    json!({"userspace": {"name": name, "kind": "user"}})
}

pub(super) fn prune(name: &str) -> Json {
    json!({"prune": {"names": [name], "recursive": true}})
}

/// A day of a tenant with the zone's own datasets, in order, each request after what becomes of it.
const OWN: &str = r#"
done {"create": {"name": "web/x", "props": [["compression", "off"]], "no_mount": true}}
done {"create": {"name": "web/mine", "props": [["encryption", "on"], ["keysource", "passphrase,prompt"]], "no_mount": true}}
done {"create": {"name": "web/mine/below", "props": [], "no_mount": true}}
refused {"create": {"name": "web/from", "props": [["keysource", "raw,file:///etc/shadow"]], "no_mount": true}}
refused {"create": {"name": "web/at", "props": [["mountpoint", "/etc"]], "no_mount": true}}
refused {"create": {"name": "web", "props": [], "no_mount": true}}
done {"set": {"names": ["web/x"], "props": [["compression", "lz4"]]}}
done {"set": {"names": ["web"], "props": [["org.example:note", "x"]]}}
done {"set": {"names": ["web/x"], "props": [["quota", "1M"]]}}
refused {"set": {"names": ["web"], "props": [["quota", "none"]]}}
# It is not mounted.
absent {"set": {"names": ["web/x"], "props": [["userquota@0", "1M"]]}}
refused {"set": {"names": ["web"], "props": [["userquota@0", "1M"]]}}
absent {"userspace": {"name": "web/x", "kind": "user"}}
refused {"set": {"names": ["web/x"], "props": [["setuid", "on"]]}}
refused {"set": {"names": ["web/x"], "props": [["mountpoint", "/etc"]]}}
done {"inherit": {"names": ["web/x"], "prop": "compression"}}
refused {"inherit": {"names": ["web"], "prop": "quota", "recursive": true}}
done {"snapshot": {"names": ["web@2"], "recursive": true}}
done {"create": {"name": "web/auto", "props": [["snapshot-schedule", "daily:1"]], "no_mount": true}}
done {"prune": {"names": ["web/auto"], "recursive": true}}
done {"hold": {"names": ["web/x@2"], "tag": "t"}}
done {"holds": {"names": ["web/x@2"]}}
done {"destroy-later": {"name": "web/x@2", "dry_run": true}}
done {"release": {"names": ["web/x@2"], "tag": "t"}}
done {"rollback": {"name": "web/x@2"}}
done {"bookmark": {"of": "web/x@2", "name": "web/x#2"}}
done {"get": {"names": ["web/x#2"], "depth": 0, "bookmarks": true, "props": []}}
done {"destroy-bookmark": {"name": "web/x#2"}}
done {"clone": {"snapshot": "web/x@2", "name": "web/clone", "props": [], "no_mount": true}}
# Their data keys would be wrapped by a key of the tenant's.
refused {"clone": {"snapshot": "web/x@2", "name": "web/taken", "props": [["keysource", "passphrase,prompt"]], "no_mount": true}}
refused {"clone": {"snapshot": "web/x@2", "name": "web/mine/taken", "props": [], "no_mount": true}}
done {"clone": {"snapshot": "web/mine@2", "name": "web/mine/clone", "props": [], "no_mount": true}}
done {"promote": {"name": "web/clone"}}
done {"rename": {"from": "web/clone", "to": "web/copy"}}
done {"rename": {"from": "web/mine@2", "to": "@3"}}
done {"rename": {"from": "web/mine@3", "to": "@4", "recursive": true}}
refused {"rename": {"from": "web/copy", "to": "web/not/copy", "parents": true}}
refused {"rollback": {"name": "web/x@2", "clones": true}}
refused {"rename": {"from": "web", "to": "web/x/y"}}
refused {"rename": {"from": "web/copy", "to": "web"}}
# What is sent has its wrapped keys with it.
refused {"send": {"what": {"snapshot": {"name": "web/copy@2"}}, "raw": true}}
refused {"receive": {"target": "web/r", "naming": "exact", "resumable": true, "props": [], "exclude": []}}
refused {"receive": {"target": "web/r", "naming": "exact", "props": [["mountpoint", "/etc"]], "exclude": []}}
refused {"receive": {"target": "web/r", "naming": "exact", "props": [["keysource", "raw,file:///etc/shadow"]], "exclude": []}}
refused {"receive": {"target": "web", "naming": "path", "props": [], "exclude": []}}
done {"key-status": {"names": []}}
done {"key-status": {"names": ["web"]}}
done {"key-slots": {"name": "web/mine"}}
refused {"key-slots": {"name": "web/x"}}
done {"key-generations": {"name": "web/mine"}}
refused {"key-generations": {"name": "web"}}
done {"key-add": {"name": "web/mine", "keysource": "passphrase,prompt", "priority": 0}}
refused {"key-add": {"name": "web/x", "keysource": "passphrase,prompt", "priority": 0}}
done {"key-remove": {"name": "web/mine", "slot": 1}}
refused {"key-remove": {"name": "web", "slot": 0, "force": true}}
done {"key-change": {"name": "web/mine"}}
refused {"key-change": {"name": "web/mine", "keysource": "raw,exec:///id"}}
refused {"key-change": {"name": "web/x", "keysource": "passphrase,prompt"}}
done {"key-rotate": {"name": "web/mine", "how": "new"}}
refused {"key-rotate": {"name": "web", "how": "new"}}
done {"key-unload": {"names": ["web/mine"], "recursive": true}}
refused {"key-load": {"names": ["web/mine"], "location": "file:///etc/shadow"}}
refused {"key-accept": {"names": ["web/mine"]}}
done {"key-load": {"names": ["web/mine"], "location": "prompt"}}
refused {"key-unload": {"names": ["web"], "force": true}}
refused {"key-unload": {"names": [], "force": true}}
refused {"key-load": {"names": ["web"], "location": "prompt"}}
refused {"mount": {"name": "web/x", "dir": "/mnt"}}
refused {"mount": {}}
refused {"unmount": {"force": true}}
refused {"unmount": {"target": "/", "force": true}}
refused {"remount": {"name": "web/x", "read_only": false, "allowed": {}}}
refused {"luks-borrow": {"device": "volume:tank/web", "how": "look"}}
done "mounts"
done "whoami"
done {"shred": {"name": "web/mine", "recursive": true}}
refused {"destroy": {"name": "web/site", "recursive": true, "clones": true}}
done {"destroy": {"name": "web/site", "recursive": true}}
refused {"destroy": {"name": "web", "recursive": true}}
"#;

/// Requests that name a dataset outside the zone, `$X`, beside one inside, or in another way than the samples do.
const ELSEWHERE: &str = r#"
absent {"destroy": {"name": "$X@1", "recursive": true, "clones": true, "force": true}}
absent {"shred": {"name": "$X", "recursive": true, "clones": true, "force": true, "dry_run": true}}
absent {"clone": {"snapshot": "web/site@1", "name": "$X/x", "props": [], "no_mount": true}}
absent {"clone": {"snapshot": "$X@1", "name": "web/y", "props": [], "no_mount": true}}
absent {"rename": {"from": "$X", "to": "web/y"}}
absent {"rename": {"from": "web/pool", "to": "$X/x"}}
absent {"rename": {"from": "web/site@1", "to": "$X@9"}}
absent {"promote": {"name": "$X"}}
absent {"get": {"names": ["web", "$X"], "depth": 0, "bookmarks": true, "props": []}}
absent {"get": {"names": ["$X#1"], "depth": 0, "bookmarks": true, "props": []}}
absent {"inherit": {"names": ["$X"], "prop": "compression", "recursive": true}}
absent {"snapshot": {"names": ["web@9", "$X@9"]}}
absent {"rollback": {"name": "$X@1", "recursive": true, "force": true}}
absent {"bookmark": {"of": "web/site@1", "name": "$X#1"}}
absent {"send": {"what": {"snapshot": {"name": "web/site@1", "from": "$X#1"}}, "raw": true}}
absent {"send": {"what": {"snapshot": {"name": "web/site@1", "from": "$X@1"}}, "raw": true}}
absent {"diff": {"from": "$X@1"}}
absent {"diff": {"from": "web/site@1", "to": "$X"}}
absent {"unmount": {"target": "$X", "force": true}}
absent {"key-unload": {"names": ["$X"], "recursive": true, "force": true}}
"#;

fn requests(lines: &str) -> Vec<(Json, Is)> {
    let is_request = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let request = |line: &str| {
        let (expected, request) = line.split_once(' ').unwrap();
        let expected = match expected {
            "done" => Done,
            "refused" => Refused,
            "absent" => Absent,
            _ => panic!("{line}"),
        };
        (serde_json::from_str(request).unwrap(), expected)
    };
    lines.lines().filter(is_request).map(request).collect()
}

/// Commands of a tenant on the zone's own datasets.
pub(super) fn own() -> Vec<(Json, Is)> {
    requests(OWN)
}

/// Commands of a tenant on datasets outside the zone.
pub(super) fn elsewhere(name: &str) -> Vec<(Json, Is)> {
    requests(&ELSEWHERE.replace("$X", name))
}
