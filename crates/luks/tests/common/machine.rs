//! A virtual machine with a Linux kernel and cryptsetup, the judge of what is made here.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that runs the machine; without it that is said, and there is nothing to test.
pub(crate) fn machine() -> Option<PathBuf> {
    let beside = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/engines/kernel-vm.sh"
    );
    let script =
        std::env::var_os("STRONGROOM_KERNEL_VM").map_or(PathBuf::from(beside), PathBuf::from);
    let has_qemu = Command::new("qemu-system-x86_64")
        .arg("--version")
        .output()
        .is_ok();
    if !script.exists() || !has_qemu || !Path::new("/lib/modules").exists() {
        eprintln!(
            "skipped: there is no virtual machine to run a kernel in ({})",
            script.display()
        );
        return None;
    }
    Some(script)
}

/// Runs a shell script in the machine, with the images as /dev/vda, /dev/vdb and so on.
pub(crate) fn run(machine: &Path, images: &[PathBuf], files: &[&Path], script: &str) -> String {
    let (out, has_ended) = run_or_die(machine, images, files, script);
    assert!(has_ended, "{out}");
    out
}

/// The variant of [`run`] for a script that may end the machine. Returns also whether the script succeeded.
pub(crate) fn run_or_die(
    machine: &Path,
    images: &[PathBuf],
    files: &[&Path],
    script: &str,
) -> (String, bool) {
    let mut command = Command::new(machine);
    for image in images {
        command.arg("-d").arg(image);
    }
    for file in files {
        command.arg("-f").arg(file);
    }
    let output = command
        .args(["-t", "600", "sh", script])
        .output()
        .expect("the script");
    let said = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    (format!("{out}{said}"), output.status.success())
}

/// The files of these modules of the newest kernel that is here, which is the machine's, and of those that
/// they need, in the order in which they are loaded.
pub(crate) fn modules(names: &[&str]) -> Option<Vec<PathBuf>> {
    let kernels = std::fs::read_dir("/lib/modules").ok()?;
    let newest = kernels
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .max()?;
    let mut files: Vec<PathBuf> = Vec::new();
    for name in names {
        let output = Command::new("modprobe")
            .arg("-S")
            .arg(&newest)
            .args(["--show-depends", name])
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let paths = listed
            .lines()
            .filter_map(|line| line.strip_prefix("insmod "));
        for path in paths.map(|path| PathBuf::from(path.trim())) {
            if !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Some(files)
}
