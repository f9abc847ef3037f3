//! The arguments of the module, as a line in `/etc/pam.d` gives them.

use std::path::PathBuf;
use std::time::Duration;

/// The program, unless an argument names another one.
const PROGRAM: &str = match option_env!("STRONGROOM_PROGRAM") {
    Some(path) => path,
    None => "/usr/local/bin/strongroom",
};

/// The time limit of the program: password hashes and busy mounts take seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time that can be set, in seconds.
const TIMEOUT_MAX: u64 = 600;

/// The source of the passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passphrase {
    /// The user types it.
    Typed,
    /// The one that an earlier module got; if there is none or it is wrong, the user types it.
    Try,
    /// The one that an earlier module got.
    Use,
}

/// The arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) passphrase: Passphrase,
    /// A new passphrase is the one that an earlier module got.
    pub(crate) use_authtok: bool,
    /// Every passphrase is accepted for a directory of pefs.
    pub(crate) ignore_missing: bool,
    /// The last session removes keys.
    pub(crate) delkeys: bool,
    pub(crate) debug: bool,
    pub(crate) program: PathBuf,
    pub(crate) timeout: Duration,
    /// Arguments that are not known. The log names them.
    pub(crate) unknown: Vec<String>,
}

impl Options {
    pub(crate) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Options {
        let mut options = Options {
            passphrase: Passphrase::Typed,
            use_authtok: false,
            ignore_missing: false,
            delkeys: false,
            debug: false,
            program: PROGRAM.into(),
            timeout: TIMEOUT,
            unknown: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                None => match word {
                    "try_first_pass" => options.passphrase = Passphrase::Try,
                    "use_first_pass" => options.passphrase = Passphrase::Use,
                    "use_authtok" => options.use_authtok = true,
                    "ignore_missing" => options.ignore_missing = true,
                    "delkeys" => options.delkeys = true,
                    "debug" => options.debug = true,
                    _ => options.unknown.push(word.to_owned()),
                },
                Some(("program", path)) => options.program = path.into(),
                Some(("timeout", seconds)) => match seconds.parse() {
                    Ok(seconds @ 1..=TIMEOUT_MAX) => options.timeout = Duration::from_secs(seconds),
                    _ => options.unknown.push(word.to_owned()),
                },
                Some(_) => options.unknown.push(word.to_owned()),
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_pam_pefs() {
        let parse = |line: &str| Options::parse(line.split(' ').filter(|word| !word.is_empty()));
        let none = parse("");
        assert_eq!(none.passphrase, Passphrase::Typed);
        assert_eq!(none.program, PathBuf::from(PROGRAM));
        assert!(!none.delkeys && !none.ignore_missing && !none.debug && none.unknown.is_empty());

        let all = parse("try_first_pass ignore_missing debug delkeys program=/opt/s timeout=5");
        assert_eq!(all.passphrase, Passphrase::Try);
        assert!(all.delkeys && all.ignore_missing && all.debug && all.unknown.is_empty());
        assert_eq!(all.program, PathBuf::from("/opt/s"));
        assert_eq!(all.timeout, Duration::from_secs(5));

        assert_eq!(parse("use_first_pass").passphrase, Passphrase::Use);
    }

    #[test]
    fn unknown_arguments_are_kept_for_the_log() {
        let words = ["delkey", "timeout=0", "timeout=never", "timeout=601", "a=b"];
        let options = Options::parse(words.into_iter());
        assert_eq!(options.unknown, words);
        assert_eq!(options.timeout, TIMEOUT);
    }
}
