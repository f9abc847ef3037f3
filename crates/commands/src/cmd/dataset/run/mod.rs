//! Making, destroying, renaming datasets and snapshots, and setting properties.

pub(crate) mod copy;
pub(crate) mod delegation;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod properties;
mod select;
mod shred;
pub(crate) mod userspace;

use console::outcome::{Outcome, Result, call_names, call_quiet};
use console::session::{Session, answer, usage};
use console::show::properties::canonical;
use console::show::{json, size};
use console::values::property;
use protocol::api::{NewVolume, Props, command};

use crate::cmd::dataset::args::{CreateArgs, DestroyArgs, Inherit, RenameArgs, Set};
use crate::cmd::sure::may_destroy;

pub(crate) fn create(args: CreateArgs, session: &mut Session) -> Result {
    let command = command::Create {
        name: args.name.clone(),
        props: args.props,
        parents: args.parents,
        no_mount: args.no_mount,
        volume: args.volume.map(|size| NewVolume {
            size,
            sparse: args.sparse,
        }),
        dry_run: args.dry_run,
    };
    let is_shown = args.verbose || args.parsable;
    let props = command.props.clone();
    let names = call_names(session, command)?;
    Ok(match (is_shown || args.dry_run) && session.json {
        true => Outcome::text(json::show(&names)),
        false if is_shown => created(&names, &props, &args.name, args.parsable, args.dry_run),
        false => Outcome::done(),
    })
}

/// Prints what was created, or would be, as `zfs create -v` and `-P` say it.
fn created(
    names: &[String],
    props: &Props,
    last: &str,
    is_parsable: bool,
    is_dry: bool,
) -> Outcome {
    let mut text = String::new();
    for name in names {
        text += &match (is_parsable, is_dry) {
            (true, _) => format!("create\t{name}\n"),
            (false, true) => format!("would create {name}\n"),
            (false, false) => format!("create {name}\n"),
        };
        for (key, value) in props.iter().filter(|_| name == last) {
            text += &match is_parsable {
                true => format!("property\t{key}\t{value}\n"),
                false => format!("\t{key}={value}\n"),
            };
        }
    }
    Outcome::text(text)
}

pub(crate) fn destroy(args: DestroyArgs, session: &mut Session) -> Result {
    if args.name.contains('#') {
        if args.shred || args.recursive || args.clones || args.dry_run || args.defer {
            return Err(usage(
                "a bookmark holds no data, and is destroyed alone: leave out -d, -n, -r, -R and --shred",
            ));
        }
        return call_quiet(session, command::DestroyBookmark { name: args.name });
    }
    if args.shred {
        return shred::run(&args, session);
    }
    if args.defer {
        return destroy_later(&args, session);
    }
    let ask = |dry_run| command::Destroy {
        name: args.name.clone(),
        recursive: args.recursive,
        clones: args.clones,
        force: args.force,
        dry_run,
    };
    if args.dry_run {
        let doomed = answer!(session.call(ask(true))?, Doomed)?;
        if session.json && args.verbose {
            return Ok(Outcome::text(json::show(&doomed)));
        }
        let mut outcome = report(&doomed.destroyed, "would destroy", session.json);
        if args.verbose {
            let freed = size::human(doomed.freed);
            outcome.text += &format!("would free {freed}\n");
        }
        return Ok(outcome);
    }
    may_destroy(&args, || {
        let doomed = answer!(session.call(ask(true))?, Doomed)?;
        Ok(doomed.destroyed)
    })?;
    let names = call_names(session, ask(false))?;
    match args.verbose {
        true => Ok(report(&names, "destroyed", session.json)),
        false => Ok(Outcome::done()),
    }
}

fn destroy_later(args: &DestroyArgs, session: &mut Session) -> Result {
    let ask = |session: &mut Session, dry_run| {
        let command = command::DestroyLater {
            name: args.name.clone(),
            recursive: args.recursive,
            force: args.force,
            dry_run,
        };
        answer!(session.call(command)?, Deferred)
    };
    if !args.dry_run {
        may_destroy(args, || {
            let report = ask(session, true)?;
            Ok([report.destroyed, report.later].concat())
        })?;
    }
    let report = ask(session, args.dry_run)?;
    if session.json {
        return Ok(Outcome::text(json::show(&report)));
    }
    let (now, later) = match args.dry_run {
        true => ("would destroy", "would destroy later"),
        false => ("destroyed", "will destroy"),
    };
    let text = lines(&report.destroyed, now) + &lines(&report.later, later);
    match args.dry_run || args.verbose {
        true => Ok(Outcome::text(text)),
        false => Ok(Outcome::done()),
    }
}

fn report(names: &[String], what: &str, as_json: bool) -> Outcome {
    if as_json {
        return Outcome::text(json::show(&names));
    }
    Outcome::text(lines(names, what))
}

fn lines(names: &[String], what: &str) -> String {
    names
        .iter()
        .map(|name| format!("{what} {name}\n"))
        .collect()
}

pub(crate) fn rename(args: RenameArgs, session: &mut Session) -> Result {
    let command = command::Rename {
        to: renamed(&args.from, args.to),
        from: args.from,
        recursive: args.recursive,
        parents: args.parents,
        force: args.force,
    };
    call_quiet(session, command)
}

/// The new name in full: of a snapshot, the dataset may be left out.
fn renamed(from: &str, to: String) -> String {
    match from.split_once('@') {
        Some((dataset, _)) if to.starts_with('@') => format!("{dataset}{to}"),
        Some((dataset, _)) if !to.contains(['@', '/']) => format!("{dataset}@{to}"),
        _ => to,
    }
}

pub(crate) fn set(args: Set, session: &mut Session) -> Result {
    let (props, names) = split(&args.words)?;
    let command = command::Set {
        names,
        props,
        force: args.force,
    };
    call_quiet(session, command)
}

/// Properties first, then datasets, whose names cannot have a `=` in them.
fn split(words: &[String]) -> Result<(Props, Vec<String>)> {
    let count = words.iter().take_while(|word| word.contains('=')).count();
    let (props, names) = words.split_at(count);
    if props.is_empty() {
        return Err(usage(
            "write what to set as PROPERTY=VALUE, before the datasets",
        ));
    }
    if names.is_empty() {
        return Err(usage("name a dataset after the properties"));
    }
    if let Some(late) = names.iter().find(|name| name.contains('=')) {
        return Err(usage(format!("write '{late}' before the datasets")));
    }
    let props: std::result::Result<Props, String> =
        props.iter().map(|word| property(word)).collect();
    Ok((props.map_err(usage)?, names.to_vec()))
}

pub(crate) fn inherit(args: Inherit, session: &mut Session) -> Result {
    let command = command::Inherit {
        names: args.names,
        prop: canonical(&args.property).into(),
        recursive: args.recursive,
    };
    call_quiet(session, command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_renamed_in_their_dataset() {
        for (from, to, whole) in [
            ("tank/a", "tank/b", "tank/b"),
            ("tank/a@x", "@y", "tank/a@y"),
            ("tank/a@x", "y", "tank/a@y"),
            ("tank/a@x", "tank/a@y", "tank/a@y"),
            ("tank/a@x", "tank/b", "tank/b"),
        ] {
            assert_eq!(renamed(from, to.into()), whole);
        }
    }

    #[test]
    fn properties_come_before_datasets() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let (props, names) = split(&words("compress=lz4 atime=off tank tank/a")).unwrap();
        assert_eq!(props[0], ("compression".into(), "lz4".into()));
        assert_eq!(props[1], ("atime".into(), "off".into()));
        assert_eq!(names, ["tank", "tank/a"]);
        for wrong in [
            "tank atime=off",
            "atime=off compress=lz4",
            "atime=off tank x=y",
            "=off tank",
        ] {
            assert!(split(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
