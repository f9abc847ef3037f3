//! Password hashes of a delegate hold up no other user, and end with their callers.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use keys::{HashCaller, HashPayer};
use protocol::api::{Ask, Command, Failure, FailureKind, Reply, Result, command};
use protocol::client::{DaemonConnection, Terminal};
use secret::Secret;

use super::keys::allow;
use super::samples::create;
use super::site::{Site, ZONES};
use crate::host::callers::users::Peer;
use crate::tests::command;

/// More than a delegate may have in the queue.
const MANY: usize = 9;

/// A key that opens nothing. It is not hashed.
const WRONG: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

const HOME: &str = "/home/ann-of-this-test";

/// Types a passphrase or key.
struct Typist(&'static str);

impl Terminal for Typist {
    fn ask(&mut self, _: &Ask) -> std::result::Result<Option<Secret>, Failure> {
        Ok(Some(Secret::from_slice(self.0.as_bytes()).unwrap()))
    }

    fn notice(&mut self, _: &str) {}
}

fn load(name: &str, dry_run: bool) -> Command {
    request!({"key-load": {"names": [name], "dry_run": dry_run}})
}

fn unload(name: &str) -> Command {
    request!({"key-unload": {"names": [name]}})
}

/// A site with a dataset whose key a delegate may load, and which is the delegate's home.
fn site(keysource: &str) -> Site {
    let site = Site::new(&ZONES[..1]);
    let props = [
        ("encryption", "on"),
        ("keysource", keysource),
        ("canmount", "noauto"),
        ("mountpoint", HOME),
    ];
    site.root(create("tank/ann".into(), &props));
    allow(&site, "tank/ann", "key");
    site
}

#[test]
fn a_delegate_who_fills_the_queue_does_not_hold_up_root() {
    let site = site("passphrase,prompt");
    let ann = site.delegate(|_| false);
    let payer = HashPayer::User(ann.uid);
    root_goes_first(&site, payer, &ann, &load("tank/ann", true));
}

/// A local user runs `su ann` many times.
#[test]
fn logins_that_fill_the_queue_do_not_hold_up_root() {
    let site = site("passphrase,prompt");
    let root = Peer {
        is_admin: true,
        ..site.delegate(|_| false)
    };
    let check = request!({"home": {"step": "check", "dir": HOME, "uid": root.uid}});
    root_goes_first(&site, HashPayer::Login(root.uid), &root, &check);
}

/// A payer who fills the queue by a command of a caller does not hold up root.
fn root_goes_first(site: &Site, payer: HashPayer, caller: &Peer, wanted: &Command) {
    keys::set_hash_memory(1 << 20);
    // A hash that does not end.
    let scope = keys::hash_for(HashCaller {
        payer,
        ..HashCaller::default()
    });
    let _running = keys::hash_memory(1, 1).unwrap();
    drop(scope);
    let (done, outcomes) = channel::<Result<Reply>>();
    let mut refused = None;
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..MANY {
            let (client, server) = UnixStream::pair().unwrap();
            clients.push(client.try_clone().unwrap());
            let (peer, done, daemon) = (caller.clone(), done.clone(), &site.daemon);
            scope.spawn(move || daemon.serve_peer(peer, server));
            scope.spawn(move || {
                let call = DaemonConnection::over(client)
                    .call(wanted.clone(), &mut Typist("correct horse"));
                done.send(call).unwrap();
            });
        }
        // One too many is refused. The others wait.
        refused = Some(outcomes.recv().unwrap());
        site.root(unload("tank/ann"));
        site.root(load("tank/ann", false));
        site.root(create("tank/other".into(), &[]));
        // Their callers go, and they leave the queue: the scope waits for the daemon's threads.
        for client in clients {
            client.shutdown(Shutdown::Both).unwrap();
        }
    });
    drop(done);
    let refused = refused.and_then(Result::err).unwrap();
    assert_eq!(refused.kind, FailureKind::Busy, "{}", refused.message);
    assert_eq!(outcomes.iter().filter(Result::is_err).count(), MANY - 1);
}

#[test]
fn no_hash_waits_with_the_lock_of_the_pool() {
    let site = site("passphrase,prompt");
    let active = site.daemon.pool("tank").unwrap();
    let entry = active.pool.find("tank/ann").unwrap();
    let was_locked = Arc::new(AtomicBool::new(false));
    let (seen, pool) = (Arc::clone(&was_locked), Arc::clone(&active));
    let _scope = keys::hash_for(HashCaller {
        is_gone: Some(Arc::new(move || {
            seen.fetch_or(!pool.is_lockable(), Ordering::AcqRel);
            false
        })),
        ..HashCaller::default()
    });
    let key = crate::tests::key_file(site.path(), "key");
    let passphrase = site.path().join("passphrase");
    std::fs::write(&passphrase, "correct horse battery").unwrap();
    let source = format!("passphrase,file://{}", passphrase.display());
    let change = |slot| command::KeyChange {
        slot,
        ..crate::tests::change_to(&source)
    };
    let add = |source: &str| command::KeyAdd {
        name: String::new(),
        keysource: Some(source.into()),
        priority: 128,
        pbkdf: None,
    };
    command(|context| {
        active.add_slot(&entry, &add(&source), context).unwrap();
        active
            .change_key(&entry, &change(Some(1)), context)
            .unwrap();
        let only = command::KeyChange {
            only: true,
            ..change(None)
        };
        active.change_key(&entry, &only, context).unwrap();
        active.add_slot(&entry, &add(&key), context).unwrap();
        let removed = active.remove_slot(&entry, 1, None, true, context);
        removed.unwrap();
    });
    assert!(!was_locked.load(Ordering::Acquire));
}

#[test]
fn a_delegate_tries_few_wrong_keys_and_root_is_not_locked_out() {
    let site = site("hex,prompt");
    let ann = site.delegate(|_| false);
    site.root(unload("tank/ann"));
    let mut tries = 0;
    let refused = loop {
        // A key load asks three times.
        let (client, server) = UnixStream::pair().unwrap();
        let failure = thread::scope(|scope| {
            scope.spawn(|| site.daemon.serve_peer(ann.clone(), server));
            let called =
                DaemonConnection::over(client).call(load("tank/ann", true), &mut Typist(WRONG));
            called.unwrap_err()
        });
        match failure.kind {
            FailureKind::WrongKey => tries += 1,
            _ => break failure,
        }
        assert!(tries < 20);
    };
    assert_eq!(refused.kind, FailureKind::Busy, "{}", refused.message);
    assert!(refused.message.contains("too many wrong keys"));
    site.root(load("tank/ann", false));
}
