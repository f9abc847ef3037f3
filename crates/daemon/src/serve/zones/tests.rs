//! Every command through a zone's socket: what a tenant may do and see.

mod profiles;
mod requests;

use std::path::Path;

use protocol::api::{Ask, Command, DatasetRow, PropertyValue, Reply, ValueSource, command};
use protocol::client::{DaemonConnection, Terminal};
use secret::Secret;
use serde_json::{Value as Json, json};

use self::requests::*;
use super::*;
use crate::serve::commands::served;
use crate::tests::{command, create, create_pool, daemon, encrypted, key_file};

/// Types the same passphrase whenever it is asked.
#[derive(Default)]
struct RepeatingTypist {
    asked_for: Vec<String>,
}

impl Terminal for RepeatingTypist {
    fn ask(&mut self, ask: &Ask) -> protocol::api::Result<Option<Secret>> {
        self.asked_for.push(ask.dataset.clone());
        Ok(Some(Secret::from_slice(b"correct horse").unwrap()))
    }

    fn notice(&mut self, _: &str) {}
}

fn call(socket: &Path, request: &Json) -> protocol::api::Result<Reply> {
    let command: Command = serde_json::from_value(request.clone())
        .unwrap_or_else(|error| panic!("{request}: {error}"));
    let client = DaemonConnection::connect(socket).unwrap();
    client.call(command, &mut RepeatingTypist::default())
}

/// A pool with datasets of others beside the zone `web`, whose root has a key that is loaded.
struct ZoneSite {
    dir: tempfile::TempDir,
    daemon: Arc<Daemon>,
}

impl ZoneSite {
    fn new() -> ZoneSite {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        create_pool(&daemon, dir.path(), "tank");
        let key = encrypted(&key_file(dir.path(), "key"));
        create(&daemon, "tank/web", &key);
        create(&daemon, "tank/web/site", &Vec::new());
        create(&daemon, "tank/web/pool", &Vec::new());
        create(
            &daemon,
            "tank/other",
            &encrypted(&key_file(dir.path(), "other")),
        );
        let names = ["tank/other@1".into(), "tank/web/site@1".into()];
        command(|context| daemon.snapshot(&names, false, context)).unwrap();
        ZoneSite { dir, daemon }
    }

    fn zone(&self, profile: ZoneProfile) -> &ZoneSite {
        let new = command::ZoneCreate {
            name: "z".into(),
            dataset: "tank/web".into(),
            profile,
            ..command::ZoneCreate::default()
        };
        command(|context| self.daemon.create_zone(&new, context)).unwrap();
        self
    }

    fn call(&self, request: Json) -> protocol::api::Result<Reply> {
        call(&self.daemon.zone_socket("z"), &request)
    }

    fn get(&self, names: &[&str], props: &[&str]) -> Vec<DatasetRow> {
        let request = json!({"get": {"names": names, "depth": null, "snapshots": true, "bookmarks": true, "props": props}});
        match self.call(request).unwrap() {
            Reply::Datasets(rows) => rows,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for ZoneSite {
    fn drop(&mut self) {
        ZoneSockets.stop(&self.daemon);
    }
}

/// The expected result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Done,
    /// The command is not for tenants.
    Refused,
    /// The named dataset does not exist, as far as a tenant can see.
    Absent,
}
use Is::{Absent, Done, Refused};

/// The tests of rights have every sample of a command tried by tenants. These are requests in an order, and others
/// than the samples.
#[test]
fn requests_of_a_tenant_are_decided() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let outside = OTHERS.into_iter().flat_map(elsewhere);
    for (request, expected) in outside.chain(own()) {
        let found = match site.call(request.clone()) {
            Ok(_) => Done,
            Err(failure) if failure.kind == FailureKind::Permission => Refused,
            Err(failure) if failure.kind == FailureKind::NotFound => Absent,
            Err(failure) => panic!("{request}: {failure:?}"),
        };
        assert_eq!(found, expected, "{request}");
    }
    // What is outside is as it was.
    for name in ["tank/other@1", "tank/web", "tank/other"] {
        site.daemon.find(name).unwrap();
    }
}

/// Names of the global zone look as the article on encrypted zones shows them.
#[test]
fn what_is_above_is_the_global_zones() {
    let site = ZoneSite::new();
    command(|context| {
        let names = ["tank".to_owned()];
        site.daemon.set(
            &names,
            &vec![("compression".into(), "off".into())],
            false,
            context,
        )
    })
    .unwrap();
    site.zone(ZoneProfile::None);
    let own_key = json!([["encryption", "on"], ["keysource", "passphrase,prompt"]]);
    site.call(make("web/bob", own_key)).unwrap();
    let rows = site.get(
        &["web", "web/bob"],
        &["encryption", "keysource", "compression"],
    );
    let source = |name: &str, at: usize| {
        let row = rows.iter().find(|row| row.name == name).unwrap();
        row.props[at].source.clone()
    };
    let global = || ValueSource::Inherited("$globalzone".into());
    for at in 0..3 {
        assert_eq!(source("web", at), global());
        assert_eq!(source("web/site", at), global());
    }
    assert_eq!(source("web/bob", 0), ValueSource::Local);
    assert_eq!(source("web/bob", 1), ValueSource::Local);
    let Reply::Keys(keys) = site.call(json!({"key-status": {"names": []}})).unwrap() else {
        panic!("no keys");
    };
    let roots: Vec<(&str, &str)> = keys
        .iter()
        .map(|row| (row.name.as_str(), row.key_root.as_str()))
        .collect();
    assert!(roots.contains(&("web/bob", "web/bob")));
    assert!(roots.contains(&("web/site", "$globalzone")));
    assert!(roots.contains(&("web", "$globalzone")));
}

#[test]
fn names_outside_are_not_told() {
    let site = ZoneSite::new();
    for (snapshot, name) in [
        ("tank/web/site@1", "tank/other/clone"),
        ("tank/web/site@1", "tank/web/clone"),
        ("tank/other@1", "tank/web/climb"),
    ] {
        command(|context| {
            let clone = command::Clone {
                snapshot: snapshot.into(),
                name: name.into(),
                props: Vec::new(),
                rekey: false,
                parents: false,
                no_mount: true,
            };
            site.daemon.clone_snapshot(&clone, context)
        })
        .unwrap();
    }
    site.zone(ZoneProfile::None);
    let rows = site.get(&[], &["name", "clones", "origin"]);
    let text = serde_json::to_string(&rows).unwrap();
    assert!(!text.contains("tank") && !text.contains("other"), "{text}");
    let snapshot = rows.iter().find(|row| row.name == "web/site@1").unwrap();
    assert_eq!(
        snapshot.props[1].value,
        PropertyValue::Text("web/clone".into())
    );
    for (request, kind) in [
        (destroy("web/site", false), FailureKind::Busy),
        (destroy("web/site", true), FailureKind::Permission),
        // It would take the snapshots of what is outside.
        (
            json!({"promote": {"name": "web/climb"}}),
            FailureKind::Permission,
        ),
        (
            json!({"promote": {"name": "web/nope"}}),
            FailureKind::NotFound,
        ),
    ] {
        let failure = site.call(request).unwrap_err();
        let text = &failure.message;
        assert!(!text.contains("tank") && !text.contains("other"), "{text}");
        assert_eq!(failure.kind, kind, "{text}");
    }
}

#[test]
fn the_root_of_an_immutable_zone_is_read_only() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::FixedConfiguration);
    let find = |name: &str| site.daemon.find(name).unwrap().1;
    assert_eq!(find("tank/web").props.get("readonly").unwrap(), "on");
    for request in [
        set("web", "readonly", "off"),
        set("web", "org.example:note", "x"),
        json!({"inherit": {"names": ["web"], "prop": "readonly", "recursive": false}}),
        json!({"snapshot": {"names": ["web@1"], "recursive": false}}),
        json!({"snapshot": {"names": ["web/site@5", "web@5"], "recursive": false}}),
        json!({"rollback": {"name": "web@1", "recursive": false, "force": false}}),
    ] {
        let failure = site.call(request.clone()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission, "{request}");
    }
    site.call(make("web/x", json!([]))).unwrap();
    assert_eq!(find("tank/web/x").props.get("readonly").unwrap(), "off");
    let rows = site.get(&["web"], &["readonly"]);
    assert_eq!(
        rows[0].props[0].source,
        ValueSource::Inherited("$globalzone".into())
    );
}

/// While there is a zone its root stays what the names in it go by.
#[test]
fn the_root_stays_while_there_is_a_zone() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let daemon = &site.daemon;
    let rename = protocol::api::command::Rename {
        from: "tank/web".into(),
        to: "tank/gone".into(),
        recursive: false,
        parents: false,
        force: true,
    };
    let renamed = command(|context| daemon.rename(&rename, context));
    let refused = renamed.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Busy);
    assert!(
        refused
            .message
            .contains("'tank/web' is the root of the zone 'z'")
    );
    let gone = command(|context| daemon.destroy("tank/web", true.into(), true, false, context));
    assert_eq!(gone.unwrap_err().kind, FailureKind::Busy);
    command(|context| daemon.destroy_zone("z", context)).unwrap();
    assert!(DaemonConnection::connect(&daemon.zone_socket("z")).is_err());
    command(|context| daemon.rename(&rename, context)).unwrap();
}

#[test]
fn zones_are_remembered() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let before = site.daemon.zones.recall();
    ZoneSockets.stop(&site.daemon);
    let again = daemon(site.dir.path());
    ZoneSockets.prepare(&again);
    ZoneSockets.start(&again);
    assert_eq!(again.zones.recall(), before);
    let rows = again.zone_rows();
    assert_eq!((rows.len(), rows[0].dataset.as_ref()), (1, None));
    let failure = call(&again.zone_socket("z"), &json!("mounts")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure:?}");
    ZoneSockets.stop(&again);
    std::fs::write(site.dir.path().join("state/zones.json"), "nonsense").unwrap();
    assert!(again.zones.recall().is_empty());
    let aside = site.dir.path().join("state/zones.json.unreadable");
    assert!(aside.exists());
}

#[test]
fn what_cannot_be_a_zone_is_refused() {
    let site = ZoneSite::new();
    let refused = |name: &str, dataset: &str, alias: Option<&str>, owner: Option<&str>| {
        let new = command::ZoneCreate {
            name: name.into(),
            dataset: dataset.into(),
            alias: alias.map(Into::into),
            profile: ZoneProfile::None,
            owner: owner.map(Into::into),
        };
        command(|context| site.daemon.create_zone(&new, context))
            .unwrap_err()
            .kind
    };
    for name in ["", ".", "../x", "a/b", "-x", &"x".repeat(49)] {
        assert_eq!(
            refused(name, "tank/web", None, None),
            FailureKind::Usage,
            "{name}"
        );
    }
    assert_eq!(refused("z", "tank", None, None), FailureKind::Usage);
    assert_eq!(refused("z", "tank/other@1", None, None), FailureKind::Usage);
    assert_eq!(refused("z", "tank/nope", None, None), FailureKind::NotFound);
    assert_eq!(
        refused("z", "tank/web", Some("a/b"), None),
        FailureKind::Usage
    );
    let nobody = Some("nobody-of-that-name");
    assert_eq!(
        refused("z", "tank/web", None, nobody),
        FailureKind::NotFound
    );
    site.zone(ZoneProfile::None);
    assert_eq!(refused("z", "tank/other", None, None), FailureKind::Exists);
}

/// A typed key is for the dataset that the prompt named.
#[test]
fn names_stay_while_a_command_is_decided_by_them() {
    let site = ZoneSite::new();
    let daemon = &site.zone(ZoneProfile::None).daemon;
    let zone = daemon.zones.recall().remove("z").unwrap().into_zone("z");
    let of = |request: Json| served(serde_json::from_value(request).unwrap()).names();
    let rename = of(json!({"rename": {"from": "web/x", "to": "web/y"}}));
    let load = of(json!({"key-load": {"names": ["web/x"]}}));
    let one = zone.guard_names(load).unwrap();
    let other = zone.guard_names(load).unwrap();
    let look = zone.guard_names(of(json!("mounts"))).unwrap();
    assert!(zone.guard_names(rename).is_err());
    drop((one, other, look));
    let alone = zone.guard_names(rename).unwrap();
    assert!(zone.guard_names(load).is_err());
    drop(alone);
    zone.guard_names(load).unwrap();
}

/// Names and properties that a tenant stores are in the memory of the daemon, and no quota counts them.
#[test]
fn a_new_zone_has_limits() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let limits = site.get(
        &["web"],
        &[
            "filesystem_limit",
            "mount_limit",
            "property_limit",
            "snapshot_limit",
        ],
    );
    let root = limits.iter().find(|row| row.name == "web").unwrap();
    let values = root.props.iter().map(|prop| prop.value.clone());
    let values: Vec<PropertyValue> = values.collect();
    let expected = [
        PropertyValue::Number(1000),
        PropertyValue::Number(200),
        PropertyValue::Bytes(4 << 20),
        PropertyValue::Number(10_000),
    ];
    assert_eq!(values, expected);
    let higher =
        json!({"set": {"names": ["web"], "props": [["property_limit", "1G"]], "force": false}});
    assert_eq!(site.call(higher).unwrap_err().kind, FailureKind::Permission);

    let (active, _) = site.daemon.find("tank/web").unwrap();
    let long = "x".repeat(8000);
    let props: Vec<_> = (0..30)
        .map(|at| (format!("a:{at}"), long.clone()))
        .collect();
    let stored = |at: u64| {
        let name = format!("web/n{at}");
        let made = json!({"create": {"name": name, "props": [["encryption", "off"]], "parents": false, "no_mount": true,
                          "volume": null}});
        site.call(made)?;
        site.call(json!({"set": {"names": [name], "props": props, "force": false}}))
    };
    let refused = (0..100).find_map(|at| stored(at).err()).unwrap();
    assert_eq!(refused.kind, FailureKind::NoSpace);
    assert!(refused.message.contains("property_limit"), "{refused:?}");
    assert!(active.pool.texts() < 5 << 20);
    // Tags and bookmarks count too.
    let tags = (0..10_000).find_map(|at| {
        let tag = format!("{at:0200}");
        let hold = json!({"hold": {"names": ["web/site@1"], "tag": tag, "recursive": false}});
        site.call(hold).err()
    });
    assert_eq!(tags.unwrap().kind, FailureKind::NoSpace);
    let marks = (0..10_000).find_map(|at| {
        let name = format!("web/site#{at}");
        site.call(json!({"bookmark": {"of": "web/site@1", "name": name}}))
            .err()
    });
    assert_eq!(marks.unwrap().kind, FailureKind::NoSpace);
    // What root set before stays.
    command(|context| site.daemon.destroy_zone("z", context)).unwrap();
    let more = [("property_limit".into(), "1G".into())].to_vec();
    command(|context| site.daemon.set(&["tank/web".into()], &more, false, context)).unwrap();
    site.zone(ZoneProfile::None);
    let root = site.get(&["web"], &["property_limit"]);
    assert_eq!(root[0].props[0].value, PropertyValue::Bytes(1 << 30));
}
