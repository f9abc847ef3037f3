//! Interrupted receives of datasets that do not exist yet: who sees them, and who destroys them by their names.

use protocol::api::{Command, FailureKind, PropertyValue, Reply, Result};

use super::receive_races::{NEW, Sent, ann, receive, site};
use super::site::Site;
use crate::host::callers::users::Peer;

/// The dataset above, whose rights decide.
const ABOVE: &str = "tank/web/to";

fn destroy(name: &str, dry_run: bool) -> Command {
    request!({"destroy": {"name": name, "dry_run": dry_run}})
}

fn listed(site: &Site, peer: &Peer, names: &[&str]) -> Result<Vec<String>> {
    let get = request!({"get": {"names": names, "props": ["used"]}});
    match site.ask_as(peer, &get)? {
        Reply::Datasets(rows) => Ok(rows
            .into_iter()
            .inspect(|row| {
                assert!(
                    matches!(row.props[0].value, PropertyValue::Bytes(_)),
                    "{row:?}"
                )
            })
            .map(|row| row.name)
            .collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rights_on_the_dataset_above_decide() {
    let (site, streams) = site();
    let Command::Receive(mut cut) = receive(false, &[]) else {
        panic!()
    };
    cut.resumable = true;
    let mut stream = Sent(streams.full[..streams.full.len() - 100].to_vec());
    let ann = ann(&site);
    site.transfer_as(&ann, &Command::Receive(cut), &mut stream)
        .unwrap_err();
    let pool = &site.daemon.pool("tank").unwrap().pool;
    let is_there = || pool.interrupted_as(NEW).unwrap().is_some();
    assert!(is_there());

    // The same words for a caller without rights as for a name that nothing has.
    let nobody = site.delegate(|right| right.dataset == "tank/web/fs");
    let told = |peer: &Peer, name: &str| {
        let failure = site.ask_as(peer, &destroy(name, false)).unwrap_err();
        (failure.kind, failure.message.replace(name, "NAME"))
    };
    assert_eq!(told(&nobody, NEW), told(&nobody, "tank/web/to/none"));
    let get = |name: &str| {
        let failure = listed(&site, &nobody, &[name]).unwrap_err();
        (failure.kind, failure.message.replace(name, "NAME"))
    };
    assert_eq!(get(NEW), get("tank/web/to/none"));
    let seen = listed(&site, &nobody, &[]).unwrap();
    assert!(!seen.iter().any(|name| name == NEW), "{seen:?}");

    // A right on the dataset above shows it.
    for names in [&[][..], &[ABOVE], &[NEW]] {
        let seen = listed(&site, &ann, names).unwrap();
        assert!(seen.iter().any(|name| name == NEW), "{seen:?}");
    }
    // To receive is not to destroy.
    assert_eq!(told(&ann, NEW).0, FailureKind::Permission);
    for lacking in ["destroy", "mount"] {
        let has = |permission: &str| ["destroy", "mount"].contains(&permission);
        let peer = site.delegate(|right| {
            right.dataset == ABOVE && has(right.permission) && right.permission != lacking
        });
        assert_eq!(told(&peer, NEW).0, FailureKind::Permission);
    }
    assert!(is_there());
    // A tenant has no receives that stay.
    let tenant = |dry_run| site.ask_in("web", &destroy("web/to/new", dry_run));
    assert_eq!(tenant(true).unwrap_err().kind, FailureKind::NotFound);
    assert_eq!(tenant(false).unwrap_err().kind, FailureKind::NotFound);
    assert!(is_there());

    let may = site.delegate(|right| {
        right.dataset == ABOVE && ["destroy", "mount"].contains(&right.permission)
    });
    match site.ask_as(&may, &destroy(NEW, true)).unwrap() {
        Reply::Doomed(doomed) => assert_eq!(doomed.destroyed, [NEW]),
        other => panic!("{other:?}"),
    }
    assert!(is_there());
    site.ask_as(&may, &destroy(NEW, false)).unwrap();
    assert!(!is_there());
}
