//! Processor features that the environment switches off: `STRONGROOM_HWCAP`, and `LD_HWCAP` of Solaris.
//!
//! AWS-LC reads its own variable before `main` begins. If that is not what it should be, this program starts itself again
//! with it. `STRONGROOM_HWCAP` is for any command. `LD_HWCAP` is for commands that measure and test ciphers: the environment
//! of a client slows no daemon.

use std::env::{args_os, var, var_os};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Words of `LD_HWCAP`, and the feature of this machine that they mean.
const WORDS: [(&str, &str); 12] = [
    ("aes", "aes"),
    ("pclmulqdq", "pclmul"),
    ("pclmul", "pclmul"),
    ("ssse3", "ssse3"),
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("avx512f", "avx512"),
    ("vaes", "vaes"),
    ("vpclmulqdq", "vpclmul"),
    ("sha", "sha"),
    ("sha1", "sha"),
    ("sha256", "sha"),
];

/// Switches off what the environment names. `command` begins with the name of the command.
///
/// # Errors
/// The error in the setting, in words.
pub(crate) fn switch_features_off(command: &[OsString]) -> Result<(), String> {
    if let Some(setting) = var_os("STRONGROOM_HWCAP") {
        let setting = setting.to_string_lossy();
        let value = cipher::hwcap_setting(&setting);
        return value
            .and_then(|value| start_with(&value))
            .map_err(|why| format!("STRONGROOM_HWCAP={setting}: {why}"));
    }
    match var_os("LD_HWCAP") {
        Some(setting) if computes_ciphers(command) => of_solaris(&setting.to_string_lossy()),
        _ => Ok(()),
    }
}

fn of_solaris(setting: &str) -> Result<(), String> {
    let (features, ignored) = understood(setting);
    if !features.is_empty() {
        let value = cipher::hwcap_setting(&features.join(","));
        value
            .and_then(|value| start_with(&value))
            .map_err(|why| format!("LD_HWCAP={setting}: {why}"))?;
    }
    if !ignored.is_empty() {
        eprintln!(
            "strongroom: LD_HWCAP: ignored, because no code here has a path for it: {}",
            console::show::text::message(&ignored.join(" "))
        );
    }
    Ok(())
}

/// The features to switch off, as in `STRONGROOM_HWCAP`, and the words without a meaning here.
fn understood(setting: &str) -> (Vec<String>, Vec<&str>) {
    let (mut features, mut ignored) = (Vec::new(), Vec::new());
    let words = setting.split([',', ' ']).filter(|word| !word.is_empty());
    for word in words {
        let name = word.strip_prefix('-');
        let known = name.and_then(|name| WORDS.iter().find(|(known, _)| *known == name));
        match known {
            Some((_, feature)) => features.push(format!("-{feature}")),
            None => ignored.push(word),
        }
    }
    features.dedup();
    (features, ignored)
}

/// Returns whether a command measures, tests or shows ciphers, in its own process.
fn computes_ciphers(command: &[OsString]) -> bool {
    match command {
        [crypto, ..] if crypto == "crypto" => true,
        [luks, benchmark, ..] => luks == "luks" && benchmark == "benchmark",
        _ => false,
    }
}

/// Starts this program again with the variable of AWS-LC, unless it has this value.
fn start_with(value: &str) -> Result<(), String> {
    if var("OPENSSL_ia32cap").is_ok_and(|current| current == value) {
        return Ok(());
    }
    let mut args = args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    let error = again.args(args).env("OPENSSL_ia32cap", value).exec();
    Err(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_solaris_are_understood_or_named() {
        let (features, ignored) = understood("-aes -des -md5 -sha256 -sha512 -mont -mpmul");
        assert_eq!(features, ["-aes", "-sha"]);
        assert_eq!(ignored, ["-des", "-md5", "-sha512", "-mont", "-mpmul"]);
        assert_eq!(understood("-aes"), (vec!["-aes".into()], vec![]));
        assert_eq!(understood("+aes,0x10"), (vec![], vec!["+aes", "0x10"]));
        assert_eq!(understood(""), (vec![], vec![]));
    }

    #[test]
    fn commands_with_a_daemon_keep_their_features() {
        let of = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            computes_ciphers(&args)
        };
        for line in ["crypto bench", "crypto providers", "luks benchmark"] {
            assert!(of(line), "{line}");
        }
        for line in [
            "",
            "pool list",
            "daemon",
            "luks open a b",
            "key load crypto",
        ] {
            assert!(!of(line), "{line}");
        }
    }
}
