//! Space of users and groups in a dataset, and their quotas.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, chown};

use crate::common::*;

/// A pool `tank` whose encrypted dataset `a` is mounted below `mnt`.
fn pool() -> Place {
    let place = Place::new();
    place.ok("pool create -s 128M -m {DIR}/mnt tank {DIR}/tank.pool");
    fs::write(place.path("key"), [7; 32]).unwrap();
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{} tank/a",
        place.path("key").display()
    ));
    place
}

#[test]
fn users_have_what_their_files_take_and_no_more_than_they_may() {
    needs!(can_mount() && is_root());
    let place = pool();
    let file = |name: &str| place.path("mnt/a").join(name);
    fs::write(file("one"), vec![1; 300_000]).unwrap();
    fs::write(file("two"), vec![2; 100]).unwrap();
    for name in ["one", "two"] {
        chown(file(name), Some(54321), Some(54322)).unwrap();
    }
    assert_eq!(place.ok("get -H -o value userused@54321 tank/a"), "-\n");
    let taken = 300_000_u64.next_multiple_of(4096) + 100;
    let line = format!("POSIX User\t54321\t{taken}\tnone\t2\tnone\n");
    assert!(place.ok("userspace -Hp tank/a").contains(&line));
    let line = format!("54322\t{taken}\n");
    assert!(
        place
            .ok("groupspace -Hpn -o name,used tank/a")
            .contains(&line)
    );
    assert_eq!(
        place.ok("get -Hp -o value,source userused@54321,userobjused@54321 tank/a"),
        format!("{taken}\t-\n2\t-\n")
    );

    place.ok("set userquota@54321=512K userobjquota@54321=3 tank/a");
    assert_eq!(
        place.ok("get -H -o property,value,source userquota@54321,groupquota@54322 tank/a"),
        "userquota@54321\t512K\tlocal\ngroupquota@54322\tnone\tdefault\n"
    );
    let refused = fs::write(file("one"), vec![1; 600_000]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    fs::write(file("three"), vec![3; 600_000]).unwrap();
    let refused = chown(file("three"), Some(54321), None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert_eq!(fs::metadata(file("three")).unwrap().uid(), 0);
    place.ok("userspace --check tank/a");

    // They are in the dataset, not in the pool.
    place.ok("unmount tank/a");
    assert_eq!(place.ok("get -H -o value userquota@54321 tank/a"), "-\n");
    place.refuses("userspace tank/a", 3, "strongroom mount tank/a");
    place.ok("mount tank/a");
    let rows = place.ok("userspace -H -o name,quota,objquota -S quota -s name tank/a");
    has(&rows, "54321\t512K\t3\n");
    place.ok("set userquota@54321=none userobjquota@54321=none tank/a");
    fs::write(file("one"), vec![1; 600_000]).unwrap();
    let history = place.ok("pool history -il tank");
    lacks(&history, "54321");
    place.ok("pool export tank");
    let held = fs::read(place.path("tank.pool")).unwrap();
    assert_eq!(find(&held, b"userquota"), None);
}

#[test]
fn what_makes_no_sense_is_refused() {
    needs!(can_mount());
    let place = pool();
    place.fails("set userquota@0=much tank/a", USAGE);
    place.fails("set userquota@0=0 tank/a", USAGE);
    place.fails("set userused@0=1G tank/a", USAGE);
    place.fails("set userquota@0=1G quota=2G tank/a", USAGE);
    place.fails("create -o userquota@0=1G tank/b", USAGE);
    place.fails("inherit userquota@0 tank/a", USAGE);
    let said = place.fails("set userquota@no-such-user=1G tank/a", 3);
    has(&said, "there is no user 'no-such-user'");
    place.ok("snapshot tank/a@1");
    place.fails("userspace tank/a@1", USAGE);
    place.fails("get userbytes@0 tank/a", 3);
    // Nothing of this began to count.
    assert_eq!(place.ok("get -H -o value userused@0 tank/a"), "-\n");
    place.ok("userspace --check tank/a");
    assert_ne!(place.ok("get -H -o value userused@0 tank/a"), "-\n");
}
