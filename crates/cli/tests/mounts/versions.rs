//! `strongroom versions`: files of all snapshots are listed, and one comes back as it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::*;

/// A mounted dataset `tank/home`, and its directory; none without mounts.
fn place() -> Option<(Place, PathBuf)> {
    needs!(can_mount() && is_root(), "not root");
    let place = Place::new();
    place.pool("tank");
    place.ok_with(
        "create -o encryption=on -o mountpoint={DIR}/home tank/home",
        "correct horse battery staple",
    );
    let home = place.path("home");
    Some((place, home))
}

fn versions(place: &Place, file: &Path) -> Vec<Value> {
    let text = place.ok(&format!("--json versions {}", file.display()));
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["unreadable"], serde_json::json!([]));
    list["versions"].as_array().unwrap().clone()
}

/// Makes the letter in three versions: one in the snapshot `mon`, one in `tue` and `wed`, and one at present.
fn letter(place: &Place, home: &Path) -> PathBuf {
    let letter = home.join("letter");
    fs::write(&letter, contents(1, 300_000)).unwrap();
    chown(&letter, Some(ANN), Some(STAFF)).unwrap();
    fs::set_permissions(&letter, fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(&letter, "user.k", b"old", rustix::fs::XattrFlags::empty()).unwrap();
    place.ok("snapshot tank/home@mon");
    fs::write(&letter, b"the second").unwrap();
    place.ok("snapshot tank/home@tue");
    place.ok("snapshot tank/home@wed");
    fs::write(&letter, b"the third one").unwrap();
    letter
}

#[test]
fn versions_are_listed_by_their_snapshots() {
    let (place, home) = needs!(place());
    let letter = letter(&place, &home);
    let listed = versions(&place, &letter);
    let facts = |version: &Value| {
        let parts =
            ["bytes", "snapshots", "is_present", "uid", "kind"].map(|key| version[key].to_string());
        parts.join(" ")
    };
    let facts: Vec<String> = listed.iter().map(facts).collect();
    let wanted = [
        format!(r#"300000 ["mon"] false {ANN} "file""#),
        format!(r#"10 ["tue","wed"] false {ANN} "file""#),
        format!(r#"13 [] true {ANN} "file""#),
    ];
    assert_eq!(facts, wanted);
    place.ok("snapshot tank/home@thu");
    assert_eq!(
        versions(&place, &letter)[2]["snapshots"],
        serde_json::json!(["thu"])
    );
    place.ok("snapshot tank/home@fri");
    place.ok("snapshot tank/home@sat");
    place.says(
        &format!("versions {}", letter.display()),
        "thu to sat (3), now",
    );
    place.says(
        &format!("versions -H {}", letter.display()),
        "\tthu,fri,sat,now\n",
    );

    // Without the file, and by another name of the directory.
    fs::remove_file(&letter).unwrap();
    symlink(&home, place.path("link")).unwrap();
    let listed = versions(&place, &place.path("link/letter"));
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|version| version["is_present"] == false));
}

#[test]
fn a_version_comes_back_as_it_was() {
    let (place, home) = needs!(place());
    let letter = letter(&place, &home);
    let restore = format!("versions -r mon {}", letter.display());
    place.refuses(&restore, EXISTS, "is in no snapshot; take a snapshot first");
    assert_eq!(fs::read(&letter).unwrap(), b"the third one");

    // Its present version is kept by a snapshot, so nothing is lost.
    place.ok("snapshot tank/home@thu");
    place.says(&restore, "copied and verified 1 file");
    let same = |a: &Path, b: &Path| {
        let (one, other) = (fs::metadata(a).unwrap(), fs::metadata(b).unwrap());
        let facts = |meta: &fs::Metadata| {
            (
                meta.mode(),
                meta.uid(),
                meta.gid(),
                meta.mtime_nsec(),
                meta.len(),
            )
        };
        assert_eq!(facts(&one), facts(&other));
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(a, "user.k", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"old");
    };
    same(&letter, &home.join(".snapshot/mon/letter"));
    // It is that of a snapshot again, though it was changed later.
    place.ok(&format!("versions -r tue {}", letter.display()));
    assert_eq!(fs::read(&letter).unwrap(), b"the second");
    fs::write(&letter, b"not kept").unwrap();
    place.refuses(&restore, EXISTS, "in no snapshot");
    place.ok(&format!("{restore} -f"));
    same(&letter, &home.join(".snapshot/mon/letter"));

    // Beside it.
    fs::create_dir(home.join("old")).unwrap();
    let beside = format!(
        "versions -r @tue --to {}/old {}",
        home.display(),
        letter.display()
    );
    place.ok(&beside);
    assert_eq!(fs::read(home.join("old/letter")).unwrap(), b"the second");
    place.refuses(&beside, EXISTS, "-f replaces it");
    let outside = format!("versions -r tue --to {{DIR}} {}", letter.display());
    place.refuses(&outside, USAGE, "not in a mounted dataset");
    let names = fs::read_dir(&home)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 2, "something is left");
}

#[test]
fn a_directory_that_is_gone_comes_back() {
    let (place, home) = needs!(place());
    let docs = home.join("docs");
    fs::create_dir_all(docs.join("deep")).unwrap();
    fs::write(docs.join("deep/plan"), contents(2, 5000)).unwrap();
    fs::set_permissions(&docs, fs::Permissions::from_mode(0o2750)).unwrap();
    place.ok("snapshot tank/home@mon");
    fs::remove_dir_all(&docs).unwrap();
    let plan = docs.join("deep/plan");
    assert_eq!(versions(&place, &plan).len(), 1);
    let restore = format!("versions -r mon {}", plan.display());
    place.refuses(&restore, NOT_FOUND, "is gone; restore that");
    place.ok(&format!("versions -r mon {}", docs.display()));
    assert_eq!(fs::read(&plan).unwrap(), contents(2, 5000));
    assert_eq!(fs::metadata(&docs).unwrap().mode() & 0o7777, 0o2750);

    // Files that came later stay.
    fs::write(docs.join("later"), b"new").unwrap();
    fs::write(&plan, b"changed").unwrap();
    let again = format!("versions -r mon {}", docs.display());
    place.refuses(&again, EXISTS, "the directory");
    place.ok(&format!("{again} -f"));
    assert_eq!(fs::read(&plan).unwrap(), contents(2, 5000));
    assert_eq!(fs::read(docs.join("later")).unwrap(), b"new");
}

#[test]
fn nothing_but_the_snapshots_of_the_dataset_is_believed() {
    let (place, home) = needs!(place());
    // A directory that only looks like that of snapshots, and a link that leads out of one.
    fs::create_dir_all(home.join("sub/.snapshot/mon/sub")).unwrap();
    fs::write(home.join("sub/.snapshot/mon/letter"), b"false").unwrap();
    fs::write(home.join("sub/.snapshot/mon/sub/letter"), b"false").unwrap();
    symlink("/etc", home.join("conf")).unwrap();
    place.ok("snapshot tank/home@mon");
    fs::write(home.join("sub/letter"), b"true").unwrap();
    fs::remove_file(home.join("conf")).unwrap();
    fs::create_dir(home.join("conf")).unwrap();
    for file in ["sub/letter", "conf/passwd"] {
        let line = format!("versions {}/{file}", home.display());
        place.refuses(&line, NOT_FOUND, "no snapshot has");
        let line = format!("versions -r mon {}/{file}", home.display());
        place.refuses(&line, NOT_FOUND, "does not have it");
    }
    #[rustfmt::skip]
    let refused = [
        ("versions {DIR}/nothing", USAGE, "not in a mounted dataset"),
        ("versions {DIR}/home", USAGE, "name a file in one"),
        ("versions {DIR}/home/.snapshot/mon/sub", USAGE, "is in a snapshot"),
        ("versions -r ../mon {DIR}/home/sub", USAGE, "not the name of a snapshot"),
        ("versions -r tank/other@mon {DIR}/home/sub", USAGE, "leave out the dataset"),
        ("versions -r tue {DIR}/home/sub", NOT_FOUND, "there is no snapshot 'tue'"),
        ("versions {DIR}/home/gone/../sub", NOT_FOUND, "'..' below"),
    ];
    for (line, code, why) in refused {
        place.refuses(line, code, why);
    }
}

#[test]
fn a_dataset_that_is_mounted_inside_stays_as_it_is() {
    let (place, home) = needs!(place());
    fs::create_dir_all(home.join("docs/inner")).unwrap();
    fs::write(home.join("docs/inner/covered"), b"old").unwrap();
    place.ok("snapshot tank/home@mon");
    fs::remove_file(home.join("docs/inner/covered")).unwrap();
    place.ok("create -o mountpoint={DIR}/home/docs/inner tank/home/inner");
    fs::set_permissions(home.join("docs/inner"), fs::Permissions::from_mode(0o711)).unwrap();
    place.refuses("versions {DIR}/home/docs/inner", USAGE, "is mounted at");
    place.refuses(
        "versions -f -r mon {DIR}/home/docs/inner",
        USAGE,
        "is mounted at",
    );
    let said = place.run(&place.words("versions -f -r mon {DIR}/home/docs"));
    assert_eq!(said.code, OTHER);
    has(&said.err, "is mounted there");
    assert!(!home.join("docs/inner/covered").exists());
    let mode = fs::metadata(home.join("docs/inner")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o711);
}
