//! Encrypted directories and datasets as the upper layer of an overlay, as containers have it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::stacked_directory::Mounted;
use crate::common::*;

/// The lower layer.
const LAYER: &str = "
    mkdir -p dir/sub tree/a
    for name in file gone moved over target dir/one dir/sub/two tree/a/b; do echo $name > $name; done
";

/// Changes through the overlay, of each kind that leaves a whiteout or an attribute in the upper layer.
const CHANGES: &str = "
    echo more >> file
    rm gone
    mv moved there
    mv over target
    rm -r dir/sub
    mkdir dir/sub
    mv tree renamed
    echo new > new
    ln new linked
    echo more >> linked
    test \"$(cat new)\" = \"$(cat linked)\"
    rm linked
    mkdir fresh
    rmdir fresh
";

/// Checks of the files after these changes.
const SEEN: &str = "
    test \"$(cat file)\" = \"$(printf 'file\\nmore')\"
    test \"$(cat there target dir/one renamed/a/b)\" = \"$(printf 'moved\\nover\\ndir/one\\ntree/a/b')\"
    test \"$(cat new)\" = \"$(printf 'new\\nmore')\"
    test \"$(echo *)\" = 'dir file new renamed target there'
    test \"$(ls -A dir)\" = \"$(printf 'one\\nsub')\"
    test -z \"$(ls -A dir/sub)\"
";

/// An overlay in namespaces of its own, over `upper/up` and `upper/work`.
struct Overlay<'a> {
    place: &'a Place,
    upper: &'a Path,
    unshare: &'a str,
    options: &'a str,
}

impl Overlay<'_> {
    fn run(&self, script: &str) -> Output {
        let layers = format!(
            "lowerdir={},upperdir={1}/up,workdir={1}/work,{2}",
            self.place.arg("layer"),
            self.upper.display(),
            self.options
        );
        let mount = format!("mount -t overlay overlay -o '{layers}' merged; cd merged");
        Command::new("unshare")
            .args([self.unshare, "sh", "-euc", &format!("{mount}\n{script}")])
            .current_dir(self.place.root())
            .output()
            .expect("unshare")
    }

    fn ok(&self, script: &str) {
        let done = self.run(script);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {errors}", self.options);
    }

    /// Changes what the lower layer has, and looks at it again by a second mount.
    fn check(&self, attribute: &str) {
        for dir in ["up", "work"] {
            fs::create_dir(self.upper.join(dir)).expect("a directory");
        }
        self.ok(&format!("{CHANGES}{SEEN}"));
        let up = self.upper.join("up");
        for name in ["gone", "moved", "over", "tree"] {
            let whiteout = fs::symlink_metadata(up.join(name)).expect("a whiteout");
            assert!(whiteout.file_type().is_char_device(), "{name}");
            assert_eq!(whiteout.rdev(), 0, "{name}");
        }
        let mut value = [0; 8];
        let opaque = rustix::fs::getxattr(up.join("dir/sub"), attribute, &mut value[..]);
        assert_eq!(&value[..opaque.expect("the attribute")], b"y");
        self.ok(SEEN);
        self.ok("rm -r dir renamed target; echo back > dir; test \"$(cat dir)\" = back");
        for dir in ["up", "work"] {
            fs::remove_dir_all(self.upper.join(dir)).expect("removed");
        }
    }
}

/// A place with a lower layer, and a place for the overlay.
fn prepared(place: Place) -> Option<Place> {
    needs!(
        can_mount() && is_root() && is_installed("unshare"),
        "only root mounts overlays, and unshare is needed"
    );
    for dir in ["layer", "merged", "scratch", "scratch/up", "scratch/work"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    let made = Command::new("sh")
        .args(["-euc", LAYER])
        .current_dir(place.path("layer"))
        .status();
    assert!(made.expect("a shell").success());
    let plain = Overlay {
        place: &place,
        upper: &place.path("scratch"),
        unshare: "-m",
        options: "redirect_dir=on",
    };
    needs!(
        plain.run("true").status.success(),
        "no overlay can be mounted here"
    );
    Some(place)
}

/// By root, and by root of a user namespace, who has no trusted attributes.
fn check_all(place: &Place, upper: &Path) {
    for (unshare, options, attribute) in [
        ("-m", "redirect_dir=on", "trusted.overlay.opaque"),
        ("-m", "redirect_dir=on,index=on", "trusted.overlay.opaque"),
        ("-Urm", "userxattr", "user.overlay.opaque"),
    ] {
        Overlay {
            place,
            upper,
            unshare,
            options,
        }
        .check(attribute);
    }
}

#[test]
fn over_encrypted_directories() {
    let place = needs!(prepared(Place::without_daemon()));
    fs::write(place.path("key"), "0123456789abcdef0123456789abcdef").expect("written");
    let key = place.arg("key");
    for (init, mount) in [
        (vec!["-d", &key], vec!["-d", &key]),
        (
            vec!["--format", "gocryptfs", "--passfile", &key],
            vec!["--passfile", &key],
        ),
    ] {
        for dir in ["lower", "view"] {
            fs::create_dir(place.path(dir)).expect("a directory");
        }
        let lower = place.arg("lower");
        let done = place.run(&[&["stack", "init"][..], &init, &[&lower]].concat());
        assert_eq!(done.code, 0, "{done:?}");
        let mounted = Mounted::new(&place, &mount);
        check_all(&place, &mounted.view);
        mounted.end();
        for dir in ["lower", "view"] {
            fs::remove_dir_all(place.path(dir)).expect("removed");
        }
    }
}

#[test]
fn over_a_dataset() {
    let place = needs!(prepared(Place::new()));
    place.pool("tank");
    let dir = place.path("mnt");
    place.ok(&format!("create -o mountpoint={} tank/a", dir.display()));
    check_all(&place, &dir);
}

/// A name of pefs belongs to one inode, so that no whiteout can have it: the kernel learns that when it mounts.
#[test]
fn not_over_pefs() {
    let place = needs!(prepared(Place::without_daemon()));
    for dir in ["lower", "view"] {
        fs::create_dir(place.path(dir)).expect("a directory");
    }
    fs::write(place.path("key"), "a passphrase").expect("written");
    let (key, lower) = (place.arg("key"), place.arg("lower"));
    std::os::unix::fs::symlink("aes256-xts:10", place.path("lower/.pefs.conf")).expect("made");
    place.ok(&format!("pefs addchain -f -Z -i 10 -j {key} {lower}"));
    let mounted = Mounted::new(&place, &["--passfile", &key]);
    for dir in ["up", "work"] {
        fs::create_dir(mounted.view.join(dir)).expect("a directory");
    }
    let overlay = Overlay {
        place: &place,
        upper: &mounted.view,
        unshare: "-m",
        options: "redirect_dir=on",
    };
    let refused = overlay.run("true");
    assert!(!refused.status.success(), "{refused:?}");
    let names = ["a", "b"].map(|name| mounted.view.join(name));
    fs::write(&names[0], "text").expect("written");
    let flags = rustix::fs::RenameFlags::WHITEOUT;
    let cwd = rustix::fs::CWD;
    let moved = rustix::fs::renameat_with(cwd, &names[0], cwd, &names[1], flags);
    assert_eq!(moved, Err(rustix::io::Errno::INVAL));
    assert_eq!(fs::read_to_string(&names[0]).expect("read"), "text");
    mounted.end();
}
