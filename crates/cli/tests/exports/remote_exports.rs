//! Exports of other NBD servers as devices. `./test` installs nbdkit and qemu-nbd.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use crate::common::*;

/// A server of others, at a socket in a place.
struct Program {
    line: String,
    socket: std::path::PathBuf,
    child: Option<Child>,
}

impl Program {
    /// Runs a command line that serves an export; `{DIR}` is the place. Nothing if the program is not installed.
    fn start(place: &Place, name: &str, line: &str) -> Option<Program> {
        needs!(is_installed(line.split(' ').next().unwrap()));
        let mut program = Program {
            line: line.replace("{DIR}", place.root().to_str().unwrap()),
            socket: place.path(name),
            child: None,
        };
        program.again();
        Some(program)
    }

    /// nbdkit with a file of this size.
    fn of_file(place: &Place, name: &str, size: u64) -> Option<Program> {
        let image = format!("{name}.img");
        File::create(place.path(&image))
            .unwrap()
            .set_len(size)
            .unwrap();
        Program::start(place, name, &format!("nbdkit -f file {{DIR}}/{image}"))
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it after it was killed. Clients can connect at once: the socket is there before the program.
    fn again(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket).unwrap();
        let line = &self.line;
        let script = format!("LISTEN_PID=$$ LISTEN_FDS=1 exec {line} 3<&0 0</dev/null");
        let mut command = Command::new("sh");
        let command = command.args(["-c", &script]);
        let command = command.stdin(Stdio::from(OwnedFd::from(listener)));
        self.child = Some(command.spawn().unwrap());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes an encrypted dataset in the pool, and returns where it is mounted.
fn mounted(place: &Place) -> std::path::PathBuf {
    let key = place.path("raw");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{} -o mountpoint={} tank/fs",
        key.display(),
        place.arg("mnt")
    ));
    place.path("mnt")
}

#[test]
fn a_pool_on_an_export_is_a_pool() {
    needs!(can_mount());
    let mut place = Place::new();
    let mut server = needs!(Program::of_file(&place, "a", 128 << 20));
    let uri = server.uri();
    // Another spelling of the same address.
    place.ok(&format!(
        "pool create -m none tank {}",
        uri.replace("///", "//")
    ));
    has(&place.ok("pool status tank"), &uri);
    let dir = mounted(&place);
    let files = [contents(1, 3 << 20), contents(2, 100)];
    write_synced(&dir.join("a"), &files[0]).unwrap();
    write_synced(&dir.join("b"), &files[1]).unwrap();
    let check = || {
        assert!(fs::read(place.path("mnt/a")).unwrap() == files[0]);
        assert!(fs::read(place.path("mnt/b")).unwrap() == files[1]);
    };
    place.ok("pool scrub -w tank");
    place.says("pool status tank", "with 0 errors");
    // It has one user.
    for line in [
        format!("pool create other {uri}"),
        format!("luks format --batch-mode --key-file {{DIR}}/raw {uri}"),
        format!("luks open --key-file {{DIR}}/raw {uri} x"),
        format!("nbd export --name x {uri}"),
    ] {
        place.refuses(&line, BUSY, "tank");
    }
    place.refuses(&format!("pool create -s 64M other {uri}"), USAGE, "-s");
    // What looks for pools does not disturb it.
    place.says(&format!("pool import -d {uri}"), "no pools");

    place.ok("pool export tank");
    place.says(&format!("pool import -d {uri}"), "tank");
    place.ok(&format!("pool import -l --accept -d {uri} tank"));
    check();
    // A restart, and a crash of both sides: what was synced is there.
    place.ok("daemon stop");
    place.wait_for_end();
    place.start();
    // The daemon answers when it has mounted everything.
    place.ok("pool list");
    assert!(fs::read(place.path("mnt/a")).unwrap() == files[0]);
    write_synced(&place.path("mnt/c"), &files[1]).unwrap();
    server.kill();
    place.kill();
    server.again();
    place.start();
    place.ok("pool list");
    for (name, file) in [("a", 0), ("b", 1), ("c", 1)] {
        assert!(
            fs::read(place.path("mnt").join(name)).unwrap() == files[file],
            "{name}"
        );
    }
    place.ok("pool scrub -w tank");
    place.says("pool status tank", "with 0 errors");
}

#[test]
fn a_pool_whose_server_ends_is_suspended_and_comes_again() {
    needs!(can_mount());
    let place = Place::new();
    let mut server = needs!(Program::of_file(&place, "a", 128 << 20));
    let uri = server.uri();
    place.ok(&format!("pool create -m none tank {uri}"));
    let dir = mounted(&place);
    let file = contents(1, 1 << 20);
    write_synced(&dir.join("a"), &file).unwrap();
    place.ok("snapshot tank/fs@before");
    server.kill();
    assert!(write_synced(&dir.join("b"), &file).is_err());
    let unread = place.fails("send -w tank/fs@before", DEVICE);
    has(&unread, "the server closed the connection");
    let status = place.ok("pool status tank");
    has(&status, "SUSPENDED");
    has(&status, "the server closed the connection");
    place.fails("pool clear tank", DEVICE);
    server.again();
    // Whether the commit could read all that it needed decides which of them it takes.
    if place.run(&place.words("pool clear tank")).code != 0 {
        place.ok("pool export -f tank");
        place.ok(&format!("pool import -d {uri} tank"));
        place.ok("mount -a -l");
    }
    assert!(fs::read(dir.join("a")).unwrap() == file);
    write_synced(&dir.join("b"), &file).unwrap();
    place.ok("pool scrub -w tank");
    place.says("pool status tank", "with 0 errors");
}

#[test]
fn what_a_server_refuses_for_a_while_is_written_later() {
    needs!(can_mount());
    let place = Place::new();
    File::create(place.path("img"))
        .unwrap()
        .set_len(128 << 20)
        .unwrap();
    let line = "nbdkit -f --filter=error file {DIR}/img error-pwrite=ENOSPC error-pwrite-rate=100% \
                error-pwrite-file={DIR}/full error-zero=ENOSPC error-zero-rate=100% error-zero-file={DIR}/full";
    let server = needs!(Program::start(&place, "a", line));
    place.ok(&format!("pool create -m none tank {}", server.uri()));
    let dir = mounted(&place);
    let file = contents(1, 1 << 20);
    write_synced(&dir.join("a"), &file).unwrap();
    File::create(place.path("full")).unwrap();
    assert!(write_synced(&dir.join("b"), &file).is_err());
    place.says("pool status tank", "SUSPENDED");
    assert!(place.run(&place.words("pool clear tank")).code != 0);
    fs::remove_file(place.path("full")).unwrap();
    place.ok("pool clear tank");
    lacks(&place.ok("pool status tank"), "SUSPENDED");
    write_synced(&dir.join("c"), &file).unwrap();
    assert!(fs::read(dir.join("a")).unwrap() == file);
}

#[test]
fn a_mirror_goes_on_without_a_server_and_takes_it_again() {
    needs!(can_mount());
    let place = Place::new();
    let (Some(one), Some(mut two)) = (
        Program::of_file(&place, "a", 128 << 20),
        Program::of_file(&place, "b", 128 << 20),
    ) else {
        return;
    };
    place.ok(&format!(
        "pool create -m none tank mirror {} {}",
        one.uri(),
        two.uri()
    ));
    let dir = mounted(&place);
    let file = contents(1, 1 << 20);
    write_synced(&dir.join("a"), &file).unwrap();
    two.kill();
    write_synced(&dir.join("b"), &file).unwrap();
    place.says("pool status tank", "DEGRADED");
    let away = place.fails(&format!("pool online tank {}", two.uri()), DEVICE);
    has(&away, &two.uri());
    two.again();
    place.ok(&format!("pool clear tank {}", two.uri()));
    place.ok("pool scrub -w tank");
    let status = place.ok("pool status tank");
    lacks(&status, "DEGRADED");
    has(&status, "with 0 errors");
}

/// A device of the pool itself is recognised by its label, whatever its name is. It is taken again, and never overwritten.
#[test]
fn a_device_of_the_pool_has_another_address() {
    let place = Place::new();
    let server = needs!(Program::of_file(&place, "a", 128 << 20));
    place.pool("outer");
    place.ok("create -s -V 128M outer/disk");
    let link = place.path("link");
    std::os::unix::fs::symlink(&server.socket, &link).unwrap();
    let other_uri = format!("nbd+unix:///?socket={}", link.display());
    let file = File::create(place.path("file")).unwrap();
    file.set_len(128 << 20).unwrap();
    place.ok(&format!(
        "pool create -m none tank mirror {{DIR}}/file {}",
        server.uri()
    ));
    // The export is in use at its other address. Another client is a danger, also with force.
    for force in ["", "-f"] {
        let add = format!("pool attach {force} tank {{DIR}}/file {other_uri}");
        place.refuses(&add, BUSY, "of the pool 'tank' itself");
    }
    place.ok("pool attach tank {DIR}/file volume:outer/disk");
    place.ok("pool wait -t resilver tank");

    let away = [
        (server.uri(), other_uri),
        ("volume:outer/disk".into(), "volume:outer/moved".into()),
    ];
    for (old, new) in away {
        place.ok(&format!("pool offline tank {old}"));
        if new.starts_with("volume:") {
            place.ok("rename outer/disk outer/moved");
        }
        for force in ["", "-f"] {
            let replace = format!("pool replace {force} tank {old} {new}");
            let refusal = place.fails(&replace, EXISTS);
            has(&refusal, &format!("strongroom pool online tank {new}"));
        }
        place.ok(&format!("pool online tank {new}"));
        let status = place.ok("pool status tank");
        has(&status, &new);
        lacks(&status, &old);
    }
    place.ok("pool scrub -w tank");
    let status = place.ok("pool status tank");
    lacks(&status, "DEGRADED");
    has(&status, "with 0 errors");
}

/// A server that keeps what was not flushed in memory, and loses it: what was synced is there, also where the daemon went on
/// meanwhile.
#[test]
fn a_power_cut_of_the_server_loses_nothing_that_was_synced() {
    needs!(can_mount());
    let mut place = Place::new();
    File::create(place.path("img"))
        .unwrap()
        .set_len(128 << 20)
        .unwrap();
    let line = "nbdkit -f --filter=cache file {DIR}/img cache=writeback";
    let mut server = needs!(Program::start(&place, "a", line));
    let uri = server.uri();
    place.ok(&format!("pool create -m none tank {uri}"));
    let dir = mounted(&place);
    for round in 0..6 {
        write_synced(
            &dir.join(format!("synced-{round}")),
            &contents(round, 300_000),
        )
        .unwrap();
        // This may be lost, and nothing else.
        fs::write(
            dir.join(format!("more-{round}")),
            contents(round, 2_000_000),
        )
        .unwrap();
        if round % 3 == 0 {
            place.run(&place.words("pool sync tank"));
            fs::write(dir.join("unsynced"), contents(round, 900_000)).unwrap();
        }
        server.kill();
        if round % 2 == 0 {
            place.kill();
            server.again();
            place.start();
            place.ok("pool list");
        } else {
            // The daemon finds out by itself.
            let _ = write_synced(&dir.join("refused"), &contents(round, 5000));
            server.again();
            if place.run(&place.words("pool clear tank")).code != 0 {
                place.ok("pool export -f tank");
                place.ok(&format!("pool import -l --accept -d {uri} tank"));
            }
        }
        for before in 0..=round {
            let found = fs::read(dir.join(format!("synced-{before}"))).unwrap();
            assert!(found == contents(before, 300_000), "{round}: {before}");
        }
        place.ok("pool scrub -w tank");
        place.says("pool status tank", "with 0 errors");
    }
}

/// Each command that names a device takes an export.
#[test]
fn exports_are_devices_in_every_command() {
    let place = Place::new();
    let mut servers = Vec::new();
    for name in ["a", "b", "c", "log", "cache"] {
        let server = needs!(Program::of_file(&place, name, 128 << 20));
        servers.push(server);
    }
    let [a, b, c, log, cache] = [0, 1, 2, 3, 4].map(|nth| servers[nth].uri());
    place.pool("tank");
    let file = place.arg("tank.pool");
    place.ok(&format!("pool attach tank {file} {a}"));
    place.ok(&format!("pool add tank log {log} cache {cache}"));
    place.ok("pool scrub -w tank");
    place.ok(&format!("pool detach tank {file}"));
    place.ok(&format!("pool replace tank {a} {b}"));
    place.ok("pool scrub -w tank");
    let status = place.ok("pool status tank");
    for device in [&b, &log, &cache] {
        has(&status, device);
    }
    lacks(&status, &a);
    has(&place.ok("pool iostat -v tank"), &b);
    // By another spelling, and what is not there.
    place.ok(&format!("pool offline tank {}", b.replace("///", "//")).replace("offline", "online"));
    place.fails(&format!("pool detach tank {c}"), NOT_FOUND);
    place.ok(&format!("pool remove tank {cache}"));
    place.ok(&format!("pool remove tank {log}"));
    place.ok("pool export tank");
    place.ok(&format!("pool import -d {b} tank"));
    place.ok("pool destroy -f tank");
    // It is free again.
    place.ok(&format!("pool create -f -m none tank {b} {c}"));
    has(&place.ok("pool list -v tank"), &c);
}

#[test]
fn containers_are_on_exports_too() {
    let place = Place::new();
    let server = needs!(Program::of_file(&place, "a", 64 << 20));
    let uri = server.uri();
    fs::write(place.path("key"), "correct horse").unwrap();
    let key = place.arg("key");
    let kdf = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    place.ok(&format!(
        "luks format --batch-mode {kdf} --key-file {key} {uri}"
    ));
    place.says(&format!("luks dump {uri}"), "LUKS");
    place.ok(&format!("luks open --key-file {key} {uri} x"));
    has(&place.ok("luks status x"), &uri);
    // Its header is the daemon's now, under any spelling.
    place.says(&format!("luks dump {}", uri.replace("///", "//")), "LUKS");
    place.refuses(&format!("pool create tank {uri}"), BUSY, "mapping 'x'");
    place.ok("nbd export luks:x");
    place.ok("nbd unexport x");
    place.ok("luks close x");
    place.ok(&format!("nbd export --name again --read-only {uri}"));
    has(&place.ok("nbd list"), &uri);
    place.ok("nbd unexport again");
    place.refuses("luks dump nbd+unix:///x", USAGE, "?socket=");
}

#[test]
fn an_export_for_reading_is_imported_for_reading() {
    let place = Place::new();
    let mut server = needs!(Program::of_file(&place, "a", 128 << 20));
    place.ok(&format!("pool create -m none tank {}", server.uri()));
    place.ok("pool export tank");
    server.line = server.line.replace("nbdkit -f", "nbdkit -f -r");
    server.again();
    let uri = server.uri();
    place.refuses(&format!("pool import -d {uri} tank"), DEVICE, "read-only");
    place.ok(&format!("pool import -o readonly=on -d {uri} tank"));
    place.says("pool list tank", "ONLINE");
}

/// Pools whose servers are away do not keep other pools from the start.
#[test]
fn the_daemon_starts_without_a_server() {
    let mut place = Place::new();
    let mut server = needs!(Program::of_file(&place, "a", 128 << 20));
    let uri = server.uri();
    place.ok(&format!("pool create -m none far {uri}"));
    place.pool("near");
    place.ok("daemon stop");
    place.wait_for_end();
    server.kill();
    place.start();
    place.says("pool list -H", "near");
    let status = place.ok("pool status");
    has(&status, "far");
    // With the reason.
    has(&status, &format!("cannot open {uri}: "));
    server.again();
    place.ok("pool import far");
    has(&place.ok("pool status far"), &uri);
}

#[test]
fn a_server_that_came_back_as_another_is_not_written_to() {
    let place = Place::new();
    let mut server = needs!(Program::of_file(&place, "a", 128 << 20));
    place.ok(&format!("pool create -m none tank {}", server.uri()));
    server.kill();
    assert!(place.run(&place.words("create tank/fs")).code != 0);
    place.says("pool status tank", "SUSPENDED");
    File::create(place.path("a.img"))
        .unwrap()
        .set_len(128 << 20)
        .unwrap();
    server.again();
    place.fails("pool clear tank", DEVICE);
    let mut empty = fs::read(place.path("a.img")).unwrap();
    empty.retain(|byte| *byte != 0);
    assert!(empty.is_empty(), "something was written");
}

/// Strongroom is the server too. A daemon does not use its own exports.
#[test]
fn two_daemons_share_a_volume_one_as_server() {
    let (below, above) = (Place::new(), Place::new());
    below.pool("tank");
    below.ok("create -s -V 128M tank/disk");
    below.ok("nbd export tank/disk");
    let uri = format!("nbd+unix:///tank/disk?socket={}", below.arg("nbd.sock"));
    above.ok(&format!("pool create -m none upper {uri}"));
    above.ok("pool scrub -w upper");
    has(&above.ok("pool status upper"), &uri);
    above.ok("pool export upper");
    let own = below.fails(&format!("pool import -d {uri} upper"), USAGE);
    has(&own, "volume:tank/disk");
}

/// Only root has the daemon connect anywhere.
#[test]
fn users_and_tenants_name_no_servers() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/web");
    place.ok(&format!(
        "allow {ANN} create,mount,destroy,snapshot,mountpoint,keysource tank/web"
    ));
    place.ok(&format!("zone create web --dataset tank/web --owner {BOB}"));
    let unix = UnixListener::bind(place.path("trap")).unwrap();
    fs::set_permissions(place.path("trap"), fs::Permissions::from_mode(0o777)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    unix.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let zone = place.path("zones/web");
    for uri in [
        format!("nbd+unix:///x?socket={}", place.arg("trap")),
        format!("nbd://127.0.0.1:{}/x", tcp.local_addr().unwrap().port()),
    ] {
        for line in [
            format!("pool create -m none evil {uri}"),
            format!("pool import -d {uri}"),
            format!("pool import -d {uri} evil"),
            format!("pool add -f tank {uri}"),
            format!("pool attach tank {} {uri}", place.arg("tank.pool")),
            format!("pool add tank cache {uri}"),
            format!("luks dump {uri}"),
            format!("luks open {uri} x"),
            format!("luks format --batch-mode {uri}"),
            format!("nbd export --name x {uri}"),
            format!("iscsi export --no-authentication {uri}"),
            format!("create -o keysource=raw,{uri} -o encryption=on tank/web/x"),
        ] {
            for (who, socket) in [(ANN, place.socket()), (BOB, zone.clone())] {
                let done = place.run_as((who, who), &socket, &line);
                assert!(done.code != 0, "{who}: {line}");
            }
        }
    }
    let nobody = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::WouldBlock);
    nobody(unix.accept().expect_err("no client"));
    nobody(tcp.accept().expect_err("no client"));
}
