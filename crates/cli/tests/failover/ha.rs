//! The exports that a pool has by its `ha.toml`, and the view that the initiators of others have of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use crate::common::programs::{ok, run};
use crate::common::*;

const PREFIX: &str = "iqn.2026-01.io.github.strongroom";

/// A mounted pool with a file of its own, at this portal.
struct Served {
    place: Place,
    portal: String,
}

impl Served {
    fn new() -> Option<Served> {
        needs!(can_mount());
        let place = Place::new();
        place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
        let portal = free_portal();
        Some(Served { place, portal })
    }

    /// Writes the file, with a portal group before the rest.
    fn says(&self, rest: &str) {
        let file = self.place.path("mnt/ha.toml");
        let portals = format!(
            "target_portal_groups = [\"here\"]\nhere_portals = [\"{}\"]\n",
            self.portal
        );
        fs::write(file, portals + rest).unwrap();
    }

    /// Runs commands of qemu-io on a unit.
    fn io(&self, target: &str, lun: u16, initiator: &str, commands: &[&str]) -> bool {
        let image = self.image(target, lun, initiator);
        let mut args: Vec<&str> = commands.iter().flat_map(|one| ["-c", one]).collect();
        args.extend(["--image-opts", &image]);
        // qemu does not open a unit that it cannot change, unless it is told to read only.
        if commands.iter().all(|one| one.starts_with("read")) {
            args.push("-r");
        }
        let done = run("qemu-io", &args);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        done.status.success() && !said.contains("fail")
    }

    fn image(&self, target: &str, lun: u16, initiator: &str) -> String {
        let portal = &self.portal;
        format!(
            "driver=iscsi,transport=tcp,portal={portal},target={PREFIX}:{target},lun={lun},\
             initiator-name={initiator}"
        )
    }
}

const ANN: &str = "iqn.2026-01.org.example:ann";
const BOB: &str = "iqn.2026-01.org.example:bob";

#[test]
fn a_pool_serves_what_its_file_says() {
    let served = needs!(Served::new());
    let place = &served.place;
    place.ok("create -V 8M tank/b");
    place.ok("create -p -V 8M tank/vm/a:05");
    place.fails("ha start none", NOT_FOUND);
    place.refuses("ha start tank", NOT_FOUND, "ha.toml");
    place.fails("ha update tank", NOT_FOUND);
    served.says("");
    let file = place.path("mnt/ha.toml");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    place.refuses("ha verify tank", PERMISSION, "chmod go-w");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    place.warns("ha verify tank", "every initiator that reaches the portal");
    let root = place.path("mnt");
    fs::set_permissions(&root, Permissions::from_mode(0o1777)).unwrap();
    let said = place.fails("ha verify tank", PERMISSION);
    has(&said, "the root directory of 'tank' can be changed");
    fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    place.says("ha status tank", "not served");
    place.ok("ha start tank");
    place.refuses("pool reguid tank", BUSY, "ha stop tank");
    place.ok("ha start tank");
    let status = place.json("--json ha status tank");
    assert_eq!(status["targets"][0]["name"], format!("{PREFIX}:tank"));
    assert_eq!(status["targets"][0]["portals"][0], served.portal.as_str());
    let units = status["units"].as_array().unwrap();
    let luns: Vec<_> = units
        .iter()
        .map(|it| (it["volume"].as_str(), it["lun"].as_u64()))
        .collect();
    assert_eq!(
        luns,
        [(Some("tank/b"), Some(0)), (Some("tank/vm/a:05"), Some(5))]
    );
    lacks(&place.ok("get all tank/b"), "lun");

    // What is served is in use, and is told so.
    place.refuses("nbd export tank/b", BUSY, "strongroom ha stop tank");
    place.fails("rename tank/b tank/c", BUSY);
    place.fails("pool export tank", BUSY);
    if is_installed("qemu-io") && is_installed("iscsi-ls") {
        assert!(served.io("tank", 0, ANN, &["write -P 7 0 1M", "flush"]));
        assert!(served.io("tank", 5, ANN, &["read -P 0 0 1M"]));
        let listed = ok("iscsi-ls", &["-s", &format!("iscsi://{}", served.portal)]);
        has(&listed, "Lun:5");
    } else {
        println!("skipped: needs libiscsi-bin and qemu-block-extra");
    }

    // A file that is wrong changes nothing.
    let before = place.ok("--json ha status tank");
    served.says("\nviews = [\"v\"]\nv_hg = \"nobody\"\n");
    place.refuses("ha update tank", USAGE, "ha.toml of 'tank', line 5: v_hg");
    served.says("logical_units = [\"tank/none\"]\n");
    place.refuses("ha update tank", USAGE, "tank/none");
    assert_eq!(place.ok("--json ha status tank"), before);
    fs::write(place.path("mnt/stmf-ha.conf"), "").unwrap();
    place.refuses("ha update tank", USAGE, "remove one of them");
    fs::remove_file(place.path("mnt/stmf-ha.conf")).unwrap();

    // Another import has the same numbers, and does not serve by itself.
    served.says("");
    place.ok("ha stop tank");
    place.ok("ha stop tank");
    place.ok("pool export tank");
    let import = place.run(&place.words("pool import -d {DIR}/tank.pool tank"));
    has(
        &import.err,
        "'strongroom ha start tank' serves what it says",
    );
    place.says("ha status tank", "not served");
    place.ok("create -V 8M tank/a");
    // Another user may set such a property, and create a volume with a number that is in use.
    place.ok("set ha:lun=5 tank/a");
    place.ok("create -p -V 8M tank/vm/b:05");
    place.warns("ha start tank", "'tank/vm/b:05' is not served yet");
    let status = place.json("--json ha status tank");
    let served_under = |lun: u64| {
        let units = status["units"].as_array().unwrap().clone();
        let found = units
            .into_iter()
            .find(|it| it["lun"] == lun && it["waits"].is_null());
        found.and_then(|it| it["volume"].as_str().map(str::to_owned))
    };
    assert_eq!(served_under(0).as_deref(), Some("tank/b"));
    assert_eq!(served_under(1).as_deref(), Some("tank/a"));
    assert_eq!(served_under(5).as_deref(), Some("tank/vm/a:05"));
    // The file is read where the dataset is not mounted too.
    place.ok("unmount tank/vm");
    place.ok("unmount tank");
    place.ok("ha update tank");
    place.ok("mount tank");
    // By force the pool goes, and its targets with it.
    place.ok("pool export -f tank");
    assert!(std::net::TcpStream::connect(&served.portal).is_err());
}

/// An initiator that keeps its session until its input ends.
fn session(served: &Served, lun: u16, initiator: &str) -> Child {
    let image = served.image("vm", lun, initiator);
    let mut client = Command::new("qemu-io");
    let client = client.args(["--image-opts", &image]).stdin(Stdio::piped());
    let client = client.stdout(Stdio::null()).spawn().unwrap();
    while !served.place.ok("iscsi sessions -H").contains(initiator) {}
    client
}

const VIEWS: &str = "targets = [\"vm\"]\nhost_groups = [\"ann\", \"bob\"]\n\
    ann_members = [\"iqn.2026-01.org.example:ann\"]\nbob_members = [\"iqn.2026-01.org.example:bob\"]\n\
    views = [\"one\", \"two\"]\none_hg = \"ann\"\none_lu_prefix = \"tank/a\"\ntwo_hg = \"bob\"\n\
    two_lu_prefix = \"tank/b\"\n";

#[test]
fn initiators_see_their_units_and_keep_their_sessions() {
    let served = needs!(Served::new());
    needs!(
        is_installed("qemu-io") && is_installed("iscsi-ls"),
        "needs libiscsi-bin and qemu-block-extra"
    );
    let place = &served.place;
    place.ok("create -p -V 8M tank/a/disk:1");
    place.ok("create -p -V 8M tank/b/disk:1");
    served.says(VIEWS);
    place.ok("ha start tank");
    assert!(served.io("vm", 1, ANN, &["write -P 1 0 64K", "flush"]));
    assert!(served.io(
        "vm",
        1,
        BOB,
        &["read -P 0 0 64K", "write -P 2 0 64K", "flush"]
    ));
    assert!(served.io("vm", 1, ANN, &["read -P 1 0 64K"]));
    assert!(!served.io("vm", 0, ANN, &["read 0 64K"]));
    // Who is in no group does not learn of the target.
    assert_eq!(ok("iscsi-ls", &[&format!("iscsi://{}", served.portal)]), "");

    // Ann's session stays while all else changes, and Bob's ends: Bob is in no group any more.
    let (mut ann, mut bob) = (session(&served, 1, ANN), session(&served, 1, BOB));
    let number = |who: &str| {
        let sessions = place.ok("iscsi sessions -H");
        let line = sessions.lines().find(|line| line.contains(who));
        line.map(|line| line.split('\t').nth(1).unwrap().to_owned())
    };
    let before = number(ANN);
    place.ok("create -p -V 8M tank/a/more");
    let without_bob = VIEWS
        .replace(", \"two\"", "")
        .replace("two_hg = \"bob\"\n", "")
        .replace("two_lu_prefix = \"tank/b\"\n", "one_read_only = true\n");
    served.says(&without_bob);
    place.ok("ha update tank");
    assert_eq!(number(ANN), before);
    while number(BOB).is_some() {}
    assert!(served.io("vm", 1, ANN, &["read -P 1 0 64K"]));
    assert!(!served.io("vm", 1, ANN, &["write -P 3 0 64K"]));
    assert!(served.io("vm", 0, ANN, &["read -P 0 0 64K"]));
    assert!(!served.io("vm", 1, BOB, &["read 0 64K"]));
    // What left the file leaves the running targets, and the volume is free.
    served.says(&without_bob.replace("targets", "logical_units = [\"tank/a/more\"]\ntargets"));
    place.ok("ha update tank");
    assert!(!served.io("vm", 1, ANN, &["read 0 64K"]));
    place.ok("destroy -f tank/a/disk:1");
    // With its target the session ends.
    served.says("targets = [\"other\"]\n");
    place.ok("ha update tank");
    while number(ANN).is_some() {}
    for client in [&mut ann, &mut bob] {
        drop(client.stdin.take());
        client.wait().unwrap();
    }
}

#[test]
fn a_portal_group_sends_initiators_to_another_one() {
    let served = needs!(Served::new());
    let place = &served.place;
    place.ok("create -V 8M tank/a");
    let front = free_portal();
    let file = |rest: &str| {
        let text = format!(
            "target_portal_groups = [\"san\", \"front\"]\nsan_portals = [\"{}\"]\nfront_portals = [\"{front}\"]\n{rest}",
            served.portal
        );
        fs::write(place.path("mnt/ha.toml"), text).unwrap();
    };
    file("front_redirect = \"front\"\n");
    has(
        &place.fails("ha start tank", USAGE),
        "line 4: front_redirect: the portals of 'front' redirect too",
    );
    file("front_redirect = \"san\"\n");
    place.ok("ha start tank");
    let status = place.json("--json ha status tank");
    let target = &status["targets"][0];
    assert_eq!(target["portals"][0], served.portal.as_str());
    let redirect = format!("{front} > {}", served.portal);
    assert_eq!(target["redirects"][0], redirect.as_str());
    has(&place.ok("ha status tank"), &redirect);
    needs!(is_installed("iscsi-ls"), "needs libiscsi-bin");
    // Discovery tells of the portal that was asked, and the login leads to the other one.
    let listed = ok("iscsi-ls", &[&format!("iscsi://{front}")]);
    has(&listed, &format!("Portal:{front},1"));
    lacks(&listed, &served.portal);
    let listed = ok("iscsi-ls", &[&format!("iscsi://{}", served.portal)]);
    lacks(&listed, &front);
    let unit = format!("iscsi://{front}/{PREFIX}:tank/0");
    has(&ok("iscsi-inq", &[&unit]), "STRNGRM");
    has(&place.log(), "a login was redirected");
    // A portal that redirects no more serves its own targets only.
    file("");
    place.ok("ha update tank");
    assert!(std::net::TcpStream::connect(&front).is_err());
    has(
        &ok(
            "iscsi-inq",
            &[&format!("iscsi://{}/{PREFIX}:tank/0", served.portal)],
        ),
        "STRNGRM",
    );
}

#[test]
fn a_volume_without_its_key_is_served_when_the_key_comes() {
    let served = needs!(Served::new());
    let place = &served.place;
    place.ok("keygen {DIR}/key");
    place.ok("create -V 8M -o encryption=on -o keysource=raw,file://{DIR}/key tank/shut");
    place.ok("create -V 8M tank/open");
    place.ok("key unload tank/shut");
    place.ok("create -V 8M tank/used");
    place.ok("nbd export tank/used");
    served.says("");
    let started = place.run(&["ha", "start", "tank"]);
    assert_eq!(started.code, 0);
    has(&started.err, "'tank/shut' is not served yet");
    has(&started.err, "'tank/used' is not served yet");
    place.ok("nbd unexport tank/used");
    place.ok("ha update tank");
    let waits = |place: &Place| {
        let status = place.json("--json ha status tank");
        let units = status["units"].as_array().unwrap().clone();
        units.iter().filter(|it| !it["waits"].is_null()).count()
    };
    assert_eq!(waits(place), 1);
    place.ok("key load tank/shut");
    assert_eq!(waits(place), 0);
    place.fails("key unload tank/shut", BUSY);
    place.ok("key unload -f tank/shut");
    assert_eq!(waits(place), 1);
}

#[test]
fn a_name_is_that_of_one_target() {
    let served = needs!(Served::new());
    let place = &served.place;
    place.ok("create -V 8M tank/a");
    place.ok("pool create -s 64M -m {DIR}/other other {DIR}/other.pool");
    place.ok("create -V 8M other/b");
    served.says("targets = [\"vm\"]\n");
    place.ok("ha start tank");
    // Elsewhere too.
    let file = format!(
        "targets = [\"vm\"]\ntarget_portal_groups = [\"here\"]\nhere_portals = [\"{}\"]\n",
        free_portal()
    );
    fs::write(place.path("other/ha.toml"), file).unwrap();
    place.refuses("ha verify other", EXISTS, "another pool");
    place.fails("ha start other", EXISTS);
    let export = format!("iscsi export other/b --no-authentication --name {PREFIX}:vm --portal");
    for at in [&served.portal, &free_portal()] {
        place.refuses(&format!("{export} {at}"), EXISTS, "a pool serves");
    }
    let status = place.json("--json ha status tank");
    assert!(status["units"][0]["waits"].is_null());
    if is_installed("qemu-io") {
        assert!(served.io("vm", 0, ANN, &["write -P 7 0 64K", "flush"]));
    }
    // And the other way round: the export stays.
    place.ok("ha stop tank");
    place.ok(&format!("{export} {}", served.portal));
    place.refuses("ha verify tank", EXISTS, "an export");
    place.fails("ha start tank", EXISTS);
    place.says("iscsi list", "other/b");
}

/// Initiators of another storage find their disks again, by all that they know of them.
#[test]
fn units_keep_the_identity_of_another_storage() {
    let served = needs!(Served::new());
    let place = &served.place;
    let naa = "600144f0c0ffee000000512e9a0b0001";
    place.ok("create -V 8M tank/db");
    place.ok("create -V 8M tank/log");
    place.ok("create -V 8M tank/copy");
    place.ok(&format!("set org.illumos.stmf-ha:guid={naa} tank/log"));
    place.ok("set org.illumos.stmf-ha:lun=9 tank/log");
    place.ok("set org.illumos.stmf-ha:wcd=true tank/copy");
    let file = "targets = [\"old\"]\nold_iqn = \"iqn.2010-08.org.illumos:stmf-ha:old\"\nidentities = [\"db\"]\n\
        db_lu = \"tank/db\"\ndb_lun = \"4\"\ndb_serial = \"SAN-0042\"\ndb_naa = \"5001405aabbccdd0\"\n\
        db_block_size = \"4096\"\n";
    served.says(file);
    place.ok("ha start tank");
    let status = place.json("--json ha status tank");
    let unit = |volume: &str| {
        let mut units = status["units"].as_array().unwrap().iter();
        units.find(|it| it["volume"] == volume).unwrap().clone()
    };
    let db = unit("tank/db");
    assert_eq!((&db["lun"], &db["serial"]), (&4.into(), &"SAN-0042".into()));
    assert_eq!(unit("tank/log")["lun"], 9);
    has(
        &unit("tank/copy")["waits"].to_string(),
        "org.illumos.stmf-ha:wcd",
    );

    // What initiators use is not made another disk under them.
    served.says(&file.replace("0042", "0043"));
    place.refuses("ha update tank", BUSY, "another identity");
    served.says(&file.replace("4096", "512"));
    place.fails("ha update tank", BUSY);
    place.ok("ha stop tank");
    place.ok("ha start tank");
    served.says(file);
    place.fails("ha update tank", BUSY);
    place.ok("ha stop tank");
    place.ok("ha start tank");

    // Another pool cannot take it.
    place.ok("pool create -s 64M -m {DIR}/other other {DIR}/other.pool");
    place.ok("create -V 8M other/db");
    let other = format!(
        "target_portal_groups = [\"here\"]\nhere_portals = [\"{}\"]\nidentities = [\"x\"]\nx_lu = \"other/db\"\n\
         x_naa = \"{naa}\"\n",
        served.portal
    );
    fs::write(place.path("other/ha.toml"), other).unwrap();
    let said = place.run(&["ha", "start", "other"]);
    has(&said.err, "'tank/log' has its serial number or NAA already");

    needs!(is_installed("iscsi-inq"), "needs libiscsi-bin");
    let uri = |lun: u8| {
        format!(
            "iscsi://{}/iqn.2010-08.org.illumos:stmf-ha:old/{lun}",
            served.portal
        )
    };
    has(
        &ok("iscsi-inq", &["-e", "1", "-c", "128", &uri(4)]),
        "SAN-0042",
    );
    has(
        &ok("iscsi-readcapacity16", &[&uri(4)]),
        "BLOCK LENGTH IN BYTES:4096",
    );
    has(
        &ok("iscsi-readcapacity16", &[&uri(9)]),
        "BLOCK LENGTH IN BYTES:512",
    );
}

/// The machine that waits says before a takeover what would fail: a key that it does not accept, an address that it does not
/// have, a device that it does not see, two units with one number.
#[test]
fn a_machine_that_waits_says_what_a_takeover_would_miss() {
    let served = needs!(Served::new());
    let place = &served.place;
    place.ok("keygen {DIR}/key");
    place.ok("create -V 8M -o encryption=on -o keysource=raw,file://{DIR}/key tank/db:1");
    place.ok("create -V 8M tank/log:2");
    served.says("");
    place.ok("pool export tank");
    let check = format!("ha check -d {} tank", place.arg("tank.pool"));
    // The machine that made the pool accepts the key.
    place.ok(&check);
    place.fails(
        &format!("ha check -d {} other", place.arg("tank.pool")),
        NOT_FOUND,
    );

    let mut other = Place::without_daemon();
    other.start();
    let says = |code: i32| {
        let done = other.run(&check.split(' ').collect::<Vec<_>>());
        assert_eq!(done.code, code, "{}", done.err);
        done.err
    };
    has(&says(1), "strongroom key accept tank/db:1");
    assert_eq!(other.ok("pool list -H"), "");
    let import = format!("pool import -d {}", place.arg("tank.pool"));
    other.ok(&format!("{import} --accept -l tank"));
    // While this machine has it, too.
    says(0);
    other.ok("create -V 8M tank/more:2");
    has(&says(1), "would have the number 2");
    other.ok("destroy -f tank/more:2");
    let text = "target_portal_groups = [\"here\"]\nhere_portals = [\"192.0.2.77\"]\n";
    fs::write(place.path("mnt/ha.toml"), text).unwrap();
    other.ok("pool export tank");
    has(&says(1), "cannot listen at 192.0.2.77:3260");
    fs::remove_file(place.path("key")).unwrap();
    let said = says(1);
    has(&said, "cannot listen at 192.0.2.77:3260");
    has(&said, &place.arg("key"));
    has(&said, "(reasons: 2)");
    // Nothing was written, and nothing is imported.
    assert_eq!(other.ok("pool list -H"), "");
    other.ok(&format!("{import} tank"));
    assert_eq!(other.ok("pool list -H -o health tank"), "ONLINE\n");
}

#[test]
fn files_of_stmf_ha_are_converted() {
    let place = Place::without_daemon();
    fs::write(place.path("a.conf"), "targets=( x )\nx_type=iscsi # only\n").unwrap();
    let toml = "targets = [\"x\"]\nx_type = \"iscsi\"\n";
    assert_eq!(place.ok("ha convert {DIR}/a.conf"), toml);
    fs::write(place.path("a.toml"), toml).unwrap();
    let back = place.ok("ha convert {DIR}/a.toml");
    assert_eq!(back, "targets=( \"x\" )\nx_type=\"iscsi\"\n");
    fs::write(place.path("b.conf"), "targets=( x )\n\nreboot\n").unwrap();
    place.refuses("ha convert {DIR}/b.conf", USAGE, "line 3: reboot");
    place.fails("ha convert {DIR}/none.conf", NOT_FOUND);
    place.fails("ha convert {DIR}/a", USAGE);
}

/// Views that show two volumes under one number to one host: these wait, and all others are served.
#[test]
fn two_volumes_under_one_number_keep_no_other_from_being_served() {
    let served = needs!(Served::new());
    let place = &served.place;
    for volume in ["tank/ann/a:5", "tank/bob/b:5", "tank/c:1"] {
        place.ok(&format!("create -p -V 4M {volume}"));
    }
    let hosts = format!(
        "host_groups = [\"ann\", \"bob\"]\nann_members = [\"{ANN}\"]\nbob_members = [\"{BOB}\"]\n"
    );
    let views = |of_bob: &str| {
        format!(
            "{hosts}views = [\"a\", \"b\", \"c\"]\na_hg = \"ann\"\na_lu_prefix = \"tank/ann\"\n{of_bob}\
             b_lu_prefix = \"tank/bob\"\nc_lu_prefix = \"tank/c:1\"\n"
        )
    };
    served.says(&views("b_hg = \"bob\"\n"));
    place.ok("ha start tank");
    let waiting = || {
        let status = place.json("--json ha status tank");
        let units = status["units"].as_array().unwrap().iter();
        let waiting = units.filter(|unit| !unit["waits"].is_null());
        waiting
            .map(|unit| unit["volume"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(waiting().is_empty());

    // Now all hosts would see the second one.
    served.says(&views(""));
    let why = "would have the number 5";
    has(&place.fails("ha update tank", USAGE), why);
    has(&place.fails("ha verify tank", USAGE), why);
    assert!(waiting().is_empty(), "all are served as before");
    place.ok("ha stop tank");
    place.warns("ha start tank", why);
    assert_eq!(waiting(), ["tank/ann/a:5", "tank/bob/b:5"]);
    served.says(&views("b_hg = \"bob\"\n"));
    place.ok("ha update tank");
    assert!(waiting().is_empty());
}
