//! The operands of `pktool genkey` of Solaris, as those of `keygen`.

use std::path::{Path, PathBuf};

use console::session::usage;
use protocol::api::Failure;

use crate::cmd::key::args::{KeyBits, Keygen};

/// The object to make.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewKey {
    /// A file, or a `pkcs11:` URI.
    pub(super) place: PathBuf,
    pub(super) bits: KeyBits,
}

/// The names of operands of `pktool genkey`.
const NAMES: [&str; 8] = [
    "keystore", "keytype", "keylen", "outkey", "label", "token", "print", "dir",
];

/// Reads the operands of `keygen`: one place, or `[genkey] NAME=VALUE...`.
pub(super) fn new_key(args: &Keygen) -> Result<NewKey, Failure> {
    let places: Vec<&Path> = args.places.iter().map(PathBuf::as_path).collect();
    let operands = match &places[..] {
        [first, rest @ ..] if *first == Path::new("genkey") && !rest.is_empty() => rest,
        all => all,
    };
    let pairs: Option<Vec<(&str, &str)>> = operands.iter().map(|text| pair(text)).collect();
    match (pairs, &places[..]) {
        (Some(pairs), _) => spelled(&pairs, args.keylen),
        (None, [place]) => Ok(NewKey {
            place: place.to_path_buf(),
            bits: args.keylen.unwrap_or(KeyBits::Long),
        }),
        (None, _) => Err(usage(
            "name one file or one pkcs11: URI, or the operands of pktool genkey: keystore=file outkey=FILE \
             [keytype=aes] [keylen=128|192|256]",
        )),
    }
}

/// An operand of `pktool genkey`. A file whose name looks like one is named with `./` before it.
fn pair(text: &Path) -> Option<(&str, &str)> {
    let (name, value) = text.to_str()?.split_once('=')?;
    NAMES.contains(&name).then_some((name, value))
}

fn spelled(pairs: &[(&str, &str)], keylen: Option<KeyBits>) -> Result<NewKey, Failure> {
    for (at, (name, _)) in pairs.iter().enumerate() {
        if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(usage(format!("{name}= is given twice")));
        }
    }
    let value = |wanted: &str| {
        pairs
            .iter()
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| *value)
    };
    if let Some(kind) = value("keytype").filter(|kind| !["aes", "generic"].contains(kind)) {
        return Err(usage(format!(
            "keytype={kind}: keys of datasets are AES keys; use keytype=aes"
        )));
    }
    if value("print").is_some_and(|print| print != "n") || value("dir").is_some() {
        return Err(usage(
            "keys are not printed, and outkey= has the whole path; leave out print= and dir=",
        ));
    }
    let bits = match (value("keylen"), keylen) {
        (Some(_), Some(_)) => return Err(usage("use keylen= or --keylen, and not both")),
        (None, given) => given.unwrap_or(KeyBits::Long),
        (Some("128"), None) => KeyBits::Short,
        (Some("192"), None) => KeyBits::Middle,
        (Some("256"), None) => KeyBits::Long,
        (Some(other), None) => {
            return Err(usage(format!("keylen={other}: use 128, 192 or 256")));
        }
    };
    match (value("keystore"), value("outkey"), value("label")) {
        (Some("file"), Some(file), None) => Ok(NewKey {
            place: file.into(),
            bits,
        }),
        (Some("file"), ..) => Err(usage("keystore=file needs outkey=FILE, and no label=")),
        (Some("pkcs11"), None, Some(label)) => {
            let token = value("token").map_or(String::new(), |token| format!("token={token};"));
            Err(usage(format!(
                "keystore=pkcs11: a token is named with the library that has it; use 'strongroom keygen --keylen {} \
                 pkcs11:{token}object={label}?module-path=/PATH/OF/LIBRARY.so'",
                bits as u16
            )))
        }
        (Some("pkcs11"), ..) => Err(usage("keystore=pkcs11 needs label=NAME, and no outkey=")),
        (Some(other), ..) => Err(usage(format!(
            "keystore={other}: keys are in files or PKCS#11 tokens; use keystore=file outkey=FILE"
        ))),
        (None, ..) => Err(usage("say where the key goes: keystore=file outkey=FILE")),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    fn read(line: &str) -> Result<NewKey, Failure> {
        let command = <crate::cmd::cli::Cli as CommandFactory>::command();
        let words = ["strongroom", "keygen"].into_iter().chain(line.split(' '));
        let matches = command.get_matches_from(words);
        let (_, matches) = matches.subcommand().expect("a command");
        new_key(&Keygen::from_arg_matches(matches).expect("its arguments"))
    }

    #[test]
    fn operands_of_pktool_name_a_file() {
        for (line, place, bits) in [
            ("/k", "/k", KeyBits::Long),
            ("--keylen 128 /k", "/k", KeyBits::Short),
            ("genkey", "genkey", KeyBits::Long),
            ("./outkey=x", "./outkey=x", KeyBits::Long),
            (
                "genkey keystore=file keytype=aes keylen=128 outkey=/media/stick/mykey",
                "/media/stick/mykey",
                KeyBits::Short,
            ),
            ("outkey=a=b keystore=file", "a=b", KeyBits::Long),
        ] {
            let made = read(line).expect(line);
            assert_eq!(
                (made.place.as_path(), made.bits),
                (Path::new(place), bits),
                "{line}"
            );
        }
    }

    #[test]
    fn other_operands_are_refused_with_the_way_out() {
        for (line, why) in [
            ("/a /b", "name one file"),
            ("genkey /b", "name one file"),
            ("keystore=file", "needs outkey=FILE"),
            ("keytype=aes outkey=/k", "say where the key goes"),
            ("keystore=nss outkey=/k", "keystore=nss: keys are in files"),
            ("keystore=file outkey=/k keytype=3des", "keytype=3des"),
            ("keystore=file outkey=/k keylen=512", "keylen=512"),
            (
                "--keylen 128 keystore=file outkey=/k keylen=256",
                "and not both",
            ),
            (
                "keystore=file outkey=/k outkey=/l",
                "outkey= is given twice",
            ),
            ("keystore=file outkey=/k print=y", "keys are not printed"),
            (
                "genkey keystore=pkcs11 label=vol keylen=256 keytype=aes",
                "strongroom keygen --keylen 256 pkcs11:object=vol?module-path=",
            ),
        ] {
            let refused = read(line).expect_err(line);
            assert!(refused.message.contains(why), "{line}: {}", refused.message);
        }
    }
}
