//! Directories that are encrypted file by file. All of it happens in this process.

mod background;
mod control;
mod covered_directory;
mod fscrypt;
mod gocryptfs;
mod lower;
mod mount;
mod mounts;
mod pefs;

use std::path::Path;

use cipher::SystemRandom;
use console::outcome::{Outcome, Result};
use console::show::json;
use protocol::api::{Failure, FailureKind};
use serde::Serialize;
use stack::formats::fscrypt::{
    EncryptionMode, EncryptionPolicy, FscryptFormat, FscryptMasterKey, KeyName, XattrNamespace,
};
use stack::formats::gocryptfs::{Config, ContentCipher};

use crate::stack::args::{Stack, StackCipher, StackFormat, StackInit, StackSpace, StackStatus};
pub(crate) use background::start;
pub(crate) use control::{ControlAnswer, KeyLine, MasterState, Request, StackedMount, is_credible};
pub(crate) use covered_directory::CoveredDirectory;
pub(crate) use fscrypt::metadata_failure;
pub(crate) use lower::open as open_directory;
pub use mount::{more_files, show_gocryptfs};
pub(crate) use mounts::{SUBTYPE, list, unmount};

/// Carries out the command.
pub fn run(args: Stack, as_json: bool) -> Result {
    match args {
        Stack::Init(args) => {
            match args.format {
                StackFormat::Fscrypt => init(&args)?,
                StackFormat::Gocryptfs
                    if args.by_directory || args.policy_version == 1 || args.clear_names =>
                {
                    let message = "--by-directory, --policy-version and --clear-names are for the format fscrypt";
                    return Err(Failure::usage(message));
                }
                StackFormat::Gocryptfs => gocryptfs::init(&args)?,
            }
            Ok(Outcome::done())
        }
        Stack::Passwd(args) => {
            gocryptfs::change_passphrase(&args)?;
            Ok(Outcome::done())
        }
        Stack::Mount(args) if mount::is_remount(&args) => mount::remount(&args),
        Stack::Mount(args) if args.foreground || args.detached => mount::run(&args),
        Stack::Mount(args) => background::start(&args),
        Stack::Unmount(args) => {
            mounts::unmount(&args.mountpoint, args.force)?;
            Ok(Outcome::done())
        }
        Stack::List(args) => Ok(mounts::list(&args, as_json)),
        Stack::Status(args) => status(&args, as_json),
    }
}

fn init(args: &StackInit) -> Result<()> {
    if args.reverse {
        return Err(Failure::usage("--reverse is for --format gocryptfs"));
    }
    let dir = lower::open(&args.dir)?;
    let (contents, names) = match args.cipher {
        StackCipher::Aes256 => (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts),
        StackCipher::Aes256Hctr2 => (EncryptionMode::Aes256Xts, EncryptionMode::Aes256Hctr2),
        StackCipher::Aes128 => (EncryptionMode::Aes128Cbc, EncryptionMode::Aes128Cts),
        StackCipher::Adiantum => (EncryptionMode::Adiantum, EncryptionMode::Adiantum),
        StackCipher::Xchacha20 => {
            return Err(Failure::usage("xchacha20 is a cipher of gocryptfs"));
        }
    };
    let policy = EncryptionPolicy {
        contents,
        names: if args.clear_names {
            EncryptionMode::Null
        } else {
            names
        },
        padding: args.padding.unwrap_or(32),
        key: match args.policy_version {
            1 => KeyName::Descriptor([0; 8]),
            _ => KeyName::Identifier([0; 16]),
        },
        ..EncryptionPolicy::new([0; 16])
    };
    if args.policy_version == 1 && names == EncryptionMode::Aes256Hctr2 {
        return Err(Failure::usage(
            "policies of version 1 have no aes-256-hctr2",
        ));
    }
    if !policy.is_valid() {
        return Err(Failure::usage("names are padded to 4, 8, 16 or 32 bytes"));
    }
    if args.by_directory {
        return fscrypt::init_for_directories(&args.dir, &dir);
    }
    let space = match args.attributes {
        Some(StackSpace::Trusted) => XattrNamespace::Trusted,
        Some(StackSpace::User) => XattrNamespace::User,
        None => fscrypt::usual_space(),
    };
    let Some(key_file) = lower::one_key_file(&args.key)? else {
        return fscrypt::init(&args.dir, &dir, space, &policy, &args.key);
    };
    let master =
        FscryptMasterKey::new(lower::master_key(key_file)?).expect("a length that a key can have");
    if !master.suits(policy.contents) {
        return Err(Failure::new(
            FailureKind::NoKey,
            format!(
                "the key file {} is too short for this cipher: a key has 32 to 64 bytes, or 16 with --cipher aes-128",
                key_file.display()
            ),
        ));
    }
    // It is of 64 bytes then: keys of files are made of its bytes.
    if args.policy_version == 1 && !master.is_whole() {
        return Err(Failure::usage(
            "a key for policies of version 1 has 64 bytes",
        ));
    }
    let key = match args.policy_version {
        1 => Ok(master.descriptor()),
        _ => master.identifier(),
    };
    let key = key.map_err(|error| Failure::other(error.to_string()))?;
    let policy = EncryptionPolicy { key, ..policy };
    FscryptFormat::set_policy(&dir, space, &policy, &SystemRandom)
        .map_err(|error| lower::failure(&args.dir, error))
}

/// The format of a directory that is encrypted file by file.
pub enum EncryptionFormat {
    /// The format of gocryptfs.
    Gocryptfs,
    /// Another format, by name.
    Other(&'static str),
}

/// Returns whether the files of a directory are encrypted.
pub fn encrypted(dir: &Path) -> Result<Option<EncryptionFormat>> {
    let lower = lower::open(dir)?;
    Ok(if gocryptfs::config(dir, &lower)?.is_some() {
        Some(EncryptionFormat::Gocryptfs)
    } else if pefs::keys(dir, &lower)?.is_some() {
        Some(EncryptionFormat::Other("pefs"))
    } else if fscrypt::has_metadata(&lower) || matches!(XattrNamespace::of(&lower), Ok(Some(_))) {
        // With metadata and without a policy, its directories may have policies of their own.
        Some(EncryptionFormat::Other("fscrypt"))
    } else {
        None
    })
}

/// The output of `stack status`.
#[derive(Serialize)]
struct StackStatusReport {
    format: &'static str,
    contents: &'static str,
    authenticated: bool,
    names: &'static str,
    #[serde(flatten)]
    policy: Option<PolicyStatus>,
}

/// The fields that only fscrypt has.
#[derive(Serialize)]
struct PolicyStatus {
    version: u8,
    padding: usize,
    key: String,
    attributes: &'static str,
}

fn status(args: &StackStatus, as_json: bool) -> Result {
    let dir = lower::open(&args.dir)?;
    let status = if let Some(config) = gocryptfs::config(&args.dir, &dir)? {
        status_of_config(&config, "gocryptfs")
    } else if let Some(config) = gocryptfs::reverse_config(&args.dir, &dir)? {
        status_of_config(&config, "gocryptfs, shown by --reverse")
    } else if pefs::keys(&args.dir, &dir)?.is_some() {
        status_of_pefs()
    } else if fscrypt::has_metadata(&dir) && matches!(XattrNamespace::of(&dir), Ok(None)) {
        status_of_directories()
    } else {
        let (space, policy) = lower::policy(&args.dir, &dir)?;
        status_of_policy(space, &policy)
    };
    if as_json {
        return Ok(Outcome::text(json::show(&status)));
    }
    let authenticated = match status.authenticated {
        true => "authenticated",
        false => "not authenticated",
    };
    let (format, contents, names) = (status.format, status.contents, status.names);
    Ok(Outcome::text(match status.policy {
        None => format!(
            "format:      {format}\ncontents:    {contents}, {authenticated}\nnames:       {names}\n"
        ),
        Some(policy) => format!(
            "format:      {format}, policy version {}\n\
             contents:    {contents}, {authenticated}\n\
             names:       {names}, padded to {} bytes\n\
             key:         {}\n\
             attributes:  {}\n",
            policy.version, policy.padding, policy.key, policy.attributes
        ),
    }))
}

fn status_of_config(config: &Config, format: &'static str) -> StackStatusReport {
    let features = config.features();
    StackStatusReport {
        format,
        contents: match features.content {
            ContentCipher::AesGcm => "AES-256-GCM",
            ContentCipher::AesSiv => "AES-256-SIV",
            ContentCipher::XChaCha20Poly1305 => "XChaCha20-Poly1305",
        },
        authenticated: true,
        names: match features.names {
            Some(_) => "AES-256-EME",
            None => "in clear",
        },
        policy: None,
    }
}

fn status_of_pefs() -> StackStatusReport {
    StackStatusReport {
        format: "pefs",
        contents: "AES-XTS or Camellia-XTS, as each key says",
        authenticated: false,
        names: "AES-128-CBC",
        policy: None,
    }
}

fn status_of_directories() -> StackStatusReport {
    let ciphers = "as the policy of each directory says";
    StackStatusReport {
        format: "fscrypt",
        contents: ciphers,
        authenticated: false,
        names: ciphers,
        policy: None,
    }
}

fn status_of_policy(space: XattrNamespace, policy: &EncryptionPolicy) -> StackStatusReport {
    let (version, key) = match policy.key {
        KeyName::Descriptor(descriptor) => (1, encoding::hex(&descriptor)),
        KeyName::Identifier(identifier) => (2, encoding::hex(&identifier)),
    };
    StackStatusReport {
        format: "fscrypt",
        contents: policy.contents.name(),
        authenticated: false,
        names: policy.names.name(),
        policy: Some(PolicyStatus {
            version,
            padding: policy.padding,
            key,
            attributes: match space {
                XattrNamespace::Trusted => "trusted",
                XattrNamespace::User => "user",
            },
        }),
    }
}
