//! The cipher policy of this user, set by `strongroom crypto`: a file in the state directory.
//!
//! It applies to processes that start later. A malformed file is an error, because it may forbid a cipher.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cipher::{MechanismTest, Policy};
use protocol::api::FailureKind;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::host::state_dir::state_dir_at;

/// The policy file and its directory.
pub struct Decisions {
    dir: PathBuf,
}

/// The cost of the self-tests of approved mechanisms.
#[derive(Clone, Debug, Serialize)]
pub struct FipsCost {
    /// The number of tested mechanisms, now or earlier.
    pub tested: usize,
    /// True if this program was already tested since the machine booted.
    pub remembered: bool,
    /// The duration of the tests, now or earlier.
    pub tests: Duration,
    /// The time to find out whether tests were needed.
    pub identification: Duration,
}

/// The tests that a program has passed.
#[derive(Serialize, Deserialize)]
struct SelfTestRecord {
    boot: String,
    /// Device, inode, size and times of the file.
    file: [i64; 6],
    /// BLAKE3 of the program.
    program: String,
    /// The policy, and the processor features in use.
    under: String,
    tested: usize,
    micros: u64,
}

impl Decisions {
    /// The policy file in `dir`.
    pub fn new(dir: PathBuf) -> Decisions {
        Decisions { dir }
    }

    /// The policy file of the daemon at `socket`.
    ///
    /// # Errors
    /// [`FailureKind::Permission`] for the daemon of another user; no home directory is known.
    pub fn of_daemon(socket: &Path) -> Result<Decisions> {
        let me = rustix::process::geteuid().as_raw();
        match std::fs::symlink_metadata(socket) {
            Ok(found) if found.uid() != me => Err(Failure::new(
                FailureKind::Permission,
                format!(
                    "the daemon at {} is that of uid {}; only that user chooses its ciphers",
                    socket.display(),
                    found.uid()
                ),
            )),
            _ => Ok(Decisions::new(state_dir_at(socket)?)),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("crypto")
    }

    /// The policy. Without a file everything is enabled.
    ///
    /// # Errors
    /// [`FailureKind::Damaged`] if a line is malformed; the file cannot be read.
    pub fn policy(&self) -> Result<Policy> {
        let file = self.file();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Policy::default()),
            Err(error) => return Err(failed("cannot be read", &file, &error)),
        };
        Policy::parse(&text).map_err(|line| {
            Failure::new(
                FailureKind::Damaged,
                format!(
                    "{}: the line '{line}' is not understood, or leaves a mechanism without a provider; repair \
                     the line, or remove the file to enable everything",
                    file.display()
                ),
            )
        })
    }

    /// Changes the policy for processes that start later.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, policy: &Policy) -> Result<()> {
        let text = format!("# strongroom crypto enable, disable\n{policy}");
        self.replace(&self.file(), text.as_bytes())
    }

    /// Applies the policy to this process. In FIPS mode, tests the approved mechanisms, unless this program was already
    /// tested since the machine booted.
    ///
    /// Call it before the first cipher is used.
    ///
    /// # Errors
    /// As [`Decisions::policy`]; ciphers were used before; in FIPS mode a test fails.
    pub fn begin(&self) -> Result<Option<FipsCost>> {
        let policy = self.policy()?;
        let is_fips = policy.is_fips();
        if !policy.install() {
            return Err(Failure::other(
                "ciphers were used before it was known which",
            ));
        }
        match is_fips {
            true => self.ensure_tested().map(Some),
            false => Ok(None),
        }
    }

    fn ensure_tested(&self) -> Result<FipsCost> {
        let begin = Instant::now();
        let memory = self.dir.join("crypto.tested.json");
        let (boot, file) = (boot()?, program_file()?);
        let passed: Option<SelfTestRecord> = std::fs::read(&memory)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        // The file is the same if nothing about it has changed; else it may still have the same contents.
        let identify = || -> Result<String> {
            let program = std::fs::read("/proc/self/exe");
            let program =
                program.map_err(|e| failed("cannot be read", Path::new("/proc/self/exe"), &e))?;
            Ok(encoding::hex(&cipher::hash(&program)))
        };
        // Another provider, or code without an instruction, was not tested then.
        let under = format!("{}{}", Policy::current(), cipher::hardware());
        let is_same = |passed: &SelfTestRecord| passed.boot == boot && passed.under == under;
        if let Some(passed) = passed.filter(is_same)
            && (passed.file == file || passed.program == identify()?)
        {
            return Ok(FipsCost {
                tested: passed.tested,
                remembered: true,
                tests: Duration::from_micros(passed.micros),
                identification: begin.elapsed(),
            });
        }
        let program = identify()?;
        let identification = begin.elapsed();
        let begin = Instant::now();
        let tested = passed_all(&cipher::test_mechanisms(Policy::current()))?;
        let tests = begin.elapsed();
        let passed = SelfTestRecord {
            boot,
            file,
            program,
            under,
            tested,
            micros: tests.as_micros() as u64,
        };
        let text = serde_json::to_vec_pretty(&passed).unwrap_or_default();
        self.replace(&memory, &text)?;
        Ok(FipsCost {
            tested,
            remembered: false,
            tests,
            identification,
        })
    }

    /// Replaces a file atomically. Only its owner can read it.
    fn replace(&self, path: &Path, text: &[u8]) -> Result<()> {
        let new = path.with_extension("new");
        let write = || {
            std::fs::create_dir_all(&self.dir)?;
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(text)?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error| failed("cannot be written", path, &error))
    }
}

/// The number of tests, if all have passed.
///
/// # Errors
/// The names of the tests that failed.
pub fn passed_all(tests: &[MechanismTest]) -> Result<usize> {
    let failed: Vec<String> = tests
        .iter()
        .filter(|test| !test.ok)
        .map(|test| format!("{}/{}", test.provider, test.mechanism))
        .collect();
    match failed.is_empty() {
        true => Ok(tests.len()),
        false => Err(Failure::other(format!(
            "these ciphers compute wrong results, and must not be used: {}",
            failed.join(", ")
        ))),
    }
}

/// The kernel's id of this boot.
fn boot() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = std::fs::read_to_string(path).map_err(|e| failed("cannot be read", path, &e))?;
    Ok(id.trim().to_owned())
}

fn program_file() -> Result<[i64; 6]> {
    let path = Path::new("/proc/self/exe");
    let file = std::fs::metadata(path).map_err(|e| failed("cannot be read", path, &e))?;
    let number = |number: u64| number as i64;
    Ok([
        number(file.dev()),
        number(file.ino()),
        number(file.size()),
        file.mtime_nsec() ^ file.mtime() << 30,
        file.ctime(),
        file.ctime_nsec(),
    ])
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => FailureKind::Permission,
        _ => FailureKind::Other,
    };
    Failure::new(kind, format!("{} {what}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use cipher::PolicyTarget;

    use super::*;

    #[test]
    fn decisions_are_kept_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(dir.path().join("state"));
        assert_eq!(decisions.policy().unwrap(), Policy::default());
        let mut policy = Policy::default();
        policy.enable(PolicyTarget::Fips);
        let target = PolicyTarget::parse("aws-lc/aes-xts").unwrap();
        policy.disable(target).unwrap();
        decisions.write(&policy).unwrap();
        assert_eq!(decisions.policy().unwrap(), policy);
        let mode = std::fs::metadata(decisions.file())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let decisions = Decisions::new(dir.path().into());
        for text in [
            "disable aws-lc/rot13\n",
            "disable portable/argon2\n",
            "\u{0}",
        ] {
            std::fs::write(decisions.file(), text).unwrap();
            assert_eq!(decisions.policy().unwrap_err().kind, FailureKind::Damaged);
        }
        std::fs::write(decisions.file(), [0xff]).unwrap();
        assert!(decisions.policy().is_err());
    }
}
