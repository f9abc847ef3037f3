//! A lower directory and its views.

#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod changes;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cipher::SystemRandom;
use stack::formats::fscrypt::{
    EncryptionMode, EncryptionPolicy, FscryptFormat, FscryptMasterKey, XattrNamespace,
};
use stack::{Entry, Options, StackedDirectory};
use vfs::{Attr, Caller, Error, FileSystem, Ino, Kind, NewNode, ROOT, Result};

/// The namespace of attributes in the tests: the one that every user can set.
pub const SPACE: XattrNamespace = XattrNamespace::User;

pub struct Lower {
    dir: tempfile::TempDir,
}

pub fn master() -> FscryptMasterKey {
    let key = secret::Secret::from_slice(&[7; 64]).expect("memory");
    FscryptMasterKey::new(key).expect("a length")
}

/// The default policy of the test's key.
pub fn policy() -> EncryptionPolicy {
    match master().identifier().expect("derived") {
        stack::formats::fscrypt::KeyName::Identifier(identifier) => {
            EncryptionPolicy::new(identifier)
        }
        other => panic!("{other:?}"),
    }
}

/// A policy for each pair of modes.
pub fn policies() -> Vec<EncryptionPolicy> {
    let with = |contents, names, padding| EncryptionPolicy {
        contents,
        names,
        padding,
        ..policy()
    };
    vec![
        policy(),
        with(EncryptionMode::Aes256Xts, EncryptionMode::Aes256Hctr2, 4),
        with(EncryptionMode::Aes128Cbc, EncryptionMode::Aes128Cts, 8),
        with(EncryptionMode::Adiantum, EncryptionMode::Adiantum, 16),
        EncryptionPolicy {
            flags: stack::formats::fscrypt::KeyUsage::DirectKey,
            ..with(EncryptionMode::Adiantum, EncryptionMode::Adiantum, 32)
        },
        EncryptionPolicy {
            log2_unit: 9,
            ..policy()
        },
        EncryptionPolicy {
            key: master().descriptor(),
            ..policy()
        },
    ]
}

impl Lower {
    pub fn new(policy: &EncryptionPolicy) -> Lower {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Entry::root(dir.path()).expect("opened");
        FscryptFormat::set_policy(&root, SPACE, policy, &SystemRandom).expect("policy");
        Lower { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The view with the key.
    pub fn view(&self) -> StackedDirectory<FscryptFormat> {
        self.view_as(Options::default())
    }

    /// Shows the directory like [`Lower::view`], with these options.
    pub fn view_as(&self, options: Options) -> StackedDirectory<FscryptFormat> {
        let master = master();
        let name = master.identifier().expect("derived");
        let keys = [
            (name, master),
            (self::master().descriptor(), self::master()),
        ];
        self.view_with(keys, options)
    }

    /// The view without a key.
    pub fn locked(&self) -> StackedDirectory<FscryptFormat> {
        self.view_with([], Options::default())
    }

    fn view_with<const N: usize>(
        &self,
        keys: [(stack::formats::fscrypt::KeyName, FscryptMasterKey); N],
        options: Options,
    ) -> StackedDirectory<FscryptFormat> {
        let root = Entry::root(self.path()).expect("opened");
        let format = FscryptFormat::new(SPACE, HashMap::from(keys), Arc::new(SystemRandom));
        StackedDirectory::new(root, format, options).expect("a view")
    }

    /// All entries of the lower directory, as paths.
    pub fn entries(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut todo = vec![self.path().to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).expect("listed") {
                let entry = entry.expect("an entry");
                if entry.file_type().expect("a type").is_dir() {
                    todo.push(entry.path());
                }
                all.push(entry.path());
            }
        }
        all.sort();
        all
    }

    /// The only entry of the lower directory.
    pub fn single(&self) -> PathBuf {
        let entries = self.entries();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries[0].clone()
    }
}

pub fn caller() -> Caller {
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

pub fn create(fs: &dyn FileSystem, parent: Ino, name: &str) -> Result<Attr> {
    fs.create(
        &caller(),
        parent,
        name.as_bytes(),
        &NewNode::new(Kind::File, 0o644),
    )
}

pub fn mkdir(fs: &dyn FileSystem, parent: Ino, name: &str) -> Result<Attr> {
    fs.mkdir(
        &caller(),
        parent,
        name.as_bytes(),
        &NewNode::new(Kind::Directory, 0o755),
    )
}

/// A new file in the root with these contents.
pub fn file_with(fs: &dyn FileSystem, name: &str, contents: &[u8]) -> Ino {
    let ino = create(fs, ROOT, name).expect("created").ino;
    fs.write(ino, 0, contents, false).expect("written");
    ino
}

/// All of a file.
pub fn read(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<u8>> {
    fs.read(ino, 0, 1 << 24).map(|pieces| pieces.concat())
}

pub fn read_name(fs: &dyn FileSystem, name: &str) -> Result<Vec<u8>> {
    read(fs, fs.lookup(ROOT, name.as_bytes())?.ino)
}

/// The names in a directory, sorted.
pub fn names(fs: &dyn FileSystem, ino: Ino) -> Vec<String> {
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let before = cookie;
        let mut room = 3;
        fs.readdir(ino, cookie, false, &mut |entry| {
            if room == 0 {
                return false;
            }
            room -= 1;
            cookie = entry.cookie;
            if !matches!(entry.name, b"." | b"..") {
                names.push(String::from_utf8(entry.name.to_vec()).expect("text"));
            }
            true
        })
        .expect("listed");
        if cookie == before {
            names.sort();
            return names;
        }
    }
}

/// Fails unless the result is this error.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T>, error: Error) {
    assert_eq!(result.err(), Some(error));
}
