//! Permissions of users who are not root, at the socket of root's daemon.

use std::fs::{self};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;

use crate::common::*;
use rustix::process::{Pid, Resource, Rlimit, Uid};

/// A pool `tank` with `tank/a` and `tank/b`, in a place that others can reach; `None` if this is not root.
fn tank() -> Option<Place> {
    let place = shared_place()?;
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("create tank/b");
    Some(place)
}

/// Runs a command as a user, and returns how it ended and what it said.
fn run_as(place: &Place, user: (u32, u32), line: &str) -> (i32, String) {
    let done = place.run_as(user, &place.socket(), line);
    (done.code, done.out + &done.err)
}

fn may(place: &Place, uid: u32, line: &str) -> String {
    let (code, said) = run_as(place, (uid, uid), line);
    assert_eq!(code, 0, "{line}: {said}");
    said
}

fn may_not(place: &Place, uid: u32, line: &str) -> String {
    let (code, said) = run_as(place, (uid, uid), line);
    assert_eq!(code, PERMISSION, "{line}: {said}");
    said
}

#[test]
fn datasets_of_ones_own() {
    let place = needs!(tank());
    let socket = || fs::metadata(place.socket()).unwrap().permissions().mode() & 0o777;
    assert_eq!(socket(), 0o600);
    place.ok("allow 12345 create,mount,snapshot,destroy tank/a");
    assert_eq!(socket(), 0o666);

    may(&place, ANN, "create tank/a/x");
    may(&place, ANN, "snapshot -r tank/a@1");
    let history = place.ok("pool history -l tank");
    has(&history, "[user 12345 on ");
    may_not(&place, BOB, "create tank/a/y");
    let said = may_not(&place, ANN, "create tank/b/x");
    has(&said, "'tank/b': you have no permission on it");
    let said = may_not(&place, ANN, "set compression=lz4 tank/a");
    has(
        &said,
        "'tank/a': you do not have the permission 'compression' on it",
    );
    may_not(&place, ANN, "create tank/x");
    may_not(&place, ANN, "create -p tank/a/y/z");
    may_not(&place, ANN, "rename tank/a/x tank/a/y");
    may_not(&place, ANN, "rollback tank/a@1");
    may_not(&place, ANN, "hold tag tank/a@1");
    may_not(&place, ANN, "clone tank/a@1 tank/a/clone");
    place.ok("allow 12345 rename,clone,promote,rollback,hold,release tank/a");
    may(&place, ANN, "clone tank/a@1 tank/a/clone");
    may(&place, ANN, "rename tank/a/clone tank/a/copy");
    may_not(&place, ANN, "rename tank/a/copy tank/b/copy");
    may(&place, ANN, "promote tank/a/copy");
    may(&place, ANN, "hold tag tank/a/copy@1");
    may(&place, ANN, "release tag tank/a/copy@1");
    may(&place, ANN, "snapshot -r tank/a@9");
    may_not(&place, BOB, "rename -r tank/a@9 @10");
    may(&place, ANN, "rename -r tank/a@9 @10");
    may_not(&place, ANN, "rename -p tank/a/x tank/a/n/x");
    may(&place, ANN, "hold tag tank/a@10");
    may_not(&place, BOB, "destroy -d -f tank/a@10");
    may(&place, ANN, "destroy -d -f tank/a@10");
    may(&place, ANN, "release tag tank/a@10");
    place.fails("get name tank/a@10", NOT_FOUND);
    // What goes with her clone, and is not hers, is not named to her.
    place.ok("snapshot tank/b@1");
    place.ok("clone tank/b@1 tank/a/of-b");
    place.ok("destroy -d -f tank/b@1");
    let said = may(&place, ANN, "destroy -f -v tank/a/of-b");
    assert_eq!(said, "destroyed tank/a/of-b\n");
    place.fails("get name tank/b@1", NOT_FOUND);
    // Nor a hold on a clone of others.
    place.ok("clone tank/a/copy@1 tank/b/held");
    place.ok("snapshot tank/b/held@1");
    place.ok("hold secret tank/b/held@1");
    lacks(
        &may_not(&place, ANN, "destroy -R -f tank/a/copy@1"),
        "secret",
    );
    has(
        &may_not(&place, ANN, "rollback -R tank/a/copy@1"),
        "one by one",
    );
    place.ok("release secret tank/b/held@1");
    place.ok("destroy -r -f tank/b/held");
    may(&place, ANN, "destroy -r -f tank/a/x");
    // The clone would go with it, and that is not hers.
    place.ok("clone tank/a/copy@1 tank/b/clone");
    may_not(&place, ANN, "destroy -R -f tank/a/copy");
    place.ok("get name tank/b/clone");

    // Everything else is root's.
    for line in [
        "pool status",
        "pool destroy -f tank",
        "pool history tank",
        "pool export tank",
        "pool scrub tank",
        "list -o name,userused@0",
        "pool wait tank",
        "pool events",
        "pool events -c",
        "pool labelclear -f /dev/null",
        "list -r tank",
        "daemon stop",
        "daemon status",
        "inspect tank",
        "mount -a",
        "mount tank/a /tmp",
        "mount -O tank/a",
        "mount -o remount,rw tank/a",
        "unmount /tank",
        "key backup tank/a /tmp/nothing",
        "allow 12346 mount tank/a",
        "unallow 12345 tank/a",
    ] {
        may_not(&place, ANN, line);
    }
    has(
        &may(&place, ANN, "list -r -H -o name tank/a"),
        "tank/a/copy",
    );
    // Who names nothing sees all that is to be seen, or is refused.
    assert_eq!(may(&place, ANN, "list -H -o name"), "tank/a\ntank/a/copy\n");
    may_not(&place, BOB, "list");
    may_not(&place, BOB, "list tank/a");
    assert_eq!(
        may_not(&place, ANN, "list tank/nope").replace("nope", "b"),
        may_not(&place, ANN, "list tank/b")
    );

    place.ok("unallow 12345 tank/a");
    assert_eq!(socket(), 0o600);
    let (code, _) = run_as(&place, (ANN, ANN), "list tank/a");
    assert_ne!(code, 0);
}

/// By force, datasets below are unmounted from who uses them.
#[test]
fn renaming_by_force_takes_rights_on_all_below() {
    let place = needs!(tank());
    place.ok("create tank/a/x");
    place.ok("create tank/a/x/y");
    place.ok("allow -l 12345 create,mount tank/a");
    place.ok("allow -l 12345 mount,rename tank/a/x");
    let said = may_not(&place, ANN, "rename -f tank/a/x tank/a/z");
    lacks(&said, "tank/a/x/y");
    place.ok("allow -l 12345 mount tank/a/x/y");
    may(&place, ANN, "rename -f tank/a/x tank/a/z");
}

#[test]
fn loading_keys_and_changing_them_are_different() {
    let place = needs!(tank());
    place.ok_with("create -o encryption=on tank/a/secret", "correct horse\n");
    place.ok("allow -g 54321 key tank/a");
    place.ok("allow 12346 keychange tank/a");
    place.ok("key unload tank/a/secret");
    may_not(&place, BOB, "key load tank/a/secret");
    let staff = |line: &str| run_as(&place, (ANN, STAFF), line);
    assert_eq!(staff("key load tank/a/secret").0, 0);
    assert_eq!(staff("key rotate tank/a/secret").0, PERMISSION);
    assert_eq!(staff("key change tank/a/secret").0, PERMISSION);
    // Not with that group, not she.
    may_not(&place, ANN, "key unload tank/a/secret");
    may(&place, BOB, "key rotate tank/a/secret");
    // A user with another key can read raw streams, so this takes both permissions.
    may_not(&place, BOB, "key change tank/a/secret");
    may_not(&place, BOB, "key add tank/a/secret");
    place.ok("allow 12346 key tank/a/secret");
    may(&place, BOB, "key change tank/a/secret");
    // This user may not choose what root's daemon reads or runs.
    let from_file = "key change -o keysource=raw,file:///etc/shadow tank/a/secret";
    may_not(&place, BOB, from_file);
    assert_eq!(staff("key unload tank/a/secret").0, 0);
    let location = staff("key load -L file:///etc/shadow tank/a/secret");
    assert_eq!(location.0, PERMISSION, "{}", location.1);
    assert_eq!(staff("key load -L prompt tank/a/secret").0, 0);
    place.ok("allow 12346 keysource tank/a/secret");
    place.ok("keygen {DIR}/k");
    let from_file = format!(
        "key change -o keysource=raw,file://{} tank/a/secret",
        place.arg("k")
    );
    may(&place, BOB, &from_file);
}

/// A user with a wrapping key can read what the data keys below it seal.
#[test]
fn data_keys_come_under_no_other_key() {
    let place = needs!(tank());
    let secret = "correct battery\n";
    place.ok_with("create -o encryption=on tank/a/top", secret);
    place.ok("create tank/a/top/x");
    place.ok("snapshot tank/a/top/x@1");
    place.ok("allow 12345 clone,create,mount,promote,send,receive tank/a");
    place.ok("allow 12345 encryption tank/a");
    may(&place, ANN, "create -o encryption=on tank/a/mine");
    let own = "-o keysource=passphrase,prompt";
    let steal = [
        format!("clone {own} tank/a/top/x@1 tank/a/stolen"),
        format!("clone -K {own} tank/a/top/x@1 tank/a/stolen"),
        format!("clone {own} tank/a/top/x@1 tank/a/top/stolen"),
        "clone tank/a/top/x@1 tank/a/mine/stolen".into(),
        "clone tank/a/top/x@1 tank/a/stolen".into(),
    ];
    for allowed in ["mount", "key", "keychange"] {
        place.ok(&format!("allow 12345 {allowed} tank/a/top/x"));
        if allowed == "keychange" {
            place.ok("unallow 12345 key tank/a/top/x");
        }
        for line in &steal {
            let said = may_not(&place, ANN, line);
            has(&said, "puts its data keys under another key");
        }
    }
    place.ok("unallow 12345 tank/a/top/x");

    // Nor by a detour: the clone has the key of its origin first.
    may(&place, ANN, "clone tank/a/top/x@1 tank/a/top/y");
    place.ok("allow 12345 key,keychange tank/a/top/y");
    let detours = [
        "key change tank/a/top/y",
        "key change -o keysource=passphrase,prompt tank/a/top/y",
    ];
    for line in detours {
        may_not(&place, ANN, line);
    }
    may(&place, ANN, "promote tank/a/top/y");
    for line in detours {
        may_not(&place, ANN, line);
    }
    // What root has made of it, she does not add to.
    place.ok_with("key change tank/a/top/y", secret);
    for line in ["key add tank/a/top/y", "key change --slot 0 tank/a/top/y"] {
        may_not(&place, ANN, line);
    }
    // What is below a key goes where that goes.
    place.ok("allow -l 12345 key,keychange tank/a/top");
    may_not(&place, ANN, "key change tank/a/top");
    may_not(&place, ANN, "key add tank/a/top");

    // A copy that came as it is stored has the same data keys.
    place.ok("snapshot tank/a/top/x@2");
    let stream = place
        .command()
        .args(words("send -w tank/a/top/x@2"))
        .output()
        .unwrap();
    assert!(stream.status.success());
    let received = place.run_with(&words("receive tank/a/copy"), &stream.stdout);
    assert_eq!(received.code, 0, "{}", received.err);
    place.ok_with("key load -L prompt tank/a/copy", secret);
    place.ok("allow 12345 key,keychange tank/a/copy");
    may_not(&place, ANN, "key add tank/a/copy");

    // With both permissions where the data keys come from she may.
    place.ok("allow 12345 key,keychange tank/a");
    for (n, line) in steal.iter().enumerate() {
        if !line.contains("/mine/") {
            may(
                &place,
                ANN,
                &line
                    .replace("top/x@1", "top/y@1")
                    .replace("stolen", &format!("lent{n}")),
            );
        }
    }
    may(&place, ANN, "clone tank/a/top/x@2 tank/a/mine/lent");
    may(&place, ANN, "key add tank/a/copy");
}

#[test]
fn properties_are_allowed_one_by_one() {
    let place = needs!(tank());
    place.ok("allow -e compression,create,mount,userprop tank/a");
    may(&place, ANN, "set compression=zstd tank/a");
    may(&place, BOB, "inherit compression tank/a");
    may(&place, BOB, "set org.example:note=x tank/a");
    for props in [
        "mountpoint=/etc",
        "setuid=on",
        "compression=lz4 readonly=on",
    ] {
        may_not(&place, ANN, &format!("set {props} tank/a"));
    }
    lacks(&place.ok("get -H -o source compression tank/a"), "local");
    may_not(&place, ANN, "create -o mountpoint=/etc tank/a/x");
    may(&place, ANN, "create -o compression=off tank/a/x");
}

fn heading(name: &str) -> String {
    format!("{:-<70}\n", format!("---- Permissions on {name} "))
}

#[test]
fn on_a_dataset_or_below_it() {
    let place = needs!(tank());
    place.ok("create tank/a/x");
    place.ok("allow -l 12345 snapshot tank/a");
    place.ok("allow -d 12346 snapshot tank/a");
    may(&place, ANN, "snapshot tank/a@1");
    may_not(&place, ANN, "snapshot tank/a/x@1");
    may_not(&place, ANN, "snapshot -r tank/a@2");
    may_not(&place, BOB, "snapshot tank/a@3");
    may(&place, BOB, "snapshot tank/a/x@3");
    may_not(&place, ANN, "list -r tank/a");

    // A user with the permission `allow` passes on only permissions that the user has.
    place.ok("allow 12345 allow,hold tank/a");
    may(&place, ANN, "allow 12346 hold tank/a/x");
    may_not(&place, ANN, "allow 12346 destroy tank/a");
    may_not(&place, ANN, "allow 12346 snapshot tank/a");
    may_not(&place, ANN, "unallow 12346 tank/a");
    may(&place, BOB, "hold tag tank/a/x@3");

    place.ok("pool export tank");
    place.ok("pool import -N -d {DIR}/tank.pool tank");
    let expected = [
        heading("tank/a/x"),
        "Local+Descendent permissions:\n\tuser 12346 hold\n".into(),
        heading("tank/a"),
        "Local permissions:\n\tuser 12345 snapshot\n".into(),
        "Descendent permissions:\n\tuser 12346 snapshot\n".into(),
        "Local+Descendent permissions:\n\tuser 12345 allow,hold\n".into(),
    ];
    assert_eq!(place.ok("allow tank/a/x"), expected.concat());
    may(&place, BOB, "snapshot tank/a/x@4");
    place.fails("allow nobody-of-that-name mount tank/a", NOT_FOUND);
    place.fails("allow 12345 everything tank/a", USAGE);
    place.fails("allow 12345 mount tank/a@1", USAGE);
    place.fails("allow 12345 mount tank/nothing", NOT_FOUND);
}

#[test]
fn sets_stand_for_permissions() {
    let place = needs!(tank());
    place.ok("allow -s @basic create,mount tank");
    place.ok("allow -s @more @basic,snapshot tank");
    place.ok("allow 12345 @more tank/a");
    may(&place, ANN, "create tank/a/x");
    may(&place, ANN, "snapshot tank/a/x@1");
    may_not(&place, ANN, "destroy -f tank/a/x@1");
    may_not(&place, ANN, "create tank/b/x");
    // It is what it is now.
    place.ok("unallow -s @more snapshot tank");
    may_not(&place, ANN, "snapshot tank/a/x@2");
    place.ok("allow -s @basic destroy tank");
    may(&place, ANN, "destroy -f tank/a/x@1");
    let expected = [
        heading("tank/a"),
        "Local+Descendent permissions:\n\tuser 12345 @more\n".into(),
        heading("tank"),
        "Permission sets:\n\t@basic create,destroy,mount\n\t@more @basic\n".into(),
    ];
    assert_eq!(place.ok("allow tank/a"), expected.concat());
    // What is in a set tomorrow is not for her to give.
    place.ok("allow 12345 allow tank/a");
    may_not(&place, ANN, "allow 12346 @more tank/a");
    may_not(&place, ANN, "allow -s @basic key tank/a");
    may_not(&place, ANN, "allow -c destroy tank/a");
    place.ok("unallow -s @basic tank");
    may_not(&place, ANN, "create tank/a/y");
    place.fails("allow -s basic create tank", USAGE);
    place.fails("allow -s @a/b create tank", USAGE);
}

#[test]
fn who_makes_a_dataset_may_do_more_to_it() {
    let place = needs!(tank());
    place.ok("allow 12345 create,mount tank/a");
    place.ok("allow 12346 create,mount,clone tank/a");
    place.ok("allow -c destroy,snapshot tank");
    place.ok("allow -c compression tank/a");
    may(&place, ANN, "create tank/a/anns");
    may(&place, ANN, "snapshot tank/a/anns@1");
    may(&place, ANN, "set compression=lz4 tank/a/anns");
    may_not(&place, BOB, "destroy -r -f tank/a/anns");
    may_not(&place, ANN, "snapshot tank/a@1");
    may(&place, BOB, "clone tank/a/anns@1 tank/a/bobs");
    may_not(&place, ANN, "destroy -f tank/a/bobs");
    may(&place, BOB, "destroy -f tank/a/bobs");
    may(&place, ANN, "destroy -r -f tank/a/anns");
    // What root makes is not hers.
    place.ok("create tank/a/roots");
    may_not(&place, ANN, "destroy -f tank/a/roots");
    place.says("allow tank/a", "Create time permissions:\n\tcompression\n");
    place.ok("unallow -c tank/a");
    lacks(&place.ok("allow tank/a"), "compression");
}

#[test]
fn received_by_those_to_whom_it_is_allowed() {
    let place = needs!(tank());
    let key = place.arg("k");
    place.ok(&format!("keygen {key}"));
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{key} -o mountpoint=/nowhere -o canmount=off tank/secret"
    ));
    place.ok("snapshot tank/secret@1");
    place.ok("snapshot tank/secret@2");
    let send = |what: &str| {
        let line = format!("send {what}");
        let output = place.command().args(words(&line)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let (full, next) = (send("-w -p tank/secret@1"), send("-w -i @1 tank/secret@2"));
    let stream = |bytes: &[u8]| {
        let path = place.path("stream");
        fs::write(&path, bytes).unwrap();
        fs::File::open(path).unwrap()
    };
    let receive = |line: &str, bytes: &[u8]| {
        let mut command = place.command();
        command.args(words(line)).current_dir("/").uid(ANN).gid(ANN);
        let output = command.stdin(stream(bytes)).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), said)
    };
    for allowed in ["receive", "create"] {
        place.ok(&format!("allow 12345 {allowed} tank/a"));
        let (code, said) = receive("receive tank/a/copy", &full);
        assert_eq!(code, PERMISSION, "{said}");
    }
    place.ok("allow 12345 mount tank/a");
    assert_eq!(receive("receive tank/b/copy", &full).0, PERMISSION);
    assert_eq!(
        receive("receive -o mountpoint=/etc tank/a/copy", &full).0,
        PERMISSION
    );
    assert_eq!(receive("receive tank/a/copy", &full), (0, String::new()));
    // What root's daemon reads, and where it mounts, the stream does not say for her.
    let value = |property: &str| {
        let line = format!("get -H -o value {property} tank/a/copy");
        place.ok(&line).trim().to_owned()
    };
    assert_eq!(value("keysource"), "hex,prompt");
    assert_ne!(value("mountpoint"), "/nowhere");
    assert_eq!(value("canmount"), "noauto");
    assert_eq!(
        (value("setuid"), value("devices")),
        ("off".into(), "off".into())
    );
    assert_eq!(receive("receive tank/a/copy", &next), (0, String::new()));
    assert_eq!(receive("receive -F tank/a/copy", &next).0, PERMISSION);
    // Only root makes clones of whatever snapshot a stream names.
    let (code, said) = receive("receive tank/a/fresh", &next);
    assert_eq!(code, USAGE, "{said}");
    has(&said, "there is no such dataset");
    // Nor does a detour.
    place.ok("allow 12345 clone,send tank/a");
    place.ok(&format!(
        "key load -o keysource=raw,file://{key} tank/a/copy"
    ));
    place.ok("set setuid=off tank/b");
    place.ok("create tank/a/own");
    let (code, said) = receive("receive tank/a/own", &next);
    assert_eq!(code, PERMISSION, "{said}");
    has(&said, "devices=off");
    let clone = "clone -o keysource=passphrase,prompt tank/a/copy@1 tank/a/clone";
    for source in ["tank/a/copy", "tank/secret"] {
        may_not(&place, ANN, clone);
        place.ok(&format!("allow 12345 key,keychange {source}"));
    }
    may(&place, ANN, clone);
    place.ok("unallow 12345 tank/a/copy");
    let setuid = place.ok("get -H -o value setuid tank/a/clone");
    assert_eq!(setuid.trim(), "off");
    // The contents in the clear take the permission to load keys.
    assert_eq!(receive("send tank/a/copy@1", &[]).0, PERMISSION);
    place.ok("allow 12345 key tank/a");
    assert_eq!(receive("send tank/a/copy@1", &[]).0, 0);
}

/// Connects as a user and sends nothing.
fn idle(place: &Place, uid: u32, count: usize) -> Vec<UnixStream> {
    let socket = place.socket();
    // Only the thread becomes another user.
    let connect = move || {
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        let connect = |_| UnixStream::connect(&socket).ok();
        (0..count).filter_map(connect).collect()
    };
    std::thread::spawn(connect).join().unwrap()
}

#[test]
fn idle_connections_lock_no_other_user_out() {
    let place = needs!(tank());
    place.ok("allow -e mount tank/a");
    // So few that all of them could be taken.
    let pid = Pid::from_raw(place.pid() as i32);
    let open = fs::read_dir(format!("/proc/{}/fd", place.pid()))
        .unwrap()
        .count() as u64;
    let few = Rlimit {
        current: Some(open + 250),
        maximum: Some(open + 250),
    };
    rustix::process::prlimit(pid, Resource::Nofile, few).unwrap();
    let silent = idle(&place, ANN, 400);
    assert!(silent.len() > 64);
    place.ok("list tank/a");
    may(&place, BOB, "list tank/a");
    let (code, said) = run_as(&place, (ANN, ANN), "list tank/a");
    assert_eq!(code, BUSY, "{said}");
    drop(silent);
}

/// The daemon ignores the text that a caller sends along with a command.
#[test]
fn history_says_what_was_done() {
    let place = needs!(tank());
    let forged = r#"{"snapshot":{"names":["tank/a@1"],"recursive":false}}"#;
    let request = |version: u64| {
        let typed = "strongroom destroy -r tank/b";
        let json = format!(r#"{{"version":{version},"typed":"{typed}","command":{forged}}}"#);
        let mut stream = UnixStream::connect(place.socket()).unwrap();
        stream.write_all(b"J").unwrap();
        stream
            .write_all(&(json.len() as u32).to_le_bytes())
            .unwrap();
        stream.write_all(json.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer[5..].to_vec()).unwrap()
    };
    // Its version is in the answer to another one.
    let words = request(0);
    let version = words.split("speaks version ").nth(1).unwrap();
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    let done = request(digits.parse().unwrap());
    has(&done, "done");
    let history = place.ok("pool history tank");
    has(&history, "strongroom snapshot tank/a@1\n");
    lacks(&history, "destroy");
}

/// A user who mounts a dataset for the first time does not become its owner.
#[test]
fn to_mount_is_not_to_own() {
    let place = needs!(tank());
    needs!(can_mount());
    let owner = |name: &str| {
        place.ok(&format!(
            "create -u -o mountpoint={} tank/{name}",
            place.arg("m")
        ));
        may(&place, ANN, &format!("mount tank/{name}"));
        let uid = fs::metadata(place.path("m")).unwrap().uid();
        place.ok(&format!("destroy -f tank/{name}"));
        uid
    };
    place.ok("allow 12345 mount tank");
    assert_eq!(owner("a/x"), 0);
    place.ok("allow 12345 create tank/a");
    assert_eq!(owner("a/x"), ANN);
    assert_eq!(owner("b/x"), 0);
}
