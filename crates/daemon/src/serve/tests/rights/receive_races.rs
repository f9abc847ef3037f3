//! Receives of a delegate, while root makes or changes the dataset that they are for.

use std::sync::Arc;

use protocol::api::{Command, FailureKind, Reply, Result, command};
use protocol::client::Data;

use super::races::{Meanwhile, Work, ask_while};
use super::samples::create;
use super::site::{Site, ZONES};
use crate::host::callers::users::Peer;

/// The dataset that is received.
pub(super) const NEW: &str = "tank/web/to/new";

/// A stream that was sent.
#[derive(Default)]
pub(super) struct Sent(pub(super) Vec<u8>);

impl Data for Sent {
    fn take(&mut self, piece: &[u8]) -> std::result::Result<(), protocol::api::Failure> {
        self.0.extend(piece);
        Ok(())
    }

    fn give(&mut self, piece: &mut [u8]) -> std::result::Result<usize, protocol::api::Failure> {
        let len = piece.len().min(self.0.len());
        piece[..len].copy_from_slice(&self.0[..len]);
        self.0.drain(..len);
        Ok(len)
    }
}

fn root(site: &Site) -> Peer {
    Peer {
        is_admin: true,
        ..site.delegate(|_| false)
    }
}

fn snapshot(site: &Site, name: &str) {
    site.root(request!({"snapshot": {"names": [name]}}));
}

fn sent(site: &Site, name: &str, from: Option<&str>) -> Vec<u8> {
    let send = request!({"send": {"what": {"snapshot": {"name": name, "from": from}}}});
    let mut stream = Sent::default();
    site.transfer_as(&root(site), &send, &mut stream).unwrap();
    stream.0
}

pub(super) fn receive(force: bool, exclude: &[&str]) -> Command {
    request!({"receive": {"target": NEW, "naming": "exact", "force": force, "props": [], "exclude": exclude}})
}

/// A full stream, and one that goes on from it.
pub(super) struct Streams {
    pub(super) full: Vec<u8>,
    rest: Vec<u8>,
}

pub(super) fn site() -> (Arc<Site>, Streams) {
    let site = Site::new(&ZONES[..1]);
    site.root(create("tank/source".into(), &[]));
    snapshot(&site, "tank/source@1");
    snapshot(&site, "tank/source@2");
    let streams = Streams {
        full: sent(&site, "tank/source@1", None),
        rest: sent(&site, "tank/source@2", Some("@1")),
    };
    (Arc::new(site), streams)
}

/// Receives as root, with what is dangerous on.
fn receive_as_root(site: &Site, stream: &[u8]) {
    let receive = receive(false, &["setuid", "devices"]);
    let mut stream = Sent(stream.to_vec());
    site.transfer_as(&root(site), &receive, &mut stream)
        .unwrap();
}

/// The snapshots of the dataset that is received.
fn snapshots(site: &Site) -> Vec<String> {
    let pool = &site.daemon.pool("tank").unwrap().pool;
    let Ok(head) = pool.find(NEW) else {
        return Vec::new();
    };
    let all = pool.snapshots(head.id).unwrap().into_iter();
    all.map(|snapshot| snapshot.name.clone()).collect()
}

/// May make datasets below `to`, and receive, but no more.
pub(super) fn ann(site: &Site) -> Peer {
    site.delegate(|right| {
        right.dataset == "tank/web/to" && ["receive", "create", "mount"].contains(&right.permission)
    })
}

/// Gives the delegate the same rights on a dataset.
fn allow_ann(site: &Site, dataset: &str) {
    site.root(request!({"change-permissions": {"name": dataset, "who": ["12345"], "kind": "user",
                                               "permissions": ["receive", "create", "mount"], "local": true}}));
}

/// Receives as a delegate. Before each piece of the stream, and at each lock, in turn, root does some work. Returns the
/// outcomes.
fn receive_while(
    command: &Command,
    pieces: impl Fn(&Streams) -> Vec<Vec<u8>>,
    prepare: impl Fn(&Site, &Streams),
    work: impl Fn(&Site, &Streams) + Send + Sync + Clone + 'static,
    check: impl Fn(&Site, Result<Reply>),
) {
    for at in 0.. {
        let (site, streams) = site();
        prepare(&site, &streams);
        let pieces = pieces(&streams);
        let work = work.clone();
        let work: Arc<Work> = Arc::new(move |site: &Site| work(site, &streams));
        let meanwhile = Meanwhile::new(&site, at, &work);
        let outcome = ask_while(&ann(&site), command, &pieces, &meanwhile);
        if !meanwhile.was_done() {
            assert!(at > 1, "a receive waits for data");
            return;
        }
        check(&site, outcome);
    }
}

fn is_kind(outcome: Result<Reply>, kinds: &[FailureKind]) {
    let failure = outcome.unwrap_err();
    assert!(kinds.contains(&failure.kind), "{failure:?}");
}

/// The properties of a new dataset are safe. They are not those of a dataset that root has made meanwhile.
#[test]
fn a_dataset_that_was_made_meanwhile_is_not_extended() {
    for force in [false, true] {
        receive_while(
            &receive(force, &[]),
            |streams| vec![streams.rest.clone()],
            |_, _| {},
            |site, streams| {
                receive_as_root(site, &streams.full);
                // Without the right to destroy.
                snapshot(site, &format!("{NEW}@of-root"));
            },
            |site, outcome| {
                is_kind(
                    outcome,
                    &[
                        FailureKind::Busy,
                        FailureKind::Permission,
                        FailureKind::Other,
                    ],
                );
                let there = snapshots(site);
                assert!(there.contains(&"of-root".to_owned()), "{there:?}");
                assert!(!there.contains(&"2".to_owned()), "{there:?}");
            },
        );
    }
}

/// A stream that may hold programs of root is refused if its dataset began to let them work.
#[test]
fn a_dataset_that_allows_more_meanwhile_is_not_extended() {
    receive_while(
        &receive(false, &[]),
        |streams| vec![streams.rest.clone()],
        |site, streams| {
            // Received without -x: with safe values.
            let mut stream = Sent(streams.full.clone());
            let safe = receive(false, &[]);
            site.transfer_as(&root(site), &safe, &mut stream).unwrap();
            allow_ann(site, NEW);
        },
        |site, _| {
            let set = command::Set {
                names: vec![NEW.into()],
                props: vec![("setuid".into(), "on".into())],
                force: false,
            };
            site.root(Command::Set(set));
        },
        |site, outcome| match outcome {
            // The order of the two commands is the other one.
            Ok(_) => assert_eq!(snapshots(site), ["1", "2"]),
            Err(failure) => {
                assert_eq!(failure.kind, FailureKind::Permission, "{failure:?}");
                assert_eq!(snapshots(site), ["1"]);
            }
        },
    );
}

/// A delegate may receive several streams at once into the dataset that the first of them makes, without a right on it.
#[test]
fn one_receive_may_extend_what_it_has_made() {
    let (site, streams) = site();
    let both = [&streams.full[..], &streams.rest].concat();
    let mut stream = Sent(both);
    let outcome = site.transfer_as(&ann(&site), &receive(false, &[]), &mut stream);
    outcome.unwrap();
    assert_eq!(snapshots(&site), ["1", "2"]);
    let head = site.daemon.pool("tank").unwrap().pool.find(NEW).unwrap();
    assert_eq!(head.props["setuid"], "off");
    assert_eq!(head.props["devices"], "off");
}

/// Receives two streams, and root takes the dataset over between the two.
#[test]
fn what_a_receive_has_made_is_not_extended_once_it_allows_more() {
    receive_while(
        &receive(false, &[]),
        |streams| vec![streams.full.clone(), streams.rest.clone()],
        |_, _| {},
        |site, _| {
            if snapshots(site).is_empty() {
                return;
            }
            let set = command::Set {
                names: vec![NEW.into()],
                props: vec![("setuid".into(), "on".into())],
                force: false,
            };
            site.root(Command::Set(set));
        },
        |site, outcome| {
            let head = site.daemon.pool("tank").unwrap().pool.find(NEW).unwrap();
            let is_off = head.props["setuid"] == "off";
            match (outcome, is_off) {
                (Ok(_), _) => assert_eq!(snapshots(site), ["1", "2"]),
                (Err(failure), false) => {
                    assert_eq!(failure.kind, FailureKind::Permission, "{failure:?}");
                    assert_eq!(snapshots(site), ["1"]);
                }
                (Err(failure), true) => panic!("{failure:?}"),
            }
        },
    );
}
