//! The daemon in one process, without mounts.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pool::{Host, Pool, PoolState, Reach};
use protocol::api::{Ask, DeviceGroup, FailureKind, NewPoolDevices, NewVolume, Props, command};
use secret::Secret;

use crate::failure::Result;
use crate::front_ends::FRONT_ENDS;
use crate::host::identity::this_host;
use crate::host::process::system::System;
use crate::shutdown::StoreRule;
use crate::state::callers::channel::Channel;
use crate::state::callers::channel::{NonInteractive, without_connection};
use crate::state::callers::context::CallerContext;
use crate::state::callers::decision::Internal;
use crate::state::daemon::Daemon;
use crate::state::exports::listen::Protocol;
use crate::state::memory::KnownPool;
use crate::state::pools::active_pool::ActivePool;

mod imports;
mod verifications;

const CACHE: u64 = 16 << 20;
pub(crate) const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub(crate) fn daemon(dir: &Path) -> Arc<Daemon> {
    Daemon::new(&dir.join("socket"), &dir.join("state"), CACHE, FRONT_ENDS)
}

/// Runs `work` as a command that cannot ask for input.
pub(crate) fn command<T>(work: impl FnOnce(&mut CallerContext<'_>) -> T) -> T {
    let mut nobody = NonInteractive::default();
    work(&mut CallerContext::internal("test", &mut nobody))
}

pub(crate) fn create_pool(daemon: &Arc<Daemon>, dir: &Path, name: &str) -> Arc<ActivePool> {
    create_mirror(daemon, dir, name, &[name])
}

/// Makes a pool of one mirror, of these files.
pub(crate) fn create_mirror(
    daemon: &Arc<Daemon>,
    dir: &Path,
    name: &str,
    files: &[&str],
) -> Arc<ActivePool> {
    let new = command::PoolCreate {
        pool: name.into(),
        devices: Box::new(NewPoolDevices {
            groups: vec![DeviceGroup {
                devices: files.iter().map(|file| dir.join(file)).collect(),
                parity: 0,
            }],
            logs: Vec::new(),
            caches: Vec::new(),
            spares: Vec::new(),
        }),
        size: Some(64 << 20),
        force: false,
        props: vec![("mountpoint".into(), "none".into())],
        no_mount: true,
        dry_run: false,
        altroot: None,
        temporary_name: None,
    };
    command(|context| daemon.create_pool(&new, context)).unwrap();
    daemon.pool(name).unwrap()
}

pub(crate) fn encrypted(keysource: &str) -> Props {
    vec![
        ("encryption".into(), "on".into()),
        ("keysource".into(), keysource.into()),
    ]
}

pub(crate) fn change_to(keysource: &str) -> command::KeyChange {
    command::KeyChange {
        keysource: Some(keysource.into()),
        ..command::KeyChange::default()
    }
}

/// The keysource of a new key file.
pub(crate) fn key_file(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    let key = keys::keygen(keys::MaterialFormat::Raw, 32, &cipher::SystemRandom).unwrap();
    keys::write_key_file(&path, &key).unwrap();
    format!("raw,file://{}", path.display())
}

/// A dataset to make that is not mounted.
pub(crate) fn unmounted(name: &str, props: &Props) -> command::Create {
    command::Create {
        name: name.into(),
        props: props.clone(),
        no_mount: true,
        ..command::Create::default()
    }
}

pub(crate) fn create(daemon: &Arc<Daemon>, name: &str, props: &Props) {
    command(|context| daemon.create(&unmounted(name, props), context)).unwrap();
}

/// A prompt that has not been answered yet.
struct Slow {
    asked: Sender<()>,
    answer: Receiver<()>,
}

impl Channel for Slow {
    fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
        self.asked.send(()).unwrap();
        self.answer.recv().unwrap();
        Ok(Some(Secret::from_slice(KEY.as_bytes())?))
    }

    fn notice(&mut self, _: String) {}

    without_connection!(rows pause data);
}

/// Has a command ask, does something before the answer comes, and returns what became of the command.
fn while_asked<T: Send>(
    work: impl FnOnce(&mut CallerContext<'_>) -> T + Send,
    meanwhile: impl FnOnce(),
) -> T {
    let (asked, was_asked) = channel();
    let (answer, answers) = channel();
    thread::scope(|scope| {
        let command = scope.spawn(|| {
            let mut slow = Slow {
                asked,
                answer: answers,
            };
            work(&mut CallerContext::internal("test", &mut slow))
        });
        was_asked.recv().unwrap();
        let begin = Instant::now();
        meanwhile();
        assert!(begin.elapsed() < Duration::from_secs(20));
        answer.send(()).unwrap();
        command.join().unwrap()
    })
}

#[test]
fn snapshots_follow_the_key_of_their_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let active = create_pool(&daemon, dir.path(), "tank");
    create(
        &daemon,
        "tank/top",
        &encrypted(&key_file(dir.path(), "one")),
    );
    create(&daemon, "tank/top/below", &Vec::new());
    let names = ["tank/top/below@before".to_owned()];
    command(|context| daemon.snapshot(&names, false, context)).unwrap();
    let entry = |name: &str| daemon.find(name).unwrap().1;
    let below = entry("tank/top/below");
    let top = entry("tank/top");
    assert_eq!(below.key_root, top.id);
    let source = key_file(dir.path(), "two");
    command(|context| {
        let change = change_to(&source);
        active.change_key(&below, &change, context)
    })
    .unwrap();

    // The old key is not needed, and the new one is.
    let snapshot = entry("tank/top/below@before");
    assert_eq!(active.key_root(&snapshot).unwrap(), below.id);
    let unload = |name: &str| {
        command(|context| daemon.key_unload(&[name.into()], false, false, context)).unwrap();
    };
    unload("tank/top");
    assert!(active.data_keys(&snapshot).unwrap().is_some());
    let status = |name: &str| daemon.key_status(&[name.into()]).unwrap().remove(0);
    assert_eq!(
        status("tank/top/below@before").key_root,
        "tank/top/below".to_owned()
    );
    assert_eq!(status("tank/top/below@before").status, "available");
    unload("tank/top/below");
    assert_eq!(status("tank/top/below@before").status, "unavailable");
    let failure = active.data_keys(&snapshot).unwrap_err();
    assert_eq!(failure.kind, FailureKind::NoKey);
}

#[test]
fn a_question_without_an_answer_blocks_no_other_command() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let active = create_pool(&daemon, dir.path(), "tank");
    let prompt = encrypted("hex,prompt");
    let made = while_asked(
        |context| daemon.create(&unmounted("tank/asked", &prompt), context),
        || create(&daemon, "tank/other", &Vec::new()),
    );
    made.unwrap();
    // What was assumed is looked at again.
    let made = while_asked(
        |context| daemon.create(&unmounted("tank/twice", &prompt), context),
        || create(&daemon, "tank/twice", &Vec::new()),
    );
    assert_eq!(made.unwrap_err().kind, FailureKind::Exists);
    let unload = ["tank/asked".to_owned()];
    command(|context| daemon.key_unload(&unload, false, false, context)).unwrap();
    let source = key_file(dir.path(), "new");
    let entry = active.pool.find("tank/asked").unwrap();
    let loaded = while_asked(
        |context| active.load_key(&entry, &[], false, context.decision, context.channel),
        || {
            command(|context| {
                daemon
                    .destroy("tank/asked", Reach::Below, false, false, context)
                    .map(drop)
            })
            .unwrap()
        },
    );
    assert_eq!(loaded.unwrap_err().kind, FailureKind::NotFound);
    create(&daemon, "tank/asked", &encrypted(&source));
    let entry = active.pool.find("tank/asked").unwrap();
    let changed = while_asked(
        |context| active.change_key(&entry, &change_to("hex,prompt"), context),
        || daemon.shut_down(&mut Vec::new()).unwrap(),
    );
    assert_eq!(changed.unwrap_err().kind, FailureKind::NotFound);
}

#[test]
fn pools_come_back_after_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    let tank = create_pool(&first, dir.path(), "tank");
    create_pool(&first, dir.path(), "vault");
    first.shut_down_by_force(StoreRule::GiveUp);
    assert!(first.pools().is_empty());
    assert_eq!(tank.pool.superblock().state, PoolState::Exported);
    drop((tank, first));

    // One that is not there for a while is not forgotten.
    std::fs::rename(dir.path().join("vault"), dir.path().join("away")).unwrap();
    let second = daemon(dir.path());
    second.import_remembered(Instant::now() + Duration::from_secs(60));
    assert_eq!(names(&second), ["tank"]);
    command(|context| second.export_pool("tank", false, context)).unwrap();
    drop(second);
    std::fs::rename(dir.path().join("away"), dir.path().join("vault")).unwrap();
    let third = daemon(dir.path());
    third.import_remembered(Instant::now() + Duration::from_secs(60));
    assert_eq!(names(&third), ["vault"]);
}

/// A key server that takes a connection and never says a word.
#[test]
fn the_start_does_not_wait_for_a_key_that_does_not_come() {
    if !Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        eprintln!("skipped: this system trusts no certificates, so no server is asked");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    create_pool(&first, dir.path(), "tank");
    for name in ["late", "never"] {
        let source = key_file(dir.path(), name);
        create(&first, &format!("tank/{name}"), &encrypted(&source));
    }
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let source = format!("raw,https://127.0.0.1:{port}/key");
    let tank = first.pool("tank").unwrap();
    let never = first.find("tank/never").unwrap().1;
    command(|context| {
        let change = [("keysource".to_owned(), Some(source))];
        let names = ["tank/never".to_owned()];
        tank.pool.set_props(&names, &change, &context.origin())
    })
    .unwrap();
    tank.accept_as_set(never.id);
    drop(tank);
    first.shut_down(&mut Vec::new()).unwrap();
    drop(first);

    let second = daemon(dir.path());
    second.import_remembered(Instant::now());
    let tank = second.pool("tank").unwrap();
    let (mut asking, _) = server.accept().unwrap();
    asking.set_nonblocking(true).unwrap();
    let still_waits = loop {
        match std::io::Read::read(&mut asking, &mut [0; 4096]) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    assert!(
        still_waits,
        "the start went on after the server was given up"
    );
    let id = |name| second.find(name).unwrap().1.id;
    while !tank.has_key(id("tank/late")) {
        thread::yield_now();
    }
    assert!(!tank.has_key(id("tank/never")));
}

/// A pool that another machine had when it stopped.
#[test]
fn the_host_that_used_a_pool_last_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    create_pool(&daemon, dir.path(), "tank");
    command(|context| daemon.export_pool("tank", false, context)).unwrap();
    let path = dir.path().join("tank");
    let elsewhere = |id, name: &str| {
        let device = block::FileDevice::open(&path, block::DeviceAccess::Exclusive).unwrap();
        let store = store::Store::open(vec![Arc::new(device)]).unwrap();
        let pool = Pool::open(Arc::new(store), Arc::new(System), false).unwrap();
        let name = name.into();
        pool.claim(Host { id, name }).unwrap();
    };
    let import = |force| {
        let import = command::PoolImport {
            search: vec![path.clone()],
            pool: Some("tank".into()),
            force,
            no_mount: true,
            ..command::PoolImport::default()
        };
        command(|context| daemon.import_pools(&import, None, context))
    };
    elsewhere(0x00c0_ffee, "far");
    let refused = import(false).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Busy);
    let said = &refused.message;
    assert!(said.contains("'far' (hostid 00c0ffee) at 2"), "{said}");
    let listed = daemon.importable(std::slice::from_ref(&path)).unwrap();
    assert_eq!((&*listed[0].host, listed[0].host_id), ("far", 0x00c0_ffee));
    assert!(listed[0].last_written > 0 && listed[0].active);
    // A machine that has the same name, and is another one.
    let own = this_host();
    elsewhere(own.id ^ 0x55, &own.name);
    assert_eq!(import(false).is_err(), own.id != 0);
    import(true).unwrap();
    let tank = daemon.pool("tank").unwrap();
    assert_eq!(tank.pool.superblock().host, own);
}

#[test]
fn what_was_not_to_be_written_comes_back_so() {
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    create_pool(&first, dir.path(), "tank");
    command(|context| first.export_pool("tank", false, context)).unwrap();
    let import = command::PoolImport {
        search: vec![dir.path().join("tank")],
        read_only: true,
        no_mount: true,
        ..command::PoolImport::default()
    };
    command(|context| first.import_pools(&import, None, context)).unwrap();
    first.shut_down(&mut Vec::new()).unwrap();
    drop(first);
    let second = daemon(dir.path());
    second.import_remembered(Instant::now() + Duration::from_secs(60));
    assert!(second.pool("tank").unwrap().pool.is_read_only());
}

/// A cluster decides which machine has such a pool.
#[test]
fn a_pool_that_is_not_remembered_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    create_pool(&first, dir.path(), "tank");
    let import = command::PoolImport {
        search: vec![dir.path().join("tank")],
        temporary: true,
        no_mount: true,
        ..command::PoolImport::default()
    };
    command(|context| first.export_pool("tank", false, context)).unwrap();
    command(|context| first.import_pools(&import, None, context)).unwrap();
    first.shut_down(&mut Vec::new()).unwrap();
    drop(first);
    let second = daemon(dir.path());
    second.import_remembered(Instant::now() + Duration::from_secs(60));
    assert!(second.pools().is_empty() && second.pool_table.absent().is_empty());
}

#[test]
fn a_pool_that_cannot_be_exported_stays_whole() {
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    let busy = create_pool(&first, dir.path(), "busy");
    create_pool(&first, dir.path(), "idle");
    let open = busy.pool.open_dataset(busy.pool.top().unwrap().id).unwrap();
    let exported = command(|context| first.export_pool("busy", false, context));
    assert_eq!(exported.unwrap_err().kind, FailureKind::Busy);
    assert_eq!(names(&first), ["busy", "idle"]);
    assert!(busy.has_worker());
    let destroyed = command(|context| first.destroy_pool("busy", false, context));
    assert_eq!(destroyed.unwrap_err().kind, FailureKind::Busy);
    assert!(busy.has_worker());

    // The other one has left properly, and is not forgotten.
    assert_eq!(
        first.shut_down(&mut Vec::new()).unwrap_err().kind,
        FailureKind::Busy
    );
    assert_eq!(names(&first), ["busy"]);
    assert!(busy.has_worker());
    create(&first, "busy/more", &Vec::new());
    drop(open);
    first.shut_down(&mut Vec::new()).unwrap();
    assert!(!busy.has_worker());
    drop((busy, first));
    let second = daemon(dir.path());
    second.import_remembered(Instant::now() + Duration::from_secs(60));
    assert_eq!(names(&second), ["busy", "idle"]);
}

fn names(daemon: &Daemon) -> Vec<String> {
    let pools = daemon.pools();
    pools.iter().map(|active| active.pool.name()).collect()
}

/// Wherever a daemon ends while it gives a pool another guid, the next one looks for the pool.
#[test]
fn a_pool_that_gets_another_guid_is_remembered_while_it_is_exported() {
    let dir = tempfile::tempdir().unwrap();
    let first = daemon(dir.path());
    let known = create_pool(&first, dir.path(), "tank").known();
    let known = KnownPool {
        becomes: Some(77),
        ..known
    };
    let next = || daemon(dir.path()).pool_table.recall().pools.remove("tank");
    first.pool_table.remember_renumbered("tank", known.clone());
    assert_eq!(next().unwrap().becomes, Some(77));
    command(|context| first.export_pool("tank", false, context)).unwrap();
    assert_eq!(next().unwrap().becomes, Some(77));
    first.pool_table.settle_renumbered("tank", true);
    assert_eq!(next().unwrap().becomes, Some(77));
    // One that stays is remembered as ever.
    create_pool(&first, dir.path(), "other");
    first.pool_table.remember_renumbered("other", known);
    first.pool_table.settle_renumbered("other", false);
    let other = daemon(dir.path()).pool_table.recall().pools.remove("other");
    assert_eq!(other.unwrap().becomes, None);
}

#[test]
fn an_exported_pool_has_closed_its_devices() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    // Another thread holds the pool a moment longer than the command that exports it.
    let active = create_pool(&daemon, dir.path(), "tank");
    let (done, is_done) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            command(|context| daemon.export_pool("tank", false, context)).unwrap();
            done.send(()).unwrap();
        });
        let early = is_done.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "its devices are still in use");
        drop(active);
        is_done.recv().unwrap();
    });
    let path = dir.path().join("tank");
    block::FileDevice::open(&path, block::DeviceAccess::Exclusive).unwrap();
}

/// A command that starts exports again meanwhile waits until the volume and its key are gone.
#[test]
fn nothing_exports_a_volume_again_before_its_key_is_unloaded() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let tank = create_pool(&daemon, dir.path(), "tank");
    let props = encrypted(&key_file(dir.path(), "key"));
    let volume = command::Create {
        volume: Some(NewVolume {
            size: 1 << 20,
            sparse: true,
        }),
        ..unmounted("tank/disk", &props)
    };
    command(|context| daemon.create(&volume, context)).unwrap();
    let export = command::NbdExport {
        device: "tank/disk".into(),
        ..command::NbdExport::default()
    };
    daemon.export_device(&export).unwrap();
    let is_open = || daemon.export_rows(Protocol::Nbd)[0].failure.is_none();

    let held = tank.lock(&Internal).unwrap();
    let names = ["tank/disk".to_owned()];
    thread::scope(|scope| {
        let unload =
            scope.spawn(|| command(|context| daemon.key_unload(&names, false, true, context)));
        while is_open() {
            thread::yield_now();
        }
        // The unloading waits for the pool, and nothing else changes exports meanwhile.
        let is_held = (0..1000).all(|_| {
            thread::yield_now();
            daemon.exported.changing.try_lock().is_none()
        });
        let again = scope.spawn(|| daemon.restore_offers());
        drop(held);
        unload.join().unwrap().unwrap();
        again.join().unwrap();
        assert!(is_held);
    });
    assert!(!is_open());
    let (_, disk) = daemon.find("tank/disk").unwrap();
    tank.load_key(&disk, &[], false, &Internal, &mut NonInteractive::default())
        .unwrap();
    daemon.restore_offers();
    assert!(is_open());
}

/// Whatever a client sends as the name of a device.
#[test]
fn no_device_of_an_unsupported_kind_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    for name in [
        "nbd+vsock://2/disk",
        "nbd://",
        "nbd://h/x?socket=/s",
        "gcs://bucket/pool",
        "s3://bucket/../pool",
    ] {
        let opened = daemon.open_device(Path::new(name), block::DeviceAccess::ReadOnly, "a test");
        let failure = opened.err().unwrap();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.message.starts_with(name), "{}", failure.message);
    }
}
