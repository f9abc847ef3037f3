//! Writes the units.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use console::outcome::{Outcome, Result};
use console::session::other;
use console::show::text;
use protocol::api::Failure;

use super::args::{Generate, GenerateSystemd};
use super::table::{FieldLine, lines};
use super::unit::Unit;
use super::{containers, mounts};

pub(crate) fn run(args: Generate) -> Result {
    match args {
        Generate::Systemd(args) => systemd(&args),
    }
}

fn systemd(args: &GenerateSystemd) -> Result {
    // In the first root there are neither pools nor a daemon.
    if std::env::var_os("SYSTEMD_IN_INITRD").is_some_and(|value| value == "1") {
        return Ok(Outcome::done());
    }
    let early = args.early.as_ref().unwrap_or(&args.normal);
    let program = std::env::current_exe().map_err(|error| other(error.to_string()))?;
    let program = program.to_string_lossy();
    let mut failures = Vec::new();
    each(
        &args.fstab,
        early,
        &mut failures,
        mounts::unit,
        mounts::warning,
    )?;
    each(
        &args.crypttab,
        &args.normal,
        &mut failures,
        |line, source| containers::unit(line, source, &program).map(Some),
        |_| None,
    )?;
    Ok(Outcome {
        failures,
        ..Outcome::done()
    })
}

/// Writes the unit of each line of a file. A line that is wrong keeps no other from its unit.
fn each(
    table: &Path,
    dir: &Path,
    failures: &mut Vec<Failure>,
    unit: impl Fn(&FieldLine, &str) -> std::result::Result<Option<Unit>, String>,
    warning: impl Fn(&FieldLine) -> Option<String>,
) -> Result<()> {
    let table_text = match fs::read(table) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(other(format!("cannot read {}: {error}", table.display()))),
    };
    let source = table.display().to_string();
    for line in lines(&table_text) {
        let made = unit(&line, &source).and_then(|unit| match unit {
            Some(unit) => write(dir, &unit).map_err(|error| {
                format!("cannot write {} in {}: {error}", unit.name, dir.display())
            }),
            None => Ok(()),
        });
        if let Some(warning) = warning(&line).filter(|_| made.is_ok()) {
            text::complain(&format!("{source}, line {}: {warning}", line.number));
        }
        if let Err(why) = made {
            failures.push(other(format!("{source}, line {}: {why}", line.number)));
        }
    }
    Ok(())
}

fn write(dir: &Path, unit: &Unit) -> io::Result<()> {
    let path = dir.join(&unit.name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // No symbolic link is followed.
    File::create_new(path)?.write_all(unit.text.as_bytes())?;
    for links in &unit.pulled_by {
        fs::create_dir_all(dir.join(links))?;
        let link = dir.join(links).join(&unit.name);
        match std::os::unix::fs::symlink(format!("../{}", unit.name), &link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}
