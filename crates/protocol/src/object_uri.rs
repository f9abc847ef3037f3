//! Addresses of pools on object stores: a bucket and the beginning of the names of the objects, or a folder.
//!
//! An address has one spelling, and never a secret: the daemon finds credentials and endpoints in its own environment. So
//! an error shows no part of a text in which a secret may stand.

use std::fmt;
use std::path::PathBuf;

use crate::api::Failure;
use crate::nbd_uri::{decode, percent};

/// The largest length of the prefix, in bytes. Stores allow names of 1,024 bytes.
const PREFIX_MAX: usize = 512;
/// The largest length of a part of the prefix, which is the name of a file in a folder.
const PART_MAX: usize = 255;
/// The largest length of the path of a folder.
const FOLDER_MAX: usize = 3072;

/// The services that keep objects in buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketService {
    /// S3 of Amazon, and the many that speak as it does.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Blobs of Azure. A bucket is called a container there.
    Azure,
}

impl BucketService {
    /// The word before `://`.
    pub fn scheme(self) -> &'static str {
        match self {
            BucketService::S3 => "s3",
            BucketService::Google => "gs",
            BucketService::Azure => "az",
        }
    }

    /// The characters in names of buckets, besides small letters and digits.
    fn marks(self) -> &'static [char] {
        match self {
            BucketService::S3 => &['-', '.'],
            BucketService::Google => &['-', '.', '_'],
            BucketService::Azure => &['-'],
        }
    }
}

/// The address of a pool on an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectUri {
    /// The objects of a bucket whose names begin with a prefix and a slash; all objects if the prefix is empty.
    Bucket {
        /// The service.
        service: BucketService,
        /// The name of the bucket.
        bucket: String,
        /// The parts of the prefix, with slashes between them.
        prefix: String,
    },
    /// The files below a directory.
    Folder(PathBuf),
}

impl ObjectUri {
    /// The beginnings of addresses.
    pub(crate) const BEGINNINGS: [&str; 4] = ["s3://", "gs://", "az://", "file://"];

    /// Reads `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIRECTORY`.
    ///
    /// # Errors
    /// It is none; the message says what is wrong.
    pub fn parse(text: &str) -> Result<ObjectUri, Failure> {
        read(text).map_err(|reason| Failure::usage(format!("{}: {reason}", shown(text))))
    }
}

/// A text that should be an address, for messages. It is cut where a secret may stand.
pub(crate) fn shown(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?', '#']) => format!("{scheme}://..."),
        _ => text.into(),
    }
}

fn read(text: &str) -> Result<ObjectUri, String> {
    let (scheme, rest) = text.split_once("://").ok_or("this is no address")?;
    if rest.contains('@') {
        return Err(
            "an address has no credentials; the daemon reads them from its environment or profile"
                .into(),
        );
    }
    if rest.contains(['?', '#']) {
        return Err(
            "an address has no options; the daemon reads the endpoint and the region from its environment".into(),
        );
    }
    let service = match scheme {
        "s3" => BucketService::S3,
        "gs" => BucketService::Google,
        "az" => BucketService::Azure,
        "file" => return read_folder(rest),
        _ => return Err("the address of an object store begins with s3, gs, az or file".into()),
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    check_bucket(service, bucket)?;
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    check_prefix(prefix)?;
    Ok(ObjectUri::Bucket {
        service,
        bucket: bucket.into(),
        prefix: prefix.into(),
    })
}

fn check_bucket(service: BucketService, bucket: &str) -> Result<(), String> {
    if bucket.is_empty() {
        let scheme = service.scheme();
        return Err(format!(
            "the bucket is missing, as in {scheme}://bucket/tank"
        ));
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_allowed = |c: char| is_plain(c) || service.marks().contains(&c);
    let has_ends = bucket.starts_with(is_plain) && bucket.ends_with(is_plain);
    let is_right = (3..=63).contains(&bucket.len()) && bucket.chars().all(is_allowed);
    match is_right && has_ends && !bucket.contains("..") {
        true => Ok(()),
        false => {
            let marks: Vec<String> = service.marks().iter().map(char::to_string).collect();
            Err(format!(
                "the name of a bucket has 3 to 63 small letters, digits and '{}', and a letter or digit at both ends",
                marks.join("', '")
            ))
        }
    }
}

fn check_prefix(prefix: &str) -> Result<(), String> {
    if prefix.is_empty() {
        return Ok(());
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.=+/".contains(c);
    if !prefix.chars().all(is_allowed) {
        return Err(
            "the part after the bucket has letters without accents, digits, and the characters - _ . = + only"
                .into(),
        );
    }
    if prefix.len() > PREFIX_MAX {
        return Err(format!(
            "the part after the bucket has at most {PREFIX_MAX} characters"
        ));
    }
    check_parts(prefix)
}

/// Checks that a path or prefix has one spelling.
fn check_parts(path: &str) -> Result<(), String> {
    for part in path.split('/') {
        match part {
            "" => return Err("two slashes follow each other; write one".into()),
            "." | ".." => {
                return Err(format!(
                    "'{part}' cannot be a part of an address; write the whole path"
                ));
            }
            long if long.len() > PART_MAX => {
                return Err(format!(
                    "a part between slashes has at most {PART_MAX} bytes"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_folder(rest: &str) -> Result<ObjectUri, String> {
    if !rest.starts_with('/') {
        return Err(
            "a folder is named by its path from the root; write three slashes, as in file:///srv/tank".into(),
        );
    }
    let path = decode(rest)?;
    let trimmed = path.strip_suffix('/').unwrap_or(&path);
    if trimmed.is_empty() {
        return Err(
            "the root directory cannot hold a pool; name a folder, as in file:///srv/tank".into(),
        );
    }
    check_parts(trimmed.trim_start_matches('/'))?;
    if trimmed.starts_with("//") {
        return Err("two slashes follow each other; write one".into());
    }
    match trimmed.len() > FOLDER_MAX {
        true => Err(format!(
            "the path of a folder has at most {FOLDER_MAX} bytes"
        )),
        false => Ok(ObjectUri::Folder(trimmed.into())),
    }
}

/// The address as it is shown and remembered.
impl fmt::Display for ObjectUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectUri::Bucket {
                service,
                bucket,
                prefix,
            } => {
                write!(f, "{}://{bucket}", service.scheme())?;
                match prefix.is_empty() {
                    true => Ok(()),
                    false => write!(f, "/{prefix}"),
                }
            }
            ObjectUri::Folder(path) => {
                write!(f, "file://{}", percent(path.as_os_str().as_encoded_bytes()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        for (text, spelling) in [
            ("s3://bucket/tank", "s3://bucket/tank"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://my.bucket-1/A_b=c+d", "s3://my.bucket-1/A_b=c+d"),
            ("gs://my_bucket/tank", "gs://my_bucket/tank"),
            ("az://container/tank", "az://container/tank"),
            ("file:///srv/tank/", "file:///srv/tank"),
            ("file:///srv/a b%C3%A4", "file:///srv/a%20b%C3%A4"),
            ("file:///srv/a%2520", "file:///srv/a%2520"),
        ] {
            let uri = ObjectUri::parse(text).unwrap();
            assert_eq!(uri.to_string(), spelling);
            assert_eq!(ObjectUri::parse(spelling).unwrap(), uri);
        }
        let folder = ObjectUri::parse("file:///srv/a%20b").unwrap();
        assert_eq!(folder, ObjectUri::Folder("/srv/a b".into()));
    }

    #[test]
    fn each_folder_has_an_address_that_names_it() {
        let letters = [
            'a',
            '%',
            ' ',
            '?',
            '#',
            '@',
            '2',
            '5',
            ':',
            '"',
            '\\',
            '+',
            'ä',
            '\u{1f511}',
            '\n',
            '.',
        ];
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let mut path = String::new();
            for _ in 0..3 {
                path.push_str("/x");
                for _ in 0..seed % 6 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    path.push(letters[(seed >> 33) as usize % letters.len()]);
                }
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 1;
            }
            let folder = ObjectUri::Folder(path.into());
            let text = folder.to_string();
            assert_eq!(ObjectUri::parse(&text).unwrap(), folder, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let long_part = format!("s3://bucket/{}", "x".repeat(256));
        let long = format!("s3://bucket/{}", ["x"; 257].join("/"));
        let long_path = format!("file:///{}", ["x"; 1600].join("/"));
        for (text, reason) in [
            ("s3:/bucket", "no address"),
            ("ftp://bucket/x", "begins with s3, gs, az or file"),
            ("s3://", "bucket is missing"),
            ("s3:///tank", "bucket is missing"),
            ("gs:///tank", "gs://bucket/tank"),
            ("s3://Bucket/tank", "small letters"),
            ("s3://my_bucket/tank", "small letters"),
            ("az://my.container/tank", "'-'"),
            ("s3://ab/tank", "3 to 63"),
            ("s3://-bucket/tank", "both ends"),
            ("s3://bucket./tank", "both ends"),
            ("s3://a..b/tank", "small letters"),
            ("s3://bucket:9000/tank", "small letters"),
            ("s3://bucket//tank", "two slashes"),
            ("s3://bucket/a//b", "two slashes"),
            ("s3://bucket/a/../b", "'..' cannot be a part"),
            ("s3://bucket/./b", "'.' cannot be a part"),
            ("s3://bucket/a b", "letters without accents"),
            ("s3://bucket/a%20b", "letters without accents"),
            ("s3://bucket/ä", "letters without accents"),
            ("s3://bucket/a\0b", "letters without accents"),
            ("file://srv/tank", "three slashes"),
            ("file://", "three slashes"),
            ("file:///", "root directory"),
            ("file:////srv", "two slashes"),
            ("file:///srv/../x", "'..' cannot be a part"),
            ("file:///srv/%2e%2e/x", "'..' cannot be a part"),
            ("file:///srv//x", "two slashes"),
            ("file:///srv/%", "escape"),
            ("file:///srv/%00", "escape"),
            (&long_part, "at most 255"),
            (&long, "at most 512"),
            (&long_path, "at most 3072"),
        ] {
            let refusal = ObjectUri::parse(text).unwrap_err().message;
            assert!(refusal.starts_with(&format!("{text}: ")), "{refusal}");
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_secret_in_an_address_is_not_shown() {
        for text in [
            "s3://key:hidden@bucket/tank",
            "s3://bucket/tank?secret=hidden",
            "s3://bucket/tank#hidden",
            "file:///srv?hidden",
            "az://hidden@container.blob/x",
        ] {
            let refusal = ObjectUri::parse(text).unwrap_err().message;
            assert!(!refusal.contains("hidden"), "{refusal}");
            let credentials = refusal.contains("credentials");
            assert!(credentials || refusal.contains("no options"), "{refusal}");
        }
    }
}
