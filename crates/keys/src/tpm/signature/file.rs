//! Files of signatures of PCRs, as `systemd-measure sign` writes them (systemd-measure(1)):
//!
//! ```json
//! {"sha256":[{"pcrs":[11],"pkfp":"64dd...","pol":"4ff7...","sig":"XVIq..."}]}
//! ```
//!
//! - the bank of the PCRs, with its signatures; `pcrs` are the registers;
//! - `pkfp` is the fingerprint of the key: SHA-256 of its `RSAPublicKey` in DER, in hexadecimal digits;
//! - `pol` is the digest of a policy of these PCRs with the values that are approved (TPM 2.0 Library, part 3, 23.7);
//! - `sig` is the signature of this digest (RSASSA-PKCS1-v1_5 with SHA-256), in base64.
//!
//! Nobody has to trust such a file, because the TPM checks the signatures. But it may be damaged, or made to harm.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::source::Pcrs;
use crate::system::file::read_regular;
use crate::{Error, Result};

/// The name of the file, and the folders where systemd looks for it, in this order (crypttab(5), `tpm2-signature=`).
const NAME: &str = "tpm2-pcr-signature.json";
const DIRECTORIES: [&str; 3] = ["/etc/systemd", "/run/systemd", "/usr/lib/systemd"];
/// A signature takes less than a KiB.
const LEN_MAX: u64 = 1 << 20;

/// The signature by which the holder of a key approves values of PCRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) pcrs: Pcrs,
    /// The fingerprint of the key.
    pub(crate) key: [u8; 32],
    /// The digest of the policy that is approved.
    pub(crate) policy: [u8; 32],
    pub(crate) bytes: Vec<u8>,
}

/// Reads the signatures for a bank out of the file of this name, or the one that the system has.
pub(crate) fn read(named: Option<&Path>, bank: &str) -> Result<(PathBuf, Vec<Signature>)> {
    let (path, bytes) = match named {
        Some(path) => (path.to_owned(), read_named(path)?),
        None => find(&DIRECTORIES)?,
    };
    let signatures = serde_json::from_slice(&bytes)
        .map_err(|error| format!("it is not JSON: {error}"))
        .and_then(|json| decode(&json, bank));
    match signatures {
        Ok(signatures) => Ok((path, signatures)),
        Err(reason) => Err(Error::SignatureFile { path, reason }),
    }
}

fn read_named(path: &Path) -> Result<Vec<u8>> {
    read_regular(path, LEN_MAX).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Tpm(format!(
            "the signature file {} does not exist",
            path.display()
        )),
        _ => unreadable(path, &error),
    })
}

/// The first file of the usual name.
fn find(directories: &[&str]) -> Result<(PathBuf, Vec<u8>)> {
    for directory in directories {
        let path = Path::new(directory).join(NAME);
        match read_regular(&path, LEN_MAX) {
            Ok(bytes) => return Ok((path, bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Err(Error::Tpm(format!(
        "the token needs a signature of the PCRs, and there is no {NAME} in {}; name the file that \
         'systemd-measure sign' wrote with --tpm2-signature, or use a passphrase",
        directories.join(", ")
    )))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::Tpm(format!(
        "the signature file {} cannot be read: {error}",
        path.display()
    ))
}

/// The signatures for a bank, or why this is no file of signatures.
fn decode(json: &Value, bank: &str) -> std::result::Result<Vec<Signature>, String> {
    let banks = json.as_object().ok_or("it is not a JSON object")?;
    let Some(entries) = banks.get(bank) else {
        return Ok(Vec::new());
    };
    let entries = entries.as_array();
    let entries = entries.ok_or_else(|| format!("'{bank}' is not a list"))?;
    let mut signatures = Vec::new();
    for (number, entry) in (1..).zip(entries) {
        let decoded = signature(entry, bank);
        let decoded = decoded.map_err(|what| format!("entry {number} of '{bank}' {what}"))?;
        signatures.extend(decoded);
    }
    Ok(signatures)
}

/// `None` for an entry that is not signed, or of a later version.
fn signature(entry: &Value, bank: &str) -> std::result::Result<Option<Signature>, &'static str> {
    let entry = entry.as_object().ok_or("is not an object")?;
    let field = |name: &str| entry.get(name);
    let (Some(pcrs), Some(key), Some(policy), Some(bytes)) =
        (field("pcrs"), field("pkfp"), field("pol"), field("sig"))
    else {
        return Ok(None);
    };
    let numbers = pcrs.as_array().filter(|numbers| !numbers.is_empty());
    let numbers = numbers.ok_or("has no list of PCRs in 'pcrs'")?;
    let pcrs = Pcrs::new(bank, numbers.iter().map(Value::as_u64));
    let bytes = bytes
        .as_str()
        .and_then(|text| STANDARD.decode(text).ok())
        .ok_or("has no base64 in 'sig'")?;
    Ok(Some(Signature {
        pcrs: pcrs.map_err(|_| "names PCRs that no TPM has")?,
        key: digest(key).ok_or("has no 64 hexadecimal digits in 'pkfp'")?,
        policy: digest(policy).ok_or("has no 64 hexadecimal digits in 'pol'")?,
        bytes,
    }))
}

/// A SHA-256 in hexadecimal digits.
fn digest(text: &Value) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_str()?.as_bytes().as_chunks::<2>();
    let value = |digit: u8| char::from(digit).to_digit(16);
    let bytes = pairs
        .iter()
        .map(|[high, low]| u8::try_from(value(*high)? << 4 | value(*low)?).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    bytes.try_into().ok().filter(|_| rest.is_empty())
}

/// Reads what may be a file of signatures.
#[cfg(fuzzing)]
pub(crate) fn look(json: &Value) {
    for bank in ["sha1", "sha256", "sha384", "sha512"] {
        let _ = decode(json, bank);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Value {
        let digits = "0a".repeat(32);
        json!({"pcrs": [11], "pkfp": digits, "pol": digits.to_uppercase(), "sig": "AAEC"})
    }

    #[test]
    fn a_signature_has_all_its_fields() {
        let signatures = decode(&json!({"sha256": [entry()]}), "sha256").unwrap();
        let expected = Signature {
            pcrs: Pcrs::of_bits(0x000b, 1 << 11).unwrap(),
            key: [10; 32],
            policy: [10; 32],
            bytes: vec![0, 1, 2],
        };
        assert_eq!(signatures, [expected]);
        // Another bank, and an entry that is not signed.
        for (file, bank) in [
            (json!({"sha256": [entry()]}), "sha1"),
            (json!({"sha256": [{"pcrs": [11]}]}), "sha256"),
            (json!({"sha256": []}), "sha256"),
            (json!({}), "sha256"),
        ] {
            assert_eq!(decode(&file, bank), Ok(Vec::new()), "{file}");
        }
    }

    #[test]
    fn what_is_no_file_of_signatures_is_refused() {
        let refused = |file: Value| decode(&file, "sha256").expect_err(&file.to_string());
        for file in [json!(null), json!([]), json!("sha256"), json!(7)] {
            assert!(refused(file).contains("not a JSON object"));
        }
        assert!(refused(json!({"sha256": {"pcrs": [11]}})).contains("not a list"));
        let said = refused(json!({"sha256": [entry(), 7]}));
        assert!(said.contains("entry 2 of 'sha256'"), "{said}");
        let (short, odd) = ("0a".repeat(31), "0a".repeat(32) + "0");
        for (name, value, part) in [
            ("pcrs", json!([]), "pcrs"),
            ("pcrs", json!("11"), "pcrs"),
            ("pcrs", json!([24]), "no TPM has"),
            ("pcrs", json!([-1]), "no TPM has"),
            ("pcrs", json!([11.5]), "no TPM has"),
            ("pkfp", json!(short), "pkfp"),
            ("pkfp", json!("x".repeat(64)), "pkfp"),
            ("pol", json!(odd), "pol"),
            ("pol", json!("é".repeat(32)), "pol"),
            ("pol", json!(null), "pol"),
            ("sig", json!("%"), "sig"),
            ("sig", json!([0]), "sig"),
        ] {
            let mut entry = entry();
            entry
                .as_object_mut()
                .unwrap()
                .insert(name.into(), value.clone());
            let said = refused(json!({"sha256": [entry]}));
            assert!(said.contains(part), "{name} {value}: {said}");
        }
    }

    #[test]
    fn the_first_directory_that_has_a_file_counts() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (first, second) = (place("a"), place("b"));
        let directories = [&*first, "/nonexistent", &*second];
        let said = find(&directories).unwrap_err().to_string();
        assert!(said.contains(NAME) && said.contains(&second), "{said}");
        std::fs::write(Path::new(&second).join(NAME), "2").unwrap();
        assert_eq!(find(&directories).unwrap().1, b"2");
        std::fs::write(Path::new(&first).join(NAME), "1").unwrap();
        assert_eq!(find(&directories).unwrap().1, b"1");
        // What is there and is no such file is not passed over.
        std::fs::remove_file(Path::new(&first).join(NAME)).unwrap();
        std::fs::create_dir(Path::new(&first).join(NAME)).unwrap();
        let said = find(&directories).unwrap_err().to_string();
        assert!(said.contains("a directory"), "{said}");
    }

    #[test]
    fn a_file_of_signatures_is_regular_and_short() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("signatures");
        let said = || read(Some(&path), "sha256").unwrap_err().to_string();
        assert!(said().contains("does not exist"));
        std::fs::write(&path, vec![b' '; LEN_MAX as usize + 1]).unwrap();
        assert!(said().contains("longer than"));
        std::fs::write(&path, "{\"sha256\":[").unwrap();
        assert!(said().contains("not JSON"));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(
            read(Some(&path), "sha256").unwrap(),
            (path.clone(), Vec::new())
        );
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        assert!(said().contains("a FIFO"));
    }
}
