//! A delegate with a copy of a sealed dataset and the file with its key, but without the permission to use this
//! key.

use protocol::api::{Props, command};
use protocol::client::Data;

use super::site::{Site, ZONES};
use super::*;
use crate::tests::{command, create, create_pool, encrypted, key_file};

/// A stream in memory.
#[derive(Default)]
pub(super) struct Stream {
    bytes: Vec<u8>,
    at: usize,
}

impl Data for Stream {
    fn take(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend(piece);
        Ok(())
    }

    fn give(&mut self, piece: &mut [u8]) -> Result<usize> {
        let len = piece.len().min(self.bytes.len() - self.at);
        piece[..len].copy_from_slice(&self.bytes[self.at..][..len]);
        self.at += len;
        Ok(len)
    }
}

/// Gives the delegate permissions on a dataset and on the datasets below it.
pub(super) fn allow(site: &Site, dataset: &str, permissions: &str) {
    let (active, _) = site.daemon.find(dataset).unwrap();
    let allow = [
        format!("u12345 l {permissions}"),
        format!("u12345 d {permissions}"),
    ];
    let props = [("@allow".to_owned(), Some(allow.join("\n")))];
    let origin = command(|context| context.origin());
    active
        .pool
        .set_props(&[dataset.to_owned()], &props, &origin)
        .unwrap();
}

/// In another pool, and in the same one.
#[test]
fn no_file_of_root_opens_a_copy() {
    let site = Site::new(&ZONES[..1]);
    let dir = tempfile::tempdir().unwrap();
    create_pool(&site.daemon, dir.path(), "vault");
    let source = key_file(dir.path(), "key");
    create(&site.daemon, "tank/secret", &encrypted(&source));
    site.root(request!({"snapshot": {"names": ["tank/secret@1"]}}));
    for above in ["vault/ann", "tank/ann"] {
        create(&site.daemon, above, &Props::new());
        let all = "receive,create,mount,key,keysource,keychange,send";
        allow(&site, above, all);
        allow(&site, "tank/secret", "send");
        copy_stays_closed(&site, &format!("{above}/copy"), &source);
        command(|context| {
            let gone =
                site.daemon
                    .destroy(&format!("{above}/copy"), true.into(), true, false, context);
            gone.map(drop)
        })
        .unwrap();
    }
}

fn copy_stays_closed(site: &Site, copy: &str, source: &str) {
    let ann = site.delegate(|_| false);
    let mut stream = Stream::default();
    let send = request!({"send": {"what": {"snapshot": {"name": "tank/secret@1"}}, "raw": true}});
    site.transfer_as(&ann, &send, &mut stream).unwrap();
    let receive =
        request!({"receive": {"target": copy, "naming": "exact", "props": [], "exclude": []}});
    site.transfer_as(&ann, &receive, &mut stream).unwrap();

    let names = || vec![copy.to_owned()];
    let above = || vec![copy.rsplit_once('/').unwrap().0.to_owned()];
    let location = source.strip_prefix("raw,").unwrap();
    let load = |names: Vec<String>,
                recursive: bool,
                location: Option<&str>,
                keysource: Option<&str>,
                dry_run: bool| {
        request!({"key-load": {"names": names, "recursive": recursive, "location": location,
                               "keysource": keysource, "dry_run": dry_run}})
    };
    let accept = |names, recursive| Command::KeyAccept(command::KeyAccept { names, recursive });
    let before = site.state();
    for command in [
        accept(names(), false),
        accept(above(), true),
        load(names(), false, Some(location), None, false),
        load(names(), false, None, Some(source), false),
        load(names(), false, None, Some(source), true),
    ] {
        let outcome = site.ask_as(&ann, &command);
        assert!(is_refused(&outcome), "{command:?}: {outcome:?}");
        let told = outcome.unwrap_err().message;
        assert!(told.contains("'key'"), "{told}");
    }
    // What is above it has no key, which is what the command fails with first.
    let outcome = site.ask_as(&ann, &load(above(), true, Some(location), None, false));
    outcome.unwrap_err();
    // It is only proposed, and no user is asked for it.
    let outcome = site.ask_as(&ann, &load(names(), false, None, None, false));
    assert_eq!(outcome.unwrap_err().kind, FailureKind::NoKey);
    assert_eq!(site.state(), before);

    // Root opens it; that gives the data keys to no other user.
    site.root(load(names(), false, Some(location), None, false));
    let add = request!({"key-add": {"name": copy, "keysource": "hex,prompt", "priority": 128}});
    let outcome = site.ask_as(&ann, &add);
    assert!(is_refused(&outcome), "{outcome:?}");
    site.root(request!({"key-unload": {"names": names()}}));

    // With the permission where the data keys come from she may.
    allow(site, "tank/secret", "send,key");
    site.ask_as(&ann, &load(names(), false, Some(location), None, false))
        .unwrap();
}
