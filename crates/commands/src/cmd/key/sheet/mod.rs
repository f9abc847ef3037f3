//! Recovery sheets: a page with a new key of datasets, to print and to keep away from the disks.
//!
//! The page is made in locked memory. It is written before the key opens anything, so no slot is without a sheet.

mod page;
mod pdf;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use console::outcome::{Outcome, Result};
use console::session::{Session, answer, other, usage};
use console::show::json;
use protocol::api::{Failure, FailureKind, KeyRow, command};
use secret::Secret;
use serde::Serialize;

use page::{SheetFacts, SheetPage};

/// Print a recovery sheet: a page with a new key of a dataset or a pool
///
/// Makes a recovery key of 48 digits, and adds it to the dataset as a slot of its own. It opens the dataset like its
/// passphrase, also if the passphrase is forgotten, or the key file or token is lost. The page says how to get the data
/// back with nothing but the disks and the page, and has the digits as a QR code too.
///
/// Print the page and delete the file: anyone with the page and the disks can read the data. `key recover` tests a page.
/// `key remove` makes it void.
///
/// With -r the same key opens all datasets below with a key of their own. Their keys must be loaded.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A page for a whole pool, as PDF:
    strongroom key sheet -r tank sheet.pdf

  A page of text, straight to the printer:
    strongroom key sheet tank/home - | lp

  Test a page: type its digits:
    strongroom key recover tank/home

JSON
  [{\"key_root\", \"slot\"}, ...]

EXIT CODES
  1 if the dataset inherits its key, or all 32 slots are in use; 3 if there is no such dataset, or
  none of them is encrypted; 4 if the file exists; 6 if you may not write it; 8 if a key is not
  loaded.")]
pub(crate) struct KeySheetArgs {
    /// Also for the datasets below that have a key of their own
    #[arg(short)]
    recursive: bool,
    /// The dataset, or with -r the pool
    #[arg(value_name = "DATASET")]
    name: String,
    /// The file to create: PDF if the name ends in .pdf, otherwise text; `-` is the standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A slot that a recovery key opens.
#[derive(Serialize)]
struct SheetSlot {
    key_root: String,
    slot: u32,
}

pub(crate) fn run(args: &KeySheetArgs, session: &mut Session) -> Result {
    secret::harden_process().map_err(|error| other(error.to_string()))?;
    let is_output = args.file == Path::new("-");
    if is_output && session.json {
        return Err(usage(
            "the standard output is the sheet; name a file with --json",
        ));
    }
    let roots = roots(args, session)?;
    let key = keys::new_recovery_key(&cipher::SystemRandom)?;
    let facts = SheetFacts::of(&args.name, &roots);
    let page = SheetPage::new(&facts, &key)?;
    let is_pdf = args
        .file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("pdf"));
    let bytes = match is_pdf {
        true => pdf::draw(&page)?,
        false => text::draw(&page)?,
    };
    if !is_output {
        keys::write_private_file(&args.file, bytes.expose())?;
    }
    let slots = add(&roots, &key, session).inspect_err(|_| {
        if !is_output {
            // The key opens nothing.
            let _ = std::fs::remove_file(&args.file);
        }
    })?;
    if is_output {
        let mut output = std::io::stdout().lock();
        let written = output
            .write_all(bytes.expose())
            .and_then(|()| output.flush());
        if let Err(error) = written {
            take_back(&slots, session);
            return Err(other(format!("the sheet cannot be written: {error}")));
        }
        return Ok(Outcome::done());
    }
    if session.json {
        return Ok(Outcome::text(json::show(&slots)));
    }
    let mut text = String::new();
    for SheetSlot { key_root, slot } in &slots {
        text += &format!("{key_root}: slot {slot}\n");
    }
    text += &format!(
        "print {0}, and delete it: it opens the data\n",
        args.file.display()
    );
    Ok(Outcome::text(text))
}

/// The datasets that get the key: each has a wrapping key of its own, which is loaded.
fn roots(args: &KeySheetArgs, session: &mut Session) -> Result<Vec<String>> {
    if !args.recursive {
        // The daemon says why a dataset cannot have a slot.
        return Ok(vec![args.name.clone()]);
    }
    let names = Vec::new();
    let rows = answer!(session.call(command::KeyStatus { names })?, Keys)?;
    let below = format!("{}/", args.name);
    let is_root = |row: &KeyRow| {
        let is_within = row.name == args.name || row.name.starts_with(&below);
        is_within && row.name == row.key_root
    };
    let rows: Vec<KeyRow> = rows.into_iter().filter(is_root).collect();
    if rows.is_empty() {
        return Err(Failure {
            kind: FailureKind::NotFound,
            message: format!("no dataset from '{}' on has a key of its own", args.name),
        });
    }
    match rows.iter().find(|row| row.status != "available") {
        None => Ok(rows.into_iter().map(|row| row.name).collect()),
        Some(row) => Err(Failure {
            kind: FailureKind::NoKey,
            message: format!(
                "the key of '{0}' is not loaded; use 'strongroom key load {0}', and try again",
                row.name
            ),
        }),
    }
}

/// Adds the key to all datasets, or to none.
fn add(roots: &[String], key: &Secret, session: &mut Session) -> Result<Vec<SheetSlot>> {
    let mut slots = Vec::new();
    for root in roots {
        let command = command::KeyAdd {
            name: root.clone(),
            keysource: None,
            priority: 128,
            pbkdf: None,
        };
        let secret = key.try_clone()?;
        let added = session.call_with_secret(command, secret);
        match added.and_then(|reply| answer!(reply, Slot)) {
            Ok(slot) => slots.push(SheetSlot {
                key_root: root.clone(),
                slot,
            }),
            Err(failure) => {
                take_back(&slots, session);
                return Err(failure);
            }
        }
    }
    Ok(slots)
}

/// Removes slots whose key nobody has.
fn take_back(slots: &[SheetSlot], session: &mut Session) {
    for SheetSlot { key_root, slot } in slots {
        let command = command::KeyRemove {
            name: key_root.clone(),
            slot: *slot,
            keysource: None,
            force: false,
        };
        if let Err(failure) = session.call(command) {
            eprintln!(
                "strongroom: slot {slot} of '{key_root}' is left, and nothing opens it; \
                 'strongroom key remove {key_root} {slot}' removes it: {}",
                failure.message
            );
        }
    }
}
