//! Readers of a pool on an object store, beside the host that writes.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use super::*;

const ESTALE: i32 = 116;

/// A writer with files in `tank/fs`, and the address of its pool.
fn writer(store: impl FnOnce(&Place) -> TestStore) -> (Place, TestStore, String) {
    let one = Place::new();
    let store = store(&one);
    let address = store.pool("tank");
    one.ok(&format!("pool create -m none tank {address}"));
    make_files(&one, "tank/fs");
    write_numbered(&one.path("m"), 0..10);
    one.ok("snapshot tank/fs@a");
    one.ok("pool sync tank");
    (one, store, address)
}

fn import(two: &Place, address: &str, options: &str) {
    two.ok(&format!(
        "pool import -o readonly=on {options} -l --accept -R {{DIR}}/r {address} tank"
    ));
}

/// A reader shows a whole state and changes nothing. The writer goes on, and another host cannot take its pool unforced.
#[test]
fn a_reader_reads_a_whole_state_beside_the_writer() {
    let two = needs!(other_host());
    let (one, _store, address) = writer(TestStore::folder);
    let objects = tree(&one.path("bucket"));
    import(&two, &address, "-o refresh=off");
    let there = seen_by(&two, &one);
    has_numbered(&there, 0..10);
    let refused = fs::write(there.join("new"), b"new").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts
        .lines()
        .find(|line| line.contains(there.to_str().unwrap()));
    has(mount.unwrap(), " ro,");
    has(&two.ok("list -t snapshot"), "tank/fs@a");
    has_numbered(&there.join(".snapshot/a"), 0..10);
    let sent = two.shell(&format!("{PROGRAM} send -w tank/fs@a > stream"));
    assert_eq!(sent.code, 0, "{sent:?}");
    let status = two.ok("pool status tank");
    has(&status, "access: read-only");
    has(&status, " as of: ");
    two.fails("snapshot tank/fs@b", PERMISSION);
    assert!(tree(&one.path("bucket")) == objects, "the reader wrote");
    // It does not have the pool: the writer still has.
    two.ok("pool export tank");
    two.fails(&format!("pool import {address} tank"), BUSY);
    import(&two, &address, "-o refresh=off");
    write_numbered(&one.path("m"), 10..20);
    one.ok("pool sync tank");
    assert!(!there.join("10").exists());
    has_numbered(&there, 0..10);
    is_whole(&one, "tank");
    // A host that takes the pool is not kept away by readers.
    let three = needs!(other_host());
    signal(&one, Signal::STOP);
    three.ok(&format!("pool import -f -N {address} tank"));
    three.ok("snapshot tank/fs@taken");
    three.ok("pool sync tank");
    signal(&one, Signal::CONT);
    two.ok("pool refresh tank");
    has(&two.ok("list -t snapshot"), "tank/fs@taken");
    has_numbered(&there, 0..20);
}

/// A refresh keeps mounts, and open files have the newest contents.
#[test]
fn a_refresh_keeps_mounts() {
    needs!(can_mount());
    let (one, store, address) = writer(TestStore::folder);
    let mut two = store.daemon();
    import(&two, &address, "-o refresh=off");
    let there = seen_by(&two, &one);
    has_numbered(&there, 0..10);
    let open = |name: &str| fs::File::open(there.join(name)).unwrap();
    let [gone, kept, changed] = ["0", "2", "3"].map(open);
    let read = |file: &fs::File, len: usize| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    for (file, number) in [(&gone, 0), (&kept, 2), (&changed, 3)] {
        assert!(read(file, 5000).unwrap() == numbered(number)[..5000]);
    }
    let dir = one.path("m");
    fs::remove_file(dir.join("0")).unwrap();
    let newer = contents(77, 7000);
    write_synced(&dir.join("3"), &newer).unwrap();
    fs::rename(dir.join("4"), dir.join("four")).unwrap();
    write_numbered(&dir, 10..12);
    one.ok("pool sync tank");
    // Until then nothing changes.
    assert!(read(&gone, 5000).unwrap() == numbered(0)[..5000]);
    has_numbered(&there, 0..10);
    let said = two.ok("pool refresh tank");
    has(&said, "'tank' was at ");
    has(&two.ok("pool refresh tank"), "has the newest state");
    has(&two.ok("pool refresh tank --json"), "\"txg\"");
    has_numbered(&there, 10..12);
    assert!(!there.join("0").exists() && !there.join("4").exists());
    assert!(fs::read(there.join("four")).unwrap() == numbered(4));
    assert_eq!(fs::read(there.join("3")).unwrap(), newer);
    assert_eq!(read(&changed, 7000).unwrap(), newer);
    assert!(read(&kept, 5000).unwrap() == numbered(2)[..5000]);
    assert_eq!(read(&gone, 5000).unwrap_err().raw_os_error(), Some(ESTALE));
    // After a rollback the next file has the same inode number.
    one.ok("snapshot tank/fs@b");
    write_synced(&dir.join("first"), b"first").unwrap();
    one.ok("pool sync tank");
    two.ok("pool refresh tank");
    let first = open("first");
    assert_eq!(read(&first, 5).unwrap(), b"first");
    one.ok("rollback tank/fs@b");
    write_synced(&dir.join("other"), b"other").unwrap();
    one.ok("pool sync tank");
    two.ok("pool refresh tank");
    let refused = read(&first, 5).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(ESTALE));
    assert_eq!(fs::read(there.join("other")).unwrap(), b"other");
    two.refuses("pool refresh nowhere", NOT_FOUND, "no imported pool");
    one.refuses("pool refresh tank", USAGE, "readonly=on");
    // The next start reads the newest state.
    write_numbered(&dir, 12..14);
    one.ok("pool sync tank");
    two.kill();
    store.start(&mut two);
    has(&two.ok("pool status tank"), " as of: ");
    has_numbered(&there, 10..14);
}

/// Datasets come, go and get other names; keys are changed; volumes in use hold a refresh.
#[test]
fn a_refresh_follows_datasets_and_keys() {
    needs!(can_mount());
    let (one, store, address) = writer(TestStore::folder);
    for name in ["gone", "old"] {
        one.ok(&format!("create -o mountpoint={{DIR}}/{name} tank/{name}"));
        fs::write(one.path(name).join("file"), name).unwrap();
    }
    one.ok("pool sync tank");
    let two = store.daemon();
    import(&two, &address, "-o refresh=9m");
    has(&two.ok("pool status tank"), "refreshed every 9 min");
    let seen = |name: &str| two.path(&format!("r{}/{name}", one.root().display()));
    for name in ["gone", "old"] {
        assert_eq!(fs::read_to_string(seen(name).join("file")).unwrap(), name);
    }
    one.ok("destroy -f tank/gone");
    one.ok("rename tank/old tank/other");
    one.ok("create -o mountpoint={DIR}/new tank/new");
    fs::write(one.path("new/file"), "new").unwrap();
    one.ok("key change -o keysource=raw,file://{DIR}/raw tank/fs");
    one.ok("key rotate tank/fs");
    write_numbered(&one.path("m"), 10..12);
    one.ok("create -s -V 64M tank/disk");
    one.ok("pool sync tank");
    let done = two.run(&two.words("pool refresh tank"));
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    let list = two.ok("list -H -o name");
    has(&list, "tank/other\n");
    lacks(&list, "tank/gone");
    assert_eq!(fs::read_to_string(seen("old").join("file")).unwrap(), "old");
    assert_eq!(fs::read_to_string(seen("new").join("file")).unwrap(), "new");
    assert!(!seen("gone").join("file").exists());
    has_numbered(&seen("m"), 0..12);
    two.ok("nbd export tank/disk");
    one.ok("snapshot tank/fs@b");
    one.ok("pool sync tank");
    two.refuses("pool refresh tank", BUSY, "tank/disk");
    has_numbered(&seen("m"), 0..12);
    two.ok("nbd unexport tank/disk");
    two.ok("pool refresh tank");
    has(&two.ok("list -t snapshot"), "tank/fs@b");
    two.ok("pool export tank");
    is_whole(&one, "tank");
}
