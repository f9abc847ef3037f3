//! Commands of a tenant against the profile of its zone.

use std::collections::BTreeMap;

use protocol::api::{FailureKind, PropertyValue, ZoneProfile, command};
use serde_json::{Value as Json, json};

use super::requests::*;
use super::*;

/// A dataset or snapshot: its guid, its properties, and its holds.
type State = BTreeMap<String, (u64, BTreeMap<String, String>, String)>;

impl ZoneSite {
    /// With datasets of the system that the global zone made.
    fn with_system() -> ZoneSite {
        let site = ZoneSite::new();
        for name in ["etc", "usr", "usr/local", "data"] {
            create(&site.daemon, &format!("tank/web/{name}"), &Vec::new());
        }
        let names = ["etc", "usr", "data"].map(|name| format!("tank/web/{name}@1"));
        command(|context| site.daemon.snapshot(&names, false, context)).unwrap();
        site
    }

    fn set_profile(&self, profile: ZoneProfile) {
        let set = command::ZoneSet {
            name: "z".into(),
            profile,
        };
        command(|context| self.daemon.set_zone(&set, context)).unwrap();
    }

    fn state(&self) -> State {
        let (active, root) = self.daemon.find("tank/web").unwrap();
        let mut state = State::new();
        for head in active.heads_below(&root).unwrap() {
            let snapshots = active.pool.snapshots(head.id).unwrap();
            for entry in std::iter::once(head).chain(snapshots) {
                let name = active.pool.name_of(entry.id).unwrap();
                let of_key = format!("{:?} {}", active.has_key(entry.key_root), entry.key_root);
                state.insert(name, (entry.guid, entry.props.clone(), of_key));
            }
        }
        state
    }

    fn refused(&self, request: &Json) {
        let failure = self.call(request.clone()).expect_err(&request.to_string());
        assert_eq!(failure.kind, FailureKind::Permission, "{request}");
        assert!(!failure.message.contains("tank"), "{failure:?}");
    }

    fn readonly(&self, name: &str) -> (String, ValueSource) {
        let rows = self.get(&[name], &["readonly"]);
        let prop = &rows[0].props[0];
        match &prop.value {
            PropertyValue::Text(text) => (text.clone(), prop.source.clone()),
            other => panic!("{other:?}"),
        }
    }
}

/// All commands that a tenant may use otherwise are tried in a strict zone.
#[test]
fn nothing_changes_in_a_strict_zone() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let is_end = |request: &Json| request.get("shred").is_some();
    for (request, _) in own()
        .into_iter()
        .take_while(|(request, _)| !is_end(request))
    {
        // Some are refused, as `requests_of_a_tenant_are_decided` says.
        let _ = site.call(request);
    }
    site.set_profile(ZoneProfile::Strict);
    let before = site.state();
    assert!(before.len() > 10, "{before:?}");
    let mut looked = 0;
    for (request, expected) in own() {
        let found = site.call(request.clone());
        assert!(expected == Done || found.is_err(), "{request}");
        looked += u32::from(found.is_ok());
        assert_eq!(site.state(), before, "{request}");
    }
    assert!(looked > 5);
    assert_eq!(site.readonly("web/x").0, "on");
    site.refused(&make("web/more/below", json!([])));
}

/// The datasets of the system, and what could take their place or their contents.
#[test]
fn a_tenant_does_not_get_around_a_profile() {
    let site = ZoneSite::with_system();
    site.zone(ZoneProfile::FixedConfiguration);
    let parents =
        json!({"create": {"name": "web/usr/a/b", "props": [], "parents": true, "no_mount": true}});
    let promoted = clone("web/etc@1", "web/copy", json!([]));
    site.call(promoted).unwrap();
    let receive = |target: &str| {
        json!({"receive": {"target": target, "naming": "exact", "no_mount": false, "dry_run": false,
                           "force": true, "resumable": false, "props": [], "exclude": []}})
    };
    let before = site.state();
    for name in ["web", "web/etc", "web/usr", "web/usr/local"] {
        for request in [
            set(name, "readonly", "off"),
            set(name, "canmount", "off"),
            set(name, "org.example:note", "x"),
            json!({"inherit": {"names": [name], "prop": "readonly", "recursive": true}}),
            json!({"snapshot": {"names": [format!("{name}@2")], "recursive": true}}),
            json!({"snapshot": {"names": ["web/data@2", format!("{name}@2")], "recursive": false}}),
            json!({"rollback": {"name": format!("{name}@1"), "recursive": true, "force": true}}),
            json!({"rename": {"from": name, "to": "web/data/old"}}),
            json!({"rename": {"from": format!("{name}@1"), "to": "@old"}}),
            json!({"hold": {"names": [format!("{name}@1")], "tag": "t", "recursive": false}}),
            json!({"bookmark": {"of": format!("{name}@1"), "name": format!("{name}#1")}}),
            json!({"bookmark": {"of": "web/data@1", "name": format!("{name}#1")}}),
            json!({"unmount": {"target": name, "force": true}}),
            json!({"remount": {"name": name, "read_only": false, "allowed": {}}}),
            json!({"key-rotate": {"name": name, "how": "new"}}),
            destroy(name, false),
            destroy(&format!("{name}@1"), false),
            receive(&format!("{name}@2")),
            userspace(name),
        ] {
            site.refused(&request);
        }
    }
    for request in [
        // Names of the system.
        make("web/usr/more", json!([])),
        make("web/bin", json!([["readonly", "off"]])),
        parents,
        clone("web/data@1", "web/sbin", json!([])),
        json!({"rename": {"from": "web/data", "to": "web/lib"}}),
        json!({"rename": {"from": "web/data", "to": "web/etc/data"}}),
        receive("web/boot"),
        // It would take the snapshot of a fixed dataset.
        json!({"promote": {"name": "web/copy"}}),
        // The whole zone at once.
        json!({"snapshot": {"names": ["web@2"], "recursive": true}}),
        json!({"inherit": {"names": ["web"], "prop": "readonly", "recursive": true}}),
        prune("web"),
    ] {
        site.refused(&request);
    }
    assert_eq!(site.state(), before);
    // The others are the tenant's.
    for request in [
        set("web/data", "org.example:note", "x"),
        json!({"snapshot": {"names": ["web/data@2"], "recursive": true}}),
        json!({"rename": {"from": "web/data", "to": "web/more"}}),
        destroy("web/copy", false),
    ] {
        site.call(request).unwrap();
    }
    site.set_profile(ZoneProfile::FlexibleConfiguration);
    site.call(set("web/etc", "org.example:note", "x")).unwrap();
    site.refused(&set("web/usr", "org.example:note", "x"));
}

/// Datasets are made as the article does it. The help says `off`.
#[test]
fn new_datasets_and_their_parents_are_not_read_only() {
    let site = ZoneSite::with_system();
    site.zone(ZoneProfile::FixedConfiguration);
    let made = json!({"create": {"name": "web/export/home/ann", "props": [], "parents": true, "no_mount": true}});
    site.call(made).unwrap();
    let off = |source| ("off".to_owned(), source);
    assert_eq!(site.readonly("web/export"), off(ValueSource::Local));
    let from_export = || off(ValueSource::Inherited("web/export".into()));
    assert_eq!(site.readonly("web/export/home"), from_export());
    assert_eq!(site.readonly("web/export/home/ann"), from_export());
    // Those that were there too.
    assert_eq!(site.readonly("web/data"), off(ValueSource::Local));
    let on = (
        "on".to_owned(),
        ValueSource::Inherited("$globalzone".into()),
    );
    assert_eq!(site.readonly("web/usr/local"), on);
    // What the tenant makes read-only is so for what is below it.
    site.call(set("web/data", "readonly", "on")).unwrap();
    site.call(make("web/data/x", json!([]))).unwrap();
    assert_eq!(site.readonly("web/data/x").0, "on");
    // The profile changes, and back.
    site.set_profile(ZoneProfile::Strict);
    for name in ["web/export", "web/export/home/ann", "web/etc"] {
        assert_eq!(site.readonly(name), on);
    }
    site.set_profile(ZoneProfile::FlexibleConfiguration);
    for name in ["web/export", "web/etc"] {
        assert_eq!(site.readonly(name), off(ValueSource::Local));
    }
    assert_eq!(site.readonly("web/data").0, "on");
    assert_eq!(site.readonly("web/usr"), on);
    site.set_profile(ZoneProfile::None);
    assert_eq!(site.readonly("web").0, "off");
    assert_eq!(site.readonly("web/usr").0, "off");
}

/// A dataset that the global zone made read-only does not become writable by a profile.
#[test]
fn what_was_read_only_stays_so() {
    let site = ZoneSite::with_system();
    let on = vec![("readonly".to_owned(), "on".to_owned())];
    command(|context| site.daemon.set(&["tank/web".into()], &on, false, context)).unwrap();
    site.zone(ZoneProfile::FlexibleConfiguration);
    assert_eq!(site.readonly("web/data").0, "on");
    site.call(make("web/new", json!([]))).unwrap();
    assert_eq!(site.readonly("web/new").0, "off");
}

/// A command that was decided by one profile does nothing under another one.
#[test]
fn a_profile_counts_for_commands_that_run() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    let zone = site.daemon.zones.get("z").unwrap();
    let view = site.daemon.view(&zone).unwrap();
    let peer = command(|context| Ok::<_, Failure>(context.peer.clone())).unwrap();
    assert!(site.daemon.has_zone(&view, &peer));
    site.set_profile(ZoneProfile::Strict);
    assert!(!site.daemon.has_zone(&view, &peer));
}

/// After a restart, and from a file of a program without profiles.
#[test]
fn profiles_are_remembered() {
    let site = ZoneSite::new();
    site.zone(ZoneProfile::None);
    site.set_profile(ZoneProfile::Strict);
    let recalled = || {
        let zones = site.daemon.zones.recall().into_iter();
        zones
            .map(|(name, zone)| zone.into_zone(&name).profile())
            .collect::<Vec<_>>()
    };
    assert_eq!(recalled(), [ZoneProfile::Strict]);
    let file = site.dir.path().join("state/zones.json");
    let mut stored: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let zone = stored["z"].as_object_mut().unwrap();
    zone.remove("profile");
    zone.insert("immutable".into(), json!(true));
    std::fs::write(&file, stored.to_string()).unwrap();
    assert_eq!(recalled(), [ZoneProfile::FixedConfiguration]);
    let absent = command::ZoneSet {
        name: "nope".into(),
        profile: ZoneProfile::None,
    };
    let failure = command(|context| site.daemon.set_zone(&absent, context)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound);
}
