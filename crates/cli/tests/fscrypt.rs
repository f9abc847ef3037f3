//! The commands `strongroom fscrypt`, with the tool `fscrypt` beside them on ext4.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{
    BUSY, DAMAGED, Done, EXISTS, NOT_FOUND, OTHER, PROGRAM, TOO_NEW, USAGE, WRONG_KEY, has,
};

/// A guess costs nothing.
const CONFIG: &str = r#"{"source": "custom_passphrase",
    "hash_costs": {"time": "1", "memory": "64", "parallelism": "1"},
    "options": {"padding": "32", "contents": "AES_256_XTS", "filenames": "AES_256_CTS", "policy_version": "2"}}"#;

include!("../../stack/tests/common/ext4.rs");

/// ext4 with encryption, set up.
struct Disk {
    dir: tempfile::TempDir,
    mount: PathBuf,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}

impl Disk {
    /// Nothing, with a line that says why, where there cannot be one.
    fn new() -> Option<Disk> {
        let (dir, mount) = encrypted_ext4(CONFIG)?;
        let disk = Disk { dir, mount };
        disk.ok("fscrypt setup {M}", "");
        disk.refused("fscrypt setup {M}", "", EXISTS, "already");
        Some(disk)
    }

    fn run_program(&self, program: &str, line: &str, input: &str) -> Done {
        let at = |line: &str| {
            line.replace("{M}", &self.mount.display().to_string())
                .replace("{DIR}", &self.dir.path().display().to_string())
        };
        let mut child = Command::new(program)
            .args(line.split(' ').map(at))
            .env("FSCRYPT_CONF", self.dir.path().join("conf"))
            .env("FSCRYPT_ROOT_MNT", &self.mount)
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

    /// As [`Disk::ok`], by the tool.
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
    let Some(disk) = Disk::new() else { return };
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
    let Some(disk) = Disk::new() else { return };
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
    let Some(disk) = Disk::new() else { return };
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
    refused(&other, DAMAGED, "not as the metadata");
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
