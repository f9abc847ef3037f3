//! Directories that are encrypted file by file. All of it happens in this process.

mod lower;
mod mount;

use cipher::SystemRandom;
use daemon::Failure;
use serde::Serialize;
use stack::formats::fscrypt::{Fscrypt, KeyName, Mode, Policy, Space};

use crate::cmd::stack::args::{Stack, StackCipher, StackInit, StackSpace, StackStatus};
use crate::outcome::{LocalResult as Result, Outcome};
use crate::show::json;

pub(crate) fn run(args: Stack, as_json: bool) -> Result {
    match args {
        Stack::Init(args) => init(&args),
        Stack::Mount(args) => mount::run(&args),
        Stack::Status(args) => status(&args, as_json),
    }
}

fn init(args: &StackInit) -> Result {
    let dir = lower::open(&args.dir)?;
    let master = lower::master_key(&args.key.key_file)?;
    let identifier = match master.identifier() {
        Ok(KeyName::Identifier(identifier)) => identifier,
        _ => {
            return Err(Failure::other(
                "the identifier of the key cannot be derived",
            ));
        }
    };
    let (contents, names) = match args.cipher {
        StackCipher::Aes256 => (Mode::Aes256Xts, Mode::Aes256Cts),
        StackCipher::Aes256Hctr2 => (Mode::Aes256Xts, Mode::Aes256Hctr2),
        StackCipher::Aes128 => (Mode::Aes128Cbc, Mode::Aes128Cts),
        StackCipher::Adiantum => (Mode::Adiantum, Mode::Adiantum),
    };
    let policy = Policy {
        contents,
        names,
        padding: args.padding,
        ..Policy::new(identifier)
    };
    if !policy.is_valid() {
        return Err(Failure::usage("names are padded to 4, 8, 16 or 32 bytes"));
    }
    let space = match args.attributes {
        Some(StackSpace::Trusted) => Space::Trusted,
        Some(StackSpace::User) => Space::User,
        None if rustix::process::geteuid().is_root() => Space::Trusted,
        None => Space::User,
    };
    Fscrypt::set_policy(&dir, space, &policy, &SystemRandom)
        .map_err(|error| lower::failure(&args.dir, error))?;
    Ok(Outcome::done())
}

/// What `stack status` shows.
#[derive(Serialize)]
struct Status {
    format: &'static str,
    version: u8,
    contents: &'static str,
    names: &'static str,
    padding: usize,
    key: String,
    attributes: &'static str,
}

fn status(args: &StackStatus, as_json: bool) -> Result {
    let dir = lower::open(&args.dir)?;
    let (space, policy) = lower::policy(&args.dir, &dir)?;
    let (version, key) = match policy.key {
        KeyName::Descriptor(descriptor) => (1, hex(&descriptor)),
        KeyName::Identifier(identifier) => (2, hex(&identifier)),
    };
    let status = Status {
        format: "fscrypt",
        version,
        contents: mode(policy.contents),
        names: mode(policy.names),
        padding: policy.padding,
        key,
        attributes: match space {
            Space::Trusted => "trusted",
            Space::User => "user",
        },
    };
    if as_json {
        return Ok(Outcome::text(json::show(&status)));
    }
    Ok(Outcome::text(format!(
        "format:      {}, policy version {version}\n\
         contents:    {}, not authenticated\n\
         names:       {}, padded to {} bytes\n\
         key:         {}\n\
         attributes:  {}\n",
        status.format, status.contents, status.names, status.padding, status.key, status.attributes
    )))
}

/// The name of a mode as the tool `fscrypt` has it.
fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Aes256Xts => "AES_256_XTS",
        Mode::Aes256Cts => "AES_256_CTS",
        Mode::Aes128Cbc => "AES_128_CBC",
        Mode::Aes128Cts => "AES_128_CTS",
        Mode::Adiantum => "Adiantum",
        Mode::Aes256Hctr2 => "AES_256_HCTR2",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
