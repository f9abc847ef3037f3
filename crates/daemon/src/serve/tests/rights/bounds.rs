//! Bounds of what a caller may ask for and store.

use protocol::api::{Ask, DatasetRow, PropertyValue};
use protocol::client::Terminal;
use secret::Secret;

use super::keys::{Stream, allow};
use super::site::{Site, ZONES};
use super::*;
use crate::host::callers::users::Peer;
use crate::ops::users::delegation::lookups;

/// Remembers notices.
#[derive(Default)]
struct Listener(Vec<String>);

impl Terminal for Listener {
    fn ask(&mut self, _: &Ask) -> Result<Option<Secret>> {
        Ok(None)
    }

    fn notice(&mut self, text: &str) {
        self.0.push(text.into());
    }
}

fn get(names: &[&str], props: &[String], depth: Option<u32>) -> Command {
    request!({"get": {"names": names, "depth": depth, "snapshots": true, "bookmarks": true, "props": props}})
}

fn rows(site: &Site, peer: &Peer, command: &Command) -> Vec<DatasetRow> {
    match site.ask_as(peer, command).unwrap() {
        Reply::Datasets(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// The names and properties of rows.
fn cells(rows: &[DatasetRow]) -> Vec<String> {
    let name = |row: &DatasetRow| {
        let props = row.props.iter().map(|prop| prop.property.as_str());
        format!("{}: {}", row.name, props.collect::<Vec<_>>().join(","))
    };
    rows.iter().map(name).collect()
}

#[test]
fn repeated_names_and_properties_are_one() {
    let site = Site::new(&ZONES[..1]);
    allow(&site, "tank/web/fs", "mount,snapshot");
    let ann = site.delegate(|_| false);
    let names = vec!["tank/web/fs@1"; 5000];
    let props = vec!["used".to_owned(); 5000];
    let found = rows(&site, &ann, &get(&names, &props, Some(0)));
    assert_eq!(cells(&found), ["tank/web/fs@1: used"]);
    let marks = vec!["tank/web/fs#1"; 5000];
    assert_eq!(rows(&site, &ann, &get(&marks, &props, Some(0))).len(), 1);
}

/// A list or a range of snapshots may name the same ones again and again.
#[test]
fn a_hold_is_listed_once() {
    let site = Site::new(&ZONES[..1]);
    let snapshot = "tank/web/fs@1";
    site.root(request!({"hold": {"names": [snapshot], "tag": "kept"}}));
    allow(&site, "tank/web/fs", "mount");
    let ann = site.delegate(|_| false);
    let many = format!("tank/web/fs@{}", vec!["%"; 1000].join(","));
    let holds =
        request!({"holds": {"names": [snapshot, &many, "tank/web/fs@1%,%2,1"], "recursive": true}});
    match site.ask_as(&ann, &holds).unwrap() {
        Reply::Holds(rows) => assert_eq!(rows.len(), 1, "{rows:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_many_properties_are_refused() {
    let site = Site::new(&ZONES[..1]);
    let names = ["tank/web/fs"];
    let props = |count: usize| -> Vec<String> { (0..count).map(|at| format!("a:{at}")).collect() };
    let root = Peer {
        is_admin: true,
        ..site.delegate(|_| false)
    };
    assert_eq!(
        rows(&site, &root, &get(&names, &props(1000), Some(0)))[0]
            .props
            .len(),
        1000
    );
    let refused = site.ask_as(&root, &get(&names, &props(1001), Some(0)));
    assert_eq!(refused.unwrap_err().kind, FailureKind::Usage);
}

/// The answer comes in several frames, and each is small.
#[test]
fn a_long_answer_is_whole() {
    let site = Site::new(&ZONES);
    let props: Vec<String> = (0..1000).map(|at| format!("a:{at}")).collect();
    let root = Peer {
        is_admin: true,
        ..site.delegate(|_| false)
    };
    let short = rows(&site, &root, &get(&["tank"], &["guid".into()], None));
    let long = rows(&site, &root, &get(&["tank"], &props, None));
    let name = |row: &DatasetRow| row.name.clone();
    assert!(long.len() > 20);
    assert!(long.iter().map(name).eq(short.iter().map(name)));
    assert!(long.iter().all(|row| row.props.len() == 1000));
}

/// Rows that the caller may not see are not made, and take nothing of its budget.
#[test]
fn a_delegate_who_names_nothing_gets_its_own_rows() {
    let site = Site::new(&ZONES[..1]);
    allow(&site, "tank/web/fs", "mount");
    let ann = site.delegate(|_| false);
    let found = rows(&site, &ann, &get(&[], &["used".into()], None));
    let mut names: Vec<&str> = found.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.iter().all(|name| name.starts_with("tank/web/fs")));
    assert!(names.contains(&"tank/web/fs@1") && names.contains(&"tank/web/fs#1"));
}

/// A stream of another program, or of an older version, may have such characters.
#[test]
fn hidden_characters_do_not_come_with_a_stream() {
    let site = Site::new(&ZONES[..1]);
    let hidden = "\u{202e}gpj.exe";
    let props = [("a:bad", hidden), ("a:good", "plain")];
    let props = props.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    let (active, _) = site.daemon.find("tank/web/to").unwrap();
    let origin = crate::tests::command(|context| context.origin());
    active
        .pool
        .set_props(&["tank/web/to".into()], &props, &origin)
        .unwrap();
    let root = Peer {
        is_admin: true,
        ..site.delegate(|_| false)
    };
    let mut stream = Stream::default();
    let send = request!({"send": {"what": {"snapshot": {"name": "tank/web/to@1"}}, "raw": true, "props": true}});
    site.transfer_as(&root, &send, &mut stream).unwrap();
    let receive = request!({"receive": {"target": "tank/copy", "naming": "exact", "no_mount": true, "props": [],
                                        "exclude": []}});
    let mut listener = Listener::default();
    site.transfer_at(&root, &receive, &mut stream, &mut listener)
        .unwrap();
    let told = listener.0.join("\n");
    assert!(
        told.contains("'a:bad'") && told.contains("left out"),
        "{told}"
    );
    assert!(!told.contains('\u{202e}'), "{told}");
    let asked = ["a:bad".to_owned(), "a:good".to_owned()];
    let found = rows(&site, &root, &get(&["tank/copy"], &asked, Some(0)));
    let values = found[0].props.iter().map(|prop| prop.value.clone());
    let values: Vec<PropertyValue> = values.collect();
    assert_eq!(
        values,
        [PropertyValue::None, PropertyValue::Text("plain".into())]
    );
}

/// A decision is made under the lock of the pool too. So its work depends on the datasets, and not on how often a request
/// names them.
#[test]
fn a_decision_looks_at_each_dataset_once() {
    let site = Site::new(&ZONES[..1]);
    for name in super::site::INSIDE {
        allow(
            &site,
            &format!("tank/web/fs{name}"),
            "hold,snapshot,userprop,destroy,mount",
        );
    }
    let ann = site.delegate(|_| false);
    let many: Vec<String> = (0..9999).map(|n| format!("tank/web/fs@n{n}")).collect();
    let props: Vec<_> = (0..9999)
        .map(|n| (format!("a:{n}"), "x".to_owned()))
        .collect();
    for command in [
        request!({"hold": {"names": many.clone(), "tag": "tag", "recursive": true}}),
        request!({"snapshot": {"names": many.clone(), "recursive": true}}),
        request!({"holds": {"names": many.clone(), "recursive": true}}),
        request!({"set": {"names": many, "props": props}}),
    ] {
        lookups::take();
        let decision = Decision::new(&site.daemon, &ann, None, command.clone());
        decision.make().map(drop).unwrap();
        let looked = lookups::take();
        assert!(
            looked > 0 && looked <= 2 * super::site::INSIDE.len(),
            "{looked}: {command:?}"
        );
    }
}
