//! The commands `strongroom fscrypt`, with the tool `fscrypt` beside them on ext4.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::terminal::Terminal;
use crate::common::{
    BUSY, DAMAGED, Done, EXISTS, NOT_FOUND, OTHER, PROGRAM, Place, TOO_NEW, USAGE, WRONG_KEY, has,
    is_installed, needs, turn,
};

/// A guess costs nothing.
const CONFIG: &str = r#"{"source": "custom_passphrase",
    "hash_costs": {"time": "1", "memory": "64", "parallelism": "1"},
    "options": {"padding": "32", "contents": "AES_256_XTS", "filenames": "AES_256_CTS", "policy_version": "2"}}"#;

include!("../../../stack/tests/common/ext4.rs");

/// ext4 with encryption, set up.
struct Disk {
    dir: tempfile::TempDir,
    mount: PathBuf,
    /// The disk with the login protectors, if that is another one.
    root: Option<Box<Disk>>,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}

impl Disk {
    /// A new disk. Prints the reason and returns `None` if there cannot be one.
    fn new() -> Option<Disk> {
        let (dir, mount) = encrypted_ext4(CONFIG)?;
        let root = None;
        let disk = Disk { dir, mount, root };
        disk.ok("fscrypt setup {M}", "");
        has(&disk.ok("fscrypt setup {M}", ""), "already");
        Some(disk)
    }

    /// With another one in place of the root file system.
    fn with_root() -> Option<Disk> {
        let root = Some(Box::new(Disk::new()?));
        let mut disk = Disk::new()?;
        disk.root = root;
        Some(disk)
    }

    fn run_program(&self, program: &str, line: &str, input: &str) -> Done {
        let root = self.root.as_ref().map_or(&self.mount, |root| &root.mount);
        let at = |line: &str| {
            line.replace("{M}", &self.mount.display().to_string())
                .replace("{R}", &root.display().to_string())
                .replace("{DIR}", &self.dir.path().display().to_string())
        };
        let mut child = Command::new(program)
            .args(line.split(' ').map(at))
            .env("FSCRYPT_CONF", self.dir.path().join("conf"))
            .env("FSCRYPT_ROOT_MNT", root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut stdin = child.stdin.take().expect("a pipe");
        // One that does not read it has ended.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let done = child.wait_with_output().expect("ended");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Done {
            code: done.status.code().expect("a code"),
            out: text(done.stdout),
            err: text(done.stderr),
        }
    }

    #[track_caller]
    fn ok(&self, line: &str, input: &str) -> String {
        let done = self.run_program(PROGRAM, line, input);
        assert_eq!(done.code, 0, "{line}: {}", done.err);
        done.out
    }

    /// Runs a line like [`Disk::ok`], with the tool `fscrypt` in place of the program.
    #[track_caller]
    fn tool(&self, line: &str, input: &str) -> String {
        let done = self.run_program("fscrypt", line, input);
        assert_eq!(done.code, 0, "{line}: {}{}", done.out, done.err);
        done.out
    }

    #[track_caller]
    fn refused(&self, line: &str, input: &str, code: i32, why: &str) {
        let done = self.run_program(PROGRAM, line, input);
        assert_eq!(done.code, code, "{line}: {}", done.err);
        has(&done.err, why);
    }

    fn dir(&self) -> PathBuf {
        self.mount.join("dir")
    }

    /// An encrypted directory with a file in it, and the IDs of its policy and protector.
    fn encrypted(&self) -> (String, String) {
        fs::create_dir(self.dir()).expect("a directory");
        self.ok("fscrypt encrypt --name mine {M}/dir", "passphrase\n");
        fs::write(self.dir().join("file"), b"contents").expect("written");
        let only = |part: &str| {
            let listed = fs::read_dir(self.mount.join(".fscrypt").join(part)).expect("listed");
            let names: Vec<_> = listed
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            assert_eq!(names.len(), 1, "{names:?}");
            names[0].clone().into_string().expect("text")
        };
        (only("policies"), only("protectors"))
    }

    fn read(&self) -> Option<Vec<u8>> {
        fs::read(self.dir().join("file")).ok()
    }
}

#[test]
fn a_directory_is_locked_and_unlocked_by_both_programs() {
    let _turn = turn();
    let disk = needs!(Disk::new());
    let (policy, protector) = disk.encrypted();
    let again = "fscrypt encrypt --name other {M}/dir";
    disk.refused(again, "passphrase\n", EXISTS, "encrypted already");
    has(&disk.tool("status {M}/dir", ""), "Unlocked: Yes");
    let status = disk.ok("fscrypt status {M}/dir", "");
    has(&status, &policy);
    has(&status, &format!("{protector}  custom protector \"mine\""));
    disk.refused("fscrypt unlock {M}/dir", "", OTHER, "unlocked already");

    let held = File::open(disk.dir().join("file")).expect("opened");
    disk.refused("fscrypt lock {M}/dir", "", BUSY, "open");
    has(&disk.ok("fscrypt status {M}/dir", ""), "partially");
    drop(held);
    disk.ok("fscrypt lock {M}/dir", "");
    assert_eq!(disk.read(), None);
    disk.refused("fscrypt lock {M}/dir", "", OTHER, "locked already");
    disk.refused("fscrypt unlock {M}/dir", "another\n", WRONG_KEY, "wrong");
    assert_eq!(disk.read(), None);
    disk.ok("fscrypt unlock {M}/dir", "passphrase\n");
    assert_eq!(disk.read().as_deref(), Some(&b"contents"[..]));
    disk.tool("lock {M}/dir", "");
    disk.tool("unlock --quiet {M}/dir", "passphrase\n");
    assert_eq!(disk.read().as_deref(), Some(&b"contents"[..]));
    disk.refused("fscrypt purge {M}", "", USAGE, "--force");
    disk.ok("fscrypt purge --force {M}", "");
    assert_eq!(disk.read(), None);
}

#[test]
fn protectors_come_and_go() {
    let _turn = turn();
    let disk = needs!(Disk::new());
    let (policy, first) = disk.encrypted();
    fs::write(disk.dir.path().join("key"), [3; 32]).expect("written");
    let new = "fscrypt metadata create protector --source raw_key --name raw --key {DIR}/key {M}";
    let second = disk.ok(new, "").trim().to_owned();
    disk.refused(new, "", EXISTS, "named 'raw'");
    let pair = |protector: &str| format!("--protector {{M}}:{protector} --policy {{M}}:{policy}");
    let add = format!(
        "fscrypt metadata add-protector-to-policy --key {{DIR}}/key {}",
        pair(&second)
    );
    disk.refused(&add, "another\n", WRONG_KEY, "wrong");
    disk.ok(&add, "passphrase\n");
    disk.refused(&add, "passphrase\n", EXISTS, "already");
    let change = format!("fscrypt metadata change-passphrase --protector {{M}}:{first}");
    disk.refused(&change, "another\nsecond passphrase\n", WRONG_KEY, "wrong");
    disk.ok(&change, "passphrase\nsecond passphrase\n");
    disk.ok("fscrypt lock {M}/dir", "");
    let with = format!("unlock --quiet --unlock-with={{M}}:{first} {{M}}/dir");
    disk.tool(&with, "second passphrase\n");
    disk.ok("fscrypt lock {M}/dir", "");
    let remove = |id: &str| {
        format!(
            "fscrypt metadata remove-protector-from-policy --force {}",
            pair(id)
        )
    };
    disk.ok(&remove(&first), "");
    disk.refused(&remove(&first), "", OTHER, "not protected");
    disk.refused(&remove(&second), "", OTHER, "only protector");
    disk.tool("unlock --quiet --key={DIR}/key {M}/dir", "");
    assert!(disk.read().is_some());
    has(
        &disk.ok(
            &format!("fscrypt metadata dump --policy {{M}}:{policy}"),
            "",
        ),
        &second,
    );
    disk.ok(
        &format!("fscrypt metadata destroy --force --protector {{M}}:{first}"),
        "",
    );
    let gone = format!("fscrypt metadata dump --protector {{M}}:{first}");
    disk.refused(&gone, "", NOT_FOUND, "there is no protector");
    disk.refused("fscrypt metadata destroy {M}", "", USAGE, "--force");
    disk.ok("fscrypt metadata destroy --force {M}", "");
    disk.refused("fscrypt status {M}/dir", "", NOT_FOUND, "fscrypt setup");
}

#[test]
fn damaged_and_newer_metadata_are_told_apart() {
    let _turn = turn();
    let disk = needs!(Disk::new());
    let (policy, _) = disk.encrypted();
    disk.ok("fscrypt lock {M}/dir", "");
    let file: &Path = &disk.mount.join(".fscrypt/policies").join(policy);
    let bytes = fs::read(file).expect("read");
    let refused = |bytes: &[u8], code, why| {
        fs::write(file, bytes).expect("written");
        disk.refused("fscrypt unlock {M}/dir", "passphrase\n", code, why);
    };
    refused(&bytes[..bytes.len() - 1], DAMAGED, "damaged");
    let at = bytes.windows(3).position(|part| part == [0x20, 2, 0x1a]);
    let mut newer = bytes.clone();
    newer[at.expect("a version") + 1] = 3;
    refused(&newer, TOO_NEW, "policy version 3");
    let mut other = bytes.clone();
    // The padding, as the kernel does not have it.
    let at = bytes.windows(2).position(|part| part == [0x08, 32]);
    other[at.expect("a padding") + 1] = 16;
    refused(&other, DAMAGED, "differs from the metadata");
    fs::write(file, &bytes).expect("written");
    disk.ok("fscrypt unlock {M}/dir", "passphrase\n");
    // Nothing is left behind of what fails.
    fs::create_dir(disk.mount.join("full")).expect("a directory");
    fs::write(disk.mount.join("full/file"), b"").expect("written");
    disk.refused(
        "fscrypt encrypt --name x {M}/full",
        "passphrase\n",
        OTHER,
        "not empty",
    );
    disk.refused(
        "fscrypt encrypt --name mine {M}/lost+found",
        "passphrase\n",
        EXISTS,
        "named 'mine'",
    );
    let protectors = fs::read_dir(disk.mount.join(".fscrypt/protectors")).expect("listed");
    assert_eq!(protectors.count(), 1);
}

/// The ID and the passphrase in the file of a recovery passphrase.
fn recovery(dir: &Path) -> (String, String) {
    let text = fs::read_to_string(dir.join("fscrypt_recovery_readme.txt")).expect("read");
    let is_passphrase =
        |word: &&str| word.len() == 20 && word.bytes().all(|b| b.is_ascii_lowercase());
    let passphrase = text.split_whitespace().find(is_passphrase);
    let id = text.split_once("--protector").expect("a command").1;
    let id = id
        .split_whitespace()
        .next()
        .and_then(|id| id.rsplit_once(':'));
    let id = id.expect("an ID").1;
    (id.to_owned(), passphrase.expect("a passphrase").to_owned())
}

#[test]
fn a_protector_elsewhere_comes_with_a_recovery_passphrase() {
    let _turn = turn();
    let disk = needs!(Disk::with_root());
    let new = "fscrypt metadata create protector --source custom_passphrase --name there {R}";
    let there = disk.ok(new, "passphrase\n").trim().to_owned();
    let ours = disk.mount.join("ours");
    let tools = disk.mount.join("tools");
    fs::create_dir(&ours).expect("a directory");
    fs::create_dir(&tools).expect("a directory");
    let said = disk.ok(
        &format!("fscrypt encrypt --protector {{R}}:{there} {{M}}/ours"),
        "passphrase\n",
    );
    has(&said, "fscrypt_recovery_readme.txt");
    disk.tool(
        &format!("encrypt --quiet --protector={{R}}:{there} {{M}}/tools"),
        "passphrase\n",
    );
    for name in ["ours", "tools"] {
        let dir = disk.mount.join(name);
        fs::write(dir.join("file"), name).expect("written");
        let (id, passphrase) = recovery(&dir);
        let passphrase = format!("{passphrase}\n");
        let unlocked = |with: &str, input: &str| {
            for program in ["fscrypt", PROGRAM] {
                disk.ok(&format!("fscrypt lock {{M}}/{name}"), "");
                assert!(!dir.join("file").exists());
                let unlock = format!("unlock --unlock-with {with} {{M}}/{name}");
                match program {
                    PROGRAM => disk.ok(&format!("fscrypt {unlock}"), input),
                    _ => disk.tool(&format!("{unlock} --quiet"), input),
                };
                let file = fs::read_to_string(dir.join("file"));
                assert_eq!(file.expect("read"), name, "{program}");
            }
        };
        unlocked(&format!("{{R}}:{there}"), "passphrase\n");
        unlocked(&format!("{{M}}:{id}"), &passphrase);
        let recover = format!("fscrypt recover --unlock-with {{M}}:{id} {{M}}/{name}");
        disk.refused(&recover, &passphrase, EXISTS, "there is");
    }
    let status = disk.ok("fscrypt status {M}/ours", "");
    has(&status, "Recovery passphrase for ours");
    has(
        &disk.tool("status {M}/ours", ""),
        "Recovery passphrase for ours",
    );
    // The first file system is gone.
    let (id, passphrase) = recovery(&ours);
    disk.ok("fscrypt lock {M}/ours", "");
    disk.ok("fscrypt metadata destroy --force {R}", "");
    let unlock = |id: &str| format!("fscrypt unlock --unlock-with {{M}}:{id} {{M}}/ours");
    disk.refused(&unlock(&there), "passphrase\n", NOT_FOUND, "metadata");
    disk.ok(&unlock(&id), &format!("{passphrase}\n"));
}

#[test]
fn a_directory_gets_a_recovery_passphrase_later() {
    let _turn = turn();
    let disk = needs!(Disk::new());
    let (_, protector) = disk.encrypted();
    disk.refused("fscrypt recover {M}/dir", "another\n", WRONG_KEY, "wrong");
    disk.ok("fscrypt lock {M}/dir", "");
    let protectors = || fs::read_dir(disk.mount.join(".fscrypt/protectors")).expect("listed");
    disk.refused(
        "fscrypt recover {M}/dir",
        "passphrase\n",
        OTHER,
        "key is not",
    );
    assert_eq!(protectors().count(), 1);
    disk.ok("fscrypt unlock {M}/dir", "passphrase\n");
    disk.ok("fscrypt recover {M}/dir", "passphrase\n");
    let (id, passphrase) = recovery(&disk.dir());
    disk.ok("fscrypt lock {M}/dir", "");
    let forget = format!("fscrypt metadata destroy --force --protector {{M}}:{protector}");
    disk.ok(&forget, "");
    disk.tool(
        &format!("unlock --quiet --unlock-with={{M}}:{id} {{M}}/dir"),
        &format!("{passphrase}\n"),
    );
    assert_eq!(disk.read().as_deref(), Some(&b"contents"[..]));
}

#[test]
fn a_login_protector_is_on_the_root_file_system_and_belongs_to_its_user() {
    let _turn = turn();
    let disk = needs!(Disk::with_root());
    for name in ["first", "second", "third"] {
        fs::create_dir(disk.mount.join(name)).expect("a directory");
    }
    let encrypt = "fscrypt encrypt --source pam_passphrase --user nobody {M}/";
    disk.refused(&format!("{encrypt}first --name x"), "", USAGE, "no name");
    disk.refused(
        "fscrypt encrypt --source pam_passphrase --user no-such-user {M}/first",
        "",
        NOT_FOUND,
        "there is no user",
    );
    disk.ok(&format!("{encrypt}first --no-recovery"), "passphrase\n");
    assert!(
        !disk
            .mount
            .join("first/fscrypt_recovery_readme.txt")
            .exists()
    );
    let owner = |path: PathBuf| {
        let mut listed = fs::read_dir(path).expect("listed");
        let entry = listed.next().expect("an entry").expect("an entry");
        let uid = std::os::unix::fs::MetadataExt::uid(&entry.metadata().expect("metadata"));
        (entry.file_name().into_string().expect("text"), uid)
    };
    let root = &disk.root.as_ref().expect("another one").mount;
    let (id, uid) = owner(root.join(".fscrypt/protectors"));
    assert_eq!(uid, 65534);
    let link = (format!("{id}.link"), 65534);
    assert_eq!(owner(disk.mount.join(".fscrypt/protectors")), link);
    assert_eq!(owner(disk.mount.join(".fscrypt/policies")).1, 65534);
    has(
        &disk.tool("status {M}/first", ""),
        "login protector for nobody",
    );
    // There is one for a user, which other directories use.
    disk.refused(&format!("{encrypt}second"), "passphrase\n", EXISTS, &id);
    disk.ok(
        &format!("fscrypt encrypt --protector {{R}}:{id} {{M}}/second"),
        "passphrase\n",
    );
    disk.ok("fscrypt lock {M}/first", "");
    let unlock = format!("unlock --quiet --unlock-with={{R}}:{id} {{M}}/first");
    disk.tool(&unlock, "passphrase\n");
    // Nothing is left behind of what fails: here the file system of the link cannot be written.
    let protectors = disk.mount.join(".fscrypt/protectors");
    let before = fs::read_dir(&protectors).expect("listed").count();
    fs::write(disk.mount.join("third/file"), b"").expect("written");
    let fails = format!("fscrypt encrypt --protector {{R}}:{id} {{M}}/third");
    disk.refused(&fails, "passphrase\n", OTHER, "not empty");
    assert_eq!(fs::read_dir(&protectors).expect("listed").count(), before);
}

/// Runs `encrypt` at a terminal. `answers` are typed when what is before them is shown.
fn encrypt_at_a_terminal(disk: &Disk, dir: &str, answers: &[(&str, &str)]) -> String {
    fs::create_dir(disk.mount.join(dir)).expect("a directory");
    let place = Place::without_daemon();
    let directory = disk.mount.join(dir).display().to_string();
    let config = format!("FSCRYPT_CONF={}", disk.dir.path().join("conf").display());
    let root = format!("FSCRYPT_ROOT_MNT={}", disk.mount.display());
    let words = [
        "env", &config, &root, PROGRAM, "fscrypt", "encrypt", &directory,
    ];
    let mut terminal = Terminal::start(&place, &words);
    for (question, answer) in answers {
        terminal.wait_for(question);
        terminal.types(&format!("{answer}\n"));
    }
    let (status, shown) = terminal.ends();
    assert!(status.success(), "{shown}");
    shown
}

/// At a terminal, `encrypt` without options has the questions of the tool: whether to make a protector, its source, its name.
#[test]
fn encrypt_asks_as_the_tool_does() {
    needs!(is_installed("setsid"));
    let disk = needs!(Disk::new());
    let typed = |name: &'static str| {
        [
            (name, "passphrase"),
            ("Re-enter passphrase: ", "passphrase"),
        ]
    };
    let source = "Enter the source number for the new protector [2 - custom_passphrase]: ";
    let name = "Enter a name for the new protector: ";
    let first = [
        &[(source, ""), (name, "mine")][..],
        &typed("'custom protector \"mine\"': "),
    ];
    encrypt_at_a_terminal(&disk, "a", &first.concat());
    // The only one is used.
    let new = "Should we create a new protector? (y/N) ";
    let used = [(new, ""), ("'custom protector \"mine\"': ", "passphrase")];
    encrypt_at_a_terminal(&disk, "b", &used);
    let wrong_first = [
        (new, "y"),
        (source, "9"),
        (source, "2"),
        (name, ""),
        (name, "other"),
    ];
    let second = [&wrong_first[..], &typed("'custom protector \"other\"': ")];
    encrypt_at_a_terminal(&disk, "c", &second.concat());
    let number = "Enter the number of protector to use: ";
    let chosen = [
        (new, "n"),
        (number, "7"),
        (number, "1"),
        ("': ", "passphrase"),
    ];
    encrypt_at_a_terminal(&disk, "d", &chosen);
    for dir in ["a", "b", "c", "d"] {
        disk.ok(&format!("fscrypt lock {{M}}/{dir}"), "");
        disk.tool(&format!("unlock --quiet {{M}}/{dir}"), "passphrase\n");
    }
    // In a script there are no questions: the next line may be a passphrase.
    fs::create_dir(disk.mount.join("e")).expect("a directory");
    disk.refused(
        "fscrypt encrypt {M}/e",
        "passphrase\n",
        USAGE,
        "--name NAME",
    );
}
