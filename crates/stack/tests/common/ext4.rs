// Included by the tests of this crate and of `cli`.

/// A directory with a file `conf`, and an ext4 with encryption, mounted in it. `None` where that is not possible,
/// with the reason printed.
fn encrypted_ext4(conf: &str) -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts ext4");
        return None;
    }
    if Command::new("fscrypt").arg("--version").output().is_err() {
        eprintln!("skipped: the tool fscrypt is not installed");
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
    fs::create_dir(&mount).expect("a directory");
    let file = fs::File::create(&image).expect("a file");
    file.set_len(32 << 20).expect("a length");
    fs::write(dir.path().join("conf"), conf).expect("written");
    let script = "mkfs.ext4 -q -b 4096 -O encrypt \"$1\" && mount -o loop \"$1\" \"$2\"";
    let made = Command::new("sh")
        .args(["-c", script, "sh"])
        .args([&image, &mount])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: ext4 with encryption cannot be mounted from a loop device");
        return None;
    }
    Some((dir, mount))
}
