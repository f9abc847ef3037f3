//! The rights of callers. The tests send each request as each kind of caller. They compare the decisions of the
//! daemon with the table in `docs/THREATS.md`.

/// Makes a request from JSON, as the HTTP API has it. A field that is missing has its default.
macro_rules! request {
    ($json:tt) => {
        serde_json::from_value::<protocol::api::Command>(serde_json::json!($json)).unwrap()
    };
}

mod bounds;
mod hashes;
mod hidden_names;
mod interruptions;
mod keys;
mod races;
mod receive_races;
mod samples;
mod scopes;
mod site;
mod tokens;

use std::collections::BTreeMap;

use crate::ops::keys::rewrap_right::NEEDED;
use crate::ops::streams::receive_right::DANGEROUS;
use crate::serve::commands::served;
use crate::serve::decision::Decision;
use crate::serve::dispatch::history_line;
use protocol::api::{Command, FailureKind, Reply};
use protocol::api::{Result, command};
use site::{Right, Site, ZONES};

/// The rights that a delegate needs for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Needs {
    rights: Vec<Right>,
    /// Datasets on which anything has to be allowed.
    something: Vec<String>,
    /// The permissions that are needed later, when the daemon knows the keys and the stream.
    later: Option<Later>,
}

/// Permissions that the daemon asks for after it has looked at more than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    /// On all datasets with the same data keys.
    Keys,
    /// The permissions to bring files into a dataset by a stream.
    Files,
}

impl Later {
    fn permissions(self) -> [&'static str; 2] {
        match self {
            Later::Keys => NEEDED,
            Later::Files => DANGEROUS,
        }
    }

    fn place(self) -> &'static str {
        match self {
            Later::Keys => "where these data keys are",
            Later::Files => "on `fs`, if not off there",
        }
    }
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decided {
    Root,
    Delegate(Needs),
}

struct Row {
    command: Command,
    decided: Decided,
    /// True if a tenant may do this whose dataset has a key of its own, or the key of the zone's root.
    tenant: [bool; 2],
}

fn is_refused<T>(outcome: &Result<T>) -> bool {
    let failure = outcome.as_ref().err();
    failure.is_some_and(|failure| failure.kind == FailureKind::Permission)
}

/// Each request about the datasets of the first zone: as root or a delegate makes it, and as the tenant does about a
/// dataset with its own key and about one with the key of the zone's root.
fn requests() -> Vec<(Command, [Command; 2])> {
    let outside = samples::about("tank/web/fs", "tank/web/to");
    let own = samples::about("web/fs", "web/to");
    let inherited = samples::about("web/sub", "web/to");
    let tenants = own.into_iter().zip(inherited);
    let of_datasets = outside
        .into_iter()
        .zip(tenants.map(|(own, other)| [own, other]));
    let all = samples::of_the_machine().into_iter();
    let of_the_machine = all.map(|command| (command.clone(), [command.clone(), command]));
    of_datasets.chain(of_the_machine).collect()
}

/// The decision of the daemon before it does anything.
fn authorized(site: &Site, command: &Command) -> Decided {
    let may = |has: &dyn Fn(&Right) -> bool| {
        let peer = site.delegate(has);
        let decision = Decision::new(&site.daemon, &peer, None, command.clone());
        let decided = decision.make().map(drop);
        !is_refused(&decided)
    };
    if !may(&|_| true) {
        return Decided::Root;
    }
    let all = site.rights.iter();
    let rights: Vec<Right> = all
        .filter(|right| !may(&|other| other != *right))
        .cloned()
        .collect();
    let mut something: Vec<String> = site.rights.iter().map(|r| r.dataset.clone()).collect();
    something.dedup();
    something.retain(|name| {
        rights.iter().all(|right| right.dataset != *name) && !may(&|right| right.dataset != *name)
    });
    Decided::Delegate(Needs {
        rights,
        something,
        later: None,
    })
}

impl Needs {
    /// Returns whether any permission on any dataset is enough.
    fn is_anywhere(&self) -> bool {
        self.rights.is_empty() && self.something.is_empty()
    }

    /// Returns whether a right is one that the request needs.
    fn has(&self, right: &Right) -> bool {
        // Anything does.
        let is_something = right.permission == "quota"
            && (self.is_anywhere() || self.something.contains(&right.dataset));
        let later = self.later.map(Later::permissions).unwrap_or_default();
        self.rights.contains(right) || is_something || later.contains(&right.permission)
    }
}

/// Has a request made, and says whether it was refused. Then nothing has changed; else the next request finds
/// everything as it was.
fn try_on(site: &mut Site, request: impl Fn(&Site) -> Result<Reply>) -> bool {
    let before = site.state();
    let refused = is_refused(&request(site));
    match refused {
        true => assert_eq!(site.state(), before),
        false if site.state() == before => {}
        false => *site = Site::new(&ZONES[..1]),
    }
    refused
}

/// The table, by trying.
fn rows() -> Vec<Row> {
    let mut site = Site::new(&ZONES[..1]);
    let mut rows = Vec::new();
    for (command, of_tenant) in requests() {
        let mut decided = authorized(&site, &command);
        if let Decided::Delegate(needs) = &mut decided {
            let ask = |site: &Site, needs: &Needs| {
                site.ask_as(&site.delegate(|right| needs.has(right)), &command)
            };
            for later in [None, Some(Later::Keys), Some(Later::Files)] {
                needs.later = later;
                if !try_on(&mut site, |site| ask(site, needs)) {
                    break;
                }
                assert_ne!(
                    later,
                    Some(Later::Files),
                    "{command:?} takes yet another permission"
                );
            }
        }
        let tenant =
            of_tenant.map(|command| !try_on(&mut site, |site| site.ask_in("web", &command)));
        rows.push(Row {
            command,
            decided,
            tenant,
        });
    }
    rows
}

/// The rights that a delegate needs, as text for people.
fn told(decided: &Decided) -> String {
    let Decided::Delegate(needs) = decided else {
        return "refused".into();
    };
    if needs.is_anywhere() {
        return "any on any dataset".into();
    }
    let short = |name: &str| name.replace("tank/web/", "");
    let mut by_dataset: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for right in &needs.rights {
        let of_it = by_dataset.entry(short(&right.dataset)).or_default();
        of_it.push(format!("`{}`", right.permission));
    }
    let mut parts: Vec<String> = by_dataset
        .iter()
        .map(|(name, permissions)| format!("{} on `{name}`", permissions.join(", ")))
        .collect();
    parts.extend(
        needs
            .something
            .iter()
            .map(|name| format!("any on `{}`", short(name))),
    );
    if let Some(later) = needs.later {
        let permissions = later
            .permissions()
            .map(|permission| format!("`{permission}`"));
        parts.push(format!("{} {}", permissions.join(", "), later.place()));
    }
    parts.join("; ")
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| Command | A delegate needs | Tenant, own key | Tenant, key from above |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for row in rows {
        let line = history_line(&*served(row.command.clone())).replace("tank/web/", "");
        let line = line.trim_start_matches("strongroom ").replace('|', "\\|");
        let [own, above] = row.tenant.map(|may| if may { "yes" } else { "no" });
        lines.push(format!(
            "| `{line}` | {} | {own} | {above} |",
            told(&row.decided)
        ));
    }
    lines.dedup();
    lines.join("\n")
}

#[test]
fn the_document_has_the_table_of_rights() {
    let table = table(&rows());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/THREATS.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(
        text.contains(&table),
        "the table of rights in docs/THREATS.md is not what the daemon does. Put this there:\n\n{table}\n"
    );
}

/// Every kind of request has a sample.
#[test]
fn no_command_is_left_out() {
    let requests = requests();
    let seen: Vec<String> = requests.iter().map(|(sample, _)| sample.name()).collect();
    for name in command::names() {
        assert!(seen.contains(&name), "no sample of '{name}'");
    }
}

/// A stranger, and a delegate with each of the rights alone: everything is refused for which that is not enough.
#[test]
fn one_right_gives_nothing_else() {
    let site = Site::new(&ZONES);
    let before = site.state();
    let mut permissions: Vec<&str> = site.rights.iter().map(|right| right.permission).collect();
    permissions.sort_unstable();
    permissions.dedup();
    let requests: Vec<(Command, Decided)> = requests()
        .into_iter()
        .map(|(command, _)| {
            let decided = authorized(&site, &command);
            (command, decided)
        })
        .collect();
    let stranger = site.delegate(|_| false);
    for (command, _) in &requests {
        let outcome = site.ask_as(&stranger, command);
        assert!(is_refused(&outcome), "a stranger: {command:?}: {outcome:?}");
    }
    for permission in permissions {
        let peer = site.delegate(|right| right.permission == permission);
        for (command, decided) in &requests {
            let is_enough = match decided {
                Decided::Root => false,
                Decided::Delegate(needs) => needs
                    .rights
                    .iter()
                    .all(|right| right.permission == permission),
            };
            // What is enough is tried with the table.
            if !is_enough {
                let outcome = site.ask_as(&peer, command);
                assert!(
                    is_refused(&outcome),
                    "{permission}: {command:?}: {outcome:?}"
                );
            }
        }
    }
    assert_eq!(site.state(), before);
}

/// Objects that a caller may not see give the same answers as missing ones.
#[test]
fn what_may_not_be_seen_is_as_if_it_were_not_there() {
    let site = Site::new(&ZONES);
    let before = site.state();
    let delegate = site.delegate(|_| true);
    let (there, gone) = ("tank/other", "tank/absent");
    let told = |outcome: Result<Reply>, about: &Command| match outcome {
        Err(failure) => (failure.kind, failure.message.replace(gone, there)),
        Ok(reply) => panic!("{about:?}: {reply:?}"),
    };
    // Both places, or one of the two, are those of others.
    let places = |at: &str| {
        let (fs, to) = (format!("{at}/fs"), format!("{at}/to"));
        let mut all = samples::about(&fs, &to);
        all.extend(samples::about("tank/web/fs", &to));
        all.extend(samples::about(&fs, "tank/web/to"));
        all.extend(samples::about(at, &to));
        all.push(request!({"set": {"names": [fs], "props": []}}));
        all
    };
    let mut compared = 0;
    for (command, other) in places(there).into_iter().zip(places(gone)) {
        let names = |command: &Command| serde_json::to_string(command).unwrap();
        if names(&command) == names(&other) {
            continue;
        }
        compared += 1;
        let (found, missing) = (
            told(site.ask_as(&delegate, &command), &command),
            told(site.ask_as(&delegate, &other), &other),
        );
        assert_eq!(found, missing, "{command:?}");
        assert_eq!(found.0, FailureKind::Permission, "{command:?}");
    }
    assert!(compared > 100, "{compared}");
    // Nor does a pool that is not there tell what pools there are.
    let names_it = |command: &Command| {
        let text = serde_json::to_string(command).unwrap();
        text.contains("nopool")
    };
    let about = samples::about("nopool/fs", "nopool/to").into_iter();
    for command in about.filter(names_it) {
        let outcome = site.ask_as(&delegate, &command);
        assert!(is_refused(&outcome), "{command:?}: {outcome:?}");
    }
    let [web, other] = ZONES;
    for [zone, neighbour] in [[web, other], [other, web]] {
        for outside in [
            neighbour.to_owned(),
            format!("tank/{neighbour}"),
            format!("tank/{zone}"),
            "tank".to_owned(),
            format!("{zone}b"),
        ] {
            let of = |at: &str| {
                let below = samples::about(&format!("{at}/fs"), &format!("{at}/to"));
                [below, samples::about(at, at)].concat()
            };
            for (command, other) in of(&outside).into_iter().zip(of("absent")) {
                let told = |command: &Command| {
                    let failure = site.ask_in(zone, command).err();
                    failure.map(|f| (f.kind, f.message.replace(&outside, "absent")))
                };
                let (found, missing) = (told(&command), told(&other));
                assert_eq!(found, missing, "{zone}: {command:?}");
            }
        }
    }
    assert_eq!(site.state(), before);
}
