//! Jobs of users who are not root: they have the rights of their owner, at each run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::*;

const ANN: (u32, u32) = (super::common::ANN, super::common::ANN);
const BOB: (u32, u32) = (12346, 12346);
/// A user with an account on each machine.
const NOBODY: (u32, u32) = (65534, 65534);
/// The capabilities that the unit of the system leaves the daemon.
const UNIT: &str = include_str!("../../../../contrib/systemd/system/strongroom.service");

#[test]
fn a_job_has_the_rights_that_its_owner_has_now() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.pool("safe");
    place.ok("create tank/a");
    place.ok("create safe/ann");
    place.ok("snapshot tank/a@1");
    let run = |user, line: &str| {
        let done = place.run_as(user, &place.socket(), line);
        (done.code, done.out + &done.err)
    };
    let may = |user, line: &str| {
        let (code, said) = run(user, line);
        assert_eq!(code, 0, "{line}: {said}");
        said
    };
    let add = "replicate add copy tank/a safe/ann/a --every 365d";
    place.ok("allow 12345 send,key tank/a");
    assert_eq!(run(ANN, add).0, PERMISSION);
    place.ok("allow 12345 bookmark tank/a");
    assert_eq!(run(ANN, add).0, PERMISSION);
    place.ok("allow 12345 receive,create,mount safe/ann");
    may(ANN, add);
    may(ANN, "replicate run copy");
    has(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@1",
    );
    has(
        &place.ok("pool history -l safe"),
        "12345 (replicate copy) on ",
    );
    // Others do not see it, whatever they may do.
    place.ok("allow 12346 send,key,bookmark tank/a");
    lacks(&may(BOB, "replicate list"), "copy");
    assert_eq!(run(BOB, "replicate run copy tank/a").0, NOT_FOUND);
    assert_eq!(run(BOB, "replicate remove copy tank/a").0, NOT_FOUND);
    has(&place.ok("replicate list"), "copy");
    // A right that is lost stops it, and it says so.
    place.ok("unallow 12345 receive safe/ann");
    place.ok("snapshot tank/a@2");
    let (code, said) = run(ANN, "replicate run copy");
    assert_eq!(code, PERMISSION, "{said}");
    has(&may(ANN, "replicate status copy"), "state: stopped");
    lacks(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@2",
    );
    place.ok("allow 12345 receive safe/ann");
    may(ANN, "replicate resume copy");
    may(ANN, "replicate run copy");
    has(
        &place.ok("list -H -t snapshot -o name -r safe"),
        "safe/ann/a@2",
    );
    // Old bookmarks went, although the owner may destroy nothing.
    let marks = place.ok("list -H -t bookmark -o name -r tank/a");
    assert_eq!(marks.lines().count(), 1, "{marks}");
    // Without any right on its dataset the owner does not see it.
    has(&may(ANN, "replicate list"), "copy");
    place.ok("unallow 12345 send,key,bookmark tank/a");
    lacks(&may(ANN, "replicate list"), "copy");
    place.ok("allow 12345 send,key,bookmark tank/a");
    may(ANN, "replicate remove copy");
    lacks(&place.ok("replicate list"), "copy");
}

#[test]
fn ssh_runs_as_the_owner_with_what_the_unit_allows() {
    let mut place = needs!(shared_place());
    needs!(is_installed("setpriv"), "there is no setpriv");
    let dir = place.arg("");
    // The variables that the program got, and not those that the shell adds.
    let program = format!(
        "#!/bin/sh\nexec > {dir}/theirs/told\nid -u; id -G; tr '\\0' '\\n' < /proc/$$/environ | sort\n\
         grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/$$/status\n"
    );
    fs::write(place.path("ssh"), program).unwrap();
    fs::set_permissions(place.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(place.path("theirs")).unwrap();
    std::os::unix::fs::chown(place.path("theirs"), Some(NOBODY.0), None).unwrap();
    let line = |name: &str| UNIT.lines().find_map(|line| line.strip_prefix(name));
    let capabilities = line("CapabilityBoundingSet=").unwrap().to_lowercase();
    let capabilities = capabilities.replace("cap_", "+").replace(' ', ",");
    place.terminate();
    let within = [
        "env".to_owned(),
        format!("STRONGROOM_SSH={}", place.arg("ssh")),
        "setpriv".to_owned(),
        "--no-new-privs".to_owned(),
        format!("--bounding-set=-all,{capabilities}"),
    ];
    place.start_within(&within);
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("snapshot tank/a@1");
    place.ok("allow nobody send,key,bookmark tank/a");
    let run = |line: &str| place.run_as(NOBODY, &place.socket(), line);
    let added = run("replicate add copy tank/a ssh://host/safe/a --every 365d");
    assert_eq!(added.code, 0, "{}", added.err);
    // The program is no ssh: it says that it received all.
    let done = run("replicate run copy");
    assert_eq!(done.code, OTHER);
    has(&done.err, "'safe/a' did not get all snapshots");
    let told = fs::read_to_string(place.path("theirs/told")).unwrap();
    let account = fs::read_to_string("/etc/passwd").unwrap();
    let account = account.lines().find(|line| line.starts_with("nobody:"));
    let home = account.unwrap().split(':').nth(5).unwrap();
    let none = "\t0000000000000000\n";
    let expected = format!(
        "65534\n65534\nHOME={home}\nLOGNAME=nobody\nPATH=/usr/bin:/bin\nUSER=nobody\n\
         CapInh:{none}CapPrm:{none}CapEff:{none}CapAmb:{none}"
    );
    assert_eq!(told, expected);
}

#[test]
fn a_user_has_a_limited_number_of_jobs() {
    let place = needs!(shared_place());
    place.pool("tank");
    let add = |dataset: usize, job: usize| {
        // Nothing runs there: the user has no account.
        let line = format!(
            "replicate add j{job} tank/d{dataset} ssh://host.invalid/safe/a{job} --every 365d"
        );
        place.run_as(ANN, &place.socket(), &line)
    };
    for dataset in 0..6 {
        place.ok(&format!("create tank/d{dataset}"));
        place.ok(&format!("allow 12345 send,key,bookmark tank/d{dataset}"));
    }
    for number in 0..64 {
        let done = add(number / 12, number % 12);
        assert_eq!(done.code, 0, "{number}: {}", done.err);
    }
    let refused = add(5, 11);
    assert_eq!(refused.code, USAGE);
    has(&refused.err, "you have 64 jobs");
    place.ok("destroy -f tank/d0");
    assert_eq!(add(5, 11).code, 0);
}
