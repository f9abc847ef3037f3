//! Names of datasets that a delegate must not learn.

use protocol::api::{DatasetRow, PropertyValue, WhoKind, command};

use super::samples::create;
use super::site::{Right, Site, ZONES};
use super::*;

fn refusal(outcome: Result<Reply>) -> String {
    match outcome {
        Err(failure) if failure.kind == FailureKind::Permission => failure.message,
        other => panic!("{other:?}"),
    }
}

/// A delegate with all rights on one dataset, and none on those below it.
#[test]
fn a_command_on_all_below_names_none_of_them() {
    let site = Site::new(&ZONES[..1]);
    let before = site.state();
    let on_fs = site.delegate(|right| right.dataset == "tank/web/fs");
    let fs = || vec!["tank/web/fs".to_owned()];
    let snapshots = || vec!["tank/web/fs@1".to_owned()];
    let allow = command::ChangePermissions {
        name: "tank/web/fs".into(),
        remove: false,
        who: vec!["12346".into()],
        kind: Some(WhoKind::User),
        permissions: vec!["hold".into()],
        local: true,
        below: true,
    };
    for command in [
        request!({"snapshot": {"names": ["tank/web/fs@9"], "recursive": true}}),
        request!({"hold": {"names": snapshots(), "tag": "tag", "recursive": true}}),
        request!({"holds": {"names": snapshots(), "recursive": true}}),
        request!({"get": {"names": fs(), "props": []}}),
        request!({"inherit": {"names": fs(), "prop": "compression", "recursive": true}}),
        request!({"destroy": {"name": "tank/web/fs", "recursive": true, "dry_run": true}}),
        request!({"key-unload": {"names": fs(), "recursive": true}}),
        Command::ChangePermissions(allow),
    ] {
        let told = refusal(site.ask_as(&on_fs, &command));
        assert!(!told.contains("tank/web/fs/"), "{told}");
    }
    assert_eq!(site.state(), before);
}

/// A place of a key is named for all datasets whose key is read from it.
#[test]
fn a_place_of_a_key_is_allowed_where_it_is_used() {
    let site = Site::new(&ZONES[..1]);
    let has = |right: &Right| match right.permission {
        "key" => true,
        "keysource" => right.dataset == "tank/web/fs",
        _ => false,
    };
    for (location, keysource) in [
        (Some("file:///nonexistent"), None),
        (None, Some("raw,file:///nonexistent")),
    ] {
        let load = |recursive: bool| {
            request!({"key-load": {"names": ["tank/web/fs"], "recursive": recursive, "location": location,
                                   "keysource": keysource, "dry_run": true}})
        };
        let peer = site.delegate(has);
        let alone = site.ask_as(&peer, &load(false));
        assert!(!is_refused(&alone), "{alone:?}");
        refusal(site.ask_as(&peer, &load(true)));
    }
}

#[test]
fn clones_of_others_are_not_named() {
    let site = Site::new(&ZONES[..1]);
    let on = |dataset: &'static str| site.delegate(move |right| right.dataset == dataset);
    let get =
        |name: &str, prop: &str| request!({"get": {"names": [name], "depth": 0, "props": [prop]}});
    let value = |peer, name, prop| match site.ask_as(peer, &get(name, prop)) {
        Ok(Reply::Datasets(rows)) => {
            let rows: Vec<DatasetRow> = rows;
            rows[0].props[0].value.clone()
        }
        other => panic!("{other:?}"),
    };
    let (of_x, of_clone) = (on("tank/web/fs/x"), on("tank/web/fs/clone"));
    assert_eq!(
        value(&of_x, "tank/web/fs/x@1", "clones"),
        PropertyValue::None
    );
    assert_eq!(
        value(&of_clone, "tank/web/fs/clone", "origin"),
        PropertyValue::None
    );
    let both = site.delegate(|_| true);
    assert_eq!(
        value(&both, "tank/web/fs/x@1", "clones"),
        PropertyValue::Text("tank/web/fs/clone".into())
    );

    // A later snapshot with a clone is in the way of a rollback.
    site.root(request!({"clone": {"snapshot": "tank/web/fs/x@2", "name": "tank/web/fs/second", "props": [],
                                  "no_mount": true}}));
    site.root(create("tank/web/fs/third".into(), &[]));
    let destroy = |name: &str, clones: bool| request!({"destroy": {"name": name, "recursive": true, "clones": clones}});
    let rollback = |clones: bool| request!({"rollback": {"name": "tank/web/fs/x@1", "recursive": true, "clones": clones}});
    let before = site.state();
    for (command, kind) in [
        (destroy("tank/web/fs/x@1", false), FailureKind::Busy),
        (destroy("tank/web/fs/x@1", true), FailureKind::Permission),
        (destroy("tank/web/fs/x", false), FailureKind::Busy),
        (rollback(false), FailureKind::Busy),
        (rollback(true), FailureKind::Permission),
    ] {
        let failure = site.ask_as(&of_x, &command).unwrap_err();
        assert_eq!(failure.kind, kind, "{failure:?}");
        let told = failure.message;
        assert!(
            !told.contains("clone,") && !told.contains("fs/clone"),
            "{told}"
        );
        assert!(!told.contains("second"), "{told}");
    }
    assert_eq!(site.state(), before);
}
