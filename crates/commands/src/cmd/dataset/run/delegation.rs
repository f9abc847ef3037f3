//! Permissions of users and groups.

use std::fmt::Write;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, answer, usage};
use console::show::json;
use console::show::text::in_a_cell;
use protocol::api::{PermissionRow, WhoKind, command};

use crate::cmd::dataset::args::{Allow, DelegationScope, Unallow};

/// A heading is as long as `zfs` makes it.
const WIDTH: usize = 70;

pub(crate) fn allow(args: Allow, session: &mut Session) -> Result {
    if let [name] = &args.words[..] {
        return show(name, session);
    }
    let change = change(args.how, args.words, false)?;
    call_quiet(session, change)
}

pub(crate) fn unallow(args: Unallow, session: &mut Session) -> Result {
    let change = change(args.how, args.words, true)?;
    call_quiet(session, change)
}

/// The meaning of the words: the dataset is the last, and everyone needs no name.
fn change(
    how: DelegationScope,
    mut words: Vec<String>,
    remove: bool,
) -> Result<command::ChangePermissions> {
    let unclear = || usage("name users, permissions and a dataset; 'help allow' has examples");
    let name = words.pop().ok_or_else(unclear)?;
    let mut words = words.into_iter();
    let who = match how.everyone || how.creator {
        true => Some("everyone".to_owned()),
        false => words.next(),
    };
    let permissions = words.next().unwrap_or_default();
    if words.next().is_some() || (permissions.is_empty() && !remove) {
        return Err(unclear());
    }
    let list = |text: String| -> Vec<String> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let kinds = [
        (how.user, WhoKind::User),
        (how.group, WhoKind::Group),
        (how.everyone, WhoKind::Everyone),
        (how.creator, WhoKind::Creator),
        (how.set, WhoKind::Set),
    ];
    let kind = kinds.into_iter().find(|(is_meant, _)| *is_meant);
    let kind = kind.map(|(_, kind)| kind);
    let both = how.local == how.descendent;
    Ok(command::ChangePermissions {
        name,
        remove,
        who: list(who.ok_or_else(unclear)?),
        kind,
        permissions: list(permissions),
        local: both || how.local,
        below: both || how.descendent,
    })
}

fn show(name: &str, session: &mut Session) -> Result {
    let name = name.to_owned();
    let rows = answer!(session.call(command::Permissions { name })?, Permissions)?;
    Ok(Outcome::text(match session.json {
        true => json::show(&rows),
        false => text(&rows),
    }))
}

/// Shows permissions as `zfs allow` does.
fn text(rows: &[PermissionRow]) -> String {
    let mut out = String::new();
    let mut shown: Vec<&str> = Vec::new();
    for PermissionRow { dataset, .. } in rows {
        if shown.contains(&dataset.as_str()) {
            continue;
        }
        shown.push(dataset);
        let heading = format!("---- Permissions on {} ", in_a_cell(dataset));
        let _ = writeln!(out, "{heading:-<WIDTH$}");
        let of_it = |scope| {
            let of_it = rows.iter().filter(|row| row.dataset == *dataset);
            of_it.filter(move |row| row.scope == scope)
        };
        for (scope, title) in [
            ("set", "Permission sets"),
            ("create", "Create time permissions"),
            ("local", "Local permissions"),
            ("descendent", "Descendent permissions"),
            ("local+descendent", "Local+Descendent permissions"),
        ] {
            if of_it(scope).next().is_some() {
                let _ = writeln!(out, "{title}:");
            }
            for row in of_it(scope) {
                let who = match row.kind {
                    WhoKind::User => format!("user {} ", in_a_cell(&row.name)),
                    WhoKind::Group => format!("group {} ", in_a_cell(&row.name)),
                    WhoKind::Everyone => "everyone ".into(),
                    WhoKind::Set => format!("{} ", in_a_cell(&row.name)),
                    WhoKind::Creator => String::new(),
                };
                let _ = writeln!(out, "\t{who}{}", in_a_cell(&row.permissions.join(",")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(everyone: bool, local: bool) -> DelegationScope {
        DelegationScope {
            local,
            descendent: false,
            user: false,
            group: false,
            everyone,
            creator: false,
            set: false,
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn the_dataset_comes_last() {
        let made = change(how(false, true), words("ann,bob create,mount tank"), false).unwrap();
        assert_eq!(made.who, ["ann", "bob"]);
        assert_eq!(made.permissions, ["create", "mount"]);
        assert_eq!((made.local, made.below), (true, false));
        let made = change(how(true, false), words("hold tank/a"), false).unwrap();
        assert_eq!(
            (made.name.as_str(), made.kind),
            ("tank/a", Some(WhoKind::Everyone))
        );
        assert_eq!((made.local, made.below), (true, true));
        let made = change(how(false, false), words("ann tank/a"), true).unwrap();
        assert!(made.permissions.is_empty() && made.remove);
        for wrong in ["ann tank", "tank"] {
            assert!(change(how(false, false), words(wrong), false).is_err());
        }
        assert!(change(how(false, false), words("tank"), true).is_err());
        assert!(change(how(true, false), words("ann create tank"), false).is_err());
    }
}
