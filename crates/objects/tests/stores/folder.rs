//! A folder as a store.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use objects::store::{Creation, Variables, connect_with};
use objects::{Error, StoreAddress, StoreProvider};

use crate::contract;
use crate::support::Client;

fn address(path: &Path) -> StoreAddress {
    StoreAddress {
        provider: StoreProvider::Folder,
        bucket: String::new(),
        prefix: path.to_str().unwrap().to_owned(),
    }
}

pub(crate) fn client(path: &Path) -> Client {
    Client::new(connect_with(&address(path), &Variables::default()).unwrap())
}

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let client = client(&path);
    assert!(!path.exists(), "a look made the folder");
    contract::check(&client);
    let report = contract::judge(&client);
    assert!(report.is_safe(), "{report:?}");
    // Not even an empty folder is left.
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn other_users_see_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let client = client(&path);
    client.create("log/1", b"x").unwrap();
    client.replace("log/2", b"x").unwrap();
    let mode = |path: &str| {
        fs::metadata(folder.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!([mode("pool"), mode("pool/log")], [0o700, 0o700]);
    assert_eq!([mode("pool/log/1"), mode("pool/log/2")], [0o600, 0o600]);
}

#[test]
fn symbolic_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("1"), "secret").unwrap();
    let client = client(folder.path());
    symlink(elsewhere.path(), folder.path().join("log")).unwrap();
    symlink(elsewhere.path().join("1"), folder.path().join("1")).unwrap();
    for name in ["log/1", "1"] {
        let error = client.get(name, 0, 10).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    assert!(client.create("log/2", b"x").is_err());
    assert!(client.replace("log/1", b"x").is_err());
    assert!(client.delete("log/1").is_err());
    assert_eq!(client.create("1", b"x").unwrap(), Creation::Exists);
    assert_eq!(client.list("", None, 10).unwrap(), []);
    assert_eq!(fs::read(elsewhere.path().join("1")).unwrap(), b"secret");

    // The folder itself is one.
    let link = folder.path().join("link");
    symlink(elsewhere.path(), &link).unwrap();
    let error = connect_with(&address(&link), &Variables::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

#[test]
fn names_lead_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(&folder.path().join("pool"));
    for name in ["../x", "/x", "a/../x", "", "a//b", "."] {
        let error = client.create(name, b"x").unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{name}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn foreign_files_are_no_objects() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path());
    client.create("log/1", b"x").unwrap();
    fs::write(folder.path().join("log/.new-0123"), "half").unwrap();
    fs::create_dir(folder.path().join("log/2")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("log/3"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let listed = client.list("log/", None, 10).unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|object| &object.name[..])
            .collect::<Vec<_>>(),
        ["log/1"]
    );
    // Neither blocks a reader.
    for name in ["log/2", "log/3"] {
        let error = client.get(name, 0, 10).unwrap_err();
        assert!(error.to_string().contains("no file"), "{error}");
        assert_eq!(client.create(name, b"x").unwrap(), Creation::Exists);
    }
}

#[test]
fn a_missing_parent_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(&folder.path().join("a/b"));
    assert_eq!(client.get("pool", 0, 1).unwrap(), None);
    let error = client.create("pool", b"x").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("make the folder"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = connect_with(&address(&file), &Variables::default())
        .err()
        .unwrap();
    assert!(matches!(error, Error::Unusable { .. }), "{error}");
}

#[test]
fn the_folder_stays_the_same_when_its_name_changes() {
    // As when a file system is mounted over it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let client = client(&path);
    client.create("log/1", b"x").unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(client.create("log/1", b"y").unwrap(), Creation::Exists);
    client.create("log/2", b"z").unwrap();
    assert!(folder.path().join("moved/log/2").exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}
