//! Names of datasets that a delegate must not learn.

use protocol::api::{DatasetRow, PropertyValue, WhoKind, command};

use super::samples::{create, props};
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
        Command::Snapshot(command::Snapshot {
            names: vec!["tank/web/fs@9".into()],
            recursive: true,
        }),
        Command::Hold(command::Hold {
            names: snapshots(),
            tag: "tag".into(),
            recursive: true,
        }),
        Command::Holds(command::Holds {
            names: snapshots(),
            recursive: true,
        }),
        Command::Get(command::Get {
            names: fs(),
            depth: None,
            snapshots: false,
            bookmarks: false,
            props: Vec::new(),
        }),
        Command::Inherit(command::Inherit {
            names: fs(),
            prop: "compression".into(),
            recursive: true,
        }),
        Command::Destroy(command::Destroy {
            name: "tank/web/fs".into(),
            recursive: true,
            clones: false,
            force: false,
            dry_run: true,
        }),
        Command::KeyUnload(command::KeyUnload {
            names: fs(),
            recursive: true,
            force: false,
        }),
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
        let load = |recursive| {
            Command::KeyLoad(command::KeyLoad {
                names: vec!["tank/web/fs".into()],
                recursive,
                location: location.map(str::to_owned),
                keysource: keysource.map(str::to_owned),
                dry_run: true,
            })
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
    let get = |name: &str, prop: &str| {
        Command::Get(command::Get {
            names: vec![name.into()],
            depth: Some(0),
            snapshots: false,
            bookmarks: false,
            props: vec![prop.into()],
        })
    };
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
    site.root(Command::Clone(command::Clone {
        snapshot: "tank/web/fs/x@2".into(),
        name: "tank/web/fs/second".into(),
        props: props(&[]),
        rekey: false,
        parents: false,
        no_mount: true,
    }));
    site.root(create("tank/web/fs/third".into(), &[]));
    let destroy = |name: &str, clones| {
        Command::Destroy(command::Destroy {
            name: name.into(),
            recursive: true,
            clones,
            force: false,
            dry_run: false,
        })
    };
    let rollback = |clones| {
        Command::Rollback(command::Rollback {
            name: "tank/web/fs/x@1".into(),
            recursive: true,
            clones,
            force: false,
        })
    };
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
