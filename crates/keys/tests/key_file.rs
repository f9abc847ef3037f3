//! Reading, checking and writing key files, and what is typed at a prompt.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cipher::{SeededRandom, Suite};
use keys::{
    Error, KeyMaterial, KeySource, Location, MaterialFormat, Warning, keygen, material_from_prompt,
    read_file, read_file_with, write_key_file,
};
use rustix::fs::{CWD, FileType, Mode};
use secret::Secret;
use tempfile::TempDir;

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

fn source(format: MaterialFormat, path: &Path) -> KeySource {
    KeySource::new(format, Location::File(path.to_owned())).expect("absolute")
}

/// A private file with these contents.
fn file(dir: &TempDir, contents: &[u8]) -> PathBuf {
    let path = dir.path().join("key");
    fs::write(&path, contents).expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
    path
}

fn read(format: MaterialFormat, contents: &[u8]) -> Result<Vec<u8>, Error> {
    let dir = TempDir::new().expect("directory");
    let path = file(&dir, contents);
    read_file(&source(format, &path)).map(expose)
}

fn typed(format: MaterialFormat, text: &[u8]) -> Result<Vec<u8>, Error> {
    material_from_prompt(format, Secret::from_slice(text).expect("memory")).map(expose)
}

fn expose(material: KeyMaterial) -> Vec<u8> {
    match material {
        KeyMaterial::Passphrase(secret) => secret.expose().to_vec(),
        KeyMaterial::Key(key) => key.expose().to_vec(),
        KeyMaterial::Short(key) => key.expose().to_vec(),
        other => panic!("no file is {other:?}"),
    }
}

#[test]
fn raw_keys() {
    let key: Vec<u8> = (0..32).collect();
    assert_eq!(read(MaterialFormat::Raw, &key).expect("a key"), key);
    // Any byte is a byte of the key, also at the end.
    let newlines = [b'\n'; 32];
    assert_eq!(
        read(MaterialFormat::Raw, &newlines).expect("a key"),
        newlines
    );
    for len in [16, 24] {
        assert_eq!(
            read(MaterialFormat::Raw, &key[..len]).expect("a key"),
            key[..len]
        );
    }
    for len in [0, 1, 15, 17, 31, 33, 48, 64, 100_000] {
        let error = read(MaterialFormat::Raw, &vec![7; len]).expect_err("wrong length");
        assert!(matches!(&error, Error::KeyLength { got, .. } if *got == len as u64));
        let holds = format!("holds {len} bytes; a raw key has 16, 24 or 32");
        assert!(error.to_string().contains(&holds), "{error}");
    }
}

#[test]
fn hexadecimal_keys() {
    let key: Vec<u8> = (0..32).collect();
    let with_newline = format!("{HEX}\n");
    for read in [read, typed] {
        assert_eq!(
            read(MaterialFormat::Hex, HEX.as_bytes()).expect("a key"),
            key
        );
        assert_eq!(
            read(MaterialFormat::Hex, with_newline.as_bytes()).expect("a key"),
            key
        );
        for digits in [32, 48] {
            let short = read(MaterialFormat::Hex, &HEX.as_bytes()[..digits]).expect("a key");
            assert_eq!(short, key[..digits / 2]);
        }
        for (text, got) in [
            (HEX[1..].to_owned(), 63),
            (HEX[..33].to_owned(), 33),
            (HEX[..16].to_owned(), 16),
            (format!("{HEX}0"), 65),
            (String::new(), 0),
            ("\n".to_owned(), 0),
        ] {
            let error = read(MaterialFormat::Hex, text.as_bytes()).expect_err("wrong length");
            assert!(
                matches!(&error, Error::KeyLength { got: g, .. } if *g == got),
                "{error}"
            );
        }
        for position in [1, 2, 33, 64] {
            let mut text = HEX.to_owned();
            text.replace_range(position - 1..position, "g");
            let error = read(MaterialFormat::Hex, text.as_bytes()).expect_err("not hexadecimal");
            assert!(matches!(&error, Error::HexDigit { position: p, .. } if *p == position));
            assert!(!error.to_string().contains("'g'"));
        }
    }
    assert!(read(MaterialFormat::Hex, format!("{HEX}\n\n").as_bytes()).is_err());
    assert!(read(MaterialFormat::Hex, format!("{HEX}\r\n").as_bytes()).is_err());
}

#[test]
fn passphrases() {
    for read in [read, typed] {
        let read = |text: &[u8]| read(MaterialFormat::Passphrase, text);
        assert_eq!(read(b"eight by").expect("long enough"), b"eight by");
        assert_eq!(read(b"with newline\n").expect("ok"), b"with newline");
        assert_eq!(
            read(b"two lines\nof it\n").expect("ok"),
            b"two lines\nof it"
        );
        let longest = [b'x'; 512];
        assert_eq!(read(&longest).expect("short enough"), longest);
        assert_eq!(read(&[&longest[..], b"\n"].concat()).expect("ok"), longest);
        for short in [&b""[..], b"\n", b"seven b", b"seven b\n"] {
            let error = read(short).expect_err("too short");
            assert!(matches!(error, Error::PassphraseShort { .. }));
            assert!(error.to_string().contains("at least 8 bytes"));
        }
        for len in [513, 100_000] {
            let error = read(&vec![b'x'; len]).expect_err("too long");
            assert!(matches!(error, Error::PassphraseLong { .. }));
            assert!(error.to_string().contains("at most 512 bytes"));
        }
    }
}

#[test]
fn a_raw_key_cannot_be_typed() {
    assert!(matches!(
        typed(MaterialFormat::Raw, &[7; 32]),
        Err(Error::KeySource(_))
    ));
    let prompt = KeySource::default();
    assert!(matches!(read_file(&prompt), Err(Error::KeySource(_))));
}

#[test]
fn a_missing_file_is_missing() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("nothing");
    let error = read_file(&source(MaterialFormat::Raw, &path)).expect_err("missing");
    assert!(matches!(&error, Error::KeyFileMissing(p) if *p == path));
    let below = file(&dir, b"a file").join("nothing");
    let error = read_file(&source(MaterialFormat::Raw, &below)).expect_err("missing");
    assert!(matches!(error, Error::KeyFileMissing(_)));
}

#[test]
fn an_unreadable_file_is_unreadable() {
    let dir = TempDir::new().expect("directory");
    let path = file(&dir, &[7; 32]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("chmod");
    // Of this test's thread only: else root reads everything.
    let none = rustix::thread::CapabilitySets {
        effective: rustix::thread::CapabilitySet::empty(),
        permitted: rustix::thread::CapabilitySet::empty(),
        inheritable: rustix::thread::CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).expect("fewer capabilities");
    let error = read_file(&source(MaterialFormat::Raw, &path)).expect_err("unreadable");
    assert!(matches!(error, Error::KeyFileUnreadable { .. }));
    assert!(error.to_string().contains("Permission denied"), "{error}");
}

#[test]
fn what_is_not_a_file_is_refused_at_once() {
    let dir = TempDir::new().expect("directory");
    let fifo = dir.path().join("fifo");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, mode, 0).expect("mkfifo");
    #[rustfmt::skip]
    let refused = [
        (MaterialFormat::Raw, fifo.as_path(), "a FIFO"),
        (MaterialFormat::Passphrase, &fifo, "a FIFO"),
        (MaterialFormat::Raw, dir.path(), "a directory"),
        (MaterialFormat::Raw, Path::new("/dev/zero"), "a character device"),
        (MaterialFormat::Raw, Path::new("/dev/null"), "a character device"),
        (MaterialFormat::Hex, Path::new("/dev/zero"), "a character device"),
        (MaterialFormat::Passphrase, Path::new("/dev/zero"), "a character device"),
        (MaterialFormat::Raw, Path::new("/dev/ptmx"), "a terminal"),
    ];
    for (format, path, expected) in refused {
        let error = read_file(&source(format, path)).expect_err("not a file");
        let matches = matches!(&error, Error::KeyFileKind { kind, .. } if *kind == expected);
        assert!(matches, "{error}");
    }
}

/// A random key that is not kept, for assured deletion.
#[test]
fn a_raw_key_from_a_random_device() {
    let read = || read_file(&source(MaterialFormat::Raw, Path::new("/dev/random"))).map(expose);
    let (one, two) = (read().expect("a key"), read().expect("a key"));
    assert_eq!((one.len(), two.len()), (32, 32));
    assert_ne!(one, two);
}

#[test]
fn a_pin_is_in_a_file() {
    let dir = TempDir::new().expect("directory");
    let fifo = dir.path().join("fifo");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, mode, 0).expect("mkfifo");
    let refused = [
        (fifo.as_path(), "a FIFO"),
        (dir.path(), "a directory"),
        (Path::new("/dev/zero"), "a character device"),
        (Path::new("/dev/ptmx"), "a terminal"),
    ];
    for (path, kind) in refused {
        let error = keys::read_pin(path).expect_err("not a file").to_string();
        assert!(
            error.contains(&format!("it is {kind}, not a regular file")),
            "{error}"
        );
    }
    let missing = keys::read_pin(&dir.path().join("nothing"));
    assert!(matches!(missing, Err(Error::KeyFileMissing(_))));
    let pin = keys::read_pin(&file(&dir, b"1234\n")).expect("a PIN");
    assert_eq!(pin.expose(), b"1234");
}

#[test]
fn a_huge_file_is_not_read_to_its_end() {
    let dir = TempDir::new().expect("directory");
    let path = file(&dir, b"");
    let sparse = fs::File::options().write(true).open(&path).expect("open");
    sparse.set_len(1 << 40).expect("sparse");
    for format in [MaterialFormat::Raw, MaterialFormat::Hex] {
        let error = read_file(&source(format, &path)).expect_err("too long");
        assert!(matches!(error, Error::KeyLength { got, .. } if got == 1 << 40));
    }
    let error = read_file(&source(MaterialFormat::Passphrase, &path)).expect_err("too long");
    assert!(matches!(error, Error::PassphraseLong { .. }));
}

#[test]
fn a_file_open_to_others_is_worth_a_warning() {
    let dir = TempDir::new().expect("directory");
    let path = file(&dir, &[7; 32]);
    let link = dir.path().join("link");
    symlink(&path, &link).expect("symlink");
    for (mode, warned) in [
        (0o600, false),
        (0o400, false),
        (0o700, false),
        (0o640, true),
        (0o604, true),
        (0o620, true),
        (0o644, true),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        for path in [&path, &link] {
            let mut warning = None;
            let material =
                read_file_with(&source(MaterialFormat::Raw, path), |w| warning = Some(w));
            material.expect("readable all the same");
            let expected = warned.then(|| Warning::Exposed {
                path: path.clone(),
                mode,
            });
            assert_eq!(warning, expected);
        }
    }
    let warning = Warning::Exposed {
        path: "/k".into(),
        mode: 0o644,
    };
    let text = "the key file /k is open to others (mode 0644); chmod 600 /k";
    assert_eq!(warning.to_string(), text);
}

#[test]
fn new_keys_are_written_privately_and_read_back() {
    let dir = TempDir::new().expect("directory");
    let random = SeededRandom::new(1);
    for (format, len) in [(MaterialFormat::Raw, 32), (MaterialFormat::Hex, 65)] {
        let key = keygen(format, 32, &random).expect("a key");
        assert_eq!(key.len(), len);
        let path = dir.path().join(format.name());
        write_key_file(&path, &key).expect("write");
        let metadata = fs::metadata(&path).expect("metadata");
        assert_eq!(metadata.mode() & 0o7777, 0o600);
        assert_eq!(fs::read(&path).expect("read"), key.expose());
        read_file_with(&source(format, &path), |w| panic!("{w}")).expect("a key");
    }
    for (format, bytes, len) in [(MaterialFormat::Raw, 16, 16), (MaterialFormat::Hex, 24, 49)] {
        assert_eq!(keygen(format, bytes, &random).expect("a key").len(), len);
    }
    let text = fs::read_to_string(dir.path().join("hex")).expect("read");
    assert!(text.ends_with('\n') && !text.contains(char::is_uppercase));
    let passphrase = keygen(MaterialFormat::Passphrase, 32, &random);
    assert!(matches!(passphrase, Err(Error::KeySource(_))));
}

#[test]
fn a_key_file_is_never_overwritten() {
    let dir = TempDir::new().expect("directory");
    let key = keygen(MaterialFormat::Raw, 32, &SeededRandom::new(1)).expect("a key");
    let path = file(&dir, b"the only copy of a key");
    let error = write_key_file(&path, &key).expect_err("there is a file");
    assert!(matches!(error, Error::KeyFileWrite { .. }));
    assert!(error.to_string().contains("exists"), "{error}");
    assert_eq!(fs::read(&path).expect("read"), b"the only copy of a key");

    let link = dir.path().join("link");
    symlink(dir.path().join("target"), &link).expect("symlink");
    write_key_file(&link, &key).expect_err("there is a link");
    assert!(!dir.path().join("target").exists());

    let nowhere = dir.path().join("no/such/directory");
    let error = write_key_file(&nowhere, &key).expect_err("no directory");
    assert!(matches!(error, Error::KeyFileWrite { .. }));
    let text = error.to_string();
    assert!(text.contains("no/such does not exist; create it"), "{text}");

    let error = write_key_file(dir.path(), &key).expect_err("a directory");
    let text = error.to_string();
    assert!(
        text.contains("it is a directory; name a new file"),
        "{text}"
    );
}

#[test]
fn a_private_file_is_not_for_others() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir, b"twelve bytes\n");
    let set = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    set(0o600);
    let secret = keys::read_private(&path).expect("a secret");
    assert_eq!(secret.expose(), b"twelve bytes");
    for mode in [0o640, 0o604, 0o620] {
        set(mode);
        let error = keys::read_private(&path)
            .expect_err("others may")
            .to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
    if rustix::process::geteuid().is_root() {
        set(0o600);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        keys::read_private(&path).expect_err("it is another user's");
    }
}

#[test]
fn a_short_key_is_for_suites_of_its_length() {
    let dir = TempDir::new().expect("directory");
    let path = dir.path().join("key");
    for suite in Suite::ALL {
        for len in [16, 24, 32] {
            fs::write(&path, vec![7; len]).expect("write");
            let material = read_file(&source(MaterialFormat::Raw, &path)).expect("a key");
            let checked = material.check_for(suite);
            let fits = len == 32 || len == suite.key_len();
            assert_eq!(checked.is_ok(), fits, "{} {len}", suite.name());
            if let Err(error) = checked {
                let has = format!("it has {} bits; a key for {} has ", 8 * len, suite.name());
                assert!(error.to_string().starts_with(&has), "{error}");
            }
        }
    }
}
