//! The lines of stmf-ha's manual page and article, typed: its file in a pool, and `start` again after each change.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::common::programs::ok;
use crate::common::*;
use serde_json::Value;

const PREFIX: &str = "iqn.2026-01.io.github.strongroom";

/// The examples 2 to 7 of the manual page, as they are printed.
const MANUAL: &str = r#"
target_portal_groups=( tpg01  tpg02 )
tpg01_portals=( 192.168.1.1  192.168.1.2 )
tpg02_portals=( 192.168.2.1:5000  192.168.3.1:5000 )
default_tpg=tpg02   # now the default is `tpg02' instead of `tpg01'

targets=( target01  target02 )
target01_type=iscsi    # this is the default type
target01_tpg=tpg01     # if undefined, assigns the default tpg
target02_tpg=tpg02

logical_units=(
  tank/vm/VM_A
  tank/vm/VM_B
)

host_groups=( host_group_A  host_group_B )
host_group_A_members=(
  iqn.1998-01.com.vmware:myvmhost1-01234567
  iqn.1998-01.com.vmware:myvmhost2-89abcdef
)
host_group_B_members=(
  iqn.1998-01.com.vmware:foo-01234567
  iqn.1998-01.com.vmware:bar-89abcdef
)

target_groups=( both_targets  only_tgt02 )
both_targets_members=( target01  target02 )
only_tgt02_members=( target02 )

views=( VMview )
VMview_hg=host_group_A     # if undefined any initiator has access
VMview_tg=both_targets     # if undefined LU visible on all targets
VMview_lu_prefix="tank/vm" # if undefined applies to all listed LUs
"#;

/// The addresses of the manual page, which this machine does not have.
const ADDRESSES: [&str; 4] = [
    "192.168.1.1",
    "192.168.1.2",
    "192.168.2.1:5000",
    "192.168.3.1:5000",
];

/// A daemon with the first lines of the manual page, up to the volumes.
fn prepared() -> Option<Place> {
    needs!(can_mount());
    let place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/tank tank mirror {DIR}/c0t0d0 {DIR}/c0t1d0");
    place.ok("create tank/vm");
    place.ok("create -s -V 20g tank/vm/VM_A");
    place.ok("create -s -V 30g tank/vm/VM_B");
    Some(place)
}

/// Writes the file of a pool.
fn says(place: &Place, pool: &str, text: &str) {
    fs::write(place.path(pool).join("stmf-ha.conf"), text).unwrap();
}

/// A file that serves a pool at an address of its own.
fn at(portal: &str, rest: &str) -> String {
    format!("target_portal_groups=( here )\nhere_portals=( {portal} )\n{rest}")
}

fn status(place: &Place, pool: &str) -> Value {
    let status = place.ok(&format!("--json ha status {pool}"));
    serde_json::from_str(&status).unwrap()
}

/// The volumes of a pool that are served, with their numbers.
fn served(place: &Place, pool: &str) -> Vec<(String, u64)> {
    let status = status(place, pool);
    let units = status["units"].as_array().unwrap().iter();
    let units = units.filter(|unit| unit["waits"].is_null());
    let name = |unit: &Value| unit["volume"].as_str().unwrap().to_owned();
    units
        .map(|unit| (name(unit), unit["lun"].as_u64().unwrap()))
        .collect()
}

fn units(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    { all.iter() }
        .map(|(name, lun)| ((*name).into(), *lun))
        .collect()
}

#[test]
fn the_examples_of_the_manual_page_are_served() {
    let place = needs!(prepared());
    // The simplest file. At all addresses it would meet other daemons of this machine.
    says(&place, "tank", "");
    place.ok("ha verify tank");
    says(&place, "tank", MANUAL);
    place.ok("ha verify tank");
    let own = ADDRESSES.map(|_| free_portal());
    let mut file = MANUAL.to_owned();
    for (theirs, own) in ADDRESSES.iter().zip(&own) {
        file = file.replace(theirs, own);
    }
    says(&place, "tank", &file);
    place.ok("ha start tank");
    let now = status(&place, "tank");
    let target = |number: usize| {
        let it = &now["targets"][number];
        let portals = it["portals"].as_array().unwrap().iter();
        let portals = portals.map(|it| it.as_str().unwrap().to_owned());
        let mut portals: Vec<_> = portals.collect();
        portals.sort();
        (it["name"].as_str().unwrap().to_owned(), portals)
    };
    let sorted = |portals: &[String]| {
        let mut portals = portals.to_vec();
        portals.sort();
        portals
    };
    let expected = [("target01", &own[..2]), ("target02", &own[2..])];
    for (number, (name, portals)) in expected.into_iter().enumerate() {
        assert_eq!(
            target(number),
            (format!("{PREFIX}:{name}"), sorted(portals))
        );
    }
    let two = [("tank/vm/VM_A", 0), ("tank/vm/VM_B", 1)];
    assert_eq!(served(&place, "tank"), units(&two));
    if is_installed("iscsi-ls") {
        let seen = |initiator: &str| {
            let uri = format!("iscsi://{}", own[0]);
            ok("iscsi-ls", &["-i", initiator, "-s", &uri])
        };
        let allowed = seen("iqn.1998-01.com.vmware:myvmhost1-01234567");
        has(&allowed, &format!("Target:{PREFIX}:target01"));
        has(&allowed, "Lun:1");
        assert_eq!(seen("iqn.1998-01.com.vmware:foo-01234567"), "");
    }

    // After a change of the file, or a new volume, `start` again.
    place.ok("create -s -V 10g tank/vm/VM_C");
    let more = file.replace("VM_B\n", "VM_B\n  tank/vm/VM_C\n");
    says(
        &place,
        "tank",
        &more.replace("target02_tpg=tpg02", "target02_tpg=tpg01"),
    );
    place.ok("ha start tank");
    let three = [two[0], two[1], ("tank/vm/VM_C", 2)];
    assert_eq!(served(&place, "tank"), units(&three));
    let now = status(&place, "tank");
    assert_eq!(now["targets"][1]["portals"].as_array().unwrap().len(), 2);
    assert!(std::net::TcpStream::connect(&own[2]).is_err());
    place.ok("ha stop tank");
    assert!(std::net::TcpStream::connect(&own[0]).is_err());
}

/// The file may have entries that stmf-ha does not know: stmf-ha ignores them.
#[test]
fn the_file_of_stmf_ha_names_targets_and_secrets() {
    let place = needs!(prepared());
    let portal = free_portal();
    let secret = place.path("web");
    fs::write(&secret, "a long secret of web\n").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let iqn = "iqn.2010-08.org.illumos:stmf-ha:target01";
    let ours = format!(
        "targets=( target01 )\ntarget01_iqn={iqn}\ntarget01_chap=( \"web=file://{}\" )\nviews=( all )\n\
         all_read_only=true\n",
        secret.display()
    );
    says(&place, "tank", &at(&portal, &ours));
    let said = place.fails("ha start tank", NO_KEY);
    lacks(&said, "a long secret");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    place.ok("ha start tank");
    let now = status(&place, "tank");
    assert_eq!(
        (&now["targets"][0]["name"], &now["targets"][0]["chap"]),
        (&iqn.into(), &true.into())
    );
    lacks(&place.log(), "a long secret");
    if is_installed("iscsi-inq") {
        let unit = |user: &str| format!("iscsi://{user}{portal}/{iqn}/0");
        has(
            &ok("iscsi-inq", &[&unit("web%a long secret of web@")]),
            "STRNGRM",
        );
        let refused =
            crate::common::programs::run("iscsi-inq", &[&unit("web%another secret here@")]);
        assert!(!refused.status.success());
    }
    // A secret in the file itself is refused.
    says(
        &place,
        "tank",
        &at(&portal, "targets=( t )\nt_chap=( \"web=a long secret\" )\n"),
    );
    let said = place.fails("ha start tank", USAGE);
    has(&said, "secrets are not in this file");
    lacks(&said, "a long secret");
}

/// Two volumes under one number wait. They hold up no other volume and no later change, and the earlier assignment stays.
#[test]
fn one_number_given_twice_holds_up_no_change() {
    let place = needs!(prepared());
    let portal = free_portal();
    let events = |class: &str| {
        let all = place.ok("pool events -vH tank");
        all.lines().filter(|line| line.contains(class)).count()
    };
    says(&place, "tank", &at(&portal, ""));
    for volume in ["tank/a:7", "tank/b:7"] {
        place.ok(&format!("create -s -V 8M {volume}"));
    }
    place.ok("ha start tank");
    let two = [("tank/vm/VM_A", 0), ("tank/vm/VM_B", 1)];
    assert_eq!(served(&place, "tank"), units(&two));
    assert_eq!(events("unit_wait"), 2);
    has(
        &place.ok("pool events -v tank"),
        "'tank/a:7' is not served as unit 7: 'tank/a:7' and 'tank/b:7' would have the number 7",
    );
    // The volumes that wait hold up no change, in whatever way it is applied.
    place.ok("create -s -V 8M tank/c:3");
    place.ok("ha start tank");
    let three = [two[0], two[1], ("tank/c:3", 3)];
    assert_eq!(served(&place, "tank"), units(&three));
    place.ok("create -s -V 8M tank/d:4");
    place.ok("ha update tank");
    let four = [three[0], three[1], three[2], ("tank/d:4", 4)];
    assert_eq!(served(&place, "tank"), units(&four));
    assert_eq!(events("unit_wait"), 2, "nothing new waits");
    // One of the two gets another number, so both are served.
    place.ok("rename tank/b:7 tank/b:8");
    place.ok("ha start tank");
    let six = [&four[..], &[("tank/a:7", 7), ("tank/b:8", 8)]].concat();
    assert_eq!(served(&place, "tank"), units(&six));
    assert_eq!(events("unit_serve"), 2);
    // A later one with the number of a served one waits, also where the pool is imported anew.
    place.ok("create -s -V 8M tank/aa:7");
    place.ok("ha start tank");
    assert_eq!(served(&place, "tank"), units(&six));
    assert_eq!(events("unit_wait"), 3);
    has(
        &place.ok("ha status tank"),
        "'tank/a:7' and 'tank/aa:7' would have the number 7",
    );
    place.ok("ha stop tank");
    place.ok("pool export tank");
    place.ok("pool import -d {DIR} tank");
    place.ok("ha start tank");
    assert_eq!(served(&place, "tank"), units(&six));
    // A volume that is missing holds up no change either, unless a served one would end: its name may be misspelled.
    let listed = |last: &str| {
        let names = six.iter().map(|(name, _)| *name);
        let names: Vec<_> = names.chain(["tank/none", last]).collect();
        at(&portal, &format!("logical_units=( {} )\n", names.join(" ")))
    };
    place.ok("create -s -V 8M tank/e:9");
    says(&place, "tank", &listed("tank/e:9"));
    place.ok("ha start tank");
    let seven = [&six[..], &[("tank/e:9", 9)]].concat();
    assert_eq!(served(&place, "tank"), units(&seven));
    says(&place, "tank", &listed("tank/ee:9"));
    let said = place.fails("ha start tank", USAGE);
    has(
        &said,
        "'tank/e:9' would not be served any more, so nothing changes",
    );
    assert_eq!(served(&place, "tank"), units(&seven));
}

#[test]
fn without_a_name_all_pools_are_started_and_updated() {
    let place = needs!(prepared());
    place.ok("pool create -s 64M -m {DIR}/zoo zoo {DIR}/zoo.pool");
    place.ok("pool create -s 64M -m {DIR}/plain plain {DIR}/plain.pool");
    place.refuses("ha start", NOT_FOUND, "no imported pool has ha.toml");
    place.refuses("ha update", NOT_FOUND, "no pool is served");
    place.ok("create -s -V 8M zoo/a");
    for pool in ["tank", "zoo"] {
        says(&place, pool, &at(&free_portal(), ""));
    }
    place.ok("ha start");
    assert_eq!(
        (served(&place, "tank").len(), served(&place, "zoo").len()),
        (2, 1)
    );
    // The one whose file is wrong holds up no other.
    place.ok("create -s -V 8M tank/more");
    place.ok("create -s -V 8M zoo/more");
    says(&place, "tank", "reboot\n");
    place.refuses("ha update", USAGE, "stmf-ha.conf of 'tank', line 1");
    assert_eq!(
        (served(&place, "tank").len(), served(&place, "zoo").len()),
        (2, 2)
    );
    place.ok("ha stop zoo");
    says(&place, "tank", &at(&free_portal(), ""));
    place.ok("ha update");
    assert_eq!(served(&place, "tank").len(), 3);
    place.says("ha status zoo", "not served");
    place.refuses("ha start all", NOT_FOUND, "leave the name out");
    assert_ne!(place.run(&["ha", "stop"]).code, 0);
}
