//! The same requests to each kind of store.

use objects::store::{Creation, MeteredStore, ProbeDepth, ProbeReport, executor, probe};

use crate::support::Client;

/// All that the line asks of a store.
pub(crate) fn check(client: &Client) {
    // There is nothing yet, and that is no error.
    assert!(client.list("", None, 10).unwrap().is_empty());
    assert!(client.list("log/", None, 10).unwrap().is_empty());
    assert_eq!(client.get("log/1", 0, 10).unwrap(), None);
    client.delete("log/1").unwrap();

    assert_eq!(client.create("log/1", b"first").unwrap(), Creation::Made);
    assert_eq!(client.create("log/1", b"second").unwrap(), Creation::Exists);
    let part = client.get("log/1", 0, 100).unwrap().unwrap();
    assert_eq!((&part.bytes[..], part.size), (&b"first"[..], 5));
    let part = client.get("log/1", 1, 3).unwrap().unwrap();
    assert_eq!((&part.bytes[..], part.size), (&b"ir"[..], 5));
    // Behind the end.
    let part = client.get("log/1", 5, 9).unwrap().unwrap();
    assert_eq!((part.bytes.len(), part.size), (0, 5));

    client.replace("log/1", b"").unwrap();
    let part = client.get("log/1", 0, 100).unwrap().unwrap();
    assert_eq!((part.bytes.len(), part.size), (0, 0));
    client.replace("pool", b"new").unwrap();

    for number in 2..8 {
        client.create(&format!("log/{number}"), b"x").unwrap();
    }
    // In order, and not beyond the prefix.
    client.create("map/1", b"").unwrap();
    client.create("logs/1", b"").unwrap();
    let names = |after, limit| {
        let listed = client.list("log/", after, limit).unwrap();
        listed
            .into_iter()
            .map(|object| (object.name, object.size))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = (1..8)
        .map(|number| (format!("log/{number}"), u64::from(number > 1)))
        .collect();
    assert_eq!(names(None, 100), all);
    assert_eq!(names(None, 3), all[..3]);
    assert_eq!(names(Some("log/3"), 2), all[3..5]);
    assert_eq!(names(Some("log/31"), 2), all[3..5]);
    assert_eq!(names(Some("log/9"), 2), []);
    assert_eq!(client.list("", None, 100).unwrap().len(), 10);

    for object in client.list("", None, 100).unwrap() {
        client.delete(&object.name).unwrap();
    }
    assert!(client.list("", None, 10).unwrap().is_empty());
}

/// Judges a store. The report is complete, and nothing is left.
pub(crate) fn judge(client: &Client) -> ProbeReport {
    let report = probe(&client.store, &client.executor, ProbeDepth::Brief).unwrap();
    assert_eq!(report.leftovers, Vec::<String>::new());
    assert_eq!(client.list("", None, 10).unwrap(), []);
    report
}

#[test]
fn requests_are_counted() {
    use std::sync::Arc;
    let folder = tempfile::tempdir().unwrap();
    let store = crate::folder::client(folder.path()).store;
    let metered = Arc::new(MeteredStore::new(store));
    let client = Client {
        store: metered.clone(),
        executor: executor(),
    };
    client.create("a", b"12345").unwrap();
    client.create("a", b"12345").unwrap();
    client.replace("a", b"123").unwrap();
    client.get("a", 1, 10).unwrap();
    client.get("b", 1, 10).unwrap();
    client.list("", None, 10).unwrap();
    client.delete("a").unwrap();
    let totals = metered.totals();
    assert_eq!((totals.creates, totals.replaces, totals.gets), (2, 1, 2));
    assert_eq!((totals.lists, totals.deletes, totals.outages), (1, 1, 0));
    assert_eq!((totals.bytes_sent, totals.bytes_received), (13, 2));
}
