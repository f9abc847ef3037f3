//! TPMs in software, and programs that use them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::tang::are_installed;
use crate::common::{Place, needs};

/// A TPM in software, until the test ends.
pub struct Tpm {
    child: Child,
    pub socket: String,
    pub tcti: String,
}

impl Tpm {
    /// A new one. `None` if it is not installed.
    pub fn start(place: &Place) -> Option<Tpm> {
        std::fs::create_dir(place.path("tpm")).unwrap();
        Tpm::start_there(place)
    }

    /// A TPM with the seeds in this file.
    pub fn with_state(place: &Place, file: &Path) -> Option<Tpm> {
        std::fs::create_dir(place.path("tpm")).unwrap();
        std::fs::copy(file, place.path("tpm/tpm2-00.permall")).unwrap();
        Tpm::start_there(place)
    }

    fn start_there(place: &Place) -> Option<Tpm> {
        needs!(are_installed(&["swtpm", "tpm2_pcrextend"]));
        let socket = place.arg("tpm.socket");
        // It listens before it goes to the background.
        let mut child = Command::new("swtpm")
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .args(["--tpmstate", &format!("dir={}", place.arg("tpm"))])
            .args(["--ctrl", &format!("type=unixio,path={socket}.ctrl")])
            .args(["--server", &format!("type=unixio,path={socket}")])
            .args(["--pid", &format!("file={}", place.arg("tpm.pid"))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !place.path("tpm.pid").exists() {
            assert!(child.try_wait().unwrap().is_none(), "swtpm ended");
            std::thread::yield_now();
        }
        let tcti = format!("swtpm:path={socket}");
        Some(Tpm {
            child,
            socket,
            tcti,
        })
    }

    /// A program that uses it; returns what it printed.
    pub fn run(
        &self,
        place: &Place,
        program: &str,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Vec<u8> {
        let done = Command::new(program)
            .args(words)
            .env("TPM2TOOLS_TCTI", &self.tcti)
            .envs(variables.iter().copied())
            .current_dir(place.root())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(done.status.success(), "{program}: {done:?}");
        done.stdout
    }

    /// Runs the command line of a tool, split at spaces.
    pub fn tool(&self, place: &Place, line: &str) -> Vec<u8> {
        let words: Vec<&str> = line.split(' ').collect();
        self.run(place, words[0], &words[1..], &[])
    }

    /// Without a resource manager, what a program leaves behind stays.
    pub fn flush(&self, place: &Place) {
        for kind in ["--loaded-session", "--saved-session", "--transient-object"] {
            self.run(place, "tpm2_flushcontext", &[kind], &[]);
        }
    }

    /// The machine started otherwise.
    pub fn extend(&self, place: &Place) {
        let digest = format!("16:sha256={}", "01".repeat(32));
        self.run(place, "tpm2_pcrextend", &[&digest], &[]);
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
