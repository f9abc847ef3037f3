//! The files of the tool `fscrypt`, and the tool's judgement of them on ext4 with the feature `encrypt`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cipher::SystemRandom;
use keys::kernel::{self, KernelKeyStatus, Specifier};
use secret::{Key, Secret};
use stack::Entry;
use stack::formats::fscrypt::KeyName;
use stack::formats::fscrypt::tool::{
    Config, DIRECTORY_NAME, Error, MetadataStore, Options, ProtectedPolicy, Protector,
    ProtectorEntry, ProtectorLink, ProtectorSource, Writers, descriptor_text, key_name,
};

/// A guess costs nothing.
const CONFIG: &str = r#"{
    "source": "custom_passphrase",
    "hash_costs": {"time": "1", "memory": "64", "parallelism": "1", "truncation_fixed": true},
    "options": {"padding": "16", "contents": "AES_256_XTS", "filenames": "AES_256_CTS", "policy_version": "2"},
    "use_fs_keyring_for_v1_policies": true
}"#;

fn config() -> Config {
    Config::decode(CONFIG.as_bytes()).expect("a configuration")
}

fn secret(text: &str) -> Secret {
    Secret::from_slice(text.as_bytes()).expect("memory")
}

fn protector(name: &str, passphrase: &str) -> (Protector, Key) {
    let (source, costs) = (ProtectorSource::Passphrase, config().costs);
    let made = Protector::with_passphrase(source, name, &costs, &secret(passphrase), &SystemRandom);
    made.expect("a protector")
}

fn root(path: &Path) -> Entry {
    Entry::root(path).expect("opened")
}

/// An empty place for metadata, without the tool.
fn store() -> (tempfile::TempDir, MetadataStore) {
    let dir = tempfile::tempdir().expect("a directory");
    MetadataStore::create(&root(dir.path()), dir.path(), Writers::Owner).expect("made");
    let store = MetadataStore::open(&root(dir.path()), dir.path(), None).expect("opened");
    (dir, store)
}

fn here(store: &MetadataStore, descriptor: &[u8; 8]) -> Protector {
    match store.protector(descriptor).expect("read") {
        ProtectorEntry::Here(protector) => *protector,
        ProtectorEntry::Linked(link) => panic!("{link:?}"),
    }
}

#[test]
fn a_policy_opens_by_each_of_its_protectors() {
    let (_dir, store) = store();
    for version in [1, 2] {
        let options = Options {
            version,
            ..config().options
        };
        let (mut first, key) = protector("first", "one");
        let raw = Key::from_bytes(&[9; 32]).expect("memory");
        let (second, second_key) =
            Protector::with_raw_key("second", &raw, &SystemRandom).expect("a protector");
        let made = ProtectedPolicy::create(options, first.descriptor, &key, &SystemRandom);
        let (mut policy, master) = made.expect("a policy");
        let added = policy.add(second.descriptor, &second_key, &master, &SystemRandom);
        added.expect("added");
        store.put_policy(&policy, None).expect("written");
        store.put_protector(&first, None).expect("written");
        store.put_protector(&second, None).expect("written");

        let mut policy = store.policy(&policy.name).expect("read");
        assert_eq!(policy.options, options);
        let key = here(&store, &first.descriptor).unlock(&secret("one"));
        let opened = policy.unlock(&first.descriptor, &key.expect("opened"));
        assert_eq!(opened.expect("opened"), master);
        let key = here(&store, &second.descriptor).unlock_raw(&raw);
        let key = key.expect("opened");
        assert_eq!(
            policy.unlock(&second.descriptor, &key).expect("opened"),
            master
        );

        let key = first.unlock(&secret("one")).expect("opened");
        let changed = first.change_passphrase(&key, &secret("two"), &SystemRandom);
        changed.expect("changed");
        assert!(matches!(first.unlock(&secret("one")), Err(Error::WrongKey)));
        assert_eq!(first.unlock(&secret("two")).expect("opened"), key);
        policy.remove(&first.descriptor).expect("removed");
        assert!(matches!(
            policy.unlock(&first.descriptor, &key),
            Err(Error::Refused(_))
        ));
        assert!(matches!(
            policy.remove(&second.descriptor),
            Err(Error::Refused(_))
        ));
    }
}

#[test]
fn wrong_damaged_and_unknown_are_three_errors() {
    let (dir, store) = store();
    let (protector, key) = protector("name", "right");
    let made = ProtectedPolicy::create(config().options, protector.descriptor, &key, &SystemRandom);
    let (policy, _) = made.expect("a policy");
    store.put_policy(&policy, None).expect("written");
    store.put_protector(&protector, None).expect("written");
    assert!(matches!(
        protector.unlock(&secret("wrong")),
        Err(Error::WrongKey)
    ));

    let base = dir.path().join(DIRECTORY_NAME);
    let file = base.join("policies").join(key_name(&policy.name));
    let bytes = fs::read(&file).expect("read");
    for cut in 0..bytes.len() {
        fs::write(&file, &bytes[..cut]).expect("written");
        let read = store.policy(&policy.name);
        // Without its last slot it is still a policy.
        let is_whole = matches!(&read, Ok(policy) if policy.protectors().count() == 0);
        assert!(is_whole || matches!(read, Err(Error::Damaged(_))), "{cut}");
    }
    // The version is the last of the options: field 4, then the slots.
    let at = bytes.windows(3).position(|part| part == [0x20, 2, 0x1a]);
    let mut newer = bytes.clone();
    newer[at.expect("a version") + 1] = 3;
    fs::write(&file, &newer).expect("written");
    let unknown = store.policy(&policy.name).expect_err("refused");
    assert!(matches!(unknown, Error::Unknown(_)), "{unknown}");
    let mut changed = bytes;
    *changed.last_mut().expect("bytes") ^= 1;
    fs::write(&file, &changed).expect("written");
    let unlocked = store
        .policy(&policy.name)
        .expect("read")
        .unlock(&protector.descriptor, &key);
    assert!(matches!(unlocked, Err(Error::Damaged(_))));

    // What a hostile user leaves: costs out of bounds, a long file, links, a FIFO.
    let file = base
        .join("protectors")
        .join(descriptor_text(&protector.descriptor));
    let bytes = fs::read(&file).expect("read");
    // Field 3 of the costs: 64 KiB.
    let at = bytes.windows(2).position(|part| part == [0x18, 64]);
    let (before, after) = bytes.split_at(at.expect("the memory") + 1);
    // Three bytes more in the costs, whose length stands 4 bytes before.
    let mut before = before.to_vec();
    let len_at = before.len() - 4;
    before[len_at] += 3;
    let dear = [&before[..], &[0xff, 0xff, 0xff, 0x7f], &after[1..]].concat();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("written");
        match store.protector(&protector.descriptor) {
            Err(Error::Damaged(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&dear).contains("memory of Argon2id"));
    assert!(refused(&[0; 20_000]).contains("too long"));
    fs::remove_file(&file).expect("removed");
    symlink("/dev/zero", &file).expect("a link");
    assert!(store.protector(&protector.descriptor).is_err());
    fs::remove_file(&file).expect("removed");
    let made = Command::new("mkfifo").arg(&file).status();
    assert!(made.expect("mkfifo").success());
    assert!(matches!(
        store.protector(&protector.descriptor),
        Err(Error::Damaged(_))
    ));
}

#[test]
fn what_another_user_made_is_not_trusted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root gives files to other users");
        return;
    }
    let (dir, store) = store();
    let costs = config().costs;
    let (source, typed) = (ProtectorSource::Login(1234), secret("login"));
    let made = Protector::with_passphrase(source, "", &costs, &typed, &SystemRandom);
    let (login, _) = made.expect("a protector");
    let put = |owner| store.put_protector(&login, Some(owner)).expect("written");
    put(1234);
    assert_eq!(here(&store, &login.descriptor), login);
    let of = |user| MetadataStore::open(&root(dir.path()), dir.path(), Some(user)).expect("opened");
    assert_eq!(here(&of(1234), &login.descriptor), login);
    let foreign = of(4321).protector(&login.descriptor);
    assert!(matches!(foreign, Err(Error::Foreign(_))), "{foreign:?}");
    assert!(of(4321).protectors().expect("listed").is_empty());
    // Who could not have made it for that user did.
    put(4321);
    let forged = store.protector(&login.descriptor);
    assert!(matches!(forged, Err(Error::Foreign(_))), "{forged:?}");
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(dir.path().join(".fscrypt/policies"), all).expect("changed");
    let open = MetadataStore::open(&root(dir.path()), dir.path(), None);
    assert!(matches!(open, Err(Error::Refused(_))));
}

#[test]
fn links_name_another_file_system() {
    let link = ProtectorLink::decode(b"UUID=1234-ab\nPATH=/mnt\nNEW=1\n").expect("a link");
    assert_eq!(link.encode(), "UUID=1234-ab\nPATH=/mnt\n");
    for bad in ["", "UUID=\n", "UUID=../../sda\n", "PATH\n"] {
        assert!(matches!(
            ProtectorLink::decode(bad.as_bytes()),
            Err(Error::Damaged(_))
        ));
    }
}

#[test]
fn configurations_come_back() {
    let config = config();
    assert_eq!(
        Config::decode(config.encode().as_bytes()).expect("read"),
        config
    );
    for (text, is_unknown) in [
        ("{}", false),
        ("[", false),
        (&CONFIG.replace("AES_256_CTS", "AES_512"), true),
        (&CONFIG.replace("\"2\"}", "\"3\"}"), true),
    ] {
        let error = Config::decode(text.as_bytes()).expect_err(text);
        assert_eq!(matches!(error, Error::Unknown(_)), is_unknown, "{text}");
    }
}

include!("common/ext4.rs");

/// ext4 with encryption, and the tool with a configuration of its own.
struct Judge {
    dir: tempfile::TempDir,
    mount: PathBuf,
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}

impl Judge {
    /// Starts the judge. Nothing, with a line that says why, where there cannot be one.
    fn new() -> Option<Judge> {
        let (dir, mount) = encrypted_ext4(CONFIG)?;
        let judge = Judge { dir, mount };
        judge.ok(&["setup", "--quiet", judge.arg()], "");
        Some(judge)
    }

    fn arg(&self) -> &str {
        self.mount.to_str().expect("text")
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let input_file = self.dir.path().join("input");
        fs::write(&input_file, input).expect("written");
        Command::new("fscrypt")
            .args(args)
            .env("FSCRYPT_CONF", self.dir.path().join("conf"))
            .env("FSCRYPT_ROOT_MNT", &self.mount)
            .stdin(fs::File::open(input_file).expect("opened"))
            .output()
            .expect("the tool")
    }

    fn ok(&self, args: &[&str], input: &str) -> String {
        let done = self.run(args, input);
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(done.status.success(), "{args:?}: {said}");
        said
    }

    fn store(&self) -> MetadataStore {
        MetadataStore::open(&root(&self.mount), &self.mount, None).expect("opened")
    }
}

fn specifier(name: &KeyName) -> Specifier {
    match *name {
        KeyName::Descriptor(descriptor) => Specifier::Descriptor(descriptor),
        KeyName::Identifier(identifier) => Specifier::Identifier(identifier),
    }
}

fn open(path: &Path) -> fs::File {
    fs::File::open(path).expect("opened")
}

#[test]
fn what_the_tool_encrypts_is_unlocked() {
    let Some(judge) = Judge::new() else { return };
    let dir = judge.mount.join("dir");
    for version in ["1", "2"] {
        let config = CONFIG.replace("\"2\"}", &format!("\"{version}\"}}"));
        fs::write(judge.dir.path().join("conf"), config).expect("written");
        fs::create_dir(&dir).expect("a directory");
        let path = dir.to_str().expect("text");
        let name = format!("--name=p{version}");
        let args = [
            "encrypt",
            "--quiet",
            "--source=custom_passphrase",
            &name,
            path,
        ];
        judge.ok(&args, "the passphrase");
        fs::write(dir.join("file"), b"contents").expect("written");
        judge.ok(&["lock", "--quiet", path], "");
        assert!(fs::read(dir.join("file")).is_err());

        let store = judge.store();
        let names = store.policies().expect("listed");
        let policies = names.iter().map(|name| store.policy(name).expect("read"));
        let version: u8 = version.parse().expect("a number");
        let policy = policies
            .into_iter()
            .find(|policy| policy.options.version == version)
            .expect("a policy");
        let descriptor = policy.protectors().next().expect("a protector");
        let protector = here(&store, &descriptor);
        assert_eq!(protector.name, format!("p{version}"));
        assert!(matches!(
            protector.unlock(&secret("another")),
            Err(Error::WrongKey)
        ));
        let key = protector.unlock(&secret("the passphrase")).expect("opened");
        let master = policy.unlock(&descriptor, &key).expect("opened");
        let specifier = specifier(&policy.name);
        kernel::add_key(open(&judge.mount), &specifier, &master).expect("added");
        assert_eq!(fs::read(dir.join("file")).expect("read"), b"contents");
        let status = kernel::key_status(open(&judge.mount), &specifier).expect("a status");
        assert_eq!(status, KernelKeyStatus::Present { is_own: true });
        // The files that the tool wrote are those that are written here.
        let parts = [
            ("policies", key_name(&policy.name), policy.encode()),
            (
                "protectors",
                descriptor_text(&descriptor),
                protector.encode(),
            ),
        ];
        for (part, name, encoded) in parts {
            let file = judge.mount.join(DIRECTORY_NAME).join(part).join(name);
            assert_eq!(fs::read(file).expect("read"), encoded);
        }
        judge.ok(&["lock", "--quiet", path], "");
        fs::remove_dir_all(&dir).expect("removed");
    }
}

#[test]
fn what_is_made_here_the_tool_opens() {
    let Some(judge) = Judge::new() else { return };
    let store = judge.store();
    let (protector, key) = protector("made here", "a passphrase");
    let options = config().options;
    let made = ProtectedPolicy::create(options, protector.descriptor, &key, &SystemRandom);
    let (mut policy, master) = made.expect("a policy");
    let raw = Key::from_bytes(&[7; 32]).expect("memory");
    let (second, key) = Protector::with_raw_key("raw", &raw, &SystemRandom).expect("a protector");
    let added = policy.add(second.descriptor, &key, &master, &SystemRandom);
    added.expect("added");
    for protector in [&protector, &second] {
        store.put_protector(protector, None).expect("written");
    }
    store.put_policy(&policy, None).expect("written");
    let id = key_name(&policy.name);
    let said = judge.ok(&["status", judge.arg()], "");
    assert!(said.contains("custom protector \"made here\""), "{said}");
    assert!(said.contains(&id), "{said}");

    let dir = judge.mount.join("dir");
    fs::create_dir(&dir).expect("a directory");
    let path = dir.to_str().expect("text");
    let flag = |what: &str, id: &str| format!("--{what}={}:{id}", judge.arg());
    let with = flag("unlock-with", &descriptor_text(&protector.descriptor));
    judge.ok(
        &["encrypt", "--quiet", &flag("policy", &id), &with, path],
        "a passphrase",
    );
    fs::write(dir.join("file"), b"contents").expect("written");
    judge.ok(&["lock", "--quiet", path], "");
    let wrong = judge.run(&["unlock", "--quiet", &with, path], "wrong");
    assert!(!wrong.status.success());
    let key_file = judge.dir.path().join("key");
    fs::write(&key_file, [7; 32]).expect("written");
    let by_file = format!("--key={}", key_file.display());
    let with = flag("unlock-with", &descriptor_text(&second.descriptor));
    judge.ok(&["unlock", "--quiet", &with, &by_file, path], "");
    assert_eq!(fs::read(dir.join("file")).expect("read"), b"contents");
    judge.ok(&["lock", "--quiet", path], "");
}
