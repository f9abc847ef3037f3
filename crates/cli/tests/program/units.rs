//! The units for systemd: their hardening lets every documented feature work.
//!
//! A table says which directives each feature needs. The daemon also runs with what the unit of the system
//! leaves it: as a transient unit where systemd runs, else with the same capabilities, and with its system
//! calls compared with the unit's filter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;

const README: &str = include_str!("../../../../README.md");
const INSTALL: &str = include_str!("../../../../docs/guide/src/install.md");
const SHARING: &str = include_str!("../../../../docs/guide/src/sharing.md");
const REPLICATION: &str = include_str!("../../../../docs/guide/src/replication.md");
const SERVING: &str = include_str!("../../../../docs/guide/src/serving.md");
const WRONG: &str = include_str!("../../../../docs/guide/src/wrong/README.md");
const PERFORMANCE: &str = include_str!("../../../../docs/PERFORMANCE.md");
const FAILOVER: &str = include_str!("../../../../docs/FAILOVER.md");
const PROVIDERS: &str = include_str!("../../../../docs/KEY-PROVIDERS.md");

/// A need of a feature in a unit, as words between spaces.
enum Need {
    /// Sockets of these families.
    Families(&'static str),
    /// Capabilities of root.
    Capabilities(&'static str),
    /// System calls.
    Calls(&'static str),
    /// Directives that would forbid the feature. Each is absent, or has the value `no`.
    Without(&'static str),
    /// A directive with this value.
    Is(&'static str, &'static str),
}

use Need::*;

/// Directives that give a service a name space of its own for mounts.
const NAME_SPACES: &str = "PrivateMounts PrivateTmp PrivateDevices PrivateUsers ProtectSystem ProtectHome \
    ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups ProtectProc \
    ProcSubset ProtectHostname ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths \
    BindPaths BindReadOnlyPaths TemporaryFileSystem MountFlags MountAPIVFS RootDirectory RootImage \
    DynamicUser";

/// Directives that keep devices away.
const NO_DEVICES: &str = "PrivateDevices DevicePolicy DeviceAllow ProtectClock";

/// Directives that keep the network away.
const NO_NETWORK: &str =
    "PrivateNetwork IPAddressDeny SocketBindDeny RestrictNetworkInterfaces NetworkNamespacePath";

/// The promises of the documents, in their words, and their needs in the unit of the system.
#[rustfmt::skip]
const FEATURES: &[(&str, &str, &[Need])] = &[
    (README, "HTTPS server", &[Families("AF_INET AF_INET6"), Without(NO_NETWORK)]),
    (SERVING, "--listen 0.0.0.0:10809", &[Families("AF_INET AF_INET6"), Without(NO_NETWORK), Calls("listen accept4")]),
    (
        README,
        "PKCS#11 token",
        &[
            Families("AF_UNIX AF_NETLINK"),
            Without(NO_DEVICES),
            Without("MemoryDenyWriteExecute"),
        ],
    ),
    (PROVIDERS, "`exec:///PROGRAM?ARGUMENT`", &[Calls("execve clone3 kill ioctl"), Without(NO_DEVICES)]),
    (
        PROVIDERS,
        "`/run/strongroom/key-providers`",
        &[
            Families("AF_UNIX"),
            Is("RuntimeDirectory", "strongroom"),
            Is("RuntimeDirectoryPreserve", "yes"),
        ],
    ),
    (
        README,
        "POSIX through FUSE",
        &[
            Without(NAME_SPACES),
            Capabilities("CAP_SYS_ADMIN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH"),
            Calls("mount umount2 move_mount fsopen fsmount mount_setattr"),
        ],
    ),
    (
        README,
        "locked memory",
        &[
            Capabilities("CAP_IPC_LOCK"),
            Is("LimitMEMLOCK", "infinity"),
            Is("LimitCORE", "0"),
            Calls("mlock mlock2 madvise"),
        ],
    ),
    (README, "on files or disks", &[Without(NO_DEVICES), Calls("ioctl fallocate")]),
    (
        PERFORMANCE,
        "may yield processors (`CAP_SYS_NICE`",
        &[
            Capabilities("CAP_SYS_NICE"),
            Calls("sched_setscheduler sched_setaffinity"),
        ],
    ),
    (
        FAILOVER,
        "strongroom pool set reservations=on",
        &[
            Capabilities("CAP_SYS_ADMIN CAP_SYS_RAWIO"),
            Without(NO_DEVICES),
            Calls("ioctl"),
        ],
    ),
    (
        REPLICATION,
        "runs `ssh` as the user who added the job",
        &[
            Capabilities("CAP_SETUID CAP_SETGID CAP_KILL"),
            Calls("execve clone3 setgroups setgid setuid setpgid kill waitid"),
        ],
    ),
    (SHARING, "/run/strongroom/zones", &[Is("RuntimeDirectory", "strongroom")]),
    (
        INSTALL,
        "tells it when the pools are imported and the datasets are mounted",
        &[Is("Type", "notify"), Is("TimeoutStartSec", "infinity")],
    ),
    (WRONG, "journal", &[Without("StandardOutput StandardError LogNamespace")]),
];

/// The directives of a unit, with the last value that each gets.
fn directives(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(['#', '[']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn unit(kind: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd");
    Path::new(root).join(kind).join("strongroom.service")
}

fn lists(list: &str, wanted: &str) -> bool {
    list.split(' ').any(|word| word == wanted)
}

/// The system calls that a filter lets through; `None` where nothing can say what the sets contain.
fn calls(filter: &str) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = filter.split(' ').map(Into::into).collect();
    while let Some(name) = open.pop() {
        if !name.starts_with('@') {
            found.insert(name);
            continue;
        }
        let shown = Command::new("systemd-analyze")
            .args(["syscall-filter", "--no-pager", &name])
            .output();
        let Ok(shown) = shown else {
            eprintln!(
                "skipped in part: there is no systemd-analyze, which knows sets of system calls"
            );
            return None;
        };
        let text = String::from_utf8(shown.stdout).unwrap();
        let words = text.lines().skip(1).map(str::trim);
        open.extend(
            words
                .filter(|word| !word.is_empty() && !word.starts_with('#'))
                .map(Into::into),
        );
    }
    Some(found)
}

#[test]
fn the_unit_of_the_system_lets_every_feature_work() {
    let unit = directives(&unit("system"));
    let value = |name: &str| unit.get(name).map_or("", String::as_str);
    let calls = calls(value("SystemCallFilter"));
    for (document, promise, needs) in FEATURES {
        assert!(
            document.contains(promise),
            "no document promises '{promise}'"
        );
        let each = |names: &str, holds: &dyn Fn(&str) -> bool| {
            for name in words(names) {
                assert!(holds(name), "{promise}: {name}");
            }
        };
        for need in *needs {
            match need {
                Families(names) => {
                    each(names, &|name| lists(value("RestrictAddressFamilies"), name))
                }
                Capabilities(names) => {
                    each(names, &|name| lists(value("CapabilityBoundingSet"), name))
                }
                Calls(names) => each(names, &|name| {
                    calls.as_ref().is_none_or(|calls| calls.contains(name))
                }),
                Without(names) => each(names, &|name| ["", "no"].contains(&value(name))),
                Is(name, wanted) => assert_eq!(value(name), *wanted, "{promise}: {name}"),
            }
        }
    }
    // What no feature needs stays forbidden.
    for name in words("NoNewPrivileges RestrictNamespaces RestrictSUIDSGID LockPersonality") {
        assert_eq!(value(name), "yes", "{name}");
    }
}

/// Half of the threads and a part of the memory of the machine stay for others. The exposure is in tenths; that of the
/// daemon is as low as mounts, devices and the network allow.
#[test]
fn the_units_have_limits_and_a_low_exposure() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib"));
    for (file, exposure_max) in [
        ("systemd/system/strongroom.service", "52"),
        ("systemd/system/strongroom-web.service", "25"),
        ("systemd/system/strongroom-notify.service", "65"),
        ("prometheus/strongroom-metrics.service", "25"),
    ] {
        let file = root.join(file);
        if file.starts_with(root.join("systemd")) {
            let unit = directives(&file);
            assert!(unit["TasksMax"] != "infinity" && unit["MemoryMax"] != "infinity");
        }
        let args = ["security", "--offline=yes", "--no-pager"];
        let analyze = Command::new("systemd-analyze")
            .args(args)
            .arg(format!("--threshold={exposure_max}"))
            .arg(&file)
            .output();
        let Ok(analyzed) = analyze else {
            return eprintln!("skipped in part: there is no systemd-analyze");
        };
        let text = String::from_utf8_lossy(&analyzed.stdout);
        assert!(analyzed.status.success(), "{}: {text}", file.display());
    }
}

/// An ordinary user's daemon mounts by a program that is set-user-ID root.
#[test]
fn the_unit_of_a_user_forbids_nothing_that_fusermount_needs() {
    assert!(README.contains("mounts through `fusermount3`"));
    let unit = directives(&unit("user"));
    let implies_no_new_privileges = "NoNewPrivileges SystemCallFilter SystemCallArchitectures RestrictAddressFamilies \
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID MemoryDenyWriteExecute \
        LockPersonality ProtectClock CapabilityBoundingSet";
    for list in [
        implies_no_new_privileges,
        NAME_SPACES,
        NO_DEVICES,
        NO_NETWORK,
    ] {
        for name in words(list) {
            assert!(!unit.contains_key(name), "{name}");
        }
    }
    for (name, value) in [
        ("Type", "notify"),
        ("RuntimeDirectory", "strongroom"),
        ("LimitCORE", "0"),
    ] {
        assert_eq!(unit[name], value, "{name}");
    }
}

#[test]
fn systemd_understands_the_units() {
    let place = Place::without_daemon();
    for kind in ["system", "user"] {
        let text = fs::read_to_string(unit(kind)).unwrap();
        let copy = place.path("strongroom.service");
        fs::write(&copy, text.replace("/usr/local/bin/strongroom", PROGRAM)).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.env("XDG_RUNTIME_DIR", place.root());
        let manager = format!("--{kind}");
        let output = command
            .args(["verify", "--man=no", &manager])
            .arg(&copy)
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: there is no systemd-analyze");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("Failed to initialize manager") || said.contains("Failed to lookup") {
            eprintln!("skipped for {kind}: {said}");
            continue;
        }
        assert_eq!(said, "", "{kind}");
        assert!(output.status.success(), "{kind}");
    }
}

/// The result of a verification of units by systemd; `None` where it cannot verify.
fn verified(units: &Path, name: &Path) -> Option<String> {
    let output = Command::new("systemd-analyze")
        .env("XDG_RUNTIME_DIR", units)
        // The system's own units come after them.
        .env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()))
        .args(["verify", "--man=no", "--system"])
        .arg(name)
        .output();
    let said = String::from_utf8_lossy(&output.ok()?.stderr).into_owned();
    match said.contains("Failed to initialize manager") {
        true => None,
        false => Some(said),
    }
}

#[test]
fn systemd_understands_what_the_generator_writes() {
    let place = Place::without_daemon();
    let units = place.path("units");
    fs::create_dir(&units).unwrap();
    let service = fs::read_to_string(unit("system")).unwrap();
    let service = service.replace("/usr/local/bin/strongroom", PROGRAM);
    fs::write(units.join("strongroom.service"), service).unwrap();
    fs::write(
        place.path("fstab"),
        "tank/data  /srv//a\\040b/  strongroom  noatime,nofail,x-systemd.after=b.service  0 0\n\
         # tank/no  /no  strongroom\n\
         tank/www  /srv/www  strongroom  defaults\n\
         tank/%n  /mnt/hand  fuse.strongroom  noauto,ro\n\
         tank/bad  nowhere  strongroom\n\
         /dev/sda1  /  ext4\n",
    )
    .unwrap();
    fs::write(
        place.path("crypttab"),
        "one  /dev/disk/by-id/x  /etc/$key  discard,nofail\ntwo  UUID=1-2  none  _netdev,read-only\nx y z swap\n",
    )
    .unwrap();
    let line = "generate systemd --fstab {DIR}/fstab --crypttab {DIR}/crypttab {DIR}/units";
    let said = place.fails(line, OTHER);
    has(&said, "fstab, line 5: 'nowhere' is not the path");
    has(&said, "crypttab, line 3: the option swap is not known");
    has(
        &said,
        "fstab, line 3: '/srv/www' has neither _netdev nor nofail",
    );
    assert_eq!(said.lines().count(), 3, "{said}");

    let data = "srv-a\\x20b.mount";
    #[rustfmt::skip]
    let rows = [
        (data, "What=tank/data\nWhere=/srv/a b\nType=strongroom\nOptions=noatime\n"),
        (data, "After=b.service\n"),
        (data, "Before=umount.target\n"),
        ("srv-www.mount", "Requires=strongroom.service\nAfter=strongroom.service "),
        ("mnt-hand.mount", "What=tank/%%n\n"),
        ("strongroom-luks-one.service", "--key-file \"/etc/$$key\" --allow-discards -- "),
        ("strongroom-luks-two.service", "luks open --token-only --readonly -- \"/dev/disk/by-uuid/1-2\" \"two\"\n"),
    ];
    for (name, wanted) in rows {
        has(
            &fs::read_to_string(units.join(name)).unwrap_or_default(),
            wanted,
        );
    }
    let links = |dir: &str| {
        let names = fs::read_dir(units.join(dir)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<BTreeSet<_>>()
    };
    let set = |names: [&str; 2]| names.map(String::from).into();
    assert_eq!(
        links("remote-fs.target.requires"),
        set(["srv-www.mount", "strongroom-luks-two.service"])
    );
    assert_eq!(
        links("remote-fs.target.wants"),
        set([data, "strongroom-luks-one.service"])
    );
    for name in [
        data,
        "srv-www.mount",
        "mnt-hand.mount",
        "strongroom-luks-one.service",
    ] {
        match verified(&units, &units.join(name)) {
            Some(said) => assert_eq!(said, "", "{name}"),
            None => {
                return eprintln!("skipped in part: systemd-analyze does not verify units here");
            }
        }
    }
    // systemd's own generator has the target of local mounts pull in the same mounts.
    let pulled = units.join("local-fs.target.requires");
    fs::create_dir(&pulled).unwrap();
    std::os::unix::fs::symlink("../srv-www.mount", pulled.join("srv-www.mount")).unwrap();
    let said = verified(&units, Path::new("local-fs.target")).unwrap_or_default();
    lacks(&said, "cycl");
}

/// Uses what the documents promise, of a daemon that is restricted.
fn use_everything(place: &Place) {
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place.ok("keygen {DIR}/key");
    place.ok("create -o encryption=on -o keysource=raw,file://{DIR}/key tank/a");
    // A directory of another user, below which a dataset is mounted.
    let theirs = place.path("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(12345), Some(12345)).unwrap();
    place.ok("create -o mountpoint={DIR}/theirs/b tank/b");
    fs::write(theirs.join("b/file"), "written").unwrap();
    fs::write(place.path("mnt/a/file"), vec![7; 1 << 20]).unwrap();
    std::os::unix::fs::chown(place.path("mnt/a/file"), Some(12345), None).unwrap();
    place.ok("snapshot -r tank@1");
    place.ok("clone -K tank/a@1 tank/a/clone");
    place.ok("rollback tank/b@1");
    // A key server, by a connection that is refused by the server and not by the unit.
    let create = "create -u -o encryption=on -o keysource=raw,https://127.0.0.1:1/k tank/h";
    place.refuses(create, NO_KEY, "connection refused");
    // A key provider that is not there; one that is would have to lie where root installs it.
    let create = "create -u -o encryption=on -o keysource=raw,exec:///nowhere/p tank/p";
    place.fails(create, NO_KEY);
    // NBD by TCP needs certificates, so it is the address that is refused here.
    place.ok("create -V 4M tank/v");
    place.ok("nbd export tank/v");
    place.ok("nbd list");
    place.ok("nbd unexport tank/v");
    // Tenants, delegates.
    place.ok("zone create z --dataset tank/b --owner 12345");
    place.ok("zone destroy z");
    place.ok("allow -e snapshot tank/b");
    // LUKS.
    let container = fs::File::create(place.path("luks")).unwrap();
    container.set_len(32 << 20).unwrap();
    let format = "luks format -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {DIR}/luks";
    place.ok_with(format, "passphrase\n");
    place.ok_with("luks open {DIR}/luks l", "passphrase\n");
    place.ok("luks close l");
    place.ok("pool scrub -w tank");
    place.ok("unmount -a");
    place.ok("key unload -a");
    place.ok("key load -a");
    place.ok("mount -a");
    place.ok("destroy --shred -f tank/a/clone");
    place.ok("pool status -v");
}

fn strings(line: &str) -> Vec<String> {
    words(line).into_iter().map(Into::into).collect()
}

/// The command line that starts the daemon with the rights that the unit leaves it.
fn sandbox(unit: &BTreeMap<String, String>, place: &Place) -> Option<Vec<String>> {
    if Path::new("/run/systemd/system").is_dir() {
        let mut line = strings("systemd-run --quiet --collect --pipe --wait");
        let names = "CapabilityBoundingSet NoNewPrivileges RestrictAddressFamilies RestrictNamespaces \
            RestrictRealtime RestrictSUIDSGID LockPersonality SystemCallArchitectures \
            SystemCallFilter SystemCallErrorNumber KeyringMode LimitMEMLOCK LimitCORE";
        let names = words(names).into_iter();
        line.extend(names.map(|name| format!("--property={name}={}", unit[name])));
        line.push(format!(
            "--setenv=STRONGROOM_SOCKET={}",
            place.arg("socket")
        ));
        return Some(line);
    }
    eprintln!("skipped in part: systemd does not run here; setpriv and strace stand in for it");
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setpriv");
        return None;
    }
    let capabilities = unit["CapabilityBoundingSet"]
        .to_lowercase()
        .replace("cap_", "+");
    let bounding = format!("--bounding-set=-all,{}", capabilities.replace(' ', ","));
    let mut line = strings(&format!("setpriv --no-new-privs {bounding}"));
    match Command::new("strace").arg("-V").output() {
        Ok(_) => {
            line.extend(strings("strace -f -qq -c -U name -o"));
            line.push(place.arg("calls"));
        }
        Err(_) => eprintln!("skipped in part: there is no strace"),
    }
    Some(line)
}

#[test]
fn a_daemon_that_is_restricted_does_everything() {
    needs!(
        is_root() && can_mount(),
        "the unit of the system is root's, and needs /dev/fuse"
    );
    let unit = directives(&unit("system"));
    let mut place = Place::without_daemon();
    let within = needs!(sandbox(&unit, &place));
    place.start_within(&within);
    use_everything(&place);
    place.ok("daemon stop");
    place.wait_for_end();
    let (Ok(made), Some(allowed)) = (
        fs::read_to_string(place.path("calls")),
        calls(&unit["SystemCallFilter"]),
    ) else {
        return;
    };
    let made: Vec<&str> = made
        .lines()
        .map(str::trim)
        .filter(|name| !name.contains(['-', ' ']))
        .collect();
    assert!(
        made.contains(&"mount") || made.contains(&"fsopen"),
        "{made:?}"
    );
    for name in made
        .iter()
        .filter(|name| !["syscall", "total"].contains(name))
    {
        assert!(allowed.contains(*name), "the unit forbids {name}");
    }
}
