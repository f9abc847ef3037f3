//! Zones: tenants at sockets of their own.

use std::fs::{self};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use rustix::fs::{CWD, RenameFlags};

/// Runs a command at the socket of a zone, as a user; returns how it ended, what it printed and what it
/// said.
fn run_as(place: &Place, user: (u32, u32), zone: &str, line: &str) -> Done {
    place.run_as(user, &place.path("zones").join(zone), line)
}

fn may(place: &Place, uid: u32, line: &str) -> String {
    let done = run_as(place, (uid, uid), "z", line);
    assert_eq!(done.code, 0, "{line}: {done:?}\n{}", place.log());
    done.out
}

fn may_not(place: &Place, uid: u32, line: &str) -> String {
    let done = run_as(place, (uid, uid), "z", line);
    assert_eq!(done.code, PERMISSION, "{line}: {done:?}");
    done.err
}

#[test]
fn a_tenant_has_a_part_of_the_pool() {
    let mut place = needs!(shared_place());
    place.pool("eizoss");
    let key = place.arg("p");
    fs::write(&key, "zfscrypto").unwrap();
    place.ok(&format!(
        "create -o encryption=on -o keysource=passphrase,file://{key} eizoss/zones"
    ));
    place.ok("create eizoss/zones/z");
    place.ok("create eizoss/other");
    place.ok("zone create z --dataset eizoss/zones/z --alias rpool --owner 12345");
    let rows = place.ok("zone list -H");
    let socket = place.path("zones/z");
    let row = [
        "z",
        "eizoss/zones/z",
        "rpool",
        "none",
        "12345",
        socket.to_str().unwrap(),
    ];
    assert_eq!(rows, row.join("\t") + "\n");
    place.says("--json zone list", "\"alias\": \"rpool\"");

    may(&place, ANN, "create rpool/export");
    may(
        &place,
        ANN,
        "create -o encryption=on -o keysource=passphrase,prompt rpool/export/bob",
    );
    // As the article shows it.
    let shown = may(
        &place,
        ANN,
        "get -H encryption,keysource rpool rpool/export/bob",
    );
    let source = format!("passphrase,file://{key}");
    let expected = [
        ["rpool", "encryption", "on", "inherited from $globalzone"],
        ["rpool", "keysource", &source, "inherited from $globalzone"],
        ["rpool/export/bob", "encryption", "on", "local"],
        [
            "rpool/export/bob",
            "keysource",
            "passphrase,prompt",
            "local",
        ],
    ];
    let expected = expected.map(|row| row.join("\t") + "\n").concat();
    assert_eq!(shown, expected);
    let listed = may(&place, ANN, "list -H -o name");
    assert_eq!(listed, "rpool\nrpool/export\nrpool/export/bob\n");
    let history = place.ok("pool history -l eizoss");
    has(
        &history,
        "strongroom create eizoss/zones/z/export [user 12345 on ",
    );
    has(&history, ":z]");

    // Other users reach nothing, and through it not even root reaches more.
    may_not(&place, BOB, "list");
    may_not(&place, 0, "pool status");
    assert_eq!(
        run_as(&place, (0, 0), "z", "list eizoss/other").code,
        NOT_FOUND
    );
    may_not(&place, ANN, "zone list");
    // The daemon's own socket is not for her.
    assert_eq!(
        fs::metadata(place.socket()).unwrap().permissions().mode() & 0o777,
        0o600
    );

    // It is there again after a restart, and a crash.
    place.terminate();
    place.start();
    may(&place, ANN, "snapshot -r rpool@1");
    place.kill();
    place.start();
    may(&place, ANN, "destroy -f rpool/export@1");
    place.ok("zone create staff --dataset eizoss/other --owner :54321");
    assert_eq!(
        run_as(&place, (BOB, STAFF), "staff", "create other/x").code,
        0
    );
    assert_eq!(run_as(&place, (BOB, BOB), "staff", "list").code, PERMISSION);
    place.ok("zone create own --dataset eizoss/zones/z/export");
    let mode = |zone: &str| {
        fs::metadata(place.path("zones").join(zone))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!((mode("own") & 0o777, mode("z") & 0o777), (0o600, 0o666));
    place.ok("zone destroy own");
    assert!(!place.path("zones/own").exists());
    place.fails("zone destroy own", NOT_FOUND);
}

#[test]
fn what_has_a_key_of_its_own_can_be_sent() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("keygen {DIR}/k");
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/k tank/z");
    place.ok("zone create z --dataset tank/z --owner 12345");
    may(&place, ANN, "create z/inherits");
    may(&place, ANN, "create -o keysource=passphrase,prompt z/mine");
    may(&place, ANN, "snapshot -r z@1");
    may_not(&place, ANN, "send -w z/inherits@1");
    may_not(&place, ANN, "send -w z@1");
    may_not(&place, ANN, "send z@1");
    may(&place, ANN, "diff z@1");
    may_not(&place, ANN, "key unload z/inherits");
    may_not(&place, ANN, "key load z");
    let stream = place.path("stream");
    let output = place
        .command()
        .env("STRONGROOM_SOCKET", place.path("zones/z"))
        .args(["send", "-w", "z/mine@1"])
        .uid(ANN)
        .stdout(fs::File::create(&stream).unwrap())
        .status();
    assert!(output.unwrap().success());
    let received = place.run_with(&["receive", "tank/copy"], &fs::read(&stream).unwrap());
    assert_eq!(received.code, 0, "{received:?}");
    place.ok_with("key load tank/copy", "correct horse\n");
}

/// Runs a receive at the socket of a zone, as Ann, of a stream in a file.
fn receive_in_zone(place: &Place, options: &str, stream: &str) -> Done {
    let output = place
        .command()
        .env("STRONGROOM_SOCKET", place.path("zones/z"))
        .arg("receive")
        .args(words(options))
        .uid(ANN)
        .stdin(fs::File::open(place.path(stream)).unwrap())
        .output()
        .unwrap();
    Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8_lossy(&output.stdout).into(),
        err: String::from_utf8_lossy(&output.stderr).into(),
    }
}

#[test]
fn what_a_tenant_receives_is_below_the_zones_root_and_says_nothing_for_others() {
    let place = needs!(shared_place());
    place.pool("tank");
    for (name, key) in [("k", [b'k'; 32]), ("other", [b'o'; 32])] {
        fs::write(place.path(name), key).unwrap();
    }
    let source = |key: &str| {
        format!(
            "-o encryption=on -o keysource=raw,file://{}",
            place.arg(key)
        )
    };
    place.ok(&format!("create {} -o quota=4M tank/z", source("k")));
    place.ok(&format!("create {} tank/src", source("other")));
    place.ok("set reservation=1M exec=off setuid=on org:note=x tank/src");
    place.ok("snapshot tank/src@1");
    place.ok("zone create z --dataset tank/z --owner 12345");
    for (how, file) in [(&["-w", "-p"][..], "sealed"), (&["-p"], "clear")] {
        let sent = place
            .command()
            .arg("send")
            .args(how)
            .arg("tank/src@1")
            .stdout(fs::File::create(place.path(file)).unwrap())
            .status();
        assert!(sent.unwrap().success());
    }
    let get = |name: &str, props: &str| place.ok(&format!("get -H -o value,source {props} {name}"));

    // Sealed, it is opened by the sender's key, which is typed. What would be the global zone's to say is not
    // taken.
    let done = receive_in_zone(&place, "z/sealed", "sealed");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(get("tank/z/sealed", "keysource"), "hex,prompt\tlocal\n");
    assert_eq!(
        get("tank/z/sealed", "setuid,devices,exec,reservation"),
        "off\tlocal\noff\tlocal\non\tdefault\nnone\tdefault\n"
    );
    assert_eq!(get("tank/z/sealed", "org:note"), "x\tlocal\n");
    // In the clear, it gets data keys that the root's key wraps.
    let done = receive_in_zone(&place, "z/clear", "clear");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        get("tank/z/clear", "keysource"),
        format!("raw,file://{}\tinherited from tank/z\n", place.arg("k"))
    );
    assert_eq!(get("tank/z/clear", "setuid"), "off\tlocal\n");
    may(&place, ANN, "snapshot z/clear@mine");
    may_not(&place, ANN, "send -w z/clear@mine");
    // Clones get by no detour what it came without.
    may(&place, ANN, "clone z/clear@mine z/again");
    assert_eq!(get("tank/z/again", "setuid"), "off\tlocal\n");

    for (target, code) in [
        ("-s z/x", PERMISSION),
        ("-o mountpoint=/etc z/x", PERMISSION),
        ("-o setuid=on z/x", PERMISSION),
        ("-o quota=1M z", PERMISSION),
        ("-x setuid z/x", PERMISSION),
        ("-o compression=off z/clear", USAGE),
        ("tank/x", 3),
        ("z/clear@mine", USAGE),
    ] {
        let done = receive_in_zone(&place, target, "clear");
        assert_eq!(done.code, code, "{target}: {done:?}");
        lacks(&done.err, "tank/z");
    }
    // What was there before may hold programs of root's: nothing is added to it.
    may(&place, ANN, "create z/own");
    let done = receive_in_zone(&place, "-F z/own", "clear");
    assert_ne!(done.code, 0, "{done:?}");
}

/// The tenant writes in the root's files. Links made there lead no mount elsewhere.
#[test]
fn links_lead_no_mount_out_of_the_zone() {
    let place = needs!(shared_place());
    needs!(can_mount());
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/z", dir.display()));
    place.ok("zone create z --dataset tank/z --owner 12345");
    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    may(&place, ANN, "create z/a");
    fs::write(dir.join("a/file"), "x").unwrap();
    assert_eq!(fs::read_to_string(dir.join("a/file")).unwrap(), "x");
    may(&place, ANN, "unmount z/a");
    let refused = fs::remove_dir(dir.join("a")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ResourceBusy);
    may(&place, ANN, "set canmount=off z/a");
    fs::remove_dir(dir.join("a")).unwrap();
    symlink(&out, dir.join("a")).unwrap();
    may(&place, ANN, "set canmount=noauto z/a");
    for line in ["mount z/a", "create z/a/below"] {
        let done = run_as(&place, (ANN, ANN), "z", line);
        assert_ne!(done.code, 0, "{line}: {done:?}");
    }
    // Nor root's, who does not know.
    place.fails("mount tank/z/a", OTHER);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    fs::remove_file(dir.join("a")).unwrap();
    may(&place, ANN, "mount z/a");
    assert_eq!(fs::read_to_string(dir.join("a/file")).unwrap(), "x");
    may(&place, ANN, "unmount z/a");
    may_not(&place, ANN, "mount z/a /tmp");
}

/// While commands mount and make datasets, their user exchanges a directory on the way with a symbolic link, and so
/// does a delegate: nothing is mounted, made or removed where the link leads.
#[test]
fn an_exchanged_directory_leads_no_mount_elsewhere() {
    let place = needs!(shared_place());
    needs!(can_mount());
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/z", dir.display()));
    place.ok("zone create z --dataset tank/z --owner 12345");
    place.ok("allow 12345 create,destroy,mount,rename tank/z");
    place.ok("create -o canmount=off tank/z/a");
    place.ok("create -u tank/z/a/b");
    // What a link leads to: a place of root's, with empty directories by the names of the datasets.
    let victim = place.path("victim");
    for name in ["", "b", "c"] {
        fs::create_dir_all(victim.join(name)).unwrap();
    }
    let look = || {
        let mut found: Vec<String> = ["", "b", "c", "d"]
            .map(|name| match fs::symlink_metadata(victim.join(name)) {
                Ok(is) => format!("{name} {} {:o} {:?}", is.ino(), is.mode(), is.modified()),
                Err(_) => format!("no {name}"),
            })
            .into();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let there = victim.display().to_string();
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&there))
                .map(str::to_owned),
        );
        found
    };
    let before = look();
    fs::create_dir_all(dir.join("a")).unwrap();
    symlink(&victim, dir.join("link")).unwrap();
    std::os::unix::fs::chown(&dir, Some(ANN), Some(ANN)).unwrap();
    let zone = place.path("zones").join("z");
    let global = place.socket();
    let mut done = 0;
    let exchanges = while_exchanging(&dir, || {
        for _ in 0..10 {
            for (socket, root) in [(&zone, "z"), (&global, "tank/z")] {
                for line in [
                    "mount R/a/b",
                    "unmount R/a/b",
                    "create R/a/c",
                    "rename R/a/c R/a/d",
                    "destroy R/a/d",
                ] {
                    let line = line.replace('R', root);
                    let code = place.run_as((ANN, ANN), socket, &line).code;
                    done += i32::from(code == 0);
                    assert_eq!(look(), before, "{line}");
                }
                // What the link kept from being done.
                for name in ["c", "d"] {
                    let line = format!("destroy -f {root}/a/{name}");
                    place.run_as((ANN, ANN), socket, &line);
                }
            }
        }
    });
    assert!(exchanges > 0 && done > 0, "{exchanges} {done}");
    println!("{done} commands done, {exchanges} exchanges");
    place.ok("unmount -f -a");
    assert_eq!(look(), before);
}

/// Does something while a thread of the tenant exchanges `a` and `link` in a directory; says how often it did.
fn while_exchanging(dir: &Path, work: impl FnOnce()) -> u32 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let exchanging = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(ANN);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let (a, link) = (dir.join("a"), dir.join("link"));
                let exchanged =
                    rustix::fs::renameat_with(CWD, &a, CWD, &link, RenameFlags::EXCHANGE);
                count += u32::from(exchanged.is_ok());
            }
            count
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        let count = exchanging.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        count
    })
}

#[test]
fn the_files_of_an_immutable_root_are_read_only() {
    let place = needs!(shared_place());
    needs!(can_mount());
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/z", dir.display()));
    fs::write(dir.join("before"), "x").unwrap();
    fs::create_dir(dir.join("data")).unwrap();
    place.ok("zone create z --dataset tank/z --immutable --owner 12345");
    assert!(fs::write(dir.join("after"), "x").is_err());
    assert_eq!(fs::read_to_string(dir.join("before")).unwrap(), "x");
    may_not(&place, ANN, "set readonly=off z");
    may(&place, ANN, "create z/data");
    fs::write(dir.join("data/file"), "x").unwrap();
    assert_eq!(
        may(&place, ANN, "get -H -o value,source readonly z"),
        "on\tinherited from $globalzone\n"
    );
    // Root of the machine can manage it.
    place.ok("set readonly=off tank/z");
    fs::write(dir.join("after"), "x").unwrap();
    place.ok("set readonly=on tank/z");
}

/// The article makes datasets with their parents in an immutable zone, and `get readonly` is `off` there.
#[test]
fn datasets_with_parents_are_mounted_in_an_immutable_zone() {
    let place = needs!(shared_place());
    needs!(can_mount());
    place.pool("eizoss");
    let dir = place.path("mnt");
    place.ok(&format!(
        "create -o mountpoint={} eizoss/rpool",
        dir.display()
    ));
    place.ok("create eizoss/rpool/usr");
    let zone = "--dataset eizoss/rpool --alias rpool --owner 12345 z";
    let is_wrong = |line: &str| assert_eq!(place.run(&words(line)).code, USAGE, "{line}");
    is_wrong(&format!("zone create --profile nope {zone}"));
    is_wrong(&format!("zone create --profile none --immutable {zone}"));
    place.ok(&format!(
        "zone create --file-mac-profile fixed-configuration {zone}"
    ));
    place.says("zone list", "fixed-configuration");
    may(&place, ANN, "create -p rpool/export/home");
    let readonly = may(
        &place,
        ANN,
        "get -H -o value readonly rpool/export rpool/export/home",
    );
    assert_eq!(readonly, "off\noff\n");
    let mounted = may(&place, ANN, "get -H -o value mounted rpool/export/home");
    assert_eq!(mounted, "yes\n");
    fs::write(dir.join("export/home/file"), "x").unwrap();
    assert!(fs::write(dir.join("file"), "x").is_err());
    assert!(fs::write(dir.join("usr/file"), "x").is_err());
    may_not(&place, ANN, "unmount -f rpool/usr");
    may_not(&place, ANN, "create rpool/sbin");

    is_wrong("zone set file-mac-profile=nope z");
    is_wrong("zone set quota=1G z");
    place.fails("zone set profile=none nope", NOT_FOUND);
    place.ok("zone set file-mac-profile=strict z");
    let refused = fs::write(dir.join("export/home/more"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(
        fs::read_to_string(dir.join("export/home/file")).unwrap(),
        "x"
    );
    may_not(&place, ANN, "snapshot rpool/export@1");
    place.ok("zone set profile=none z");
    fs::write(dir.join("usr/file"), "x").unwrap();
    may(&place, ANN, "snapshot -r rpool@1");
}
