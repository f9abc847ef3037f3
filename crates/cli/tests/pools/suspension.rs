//! A pool whose devices fail for a while: nothing changes meanwhile, and `pool clear` has everything go on
//! where it is.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::*;
use rustix::mount::{MountFlags, UnmountFlags};

const DEVICE_FAILED: i32 = 12;

/// Takes all that is left of a file system, in a file.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write_all(&[1; 64 << 10]).is_ok() {}
    while file.write_all(&[1; 512]).is_ok() {}
}

/// A small file system that holds the files of a pool.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn mount(dir: &Path, options: &std::ffi::CStr) -> Option<Tmpfs> {
        fs::create_dir(dir).unwrap();
        match rustix::mount::mount("none", dir, "tmpfs", MountFlags::empty(), Some(options)) {
            Ok(()) => Some(Tmpfs(dir.to_owned())),
            Err(error) => {
                eprintln!("skipped: a tmpfs cannot be mounted: {error}");
                None
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_pool_goes_on_when_the_file_system_below_it_has_space_again() {
    needs!(can_mount());
    let place = Place::new();
    let below = needs!(Tmpfs::mount(&place.path("below"), c"size=24m"));
    let file = place.arg("below/tank.pool");
    fill(&place.path("below/full"));
    let create = format!("pool create -s 128M -m none tank {file}");
    place.refuses(&create, NO_SPACE, "No space left on device");
    fs::remove_file(place.path("below/full")).unwrap();
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let key = place.arg("raw");
    place.ok(&create);
    place.ok(&format!(
        "create -o encryption=on -o keysource=raw,file://{key} -o mountpoint={} tank/fs",
        place.arg("mnt")
    ));
    let mnt = place.path("mnt");
    let open = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mnt.join("open"))
        .unwrap();
    let before = contents(1, 300_000);
    open.write_all_at(&before, 0).unwrap();
    open.sync_all().unwrap();
    let filler = below.0.join("filler");
    fill(&filler);

    // What is written now finds no free space below, sooner or later.
    let mut taken = Vec::new();
    let failed = (0..200).find(|n| {
        let bytes = contents(*n, 200_000);
        let Ok(mut new) = File::create(mnt.join(format!("{n}"))) else {
            return true;
        };
        if new.write_all(&bytes).is_err() {
            return true;
        }
        // It was taken, and so it is to be there in the end, synced or not.
        taken.push(*n);
        new.sync_all().is_err()
    });
    assert!(failed.is_some());
    let status = place.ok("pool status tank");
    assert!(status.contains("SUSPENDED"), "{status}");
    assert!(status.contains("strongroom pool clear tank"), "{status}");
    assert!(write_synced(&mnt.join("refused"), b"no").is_err());
    assert!(open.write_all_at(b"no", 0).is_err());
    assert!(fs::read(mnt.join("open")).unwrap() == before);

    // The cause is not gone.
    let said = place.fails("pool clear tank", DEVICE_FAILED);
    assert!(said.contains(&file), "{said}");
    assert!(place.ok("pool status tank").contains("SUSPENDED"));

    fs::remove_file(&filler).unwrap();
    place.ok("pool clear tank");
    let status = place.ok("pool status tank");
    assert!(
        status.contains("ONLINE") && !status.contains("SUSPENDED"),
        "{status}"
    );
    let after = contents(2, 300_000);
    open.write_all_at(&after, 100_000).unwrap();
    open.sync_all().unwrap();
    drop(open);
    write_synced(&mnt.join("again"), &before).unwrap();
    let check = || {
        let found = fs::read(mnt.join("open")).unwrap();
        assert!(found == [&before[..100_000], &after].concat());
        assert!(fs::read(mnt.join("again")).unwrap() == before);
        for n in &taken {
            let found = fs::read(mnt.join(format!("{n}"))).unwrap();
            assert!(found == contents(*n, 200_000), "{n}");
        }
    };
    check();
    place.ok("pool export tank");
    place.ok(&format!("pool import -d {file} -l tank"));
    check();
    place.ok("pool scrub -w tank");
    assert!(place.ok("pool status tank").contains("with 0 errors"));
    place.ok("pool export tank");
}
