//! The sample requests, as the HTTP API has them, one in a line. A field that is missing has its default.

use protocol::api::{Command, Props};

/// Requests about datasets, their keys, mounts and permissions. `$FS` is a dataset, and new ones come below `$TO`.
const OF_DATASETS: &str = r##"
{"create": {"name": "$FS/new", "props": []}}
{"create": {"name": "$FS/new", "props": [["compression", "off"]]}}
{"create": {"name": "$FS/new", "props": [["mountpoint", "legacy"]]}}
{"create": {"name": "$FS/new", "props": [["keysource", "hex,prompt"]]}}
{"create": {"name": "$FS/new", "props": [["encryption", "on"], ["keysource", "hex,prompt"]]}}
{"create": {"name": "$FS/new", "props": [["keysource", "raw,file:///nonexistent/key"]]}}
{"create": {"name": "$FS/not/new", "props": [], "parents": true, "dry_run": true}}
{"create": {"name": "$FS/new", "props": [], "volume": {"size": 1048576, "sparse": true}}}
{"create": {"name": "$FS/new", "props": [], "volume": {"size": 1048576}}}
{"destroy": {"name": "$FS/vol", "recursive": true}}
{"destroy": {"name": "$FS/x", "recursive": true, "clones": true}}
{"destroy": {"name": "$FS@2", "recursive": true}}
{"destroy-later": {"name": "$FS@2", "recursive": true}}
{"shred": {"name": "$FS/clone", "recursive": true, "dry_run": true}}
{"rename": {"from": "$FS/vol", "to": "$FS/new"}}
{"rename": {"from": "$FS/vol", "to": "$FS/not/new", "parents": true}}
{"rename": {"from": "$FS@2", "to": "@3"}}
{"rename": {"from": "$FS@2", "to": "@3", "recursive": true}}
{"promote": {"name": "$FS/clone"}}

{"get": {"names": ["$FS"], "depth": 0, "props": ["used"]}}
{"get": {"names": ["$FS"], "depth": 0, "props": ["userused@0"]}}
{"get": {"names": ["$FS"], "depth": 0, "props": ["written@2"]}}
{"get": {"names": [], "props": ["name"]}}
{"set": {"names": ["$FS"], "props": [["compression", "off"]]}}
{"set": {"names": ["$FS"], "props": [["mountpoint", "legacy"]]}}
{"set": {"names": ["$FS"], "props": [["org.example:note", "x"]]}}
{"set": {"names": ["$FS"], "props": [["userquota@0", "1M"]]}}
{"set": {"names": ["$FS/vol"], "props": [["volsize", "2M"]]}}
{"inherit": {"names": ["$FS"], "prop": "compression"}}
{"userspace": {"name": "$FS", "kind": "user"}}
{"userspace": {"name": "$FS", "kind": "group", "check": true}}

{"snapshot": {"names": ["$FS@9"]}}
{"prune": {"names": ["$FS"], "dry_run": true}}
{"rollback": {"name": "$FS@2"}}
{"rollback": {"name": "$FS@1", "recursive": true}}
{"rollback": {"name": "$FS@1", "clones": true}}
{"hold": {"names": ["$FS@2"], "tag": "tag"}}
{"hold": {"names": ["$FS@2"], "tag": "later", "until": 2500000000}}
{"holds": {"names": ["$FS@2"]}}
{"release": {"names": ["$FS@2"], "tag": "tag"}}
{"bookmark": {"of": "$FS@2", "name": "$FS#2"}}
{"destroy-bookmark": {"name": "$FS#2"}}
{"diff": {"from": "$FS@1", "to": "@2"}}
{"clone": {"snapshot": "$FS/x@1", "name": "$FS/new", "props": []}}
{"clone": {"snapshot": "$FS/x@1", "name": "$FS/new", "props": [["keysource", "hex,prompt"]]}}
{"clone": {"snapshot": "$FS@1", "name": "$TO/new", "props": [["keysource", "hex,prompt"]]}}

{"send": {"what": {"snapshot": {"name": "$FS@1"}}, "raw": true}}
{"send": {"what": {"snapshot": {"name": "$FS@1"}}}}
{"send": {"what": {"snapshot": {"name": "$FS@2", "from": "@1"}}, "raw": true}}
{"send": {"what": {"snapshot": {"name": "$FS@1", "replicate": true}}, "raw": true, "props": true}}
{"send": {"what": {"snapshot": {"name": "$FS@2", "from": "#1"}}, "raw": true}}
{"send": {"what": {"snapshot": {"name": "$TO@1"}}, "raw": true}}
{"send": {"what": {"rest": {"token": "nonsense"}}, "raw": true}}
{"send": {"what": {"rest": {"token": "nonsense", "of": "$FS"}}, "raw": true}}
{"verify": {"names": ["$FS@1", "$TO"]}}
{"receive": {"target": "$TO/new", "naming": "exact", "props": [], "exclude": []}}
{"receive": {"target": "$TO/new", "naming": "exact", "props": [["compression", "off"]], "exclude": []}}
{"receive": {"target": "$TO/new", "naming": "exact", "props": [["mountpoint", "legacy"]], "exclude": []}}
{"receive": {"target": "$FS", "naming": "exact", "props": [], "exclude": []}}
{"receive": {"target": "$FS", "naming": "exact", "force": true, "props": [], "exclude": []}}
{"receive": {"target": "$TO", "naming": "path", "props": [], "exclude": []}}
{"receive-abandon": {"target": "$TO/new"}}

{"replicate-add": {"name": "copy", "source": "$FS", "target": "$TO/new", "every": 3600}}
{"replicate-add": {"name": "copy", "source": "$FS", "target": "$TO/new", "every": 3600, "recursive": true}}
{"replicate-add": {"name": "copy", "source": "$FS", "target": "ssh://localhost/backup/new", "every": 3600}}
{"replicate-change": {"name": "copy", "source": "$FS", "change": "pause"}}
{"replicate-run": {"name": "copy", "source": "$FS"}}
{"replicate-verify": {"name": "copy", "source": "$FS"}}
{"replicate-drilled": {"name": "copy", "source": "$FS"}}
{"replicate-list": {"names": ["$FS"]}}
{"replicate-list": {"names": []}}

{"mount": {"name": "$FS"}}
{"mount": {"name": "$FS/x", "load_keys": true}}
{"mount": {"name": "$FS", "dir": "/nonexistent"}}
{"mount": {}}
{"mount": {"name": "$FS", "give_up_log": true}}
{"home": {"step": "find", "dir": "/nonexistent", "uid": 12345}}
{"remount": {"name": "$FS", "read_only": true, "allowed": {}}}
{"unmount": {"target": "$FS"}}
{"unmount": {"target": "/nonexistent"}}
{"unmount": {}}
"mounts"

{"key-load": {"names": ["$FS"], "dry_run": true}}
{"key-load": {"names": ["$FS"], "keysource": "raw,file:///nonexistent/key", "dry_run": true}}
{"key-load": {"names": [], "dry_run": true}}
{"key-unload": {"names": ["$FS"]}}
{"key-change": {"name": "$FS", "keysource": "hex,prompt"}}
{"key-change": {"name": "$FS", "keysource": "raw,file:///nonexistent/key"}}
{"key-change": {"name": "$FS", "inherit": true}}
{"key-rotate": {"name": "$FS", "how": "new"}}
{"key-rotate": {"name": "$FS", "how": "reencrypt"}}
{"key-rotate": {"name": "$FS", "how": "pause"}}
{"key-rotate": {"name": "$FS", "how": "resume"}}
{"key-add": {"name": "$FS", "keysource": "hex,prompt", "priority": 128}}
{"key-remove": {"name": "$FS", "slot": 0, "force": true}}
{"key-slots": {"name": "$FS"}}
{"key-generations": {"name": "$FS"}}
{"key-status": {"names": ["$FS"]}}
{"key-status": {"names": []}}
{"key-accept": {"names": ["$FS"]}}
{"key-backup": {"name": "$FS"}}
{"key-restore": {"name": "$FS", "backup": ""}}

{"permissions": {"name": "$FS"}}
{"change-permissions": {"name": "$FS", "who": ["12346"], "kind": "user", "permissions": ["hold"], "local": true}}
{"change-permissions": {"name": "$FS", "who": ["@set"], "kind": "set", "permissions": ["hold"], "local": true}}
{"anchor": {"names": ["$FS"]}}
{"anchor-verify": {"anchors": [{"dataset": "$FS", "pool_guid": 1, "txg": 1, "guid": 1, "sequence": 1, "seal": ""}]}}
{"anchor-accept": {"names": ["$FS"]}}
"##;

/// Requests about pools, devices and the daemon. The files that they name do not exist.
const OF_THE_MACHINE: &str = r##"
{"pool-create": {"pool": "pool", "devices": {"groups": [], "logs": [], "caches": [], "spares": []}, "props": []}}
{"pool-importable": {"search": ["/nonexistent"]}}
{"pool-import": {"search": ["/nonexistent"], "pool": "pool", "checkpoint": "keep"}}
{"pool-export": {"pool": "tank"}}
{"pool-refresh": {"pool": "tank"}}
{"pool-destroy": {"pool": "tank"}}
{"pool-status": {"pools": ["tank"], "names_files": true}}
{"pool-io": {"pools": ["tank"]}}
{"objects-probe": {"address": "s3://no_bucket"}}
{"pool-devices": {"pool": "tank", "change": {"clear": {}}}}
{"pool-split": {"pool": "tank", "new": "half", "devices": [], "dry_run": true}}
{"pool-reguid": {"pool": "tank"}}
{"pool-sync": {"pools": ["tank"]}}
{"pool-checkpoint": {"pool": "tank"}}
{"pool-sweep": {"pool": "tank", "what": "trim"}}
{"pool-sweep": {"pool": "tank", "what": "initialize"}}
{"pool-scrub": {"pool": "tank"}}
{"pool-events": {"after": 0}}
{"pool-label-clear": {"device": "/nonexistent/device"}}
{"pool-features": {"pools": ["tank"]}}
{"pool-history": {"pool": "tank"}}
{"audit": {"pool": "tank"}}
{"audit-verify": {"pool": "tank"}}
{"inspect": {"target": {"devices": ["/nonexistent/device"]}, "detail": 0}}
{"zone-create": {"name": "new", "dataset": "tank/web", "profile": "none"}}
{"zone-set": {"name": "z", "profile": "strict"}}
{"zone-destroy": {"name": "z"}}
"zones"
"whoami"
{"token-create": {"label": "phone", "expires": 60}}
{"token-create": {"user": "root", "label": "phone", "expires": 60}}
"tokens"
{"token-revoke": {"id": "0badcafe"}}
"metrics"
"key-tries"
{"nbd-export": {"device": "/nonexistent/device", "read_only": true}}
{"nbd-unexport": {"name": "export"}}
{"nbd-attach": {"device": "/nonexistent/device", "read_only": true}}
{"nbd-detach": {"device": "/nonexistent/device"}}
"nbd-exports"
{"ublk-attach": {"device": "/nonexistent/device", "read_only": true}}
{"ublk-detach": {"device": "/nonexistent/device"}}
"ublk-devices"
{"iscsi-export": {"device": "/nonexistent/device", "read_only": true, "initiators": [], "chap": [], "open": true}}
{"iscsi-unexport": {"name": "iqn.2026-01.org.example:export"}}
{"iscsi-kick": {"target": "iqn.2026-01.org.example:export", "number": 1}}
{"ha-start": {"pool": "tank"}}
{"ha-stop": {"pool": "tank"}}
{"ha-verify": {"pool": "tank"}}
{"ha-check": {"pool": "tank", "search": []}}
{"ha-status": {"pool": "tank"}}
"iscsi-exports"
"iscsi-sessions"
{"luks-open": {"device": "/nonexistent/device", "name": "mapping", "read_only": true, "serving": {}}}
{"luks-close": {"name": "mapping"}}
{"luks-status": {"names": []}}
{"luks-refresh": {"name": "mapping", "change": {"read_workqueue": true}}}
{"luks-resize": {"name": "mapping"}}
{"luks-reencrypt": {"name": "mapping"}}
{"luks-suspend": {"name": "mapping"}}
{"luks-resume": {"name": "mapping"}}
{"luks-borrow": {"device": "/nonexistent/device", "how": "look"}}
"daemon-status"
"daemon-stop"
"daemon-stop-forced"
"##;

fn requests(lines: &str) -> Vec<Command> {
    let lines = lines.lines().filter(|line| !line.is_empty());
    let request = |line| match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => panic!("{line}: {error}"),
    };
    lines.map(request).collect()
}

/// Requests about a dataset `fs` and about `to`, below which new datasets come. [`super::site::Site`] has both.
pub(super) fn about(fs: &str, to: &str) -> Vec<Command> {
    requests(&OF_DATASETS.replace("$FS", fs).replace("$TO", to))
}

/// Requests about pools, devices and the daemon.
pub(super) fn of_the_machine() -> Vec<Command> {
    requests(OF_THE_MACHINE)
}

pub(super) fn props(props: &[(&str, &str)]) -> Props {
    let props = props.iter();
    props.map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

pub(super) fn create(name: String, of: &[(&str, &str)]) -> Command {
    request!({"create": {"name": name, "props": props(of)}})
}
