//! The reverse mode of gocryptfs, through the file system.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cipher::{Random, SystemRandom};
use secret::{Key, Secret};
use stack::formats::gocryptfs::{Config, ConfigError, ContentCipher, Features, Reverse};
use stack::{Entry, Options, ReverseView};
use vfs::{Error, FileSystem, Ino, ROOT};

fn view(plain: &Path) -> ReverseView {
    let random = SystemRandom;
    let master = Key::fill_with(|key| random.fill(key).map_err(ConfigError::from)).expect("key");
    let features = Features {
        content: ContentCipher::AesSiv,
        ..Features::default()
    };
    let passphrase = Secret::from_slice(b"a passphrase").expect("memory");
    let config = Config::create(features, &master, &passphrase, 10, &random).expect("config");
    let keys = Reverse::new(&config, &master, Arc::new(random)).expect("keys");
    let plain = Entry::root(plain).expect("opened");
    ReverseView::new(
        plain,
        keys,
        Options {
            shared: true,
            ..Options::default()
        },
    )
    .expect("a view")
}

/// All names, `step` of them in one call.
fn names(fs: &ReverseView, attrs: bool, step: usize) -> Vec<(Vec<u8>, Ino)> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let mut got = Vec::new();
        fs.readdir(ROOT, cookie, attrs, &mut |entry| {
            if got.len() == step {
                return false;
            }
            got.push((entry.name.to_vec(), entry.ino, entry.cookie));
            true
        })
        .expect("listed");
        match got.last() {
            Some((_, _, last)) => cookie = *last,
            None => return names,
        }
        names.extend(got.into_iter().map(|(name, ino, _)| (name, ino)));
    }
}

fn read(fs: &ReverseView, ino: Ino, offset: u64, len: u32) -> Vec<u8> {
    fs.read(ino, offset, len).expect("read").concat()
}

#[test]
fn a_listing_goes_on_at_each_entry() {
    let plain = tempfile::tempdir().expect("a directory");
    for number in 0..20 {
        fs::write(plain.path().join(format!("{number}")), "x").expect("written");
        fs::write(plain.path().join(format!("{number:0200}")), "x").expect("written");
    }
    let fs = view(plain.path());
    let all = names(&fs, false, usize::MAX);
    // Each long name has two, and there are `.`, `..` and the IV.
    assert_eq!(all.len(), 20 + 2 * 20 + 3);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    for step in [1, 2, 3, 7] {
        for attrs in [false, true] {
            assert_eq!(names(&fs, attrs, step), all, "{step} {attrs}");
        }
    }
    for (name, ino) in all.iter().filter(|(name, _)| !name.starts_with(b".")) {
        assert_eq!(fs.lookup(ROOT, name).expect("found").ino, *ino);
    }
}

#[test]
fn parts_of_a_file_are_those_of_all_of_it() {
    for len in [0, 1, 4095, 4096, 4097, 12_288, 20_000] {
        let plain = tempfile::tempdir().expect("a directory");
        fs::write(plain.path().join("file"), vec![7; len]).expect("written");
        let fs = view(plain.path());
        let names = names(&fs, false, usize::MAX);
        let name = names.iter().find(|(name, _)| !name.contains(&b'.'));
        let attr = fs.lookup(ROOT, &name.expect("listed").0).expect("found");
        let whole = read(&fs, attr.ino, 0, 1 << 20);
        assert_eq!(whole.len() as u64, attr.size, "{len}");
        for offset in [0, 1, 17, 18, 19, 4145, 4146, 4147, 8274, 8275, 30_000_u64] {
            for count in [1, 17, 18, 4096, 4128, 9000_u32] {
                let start = whole.len().min(offset as usize);
                let end = whole.len().min(start + count as usize);
                let got = read(&fs, attr.ino, offset, count);
                assert!(got == whole[start..end], "{len} {offset} {count}");
            }
        }
    }
}

#[test]
fn names_that_are_not_there() {
    let plain = tempfile::tempdir().expect("a directory");
    fs::write(plain.path().join("file"), "x").expect("written");
    let fs = view(plain.path());
    let found: Vec<_> = names(&fs, false, usize::MAX);
    let long = format!("gocryptfs.longname.{}", "A".repeat(43));
    let mut wrong = vec![
        b"file".to_vec(),
        b".gocryptfs.reverse.conf".to_vec(),
        b"gocryptfs.conf".to_vec(),
        format!("{long}.name").into_bytes(),
        long.into_bytes(),
    ];
    for (name, _) in found.iter().filter(|(name, _)| !name.contains(&b'.')) {
        wrong.push([&name[..], b"=="].concat());
        wrong.push(name[1..].to_vec());
    }
    assert!(wrong.len() == 7);
    for name in wrong {
        assert_eq!(
            fs.lookup(ROOT, &name).err(),
            Some(Error::NotFound),
            "{name:?}"
        );
    }
    assert_eq!(fs.write(ROOT, 0, b"x", false), Err(Error::ReadOnly));
}
