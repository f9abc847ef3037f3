use super::*;

fn device(path: &str, group: Option<u16>, state: &str) -> DeviceRow {
    DeviceRow {
        path: path.into(),
        guid: 2,
        size: 4 << 30,
        unused: 0,
        state: state.into(),
        group,
        is_log: false,
        is_cache: false,
        parity: 0,
        column: 0,
        replaces: None,
        was_spare: false,
        read: 0,
        write: 0,
        checksum: 0,
        io: Some("buffered".into()),
    }
}

fn no_scan() -> ScrubRow {
    ScrubRow {
        state: "none".into(),
        started: 0,
        ended: 0,
        examined: 0,
        total: 0,
        repaired: 0,
        errors: 0,
        unreadable: 0,
        waits: None,
    }
}

#[test]
fn a_tree_of_mirrors_and_spares() {
    let mut pool = pool();
    let mut failed = device("/dev/b", Some(0), "FAULTED");
    (failed.read, failed.write, failed.checksum) = (1, 22, 3);
    let mut spare = device("/dev/s", Some(0), "RESILVERING");
    (spare.replaces, spare.was_spare) = (Some("/dev/b".into()), true);
    let mut new = device("/dev/d", Some(1), "RESILVERING");
    new.replaces = Some("/dev/c".into());
    pool.health = "DEGRADED".into();
    pool.devices = vec![
        device("/dev/a", Some(0), "ONLINE"),
        failed,
        spare,
        device("/dev/c", Some(1), "ONLINE"),
        new,
        device("/dev/t", None, "AVAIL"),
    ];
    pool.resilver.state = "running".into();
    pool.resilver.started = 1000;
    pool.resilver.examined = 1 << 30;
    pool.resilver.repaired = 12 << 20;
    pool.resilver.total = 4 << 30;
    let text = report(&pool, false, 1010);
    let tree = "\
\tNAME                           STATE        READ  WRITE  CKSUM  SIZE
\ttank                           DEGRADED        0      0      0    4G
\t  mirror-0                     DEGRADED        1     22      3    4G
\t    /dev/a                     ONLINE          0      0      0    4G
\t    /dev/b                     FAULTED         1     22      3    4G
\t    /dev/s (spare for /dev/b)  RESILVERING     0      0      0    4G
\t  replacing-1                  DEGRADED        0      0      0    4G
\t    /dev/c                     ONLINE          0      0      0    4G
\t    /dev/d (replaces /dev/c)   RESILVERING     0      0      0    4G
\tspares
\t  /dev/t  AVAIL
";
    assert!(text.contains(tree), "{text}");
    let speed = "\t1G scanned out of 4G at 102M/s, 00:00:30 to go\n\t12M resilvered, 0 errors, 25.0% done\n";
    assert!(text.contains(speed), "{text}");
}

#[test]
fn log_and_cache_devices_come_behind_the_others() {
    let mut pool = pool();
    let log = |path: &str, group| DeviceRow {
        is_log: true,
        ..device(path, Some(group), "ONLINE")
    };
    pool.devices = vec![
        device("/a", Some(0), "ONLINE"),
        log("/l", 1),
        device("/b", Some(2), "ONLINE"),
        log("/m", 3),
        log("/n", 3),
        device("/s", None, "AVAIL"),
        DeviceRow {
            is_cache: true,
            ..device("/c", None, "ONLINE")
        },
    ];
    let text = report(&pool, false, 1010);
    let tree = "\
\ttank        ONLINE     0      0      0    4G
\t  /a        ONLINE     0      0      0    4G
\t  /b        ONLINE     0      0      0    4G
\tlogs
\t  /l        ONLINE     0      0      0    4G
\t  mirror-3  ONLINE     0      0      0    4G
\t    /m      ONLINE     0      0      0    4G
\t    /n      ONLINE     0      0      0    4G
\tcache
\t  /c        ONLINE     0      0      0    4G
\tspares
\t  /s  AVAIL
";
    assert!(text.contains(tree), "{text}");
}

#[test]
fn a_group_with_parity() {
    let mut pool = pool();
    let member = |path: &str, column| DeviceRow {
        parity: 2,
        column,
        ..device(path, Some(0), "ONLINE")
    };
    pool.devices = ["/a", "/b", "/c", "/d"]
        .into_iter()
        .zip(0..)
        .map(|(path, column)| member(path, column))
        .collect();
    let mut new = member("/e", 3);
    (new.replaces, new.state) = (Some("/d".into()), "RESILVERING".into());
    pool.devices.push(new);
    let text = report(&pool, false, 1010);
    let tree = "\
\t  raidz2-0            DEGRADED        0      0      0    8G
\t    /a                ONLINE          0      0      0    4G
\t    /b                ONLINE          0      0      0    4G
\t    /c                ONLINE          0      0      0    4G
\t    /d                ONLINE          0      0      0    4G
\t    /e (replaces /d)  RESILVERING     0      0      0    4G
";
    assert!(text.contains(tree), "{text}");
}

fn pool() -> PoolReport {
    PoolReport {
        name: "tank".into(),
        guid: 1,
        health: "ONLINE".into(),
        trouble: None,
        action: None,
        size: 4 << 30,
        allocated: 1 << 30,
        free: 3 << 30,
        space_low: None,
        expandable: 0,
        checkpoint: None,
        retention: None,
        follower: None,
        dedupratio: 1.0,
        freeing: false,
        read_only: false,
        txg: 7,
        devices: vec![device("/var/lib/tank.pool", Some(0), "ONLINE")],
        scrub_late: None,
        altroot: None,
        scrub: no_scan(),
        resilver: no_scan(),
        removal: None,
        trim: None,
        initialize: None,
        damage: Vec::new(),
        waiting: Vec::new(),
        reader: None,
    }
}

#[test]
fn reader() {
    let mut pool = pool();
    pool.read_only = true;
    pool.reader = Some(ReaderRow {
        time: 1_290_146_305,
        checked: 1_290_146_400,
        is_outdated: false,
        refresh: 300,
    });
    let text = report(&pool, false, 1_290_146_445);
    let state = time::second(1_290_146_305);
    let line = format!(" as of: {state}, the newest state 45 s ago, refreshed every 5 min\n");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn image() {
    let mut pool = pool();
    let mut follower = FollowerRow {
        path: "s3://bucket/tank".into(),
        interval: 30,
        state: "current".into(),
        behind: 0,
        txg: Some(7),
        time: None,
        problem: None,
        copied: 0,
        lost: 0,
    };
    pool.follower = Some(follower.clone());
    let text = report(&pool, false, 0);
    let line = "follows: s3://bucket/tank has the newest state\n";
    assert!(text.contains(line) && !text.contains("lacks"), "{text}");
    follower.lost = 3;
    pool.follower = Some(follower);
    let text = report(&pool, false, 0);
    let line = "damaged records that it lacks: 3; see 'strongroom explain data-damaged'\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn healthy() {
    assert_eq!(
        report(&pool(), false, 0),
        "  pool: tank
 state: ONLINE
  scan: none requested
config:

\tNAME                  STATE   READ  WRITE  CKSUM  SIZE
\ttank                  ONLINE     0      0      0    4G
\t  /var/lib/tank.pool  ONLINE     0      0      0    4G

errors: No known data errors
"
    );
}

#[test]
fn full_besides_something_worse() {
    let mut pool = pool();
    pool.trouble = Some("Some data is damaged.".into());
    pool.action = Some("Restore it.".into());
    pool.space_low = Some("97 % of the space is in use.".into());
    let text = report(&pool, false, 0);
    assert!(
        text.contains("\naction: Restore it.\n space: 97 % of the space is in use.\n   see: "),
        "{text}"
    );
}

#[test]
fn damaged() {
    let mut pool = pool();
    pool.health = "DEGRADED".into();
    pool.trouble = Some("Some data is damaged.".into());
    pool.action = Some("Restore it.".into());
    pool.damage = vec!["tank/home: data 5".into(), "bad\x1b[0m\nname".into()];
    let short = report(&pool, false, 0);
    assert!(short.contains("\nstatus: Some data is damaged.\naction: Restore it.\n   see: "));
    assert!(short.ends_with("errors: 2 data errors, use '-v' for a list\n"));
    let long = report(&pool, true, 0);
    let list = "found in:\n\n\ttank/home: data 5\n\tbad\\u{1b}[0m\\nname\n";
    assert!(long.ends_with(list), "{long}");
}

#[test]
fn scrubs() {
    let mut scrub = pool().scrub;
    scrub.state = "running".into();
    scrub.started = 1000;
    scrub.examined = 1 << 30;
    scrub.total = 4 << 30;
    scrub.repaired = 1;
    let lines = scan(&scrub, 1010);
    assert!(lines[0].starts_with("scrub in progress since "));
    assert_eq!(lines[1], "1G scanned out of 4G at 102M/s, 00:00:30 to go");
    assert_eq!(lines[2], "1 copy repaired, 0 errors, 25.0% done");
    assert_eq!(
        scan(&scrub, 0)[1],
        "1G scanned out of 4G at 1G/s, 00:00:03 to go"
    );
    scrub.examined = 0;
    assert_eq!(scan(&scrub, 1010)[1], "0B scanned out of 4G");
    scrub.state = "finished".into();
    scrub.ended = 1751;
    let line = &scan(&scrub, 0)[0];
    assert!(line.starts_with("scrub repaired 1 copy in 00:12:31 with 0 errors on "));
}

#[test]
fn percents() {
    assert_eq!(percent(0, 0), "100.0%");
    assert_eq!(percent(1, 3), "33.3%");
    assert_eq!(percent(5, 4), "100.0%");
    assert_eq!(percent(u64::MAX, u64::MAX), "100.0%");
}
